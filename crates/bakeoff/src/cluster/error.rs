//! Errors of finding a cluster's nodes: endpoints without an address, loads without a node to go to.
//!
//! Not here: servers that end or are not ready (`bakeoff_host::HostError`, `NotReady`).

use std::fmt;
use std::io;

/// An endpoint without an address to connect to.
#[derive(Debug)]
pub(super) enum ResolveError {
    Failed(io::Error),
    NoAddress,
    NoTlsName(rustls::pki_types::InvalidDnsNameError),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(to, "cannot be resolved: {error}"),
            Self::NoAddress => write!(to, "resolves to no address"),
            Self::NoTlsName(_) => write!(to, "is no name that TLS can verify"),
        }
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::NoAddress => None,
            Self::NoTlsName(error) => Some(error),
        }
    }
}

/// A cluster without the nodes that a load asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTargets {
    NoLeader,
    NoFollowers,
}

impl fmt::Display for NoTargets {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::NoLeader => "none of the nodes is known to lead",
            Self::NoFollowers => "there are no followers",
        })
    }
}

impl std::error::Error for NoTargets {}
