//! Whom a TLS client trusts, and what it shows of itself.
//!
//! rustls with ring. A study's clusters have private authorities, so with no `ca` given it trusts
//! nobody unless it says `insecure`. A URL or a service that is loaded may be anybody's: there the
//! machine's own authorities are trusted.
//!
//! Not here: certificates for servers that are started (`authority`).

mod authority;
pub mod refusal;
mod verify;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bakeoff_core::study::Tls;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use serde::{Deserialize, Serialize};

use self::verify::{AnyCertificate, Verifier};
use crate::LoadError;

pub use authority::{Authority, CaPem, Identity, LOOPBACK};

/// Whom to trust where nobody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// No authority: a server is refused unless the study says `insecure`.
    Nobody,
    /// The authorities that this machine trusts.
    Machine,
}

/// A PEM file, or its text where the file is another machine's or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    /// The file.
    File(PathBuf),
    /// The text.
    Text(PemText),
}

/// The text of a PEM file. It may be a private key: it goes to other machines over an agent's pipe and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PemText {
    /// Names it in errors.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Shows the name alone.
impl fmt::Debug for PemText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Pem {
    fn name(&self) -> Cow<'_, str> {
        match self {
            Self::File(path) => path.to_string_lossy(),
            Self::Text(text) => (&*text.name).into(),
        }
    }

    /// Returns the file, where it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }

    /// Returns its text, for another machine.
    ///
    /// # Errors
    /// When the file cannot be read as text.
    pub fn read(&self) -> Result<PemText, LoadError> {
        let name = self.name().into_owned();
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => match fs::read_to_string(path) {
                Ok(text) => Ok(PemText { name, text }),
                Err(error) => Err(self.unusable(&error.to_string())),
            },
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, LoadError> {
        let read = match self {
            Self::File(path) => CertificateDer::pem_file_iter(path).and_then(Iterator::collect),
            Self::Text(PemText { text, .. }) => {
                CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>()
            }
        };
        let read = read.map_err(|error| self.unusable(&error.to_string()))?;
        if read.is_empty() { Err(self.unusable("it holds no certificate")) } else { Ok(read) }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, LoadError> {
        let read = match self {
            Self::File(path) => PrivateKeyDer::from_pem_file(path),
            Self::Text(PemText { text, .. }) => PrivateKeyDer::from_pem_slice(text.as_bytes()),
        };
        read.map_err(|error| self.unusable(&error.to_string()))
    }

    fn unusable(&self, why: &str) -> LoadError {
        let name = self.name();
        LoadError::input(
            format!("`{name}` cannot be used for TLS: {why}"),
            "a PEM file is expected; a certificate and its key belong together",
        )
    }
}

/// Whom a client trusts, and what it shows of itself.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Authorities to trust.
    pub ca: Option<Pem>,
    /// The client's certificate and its key.
    pub cert: Option<(Pem, Pem)>,
    /// Trust anybody.
    pub insecure: bool,
}

/// The same without files, as it goes to other machines. Without authorities a machine trusts whom it would.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TlsTexts {
    ca: Option<PemText>,
    /// The certificate, and its key.
    cert: Option<(PemText, PemText)>,
    insecure: bool,
}

impl TlsTexts {
    /// Trusts the authorities of this PEM text alone.
    pub fn trusting(pem: &str) -> Self {
        let ca = PemText { name: "the authority".to_owned(), text: pem.to_owned() };
        Self { ca: Some(ca), cert: None, insecure: false }
    }

    /// Returns the options that these are the texts of.
    pub fn options(self) -> TlsOptions {
        let Self { ca, cert, insecure } = self;
        let cert = cert.map(|(cert, key)| (Pem::Text(cert), Pem::Text(key)));
        TlsOptions { ca: ca.map(Pem::Text), cert, insecure }
    }
}

impl From<&Tls> for TlsOptions {
    fn from(tls: &Tls) -> Self {
        let file = |path: &Option<String>| path.as_ref().map(|path| Pem::File(path.into()));
        Self {
            ca: file(&tls.ca),
            cert: file(&tls.cert).zip(file(&tls.key)),
            insecure: tls.insecure,
        }
    }
}

impl TlsOptions {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read as text.
    pub fn read(&self) -> Result<TlsTexts, LoadError> {
        let cert = match &self.cert {
            Some((cert, key)) => Some((cert.read()?, key.read()?)),
            None => None,
        };
        let ca = self.ca.as_ref().map(Pem::read).transpose()?;
        Ok(TlsTexts { ca, cert, insecure: self.insecure })
    }

    /// The client's side of TLS, offering the protocols `alpn`. `otherwise`: whom to trust where no authority is named.
    ///
    /// # Errors
    /// When a file cannot be used, or nobody is to be trusted.
    pub fn client_config(
        &self,
        otherwise: Trust,
        alpn: &[&[u8]],
    ) -> Result<Arc<ClientConfig>, LoadError> {
        let builder = builder()?;
        let provider = builder.crypto_provider().clone();
        let builder = if self.insecure {
            let schemes = provider.signature_verification_algorithms.supported_schemes();
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(schemes)))
        } else {
            let mut roots = RootCertStore::empty();
            let mut given = Vec::new();
            if let Some(ca) = &self.ca {
                given = ca.certificates()?;
                for certificate in &given {
                    let added = roots.add(certificate.clone());
                    added.map_err(|error| ca.unusable(&refusal::text(&error)))?;
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
                    "an endpoint over TLS needs to know whom to trust",
                    "give `tls: {ca: FILE}`, or `tls: {insecure: true}` to trust anybody",
                ));
            }
            let paths =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| {
                        LoadError::Machine(format!("TLS cannot be set up: {error}"))
                    })?;
            let verifier = Verifier::new(given, paths, &provider);
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        };
        let mut config = match &self.cert {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder
                .with_client_auth_cert(cert.certificates()?, key.key()?)
                .map_err(|error| key.unusable(&refusal::text(&error)))?,
        };
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// The client's side of TLS as a study asks for it, offering the protocols `alpn`.
///
/// # Errors
/// Those of [`TlsOptions::client_config`].
pub fn client_config(
    tls: Option<&Tls>,
    otherwise: Trust,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, LoadError> {
    tls.map(TlsOptions::from).unwrap_or_default().client_config(otherwise, alpn)
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
