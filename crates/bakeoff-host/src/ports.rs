//! Finds TCP and UDP ports for servers.
//!
//! Only below the range that the kernel takes outgoing connections' ports from: a port in it may
//! be taken by a client of ours between being found free and being listened on. What remains is a
//! race against other listeners, so a port is tried by binding it, and each is given out once.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt;

use super::{HostError, Seat};

/// Yields ports that are free at the addresses of seats.
pub struct Allocator {
    /// Who finds ports on other machines.
    elsewhere: Option<Arc<dyn PortSource>>,
    range: RangeInclusive<u16>,
    next: u16,
    /// Whether the user chose where to begin: a port in use is then an error, for a user who
    /// opened ports in a firewall or reads logs by port must get those.
    exact: bool,
    /// Whether what is found is given out, or only looked at.
    gives: bool,
    tried: u32,
}

/// Finds ports on other machines.
pub trait PortSource: Send + Sync {
    /// Returns a port that nobody listens on at the address of a seat, and that was not given out before.
    ///
    /// # Errors
    /// When there is none, or the machine is lost.
    fn take(&self, seat: Seat) -> Result<u16, HostError>;
}

/// Low enough to be clear of most ephemeral ranges, high enough to be clear of most services.
const LOWEST: u16 = 17_000;
/// Fewer than this below the ephemeral range are not worth starting at random in.
const ENOUGH: u16 = 1_000;

/// Given out by this process, to whichever cluster.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

impl Allocator {
    /// From `base_port` upwards when given, else from a random start.
    pub fn new(base_port: Option<u16>) -> Self {
        if let Some(base) = base_port {
            return Self {
                elsewhere: None,
                range: base..=u16::MAX,
                next: base,
                exact: true,
                gives: true,
                tried: 0,
            };
        }
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let range = outside_ephemeral(text.as_deref().unwrap_or_default());
        // Two bakeoffs side by side should not walk through the same ports.
        let next = rand::rng().random_range(range.clone());
        Self { elsewhere: None, range, next, exact: false, gives: true, tried: 0 }
    }

    /// Has ports of other machines found by `source`.
    pub fn with_elsewhere(self, source: Arc<dyn PortSource>) -> Self {
        Self { elsewhere: Some(source), ..self }
    }

    /// Finds the ports that [`Self::new`] would, and leaves them free to be given out.
    pub fn rehearsal(base_port: u16) -> Self {
        Self { gives: false, ..Self::new(Some(base_port)) }
    }

    /// Returns whether the user chose where to begin, so that no other port will do.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The next port that nobody listens on at 127.0.0.1 and that was not given out before.
    ///
    /// # Errors
    /// When the chosen port is in use, or none is left.
    pub fn take(&mut self) -> Result<u16, HostError> {
        self.take_for(Seat::HERE)
    }

    /// The next port that nobody listens on at the address of a seat, and that was not given out before, at
    /// whichever address.
    ///
    /// # Errors
    /// When the chosen port is in use, or none is left.
    pub fn take_for(&mut self, seat: Seat) -> Result<u16, HostError> {
        if let Some(elsewhere) = self.elsewhere.as_ref().filter(|_| !seat.is_here()) {
            return elsewhere.take(seat);
        }
        let address = seat.address;
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

/// Binds a port for a moment, both kinds: Consul's gossip, for one, speaks TCP and UDP on the same port.
///
/// # Errors
/// When it is taken, or the address is of another machine.
pub fn try_bind(address: IpAddr, port: u16) -> io::Result<()> {
    TcpListener::bind((address, port))?;
    UdpSocket::bind((address, port))?;
    Ok(())
}

/// Returns where to look, given the text of `ip_local_port_range`, two numbers.
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
        // It covers everything: no port is safe, and binding is all that there is.
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
    fn no_port_is_given_out_twice() {
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            let mut ports = Allocator::new(None);
            for _ in 0..20 {
                assert!(seen.insert(ports.take().unwrap()));
            }
        }
    }

    #[test]
    fn a_base_port_in_use_is_an_error_that_names_it() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let error = Allocator::new(Some(port)).take().unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} on 127.0.0.1 ")), "{error}");
        assert!(error.contains("--base-port"), "{error}");
    }

    #[test]
    fn a_port_is_looked_for_at_the_address_of_its_seat() {
        let held = TcpListener::bind("127.0.0.3:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let take = |address: [u8; 4]| {
            let seat = Seat { address: IpAddr::from(address), ..Seat::HERE };
            Allocator::rehearsal(port).take_for(seat)
        };
        assert_eq!(take([127, 0, 0, 2]).unwrap(), port);
        let error = take([127, 0, 0, 3]).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} on 127.0.0.3 ")), "{error}");
    }

    #[test]
    fn a_port_somebody_listens_on_is_passed_over() {
        let mut ports = Allocator::new(None);
        let first = ports.next;
        if let Ok(_held) = TcpListener::bind(("127.0.0.1", first)) {
            assert_ne!(ports.take().unwrap(), first);
        }
    }
}
