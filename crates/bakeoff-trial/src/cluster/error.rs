//! Errors of finding a cluster's nodes: endpoints without an address, loads without a target node.
//!
//! Not here: servers that end or are not ready (`bakeoff_host::HostError`, `NotReady`).

use std::io;

#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("cannot be resolved: {0}")]
    Failed(#[source] io::Error),
    #[error("resolves to no address")]
    NoAddress,
    #[error("is not a name that TLS can verify")]
    NoTlsName(#[source] rustls::pki_types::InvalidDnsNameError),
}

/// Error of a load whose target nodes do not exist in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTargets {
    /// Clients should connect to the leader, but no node is known to lead.
    #[error("no node is known to be the leader")]
    NoLeader,
    /// Clients should connect to followers, but the cluster has none.
    #[error("the cluster has no followers")]
    NoFollowers,
}
