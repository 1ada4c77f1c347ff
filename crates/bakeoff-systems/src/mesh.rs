//! Holds addresses and names of a service mesh's members: one gateway, one sidecar, their control plane.
//!
//! A control plane is described before its proxies. It chooses their ports and identities, and stores them in its
//! memory, where the proxies read them.
//!
//! Not here: Envoy's bootstrap (`envoy`), the configuration of control planes (`consul`, `istio`).

use std::net::SocketAddr;
use std::sync::Arc;

use bakeoff_host::{HostError, Location};
use serde_json::Value;

use super::{Access, DescribeContext, option};
use crate::istio::agent::Agent;

/// Roles of a gateway's parts.
pub(super) const APPLICATION: &str = "application";
pub(super) const CONTROL_PLANE: &str = "control-plane";
pub(super) const SIDECAR: &str = "sidecar";

/// Option for mutual TLS between proxies.
pub(super) const MUTUAL_TLS: &str = "mtls";

/// Settings of the proxies, as the control plane chose them.
pub(super) struct Mesh {
    pub(super) gateway: Proxy,
    pub(super) sidecar: Proxy,
    /// True if the gateway and the sidecar authenticate each other.
    pub(super) mutual_tls: bool,
    /// How the control plane takes changes of the gateway's routes.
    pub(super) takes: TakesChanges,
}

/// How a control plane takes a change: the request or the file for the change of a name.
pub(super) enum TakesChanges {
    /// `PUT` of this JSON to this path.
    ByRequest(&'static str, fn(&str) -> Value),
    /// A file of the control plane's node, which it watches.
    ByFile(&'static str, Box<dyn Fn(&str) -> Value + Send + Sync>),
}

/// Identity and settings of one proxy.
pub(super) struct Proxy {
    /// Port on which it accepts requests.
    pub(super) port: u16,
    /// Envoy's `node`: `id`, `cluster` and `metadata`.
    pub(super) node: Value,
    /// Envoy clusters that reach the control plane, the one for configuration first.
    pub(super) clusters: Vec<Upstream>,
    /// Agent that starts Envoy and forwards its configuration, if there is one.
    pub(super) agent: Option<Agent>,
}

/// An Envoy cluster that speaks gRPC.
pub(super) struct Upstream {
    pub(super) name: &'static str,
    pub(super) at: ProxyEndpoint,
}

pub(super) enum ProxyEndpoint {
    /// At an address of the network.
    Address(SocketAddr),
    /// Socket in the file system, relative to the proxy's folder.
    Pipe(&'static str),
}

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

    /// Returns the mesh of the control plane next to a proxy.
    pub(super) fn adjacent(context: &DescribeContext<'_>) -> Result<Arc<Self>, HostError> {
        let plane = node_of(context, CONTROL_PLANE)?;
        plane.memory.get::<Self>().ok_or_else(|| HostError::Spec {
            node: context.system.name.clone(),
            problem: "its control plane has no settings for proxies".into(),
        })
    }
}

/// Returns the first node of a part.
pub(super) fn node_of<'a>(
    context: &'a DescribeContext<'_>,
    role: &str,
) -> Result<&'a Access, HostError> {
    let nodes = context.neighbour(role).and_then(|part| part.nodes.first());
    nodes.ok_or_else(|| HostError::Spec {
        node: context.system.name.clone(),
        problem: format!("it has no part `{role}`"),
    })
}

/// Returns the location of a mesh member, which need not be described yet.
pub(super) fn location_of(
    context: &DescribeContext<'_>,
    role: &str,
) -> Result<Location, HostError> {
    context.location_of(role).ok_or_else(|| HostError::Spec {
        node: context.system.name.clone(),
        problem: format!("it has no part `{role}`"),
    })
}

/// Returns true if the composite system uses mutual TLS inside, which is the default.
pub(super) fn has_mutual_tls(composite: &bakeoff_core::study::System) -> bool {
    option(composite, MUTUAL_TLS) != Some("off")
}
