//! Describes a system: its nodes, their settings, and how clients reach them.
//!
//! Not here: the order in which members of a composite system are described (`topology`), starting them (`bakeoff_host`).

use std::sync::Arc;

use bakeoff_core::record::{Encryption, Setting};
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_host::NodeSpec;

use super::{Access, Memory};

/// Nodes of a system with their settings, ready to be started.
#[derive(Default)]
pub struct Description {
    /// Nodes in order. Those that clients connect to have a port named `client`.
    pub nodes: Vec<NodeSpec>,
    /// Settings that differ from the system's defaults.
    pub settings: Vec<Setting>,
    /// TLS settings of the clients; `None` for plain text.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Initial values of its memory, such as the nodes' passwords.
    pub(crate) memory: Memory,
    /// Protocol between this member and its neighbours in words (`plain HTTP`), and whether it is encrypted. Any
    /// member may state it.
    pub between: Option<(&'static str, Encryption)>,
}

impl Description {
    /// Returns the access to its nodes once they run.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let access = |spec: &NodeSpec| {
            let address = spec.location.at(spec.port("client"));
            let tls = self.tls.as_ref().map(|config| {
                let name = rustls::pki_types::ServerName::IpAddress(spec.location.address.into());
                TlsTarget::new(name, config.clone())
            });
            Access {
                name: spec.name.clone(),
                authority: address.to_string(),
                target: Target { address, tls },
                memory: self.memory.clone(),
            }
        };
        // Nodes without clients have no such port.
        let reached = |spec: &&NodeSpec| spec.ports.iter().any(|(purpose, _)| purpose == "client");
        self.nodes.iter().filter(reached).map(access).collect()
    }
}
