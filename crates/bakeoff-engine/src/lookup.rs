//! Looks names up again after connections to their addresses failed, as a service may have moved.
//!
//! An address that the name still has stays in use: its outage is to be seen. Clients of one that the name has lost go
//! to another that accepts a connection. A lookup may take seconds and has a thread of its own; workers pick up its
//! result when they look after their connections.
//!
//! Not here: the first lookup, after which addresses that accept no connection are left out (`works::http`, the binary).

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::UsedAddress;

use crate::peer::{Address, Name, Peer};

/// Time between two lookups of one name, at least.
const EVERY: Duration = Duration::from_secs(1);
/// How long a new address may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Returns a name's addresses.
type LookUp = Box<dyn Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// The addresses of a load's nodes, as they are now.
#[derive(Clone)]
pub(crate) struct Lookups(Arc<State>);

struct State {
    look_up: LookUp,
    /// How often addresses have changed.
    changes: AtomicU64,
    current: Mutex<Current>,
}

struct Current {
    /// By node.
    addresses: Vec<Address>,
    /// When each name was last looked up; `None` while that is under way.
    looked_up: HashMap<Arc<Name>, Option<Instant>>,
}

impl Lookups {
    /// Begins with the addresses of the peers, by node.
    pub(crate) fn new(peers: &[Peer]) -> Self {
        let addresses = peers.iter().map(|peer| peer.address.clone()).collect();
        Self::by(addresses, Box::new(Name::look_up))
    }

    fn by(addresses: Vec<Address>, look_up: LookUp) -> Self {
        let current = Mutex::new(Current { addresses, looked_up: HashMap::new() });
        Self(Arc::new(State { look_up, changes: AtomicU64::new(0), current }))
    }

    /// Returns a worker's copy.
    pub(crate) fn copy(&self) -> Addresses {
        let nodes = self.0.current().addresses.clone();
        Addresses { lookups: self.clone(), seen: 0, nodes }
    }

    /// Begins to look a name up, unless that is under way or was less than [`EVERY`] ago.
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

    /// Looks a name up, and replaces the addresses that it has lost.
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

/// A worker's copy of the addresses.
pub(crate) struct Addresses {
    lookups: Lookups,
    /// The number of changes that are in it.
    seen: u64,
    /// By node.
    nodes: Vec<Address>,
}

impl Addresses {
    /// Returns a node's address.
    pub(crate) fn at(&self, node: usize) -> &Address {
        &self.nodes[node]
    }

    /// Notes that a connection to a node failed: its name may lead elsewhere by now.
    pub(crate) fn failed(&self, node: usize, now: Instant) {
        if let Address::Named(_, name) = &self.nodes[node] {
            self.lookups.begin(name, now);
        }
    }

    /// Takes over what lookups have changed. Returns the nodes that have another address.
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

/// Returns an address as a measurement names it. `since`: when clients began to connect there, in seconds since
/// measuring began, if it took the place of another.
pub(crate) fn used(address: &Address, since: Option<f64>) -> UsedAddress {
    UsedAddress { address: address.to_string(), name: address.name(), since }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A name whose addresses a test changes, and how often it was looked up.
    struct Listed(Arc<Mutex<(Vec<SocketAddr>, u32)>>);

    impl Listed {
        /// Starts to use these addresses of the name.
        fn lookups(addresses: &[SocketAddr]) -> (Self, Lookups) {
            let listed = Arc::new(Mutex::new((addresses.to_vec(), 0)));
            let asked = listed.clone();
            let look_up = move |_: &Name| {
                let mut asked = asked.lock().unwrap();
                asked.1 += 1;
                Ok(asked.0.clone())
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

    /// Waits until no lookup is under way.
    fn settle(lookups: &Lookups) {
        while lookups.0.current().looked_up.values().any(Option::is_none) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn clients_follow_a_name_and_stay_where_it_still_leads() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let stays = first.local_addr().unwrap();
        let at = |host: u8| SocketAddr::from(([127, 9, 9, host], stays.port()));
        let (gone, new, newer) = (at(1), at(2), at(3));
        let _others = [new, newer].map(|at| TcpListener::bind(at).unwrap());
        let (listed, lookups) = Listed::lookups(&[stays, gone, gone]);
        let mut addresses = lookups.copy();
        let now = clock::now();
        // It is there no more, and the name has it still.
        addresses.failed(1, now);
        settle(&lookups);
        assert_eq!(addresses.refresh(), [0; 0]);
        // Nobody listens at the first of its new addresses.
        listed.set(&[at(4), stays, new, newer]);
        addresses.failed(1, clock::now());
        settle(&lookups);
        assert_eq!((listed.count(), addresses.refresh()), (1, Vec::new()), "less than a second");
        addresses.failed(1, clock::now() + EVERY);
        settle(&lookups);
        assert_eq!((listed.count(), addresses.refresh()), (2, vec![1, 2]));
        assert_eq!(shown(&addresses), [stays, new, newer].map(|at| at.to_string()));
        assert_eq!(addresses.refresh(), [0; 0]);
        // An address that was lost leads to one that is used already, if there is no other.
        listed.set(&[stays]);
        addresses.failed(2, clock::now() + EVERY);
        settle(&lookups);
        assert_eq!(lookups.copy().nodes, [stays; 3].map(|at| Address::of_host("api.test", at)));
    }

    #[test]
    fn addresses_that_stay_and_names_without_any_change_nothing() {
        let gone: SocketAddr = "127.9.9.9:1".parse().unwrap();
        let (listed, lookups) = Listed::lookups(&[gone]);
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
