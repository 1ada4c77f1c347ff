//! Addresses and names of a service mesh's members: one gateway, one sidecar, their control plane.
//!
//! A control plane is described before its proxies. It decides what they listen on and how they make
//! themselves known to it, and keeps that for them in its memory. The proxies read it from their neighbour.
//!
//! Not here: what Envoy is started with (`envoy`), what a control plane is told (`consul`, `istio`).

use std::net::SocketAddr;
use std::sync::Arc;

use bakeoff_host::{HostError, Seat};
use serde_json::Value;

use super::{Access, Asked, option};
use crate::istio::agent::Agent;

/// The roles of the parts of a gateway.
pub(super) const APPLICATION: &str = "application";
pub(super) const CONTROL_PLANE: &str = "control-plane";
pub(super) const SIDECAR: &str = "sidecar";

/// The option that says whether proxies speak mutual TLS with each other.
pub(super) const MUTUAL_TLS: &str = "mtls";

/// The configuration that a control plane gives to its proxies.
pub(super) struct Mesh {
    pub(super) gateway: Proxy,
    pub(super) sidecar: Proxy,
    /// Whether the gateway and the sidecar prove to each other who they are.
    pub(super) mutual_tls: bool,
}

/// How one proxy is known to its control plane, and what it is to do.
pub(super) struct Proxy {
    /// Where it takes requests.
    pub(super) port: u16,
    /// Envoy's `node`: `id`, `cluster` and `metadata`.
    pub(super) node: Value,
    /// Envoy's clusters by which it reaches its control plane, the one for its configuration first.
    pub(super) clusters: Vec<Upstream>,
    /// The agent that starts Envoy and stands between it and the control plane, if there is one.
    pub(super) agent: Option<Agent>,
}

/// A cluster of Envoy's that speaks gRPC.
pub(super) struct Upstream {
    pub(super) name: &'static str,
    pub(super) at: At,
}

/// Where an upstream listens.
pub(super) enum At {
    /// At an address of the network.
    Address(SocketAddr),
    /// A socket in the file system, relative to the proxy's folder.
    Pipe(&'static str),
}

/// Which of the two proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Gateway,
    Sidecar,
}

impl Mesh {
    pub(super) fn proxy(&self, place: Place) -> &Proxy {
        match place {
            Place::Gateway => &self.gateway,
            Place::Sidecar => &self.sidecar,
        }
    }

    /// Returns the mesh of the control plane beside a proxy.
    pub(super) fn beside(asked: &Asked<'_>) -> Result<Arc<Self>, HostError> {
        let plane = node_of(asked, CONTROL_PLANE)?;
        plane.memory.get::<Self>().ok_or_else(|| HostError::Spec {
            node: asked.system.name.clone(),
            problem: "its control plane says nothing to proxies".into(),
        })
    }
}

/// The first node of a part.
pub(super) fn node_of<'a>(asked: &'a Asked<'_>, role: &str) -> Result<&'a Access, HostError> {
    let nodes = asked.neighbour(role).and_then(|part| part.nodes.first());
    nodes.ok_or_else(|| HostError::Spec {
        node: asked.system.name.clone(),
        problem: format!("it has no part `{role}`"),
    })
}

/// Returns where a member of the mesh runs, described or not.
pub(super) fn seat_of(asked: &Asked<'_>, role: &str) -> Result<Seat, HostError> {
    asked.seat_of(role).ok_or_else(|| HostError::Spec {
        node: asked.system.name.clone(),
        problem: format!("it has no part `{role}`"),
    })
}

/// Returns whether a whole system is to have mutual TLS inside: unless it says otherwise.
pub(super) fn has_mutual_tls(composite: &bakeoff_core::study::System) -> bool {
    option(composite, MUTUAL_TLS) != Some("off")
}
