//! Opens connections to servers outside of a load, over the network or a tunnel.
//!
//! Set-up, probes and checks connect through here. Normally that is a plain network connection. If servers are on an
//! unreachable network, a [`Route`] makes the connection. It may end at another address than the requested one. Names
//! in TLS and in `Host` stay those of the [`Target`](crate::transport::Target).
//!
//! The measured loop does not use this module, so a load always goes over the network.
//!
//! Not here: the implementations of routes (the binary's `machines`).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Makes connections to a machine that the network does not reach.
pub trait Route: Send + Sync {
    /// Connects to an address of that machine, waiting up to `within`.
    ///
    /// # Errors
    /// Returns errors of the connection.
    fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream>;
}

/// Open routes. A process has one network, and so one table.
static OPEN: RwLock<Vec<(IpAddr, Arc<dyn Route>)>> = RwLock::new(Vec::new());

/// Keeps a route open until dropped.
#[must_use = "it closes when it is dropped"]
pub struct OpenRoute(IpAddr);

/// Opens a route for all connections to `address`.
pub fn open(address: IpAddr, route: Arc<dyn Route>) -> OpenRoute {
    OPEN.write().unwrap_or_else(PoisonError::into_inner).push((address, route));
    OpenRoute(address)
}

impl Drop for OpenRoute {
    fn drop(&mut self) {
        let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|(address, _)| *address == self.0) {
            open.remove(place);
        }
    }
}

/// Connects to a server, waiting up to `within`.
///
/// # Errors
/// Returns errors of the connection.
pub fn connect(to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    let route = open.iter().find(|(address, _)| *address == to.ip());
    let route = route.map(|(_, route)| Arc::clone(route));
    drop(open); // do not block other connections
    match route {
        Some(route) => route.connect(to, within),
        None => TcpStream::connect_timeout(&to, within),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Connects to this address for every request.
    struct FixedAddress(SocketAddr);

    impl Route for FixedAddress {
        fn connect(&self, _: SocketAddr, within: Duration) -> io::Result<TcpStream> {
            TcpStream::connect_timeout(&self.0, within)
        }
    }

    #[test]
    fn route_applies_only_to_its_address_and_until_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // No one listens on port 1.
        let [routed, other]: [SocketAddr; 2] =
            ["127.9.8.7:1", "127.9.8.6:1"].map(|text| text.parse().unwrap());
        let reaches = |to| connect(to, Duration::from_secs(1)).is_ok();
        assert!(!reaches(routed));
        let open = open(routed.ip(), Arc::new(FixedAddress(at)));
        assert!(reaches(routed) && !reaches(other));
        drop(open);
        assert!(!reaches(routed));
    }
}
