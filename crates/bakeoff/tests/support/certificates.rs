//! Certificates for servers that a test starts, and a server that has them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

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

    /// Starts a server that answers `hello` over TLS, one request a connection or as many as come.
    pub(crate) fn server(&self) -> SocketAddr {
        let chain = CertificateDer::pem_file_iter(self.path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let config = config.clone();
                std::thread::spawn(move || {
                    accept(StreamOwned::new(ServerConnection::new(config).unwrap(), socket));
                });
            }
        });
        address
    }
}

/// Answers requests without bodies until the client goes.
fn accept(mut stream: StreamOwned<ServerConnection, TcpStream>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..count]);
        if received.ends_with(b"\r\n\r\n") {
            received.clear();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}
