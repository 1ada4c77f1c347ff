//! Certificates for servers that are started here: an authority of one cluster's own, made as the
//! cluster is, and gone with it.
//!
//! ECDSA on P-256, which is what servers of today are mostly given: a handshake costs a server
//! little, and every client can verify it. Names are those under which a node can be asked for: its address, and
//! those of loopback.
//!
//! The authority's key is never written anywhere. A server's key is, in its node's directory; the
//! file is to be `FileMode::Private`.
//!
//! Not here: whom a client trusts that a study or a user names (`tls`).

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

/// The names of a node on loopback.
pub const LOOPBACK: &[&str] = &["127.0.0.1", "::1", "localhost"];

/// Signs the certificates of one cluster's servers.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// An authority's certificate as PEM, for `Memory`: whom a client has to trust that is not ours.
pub struct CaPem(pub String);

/// A server's certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// The server's certificate; who trusts the authority needs no other.
    pub cert_pem: String,
    /// Its key, PKCS #8. A secret: its file must be `FileMode::Private`.
    pub key_pem: String,
}

impl Authority {
    /// An authority with a new key.
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

    /// A certificate for a server that is asked for under these names or addresses, at least one:
    /// [`LOOPBACK`] as a rule. It is good for a client's side too, as nodes are each other's
    /// clients.
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

    /// A certificate for a server that listens at an address: for that, and for the names of a node on loopback.
    pub fn server_at(&self, address: IpAddr) -> Result<Identity, LoadError> {
        let address = address.to_string();
        let own = Some(&*address).filter(|own| !LOOPBACK.contains(own));
        self.server(&LOOPBACK.iter().copied().chain(own).collect::<Vec<_>>())
    }

    /// A certificate for a workload of a mesh, which is known by a URI:
    /// `spiffe://cluster.local/ns/default/sa/gateway`. It is good for both sides.
    pub fn workload(&self, uri: &str) -> Result<Identity, LoadError> {
        let made = rcgen::string::Ia5String::try_from(uri).and_then(|uri| {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(Vec::new())?;
            params.subject_alt_names = vec![SanType::URI(uri)];
            params.use_authority_key_identifier_extension = true;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages =
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            // A certificate without a subject has to mark its names as critical; this has a subject.
            params.distinguished_name.push(DnType::CommonName, "a workload of bakeoff's");
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Identity { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
        });
        made.map_err(unmade)
    }

    /// The authority's own certificate, for servers and tools that verify each other.
    pub fn ca_pem(&self) -> String {
        self.certificate.pem()
    }

    /// The client's side for servers of this authority, which trusts nobody else, offering the
    /// protocols `alpn`.
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

    /// Shakes hands in memory: the protocol agreed on, or why there was no agreement.
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
    fn a_server_is_trusted_under_its_names_by_those_who_trust_its_authority() {
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
    fn a_server_is_trusted_at_its_own_address_and_at_no_other() {
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
    fn each_server_has_a_key_of_its_own_and_the_authority_shows_none() {
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
