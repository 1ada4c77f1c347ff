//! Deals the machines of a run to the nodes of a system.
//!
//! Nodes get seats in turn, across all components, so that a storage's nodes and those that stand on it do not pile
//! up on the first machine. What has to be on another's machine takes that one's seats: a sidecar is beside its
//! application.
//!
//! Not here: which machines there are, what a node does with its seat (`systems`).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bakeoff_host::Seat;

use super::topology::Component;

/// The seats that nodes take in turn, and where clients connect from.
#[derive(Clone)]
pub(crate) struct Seating {
    /// The seats of each role, at least one.
    seats: SeatsOfRole,
    clients: Vec<IpAddr>,
}

/// Returns the seats that nodes of a role take in turn.
type SeatsOfRole = Arc<dyn Fn(&str) -> Vec<Seat> + Send + Sync>;

impl Seating {
    /// Seats all nodes on this machine, on loopback, and the clients too.
    pub(crate) fn here() -> Self {
        Self::by_role(|_| vec![Seat::HERE])
    }

    /// Deals these seats, one at least, in turn. Clients connect from this machine's loopback.
    #[cfg(test)]
    pub(crate) fn spread(seats: Vec<Seat>) -> Self {
        assert!(!seats.is_empty(), "nodes need a seat");
        Self::by_role(move |_| seats.clone())
    }

    /// Deals the seats of each role in turn, one at least. Clients connect from this machine's loopback.
    pub(crate) fn by_role(seats: impl Fn(&str) -> Vec<Seat> + Send + Sync + 'static) -> Self {
        Self { seats: Arc::new(seats), clients: vec![Ipv4Addr::LOCALHOST.into()] }
    }

    /// The same seats, with clients that connect from these addresses.
    pub(crate) fn with_clients(self, clients: Vec<IpAddr>) -> Self {
        Self { clients, ..self }
    }

    /// Where clients connect from.
    pub(crate) fn clients(&self) -> &[IpAddr] {
        &self.clients
    }

    /// Returns the role of each component and the seats of its nodes, in the order of the components.
    pub(super) fn deal<'a>(&self, components: &[Component<'a>]) -> Vec<(&'a str, Vec<Seat>)> {
        let mut turn = 0;
        let mut dealt: Vec<(&str, Vec<Seat>)> = Vec::new();
        for component in components {
            let beside = component.system.declares().seated_with;
            let beside = beside.and_then(|role| dealt.iter().find(|(other, _)| *other == role));
            let seats = match beside {
                Some((_, seats)) => seats.clone(),
                None => {
                    let seats = (self.seats)(component.role);
                    let nodes = component.asked.nodes as usize;
                    turn += nodes;
                    (turn - nodes..turn).map(|turn| seats[turn % seats.len()]).collect()
                }
            };
            dealt.push((component.role, seats));
        }
        dealt
    }
}
