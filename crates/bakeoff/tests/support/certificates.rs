//! Certificates for servers that a test starts.

use std::path::PathBuf;

/// A certificate authority and a server's certificate for 127.0.0.1, as PEM files.
pub(crate) struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
        let dir = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            let certificate = params.self_signed(&key).unwrap();
            (certificate.pem(), Issuer::new(params, key))
        };
        let (ca, issuer) = authority("a test's authority");
        let (other, _) = authority("somebody else");
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let files = [
            ("ca.pem", ca),
            ("other.pem", other),
            ("server.pem", certificate.pem()),
            ("server.key", key.serialize_pem()),
        ];
        for (name, pem) in files {
            std::fs::write(dir.path().join(name), pem).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
