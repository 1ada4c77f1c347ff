//! Writes Istio's configuration files: the mesh, and its resources in Kubernetes' format.
//!
//! Each resource is a separate file of JSON, which is valid YAML. JSON cannot hold several documents in one file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

use crate::route_change;

use super::{APPLICATION, GATEWAY, NAMESPACE, TRUST_DOMAIN};

/// Addresses of the mesh, and whether traffic is encrypted.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) gateway: SocketAddr,
    pub(super) sidecar: SocketAddr,
    /// Port of the application, at the sidecar's address.
    pub(super) application: u16,
    pub(super) mutual_tls: bool,
}

/// Returns the settings of the mesh. Its resources are in `folder`.
pub(super) fn mesh(folder: &Path) -> String {
    json!({
        "trustDomain": TRUST_DOMAIN,
        "configSources": [{"address": format!("fs://{}", folder.display())}],
        // Leave out Istio's telemetry filters, because nothing reads their metrics.
        "defaultProviders": {},
    })
    .to_string()
}

impl Plan {
    /// Returns the resources with their file names.
    pub(super) fn resources(&self) -> Vec<(String, String)> {
        let file = |resource: Value| {
            let kind = resource["kind"].as_str().unwrap_or_default().to_owned();
            (format!("{kind}.yaml"), resource.to_string())
        };
        self.each().into_iter().map(file).collect()
    }

    /// Returns the gateway's routes, with that of a change before the one for all requests.
    pub(super) fn routes(&self, change: Option<&str>) -> Value {
        let route = json!([{"destination": {
            "host": host(), "port": {"number": self.sidecar.port()},
        }}]);
        let of_change = change.map(|name| {
            json!({
                "match": [{"uri": {"exact": route_change::path(name)}}],
                "headers": {"response": {"set": {(route_change::FIELD): name}}},
                "route": route,
            })
        });
        let all: Vec<Value> = of_change.into_iter().chain([json!({"route": route})]).collect();
        let spec = json!({"hosts": ["*"], "gateways": [GATEWAY], "http": all});
        resource("networking", "VirtualService", GATEWAY, spec)
    }

    fn each(&self) -> Vec<Value> {
        let Self { gateway, sidecar, application, mutual_tls } = *self;
        let selector = json!({"labels": {"app": APPLICATION}});
        let port = json!({"number": sidecar.port(), "name": "http", "protocol": "HTTP"});
        let mut labels = json!({"app": APPLICATION});
        if mutual_tls {
            // Label that tells a gateway that the workload accepts mutual TLS.
            labels["security.istio.io/tlsMode"] = "istio".into();
        }
        vec![
            resource(
                "networking",
                "Gateway",
                GATEWAY,
                json!({
                    "selector": {"app": GATEWAY},
                    "servers": [{
                        "port": {"number": gateway.port(), "name": "http", "protocol": "HTTP"},
                        "bind": gateway.ip(),
                        "hosts": ["*"],
                    }],
                }),
            ),
            self.routes(None),
            resource(
                "networking",
                "ServiceEntry",
                APPLICATION,
                json!({
                    "hosts": [host()],
                    "location": "MESH_INTERNAL",
                    "resolution": "STATIC",
                    "ports": [port],
                    "workloadSelector": selector,
                }),
            ),
            resource(
                "networking",
                "WorkloadEntry",
                APPLICATION,
                json!({
                    "address": sidecar.ip(),
                    "ports": {"http": sidecar.port()},
                    "labels": labels,
                    "serviceAccount": APPLICATION,
                }),
            ),
            resource(
                "networking",
                "Sidecar",
                APPLICATION,
                json!({
                    "workloadSelector": selector,
                    "ingress": [{
                        "port": port,
                        "bind": sidecar.ip(),
                        "captureMode": "NONE",
                        "defaultEndpoint": endpoint(sidecar.ip(), application),
                    }],
                    // It makes no outgoing calls.
                    "egress": [{"hosts": ["~/*"]}],
                }),
            ),
            resource(
                "security",
                "PeerAuthentication",
                "default",
                json!({"mtls": {"mode": if mutual_tls { "STRICT" } else { "DISABLE" }}}),
            ),
        ]
    }
}

/// Returns the application's name in the mesh.
fn host() -> String {
    format!("{APPLICATION}.{NAMESPACE}.svc.{TRUST_DOMAIN}")
}

/// Returns the application's address for the sidecar's configuration: loopback, or the sidecar's own address, for
/// which Istio writes the address of all interfaces.
fn endpoint(sidecar: IpAddr, port: u16) -> SocketAddr {
    let own: IpAddr = match sidecar {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => sidecar,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(own, port)
}

fn resource(group: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{group}.istio.io/v1"),
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}
