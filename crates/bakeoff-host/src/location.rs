//! The machine that a node runs on, and its addresses there.
//!
//! Descriptions of nodes take both addresses only from the location: the one to announce and the one to listen on. The same
//! description therefore serves nodes that share this machine and nodes on separate machines.
//!
//! Not here: the assignment of locations to nodes (`bakeoff_systems::topology`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A machine of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MachineId {
    /// This machine, without an agent.
    Here,
    /// Index of the machine in the places file, from 0.
    Place(usize),
}

/// The machine of a node, and its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Machine.
    pub machine: MachineId,
    /// Address among the machines of the run.
    pub address: IpAddr,
    /// Address that the node listens on, if a relay at `address` passes connections on to it.
    pub relayed_to: Option<IpAddr>,
}

impl Location {
    /// This machine, on loopback.
    pub const HERE: Self = Self {
        machine: MachineId::Here,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        relayed_to: None,
    };

    /// Returns the socket address at which others reach a port: `127.0.0.1:2379`, `[2001:db8::1]:2379`.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// Returns the only address that the node listens on.
    pub fn listens(&self) -> IpAddr {
        self.relayed_to.unwrap_or(self.address)
    }

    /// Returns the socket address at which the node listens on a port.
    pub fn listens_at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.listens(), port)
    }

    /// Returns true if the location is on this machine without an agent.
    pub fn is_here(&self) -> bool {
        self.machine == MachineId::Here
    }
}

impl Default for Location {
    fn default() -> Self {
        Self::HERE
    }
}
