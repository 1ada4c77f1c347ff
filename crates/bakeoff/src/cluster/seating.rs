//! Deals the machines of a run to the nodes of a system.
//!
//! Nodes get seats in turn, across all components, so that a storage's nodes and those that stand on it do not pile
//! up on the first machine. What has to be on another's machine takes that one's seats: a sidecar is beside its
//! application.
//!
//! Not here: which machines there are, what a node does with its seat (`systems`).

use std::net::{IpAddr, Ipv4Addr};

use bakeoff_host::Seat;

use super::topology::Component;

/// The seats that nodes take in turn, and where clients connect from.
#[derive(Debug, Clone)]
pub(crate) struct Seating {
    /// At least one.
    seats: Vec<Seat>,
    clients: Vec<IpAddr>,
}

impl Seating {
    /// Seats all nodes on this machine, on loopback, and the clients too.
    pub(crate) fn here() -> Self {
        Self { seats: vec![Seat::HERE], clients: vec![Ipv4Addr::LOCALHOST.into()] }
    }

    /// Deals these seats, one at least, in turn. Clients connect from this machine's loopback.
    #[cfg_attr(not(test), expect(dead_code, reason = "places give other seats than this machine"))]
    pub(crate) fn spread(seats: Vec<Seat>) -> Self {
        assert!(!seats.is_empty(), "nodes need a seat");
        Self { seats, ..Self::here() }
    }

    /// The same seats, with clients that connect from these addresses.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "places give other clients than this machine")
    )]
    pub(crate) fn with_clients(self, clients: Vec<IpAddr>) -> Self {
        Self { clients, ..self }
    }

    /// Where clients connect from.
    pub(crate) fn clients(&self) -> &[IpAddr] {
        &self.clients
    }

    /// Returns the role of each component and the seats of its nodes, in the order of the components.
    pub(super) fn deal<'a>(&self, components: &[Component<'a>]) -> Vec<(&'a str, Vec<Seat>)> {
        let mut turn = self.seats.iter().copied().cycle();
        let mut dealt: Vec<(&str, Vec<Seat>)> = Vec::new();
        for component in components {
            let beside = component.system.declares().seated_with;
            let beside = beside.and_then(|role| dealt.iter().find(|(other, _)| *other == role));
            let seats = match beside {
                Some((_, seats)) => seats.clone(),
                None => turn.by_ref().take(component.asked.nodes as usize).collect(),
            };
            dealt.push((component.role, seats));
        }
        dealt
    }
}
