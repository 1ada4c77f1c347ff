//! Which servers a load goes to: addresses that answer, and how they are spoken to over TLS.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};

use super::Protocol;
use super::url::Url;
use crate::LoadError;
use crate::asking::shake_hands;
use crate::tls::{TlsOptions, Trust};
use crate::transport::{Target, TlsTarget};

/// How long a first connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// HTTP/2's name in TLS's negotiation (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

impl TlsOptions {
    /// The client's side of TLS, with `protocol` as the one to agree on.
    ///
    /// # Errors
    /// Those of [`TlsOptions::client_config`].
    pub fn config(&self, protocol: Protocol) -> Result<Arc<ClientConfig>, LoadError> {
        self.offering(match protocol {
            Protocol::One => &[b"http/1.1"],
            Protocol::Two => &[H2],
        })
    }

    /// The client's side of TLS, offering the protocols `alpn`, for a server that may be anybody's.
    ///
    /// # Errors
    /// Those of [`TlsOptions::client_config`].
    pub fn offering(&self, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, LoadError> {
        self.client_config(Trust::Machine, alpn)
    }
}

/// Returns where the server of a URL listens: the first of its addresses that accepts a connection.
pub fn locate(url: &Url, tls: Option<&Arc<ClientConfig>>) -> Result<Target, LoadError> {
    let authority = format!("{}://{}", url.scheme(), url.authority);
    let addresses: Vec<SocketAddr> = (&*url.host, url.port)
        .to_socket_addrs()
        .map_err(|error| {
            LoadError::Unreachable(format!(
                "`{}` of `{authority}` has no address: {error}\nhint: is the name right?",
                url.host
            ))
        })?
        .collect();
    let mut seen = io::Error::other("the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(socket) => {
                let tls = tls.filter(|_| url.tls).map(|config| tls_target(&url.host, config));
                let target = Target { address, tls: tls.transpose()? };
                if let Some(tls) = &target.tls {
                    let agreed =
                        agreed_protocol(socket, tls).map_err(|error| no_tls(&authority, &error))?;
                    let wants_http2 = tls.config.alpn_protocols.iter().any(|name| name == H2);
                    if wants_http2 && agreed.as_deref() != Some(H2) {
                        return Err(LoadError::Unreachable(format!(
                            "`{authority}` does not offer HTTP/2 over TLS\nhint: leave HTTP/2 out \
                             to load it over HTTP/1.1"
                        )));
                    }
                }
                return Ok(target);
            }
            Err(error) => {
                seen = io::Error::new(error.kind(), format!("{address}: {error}"));
            }
        }
    }
    Err(LoadError::Unreachable(format!(
        "could not connect to `{authority}`: {seen}\nhint: is the server running, and does it \
         listen there?"
    )))
}

/// Does TLS's handshake once, so that a certificate that nobody trusts is told before the load.
/// Returns the protocol that was agreed on, if one was.
fn agreed_protocol(mut socket: TcpStream, tls: &TlsTarget) -> io::Result<Option<Vec<u8>>> {
    let agreed = shake_hands(&mut socket, tls, CONNECT_WITHIN)?;
    Ok(agreed.alpn_protocol().map(<[u8]>::to_vec))
}

fn no_tls(authority: &str, error: &io::Error) -> LoadError {
    let hint = match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "`--ca FILE` trusts whom that authority has signed, `--insecure` anybody"
        }
        Some(rustls::Error::InvalidMessage(_)) => "does it speak TLS on this port?",
        // Servers written in Go say so of a certificate that is missing.
        Some(rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate,
        )) => "it demands a certificate of its clients: `--cert FILE` and `--key FILE` show one",
        Some(rustls::Error::AlertReceived(AlertDescription::UnknownCA)) => {
            "it does not trust who signed the certificate of `--cert`"
        }
        _ => "does it want a certificate (`--cert`), or speak TLS at all?",
    };
    LoadError::Unreachable(format!(
        "could not agree on TLS with `{authority}`: {error}\nhint: {hint}"
    ))
}

/// Returns how a server of this name is spoken to over TLS.
pub fn tls_target(host: &str, config: &Arc<ClientConfig>) -> Result<TlsTarget, LoadError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        LoadError::Input(format!("`{host}` is no name that a certificate could have"), None)
    })?;
    Ok(TlsTarget { name, config: config.clone() })
}
