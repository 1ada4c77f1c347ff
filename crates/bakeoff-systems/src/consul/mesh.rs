//! Runs Consul as the control plane of a service mesh with one gateway and one service with a sidecar.
//!
//! It uses Consul's own certificate authority, which is the default. Access control is off by default, so every
//! service may call every other. Consul's gateway always uses mutual TLS to sidecars.
//!
//! Not here: the cluster itself (`consul`), the proxies (`envoy`).

use std::net::SocketAddr;

use bakeoff_core::record::Setting;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use serde_json::{Value, json};

use crate::mesh::{
    self, APPLICATION, Mesh, Proxy, ProxyEndpoint, TakesChanges, Upstream, location_of, node_of,
};
use crate::route_change;
use crate::{COMPOSITE, DescribeContext, setting};

/// Names of the services in Consul.
const GATEWAY: &str = "ingress";
const SERVICE: &str = "application";
/// Consul's name for the sidecar of a service.
const SIDECAR: &str = "application-sidecar-proxy";
/// Consul's name for the protocol of the services.
const HTTP: &str = "http";

pub(super) struct Plan {
    gateway: SocketAddr,
    sidecar: SocketAddr,
    application: SocketAddr,
    /// Registered port of the gateway. Nothing listens there, but it must differ from the listener's port.
    registered: u16,
}

impl Plan {
    pub(super) fn allocate(
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Self, HostError> {
        let (gateway, sidecar) =
            (location_of(context, COMPOSITE)?, location_of(context, mesh::SIDECAR)?);
        Ok(Self {
            gateway: gateway.at(ports.take_for(gateway)?),
            sidecar: sidecar.at(ports.take_for(sidecar)?),
            application: node_of(context, APPLICATION)?.target.address,
            registered: ports.take_for(gateway)?,
        })
    }

    /// Adds the mesh to a server's configuration. Only the first server registers the services.
    pub(super) fn add_to(&self, config: &mut Value, first: bool) {
        let Self { gateway, sidecar, application, registered } = *self;
        config["connect"] = json!({"enabled": true});
        config["config_entries"] = json!({"bootstrap": [
            {"kind": "proxy-defaults", "name": "global", "config": {"protocol": HTTP}},
            {
                "kind": "ingress-gateway",
                "name": GATEWAY,
                "listeners": [{
                    "port": gateway.port(),
                    "protocol": HTTP,
                    "services": [{"name": SERVICE, "hosts": ["*"]}],
                }],
            },
        ]});
        if !first {
            return;
        }
        config["services"] = json!([
            {
                "name": SERVICE,
                "address": application.ip(),
                "port": application.port(),
                "connect": {"sidecar_service": {
                    "address": sidecar.ip(),
                    "port": sidecar.port(),
                    "proxy": {
                        "local_service_address": application.ip(),
                        "local_service_port": application.port(),
                        // Set the protocol here too: the services are registered before the defaults take effect.
                        // Until then a sidecar would pass on bytes instead of requests.
                        "config": {"bind_address": sidecar.ip(), "protocol": HTTP},
                    },
                    "checks": [{"name": SERVICE, "alias_service": SERVICE}],
                }},
            },
            {"kind": "ingress-gateway", "name": GATEWAY, "address": gateway.ip(), "port": registered},
        ]);
    }

    /// Returns the bootstrap of the proxies, which get the rest of their configuration at `grpc`.
    pub(super) fn mesh(&self, grpc: SocketAddr) -> Mesh {
        let proxy = |id: &str, service: &str, at: SocketAddr| Proxy {
            port: at.port(),
            node: json!({
                "id": id,
                "cluster": service,
                "metadata": {"namespace": "default", "partition": "default"},
            }),
            clusters: vec![Upstream { name: "local_agent", at: ProxyEndpoint::Address(grpc) }],
            agent: None,
        };
        Mesh {
            gateway: proxy(GATEWAY, GATEWAY, self.gateway),
            sidecar: proxy(SIDECAR, SERVICE, self.sidecar),
            mutual_tls: true,
            takes: TakesChanges::ByRequest("/v1/config", routes),
        }
    }
}

/// Returns the routes of the application with those of a change. Consul adds the one for all other requests.
fn routes(change: &str) -> Value {
    json!({
        "Kind": "service-router",
        "Name": SERVICE,
        "Routes": [{
            "Match": {"HTTP": {"PathExact": route_change::path(change)}},
            "Destination": {
                "Service": SERVICE,
                "ResponseHeaders": {"Set": {(route_change::FIELD): change}},
            },
        }],
    })
}

/// Returns the settings that differ from Consul's defaults in this role.
pub(super) fn settings() -> Vec<Setting> {
    vec![
        setting("connect.enabled", true, "its own default; a control plane needs it"),
        setting("proxy-defaults protocol", HTTP, "its default is TCP, but the mesh carries HTTP"),
        setting(
            "checks of the sidecar",
            "that of the service",
            "its default checks the sidecar only every 10 s, which would delay the start",
        ),
    ]
}
