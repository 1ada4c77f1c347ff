//! Runs Newcomer and opens sessions to its key-value store over HTTP/1.1.
//!
//! FILL IN: what it syncs before it acknowledges a write, which defaults matter, and why they stay.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), timing (`bakeoff_engine`).

pub(crate) mod recipe;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::study::{self, Kill, Kind, Operation, ReadConsistency};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::{Answer, Request};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};

use super::declaration::{Clients, Declaration, GuaranteeRules, Origin};
use super::http_session::{HttpSession, Mapping, ask};
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
            clients: Clients { http: true, alpn: &[b"http/1.1"], ..Clients::default() },
            ..Declaration::new(
                // FILL IN: its reads, options and limits.
                Kind {
                    operations: Operation::KEY_VALUE,
                    reads: &[ReadConsistency::Default],
                    nodes_max: 1,
                    value_size_max: 1 << 20,
                    in_flight_max: 1, // HTTP/1.1
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
            let (status, body) = ask(node, "GET", "/status")?;
            if status != 200 {
                return Err(format!("`{}` answered {status}: {}", node.name, body.trim()).into());
            }
            version = version.or_else(|| Some(body.trim().to_owned()));
        }
        Ok(ClusterStatus { leader: (nodes.len() == 1).then_some(0), version })
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        // FILL IN: a request that removes every key below `bakeoff/` and nothing else.
        match ask(node, "DELETE", &format!("/keys/{KEY_PREFIX}"))? {
            (200 | 404, _) => Ok(()),
            (status, body) => {
                Err(format!("`{}` answered {status}: {}", node.name, body.trim()).into())
            }
        }
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(|node| HttpSession::new(node, KvApi))
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

/// Mapping of operations onto its key-value API.
#[derive(Debug, Clone, Copy)]
struct KvApi;

impl Mapping for KvApi {
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        // FILL IN: method and target of each operation.
        let (method, question) = match request.operation {
            Operation::Put => ("PUT", ""),
            Operation::Delete => ("DELETE", ""),
            Operation::Get => ("GET", ""),
            Operation::List => ("GET", "?keys"),
            operation => super::never_planned(operation),
        };
        out.extend_from_slice(method.as_bytes());
        out.extend_from_slice(b" /keys/");
        out.extend_from_slice(request.key); // bakeoff's keys need no escaping
        out.extend_from_slice(question.as_bytes());
    }

    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        // FILL IN: the certain successes. Everything else is a failure.
        match (operation, status) {
            (Operation::Get, 200) => on(Answer::Value(body)),
            (Operation::Get | Operation::List, 404) => on(Answer::Missing),
            (Operation::Put | Operation::Delete, 200) => on(Answer::Done),
            (Operation::List, 200) => match serde_json::from_slice::<Vec<String>>(body) {
                Ok(names) => on(Answer::Names(&mut names.iter().map(String::as_bytes))),
                Err(error) => on(Answer::Failed(ErrorKind::Protocol, error.to_string())),
            },
            _ => on(Answer::Failed(ErrorKind::Status, super::http_status_text(status, body))),
        }
    }
}
