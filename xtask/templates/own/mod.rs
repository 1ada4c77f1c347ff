//! Runs Newcomer and opens sessions to it.
//!
//! FILL IN: what it syncs before it acknowledges a write, which defaults matter, and why they stay.
//!
//! Not here: the wire format (`bakeoff_wire::newcomer`), timing (`bakeoff_engine`).

pub(crate) mod recipe;
mod session;
#[allow(unreachable_pub, reason = "it moves to bakeoff-wire once a system uses it")]
mod wire;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::study::{self, Kill, Kind, Operation, ReadConsistency};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use bakeoff_wire::ProtocolError;

use self::session::NewcomerSession;
use self::wire::{Reply, Session};
use super::declaration::{Declaration, GuaranteeRules, Origin};
use super::exchange::{PATIENCE, Receiver, exchange};
use super::{
    Access, ClusterStatus, DescribeContext, Description, KvLoad, NotReady, System, SystemError,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Newcomer;

#[derive(Debug)]
pub(crate) struct Newcomer;

impl System for Newcomer {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            ..Declaration::new(
                // FILL IN: its reads, options and limits.
                Kind {
                    operations: Operation::KEY_VALUE,
                    reads: &[ReadConsistency::Default],
                    nodes_max: 1,
                    value_size_max: 1 << 20,
                    in_flight_max: 100,
                    kill: Kill::UnderLoad,
                    ..Kind::new("newcomer")
                },
                Origin::Recipe(&recipe::RECIPE),
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            let port = ports.take_for(location)?;
            let dir = context.dir.join(&name);
            // FILL IN: its configuration. It writes only below `dir`, and listens only at its location.
            let data = dir.join("data");
            let config = format!("listen = {}\ndata = {}\n", location.at(port), data.display());
            nodes.push(NodeSpec {
                program: (&installed.command()[0]).into(),
                args: vec!["newcomer.conf".into()],
                env: installed.env(),
                files: vec![NodeFile {
                    path: "newcomer.conf".into(),
                    contents: config.into_bytes(),
                    mode: FileMode::Readable,
                }],
                dir,
                location,
                ports: vec![("client".into(), port)],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            });
        }
        // FILL IN: a `setting` with its reason for each changed default.
        Ok(Description { nodes, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut version = None;
        for node in nodes {
            // FILL IN: a request that only a serving node answers, its leader, and its version.
            version = version.or(Some(ask(node, &[b"VERSION"])?));
        }
        Ok(ClusterStatus { leader: (nodes.len() == 1).then_some(0), version })
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        // FILL IN: how every key below `bakeoff/` is removed, and nothing else.
        ask(node, &[b"CLEAR", KEY_PREFIX.as_bytes()]).map(|_| ())
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(|_| NewcomerSession::default())
    }
}

/// Returns the guarantees under these options.
fn guarantees(_: &study::System) -> Guarantees {
    // FILL IN: from its documentation, and from its source if it acknowledges earlier than documented.
    Guarantees {
        replication: "none: one node has the data".into(),
        acknowledged: "after it is synced to disk".into(),
        reads: "from the one node: the newest write".into(),
        acknowledged_in: Some(AckLocation::Disk),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(_: &study::System, _: ReadConsistency) -> Freshness {
    Freshness::Linearizable
}

/// Sends one request outside of a load. Returns the answer as text.
fn ask(node: &Access, words: &[&[u8]]) -> Result<String, SystemError> {
    struct Question {
        session: Session,
        answer: Option<Result<String, String>>,
    }
    impl Receiver for Question {
        fn on_bytes(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            self.session.receive(input, &mut |reply| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.answer = Some(match reply {
                    Reply::Error(error) => Err(text(error)),
                    Reply::Value(value) | Reply::Names(value) => Ok(text(value)),
                    Reply::Done | Reply::Missing => Ok(String::new()),
                });
            })?;
            Ok(self.answer.is_some())
        }
    }
    let mut question = Question { session: Session::default(), answer: None };
    let mut out = Vec::new();
    question.session.request(words, None, &mut out).map_err(|busy| busy.to_string())?;
    exchange(node, PATIENCE, out, &mut question)?;
    let answer = question.answer.unwrap_or_else(|| Err("no answer".to_owned()));
    answer.map_err(|error| SystemError::answered(node, error))
}
