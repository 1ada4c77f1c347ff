//! Resolves endpoints of systems that already run, and chooses the trusted certificates.
//!
//! Not here: queries to them (`attach`, `metrics`).

use std::sync::Arc;

use bakeoff_core::study::Endpoint;
use bakeoff_engine::address::look_up;
use bakeoff_engine::tls;
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_systems::System;

use super::error::ResolveError;

/// Returns the trusted authorities if the study names none. A service may be public, like a website; clusters have
/// their own authorities.
pub(super) fn trust(system: &dyn System) -> tls::Trust {
    match system.kind().takes_requests() {
        true => tls::Trust::Machine,
        false => tls::Trust::Nobody,
    }
}

/// Resolves an endpoint to its first address, with TLS if it uses it.
pub(super) fn resolve(
    endpoint: &Endpoint,
    config: Option<&Arc<rustls::ClientConfig>>,
) -> Result<Target, ResolveError> {
    resolve_all(endpoint, config)?.into_iter().next().ok_or(ResolveError::NoAddress)
}

/// Resolves an endpoint to all its addresses, with TLS if it uses it.
pub(super) fn resolve_all(
    endpoint: &Endpoint,
    config: Option<&Arc<rustls::ClientConfig>>,
) -> Result<Vec<Target>, ResolveError> {
    let addresses = look_up(&endpoint.host, endpoint.port).map_err(ResolveError::Failed)?;
    let tls = match config.filter(|_| endpoint.tls) {
        None => None,
        Some(config) => {
            let name = endpoint.host.clone().try_into().map_err(ResolveError::NoTlsName)?;
            Some(TlsTarget::new(name, config.clone()))
        }
    };
    Ok(addresses.into_iter().map(|address| Target { address, tls: tls.clone() }).collect())
}
