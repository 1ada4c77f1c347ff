//! Attaches to a system that runs already: looks at its endpoints, and finds those that live.
//!
//! Not here: starting one (`mod`), reading its metrics (`metrics`),
//! names and trust (`endpoints`).

use bakeoff_core::study;
use bakeoff_engine::tls::{self, TlsOptions};

use super::endpoints::{resolve, trust};
use super::{ANSWER_WITHIN, Launched, credentials, living, metrics};
use crate::failure::Failure;
use crate::systems::carried::Trusted;
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
    if config.is_some() {
        let texts = asked.tls.as_ref().map(TlsOptions::from).unwrap_or_default().read()?;
        memory.keep(Trusted { texts, otherwise: trust(system) });
    }
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
