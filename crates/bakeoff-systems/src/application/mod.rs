//! A test application for gateways to stand in front of: it answers any path with a text of one length.
//!
//! It is bakeoff's own, so that nothing has to be fetched, and so cheap that it is not what is
//! measured. By itself it is a contender too: what the same requests cost without any gateway.
//!
//! Not here: the server itself (`canary` of the crate `bakeoff`).

use bakeoff_core::record::Guarantees;
use bakeoff_core::study::{self, Kind, KindOption, Operation, OptionForm};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, own_program};

use super::declaration::{Declaration, Does, GuaranteeRules, InKubernetes, Origin};
use super::http_session::ask;
use super::own_servers::CANARY;
use super::{ASKED, Access, Asked, ClusterStatus, Description, NotReady, System, setting};

/// The system for the registry.
pub(crate) const SYSTEM: &dyn System = &Application;

/// bakeoff's own test application.
#[derive(Debug)]
pub(crate) struct Application;

/// The length of an answer's body, in bytes, where a study says nothing.
const SIZE: &str = "255";

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "size",
        form: OptionForm::Number,
        meaning: "bytes in the body of an answer; 255 when absent",
    },
    KindOption {
        name: "delay",
        form: OptionForm::Duration,
        meaning: "how long each answer waits; not at all when absent",
    },
];

impl System for Application {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, ..GuaranteeRules::default() },
            in_kubernetes: Some(InKubernetes { does: Does::Answers, carries: &[("size", None)] }),
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

    fn describe(&self, asked: &Asked<'_>, ports: &mut Allocator) -> Result<Description, HostError> {
        let name = asked.node_names().next().unwrap_or_default();
        let seat = asked.seat(0);
        let client = ports.take_for(seat)?;
        let dir = asked.dir.join(&name);
        let mut args = vec![
            CANARY.to_owned(),
            "--listen".into(),
            seat.at(client).to_string(),
            "--data".into(),
            dir.join("data").display().to_string(),
            "--answer".into(),
            asked.option("size").unwrap_or(SIZE).to_owned(),
        ];
        if let Some(delay) = asked.option("delay") {
            args.extend(["--delay".to_owned(), delay.to_owned()]);
        }
        let node = NodeSpec {
            program: own_program(),
            args: args.into_iter().map(Into::into).collect(),
            dir,
            seat,
            ports: vec![("client".into(), client)],
            limits: asked.system.limits.clone(),
            name,
            ..NodeSpec::default()
        };
        let options = asked.system.options.iter();
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

/// Says what it guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    Guarantees {
        replication: "none: it has no data".into(),
        acknowledged: "nothing is written".into(),
        reads: "the same text, always".into(),
        ..Guarantees::default()
    }
}
