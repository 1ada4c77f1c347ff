//! Runs a test application behind gateways: it answers any path with a text of fixed length.
//!
//! It is part of bakeoff, so nothing has to be fetched, and so cheap that it does not limit a measurement. Compared as
//! a system by itself, it shows the cost of the requests without a gateway.
//!
//! Not here: the server itself (`canary` in the crate `bakeoff`).

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, own_program};

use super::declaration::{Declaration, GuaranteeRules, InKubernetes, KubernetesRole, Origin};
use super::http_session::ask;
use super::own_servers::CANARY;
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, NotReady, System, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Application;

#[derive(Debug)]
pub(crate) struct Application;

/// Default length of a response body, in bytes.
const SIZE: &str = "255";

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "size",
        form: OptionForm::Number,
        meaning: "length of the response body in bytes; 255 when absent",
    },
    KindOption {
        name: "delay",
        form: OptionForm::Duration,
        meaning: "delay of each response; none when absent",
    },
];

impl System for Application {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            in_kubernetes: Some(InKubernetes {
                does: KubernetesRole::Answers,
                carries: &[("size", None)],
            }),
            ..Declaration::new(
                Kind {
                    operations: &[Operation::Request],
                    options: OPTIONS,
                    ..Kind::new("application")
                },
                Origin::Bakeoff,
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let name = context.node_names().next().unwrap_or_default();
        let location = context.location(0);
        let client = ports.take_for(location)?;
        let dir = context.dir.join(&name);
        let mut args = vec![
            CANARY.to_owned(),
            "--listen".into(),
            location.at(client).to_string(),
            "--data".into(),
            dir.join("data").display().to_string(),
            "--answer".into(),
            context.option("size").unwrap_or(SIZE).to_owned(),
        ];
        if let Some(delay) = context.option("delay") {
            args.extend(["--delay".to_owned(), delay.to_owned()]);
        }
        let node = NodeSpec {
            program: own_program(),
            args: args.into_iter().map(Into::into).collect(),
            dir,
            location,
            ports: vec![("client".into(), client)],
            limits: context.system.limits.clone(),
            name,
            ..NodeSpec::default()
        };
        let options = context.system.options.iter();
        let settings = options.map(|(name, value)| setting(name, value, ASKED)).collect();
        Ok(Description { nodes: vec![node], settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let node = nodes.first().ok_or("it has no nodes")?;
        match ask(node, "GET", "/health")? {
            (200, _) => Ok(ClusterStatus::default()),
            (status, reply) => {
                Err(format!("GET /health answered {status}: {}", reply.trim()).into())
            }
        }
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: "nothing is written".into(),
        reads: "the same text, always".into(),
        ..Guarantees::default()
    }
}
