//! The machines that nodes of each role may take, and where clients connect from.
//!
//! Not here: which machines there are, which node takes which (`topology`), what it does there (the folder of its kind).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bakeoff_host::Seat;

/// The seats that nodes take in turn, and where clients connect from.
#[derive(Clone)]
pub struct Seating {
    /// The seats of each role and kind, at least one.
    seats: SeatsOf,
    /// The seat for what goes beside the node at a seat.
    beside: Arc<dyn Fn(Seat) -> Seat + Send + Sync>,
    clients: Vec<IpAddr>,
}

/// Returns the seats that nodes of a role and a kind take in turn.
type SeatsOf = Arc<dyn Fn(&str, &str) -> Vec<Seat> + Send + Sync>;

impl Seating {
    /// Seats all nodes on this machine, on loopback, and the clients too.
    pub fn here() -> Self {
        Self::by_role_and_kind(|_, _| vec![Seat::HERE])
    }

    /// Deals these seats, one at least, in turn. Clients connect from this machine's loopback.
    #[cfg(any(test, feature = "testing"))]
    pub fn spread(seats: Vec<Seat>) -> Self {
        assert!(!seats.is_empty(), "nodes need a seat");
        Self::by_role_and_kind(move |_, _| seats.clone())
    }

    /// Deals the seats of each role and kind in turn, one at least. Clients connect from this machine's loopback.
    pub fn by_role_and_kind(
        seats: impl Fn(&str, &str) -> Vec<Seat> + Send + Sync + 'static,
    ) -> Self {
        let clients = vec![Ipv4Addr::LOCALHOST.into()];
        Self { seats: Arc::new(seats), beside: Arc::new(|seat| seat), clients }
    }

    /// The same seats, where what goes beside the node at a seat takes another one at that address.
    pub fn with_besides(self, beside: impl Fn(Seat) -> Seat + Send + Sync + 'static) -> Self {
        Self { beside: Arc::new(beside), ..self }
    }

    /// The same seats, with clients that connect from these addresses.
    pub fn with_clients(self, clients: Vec<IpAddr>) -> Self {
        Self { clients, ..self }
    }

    /// Where clients connect from.
    pub(crate) fn clients(&self) -> &[IpAddr] {
        &self.clients
    }

    /// Returns the seat for what goes beside the node at this one: it has the same address.
    pub(crate) fn beside(&self, seat: Seat) -> Seat {
        (self.beside)(seat)
    }

    /// Returns the seats that nodes of a role take in turn, one at least, when they are of this kind.
    pub(crate) fn of_role(&self, role: &str, kind: &str) -> Vec<Seat> {
        (self.seats)(role, kind)
    }
}
