//! Resolves names again after a connection fails, because a service may have moved.
//!
//! An address that the name still has stays in use, so its outage remains visible. Clients of an address that the
//! name has lost move to another one that accepts a connection. A lookup may take seconds, so it runs in its own
//! thread. Workers pick up the result when they check their connections.
//!
//! Not here: the first lookup, which leaves out addresses that accept no connection (`works::http`, the binary).

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::UsedAddress;

use crate::address::{Address, Name};
use crate::peer::Peer;

/// Shortest interval between two lookups of one name.
const EVERY: Duration = Duration::from_secs(1);
/// Time that a new address has to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Resolves a name to its addresses.
type LookUp = Box<dyn Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Holds the current address of each node.
#[derive(Clone)]
pub(crate) struct Lookups(Arc<State>);

struct State {
    look_up: LookUp,
    /// Number of address changes so far.
    changes: AtomicU64,
    current: Mutex<Current>,
}

struct Current {
    /// Current addresses, by node.
    addresses: Vec<Address>,
    /// Time of each name's last lookup; `None` while one is running.
    looked_up: HashMap<Arc<Name>, Option<Instant>>,
}

impl Lookups {
    /// Starts with the peers' addresses, by node.
    pub(crate) fn new(peers: &[Peer]) -> Self {
        let addresses = peers.iter().map(|peer| peer.address.clone()).collect();
        Self::by(addresses, Box::new(Name::look_up))
    }

    fn by(addresses: Vec<Address>, look_up: LookUp) -> Self {
        let current = Mutex::new(Current { addresses, looked_up: HashMap::new() });
        Self(Arc::new(State { look_up, changes: AtomicU64::new(0), current }))
    }

    pub(crate) fn copy(&self) -> Addresses {
        let nodes = self.0.current().addresses.clone();
        Addresses { lookups: self.clone(), seen: 0, nodes }
    }

    /// Starts a lookup of a name, unless one is running or ended less than [`EVERY`] ago.
    fn begin(&self, name: &Arc<Name>, now: Instant) {
        let mut current = self.0.current();
        let last = current.looked_up.get(name);
        if last.is_some_and(|last| last.is_none_or(|last| now < last + EVERY)) {
            return;
        }
        current.looked_up.insert(name.clone(), None);
        drop(current);
        let (state, of) = (self.0.clone(), name.clone());
        let begun = thread::Builder::new().name("lookup".into()).spawn(move || {
            state.look_up(&of);
            state.current().looked_up.insert(of, Some(clock::now()));
        });
        if begun.is_err() {
            self.0.current().looked_up.insert(name.clone(), Some(now)); // the next failure tries again
        }
    }
}

impl State {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves a name, and replaces addresses that it no longer has.
    fn look_up(&self, name: &Arc<Name>) {
        let Ok(listed) = (self.look_up)(name) else { return };
        let is_lost = |address: &Address| match address {
            Address::Named(at, of) => of == name && !listed.contains(at),
            Address::Tcp(_) | Address::Unix(_) => false,
        };
        if !self.current().addresses.iter().any(is_lost) {
            return;
        }
        let accepts = |at: &&SocketAddr| TcpStream::connect_timeout(at, CONNECT_WITHIN).is_ok();
        let accepting = listed.iter().filter(accepts);
        let accepting = accepting.map(|&at| Address::Named(at, name.clone()));
        let mut current = self.current();
        let (used, unused): (Vec<_>, Vec<_>) =
            accepting.partition(|address| current.addresses.contains(address));
        let mut next = if unused.is_empty() { used } else { unused }.into_iter().cycle();
        for address in current.addresses.iter_mut().filter(|address| is_lost(address)) {
            let Some(other) = next.next() else { return };
            *address = other;
        }
        self.changes.fetch_add(1, Ordering::Release);
    }
}

pub(crate) struct Addresses {
    lookups: Lookups,
    /// Number of changes that this copy includes.
    seen: u64,
    nodes: Vec<Address>,
}

impl Addresses {
    pub(crate) fn at(&self, node: usize) -> &Address {
        &self.nodes[node]
    }

    /// Starts a lookup of the node's name after a connection to it failed.
    pub(crate) fn failed(&self, node: usize, now: Instant) {
        if let Address::Named(_, name) = &self.nodes[node] {
            self.lookups.begin(name, now);
        }
    }

    /// Applies address changes. Returns the nodes whose address changed.
    pub(crate) fn refresh(&mut self) -> Vec<usize> {
        let changes = self.lookups.0.changes.load(Ordering::Acquire);
        if changes == self.seen {
            return Vec::new();
        }
        self.seen = changes;
        let now = self.lookups.0.current().addresses.clone();
        let before = std::mem::replace(&mut self.nodes, now);
        let nodes = before.iter().zip(&self.nodes).enumerate();
        nodes.filter(|(_, (before, now))| before != now).map(|(node, _)| node).collect()
    }
}

/// Converts an address for the measurement. `since` is the time from the start of measuring, in seconds, at which it
/// replaced another address.
pub(crate) fn used(address: &Address, since: Option<f64>) -> UsedAddress {
    UsedAddress { address: address.to_string(), name: address.name(), since }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Serves a name whose addresses a test changes, and counts its lookups.
    struct ChangingName(Arc<Mutex<(Vec<SocketAddr>, u32)>>);

    impl ChangingName {
        /// Starts with these addresses.
        fn lookups(addresses: &[SocketAddr]) -> (Self, Lookups) {
            let listed = Arc::new(Mutex::new((addresses.to_vec(), 0)));
            let answers = listed.clone();
            let look_up = move |_: &Name| {
                let mut answers = answers.lock().unwrap();
                answers.1 += 1;
                Ok(answers.0.clone())
            };
            let used = addresses.iter().map(|&at| Address::of_host("api.test", at)).collect();
            (Self(listed), Lookups::by(used, Box::new(look_up)))
        }

        fn set(&self, addresses: &[SocketAddr]) {
            self.0.lock().unwrap().0 = addresses.to_vec();
        }

        fn count(&self) -> u32 {
            self.0.lock().unwrap().1
        }
    }

    fn shown(addresses: &Addresses) -> Vec<String> {
        addresses.nodes.iter().map(ToString::to_string).collect()
    }

    fn settle(lookups: &Lookups) {
        while lookups.0.current().looked_up.values().any(Option::is_none) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn clients_follow_a_name_and_keep_addresses_that_it_still_has() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let stays = first.local_addr().unwrap();
        let at = |host: u8| SocketAddr::from(([127, 9, 9, host], stays.port()));
        let (gone, new, newer) = (at(1), at(2), at(3));
        let _others = [new, newer].map(|at| TcpListener::bind(at).unwrap());
        let (listed, lookups) = ChangingName::lookups(&[stays, gone, gone]);
        let mut addresses = lookups.copy();
        let now = clock::now();
        // The address is down, but the name still has it.
        addresses.failed(1, now);
        settle(&lookups);
        assert_eq!(addresses.refresh(), [0; 0]);
        // The first of the new addresses accepts no connection.
        listed.set(&[at(4), stays, new, newer]);
        addresses.failed(1, clock::now());
        settle(&lookups);
        assert_eq!((listed.count(), addresses.refresh()), (1, Vec::new()), "less than a second");
        addresses.failed(1, clock::now() + EVERY);
        settle(&lookups);
        assert_eq!((listed.count(), addresses.refresh()), (2, vec![1, 2]));
        assert_eq!(shown(&addresses), [stays, new, newer].map(|at| at.to_string()));
        assert_eq!(addresses.refresh(), [0; 0]);
        // A lost address falls back to one already in use if there is no other.
        listed.set(&[stays]);
        addresses.failed(2, clock::now() + EVERY);
        settle(&lookups);
        assert_eq!(lookups.copy().nodes, [stays; 3].map(|at| Address::of_host("api.test", at)));
    }

    #[test]
    fn fixed_addresses_and_empty_lookups_change_nothing() {
        let gone: SocketAddr = "127.9.9.9:1".parse().unwrap();
        let (listed, lookups) = ChangingName::lookups(&[gone]);
        let tcp = Lookups::by(vec![Address::Tcp(gone)], Box::new(|_| panic!("it has no name")));
        tcp.copy().failed(0, clock::now());
        listed.set(&[]);
        let mut addresses = lookups.copy();
        addresses.failed(0, clock::now());
        settle(&lookups);
        assert_eq!(
            (listed.count(), addresses.refresh(), shown(&addresses)),
            (1, Vec::new(), vec![gone.to_string()])
        );
    }
}
