//! Runs a memcached server and opens sessions to it.
//!
//! memcached keeps everything in memory and acknowledges from there, so a kill loses all data by design. As a cache it
//! also evicts keys when its memory is full. bakeoff leaves that on. A trial with evictions fails with their number,
//! because its figures are not those of a store.
//!
//! Servers do not know each other, and clients of several choose one by the key. So there is one node.
//!
//! Not here: the wire format (`bakeoff_wire::memcached`), timing (`bakeoff_engine`).

pub(crate) mod recipe;
mod session;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::study::{self, Kill, Kind, KindOption, Operation, OptionForm, ReadConsistency};
use bakeoff_core::units::plural;
use bakeoff_engine::EngineError;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::memcached::{KEY_MAX, Reply, Request, Session};

use self::session::MemcachedSession;
use super::declaration::{ConnectionLimit, Declaration, GuaranteeRules, Hooks, Origin};
use super::exchange::{PATIENCE, Receiver, exchange};
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, KvLoad, NotReady, System,
    SystemError, option, plain_value, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Memcached;

#[derive(Debug)]
pub(crate) struct Memcached;

/// Operations without `list`: memcached has no command that lists keys.
const OPERATIONS: &[Operation] = &[
    Operation::Put,
    Operation::Get,
    Operation::Delete,
    Operation::ReadModifyWrite,
    Operation::CompareAndSet,
];

const MEMORY: &str = "memory";
const THREADS: &str = "threads";

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: MEMORY,
        form: OptionForm::Size,
        meaning: "memory for keys and values, in whole MiB; 64MiB when absent. It evicts keys beyond that",
    },
    KindOption {
        name: THREADS,
        form: OptionForm::Number,
        meaning: "worker threads; 4 when absent",
    },
];

impl System for Memcached {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness: |_, _| Freshness::Linearizable },
            hooks: Hooks {
                settle: Some(evicted),
                connection_limit: Some(connection_limit),
                ..Hooks::default()
            },
            ..Declaration::new(
                // guide: kind
                Kind {
                    operations: OPERATIONS, // no `list`
                    reads: &[ReadConsistency::Default],
                    options: OPTIONS,
                    sound,
                    nodes_max: 1,
                    key_size_max: KEY_MAX as u64,
                    value_size_max: 1_000_000, // an item is 1 MiB, with its key and its header
                    in_flight_max: 1000,       // memcached does not limit a pipeline
                    kill: Kill::UnderLoad,
                    ..Kind::new("memcached")
                },
                // guide: end
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
            let mut args =
                vec!["-l".into(), location.address.to_string(), "-p".into(), port.to_string()];
            if let Some(memory) = mebibytes(context.system) {
                args.extend(["-m".to_owned(), memory.to_string()]);
            }
            if let Some(threads) = context.option(THREADS) {
                args.extend(["-t".to_owned(), threads.to_owned()]);
            }
            nodes.push(NodeSpec {
                program: (&installed.command()[0]).into(),
                args: args.into_iter().map(Into::into).collect(),
                env: installed.env(),
                dir: context.dir.join(&name),
                location,
                ports: vec![("client".into(), port)],
                limits: context.system.limits.clone(),
                never_root: true,
                name,
                ..NodeSpec::default()
            });
        }
        let memory = mebibytes(context.system).map(|memory| setting("-m", memory, ASKED));
        let threads = context.option(THREADS).map(|threads| setting("-t", threads, ASKED));
        let settings = memory.into_iter().chain(threads).collect();
        Ok(Description { nodes, settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut version = None;
        for node in nodes {
            version = version.or(Some(ask(node, Request::Version)?));
        }
        Ok(ClusterStatus { leader: (nodes.len() == 1).then_some(0), version })
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(|_| MemcachedSession::default())
    }
}

/// Returns the memory that a study asks for, in MiB.
fn mebibytes(system: &study::System) -> Option<u64> {
    let bytes = plain_value(&OptionForm::Size, option(system, MEMORY)?);
    Some(bytes.parse::<u64>().ok()? >> 20)
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    if !system.is_started() && !system.options.is_empty() {
        return wrong(
            "bakeoff cannot configure a server that it did not start",
            "leave `options` out, or `endpoints`",
        );
    }
    match (mebibytes(system), option(system, THREADS)) {
        (Some(0), _) => wrong("`memory` is less than 1 MiB", "write `memory: 64MiB` or more"),
        (_, Some("0")) => {
            wrong("it needs at least one thread", "write `threads: 4`, or leave it out")
        }
        _ => Ok(()),
    }
}

/// Returns the guarantees.
fn guarantees(_: &study::System) -> Guarantees {
    Guarantees {
        replication: "none: one node has the data, in memory".into(),
        acknowledged: "once it is in memory: a kill loses all data, and it evicts keys when its memory is full"
            .into(),
        reads: "from the one node: the newest write".into(),
        acknowledged_in: Some(AckLocation::Memory),
        ..Guarantees::default()
    }
}

/// Fails if a node evicted keys: an acknowledged write is then lost by design.
fn evicted(nodes: &[Access]) -> Result<(), SystemError> {
    for node in nodes {
        let evictions = statistic(node, "", "evictions")?;
        if evictions > 0 {
            return Err(format!(
                "`{}` evicted {} to stay within its memory; give it more by `options: {{memory: 1GiB}}`",
                node.name,
                plural(evictions, "key"),
            )
            .into());
        }
    }
    Ok(())
}

fn connection_limit(node: &Access) -> Option<ConnectionLimit> {
    let connections = statistic(node, "settings", "maxconns").ok()?;
    Some(ConnectionLimit { connections, setting: "-c" })
}

/// Returns a statistic of a group.
fn statistic(node: &Access, group: &str, name: &str) -> Result<u64, SystemError> {
    let lines = ask(node, Request::Stats(group))?;
    let found = lines.lines().find_map(|line| {
        line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
    });
    found.ok_or_else(|| SystemError::answered(node, format!("it has no statistic `{name}`")))
}

/// Sends one request outside of a load. Returns the answer as text.
fn ask(node: &Access, request: Request<'_>) -> Result<String, SystemError> {
    #[derive(Default)]
    struct Question {
        session: Session,
        answer: Option<Result<String, String>>,
    }
    impl Receiver for Question {
        fn on_bytes(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            self.session.receive(input, &mut |reply| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.answer = Some(match reply {
                    Reply::Version(text_of) | Reply::Stats(text_of) => Ok(text(text_of)),
                    Reply::Error(error) => Err(text(error)),
                    _ => Err("a reply to another command".to_owned()),
                });
            })?;
            Ok(self.answer.is_some())
        }
    }
    let mut question = Question::default();
    let mut out = Vec::new();
    question.session.request(request, &mut out).map_err(|busy| busy.to_string())?;
    exchange(node, PATIENCE, out, &mut question)?;
    let answer = question.answer.unwrap_or_else(|| Err("no answer".to_owned()));
    answer.map_err(|error| SystemError::answered(node, error))
}

#[cfg(test)]
mod tests;
