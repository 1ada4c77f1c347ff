//! The description of a system: its nodes, their settings, and how clients reach them.
//!
//! Not here: the order in which members of a composite system are described (`topology`), starting them (`bakeoff_host`).

use std::sync::Arc;

use bakeoff_core::record::{Encryption, Setting};
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_host::NodeSpec;

use super::{Access, Memory};

/// The nodes of a system and their settings.
#[derive(Default)]
pub struct Description {
    /// The nodes in their order; those that clients connect to have a port named `client`.
    pub nodes: Vec<NodeSpec>,
    /// The settings that depart from the system's own defaults.
    pub settings: Vec<Setting>,
    /// How clients verify its nodes, where they speak TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Its memory from the start, such as the passwords that its nodes are given.
    pub(crate) memory: Memory,
    /// How this member and those beside it speak to each other, in words (`plain HTTP`), and whether that
    /// is encrypted. Any member of a system may say it.
    pub between: Option<(&'static str, Encryption)>,
}

impl Description {
    /// Returns how its nodes are reached once they run.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let access = |spec: &NodeSpec| {
            let address = spec.seat.at(spec.port("client"));
            let tls = self.tls.as_ref().map(|config| {
                let name = rustls::pki_types::ServerName::IpAddress(spec.seat.address.into());
                TlsTarget::new(name, config.clone())
            });
            Access {
                name: spec.name.clone(),
                authority: address.to_string(),
                target: Target { address, tls },
                memory: self.memory.clone(),
            }
        };
        // Nodes that no client connects to have no such port.
        let reached = |spec: &&NodeSpec| spec.ports.iter().any(|(purpose, _)| purpose == "client");
        self.nodes.iter().filter(reached).map(access).collect()
    }
}
