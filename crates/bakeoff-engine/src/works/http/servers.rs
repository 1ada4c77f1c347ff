//! Resolves the servers of a load: addresses that accept connections, and their TLS configuration.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

use super::Protocol;
use super::url::Url;
use crate::LoadError;
use crate::address::{Address, look_up};
use crate::blocking_http::shake_hands;
use crate::own_limits::ports_exhausted;
use crate::peer::Peer;
use crate::tls::refusal::{self, Wording};
use crate::tls::{TlsOptions, Trust};
use crate::transport::TlsTarget;

/// Time limit for the first connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Name of HTTP/2 in ALPN (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

impl TlsOptions {
    /// Returns a client configuration that negotiates `protocol`.
    pub fn config(&self, protocol: Protocol) -> Result<Arc<ClientConfig>, LoadError> {
        self.offering(match protocol {
            Protocol::One => &[b"http/1.1"],
            Protocol::Two => &[H2],
        })
    }

    /// Returns a client configuration that offers the protocols `alpn` to any server.
    pub fn offering(&self, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, LoadError> {
        self.client_config(Trust::Machine, alpn)
    }
}

/// Returns all addresses of a URL's server that accept a connection.
///
/// # Errors
/// Fails if no address accepts, or if the first that does refuses the protocol.
pub fn locate(
    url: &Url,
    tls: Option<&Arc<ClientConfig>>,
    detours: &[Detour],
) -> Result<Vec<Peer>, LoadError> {
    locate_within(url, tls, detours, CONNECT_WITHIN)
}

/// Returns what [`locate`] does. Each connection takes at most `within`.
///
/// # Errors
/// As [`locate`].
pub fn locate_within(
    url: &Url,
    tls: Option<&Arc<ClientConfig>>,
    detours: &[Detour],
    within: Duration,
) -> Result<Vec<Peer>, LoadError> {
    let authority = format!("{}://{}", url.scheme(), url.authority);
    let detour = detours.iter().find(|one| one.is_for(url)).map(|one| &one.to);
    let addresses = match detour {
        None => addresses(&url.host, url.port, &authority)?,
        Some(DetourTarget::Host(host, port)) => addresses(host, *port, &authority)?,
        Some(DetourTarget::Unix(path)) => vec![Address::unix(path.clone())],
    };
    let mut seen = String::new();
    let mut peers: Vec<Peer> = Vec::new();
    for address in addresses {
        match address.connect(within) {
            Ok(socket) => {
                let tls = tls.filter(|_| url.tls).map(|config| tls_target(&url.host, config));
                let peer = Peer { address, tls: tls.transpose()? };
                if peers.is_empty() {
                    check_protocol(socket, &peer, &authority, within)?;
                }
                peers.push(peer);
            }
            Err(error) => {
                if let Some(why) = ports_exhausted(&error) {
                    return Err(LoadError::Machine(why));
                }
                seen = format!("{address}: {error}");
            }
        }
    }
    if peers.is_empty() {
        return Err(LoadError::Unreachable(format!(
            "could not connect to `{authority}`: {seen}\nhint: is the server running, and does it \
             listen there?"
        )));
    }
    Ok(peers)
}

/// Resolves a host.
fn addresses(host: &str, port: u16, authority: &str) -> Result<Vec<Address>, LoadError> {
    let found = look_up(host, port).map_err(|error| {
        LoadError::Unreachable(format!(
            "`{host}` of `{authority}` has no address: {error}\nhint: is the name right?"
        ))
    })?;
    Ok(found.into_iter().map(|at| Address::of_host(host, at)).collect())
}

/// Redirects connections from a URL's server to another address, like curl's `--connect-to` and `--unix-socket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detour {
    /// Host and port of the URL; `None` matches any.
    from: (Option<String>, Option<u16>),
    to: DetourTarget,
}

/// Addresses the other end of a detour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum DetourTarget {
    Host(String, u16),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
}

impl Detour {
    /// Parses `HOST:PORT:ADDR:PORT`. The first two may be empty, and write an IPv6 address in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, rest) = host_of(text)?;
        let (port, rest) = rest.split_once(':')?;
        let (to, to_port) = host_of(rest)?;
        let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
        let to_port = to_port.parse().ok().filter(|port| *port > 0)?;
        let host = (!host.is_empty()).then(|| host.to_owned());
        let to = (!to.is_empty()).then(|| DetourTarget::Host(to.to_owned(), to_port))?;
        Some(Self { from: (host, port), to })
    }

    /// Sends all connections to a Unix domain socket.
    pub fn to_unix_socket(path: PathBuf) -> Self {
        Self { from: (None, None), to: DetourTarget::Unix(path) }
    }

    fn is_for(&self, url: &Url) -> bool {
        let (host, port) = &self.from;
        host.as_ref().is_none_or(|host| host.eq_ignore_ascii_case(&url.host))
            && port.is_none_or(|port| port == url.port)
    }
}

/// Splits a host and the following colon off the start of a text.
fn host_of(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            Some((host, rest.strip_prefix(':')?))
        }
        None => text.split_once(':'),
    }
}

/// Checks that a server speaks TLS, and HTTP/2 if requested.
fn check_protocol(
    socket: TcpStream,
    peer: &Peer,
    authority: &str,
    within: Duration,
) -> Result<(), LoadError> {
    let Some(tls) = &peer.tls else { return Ok(()) };
    let agreed =
        agreed_protocol(socket, tls, within).map_err(|error| no_tls(authority, &error, within))?;
    let wants_http2 = tls.config.alpn_protocols.iter().any(|name| name == H2);
    if wants_http2 && agreed.as_deref() != Some(H2) {
        return Err(LoadError::Unreachable(format!(
            "`{authority}` does not offer HTTP/2 over TLS\nhint: leave HTTP/2 out to load it over HTTP/1.1"
        )));
    }
    Ok(())
}

/// Runs one TLS handshake, so an untrusted certificate fails before the load. Returns the negotiated protocol.
fn agreed_protocol(
    mut socket: TcpStream,
    tls: &TlsTarget,
    within: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let agreed = shake_hands(&mut socket, tls, within)?;
    Ok(agreed.alpn_protocol().map(<[u8]>::to_vec))
}

fn no_tls(authority: &str, error: &io::Error, within: Duration) -> LoadError {
    let (what, hint) = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => (
            format!("it sent nothing for {within:?}"),
            "the server may be overloaded, or may not speak TLS on this port",
        ),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => (
            "it closed the connection during the handshake".to_owned(),
            "it may not speak TLS on this port: try `http://`",
        ),
        _ => (refusal::io_text(error), refusal::hint(refusal::of_io(error), Wording::Options)),
    };
    LoadError::Unreachable(format!(
        "could not agree on TLS with `{authority}`: {what}\nhint: {hint}"
    ))
}

/// Returns the TLS configuration for a server of this name.
pub fn tls_target(host: &str, config: &Arc<ClientConfig>) -> Result<TlsTarget, LoadError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        LoadError::Input(format!("`{host}` is not a valid name for a certificate"), None)
    })?;
    Ok(TlsTarget::new(name, config.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_apply_by_host_and_port() {
        let url = |text| Url::parse(text).unwrap();
        let detour = Detour::parse("a.example:80:127.0.0.1:8080").unwrap();
        assert!(detour.is_for(&url("http://A.example/")) && !detour.is_for(&url("http://b/")));
        assert!(!detour.is_for(&url("https://a.example/")));
        assert_eq!(Detour::parse("::[::1]:9").unwrap().to, DetourTarget::Host("::1".to_owned(), 9));
        assert!(Detour::to_unix_socket("/s".into()).is_for(&url("https://a.example/")));
        assert!(Detour::parse("::h:9").unwrap().is_for(&url("http://b/")));
        for wrong in ["", "a", "a:1", "a:1:b", "a:x:b:2", "a:1::2", "a:1:b:0", "[::1:1:b:2"] {
            assert_eq!(Detour::parse(wrong), None, "{wrong}");
        }
    }
}
