//! Locates servers: by address, by name, or by the path of a socket.
//!
//! Not here: TLS to a server (`peer`), names that move during a load (`lookup`).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Locates a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Fixed TCP address.
    Tcp(SocketAddr),
    /// TCP address that a name resolved to. The name is resolved again after a connection fails.
    Named(SocketAddr, Arc<Name>),
    /// Path of a Unix domain socket.
    Unix(Arc<Path>),
}

/// Holds a host name and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    host: String,
    port: u16,
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Returns an address of `host`, which is a name, or an IP address without brackets.
    pub fn of_host(host: &str, at: SocketAddr) -> Self {
        match host.parse::<IpAddr>() {
            Ok(_) => Self::Tcp(at),
            Err(_) => {
                let name = Name { host: host.to_owned(), port: at.port() };
                Self::Named(at, Arc::new(name))
            }
        }
    }

    /// Returns the address of a Unix domain socket.
    pub fn unix(path: PathBuf) -> Self {
        Self::Unix(path.into())
    }

    /// Returns the name behind the address, as `example.org:80`; `None` if it has none.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Named(_, name) => Some(name.to_string()),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Connects, waiting up to `within`.
    pub(crate) fn connect(&self, within: Duration) -> io::Result<TcpStream> {
        match self {
            Self::Tcp(at) | Self::Named(at, _) => TcpStream::connect_timeout(at, within),
            Self::Unix(path) => connect_unix(path, Some(within)),
        }
    }

    /// Starts to connect without waiting.
    ///
    /// # Errors
    /// Returns immediate errors. `WouldBlock` means that a Unix socket's accept queue is full.
    pub(crate) fn begin_to_connect(&self) -> io::Result<mio::net::TcpStream> {
        match self {
            Self::Tcp(at) | Self::Named(at, _) => mio::net::TcpStream::connect(*at),
            Self::Unix(path) => connect_unix(path, None).map(mio::net::TcpStream::from_std),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) | Self::Named(at, _) => at.fmt(to),
            Self::Unix(path) => write!(to, "unix:{}", path.display()),
        }
    }
}

impl Name {
    /// Resolves the name. Returns each address once. This may take seconds.
    pub(crate) fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        look_up(&self.host, self.port)
    }
}

/// Resolves a host. Returns each address once. This may take seconds.
///
/// # Errors
/// Fails if the name has no address or no name server answers.
pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    match found.is_empty() {
        true => Err(io::Error::other("the name has no address")),
        false => Ok(found),
    }
}

/// Connects to a Unix domain socket, waiting up to `within`. With `None` it does not wait, and the socket is
/// non-blocking.
///
/// The standard library's TCP stream uses the same system calls on any stream socket, so one type serves both. Only
/// `TCP_NODELAY` and the stream's addresses are specific to TCP.
fn connect_unix(path: &Path, within: Option<Duration>) -> io::Result<TcpStream> {
    let flags = match within {
        Some(_) => SocketFlags::CLOEXEC,
        None => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The send timeout also limits connecting (unix(7)).
    set_socket_timeout(&socket, Timeout::Send, within)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::peer::Peer;
    use crate::transport::Target;

    #[test]
    fn only_host_names_are_resolved_again() {
        let at: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let of = |authority| Peer::new(&Target { address: at, tls: None }, authority).address;
        for authority in ["127.0.0.1:80", "127.0.0.1", "[::1]:80", "[::1]"] {
            assert_eq!(of(authority), Address::Tcp(at), "{authority}");
        }
        let named = of("localhost:80");
        assert_eq!(of("localhost"), named);
        assert_eq!(named.name().as_deref(), Some("localhost:80"));
        assert_eq!(named.to_string(), "127.0.0.1:80");
        assert!(look_up("localhost", 80).unwrap().iter().all(|found| found.ip().is_loopback()));
    }

    #[test]
    fn full_unix_socket_is_retried_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::unix(path.clone());
        let missing = address.begin_to_connect().unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        // No one accepts, so connections queue until the queue is full.
        let mut waiting = Vec::new();
        let full = loop {
            match address.begin_to_connect() {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let began = bakeoff_clock::now();
        let timed_out = address.connect(Duration::from_millis(50)).unwrap_err();
        assert_eq!(timed_out.kind(), io::ErrorKind::WouldBlock);
        assert!(began.elapsed() >= Duration::from_millis(50));
        drop(listener.accept().unwrap());
        assert!(address.connect(Duration::from_secs(5)).is_ok());
        assert_eq!(address.to_string(), format!("unix:{}", path.display()));
    }
}
