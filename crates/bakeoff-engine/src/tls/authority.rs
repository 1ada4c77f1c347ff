//! Issues certificates for servers that bakeoff starts. Each cluster has its own short-lived authority.
//!
//! Keys are ECDSA on P-256, the usual choice today: a handshake costs a server little, and every client can verify
//! it. Certificates name the node's address and the loopback names.
//!
//! The authority's key is never written to disk. A server's key is, in its node's directory; create that file with
//! `FileMode::Private`.
//!
//! Not here: the authorities that a study or a user trusts (`tls`).

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::builder;
use crate::LoadError;

/// Names of a node on loopback.
pub const LOOPBACK: &[&str] = &["127.0.0.1", "::1", "localhost"];

/// Signs the certificates of one cluster's servers.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// Holds an authority's certificate as PEM, in `Memory`, for clients other than bakeoff's own.
pub struct CaPem(pub String);

/// Holds a server's certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// Certificate as PEM. Clients that trust the authority need no other.
    pub cert_pem: String,
    /// Key as PKCS #8. A secret: its file must be `FileMode::Private`.
    pub key_pem: String,
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new() -> Result<Self, LoadError> {
        let made = KeyPair::generate().and_then(|key| {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.distinguished_name.push(DnType::CommonName, "bakeoff, for one cluster");
            let certificate = params.self_signed(&key)?;
            Ok(Self { issuer: Issuer::new(params, key), certificate })
        });
        made.map_err(unmade)
    }

    /// Issues a certificate for a server that clients reach under these names or addresses; at least one, normally
    /// [`LOOPBACK`]. It is also valid for clients, because nodes are clients of each other.
    pub fn server(&self, names: &[&str]) -> Result<Identity, LoadError> {
        let made = KeyPair::generate().and_then(|key| {
            let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let first = names.first().cloned().unwrap_or_default();
            let mut params = CertificateParams::new(names)?;
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            params.distinguished_name.push(DnType::CommonName, first);
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Identity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
        });
        made.map_err(unmade)
    }

    /// Issues a certificate for a server at this address, which also names loopback.
    pub fn server_at(&self, address: IpAddr) -> Result<Identity, LoadError> {
        let address = address.to_string();
        let own = Some(&*address).filter(|own| !LOOPBACK.contains(own));
        self.server(&LOOPBACK.iter().copied().chain(own).collect::<Vec<_>>())
    }

    /// Issues a certificate for a workload of a service mesh, identified by a URI such as
    /// `spiffe://cluster.local/ns/default/sa/gateway`. It is valid for servers and clients.
    pub fn workload(&self, uri: &str) -> Result<Identity, LoadError> {
        let made = rcgen::string::Ia5String::try_from(uri).and_then(|uri| {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(Vec::new())?;
            params.subject_alt_names = vec![SanType::URI(uri)];
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            // Without a subject the certificate would have to mark its names as critical.
            params.distinguished_name.push(DnType::CommonName, "a workload of bakeoff's");
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Identity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
        });
        made.map_err(unmade)
    }

    /// Returns the authority's own certificate as PEM, for servers and tools that verify each other.
    pub fn ca_pem(&self) -> String {
        self.certificate.pem()
    }

    /// Returns a client configuration that trusts only this authority and offers the protocols `alpn`.
    pub fn client_config(&self, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, LoadError> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(self.certificate.der().to_vec()))
            .map_err(|error| LoadError::Machine(format!("TLS cannot be set up: {error}")))?;
        let mut config = builder()?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

fn unmade(error: rcgen::Error) -> LoadError {
    LoadError::Machine(format!("a certificate cannot be made: {error}"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    use super::*;

    /// Runs a handshake in memory. Returns the negotiated protocol, or the error.
    fn shake(
        identity: &Identity,
        trusting: &Authority,
        name: &str,
    ) -> Result<Option<Vec<u8>>, rustls::Error> {
        let certificates = CertificateDer::pem_slice_iter(identity.cert_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates.map(Result::unwrap).collect(), key)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let config = trusting.client_config(&[b"http/1.1"]).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets()?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(client.alpn_protocol().map(<[u8]>::to_vec))
    }

    #[test]
    fn server_is_trusted_under_its_names_with_its_authority() {
        let authority = Authority::new().unwrap();
        let identity = authority.server(LOOPBACK).unwrap();
        for name in LOOPBACK {
            assert_eq!(shake(&identity, &authority, name).unwrap().unwrap(), b"http/1.1", "{name}");
        }
        let wrong = [
            shake(&identity, &authority, "127.0.0.2"),
            shake(&identity, &authority, "elsewhere.invalid"),
            shake(&identity, &Authority::new().unwrap(), "127.0.0.1"),
        ];
        for shaken in wrong {
            assert!(matches!(shaken, Err(rustls::Error::InvalidCertificate(_))), "{shaken:?}");
        }
    }

    #[test]
    fn server_is_trusted_only_at_its_own_address() {
        let authority = Authority::new().unwrap();
        for own in ["127.0.0.2", "192.0.2.7", "2001:db8::7"] {
            let identity = authority.server_at(own.parse().unwrap()).unwrap();
            for name in LOOPBACK.iter().chain([&own]) {
                assert!(shake(&identity, &authority, name).is_ok(), "{name} of {own}");
            }
            let shaken = shake(&identity, &authority, "192.0.2.8");
            assert!(matches!(shaken, Err(rustls::Error::InvalidCertificate(_))), "{shaken:?}");
        }
    }

    #[test]
    fn each_server_has_its_own_key_and_the_authority_exposes_none() {
        let authority = Authority::new().unwrap();
        let (one, other) =
            (authority.server(LOOPBACK).unwrap(), authority.server(LOOPBACK).unwrap());
        assert_ne!(one.key_pem, other.key_pem);
        assert_ne!(one.cert_pem, other.cert_pem);
        let shown = authority.ca_pem();
        assert!(shown.contains("BEGIN CERTIFICATE") && !shown.contains("PRIVATE KEY"), "{shown}");
        assert!(!one.cert_pem.contains("PRIVATE KEY"));
    }
}
