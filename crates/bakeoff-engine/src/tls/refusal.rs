//! Words for why two sides did not come to speak TLS, and what to try.
//!
//! `load`, `wrk`, `hey`, `vault-benchmark` and studies share them. Only the way to give a file differs.
//!
//! Not here: when a refusal is final (the callers).

use std::io;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// How the user names files of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// By options: `--ca FILE`.
    Options,
    /// In a study: `tls: {ca: FILE}`.
    Study,
}

/// Returns the TLS error in an I/O error, if there is one.
pub fn of_io(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Returns an I/O error in words, those for errors of TLS being ours.
pub fn io_text(error: &io::Error) -> String {
    match of_io(error) {
        Some(refused) => text(refused),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection was closed without TLS's close_notify".to_owned()
        }
        None => error.to_string(),
    }
}

/// Returns a TLS error in words.
pub fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => certificate_text(fault),
        Error::AlertReceived(alert) => {
            format!("the server refused the handshake: {}", alert_text(*alert))
        }
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            "what came is not TLS".to_owned()
        }
        Error::PeerIncompatible(_) => {
            "the server speaks no version or cipher of TLS that bakeoff has (TLS 1.2 and 1.3)"
                .to_owned()
        }
        Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
        Error::NoApplicationProtocol => {
            "the server offers none of the protocols asked for".to_owned()
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
        Fault::UnknownIssuer => "its certificate is signed by nobody who is trusted".to_owned(),
        Fault::BadSignature => "its certificate's signature is wrong".to_owned(),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => {
            "its certificate is not for servers".to_owned()
        }
        Fault::BadEncoding => "its certificate cannot be read".to_owned(),
        Fault::Other(other) if is_own_authority(other) => {
            "its certificate is its own authority (CA:TRUE) and is not among the trusted ones"
                .to_owned()
        }
        Fault::Other(other) if says(other, "UnsupportedCertVersion") => {
            "its certificate is of X.509 version 1, and is not among the trusted ones".to_owned()
        }
        _ => "its certificate is not acceptable".to_owned(),
    }
}

fn is_own_authority(other: &OtherError) -> bool {
    says(other, "CaUsedAsEndEntity")
}

/// Returns true if an error of path validation has this name. rustls hands it on as text alone.
fn says(other: &OtherError, name: &str) -> bool {
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
        AlertDescription::CertificateRequired => "it demands a certificate",
        AlertDescription::BadCertificate => "it does not accept the certificate, or got none",
        AlertDescription::UnknownCA => "it does not trust who signed the certificate",
        AlertDescription::CertificateExpired => "the certificate has expired",
        AlertDescription::NoApplicationProtocol => "it speaks none of the protocols offered",
        AlertDescription::HandshakeFailure => "it found nothing in common",
        AlertDescription::ProtocolVersion => "it speaks no version of TLS that was offered",
        AlertDescription::UnrecognisedName => "it does not know the name",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::InternalError => "an error of its own",
        _ => "it gave no reason that is known here",
    }
}

/// Returns what to try after a TLS error; `None` stands for an error of another kind.
pub fn hint(error: Option<&Error>, wording: Wording) -> &'static str {
    use CertificateError as Fault;
    let by = |options, study| if wording == Wording::Options { options } else { study };
    match error {
        Some(Error::InvalidCertificate(fault)) => match fault {
            Fault::Expired | Fault::ExpiredContext { .. } => by(
                "renew it, look at this machine's clock, or use `--insecure`",
                "renew it, or look at this machine's clock",
            ),
            Fault::NotValidYet | Fault::NotValidYetContext { .. } => "look at this machine's clock",
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => by(
                "write the URL with a name that it has, or use `--insecure`",
                "write the endpoint with a name that it has",
            ),
            Fault::Other(_) => by(
                "give this very certificate as `--ca FILE`, or use `--insecure`",
                "give this very certificate as `ca` in the study's `tls`, or say `insecure: true`",
            ),
            _ => by(
                "`--ca FILE` trusts an authority or a single certificate, `--insecure` any",
                "give the authority that signed it as `ca` in the study's `tls`, or say `insecure: true`",
            ),
        },
        Some(Error::AlertReceived(alert)) => match alert {
            // Servers written in Go say so of a certificate that is missing.
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate => by(
                "show it one: `--cert FILE` and `--key FILE`",
                "show it one: `cert` and `key` in the study's `tls`",
            ),
            AlertDescription::UnknownCA => {
                by("look at the certificate of `--cert`", "look at the `cert` of the study's `tls`")
            }
            AlertDescription::NoApplicationProtocol => {
                by("leave HTTP/2 out, or look at the port", "look at the endpoint's port")
            }
            _ => "the server's own log tells why",
        },
        Some(Error::InvalidMessage(_) | Error::InappropriateMessage { .. }) => by(
            "it may not speak TLS on this port: try `http://`",
            "it does not speak TLS there: write the endpoint with `http://`, or look at its port",
        ),
        _ => "look at it with `openssl s_client -connect HOST:PORT`",
    }
}
