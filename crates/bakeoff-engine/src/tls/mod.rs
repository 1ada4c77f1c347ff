//! Configures TLS clients: trusted authorities and client certificates.
//!
//! Uses rustls with ring. A study's clusters have private authorities, so without `ca` no server is trusted unless
//! the study says `insecure`. A URL or a loaded service may be public, so there the machine's own authorities are
//! trusted.
//!
//! Not here: certificates for servers that are started (`authority`).

mod authority;
pub mod refusal;
mod verify;

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bakeoff_core::study::Tls;
use bakeoff_files as files;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use serde::{Deserialize, Serialize};

use self::verify::{AnyCertificate, Verifier};
use crate::LoadError;

pub use authority::{Authority, CaPem, Identity, LOOPBACK};

/// Selects the default authorities, used if the options name none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// No authority: a server is refused unless the study says `insecure`.
    Nobody,
    /// Authorities that this machine trusts.
    Machine,
}

/// Locates PEM data: a file, or text that came from another machine or has no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    /// Path of the file.
    File(PathBuf),
    /// Text of the file.
    Text(PemText),
}

/// Holds the text of a PEM file. It may be a private key, so it travels only through an agent's pipe.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PemText {
    /// Name in errors.
    pub name: String,
    /// PEM text.
    pub text: String,
}

/// Most bytes of a PEM file. A trust store with all public authorities has 300 KB.
const PEM_MAX: u64 = 64 << 20;

/// Shows only the name.
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

    /// Returns the file's path; `None` for text.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) => None,
        }
    }

    /// Returns the text, to send to another machine.
    ///
    /// # Errors
    /// Fails if the file cannot be read as text.
    pub fn read(&self) -> Result<PemText, LoadError> {
        let name = self.name().into_owned();
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => match files::read_text(path.as_ref(), PEM_MAX) {
                Ok(text) => Ok(PemText { name, text }),
                Err(error) => Err(self.unusable(&error.to_string())),
            },
        }
    }

    fn bytes(&self) -> Result<Cow<'_, [u8]>, LoadError> {
        match self {
            Self::Text(PemText { text, .. }) => Ok(text.as_bytes().into()),
            Self::File(path) => files::read(path, PEM_MAX)
                .map(Cow::Owned)
                .map_err(|error| self.unusable(&error.to_string())),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, LoadError> {
        let bytes = self.bytes()?;
        let read = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
        let read = read.map_err(|error| self.unusable(&error.to_string()))?;
        if read.is_empty() { Err(self.unusable("it holds no certificate")) } else { Ok(read) }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, LoadError> {
        let read = PrivateKeyDer::from_pem_slice(&self.bytes()?);
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

/// Selects trusted authorities and the client's certificate.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Trusted authorities; `None` means the defaults.
    pub ca: Option<Pem>,
    /// Client certificate and its key.
    pub cert: Option<(Pem, Pem)>,
    /// True to accept any certificate.
    pub insecure: bool,
}

/// Holds [`TlsOptions`] with texts in place of files, to send to other machines. Without authorities the receiving
/// machine uses its defaults.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TlsTexts {
    ca: Option<PemText>,
    /// Certificate and its key.
    cert: Option<(PemText, PemText)>,
    insecure: bool,
}

impl TlsTexts {
    /// Trusts only the authorities of this PEM text.
    pub fn trusting(pem: &str) -> Self {
        let ca = PemText { name: "the authority".to_owned(), text: pem.to_owned() };
        Self { ca: Some(ca), cert: None, insecure: false }
    }

    /// Converts the texts back to options.
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
    /// Fails if a file cannot be read as text.
    pub fn read(&self) -> Result<TlsTexts, LoadError> {
        let cert = match &self.cert {
            Some((cert, key)) => Some((cert.read()?, key.read()?)),
            None => None,
        };
        let ca = self.ca.as_ref().map(Pem::read).transpose()?;
        Ok(TlsTexts { ca, cert, insecure: self.insecure })
    }

    /// Builds a client configuration that offers the protocols `alpn`. `otherwise` applies if the options name no
    /// authority.
    ///
    /// # Errors
    /// Fails if a file is unusable, or if no authority is trusted.
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
                // Skips certificates that cannot be parsed, which some machines have.
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
                    "give `tls: {ca: FILE}`, or `tls: {insecure: true}` to accept any certificate",
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

/// Builds the client configuration of a study's `tls`, offering the protocols `alpn`.
pub fn client_config(
    tls: Option<&Tls>,
    otherwise: Trust,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, LoadError> {
    tls.map(TlsOptions::from).unwrap_or_default().client_config(otherwise, alpn)
}

/// Number of servers whose sessions are remembered, which is rustls's default.
const SESSIONS_MAX: usize = 256;

/// Returns a copy without session resumption.
pub fn without_resumption(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Returns a copy with its own session cache.
pub fn with_sessions_of_its_own(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    Arc::new(config)
}

/// Starts a configuration with the settings common to all clients.
fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, LoadError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| LoadError::Machine(format!("TLS cannot be set up: {error}")))
}
