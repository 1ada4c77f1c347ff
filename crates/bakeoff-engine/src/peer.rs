//! Describes the servers that clients connect to: address and TLS.
//!
//! Not here: addresses (`address`), connections (`transport`), names that move during a load (`lookup`).

use bakeoff_core::measurement::{TARGETS_MAX, TargetFigures};
use bakeoff_core::staleness::Staleness;

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

/// Creates one set of counters per node. Returns an empty list for a single node, whose counters would repeat the
/// total, and for more than [`TARGETS_MAX`] nodes.
pub(crate) fn figures_by_node(peers: &[Peer]) -> Vec<TargetFigures> {
    let of =
        |peer: &Peer| TargetFigures { node: peer.address.to_string(), ..TargetFigures::default() };
    let several = (2..=TARGETS_MAX).contains(&peers.len());
    if several { peers.iter().map(of).collect() } else { Vec::new() }
}

/// Creates one staleness record per node, or one for all nodes if there are more than [`TARGETS_MAX`].
pub(crate) fn aged(peers: &[Peer]) -> Vec<Staleness> {
    let of = |node: String| Staleness { node, ..Staleness::default() };
    match peers.len() {
        0..=TARGETS_MAX => peers.iter().map(|peer| of(peer.address.to_string())).collect(),
        many => vec![of(format!("all {many} nodes"))],
    }
}
