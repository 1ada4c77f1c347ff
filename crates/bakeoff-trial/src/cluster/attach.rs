//! Attaches to a system that already runs: resolves its endpoints and finds live ones.
//!
//! Not here: starting a system (`mod`), its metrics (`metrics`), addresses and trust (`endpoints`).

use bakeoff_core::study;
use bakeoff_engine::tls::{self, TlsOptions};
use bakeoff_systems::carried_access::ClientTrust;
use bakeoff_systems::{Access, Memory, System};

use super::endpoints::{resolve_all, trust};
use super::{ANSWER_WITHIN, LaunchedCluster, credentials, live_nodes, metrics};
use bakeoff_fleet::error::FleetError;

/// Returns the nodes of a system that already runs.
pub(crate) fn attach(
    system: &'static dyn System,
    study_system: &study::System,
) -> Result<LaunchedCluster, FleetError> {
    let config = match &study_system.tls {
        _ if !study_system.endpoints().iter().any(|endpoint| endpoint.tls) => None,
        tls => {
            let alpn = system.declares().clients.alpn;
            Some(tls::client_config(tls.as_ref(), trust(system), alpn)?)
        }
    };
    // Check the certificates for metrics before any query.
    metrics::sources(system, study_system, &[])?;
    let memory = Memory::default();
    if config.is_some() {
        let texts = study_system.tls.as_ref().map(TlsOptions::from).unwrap_or_default().read()?;
        memory.keep(ClientTrust { texts, otherwise: trust(system) });
    }
    credentials::keep(study_system, &memory)?;
    let mut nodes = Vec::new();
    for endpoint in study_system.endpoints() {
        let targets = resolve_all(endpoint, config.as_ref()).map_err(|error| {
            FleetError::unreachable(format!(
                "endpoint `{}:{}` of system `{}`: {error}",
                endpoint.host, endpoint.port, study_system.name
            ))
        })?;
        let mut targets = live_nodes::accepting(targets);
        if !system.kind().takes_requests() {
            targets.truncate(1); // one endpoint is one node
        }
        let several = targets.len() > 1;
        for mut target in targets {
            if let Some(tls) = &mut target.tls {
                tls.begins = system.declares().clients.tls_begins;
            }
            let authority = endpoint.authority();
            let name = match several {
                true => format!("{authority} ({})", target.address.ip()),
                false => authority.clone(),
            };
            nodes.push(Access { name, authority, target, memory: memory.clone() });
        }
    }
    let name = study_system.name.clone();
    // A cluster works without a minority of its nodes. A service needs every endpoint.
    let (living, dead) = match system.kind().takes_requests() {
        true => (nodes.clone(), Vec::new()),
        false => live_nodes::split(nodes.clone()),
    };
    let works = living.len() > dead.len();
    let nodes = if works { living } else { nodes };
    let missing = dead.into_iter().map(|node| node.name).filter(|_| works).collect();
    Ok(LaunchedCluster {
        name,
        within: ANSWER_WITHIN,
        system,
        processes: Vec::new(),
        nodes,
        missing,
    })
}
