//! Rejects a load with more clients at a node than the node accepts from one address.
//!
//! Servers limit connections per address against clients that leak them: Consul allows 200. A larger load would lose
//! the connections of some clients throughout.
//!
//! Not here: connections that a server refuses during a load (`bakeoff_engine`), limits of the machine.

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

/// Error of a load with too many clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{node}` accepts {} connections from one address (`{setting}`), but load `{load}` has {clients} clients there\n\
     hint: use fewer `clients`, or raise `{setting}`, which follows `ulimit -n` if bakeoff starts the server",
    limit.connections,
    setting = limit.setting
)]
pub(super) struct TooManyClients {
    load: String,
    /// Clients at the node from one address.
    clients: u64,
    node: String,
    limit: ConnectionLimit,
}

/// Queries the limit of each node that a load connects to. `generators` is the number of machines that share the
/// clients, each with its own address.
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

/// Checks all loads of a study against the systems that already run, with all clients on this machine.
///
/// # Errors
/// Fails if a load has too many clients, or if a system cannot be reached.
pub(crate) fn check_running(
    study: &Study,
    contenders: &[PreparedSystem<'_>],
    interrupted: &AtomicBool,
) -> Result<(), FleetError> {
    let limited = contenders.iter().filter(|contender| {
        let hooks = contender.system.declares().hooks;
        !contender.study_system.is_started() && hooks.connection_limit.is_some()
    });
    for PreparedSystem { study_system, system, .. } in limited {
        let cluster = cluster::attach(*system, study_system)?.ready(interrupted)?;
        for trial in
            plan(study, 0).iter().filter(|one| one.system == study_system.name && one.round == 0)
        {
            let workload = by_name(&study.workloads, &trial.workload, |one| &one.name);
            let load = by_name(&study.loads, &trial.load, |one| &one.name);
            // The trial itself reports a missing node.
            let Ok(nodes) = Routes::choose(&cluster, workload, load) else { continue };
            check(*system, &nodes, (load, most_clients(load, &study_system.name)), 1).map_err(
                |why| FleetError::unreachable(format!("system `{}`: {why}", study_system.name)),
            )?;
        }
    }
    Ok(())
}

/// Returns the maximum clients of a load's stages.
pub(super) fn most_clients(load: &Load, system: &str) -> u32 {
    load.clients_on(system).iter().copied().max().unwrap_or(1)
}
