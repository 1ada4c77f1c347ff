//! Where the nodes of a configuration run.
//!
//! That is this machine, or with `--on` the machines of a places file: those whose addresses are the group's
//! `peer_ips`, node by node.
//!
//! Not here: how they are started (`cluster`), how machines are reached (`machines`).

use std::net::IpAddr;

use bakeoff_compat::dbtester::Group;
use bakeoff_core::places::{Machine, Places, Takes};
use bakeoff_core::study::{DiagnosticSink, Endpoint, Servers};

/// The nodes of one database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// Started on this machine.
    Here {
        /// Machines of the configuration that this one stands for.
        replaced: usize,
    },
    /// Started on machines of a places file: their numbers there, node by node.
    On(Vec<usize>),
    /// They run already, at these addresses.
    Running(Vec<Endpoint>),
}

impl Nodes {
    /// Returns them as a study has them.
    pub(super) fn servers(&self) -> Servers {
        match self {
            Self::Here { .. } | Self::On(_) => Servers::Started,
            Self::Running(endpoints) => Servers::Running(endpoints.clone()),
        }
    }
}

/// Finds a place for the nodes of a group: on the machines of `places`, where there are any. `here`: this machine may
/// stand for all others.
pub(super) fn place(
    group: &Group,
    here: bool,
    places: Option<&Places>,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Nodes> {
    if !group.steps.start.value {
        let endpoint = |node: &bakeoff_compat::dbtester::Node| Endpoint {
            tls: false,
            host: node.host.clone(),
            port: node.database_port,
        };
        return Some(Nodes::Running(group.nodes.iter().map(endpoint).collect()));
    }
    if let Some(places) = places {
        return on(group, places, sink).map(Nodes::On);
    }
    let mut others = group.nodes.iter().filter(|node| !node.is_loopback()).peekable();
    match others.peek() {
        Some(node) if !here => {
            let what = format!(
                "`{}` is another machine, and without `--on` databases are started on this one",
                node.host
            );
            let hint = "`--here` runs all nodes on this machine, `--on PLACES.yaml` each on its own; with \
                        `step1_start_database: false` those that run there already are loaded";
            sink.hint(&node.at, what, hint);
            None
        }
        _ => Some(Nodes::Here { replaced: others.count() }),
    }
}

/// Finds each node's machine by its address.
fn on(group: &Group, places: &Places, sink: &mut DiagnosticSink<'_>) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for node in &group.nodes {
        let address = node.host.parse::<IpAddr>().ok();
        let here = places.machines.iter().position(|one| Some(one.address) == address);
        let (what, hint) = match here {
            None => (
                format!("`{}` is the address of no machine of the places file", node.host),
                "give the machine that has it this `address`, and `servers: true`",
            ),
            Some(place) if places.machines[place].servers == Takes::Nothing => (
                format!(
                    "`{}` is the address of `{}`, which takes no servers",
                    node.host, places.machines[place].name
                ),
                "say `servers: true` of it in the places file",
            ),
            Some(place) if found.contains(&place) => (
                format!("`{}` is the address of two nodes", node.host),
                "give each node a machine of its own",
            ),
            Some(place) => {
                found.push(place);
                continue;
            }
        };
        sink.hint(&node.at, what, hint);
        return None;
    }
    Some(found)
}

/// Returns the machines as a run takes them: those of the nodes first, in the order of the nodes, and besides them
/// generators alone. Every database's nodes are on the first of the same machines; `None` where they are not.
pub(super) fn in_order<'a>(
    places: &Places,
    nodes: impl Iterator<Item = &'a Nodes> + Clone,
) -> Option<Places> {
    let of = |nodes: &'a Nodes| match nodes {
        Nodes::On(machines) => machines.as_slice(),
        Nodes::Here { .. } | Nodes::Running(_) => &[],
    };
    let order = nodes.clone().map(of).max_by_key(|machines| machines.len())?;
    if !nodes.map(of).all(|machines| order.starts_with(machines)) {
        return None;
    }
    let servers = order.iter().map(|&place| &places.machines[place]);
    let servers = servers.map(|machine| Machine { servers: Takes::Any, ..machine.clone() });
    let others = places.machines.iter().enumerate();
    let others = others.filter(|(place, machine)| machine.generator && !order.contains(place));
    let others = others.map(|(_, machine)| Machine { servers: Takes::Nothing, ..machine.clone() });
    Some(Places { machines: servers.chain(others).collect(), ..places.clone() })
}
