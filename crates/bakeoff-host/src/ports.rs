//! Finds free TCP and UDP ports for servers.
//!
//! Ports come from below the kernel's ephemeral range. A port inside it may be taken by one of our own clients between
//! the check and the server's start. Other listeners can still race with us, so each port is tested by binding it, and
//! handed out once.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt;

use super::{HostError, Location};

/// Hands out ports that are free at the addresses of locations.
pub struct Allocator {
    /// Finds ports on other machines.
    elsewhere: Option<Arc<dyn PortSource>>,
    range: RangeInclusive<u16>,
    next: u16,
    /// True if the user chose the first port. A port in use is then an error: firewall rules or log filters may depend
    /// on exactly these ports.
    exact: bool,
    /// True if found ports are reserved, false for a rehearsal.
    gives: bool,
    tried: u32,
    /// Ports handed out so far.
    given: Vec<u16>,
    /// Ports to hand out again, before all others.
    again: VecDeque<u16>,
}

/// Finds ports on other machines.
pub trait PortSource: Send + Sync {
    /// Returns a free port at the address of a location that was not handed out before.
    ///
    /// # Errors
    /// When no port is free, or the machine is lost.
    fn take(&self, location: Location) -> Result<u16, HostError>;
}

/// Lowest port: below most ephemeral ranges and above most services.
const LOWEST: u16 = 17_000;
/// Fewest ports below the ephemeral range that are worth a random start.
const ENOUGH: u16 = 1_000;

/// Ports handed out by this process, for all clusters.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

impl Allocator {
    /// Starts at `base_port` if given, else at a random port.
    pub fn new(base_port: Option<u16>) -> Self {
        if let Some(base) = base_port {
            return Self {
                elsewhere: None,
                range: base..=u16::MAX,
                next: base,
                exact: true,
                gives: true,
                tried: 0,
                given: Vec::new(),
                again: VecDeque::new(),
            };
        }
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let range = outside_ephemeral(text.as_deref().unwrap_or_default());
        // A random start keeps two concurrent bakeoffs from trying the same ports.
        let next = rand::rng().random_range(range.clone());
        let (given, again) = (Vec::new(), VecDeque::new());
        Self { elsewhere: None, range, next, exact: false, gives: true, tried: 0, given, again }
    }

    /// Uses `source` for the ports of other machines.
    pub fn with_elsewhere(self, source: Arc<dyn PortSource>) -> Self {
        Self { elsewhere: Some(source), ..self }
    }

    /// Returns the number of ports handed out so far, for [`Self::replay`].
    pub fn given(&self) -> usize {
        self.given.len()
    }

    /// Returns an allocator that hands out the ports after the first `given` again, in the same order.
    pub fn replay(&self, given: usize) -> Self {
        let again = self.given[given..].iter().copied().collect();
        Self { again, elsewhere: self.elsewhere.clone(), ..Self::new(None) }
    }

    /// Finds the ports that [`Self::new`] would, without reserving them.
    pub fn rehearsal(base_port: u16) -> Self {
        Self { gives: false, ..Self::new(Some(base_port)) }
    }

    /// Returns true if the user chose the first port, so no other port will do.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns the next free port at 127.0.0.1 that was not handed out before.
    ///
    /// # Errors
    /// When the chosen port is in use, or no port is left.
    pub fn take(&mut self) -> Result<u16, HostError> {
        self.take_for(Location::HERE)
    }

    /// Returns the next free port at the address of a location that was not handed out before at any address.
    ///
    /// # Errors
    /// When the chosen port is in use, or no port is left.
    pub fn take_for(&mut self, location: Location) -> Result<u16, HostError> {
        if let Some(port) = self.again.pop_front() {
            return Ok(port);
        }
        let port = self.find_for(location)?;
        self.given.push(port);
        Ok(port)
    }

    fn find_for(&mut self, location: Location) -> Result<u16, HostError> {
        if let Some(elsewhere) = self.elsewhere.as_ref().filter(|_| !location.is_here()) {
            return elsewhere.take(location);
        }
        let address = location.address;
        let size = u32::from(*self.range.end() - *self.range.start()) + 1;
        while self.tried < size {
            let port = self.next;
            self.tried += 1;
            self.next = if port == *self.range.end() { *self.range.start() } else { port + 1 };
            if self.gives && !GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
                continue;
            }
            match try_bind(address, port) {
                Ok(()) => return Ok(port),
                Err(error) if self.exact => {
                    return Err(HostError::PortInUse { address, port, error });
                }
                Err(_) => {}
            }
        }
        Err(HostError::NoPort { range: self.range.clone() })
    }
}

/// Checks that a port is free by binding it briefly, for TCP and UDP. Consul's gossip, for one, uses both on one port.
///
/// # Errors
/// When the port is in use, or the address is not this machine's.
pub fn try_bind(address: IpAddr, port: u16) -> io::Result<()> {
    TcpListener::bind((address, port))?;
    UdpSocket::bind((address, port))?;
    Ok(())
}

/// Returns the range to search, given the text of `ip_local_port_range`.
fn outside_ephemeral(text: &str) -> RangeInclusive<u16> {
    let mut bounds = text.split_whitespace().map(str::parse::<u16>);
    let (low, high) = match (bounds.next(), bounds.next()) {
        (Some(Ok(low)), Some(Ok(high))) if low <= high => (low, high),
        _ => (32_768, 60_999),
    };
    if low >= LOWEST + ENOUGH {
        LOWEST..=low - 1
    } else if high <= u16::MAX - ENOUGH {
        high.max(LOWEST) + 1..=u16::MAX
    } else {
        // The ephemeral range covers everything, so no port is safe from it.
        LOWEST..=32_767
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lie_outside_the_ephemeral_range() {
        assert_eq!(outside_ephemeral("32768\t60999\n"), 17_000..=32_767);
        assert_eq!(outside_ephemeral("10000 60000"), 60_001..=65_535);
        assert_eq!(outside_ephemeral("1024 65535"), 17_000..=32_767);
        assert_eq!(outside_ephemeral("nonsense"), 17_000..=32_767);
        assert_eq!(outside_ephemeral("2000 9000"), 17_001..=65_535);
    }

    #[test]
    fn ports_are_handed_out_once() {
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            let mut ports = Allocator::new(None);
            for _ in 0..20 {
                assert!(seen.insert(ports.take().unwrap()));
            }
        }
    }

    #[test]
    fn replays_hand_out_the_same_ports() {
        let mut ports = Allocator::new(None);
        ports.take().unwrap();
        let given = ports.given();
        let taken = [ports.take().unwrap(), ports.take().unwrap()];
        let mut again = ports.replay(given);
        assert_eq!([again.take().unwrap(), again.take().unwrap()], taken);
        assert!(!taken.contains(&again.take().unwrap()), "further ports are new ones");
    }

    #[test]
    fn a_base_port_in_use_is_an_error_that_names_it() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let error = Allocator::new(Some(port)).take().unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} on 127.0.0.1:")), "{error}");
        assert!(error.contains("--base-port"), "{error}");
    }

    #[test]
    fn ports_are_tested_at_the_locations_address() {
        let held = TcpListener::bind("127.0.0.3:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let take = |address: [u8; 4]| {
            let location = Location { address: IpAddr::from(address), ..Location::HERE };
            Allocator::rehearsal(port).take_for(location)
        };
        assert_eq!(take([127, 0, 0, 2]).unwrap(), port);
        let error = take([127, 0, 0, 3]).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} on 127.0.0.3:")), "{error}");
    }

    #[test]
    fn ports_in_use_are_skipped() {
        let mut ports = Allocator::new(None);
        let first = ports.next;
        if let Ok(_held) = TcpListener::bind(("127.0.0.1", first)) {
            assert_ne!(ports.take().unwrap(), first);
        }
    }
}
