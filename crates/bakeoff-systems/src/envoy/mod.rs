//! Runs Envoy as the sidecar of a test application, behind its mesh's gateway.
//!
//! A sidecar is ready once it listens where the control plane should configure it, and treats plain requests as the
//! study asks. With mutual TLS it refuses them; otherwise they reach the application.
//!
//! Not here: the gateway, which is also an Envoy (`ingress_gateway`).

pub(super) mod admin;
pub(super) mod proxy;
pub(crate) mod recipe;

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind, KindOption, OptionForm};
use bakeoff_host::HostError;
use bakeoff_host::ports::Allocator;

use super::declaration::{Declaration, GuaranteeRules, Hooks, Origin};
use super::mesh::{self, Mesh, Place};
use super::{Access, ClusterStatus, DescribeContext, Description, NotReady, System};
use proxy::Plain;

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Envoy;

#[derive(Debug)]
pub(crate) struct Envoy;

/// Option for the number of threads of an Envoy.
pub(super) const THREADS: KindOption = KindOption {
    name: proxy::THREADS,
    form: OptionForm::Number,
    meaning: "number of threads that forward requests; Envoy's own default when absent",
};

/// True if plain requests must be refused.
struct Refuses(bool);

impl System for Envoy {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            ready_within: proxy::READY_WITHIN,
            located_with: Some(mesh::APPLICATION),
            hooks: Hooks { config_snapshot: Some(admin::config_snapshot), ..Hooks::default() },
            ..Declaration::new(
                Kind { options: &[THREADS], ..Kind::new("envoy") },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let described = proxy::describe(context, Place::Sidecar, ports)?;
        described.memory.keep(Refuses(Mesh::adjacent(context)?.mutual_tls));
        Ok(described)
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let node = nodes.first().ok_or("it has no nodes")?;
        admin::probe(node)?;
        let refuses = node.memory.get::<Refuses>().is_some_and(|refuses| refuses.0);
        match (refuses, proxy::plain(node)?) {
            (true, Plain::Refused) => Ok(ClusterStatus::default()),
            (false, Plain::Answered(reply)) if reply.contains(" 200") => {
                Ok(ClusterStatus::default())
            }
            (false, Plain::Answered(reply)) => {
                Err(format!("`{}` answered a plain request {reply}", node.name).into())
            }
            (false, Plain::Refused) => {
                Err(format!("`{}` refuses plain requests", node.name).into())
            }
            (true, Plain::Answered(reply)) => Err(NotReady::Never {
                seen: format!(
                    "`{}` answered a plain request {reply}: there is no mutual TLS in force",
                    node.name
                ),
                hint: "the control plane did not apply the study's settings; see its log"
                    .to_owned(),
            }),
        }
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    passes_on()
}

/// Returns the guarantees of every proxy.
pub(super) fn passes_on() -> Guarantees {
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: "when the server behind it acknowledges".into(),
        reads: "the answer of the server behind it".into(),
        ..Guarantees::default()
    }
}
