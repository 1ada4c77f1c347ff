//! Puts TLS failures into words, with a hint.
//!
//! `load`, `wrk`, `hey`, `vault-benchmark` and studies share them. Only the way to name a file differs.
//!
//! Not here: deciding that a refusal is final (the callers).

use std::io;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// Selects how hints name TLS files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// By options: `--ca FILE`.
    Options,
    /// In a study: `tls: {ca: FILE}`.
    Study,
}

/// Returns the TLS error inside an I/O error, if there is one.
pub fn of_io(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Returns the text of an I/O error, with our own words for TLS errors.
pub fn io_text(error: &io::Error) -> String {
    match of_io(error) {
        Some(refused) => text(refused),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection was closed without TLS's close_notify".to_owned()
        }
        None => error.to_string(),
    }
}

/// Returns the text of a TLS error.
pub fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => certificate_text(fault),
        Error::AlertReceived(alert) => {
            format!("the server refused the handshake: {}", alert_text(*alert))
        }
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            "the server's answer is not TLS".to_owned()
        }
        Error::PeerIncompatible(_) => {
            "the server supports no TLS version or cipher that bakeoff does (TLS 1.2 and 1.3)"
                .to_owned()
        }
        Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        Error::NoApplicationProtocol => {
            "the server offers none of the requested protocols".to_owned()
        }
        other => other.to_string(),
    }
}

fn certificate_text(fault: &CertificateError) -> String {
    use CertificateError as Fault;
    match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        Fault::NotValidForNameContext { presented, expected } => {
            format!("its certificate is for {}, not for `{}`", names(presented), expected.to_str())
        }
        Fault::NotValidForName => "its certificate is for another name".to_owned(),
        Fault::UnknownIssuer => "no trusted authority signed its certificate".to_owned(),
        Fault::BadSignature => "its certificate's signature is wrong".to_owned(),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => {
            "its certificate is not for servers".to_owned()
        }
        Fault::BadEncoding => "its certificate cannot be read".to_owned(),
        Fault::Other(other) if is_own_authority(other) => {
            "its certificate is its own authority (CA:TRUE) and is not among the trusted ones"
                .to_owned()
        }
        Fault::Other(other) if is_named(other, "UnsupportedCertVersion") => {
            "its certificate is of X.509 version 1, and is not among the trusted ones".to_owned()
        }
        _ => "its certificate is not acceptable".to_owned(),
    }
}

fn is_own_authority(other: &OtherError) -> bool {
    is_named(other, "CaUsedAsEndEntity")
}

/// Returns true if a path validation error has this name. rustls exposes it only as text.
fn is_named(other: &OtherError, name: &str) -> bool {
    format!("{other:?}").contains(name)
}

fn names(presented: &[String]) -> String {
    const SHOWN: usize = 3;
    let inner = |name: &String| match name.split_once('(') {
        Some((_, rest)) => rest.trim_end_matches(')').trim_matches('"').to_owned(),
        None => name.clone(),
    };
    let shown: Vec<_> =
        presented.iter().take(SHOWN).map(|name| format!("`{}`", inner(name))).collect();
    match shown.is_empty() {
        true => "no name at all".to_owned(),
        false => shown.join(", ") + if presented.len() > SHOWN { ", …" } else { "" },
    }
}

fn alert_text(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "it requires a client certificate",
        AlertDescription::BadCertificate => "it rejects the client certificate, or got none",
        AlertDescription::UnknownCA => "it does not trust the issuer of the client certificate",
        AlertDescription::CertificateExpired => "the certificate has expired",
        AlertDescription::NoApplicationProtocol => "it supports none of the offered protocols",
        AlertDescription::HandshakeFailure => "it found no common parameters",
        AlertDescription::ProtocolVersion => "it supports none of the offered TLS versions",
        AlertDescription::UnrecognisedName => "it does not know the name",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::InternalError => "it had an internal error",
        _ => "it gave an unknown reason",
    }
}

/// Returns a hint for a TLS error; `None` stands for any other error.
pub fn hint(error: Option<&Error>, wording: Wording) -> &'static str {
    use CertificateError as Fault;
    let by = |options, study| if wording == Wording::Options { options } else { study };
    match error {
        Some(Error::InvalidCertificate(fault)) => match fault {
            Fault::Expired | Fault::ExpiredContext { .. } => by(
                "renew it, check this machine's clock, or use `--insecure`",
                "renew it, or check this machine's clock",
            ),
            Fault::NotValidYet | Fault::NotValidYetContext { .. } => "check this machine's clock",
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => by(
                "use a URL with one of its names, or use `--insecure`",
                "use an endpoint with one of its names",
            ),
            Fault::Other(_) => by(
                "pass this certificate as `--ca FILE`, or use `--insecure`",
                "set this certificate as `ca` in the study's `tls`, or set `insecure: true`",
            ),
            _ => by(
                "`--ca FILE` trusts an authority or a single certificate, `--insecure` any",
                "set the authority that signed it as `ca` in the study's `tls`, or set `insecure: true`",
            ),
        },
        Some(Error::AlertReceived(alert)) => match alert {
            // Go servers send this alert if the certificate is missing.
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate => by(
                "send one: `--cert FILE` and `--key FILE`",
                "send one: `cert` and `key` in the study's `tls`",
            ),
            AlertDescription::UnknownCA => {
                by("check the certificate of `--cert`", "check the `cert` of the study's `tls`")
            }
            AlertDescription::NoApplicationProtocol => {
                by("leave HTTP/2 out, or check the port", "check the endpoint's port")
            }
            _ => "see the server's log for the reason",
        },
        Some(Error::InvalidMessage(_) | Error::InappropriateMessage { .. }) => by(
            "it may not speak TLS on this port: try `http://`",
            "it does not speak TLS there: write the endpoint with `http://`, or check its port",
        ),
        _ => "inspect it with `openssl s_client -connect HOST:PORT`",
    }
}
