//! The machine that a node runs on, and the address at which others reach it there.
//!
//! Whatever describes a node takes the address from its seat and from nowhere else. So the same description
//! serves servers that share this machine and servers that have machines of their own.
//!
//! Not here: which node gets which seat (`bakeoff_systems::topology`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};
/// A machine of a run, as nodes know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MachineId {
    /// This machine, without an agent.
    Here,
    /// The machine at this place in the places file, counted from 0.
    Place(usize),
}

/// Where a node runs, and the only address that it listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The machine.
    pub machine: MachineId,
    /// Its address among the machines of the run.
    pub address: IpAddr,
}

impl Seat {
    /// This machine, on loopback.
    pub const HERE: Self =
        Self { machine: MachineId::Here, address: IpAddr::V4(Ipv4Addr::LOCALHOST) };

    /// Returns the address of a port: `127.0.0.1:2379`, `[2001:db8::1]:2379`.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// Returns whether nothing but this machine reaches it.
    pub fn is_here(&self) -> bool {
        self.machine == MachineId::Here
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self::HERE
    }
}
