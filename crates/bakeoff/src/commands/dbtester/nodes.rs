//! Finds machines for the nodes of a configuration.
//!
//! Nodes run on this machine, or with `--on` on the machines of a places file whose addresses match the group's
//! `peer_ips`.
//!
//! Not here: starting them (`bakeoff_trial::cluster`), reaching machines (`bakeoff_fleet::machines`).

use std::net::IpAddr;

use bakeoff_compat::dbtester::Group;
use bakeoff_core::places::{Machine, Places, ServerSelection};
use bakeoff_core::study::{DiagnosticSink, Endpoint, Servers};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// Started on this machine.
    Here {
        /// Number of the configuration's machines that this one replaces.
        replaced: usize,
    },
    /// Started on machines of a places file: one index per node.
    On(Vec<usize>),
    /// Already running at these addresses.
    Running(Vec<Endpoint>),
}

impl Nodes {
    /// Returns the nodes as a study lists them.
    pub(super) fn servers(&self) -> Servers {
        match self {
            Self::Here { .. } | Self::On(_) => Servers::Started,
            Self::Running(endpoints) => Servers::Running(endpoints.clone()),
        }
    }
}

/// Finds machines for the nodes of a group: in `places` if given, else this machine. `here` allows it to replace all
/// others.
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
                "`{}` is another machine, but without `--on` databases run on this one",
                node.host
            );
            let hint = "use `--here` to run all nodes on this machine, `--on PLACES.yaml` to run each on its own, or \
                        `step1_start_database: false` to load nodes that already run there";
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
                format!("no machine of the places file has the address `{}`", node.host),
                "set `address` of its machine to it, and `servers: true`",
            ),
            Some(place) if places.machines[place].servers == ServerSelection::Nothing => (
                format!(
                    "`{}` is the address of `{}`, which takes no servers",
                    node.host, places.machines[place].name
                ),
                "set `servers: true` for it in the places file",
            ),
            Some(place) if found.contains(&place) => (
                format!("`{}` is the address of two nodes", node.host),
                "give each node its own machine",
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

/// Returns the machines in the order that a run needs: those of the nodes first, in node order, then pure generators.
///
/// Returns `None` if the databases' nodes are not all on the first of the same machines.
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
    let servers =
        servers.map(|machine| Machine { servers: ServerSelection::Any, ..machine.clone() });
    let others = places.machines.iter().enumerate();
    let others = others.filter(|(place, machine)| machine.generator && !order.contains(place));
    let others =
        others.map(|(_, machine)| Machine { servers: ServerSelection::Nothing, ..machine.clone() });
    Some(Places { machines: servers.chain(others).collect(), ..places.clone() })
}
