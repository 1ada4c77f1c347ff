//! Describes the servers that clients connect to: address and TLS.
//!
//! Not here: addresses (`address`), connections (`transport`), names that move during a load (`lookup`).

use crate::address::Address;
use crate::transport::{Target, TlsTarget};

/// Describes the server end of a client's connections.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Address on which it listens.
    pub address: Address,
    /// Name to verify and trusted authorities, for TLS.
    pub tls: Option<TlsTarget>,
}

impl Peer {
    /// Returns the peer for a node. `authority` is its host and port as requests name them.
    pub fn new(target: &Target, authority: &str) -> Self {
        let (host, end) = match authority.strip_prefix('[') {
            Some(rest) => (rest, ']'),
            None => (authority, ':'),
        };
        let host = host.split(end).next().unwrap_or(host);
        Self { address: Address::of_host(host, target.address), tls: target.tls.clone() }
    }
}
