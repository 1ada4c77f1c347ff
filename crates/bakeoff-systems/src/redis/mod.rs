//! Runs Redis or a fork of it, with a primary and its replicas, and opens sessions to the primary.
//!
//! Valkey and KeyDB are forks of Redis. They accept the same configuration and speak the same protocol, so they are
//! products of this kind and differ only in their source.
//!
//! By default Redis acknowledges from memory and writes a snapshot from time to time. bakeoff leaves that on, and a
//! study can add a log with a sync policy (`appendfsync`). Replication follows the acknowledgement, unless the study
//! makes writes wait for replicas (`wait`).
//!
//! Watchers need keyspace notifications, which are off by default and make each write publish a message. A study
//! switches them on (`notifications`).
//!
//! A key holds its value as a string, or as a stream of all its values (`values: stream`). A watcher of a stream misses
//! none, and needs no notifications. bakeoff does not shorten streams: Redis would not report to a watcher what it
//! misses, so memory grows with each write.
//!
//! Clients connect only to the primary, because replicas neither accept nor forward writes. No replica is promoted
//! automatically; that would need Sentinel or a cluster.
//!
//! Not here: the wire format (`bakeoff_wire::resp`), timing (`engine`).

mod maintenance;
pub(crate) mod recipe;
mod session;
mod stream_session;
mod watch_session;

use std::net::SocketAddr;

use bakeoff_core::log_findings::{Level, LevelWord};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{AckLocation, Freshness, Guarantees, Setting};
use bakeoff_core::study::{
    self, CredentialForm, GROUP, GUARD, Kill, Kind, KindOption, LEASE_TTL, Operation, OptionForm,
    PRODUCT, ReadConsistency,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{FileMode, HostError, NodeFile, NodeSpec};
use bakeoff_install::Recipe;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::resp::{Reply, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::session::{RedisSession, sign_in};
use self::stream_session::RedisStreamSession;
use self::watch_session::RedisWatchSession;
use super::carried_access::CarriedMemory;
use super::declaration::{Declaration, GuaranteeRules, Hooks, Origin};
use super::exchange::{PATIENCE, Receiver, exchange};
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, KvLoad, Login, Memory, NotReady,
    System, SystemError, option, setting,
};

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Redis;

#[derive(Debug)]
pub(crate) struct Redis;

const OPERATIONS: &[Operation] = &Operation::extended::<10>(
    Operation::KEY_VALUE,
    &[
        Operation::GrantLease,
        Operation::KeepLease,
        Operation::Lock,
        Operation::Look,
        Operation::Move,
    ],
);

/// Products with the same protocol and configuration.
const PRODUCTS: &[&Recipe] = &[&recipe::REDIS, &recipe::VALKEY, &recipe::KEYDB];

const APPENDFSYNC: &str = "appendfsync";
const WAIT: &str = "wait";
const NOTIFICATIONS: &str = "notifications";
const VALUES: &str = "values";
const STREAM: &str = "stream";

/// Notifications by key (`K`) for writes of strings (`$`), deletes (`g`) and expired keys (`x`).
const NOTIFIED_EVENTS: &str = "K$gx";

/// Level characters of `redisLog`. `#` is a warning, the highest level.
const LEVEL_WORDS: &[LevelWord] =
    &[("#", Some(Level::Warning)), ("*", None), ("-", None), (".", None)];

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: PRODUCT,
        form: OptionForm::Word(&["redis", "valkey", "keydb"]),
        meaning: "product: Redis, or a fork of it; redis when absent",
    },
    KindOption {
        name: APPENDFSYNC,
        form: OptionForm::Word(&["always", "everysec", "no"]),
        meaning: "keeps a log of writes with this sync policy; no log when absent",
    },
    KindOption {
        name: WAIT,
        form: OptionForm::Word(&["none", "majority", "all"]),
        meaning: "nodes that must have a write in memory before it is acknowledged (`WAIT`), of more \
                  than one; only the primary when absent",
    },
    KindOption {
        name: NOTIFICATIONS,
        form: OptionForm::Word(&["on", "off"]),
        meaning: "whether the server publishes each change of a key (`notify-keyspace-events`), which watchers \
                  need; off when absent",
    },
    KindOption {
        name: VALUES,
        form: OptionForm::Word(&["string", STREAM]),
        meaning: "`string`: a key holds its newest value (`SET`); `stream`: it holds all its values (`XADD`), and watchers \
                  of one key miss none; string when absent",
    },
];

/// Watches as the documentation of keyspace notifications describes them: published once, and lost by a client that is
/// not connected. A watcher has a connection of its own, because a connection receives each notification only once.
const WATCHES: Watches = Watches {
    form: "notification, then a read",
    delivery: Delivery::Latest,
    guarantees: &[WatchGuarantee::Ordered],
    per_connection_max: 1,
    previous: false,
    prefix: true,
    oldest: false,
};

/// Watches of streams: entries are kept, in order, and a read continues after any of them. A read that waits occupies its
/// connection, and names each stream.
const STREAM_WATCHES: Watches = Watches {
    form: "reads of a stream that wait",
    delivery: Delivery::Each,
    guarantees: &[
        WatchGuarantee::Ordered,
        WatchGuarantee::Unique,
        WatchGuarantee::Reliable,
        WatchGuarantee::Resumable,
    ],
    per_connection_max: 1,
    previous: false,
    prefix: false,
    oldest: true,
};

/// Returns true if keys hold streams.
fn holds_streams(system: &study::System) -> bool {
    option(system, VALUES) == Some(STREAM)
}

/// Describes a primary that bakeoff started to its sessions.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ClientSettings {
    count: u32,
    /// Replicas that must have a write before it is acknowledged.
    waited_for: u32,
    /// True if keys hold streams.
    streams: bool,
}

impl ClientSettings {
    fn read(system: &study::System) -> Self {
        let count = system.nodes.saturating_sub(1);
        let waited_for = match option(system, WAIT) {
            Some("all") => count,
            Some("majority") => system.nodes / 2, // the primary is part of the majority
            _ => 0,
        };
        Self { count, waited_for, streams: holds_streams(system) }
    }
}

fn has_streams(node: &Access) -> bool {
    node.memory.get::<ClientSettings>().is_some_and(|settings| settings.streams)
}

/// Returns the values that sessions on other machines need.
fn give(memory: &Memory) -> Option<Value> {
    serde_json::to_value(*memory.get::<ClientSettings>()?).ok()
}

/// Stores those values.
fn take(given: Value, memory: &Memory) -> Option<()> {
    memory.keep(serde_json::from_value::<ClientSettings>(given).ok()?);
    Some(())
}

impl System for Redis {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness: |_, _| Freshness::Linearizable },
            level_words: LEVEL_WORDS,
            hooks: Hooks {
                carried: Some(CarriedMemory { give, take }),
                maintain: Some(maintenance::maintain),
                watch: Some(|node| {
                    let login = node.memory.get::<Login>();
                    match has_streams(node) {
                        true => Box::new(RedisStreamSession::new(login)),
                        false => Box::new(RedisWatchSession::new(login)),
                    }
                }),
                other_watches: Some(|node| has_streams(node).then_some(STREAM_WATCHES)),
                ..Hooks::default()
            },
            unsafe_settings: &[("appendfsync", &["no", "everysec"]), ("appendonly", &["no"])],
            ..Declaration::new(
                Kind {
                    operations: OPERATIONS,
                    parameters: &[LEASE_TTL, GROUP, GUARD],
                    reads: &[ReadConsistency::Default],
                    options: OPTIONS,
                    maintenance: maintenance::OFFERS,
                    watches: Some(WATCHES),
                    other_watches: |system| holds_streams(system).then_some(STREAM_WATCHES),
                    sound,
                    lacks,
                    nodes_max: 5,
                    value_size_max: 32 << 20, // Redis accepts 512 MiB; bakeoff's sessions accept 64 MiB
                    in_flight_max: 1000,      // Redis does not limit a pipeline
                    kill: Kill::UnderLoad,
                    credentials: CredentialForm::Password,
                    ..Kind::new("redis")
                },
                Origin::Recipes { all: PRODUCTS, select: |system| option(system, PRODUCT) },
            )
        }
    }

    fn describe(
        &self,
        context: &DescribeContext<'_>,
        ports: &mut Allocator,
    ) -> Result<Description, HostError> {
        let installed = context.installed()?;
        let nodes = context
            .located()
            .map(|(name, location)| Ok((name, location, ports.take_for(location)?)));
        let nodes = nodes.collect::<Result<Vec<_>, HostError>>()?;
        let primary = nodes[0].1.at(nodes[0].2);
        let specs = nodes.into_iter().enumerate().map(|(number, (name, location, port))| {
            let config = config(context, location.at(port), (number > 0).then_some(primary));
            NodeSpec {
                program: (&installed.command()[0]).into(),
                args: vec!["redis.conf".into()],
                env: installed.env(),
                files: vec![NodeFile {
                    path: "redis.conf".into(),
                    contents: config.into_bytes(),
                    mode: FileMode::Readable,
                }],
                dir: context.dir.join(&name),
                location,
                // Clients do not connect to replicas.
                ports: vec![(if number == 0 { "client" } else { "replica" }.into(), port)],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            }
        });
        let nodes = specs.collect();
        let memory = Memory::default();
        memory.keep(ClientSettings::read(context.system));
        Ok(Description { nodes, settings: settings(context), memory, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        let mut version = None;
        for node in nodes {
            let info = ask(node, &[b"INFO"]).map_err(refused)?;
            let text = String::from_utf8_lossy(info.first().map_or(&[][..], Vec::as_slice));
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            };
            let name = &node.name;
            match (field("role"), field("loading")) {
                (Some("master"), Some("0")) => {}
                (Some("master"), _) => return Err(format!("`{name}` is loading its data").into()),
                (Some(_), _) => {
                    return Err(NotReady::Never {
                        seen: format!("`{name}` is a replica, which accepts no writes"),
                        hint: "name the primary as the only endpoint".to_owned(),
                    });
                }
                (None, _) if field("redis_mode") == Some("sentinel") => {
                    return Err(NotReady::Never {
                        seen: format!("`{name}` is a Redis Sentinel, which holds no keys"),
                        hint: sentinel_hint(&text),
                    });
                }
                (None, _) => return Err(format!("`{name}` does not report its role").into()),
            }
            let online = text
                .lines()
                .filter(|line| line.starts_with("slave") && line.contains("state=online"));
            let (online, wanted) = (online.count(), node.memory.get::<ClientSettings>());
            let wanted = wanted.map_or(0, |replicas| replicas.count as usize);
            if online < wanted {
                return Err(format!("{online} of {wanted} replicas follow `{name}`").into());
            }
            // Forks also report the Redis version that they are compatible with.
            let own = field("valkey_version").or_else(|| field("redis_version"));
            version = version.or_else(|| own.map(str::to_owned));
        }
        Ok(ClusterStatus { leader: (nodes.len() == 1).then_some(0), version })
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let pattern = format!("{KEY_PREFIX}*");
        let mut cursor = b"0".to_vec();
        loop {
            let mut page =
                ask(node, &[b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"])?;
            if page.is_empty() {
                return Err(format!("`{}` returned no list of keys", node.name).into());
            }
            cursor = page.remove(0);
            if !page.is_empty() {
                let keys = page.iter().map(Vec::as_slice);
                ask(node, &std::iter::once(&b"UNLINK"[..]).chain(keys).collect::<Vec<_>>())?;
            }
            if cursor == b"0" {
                return Ok(());
            }
        }
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let (lease_seconds, fences) = (load.keyed.lease_seconds, load.keyed.fences);
        load.over(move |node| {
            let replicas = node.memory.get::<ClientSettings>();
            let replicas = replicas.map_or_else(ClientSettings::default, |replicas| *replicas);
            RedisSession::new(&replicas, node.memory.get::<Login>(), lease_seconds, fences)
        })
    }
}

fn sound(system: &study::System) -> Result<(), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    let set = |name| option(system, name).is_some();
    if !system.is_started() && OPTIONS.iter().any(|option| set(option.name)) {
        return wrong(
            "bakeoff cannot configure a server that it did not start",
            "leave `options` out, or `endpoints`",
        );
    }
    if system.is_started() && system.nodes == 1 && set(WAIT) {
        return wrong("there is no replica to wait for", "leave `wait` out, or write `nodes: 3`");
    }
    Ok(())
}

/// Returns why a system cannot do an operation. Its watchers need notifications, or streams; those of a server that bakeoff
/// did not start are checked by the session.
fn lacks(system: &study::System, operation: Operation) -> Option<String> {
    let is_off = system.is_started() && option(system, NOTIFICATIONS) != Some("on");
    match (operation, holds_streams(system)) {
        (Operation::Delete, true) => {
            Some(format!("with `{VALUES}: {STREAM}` a delete would end the key's history"))
        }
        (Operation::Lock | Operation::Look | Operation::Move, true) => {
            Some(format!("with `{VALUES}: {STREAM}` its keys are no strings"))
        }
        (Operation::Watch, false) if is_off => Some(format!(
            "it publishes no changes without `options: {{{NOTIFICATIONS}: on}}`, and keeps them only with \
             `{{{VALUES}: {STREAM}}}`"
        )),
        _ => None,
    }
}

/// Returns the guarantees under these options.
///
/// With `everysec`, Redis passes the log to the kernel before it answers. While the sync of the last second runs, it
/// answers first, for up to two seconds (`flushAppendOnlyFile` of 7.0). A kill in that time loses acknowledged writes,
/// so the guarantee is only memory.
fn guarantees(system: &study::System) -> Guarantees {
    let replicas = ClientSettings::read(system);
    let (primary, place) = match option(system, APPENDFSYNC) {
        Some("always") => {
            ("after the primary has synced it to disk (`appendfsync always`)", AckLocation::Disk)
        }
        Some("everysec") => (
            "once it is in the primary's memory, and mostly in its kernel: the log is synced each second, \
             and waits for that (`appendfsync everysec`)",
            AckLocation::Memory,
        ),
        Some(_) => ("once the primary's kernel has it (`appendfsync no`)", AckLocation::PageCache),
        None => (
            "once it is in the primary's memory: a snapshot is written after 60 s at the earliest",
            AckLocation::Memory,
        ),
    };
    let (waits, place) = match (replicas.waited_for, place) {
        (0, place) => (String::new(), place),
        (count, AckLocation::Memory) => {
            (format!(", and in that of {count} replicas (`WAIT`)"), AckLocation::MajorityMemory)
        }
        (count, place) => (format!(", and {count} replicas have it in memory (`WAIT`)"), place),
    };
    let replication = match replicas.count {
        0 => "none: one node has the data, in memory",
        _ => {
            "replicas follow the primary, after its acknowledgement or before it (`wait`); no replica is \
             promoted automatically"
        }
    };
    Guarantees {
        replication: replication.into(),
        acknowledged: format!("{primary}{waits}"),
        reads: "from the primary's memory: the newest write".into(),
        acknowledged_in: Some(place),
        ..Guarantees::default()
    }
}

/// Returns a node's `redis.conf`. Everything else is Redis' default.
fn config(context: &DescribeContext<'_>, at: SocketAddr, primary: Option<SocketAddr>) -> String {
    let mut text = format!("bind {}\nport {}\n", at.ip(), at.port());
    if is_open(context) {
        text.push_str("protected-mode no\n");
    }
    if let Some(sync) = context.option(APPENDFSYNC) {
        text.push_str(&format!("appendonly yes\nappendfsync {sync}\n"));
    }
    if context.option(NOTIFICATIONS) == Some("on") {
        text.push_str(&format!("notify-keyspace-events {NOTIFIED_EVENTS}\n"));
    }
    if context.system.nodes > 1 {
        text.push_str("repl-diskless-sync-delay 0\n");
    }
    if let Some(primary) = primary {
        text.push_str(&format!("replicaof {} {}\n", primary.ip(), primary.port()));
    }
    text
}

/// Returns true if other machines reach any of its nodes, which Redis refuses to answer by default.
fn is_open(context: &DescribeContext<'_>) -> bool {
    context.located().any(|(_, location)| !location.address.is_loopback())
}

fn settings(context: &DescribeContext<'_>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if is_open(context) {
        settings.push(setting(
            "protected-mode",
            "no",
            "clients and replicas are on other machines, but without a password it only answers its own machine",
        ));
    }
    if let Some(sync) = context.option(APPENDFSYNC) {
        settings.push(setting("appendonly", "yes", ASKED));
        settings.push(setting("appendfsync", sync, ASKED));
    }
    if context.option(NOTIFICATIONS) == Some("on") {
        settings.push(setting("notify-keyspace-events", NOTIFIED_EVENTS, ASKED));
    }
    if holds_streams(context.system) {
        settings.push(setting("XADD in place of SET", STREAM, ASKED));
    }
    if context.system.nodes > 1 {
        settings.push(setting(
            "repl-diskless-sync-delay",
            0,
            "a primary waits 5 s for further replicas by default, before the load begins",
        ));
        let waited_for = ClientSettings::read(context.system).waited_for;
        if waited_for > 0 {
            settings.push(setting("WAIT after each write", waited_for, ASKED));
        }
    }
    settings
}

/// Classifies a node's error. Waiting does not fix wrong credentials.
fn refused(why: SystemError) -> NotReady {
    let seen = why.to_string();
    let hint = if seen.contains("NOAUTH") {
        "it needs a user: add `credentials: {user: default, password: $REDIS_PASSWORD}`, where `default` is the \
         user of `requirepass`"
    } else if seen.contains("WRONGPASS") {
        "check `credentials` in the study, and the contents of its variable or file"
    } else if seen.contains("NOPERM") {
        "the user needs `~bakeoff/* +info +scan +get +set +del +unlink`"
    } else {
        return why.into();
    };
    NotReady::Never { seen, hint: hint.to_owned() }
}

/// Sends one command outside of a load, as the study's user if it names one. Returns the strings of the answer, with
/// arrays flattened.
fn ask(node: &Access, words: &[&[u8]]) -> Result<Vec<Vec<u8>>, SystemError> {
    struct Question {
        session: Session,
        signs_in: bool,
        answer: Option<Result<Vec<Vec<u8>>, String>>,
    }
    impl Receiver for Question {
        fn on_bytes(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<bool, ProtocolError> {
            self.session.receive(input, &mut |reply| {
                let mut strings = Vec::new();
                let is_of_user = std::mem::take(&mut self.signs_in);
                match reply {
                    Reply::Error(error) => {
                        let error = String::from_utf8_lossy(error).into_owned();
                        self.answer.get_or_insert(Err(error));
                    }
                    _ if is_of_user => {}
                    reply => {
                        gather(reply, &mut strings);
                        self.answer.get_or_insert(Ok(strings));
                    }
                }
            })?;
            Ok(self.answer.is_some())
        }
    }
    let login = node.memory.get::<Login>();
    let (session, signs_in) = (Session::default(), login.is_some());
    let mut question = Question { session, signs_in, answer: None };
    let mut out = Vec::new();
    let first = login.as_ref().map(|login| sign_in(login));
    for words in first.iter().map(|words| &words[..]).chain([words]) {
        question.session.request(words, &mut out).map_err(|busy| busy.to_string())?;
    }
    exchange(node, PATIENCE, out, &mut question)?;
    let answer = question.answer.unwrap_or_else(|| Err("no answer".to_owned()));
    answer.map_err(|error| SystemError::answered(node, error))
}

fn gather(reply: Reply<'_>, strings: &mut Vec<Vec<u8>>) {
    match reply {
        Reply::Bulk(text) | Reply::Status(text) | Reply::Error(text) => strings.push(text.to_vec()),
        Reply::Array(replies) | Reply::Push(replies) => {
            replies.for_each(|reply| gather(reply, strings));
        }
        Reply::Integer(number) => strings.push(number.to_string().into_bytes()),
        Reply::Nil => {}
    }
}

/// Returns which endpoint to give in place of a Sentinel, by its list of primaries:
/// `master0:name=mymaster,status=ok,address=10.0.0.1:6379,slaves=2,sentinels=3`.
fn sentinel_hint(info: &str) -> String {
    let primary = info.lines().find_map(|line| {
        let fields = line.strip_prefix("master")?.split_once(':')?.1;
        fields.split(',').find_map(|field| field.strip_prefix("address="))
    });
    match primary {
        Some(address) => format!("give the primary that it watches as the endpoint: `{address}`"),
        None => "give the primary that it watches as the endpoint".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::log_findings::Tally;
    use bakeoff_host::Location;

    use super::*;

    fn level(line: &str) -> Option<Level> {
        let mut tally = Tally::new(LEVEL_WORDS);
        tally.take(line.as_bytes());
        Some(tally.finish("n", 0)?.kinds[0].level)
    }

    #[test]
    fn log_levels_follow_redis_own_characters() {
        let warned =
            "3012:M 23 Nov 2026 04:42:30.113 # Connection with replica 127.0.0.1:7001 lost.";
        assert_eq!(level(warned), Some(Level::Warning));
        let noticed = "3012:M 23 Nov 2026 04:42:30.113 * Synchronization with replica 127.0.0.1:7001 succeeded";
        assert_eq!(level(noticed), None);
    }

    #[test]
    fn sentinel_names_the_primary_to_give_instead() {
        let info = "# Sentinel\r\nsentinel_masters:1\r\n\
            master0:name=mymaster,status=ok,address=10.0.0.1:6379,slaves=2,sentinels=3\r\n";
        let hint = "give the primary that it watches as the endpoint: `10.0.0.1:6379`";
        assert_eq!(sentinel_hint(info), hint);
        assert_eq!(
            sentinel_hint("sentinel_masters:0\r\n"),
            "give the primary that it watches as the endpoint"
        );
    }

    #[test]
    fn watchers_need_notifications() {
        let lacking = |options: &[(&str, &str)], operation| {
            lacks(&crate::testing::study_system("redis", 1, options), operation)
        };
        let why = lacking(&[], Operation::Watch).expect("it is off by default");
        let expected = "it publishes no changes without `options: {notifications: on}`, and keeps them only with \
                        `{values: stream}`";
        assert_eq!(why, expected);
        let streams: &[(&str, &str)] = &[(VALUES, STREAM)];
        assert_eq!(lacking(streams, Operation::Watch), None);
        assert!(lacking(streams, Operation::Delete).is_some());
        assert!(lacking(streams, Operation::Lock).is_some());
        assert_eq!(lacking(streams, Operation::Put), None);
        assert!(lacking(&[(NOTIFICATIONS, "off")], Operation::Watch).is_some());
        assert_eq!(lacking(&[(NOTIFICATIONS, "on")], Operation::Watch), None);
        assert_eq!(lacking(&[], Operation::Put), None);
    }

    #[test]
    fn node_on_the_network_answers_other_machines() {
        let system = crate::testing::study_system("redis", 2, &[(NOTIFICATIONS, "on")]);
        let printed = |address: [u8; 4]| {
            let location = Location { address: address.into(), ..Location::HERE };
            let of = DescribeContext {
                system: &system,
                composite: &system,
                role: "",
                program: None,
                dir: std::path::Path::new("/"),
                locations: &[location],
                members: &[],
                seed: 0,
                neighbours: &[],
            };
            let names: Vec<String> = settings(&of).into_iter().map(|one| one.name).collect();
            (config(&of, location.at(7002), Some(location.at(7001))), names)
        };
        let (own, settings) = printed([127, 0, 0, 2]);
        assert!(own.starts_with("bind 127.0.0.2\nport 7002\n"), "{own}");
        assert!(own.contains("\nnotify-keyspace-events K$gx\n"), "{own}");
        assert!(!own.contains("protected-mode"), "{own}");
        assert_eq!(settings, ["notify-keyspace-events", "repl-diskless-sync-delay"]);
        let (open, settings) = printed([198, 18, 0, 1]);
        assert!(open.starts_with("bind 198.18.0.1\nport 7002\nprotected-mode no\n"), "{open}");
        assert!(open.ends_with("replicaof 198.18.0.1 7001\n"), "{open}");
        assert_eq!(
            settings,
            ["protected-mode", "notify-keyspace-events", "repl-diskless-sync-delay"]
        );
    }
}
