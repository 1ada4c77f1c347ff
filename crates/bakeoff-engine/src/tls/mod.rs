//! Whom a TLS client trusts, and what it shows of itself.
//!
//! rustls with ring. A study's clusters have private authorities, so with no `ca` given it trusts
//! nobody unless it says `insecure`. A URL or a service that is loaded may be anybody's: there the
//! machine's own authorities are trusted.
//!
//! Not here: certificates for servers that are started (`authority`).

mod authority;

use std::path::Path;
use std::sync::Arc;

use bakeoff_core::study::Tls;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};

use crate::LoadError;

pub use authority::{Authority, CaPem, Identity, LOOPBACK};

/// Whom to trust where nobody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// No authority: a server is refused unless the study says `insecure`.
    Nobody,
    /// The authorities that this machine trusts.
    Machine,
}

/// The client's side of TLS as it is asked for, offering the protocols `alpn`.
pub fn client_config(
    tls: Option<&Tls>,
    otherwise: Trust,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, LoadError> {
    let builder = builder()?;
    let provider = builder.crypto_provider().clone();
    let builder = if tls.is_some_and(|tls| tls.insecure) {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        let mut roots = RootCertStore::empty();
        if let Some(path) = tls.and_then(|tls| tls.ca.as_deref()) {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error.to_string()))?;
            }
        } else if otherwise == Trust::Machine {
            // Machines have certificates among theirs that cannot be used; those are left out.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(LoadError::input(
                    "this machine has no list of certificate authorities",
                    "name one: `--ca FILE`, or in a study `tls: {ca: FILE}`",
                ));
            }
        }
        if roots.is_empty() {
            return Err(LoadError::input(
                "an `https` endpoint needs to know whom to trust",
                "give `tls: {ca: FILE}`, or `tls: {insecure: true}` to trust anybody",
            ));
        }
        builder.with_root_certificates(roots)
    };
    let identity = tls.and_then(|tls| Some((tls.cert.as_deref()?, tls.key.as_deref()?)));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let key_der = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unusable(key, &error.to_string()))?;
            builder
                .with_client_auth_cert(certificates(cert)?, key_der)
                .map_err(|error| unusable(key, &error.to_string()))?
        }
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

/// The client's side that trusts the authorities of this PEM text alone, offering the protocols `alpn`.
///
/// # Errors
/// When the text holds no certificate.
pub fn client_config_of_pem(pem: &str, alpn: Vec<Vec<u8>>) -> Result<Arc<ClientConfig>, LoadError> {
    let unsound = |why: String| LoadError::Machine(format!("an authority cannot be used: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unsound(error.to_string()))?;
        roots.add(certificate).map_err(|error| unsound(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unsound("it holds no certificate".to_owned()));
    }
    let mut config = builder()?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn;
    Ok(Arc::new(config))
}

/// Of how many servers sessions are remembered: rustls's default.
const SESSIONS_MAX: usize = 256;

/// The same side, each of whose connections is a first visit.
pub fn without_resumption(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// The same side, which takes up sessions that it had itself and no others.
pub fn with_sessions_of_its_own(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    Arc::new(config)
}

/// Settings that all clients have in common.
fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, LoadError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| LoadError::Machine(format!("TLS cannot be set up: {error}")))
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let read = CertificateDer::pem_file_iter(Path::new(path))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path, &error.to_string()))?;
    if read.is_empty() { Err(unusable(path, "it holds no certificate")) } else { Ok(read) }
}

fn unusable(path: &str, why: &str) -> LoadError {
    LoadError::input(format!("`{path}` cannot be used for TLS: {why}"), "PEM files are expected")
}

/// Trusts any certificate, as `insecure: true` asks for; signatures are still verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
