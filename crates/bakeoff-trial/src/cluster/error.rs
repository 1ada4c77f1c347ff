//! Errors of finding a cluster's nodes: endpoints without an address, loads without a node to go to.
//!
//! Not here: servers that end or are not ready (`bakeoff_host::HostError`, `NotReady`).

use std::io;

/// An endpoint without an address to connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("cannot be resolved: {0}")]
    Failed(#[source] io::Error),
    #[error("resolves to no address")]
    NoAddress,
    #[error("is no name that TLS can verify")]
    NoTlsName(#[source] rustls::pki_types::InvalidDnsNameError),
}

/// A cluster without the nodes that a load asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTargets {
    /// Clients should connect to the leader, but no node is known to lead.
    #[error("none of the nodes is known to lead")]
    NoLeader,
    /// Clients should connect to followers, but the cluster has none.
    #[error("there are no followers")]
    NoFollowers,
}
