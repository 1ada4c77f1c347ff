//! Runs a NATS cluster with JetStream, and opens sessions to a key-value bucket.
//!
//! JetStream acknowledges a write that is in its file, or in the files of a majority of replicas. It syncs the file
//! every two minutes. So a kill loses nothing, but a power cut loses up to two minutes of writes, on all nodes if it
//! hits all of them. bakeoff leaves that on, as users run it, and reports it. A study can sync each write with
//! `sync-interval: always`.
//!
//! The bucket is created as by NATS' own clients, with a replica on each node. They read from any replica
//! (`allow_direct`), which may lag behind. Audits read from the leader.
//!
//! A `list` next to writers may be short. Its consumer delivers the last message of each subject, and skips one that is
//! replaced before delivery. NATS' own clients have the same limit.
//!
//! Not here: the wire format (`bakeoff_wire::nats`), timing (`bakeoff_engine`), authentication by signed nonces.

mod bucket;
mod greeting;
pub(crate) mod recipe;
mod session;
mod watch_session;

use bakeoff_core::log_findings::{Level, LevelWord};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees, Setting};
use bakeoff_core::study::Workload;
use bakeoff_core::study::{
    self, CredentialForm, Kill, Kind, KindOption, Operation, OptionForm, ReadConsistency,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_engine::EngineError;
use bakeoff_engine::transport::TlsBegins;
use bakeoff_engine::works::keyed::KeyedState;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::nats::{Event, Session};
use serde_json::{Value, json};

use self::bucket::Bucket;
use self::greeting::{Greeting, connect};
use self::session::{IN_FLIGHT_MAX, NatsSession};
use self::watch_session::NatsWatchSession;
use super::carried_access::CarriedMemory;
use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, Lists, Origin};
use super::exchange::{PATIENCE, Receiver, exchange};
use super::{
    ASKED, Access, ClientToken, ClusterStatus, DescribeContext, Description, KvLoad, Login, Memory,
    NotReady, System, SystemError, option, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Nats;

#[derive(Debug)]
pub(crate) struct Nats;

const SYNC_INTERVAL: &str = "sync-interval";
const ALLOW_DIRECT: &str = "allow-direct";
const HISTORY: &str = "history";

/// Words for levels, three letters in brackets as in `logger.go`.
const LEVEL_WORDS: &[LevelWord] = &[
    ("[FTL]", Some(Level::Critical)),
    ("[ERR]", Some(Level::Error)),
    ("[WRN]", Some(Level::Warning)),
    ("[INF]", None),
];

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: SYNC_INTERVAL,
        form: OptionForm::Word(&["always"]),
        meaning: "syncs each write before it is acknowledged, which needs NATS 2.10 or newer; every two \
                  minutes when absent",
    },
    KindOption {
        name: ALLOW_DIRECT,
        form: OptionForm::Word(&["yes", "no"]),
        meaning: "whether any replica answers reads, or only the stream's leader; yes when absent, as its \
                  own clients make a bucket",
    },
    KindOption {
        name: HISTORY,
        form: OptionForm::Number,
        meaning: "number of values that the bucket keeps of each key, at most 64, for watchers that begin with old \
                  events; 1 when absent",
    },
];

/// Watches as ADR-8 and ADR-17 describe them. The bucket keeps one value of each key, so a slow watcher skips values
/// that are overwritten. An event may come twice.
const WATCHES: Watches = Watches {
    form: "ordered push consumer",
    delivery: Delivery::Latest,
    guarantees: &[WatchGuarantee::Ordered, WatchGuarantee::Reliable],
    per_connection_max: 1000, // each is a subscription and a consumer
    previous: false,
    prefix: true,
    oldest: true,
};

/// Most values of a key in a bucket (ADR-8).
const HISTORY_MAX: u32 = 64;

/// Most replicas of a stream.
const REPLICAS_MAX: u32 = 5;

/// Returns the number of values that the bucket keeps of each key; `None` if the study does not say.
fn history(system: &study::System) -> Option<u32> {
    option(system, HISTORY)?.parse().ok()
}

/// Returns the settings of this system's bucket.
fn bucket_of(system: &study::System) -> Bucket {
    Bucket {
        replicas: system.nodes.min(REPLICAS_MAX),
        direct: option(system, ALLOW_DIRECT) != Some("no"),
        history: history(system).unwrap_or(1),
    }
}

/// Returns the values that sessions on other machines need.
fn give(memory: &Memory) -> Option<Value> {
    serde_json::to_value(*memory.get::<Bucket>()?).ok()
}

/// Stores those values.
fn take(given: Value, memory: &Memory) -> Option<()> {
    memory.keep(serde_json::from_value::<Bucket>(given).ok()?);
    Some(())
}

impl System for Nats {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            clients: Clients { tls_begins: TlsBegins::AfterGreeting, ..Clients::default() },
            lists: Lists::ShortNextToWriters,
            level_words: LEVEL_WORDS,
            hooks: Hooks {
                carried: Some(CarriedMemory { give, take }),
                watch: Some(|node| Box::new(NatsWatchSession::new(connect(node)))),
                ..Hooks::default()
            },
            announces: true,
            ..Declaration::new(
                Kind {
                    operations: Operation::KEY_VALUE,
                    watches: Some(WATCHES),
                    reads: &[ReadConsistency::Default],
                    options: OPTIONS,
                    sound,
                    nodes_max: REPLICAS_MAX,
                    value_size_max: 1 << 20, // max_payload
                    in_flight_max: 1000,     // NATS' own clients allow 4000 unacknowledged messages
                    kill: Kill::UnderLoad,
                    credentials: CredentialForm::PasswordOrToken,
                    ..Kind::new("nats")
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
        let synced = context.option(SYNC_INTERVAL).is_some();
        if synced && ["2.8.", "2.9."].iter().any(|old| installed.version.starts_with(old)) {
            return Err(HostError::Spec {
                node: context.system.name.clone(),
                problem: format!(
                    "`{SYNC_INTERVAL}` needs NATS 2.10 or newer, but this is {}",
                    installed.version
                ),
            });
        }
        let mut nodes = Vec::new();
        for (name, location) in context.located() {
            nodes.push((name, location, ports.take_for(location)?, ports.take_for(location)?));
        }
        // A single node runs without a cluster, because it needs no majority to elect a leader.
        let routes = match nodes.len() {
            1 => None,
            _ => Some(
                nodes
                    .iter()
                    .map(|(_, location, _, route)| format!("\"nats://{}\"", location.at(*route)))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        };
        let specs = nodes.into_iter().map(|(name, location, client, route)| {
            let dir = context.dir.join(&name);
            let sync = if synced { ", sync_interval: always" } else { "" };
            let mut config = format!(
                "server_name: \"{name}\"\nlisten: \"{}\"\n\
                 jetstream {{ store_dir: \"{}\"{sync} }}\n",
                location.listens_at(client),
                dir.join("data").display()
            );
            let announced = |what: &str, port: u16| match location.relayed_to {
                None => String::new(),
                Some(_) => format!("{what}: \"{}\"\n", location.at(port)),
            };
            config += &announced("client_advertise", client);
            let mut own_ports = vec![("client".into(), client)];
            if let Some(routes) = &routes {
                let cluster = &context.system.name;
                config += &format!(
                    "cluster {{ name: \"{cluster}\", listen: \"{}\", routes: [{routes}]\n{}}}\n",
                    location.listens_at(route),
                    announced("advertise", route)
                );
                own_ports.push(("route".into(), route));
            }
            NodeSpec {
                program: (&installed.command()[0]).into(),
                args: vec!["-c".into(), "nats.conf".into()],
                env: installed.env(),
                files: vec![NodeFile {
                    path: "nats.conf".into(),
                    contents: config.into_bytes(),
                    mode: FileMode::Readable,
                }],
                dir,
                location,
                ports: own_ports,
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        let nodes = specs.collect();
        let memory = Memory::default();
        memory.keep(bucket_of(context.system));
        Ok(Description { nodes, settings: settings(context), memory, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut status = ClusterStatus { leader: None, version: None };
        let mut names = Vec::new();
        let mut leader = None;
        for node in nodes {
            let asked = ask(node, bucket::STREAM_INFO, b"");
            let (greeting, info) = asked.map_err(|why| refused(node, why))?;
            let name = &node.name;
            if !greeting.jetstream {
                return Err(NotReady::Never {
                    seen: format!("`{name}` runs without JetStream"),
                    hint: "start it with `jetstream {}` in its configuration, or `-js`".to_owned(),
                });
            }
            let bucket = node.memory.get::<Bucket>();
            match (missing(&info), bucket) {
                // The bucket's leader counts, so the bucket has to exist.
                (true, Some(bucket)) => {
                    make(node, *bucket)?;
                    return Err(format!("`{name}` is creating the bucket").into());
                }
                (true, None) => {}
                (false, _) => {
                    error_of(&info).map_or(Ok(()), |error| Err(format!("`{name}`: {error}")))?;
                    let cluster = &info["cluster"];
                    let behind = cluster["replicas"].as_array().into_iter().flatten();
                    if behind.into_iter().any(|replica| replica["current"] != true) {
                        return Err(format!("`{name}` reports replicas that do not follow").into());
                    }
                    leader = leader.or_else(|| cluster["leader"].as_str().map(str::to_owned));
                }
            }
            status.version.get_or_insert(greeting.version);
            names.push(greeting.server_name);
        }
        status.leader = match leader {
            Some(leader) => names.iter().position(|name| *name == leader),
            None => (nodes.len() == 1).then_some(0),
        };
        match status.leader {
            None if nodes.iter().any(|node| node.memory.get::<Bucket>().is_some()) => {
                Err("the bucket has no leader".into())
            }
            _ => Ok(status),
        }
    }

    fn prepare(
        &self,
        first: &Access,
        nodes: &[Access],
        _: &Workload,
        _: &KeyedState,
    ) -> Result<(), SystemError> {
        let (_, info) = ask(first, bucket::STREAM_INFO, b"")?;
        if missing(&info) {
            let replicas = u32::try_from(nodes.len()).unwrap_or(1).min(REPLICAS_MAX);
            let bucket = first.memory.get::<Bucket>();
            make(
                first,
                bucket.map_or(Bucket { replicas, direct: true, history: 1 }, |bucket| *bucket),
            )?;
        }
        Ok(())
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let (_, info) = ask(node, bucket::STREAM_DELETE, b"")?;
        if missing(&info) {
            return Ok(());
        }
        error_of(&info).map_or(Ok(()), |error| Err(SystemError::answered(node, error)))
    }

    fn in_flight_max(&self) -> Option<u64> {
        Some(IN_FLIGHT_MAX)
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        load.over(|node| {
            let direct = node.memory.get::<Bucket>().is_none_or(|bucket| bucket.direct);
            NatsSession::new(direct, connect(node))
        })
    }
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    if !system.is_started() && !system.options.is_empty() {
        return Err((
            "bakeoff cannot configure a cluster that it did not start".to_owned(),
            "leave `options` out, or `endpoints`".to_owned(),
        ));
    }
    if let Some(history) = history(system).filter(|history| !(1..=HISTORY_MAX).contains(history)) {
        return Err((
            format!("a bucket cannot keep {history} values of each key"),
            format!("write `{HISTORY}: {HISTORY_MAX}`, or less"),
        ));
    }
    Ok(())
}

/// Returns the guarantees under these options.
///
/// A stream writes its file before it acknowledges. With replicas, each one's Raft log is written (`stream.go`,
/// `raft.go`: `AsyncFlush: false`). `sync_interval: always` also syncs it (`flushPendingMsgsLocked`).
fn guarantees(system: &study::System) -> Guarantees {
    let synced = option(system, SYNC_INTERVAL).is_some();
    let one = system.nodes == 1;
    let (acknowledged, place) = match (synced, one) {
        (true, true) => ("after it is synced to disk (`sync_interval: always`)", AckLocation::Disk),
        (true, false) => (
            "after a majority has synced it to disk (`sync_interval: always`)",
            AckLocation::MajorityDisks,
        ),
        (false, true) => (
            "once its kernel has it: it is synced every 2 minutes, and a power cut loses unsynced writes",
            AckLocation::PageCache,
        ),
        (false, false) => (
            "once the kernels of a majority have it: it is synced every 2 minutes, and a power cut that \
             hits a majority loses unsynced writes",
            AckLocation::MajorityPageCaches,
        ),
    };
    let reads = match (one, bucket_of(system).direct) {
        (true, _) => "from the one node: the newest write",
        (false, true) => {
            "from the replica of the contacted node, which may lag behind, as NATS' own clients read \
             (`allow_direct`); `freshest` reads from the stream's leader"
        }
        (false, false) => {
            "from the stream's leader, stale only if it was just deposed; a `list` from a replica"
        }
    };
    Guarantees {
        replication: match one {
            true => "none: one node has the data".into(),
            false => "Raft: every node has a replica of the bucket; a majority must live".into(),
        },
        acknowledged: acknowledged.into(),
        reads: format!("{reads}; a `list` next to writers may lack keys that are being written"),
        acknowledged_in: Some(place),
        ..Guarantees::default()
    }
}

/// Returns the freshness of reads.
fn freshness(system: &study::System, reads: ReadConsistency) -> Freshness {
    let from_leader = !bucket_of(system).direct || reads == ReadConsistency::Linearizable;
    match system.nodes {
        1 => Freshness::Linearizable,
        _ if from_leader => Freshness::Leader,
        _ => Freshness::NodeAsked,
    }
}

fn settings(context: &DescribeContext<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(interval) = context.option(SYNC_INTERVAL) {
        settings.push(setting("jetstream.sync_interval", interval, ASKED));
    }
    if context.option(ALLOW_DIRECT) == Some("no") {
        settings.push(setting("allow_direct", false, ASKED));
    }
    if let Some(history) = history(context.system) {
        settings.push(setting("max_msgs_per_subject", history, ASKED));
    }
    settings
}

/// Classifies a node's error. Waiting does not fix wrong credentials.
fn refused(node: &Access, why: SystemError) -> NotReady {
    let seen = why.to_string();
    let is_anyone =
        node.memory.get::<Login>().is_none() && node.memory.get::<ClientToken>().is_none();
    let hint = if seen.contains("Authorization Violation") && is_anyone {
        "it needs a user or a token: add `credentials: {user: NAME, password: $NATS_PASSWORD}`, or `{token: \
         $NATS_TOKEN}`"
    } else if seen.contains("Authorization Violation") {
        "check `credentials` in the study, and the contents of its variable or file"
    } else if seen.contains("Permissions Violation") {
        "allow the user to publish to `$JS.API.>` and `$KV.bakeoff.>`, and to subscribe to `_INBOX.>`"
    } else if seen.contains(DEMANDS_TLS) {
        "write the endpoint with `tls://`, and name the authority to trust: `tls: {ca: FILE}`"
    } else {
        return why.into();
    };
    NotReady::Never { seen, hint: hint.to_owned() }
}

/// Error of a server that refuses plain text.
const DEMANDS_TLS: &str = "it demands TLS";

/// Creates the bucket, unless it exists.
fn make(node: &Access, bucket: Bucket) -> Result<(), SystemError> {
    let config = bucket.config().to_string();
    let (_, answer) = ask(node, bucket::STREAM_CREATE, config.as_bytes())?;
    error_of(&answer).map_or(Ok(()), |error| Err(SystemError::answered(node, error)))
}

/// Returns true if an answer reports a missing stream.
fn missing(answer: &Value) -> bool {
    answer["error"]["err_code"] == bucket::NO_STREAM
}

/// Returns the description of an answer's error.
fn error_of(answer: &Value) -> Option<String> {
    let error = answer.get("error")?;
    Some(error["description"].as_str().map_or_else(|| error.to_string(), str::to_owned))
}

/// Converts a status without an answer to a JetStream error.
fn nobody_answers(status: u16) -> Value {
    json!({"error": {"description": format!("JetStream does not answer ({status})")}})
}

/// Sends one request to JetStream outside of a load. Returns the server's identity and the answer.
fn ask(node: &Access, subject: &str, payload: &[u8]) -> Result<(Greeting, Value), SystemError> {
    struct Question<'a> {
        session: Session,
        node: &'a Access,
        subject: &'a str,
        payload: &'a [u8],
        greeting: Option<Greeting>,
        answer: Option<Result<Value, String>>,
    }
    impl Receiver for Question<'_> {
        fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            let Self { session, node, subject, payload, greeting, answer } = self;
            let is_plain = node.target.tls.is_none();
            let mut reply = Vec::new();
            session.receive(input, &mut reply, &mut |event| match event {
                Event::Info(info) if greeting.is_none() => match Greeting::read(info) {
                    Ok(read) if read.tls_required && is_plain => {
                        *answer = Some(Err(DEMANDS_TLS.to_owned()));
                    }
                    Ok(read) => *greeting = Some(read),
                    Err(why) => *answer = Some(Err(why.to_string())),
                },
                Event::Info(_) | Event::Pong => {}
                Event::Error(error) => {
                    *answer = Some(Err(String::from_utf8_lossy(error).into_owned()));
                }
                Event::Message(message) => {
                    *answer = Some(match message.headers.status() {
                        Some(status) => Ok(nobody_answers(status)),
                        None => serde_json::from_slice(message.payload)
                            .map_err(|error| format!("an answer that is not JSON: {error}")),
                    });
                }
            })?;
            out.append(&mut reply);
            if let Some(greeting) = greeting.as_ref().filter(|_| !subject.is_empty()) {
                let inbox = format!("_INBOX.{}", greeting.connection());
                session.connect(&connect(node), out);
                session.subscribe(inbox.as_bytes(), 1, out);
                session.publish(subject.as_bytes(), inbox.as_bytes(), payload, out);
                *subject = "";
            }
            Ok(answer.is_some())
        }

        fn begins_tls(&self) -> bool {
            self.greeting.is_some()
        }
    }
    let session = Session::default();
    let mut question = Question { session, node, subject, payload, greeting: None, answer: None };
    exchange(node, PATIENCE, Vec::new(), &mut question)?;
    let Question { greeting, answer, .. } = question;
    let answer = answer.unwrap_or_else(|| Err("no answer".to_owned()));
    let answer = answer.map_err(|error| SystemError::answered(node, error))?;
    Ok((greeting.ok_or_else(|| format!("`{}` sends no greeting", node.name))?, answer))
}

#[cfg(test)]
mod tests {
    use bakeoff_core::log_findings::Tally;

    use super::*;
    use crate::testing::study_system;

    fn level(line: &str) -> Option<Level> {
        let mut tally = Tally::new(LEVEL_WORDS);
        tally.take(line.as_bytes());
        Some(tally.finish("n", 0)?.kinds[0].level)
    }

    #[test]
    fn log_levels_follow_nats_own_words() {
        let at = "[8653] 2026/11/23 04:42:30.113865";
        let warned = format!("{at} [WRN] JetStream cluster new metadata leader: n-2/bakeoff");
        assert_eq!(level(&warned), Some(Level::Warning));
        assert_eq!(level(&format!("{at} [FTL] Can't start JetStream")), Some(Level::Critical));
        assert_eq!(level(&format!("{at} [INF] Error rate is 0")), None);
    }

    #[test]
    fn leader_answers_the_freshest_reads() {
        let freshness = |nodes, options, reads| {
            SYSTEM.guarantees(&study_system("nats", nodes, options)).freshness[&reads]
        };
        let freshest = ReadConsistency::Freshest;
        assert_eq!(freshness(3, &[], ReadConsistency::Default), Freshness::NodeAsked);
        assert_eq!(freshness(3, &[], freshest), Freshness::Leader);
        assert_eq!(freshness(3, &[(ALLOW_DIRECT, "no")], freshest), Freshness::Leader);
        assert_eq!(freshness(1, &[], freshest), Freshness::Linearizable);
    }
}
