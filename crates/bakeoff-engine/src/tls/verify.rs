//! Verifies the certificates of servers, including home-made ones.
//!
//! `openssl req -x509` makes a certificate that is its own authority, and some tools still make X.509 version 1. Path
//! validation (RFC 5280 section 6) accepts neither for a server. If such a certificate is given as `ca`, the user
//! trusts this very server. Its name and dates are then checked, and the handshake proves that the server has the
//! key.
//!
//! Not here: the choice of trusted certificates (`tls`), the words for refusals (`refusal`).

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Trusts certificates signed by the authorities, and the given certificates themselves.
#[derive(Debug)]
pub(super) struct Verifier {
    given: Vec<CertificateDer<'static>>,
    paths: Arc<WebPkiServerVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(
        given: Vec<CertificateDer<'static>>,
        paths: Arc<WebPkiServerVerifier>,
        provider: &CryptoProvider,
    ) -> Self {
        Self { given, paths, algorithms: provider.signature_verification_algorithms }
    }

    fn is_given(&self, certificate: &CertificateDer<'_>) -> bool {
        self.given.iter().any(|given| given == certificate)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_given(end_entity) {
            let certificate = parsed(end_entity)?;
            check_dates(&certificate, now)?;
            check_name(&certificate, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.paths.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.is_given(certificate) {
            return verify_by_key(message, certificate, signed, &self.algorithms);
        }
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.is_given(certificate) {
            let parsed = parsed(certificate)?;
            let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
            return verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms);
        }
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Trusts any certificate, as `insecure: true` requests. Signatures prove nothing then and are not checked. The
/// certificate may even be unreadable.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Vec<SignatureScheme>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

fn parsed<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    let read = X509Certificate::from_der(certificate);
    read.map(|(_, certificate)| certificate).map_err(|_| CertificateError::BadEncoding.into())
}

fn check_dates(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let validity = certificate.validity();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Checks a name against a certificate's alternative names, or against its common name if it has none: version 1 has
/// no alternative names.
fn check_name(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let names = certificate.subject_alternative_name().ok().flatten();
    let matches = match names {
        Some(names) => names.value.general_names.iter().any(|one| match (one, name) {
            (GeneralName::DNSName(one), ServerName::DnsName(name)) => is_dns(one, name.as_ref()),
            (GeneralName::IPAddress(one), ServerName::IpAddress(name)) => {
                match IpAddr::from(*name) {
                    IpAddr::V4(address) => *one == address.octets(),
                    IpAddr::V6(address) => *one == address.octets(),
                }
            }
            _ => false,
        }),
        None => {
            let mut common = certificate.subject().iter_common_name();
            common.any(|one| one.as_str().is_ok_and(|one| is_dns(one, &name.to_str())))
        }
    };
    if matches { Ok(()) } else { Err(CertificateError::NotValidForName.into()) }
}

/// Returns true if `name` matches the presented name, whose first label may be `*` (RFC 6125 section 6.4.3).
fn is_dns(presented: &str, name: &str) -> bool {
    let name = name.trim_end_matches('.');
    match presented.strip_prefix("*.") {
        Some(rest) => name.split_once('.').is_some_and(|(_, of)| of.eq_ignore_ascii_case(rest)),
        None => presented.eq_ignore_ascii_case(name),
    }
}

/// Verifies a TLS 1.2 signature by the key of a certificate of any X.509 version.
fn verify_by_key(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = parsed(certificate)?;
    let key = &certificate.public_key().subject_public_key.data;
    let of_scheme = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let mut verifiers = of_scheme.into_iter().flat_map(|(_, verifiers)| *verifiers);
    match verifiers.any(|one| one.verify_signature(key, message, signed.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};

    use super::*;
    use crate::tls::{Pem, PemText, TlsOptions, Trust, refusal};

    /// Key and self-signed X.509 version 1 certificate for `localhost`: `openssl req -new -subj /CN=localhost …;
    /// openssl x509 -req -signkey …`.
    const VERSION_1: &str = include_str!("testing/version-1.pem");

    /// Returns a key and a certificate as `openssl req -x509` makes it: its own authority, for `localhost`.
    fn own_authority(years: std::ops::Range<i32>) -> String {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem() + &key.serialize_pem()
    }

    fn trusting(ca: Option<&str>) -> TlsOptions {
        let text = |text: &str| PemText { name: "ca".to_owned(), text: text.to_owned() };
        TlsOptions {
            ca: ca.map(|ca| Pem::Text(text(ca))),
            insecure: ca.is_none(),
            ..TlsOptions::default()
        }
    }

    /// Runs a TLS handshake in memory with a server that has this certificate and key.
    fn shake(
        server: &str,
        options: &TlsOptions,
        name: &str,
        version: &'static SupportedProtocolVersion,
    ) -> Result<(), String> {
        let certificate = CertificateDer::from_pem_slice(server.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(server.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = provider.key_provider.load_private_key(key).unwrap();
        let certified = rustls::sign::CertifiedKey::new(vec![certificate], key);
        let resolver = rustls::sign::SingleCertAndKey::from(certified);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        let config = options.client_config(Trust::Nobody, &[]).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().map_err(|error| error.to_string())?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets().map_err(|error| refusal::text(&error))?;
        }
        Ok(())
    }

    #[test]
    fn given_certificate_is_trusted_for_its_name_and_dates() {
        let own = own_authority(2020..2200);
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            for server in [own.as_str(), VERSION_1] {
                assert_eq!(shake(server, &trusting(Some(server)), "localhost", version), Ok(()));
                assert_eq!(shake(server, &trusting(None), "anything", version), Ok(()));
                let other = shake(server, &trusting(Some(server)), "other", version);
                assert_eq!(other, Err("its certificate is for another name".to_owned()));
            }
            let old = own_authority(2020..2021);
            let expired = shake(&old, &trusting(Some(&old)), "localhost", version);
            assert_eq!(expired, Err("its certificate has expired".to_owned()));
            let early = own_authority(2190..2200);
            let early = shake(&early, &trusting(Some(&early)), "localhost", version);
            assert_eq!(early, Err("its certificate is not valid yet".to_owned()));
        }
    }

    #[test]
    fn unknown_certificate_is_refused_with_our_own_message() {
        let (own, other) = (own_authority(2020..2200), own_authority(2020..2200));
        let version = &rustls::version::TLS13;
        for server in [own.as_str(), VERSION_1] {
            let refused = shake(server, &trusting(Some(&other)), "localhost", version).unwrap_err();
            assert!(refused.starts_with("its certificate is "), "{refused}");
            assert!(!refused.contains("http") && !refused.contains("Error"), "{refused}");
        }
    }

    #[test]
    fn wildcard_matches_one_label() {
        assert!(is_dns("a.example", "A.example"));
        assert!(is_dns("*.example", "a.example."));
        assert!(!is_dns("*.example", "a.b.example"));
        assert!(!is_dns("*.example", "example"));
    }
}
