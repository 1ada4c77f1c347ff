//! Runs the ingress gateway of a service mesh, which receives requests from clients outside.
//!
//! The gateway is an Envoy that a control plane configures, in front of the sidecar of a test application. Studies
//! compare control planes; the proxies are the same program for all. The limits of this system apply to its gateway.
//! Parts have their own limits.
//!
//! Gateway and sidecar use mutual TLS unless a study turns it off. The sidecar is ready once it refuses plain requests
//! (`envoy`). The gateway is ready once the application has answered a request through it, which proves that the
//! traffic is encrypted.
//!
//! Not here: a gateway that bakeoff did not start, whose kind is `http`.

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU32;

use bakeoff_core::record::{Encryption, Guarantees};
use bakeoff_core::study::{
    self, Kind, KindOption, Maintenance, MaintenanceOffer, MaintenanceScope, Operation, OptionForm,
    Role, Tier,
};
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{
    Declaration, GuaranteeRules, Hooks, InKubernetes, KubernetesRole, Origin,
};
use super::envoy::{self, admin, proxy};
use super::http_session::ask;
use super::mesh::{self, Mesh, Place};
use super::route_change::{RouteChange, RouteChanges};
use super::{
    Access, ClusterStatus, DescribeContext, Description, NotReady, System, http_status_text,
    option, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &IngressGateway;

#[derive(Debug)]
pub(crate) struct IngressGateway;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: mesh::MUTUAL_TLS,
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether gateway and sidecar use mutual TLS; on when absent",
    },
    envoy::THREADS,
];

const OFFERS: &[MaintenanceOffer] =
    &[MaintenanceOffer::new(Maintenance::ChangeRoutes, MaintenanceScope::System)];

const ROLES: &[Role] = &[
    Role {
        name: mesh::APPLICATION,
        kinds: &["application", "nginx", "process"],
        tier: Tier::Backend,
        meaning: "the server that answers the requests",
    },
    Role {
        name: mesh::CONTROL_PLANE,
        kinds: &["consul", "istio"],
        tier: Tier::Backend,
        meaning: "the server that configures gateway and sidecar",
    },
    Role {
        name: mesh::SIDECAR,
        kinds: &["envoy"],
        tier: Tier::Backend,
        meaning: "the proxy next to the application",
    },
];

/// Log messages of Envoy about untrusted certificates, its own or a peer's.
const UNTRUSTED: &[&str] = &[
    "CERTIFICATE_VERIFY_FAILED",
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_BAD_CERTIFICATE",
];

impl System for IngressGateway {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ready_within: proxy::READY_WITHIN,
            hooks: Hooks {
                config_snapshot: Some(admin::config_snapshot),
                change_routes: Some(RouteChange::next),
                ..Hooks::default()
            },
            in_kubernetes: Some(InKubernetes {
                does: KubernetesRole::PassesOn,
                carries: &[("mtls", Some("on"))],
            }),
            ..Declaration::new(
                Kind {
                    operations: &[Operation::Request],
                    options: OPTIONS,
                    roles: ROLES,
                    maintenance: OFFERS,
                    sound,
                    ..Kind::new("ingress-gateway")
                },
                Origin::Recipe(&envoy::recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let mut described = proxy::describe(context, Place::Gateway, ports)?;
        let mesh = Mesh::adjacent(context)?;
        let mutual_tls = mesh.mutual_tls;
        let plane = mesh::node_of(context, mesh::CONTROL_PLANE)?.clone();
        described.memory.keep(RouteChanges { mesh, plane, made: AtomicU32::new(0) });
        described.between = Some(match mutual_tls {
            true => ("mTLS to the sidecar", Encryption::Tls),
            false => ("plain HTTP", Encryption::Plain),
        });
        let (value, reason) = match mutual_tls {
            true => (
                "on",
                "as in both products; a probe checks that the sidecar refuses plain requests",
            ),
            false => ("off", super::ASKED),
        };
        described.settings.push(setting("mutual TLS to the sidecar", value, reason));
        Ok(described)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let node = nodes.first().ok_or("it has no nodes")?;
        admin::probe(node)?;
        match ask(node, "GET", "/")? {
            (200, _) => Ok(ClusterStatus::default()),
            (status, reply) => {
                let is_named = UNTRUSTED.iter().any(|sign| reply.contains(sign));
                let refused = !is_named && admin::has_refused_certificates(node)?;
                // Keep only the reason: Envoy's message starts with generic text.
                let reason = reply.rsplit("transport failure reason: ").next().unwrap_or_default();
                let reply = http_status_text(status, reason.as_bytes());
                let counted = if refused { "; it counts CERTIFICATE_VERIFY_FAILED" } else { "" };
                let seen = format!("`{}` answered `GET /` with {reply}{counted}", node.name);
                match is_named || refused {
                    false => Err(seen.into()),
                    true => Err(NotReady::Never {
                        seen,
                        hint: "gateway and sidecar do not trust each other's certificates, and waiting \
                               does not change"
                            .to_owned(),
                    }),
                }
            }
        }
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    envoy::passes_on()
}

/// Checks that all parts are there, and that TLS can be turned off if requested.
fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() {
        return wrong(
            "a gateway that already runs is loaded like any other service",
            "write `kind: http` with these `endpoints`; `bakeoff manifests ingress` writes such a study",
        );
    }
    for role in ROLES {
        if !system.parts.contains_key(role.name) {
            return Err((
                format!("it has no part `{}`: {}", role.name, role.meaning),
                format!("add `{}: {{kind: {}}}` to its `parts`", role.name, role.kinds[0]),
            ));
        }
    }
    if option(&system.parts[mesh::APPLICATION], "tls") == Some("on") {
        return wrong(
            "the sidecar uses plain HTTP to its application, but the application has TLS on",
            "leave `tls` out of the application's options: the sidecar encrypts the traffic between machines",
        );
    }
    let plane = &system.parts[mesh::CONTROL_PLANE];
    if option(system, mesh::MUTUAL_TLS) == Some("off") && plane.kind == "consul" {
        return wrong(
            "Consul's gateway always uses mutual TLS to sidecars: its permissive mode only lets other clients \
             connect without it",
            "leave `mtls: off` out of this system and of those compared with it",
        );
    }
    Ok(())
}
