//! Assigns the machines to nodes of each role.
//!
//! Not here: the list of machines, the seat of each node (`topology`), the node's configuration (the folder of its
//! kind).

use std::sync::Arc;

use bakeoff_host::Seat;

/// Seats of the nodes.
#[derive(Clone)]
pub struct SeatPlan {
    /// Seats of each role and kind, at least one.
    seats: SeatsOf,
    /// Returns the seat of a process that runs beside the node at a seat.
    beside: Arc<dyn Fn(Seat) -> Seat + Send + Sync>,
}

/// Returns the seats for nodes of a role and a kind.
type SeatsOf = Arc<dyn Fn(&str, &str) -> Vec<Seat> + Send + Sync>;

impl SeatPlan {
    /// Seats all nodes on this machine's loopback.
    pub fn here() -> Self {
        Self::by_role_and_kind(|_, _| vec![Seat::HERE])
    }

    /// Assigns these seats in rotation; at least one.
    #[cfg(any(test, feature = "testing"))]
    pub fn spread(seats: Vec<Seat>) -> Self {
        assert!(!seats.is_empty(), "nodes need a seat");
        Self::by_role_and_kind(move |_, _| seats.clone())
    }

    /// Assigns the seats of each role and kind in rotation; at least one.
    pub fn by_role_and_kind(
        seats: impl Fn(&str, &str) -> Vec<Seat> + Send + Sync + 'static,
    ) -> Self {
        Self { seats: Arc::new(seats), beside: Arc::new(|seat| seat) }
    }

    /// Sets the seat of a process beside a node. It has the same address as the node's.
    pub fn with_besides(self, beside: impl Fn(Seat) -> Seat + Send + Sync + 'static) -> Self {
        Self { beside: Arc::new(beside), ..self }
    }

    /// Returns the seat of a process beside the node at this seat, with the same address.
    pub(crate) fn beside(&self, seat: Seat) -> Seat {
        (self.beside)(seat)
    }

    /// Returns the seats for nodes of a role and a kind, at least one.
    pub(crate) fn of_role(&self, role: &str, kind: &str) -> Vec<Seat> {
        (self.seats)(role, kind)
    }
}
