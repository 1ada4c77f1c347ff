//! The ingress gateway of a service mesh: what clients outside it send requests to.
//!
//! An Envoy that a control plane programs, in front of the sidecar of a test application. The control
//! plane is what is compared; the proxies are the same program for all. The limits of a system of this
//! kind are its gateway's; parts have limits of their own.
//!
//! Gateway and sidecar speak mutual TLS unless a study says otherwise. The sidecar is not ready before it
//! is known to refuse plain requests (`envoy`), and the gateway not before a request through it was
//! answered by the application: so what passed was encrypted.
//!
//! Not here: a gateway that runs already, whose kind is `http`.

#[cfg(test)]
mod tests;

use bakeoff_core::record::{Encryption, Guarantees};
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm, Role, Tier};
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Declaration, Does, GuaranteeRules, Hooks, InKubernetes, Origin};
use super::envoy::{self, admin, proxy};
use super::http_session::ask;
use super::mesh::{self, Mesh, Place};
use super::{
    Access, Asked, ClusterStatus, Description, NotReady, System, http_status_text, option, setting,
};

/// The system for the registry.
pub(crate) const SYSTEM: &dyn System = &IngressGateway;

/// A mesh's gateway.
#[derive(Debug)]
pub(crate) struct IngressGateway;

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: mesh::MUTUAL_TLS,
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether gateway and sidecar speak mutual TLS; they do when absent",
    },
    envoy::THREADS,
];

const ROLES: &[Role] = &[
    Role {
        name: mesh::APPLICATION,
        kinds: &["application", "nginx", "process"],
        tier: Tier::Backend,
        meaning: "what answers requests in the end",
    },
    Role {
        name: mesh::CONTROL_PLANE,
        kinds: &["consul", "istio"],
        tier: Tier::Backend,
        meaning: "what tells gateway and sidecar what to do",
    },
    Role {
        name: mesh::SIDECAR,
        kinds: &["envoy"],
        tier: Tier::Backend,
        meaning: "the proxy beside the application",
    },
];

/// Words of Envoy's log about a certificate that it does not trust, or one of its own that is not trusted.
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
            hooks: Hooks { config_snapshot: Some(admin::config_snapshot), ..Hooks::default() },
            in_kubernetes: Some(InKubernetes {
                does: Does::PassesOn,
                carries: &[("mtls", Some("on"))],
            }),
            ..Declaration::new(
                Kind {
                    operations: &[Operation::Request],
                    options: OPTIONS,
                    roles: ROLES,
                    sound,
                    ..Kind::new("ingress-gateway")
                },
                Origin::Recipe(&envoy::recipe::RECIPE),
            )
        }
    }

    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError> {
        let mut described = proxy::describe(asked, Place::Gateway, ports)?;
        let mutual_tls = Mesh::beside(asked)?.mutual_tls;
        described.between = Some(match mutual_tls {
            true => ("mTLS to the sidecar", Encryption::Tls),
            false => ("plain HTTP", Encryption::Plain),
        });
        let (value, reason) = match mutual_tls {
            true => {
                ("on", "as both products have it: the sidecar is seen to refuse plain requests")
            }
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
                let untrusted = UNTRUSTED.iter().any(|sign| reply.contains(sign));
                // Envoy's own words begin with what anything might mean.
                let reason = reply.rsplit("transport failure reason: ").next().unwrap_or_default();
                let reply = http_status_text(status, reason.as_bytes());
                let seen = format!("`{}` answered `GET /` with {reply}", node.name);
                match untrusted {
                    false => Err(seen.into()),
                    true => Err(NotReady::Never {
                        seen,
                        hint: "gateway and sidecar do not trust each other's certificates, which waiting \
                               does not change"
                            .to_owned(),
                    }),
                }
            }
        }
    }
}

/// Says what it guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    envoy::passes_on()
}

/// Checks beyond the form: that it has all its parts, and that TLS can be switched off.
fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() {
        return wrong(
            "one that runs already is like any other service",
            "write `kind: http` with these `endpoints`; `bakeoff manifests ingress` writes a study of them",
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
            "a sidecar speaks plain HTTP to its application, and this one wants TLS",
            "leave `tls` out of the application's options: what leaves the machine is the sidecar's",
        );
    }
    let plane = &system.parts[mesh::CONTROL_PLANE];
    if option(system, mesh::MUTUAL_TLS) == Some("off") && plane.kind == "consul" {
        return wrong(
            "Consul's gateway always speaks mutual TLS to sidecars: its permissive mode only lets others \
             reach them without",
            "leave `mtls: off` out, here and for what it is compared with",
        );
    }
    Ok(())
}
