//! Endpoints of systems that run already: their addresses, and whom clients trust there.
//!
//! Not here: what is asked at them (`attach`, `metrics`).

use std::net::ToSocketAddrs as _;
use std::sync::Arc;

use bakeoff_core::study::Endpoint;
use bakeoff_engine::tls;
use bakeoff_engine::transport::{Target, TlsTarget};

use super::error::ResolveError;
use crate::systems::System;

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
