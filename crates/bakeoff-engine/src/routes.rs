//! Connects to servers outside of a load, by the way that leads to their machine.
//!
//! Whoever sets up, asks and judges servers connects through here. As a rule the way is the network. Where that leads
//! nowhere, because servers are on a network of their own, a [`Route`] makes the connection. It may end at another
//! address than the one asked for: names in TLS and in `Host` stay those of the [`Target`](crate::transport::Target).
//!
//! The measured loop does not connect through here, so that no load can take another way than the network.
//!
//! Not here: what makes a connection elsewhere (the binary's `machines`).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Makes connections to a machine that the network does not lead to.
pub trait Route: Send + Sync {
    /// Connects to an address of that machine, which may take so long.
    ///
    /// # Errors
    /// Those that connecting there had.
    fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream>;
}

/// The routes that are open. A process has one network, and so one table.
static OPEN: RwLock<Vec<(IpAddr, Arc<dyn Route>)>> = RwLock::new(Vec::new());

/// A route that is open for as long as this is kept.
#[must_use = "it closes when it is dropped"]
pub struct OpenRoute(IpAddr);

/// Opens a route to a machine's address.
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

/// Connects to a server, which may take so long.
///
/// # Errors
/// Those of connecting.
pub fn connect(to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
    let route = open.iter().find(|(address, _)| *address == to.ip());
    let route = route.map(|(_, route)| Arc::clone(route));
    drop(open); // others connect meanwhile
    match route {
        Some(route) => route.connect(to, within),
        None => TcpStream::connect_timeout(&to, within),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Leads to this port, whatever was asked for.
    struct To(SocketAddr);

    impl Route for To {
        fn connect(&self, _: SocketAddr, within: Duration) -> io::Result<TcpStream> {
            TcpStream::connect_timeout(&self.0, within)
        }
    }

    #[test]
    fn a_route_leads_to_its_address_alone_and_for_as_long_as_it_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        // Port 1 is nobody's.
        let [routed, other]: [SocketAddr; 2] =
            ["127.9.8.7:1", "127.9.8.6:1"].map(|text| text.parse().unwrap());
        let reaches = |to| connect(to, Duration::from_secs(1)).is_ok();
        assert!(!reaches(routed));
        let open = open(routed.ip(), Arc::new(To(at)));
        assert!(reaches(routed) && !reaches(other));
        drop(open);
        assert!(!reaches(routed));
    }
}
