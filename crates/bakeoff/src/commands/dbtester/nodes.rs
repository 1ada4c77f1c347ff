//! Where the nodes of a configuration run.
//!
//! Today that is this machine. A file of places (`--on`) would be a further kind of [`Nodes`], with the group's
//! `peer_ips` as the addresses of its machines.
//!
//! Not here: how they are started (`cluster`).

use bakeoff_compat::dbtester::Group;
use bakeoff_core::study::{DiagnosticSink, Endpoint, Servers};

/// The nodes of one database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// Started on this machine.
    Here {
        /// Machines of the configuration that this one stands for.
        replaced: usize,
    },
    /// They run already, at these addresses.
    Running(Vec<Endpoint>),
}

impl Nodes {
    /// Returns them as a study has them.
    pub(super) fn servers(&self) -> Servers {
        match self {
            Self::Here { .. } => Servers::Started,
            Self::Running(endpoints) => Servers::Running(endpoints.clone()),
        }
    }
}

/// Finds a place for the nodes of a group. `here`: this machine may stand for all others.
pub(super) fn place(group: &Group, here: bool, sink: &mut DiagnosticSink<'_>) -> Option<Nodes> {
    if !group.steps.start.value {
        let endpoint = |node: &bakeoff_compat::dbtester::Node| Endpoint {
            tls: false,
            host: node.host.clone(),
            port: node.database_port,
        };
        return Some(Nodes::Running(group.nodes.iter().map(endpoint).collect()));
    }
    let mut others = group.nodes.iter().filter(|node| !node.is_loopback()).peekable();
    match others.peek() {
        Some(node) if !here => {
            let what = format!(
                "`{}` is another machine, and databases are started on this one alone",
                node.host
            );
            let hint = "`--here` runs all nodes on this machine; with `step1_start_database: false` those that run \
                        there already are loaded";
            sink.hint(&node.at, what, hint);
            None
        }
        _ => Some(Nodes::Here { replaced: others.count() }),
    }
}
