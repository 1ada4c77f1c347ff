//! Attaches to a system that runs already: resolves its endpoints, and finds those that live.
//!
//! Not here: starting one (`mod`), reading its metrics (`metrics`).

use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use bakeoff_core::study::{self, Endpoint};
use bakeoff_engine::tls;
use bakeoff_engine::transport::{Target, TlsTarget};

use super::error::ResolveError;
use super::{ANSWER_WITHIN, Launched, credentials, living, metrics};
use crate::failure::Failure;
use crate::systems::{Access, Memory, System};

/// A system that runs already.
pub(crate) fn attach(
    system: &'static dyn System,
    asked: &study::System,
) -> Result<Launched, Failure> {
    let config = match &asked.tls {
        _ if !asked.endpoints().iter().any(|endpoint| endpoint.tls) => None,
        tls => {
            let alpn = system.declares().clients.alpn;
            Some(tls::client_config(tls.as_ref(), trust(system), alpn)?)
        }
    };
    // Whom to trust there is to be known before anything is asked.
    metrics::sources(system, asked, &[])?;
    let memory = Memory::default();
    credentials::keep(asked, &memory)?;
    let nodes = asked.endpoints().iter().map(|endpoint| {
        let target = resolve(endpoint, config.as_ref()).map_err(|error| {
            Failure::unreachable(format!(
                "endpoint `{}:{}` of system `{}`: {error}",
                endpoint.host, endpoint.port, asked.name
            ))
        })?;
        let authority = endpoint.authority();
        Ok(Access { name: authority.clone(), authority, target, memory: memory.clone() })
    });
    let nodes = nodes.collect::<Result<Vec<_>, Failure>>()?;
    let name = asked.name.clone();
    // A cluster that lost a minority of its nodes still works; of services each has to.
    let (living, dead) = match system.kind().takes_requests() {
        true => (nodes.clone(), Vec::new()),
        false => living::split(nodes.clone()),
    };
    let works = living.len() > dead.len();
    let nodes = if works { living } else { nodes };
    let missing = dead.into_iter().map(|node| node.name).filter(|_| works).collect();
    Ok(Launched { name, within: ANSWER_WITHIN, system, processes: Vec::new(), nodes, missing })
}

/// Returns whom clients trust where the study names no authority. A service may be anybody's, as what a browser
/// visits; clusters have authorities of their own.
pub(super) fn trust(system: &dyn System) -> tls::Trust {
    match system.kind().takes_requests() {
        true => tls::Trust::Machine,
        false => tls::Trust::Nobody,
    }
}

/// Resolves an endpoint, and finds out how to speak to it.
pub(super) fn resolve(
    endpoint: &Endpoint,
    config: Option<&Arc<rustls::ClientConfig>>,
) -> Result<Target, ResolveError> {
    let mut found =
        (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map_err(ResolveError::Failed)?;
    let address = found.next().ok_or(ResolveError::NoAddress)?;
    let tls = match config.filter(|_| endpoint.tls) {
        None => None,
        Some(config) => Some(TlsTarget {
            name: endpoint.host.clone().try_into().map_err(ResolveError::NoTlsName)?,
            config: config.clone(),
        }),
    };
    Ok(Target { address, tls })
}
