//! Consul as the control plane of a service mesh: one gateway, and one service with a sidecar.
//!
//! Its certificate authority is Consul's own, as by default. Who may call whom is not restricted, as by
//! default too where access control is off. Its gateway always speaks mutual TLS to sidecars.
//!
//! Not here: the cluster itself (`consul`), what its proxies are (`envoy`).

use std::net::SocketAddr;

use bakeoff_core::record::Setting;
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;
use serde_json::{Value, json};

use crate::mesh::{self, APPLICATION, At, Mesh, Proxy, Upstream, node_of, seat_of};
use crate::{Asked, COMPOSITE, setting};

/// The services, as Consul knows them.
const GATEWAY: &str = "ingress";
const SERVICE: &str = "application";
/// How Consul calls the sidecar of a service.
const SIDECAR: &str = "application-sidecar-proxy";
/// The protocol of the services, as Consul calls it.
const HTTP: &str = "http";

/// The addresses of the mesh.
pub(super) struct Plan {
    gateway: SocketAddr,
    sidecar: SocketAddr,
    application: SocketAddr,
    /// The port that the gateway is registered with; nobody listens there, but it has to differ from its
    /// listener's.
    registered: u16,
}

impl Plan {
    pub(super) fn allocate(asked: &Asked<'_>, ports: &mut Allocator) -> Result<Self, HostError> {
        let (gateway, sidecar) = (seat_of(asked, COMPOSITE)?, seat_of(asked, mesh::SIDECAR)?);
        Ok(Self {
            gateway: gateway.at(ports.take_for(gateway)?),
            sidecar: sidecar.at(ports.take_for(sidecar)?),
            application: node_of(asked, APPLICATION)?.target.address,
            registered: ports.take_for(gateway)?,
        })
    }

    /// Adds the mesh to a server's configuration: it is the same for each but the services,
    /// which belong to the first.
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
                        // The services are registered before the defaults are in force, and until
                        // then a sidecar would pass bytes on instead of requests.
                        "config": {"bind_address": sidecar.ip(), "protocol": HTTP},
                    },
                    "checks": [{"name": SERVICE, "alias_service": SERVICE}],
                }},
            },
            {"kind": "ingress-gateway", "name": GATEWAY, "address": gateway.ip(), "port": registered},
        ]);
    }

    /// Returns the bootstrap of the proxies; they are told the rest at `grpc`.
    pub(super) fn mesh(&self, grpc: SocketAddr) -> Mesh {
        let proxy = |id: &str, service: &str, at: SocketAddr| Proxy {
            port: at.port(),
            node: json!({
                "id": id,
                "cluster": service,
                "metadata": {"namespace": "default", "partition": "default"},
            }),
            clusters: vec![Upstream { name: "local_agent", at: At::Address(grpc) }],
            agent: None,
        };
        Mesh {
            gateway: proxy(GATEWAY, GATEWAY, self.gateway),
            sidecar: proxy(SIDECAR, SERVICE, self.sidecar),
            mutual_tls: true,
        }
    }
}

/// Returns the settings that depart from Consul's defaults in this role.
pub(super) fn settings() -> Vec<Setting> {
    vec![
        setting("connect.enabled", true, "its own default; it is a control plane"),
        setting(
            "proxy-defaults protocol",
            HTTP,
            "its default is TCP, and a mesh of HTTP is compared",
        ),
        setting(
            "checks of the sidecar",
            "that of the service",
            "its default connects to the sidecar every 10 s, and would be waited for",
        ),
    ]
}
