//! Refuses a load with more clients at a node than the node takes from one address, before it begins.
//!
//! Servers have such limits against clients that leak connections: Consul's is 200. A load beyond it would lose the
//! connections of some clients for as long as it lasts.
//!
//! Not here: connections that a server turns away during a load (`bakeoff_engine`), the machine's own limits.

use std::sync::atomic::AtomicBool;

use bakeoff_core::plan::plan;
use bakeoff_core::study::{Load, Study};
use bakeoff_systems::System;
use bakeoff_systems::declaration::ConnectionLimit;

use super::by_name;
use super::routes::Routes;
use crate::cluster;
use crate::cluster::contenders::PreparedSystem;
use bakeoff_fleet::error::FleetError;

/// A load with too many clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{node}` takes {} connections of one address (`{setting}`), and load `{load}` has {clients} clients there\n\
     hint: use fewer `clients`, or raise `{setting}`, which follows `ulimit -n` if bakeoff starts the server",
    limit.connections,
    setting = limit.setting
)]
pub(super) struct TooManyClients {
    load: String,
    /// Clients at the node, from one address.
    clients: u64,
    node: String,
    limit: ConnectionLimit,
}

/// Asks each node of a load's routes for its limit. `generators`: the machines that the clients are spread over, each
/// with an address of its own.
pub(super) fn check(
    system: &dyn System,
    nodes: &Routes,
    (load, clients): (&Load, u32),
    generators: usize,
) -> Result<(), TooManyClients> {
    let Some(limit_of) = system.declares().hooks.connection_limit else { return Ok(()) };
    let nodes = nodes.all();
    let clients = u64::from(clients).div_ceil(generators.max(1) as u64);
    let clients = clients.div_ceil(nodes.len().max(1) as u64);
    for node in nodes {
        if let Some(limit) = limit_of(node).filter(|limit| limit.connections < clients) {
            let (load, node) = (load.name.clone(), node.name.clone());
            return Err(TooManyClients { load, clients, node, limit });
        }
    }
    Ok(())
}

/// Checks every load of a study on the systems that run already, from this machine.
///
/// # Errors
/// When a load has too many clients, or a system cannot be reached.
pub(crate) fn check_running(
    study: &Study,
    contenders: &[PreparedSystem<'_>],
    interrupted: &AtomicBool,
) -> Result<(), FleetError> {
    let limited = contenders.iter().filter(|contender| {
        let hooks = contender.system.declares().hooks;
        !contender.asked.is_started() && hooks.connection_limit.is_some()
    });
    for PreparedSystem { asked, system, .. } in limited {
        let cluster = cluster::attach(*system, asked)?.ready(interrupted)?;
        for trial in plan(study, 0).iter().filter(|one| one.system == asked.name && one.round == 0)
        {
            let workload = by_name(&study.workloads, &trial.workload, |one| &one.name);
            let load = by_name(&study.loads, &trial.load, |one| &one.name);
            // Its trial says why there is no such node.
            let Ok(nodes) = Routes::choose(&cluster, workload, load) else { continue };
            check(*system, &nodes, (load, most_clients(load, &asked.name)), 1).map_err(|why| {
                FleetError::unreachable(format!("system `{}`: {why}", asked.name))
            })?;
        }
    }
    Ok(())
}

/// Returns the most clients of any stage of a load.
pub(super) fn most_clients(load: &Load, system: &str) -> u32 {
    load.clients_on(system).iter().copied().max().unwrap_or(1)
}
