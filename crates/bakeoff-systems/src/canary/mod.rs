//! Runs the canary as a system: bakeoff's own key-value server, with one store behind one or more nodes.
//!
//! It is correct by default and serves for demonstrations. With options that lose, corrupt, delay or misreport data it
//! proves that the checks of a study can fail.
//!
//! Not here: the server itself (`canary` in the crate `bakeoff`).

mod watch_session;

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::{AckLocation, Freshness, Guarantees};
use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{
    self, GROUP, Kind, KindOption, LEASE_TTL, Maintenance, MaintenanceOffer, MaintenanceScope,
    Operation, OptionForm, ReadConsistency,
};
use bakeoff_core::watch::{Delivery, WatchGuarantee, Watches};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::{Answer, Compare, GroupKey, LockStep, Request};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{HostError, NodeSpec, own_program};
use bakeoff_wire::canary::{self, Frame, FrameKind};

use super::coordination::random_word;
use super::declaration::{Clients, Declaration, GuaranteeRules, Hooks, Origin, never_offered};
use super::exchange::Patience;
use super::http_session::{HttpSession, Mapping, Question, ask, question};
use super::own_servers::CANARY;
use super::{
    ASKED, Access, ClusterStatus, DescribeContext, Description, KvLoad, NotReady, System,
    SystemError, option, setting,
};
use watch_session::CanaryWatchSession;

/// Registry entry.
pub(crate) const SYSTEM: &dyn System = &Canary;

#[derive(Debug)]
pub(crate) struct Canary;

const fn share(name: &'static str, meaning: &'static str) -> KindOption {
    KindOption { name, form: OptionForm::Share, meaning }
}

const fn time(name: &'static str, meaning: &'static str) -> KindOption {
    KindOption { name, form: OptionForm::Duration, meaning }
}

/// Option for the length of a compaction.
const COMPACT: &str = "compact";

const OPERATIONS: &[Operation] = &Operation::extended::<8>(
    Operation::KEY_VALUE,
    &[Operation::Lock, Operation::Look, Operation::Move],
);

const OFFERS: &[MaintenanceOffer] = &[MaintenanceOffer {
    operation: Maintenance::Compact,
    scope: MaintenanceScope::System,
    lacks: |system| option(system, COMPACT).is_none().then_some("it needs the option `compact`"),
}];

const WATCHES: Watches = Watches {
    form: "stream of events",
    delivery: Delivery::Each,
    guarantees: WatchGuarantee::ALL,
    per_connection_max: u32::MAX,
    previous: false,
    prefix: true,
    oldest: true,
};

/// Option for the slow node. The program does not have it.
const SLOW_NODE: &str = "slow-node";

const OPTIONS: &[KindOption] = &[
    KindOption {
        name: "sync",
        form: OptionForm::Word(&["each", "none", "claimed"]),
        meaning: "whether the log is synced before a write is acknowledged; `claimed`: it only claims to sync",
    },
    share("lose", "share of writes acknowledged and then lost"),
    share("lose-on-restart", "share of writes lost after a restart"),
    time(
        "write-every",
        "delay from acknowledging a write to logging it; logged before the acknowledgement when absent",
    ),
    share("corrupt", "share of values returned with one byte changed"),
    share("truncate", "share of values returned shorter than announced"),
    share("stale", "share of reads answered with the value before the last"),
    time("old", "replication lag of every node but the first"),
    share("deny", "share of writes refused with 409 and not applied, which is honest"),
    share("dirty", "share of writes refused with 409 and applied nevertheless"),
    share(
        "reorder",
        "share of writes acknowledged at once, and applied after the next write of their key",
    ),
    time(
        "split-after",
        "time until further nodes have a copy of their own, since the first started",
    ),
    share("refuse", "share of requests answered by closing the connection"),
    share("error", "share of requests answered 500"),
    time("error-after", "delay of such an answer; none when absent"),
    share("complain", "share of such answers that it also logs as an error"),
    share("garbage", "share of requests answered with bytes that are not HTTP"),
    time("delay", "delay of a delayed answer"),
    share("delay-share", "share of delayed requests; all when absent"),
    time("stall", "length of one stall of the whole server"),
    time("stall-after", "start of the stall, since the server started"),
    time(
        COMPACT,
        "time for which the maintenance `compact` stops the whole server; not offered when absent",
    ),
    time("slow-start", "time until it is ready"),
    time(
        "warm-up",
        "time after the first request in which `delay` shrinks to zero; constant when absent",
    ),
    KindOption {
        name: SLOW_NODE,
        form: OptionForm::Number,
        meaning: "node that `delay` applies to; the first, which holds the store, when absent",
    },
    time("burn", "length of each burst in which it keeps all CPUs busy"),
    time("burn-every", "time between starts of bursts; 1s when absent"),
    KindOption {
        name: "hold",
        form: OptionForm::Size,
        meaning: "memory that it allocates at the first request",
    },
    time("die-after", "time until it exits, since the start"),
    share("lose-event", "share of a watcher's events that it never receives"),
    share("repeat-event", "share of events sent twice"),
    share("swap-events", "share of events sent after the next one"),
    share("foreign-event", "share of events followed by one of a key or value that nothing wrote"),
    time("late-event", "delay of each event, which is honest"),
    share("skip-on-resume", "share of resumed watchers that never receive their next event"),
    share(
        "early-bookmark",
        "share of reports of progress that run ahead of the last write by 100 writes",
    ),
    share(
        "stale-after-compaction",
        "share of watchers that continue after a gap in its history without a report",
    ),
    share("grant-twice", "share of requests for a held lock that are granted"),
    share("same-token", "share of grants of a lock with the number of the grant before"),
    share("half-transaction", "share of transactions that write only half of their keys"),
    share(
        "dirty-transaction",
        "share of transactions refused as a conflict and applied nevertheless",
    ),
    KindOption {
        name: "history",
        form: OptionForm::Size,
        meaning: "memory for changes that watchers may still need; 16MiB when absent",
    },
    time(
        "drop-watchers",
        "time between two ends of all watchers' connections, which is honest; none when absent",
    ),
];

impl System for Canary {
    fn declares(&self) -> Declaration {
        Declaration {
            guarantees: GuaranteeRules { guarantees, freshness },
            clients: Clients { http: true, ..Clients::default() },
            hooks: Hooks {
                maintain: Some(maintain),
                watch: Some(|node| Box::new(CanaryWatchSession::new(node))),
                ..Hooks::default()
            },
            unsafe_settings: &[("sync", &["none"])],
            announces: true,
            ..Declaration::new(
                Kind {
                    operations: OPERATIONS,
                    parameters: &[LEASE_TTL, GROUP],
                    reads: ReadConsistency::REQUESTED,
                    options: OPTIONS,
                    maintenance: OFFERS,
                    watches: Some(WATCHES),
                    nodes_max: 5,
                    value_size_max: 1 << 20,
                    in_flight_max: 1, // HTTP/1.1
                    ..Kind::new("canary")
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
        let program = own_program();
        let mut settings = Vec::new();
        let mut nodes = Vec::new();
        let mut first: Option<SocketAddr> = None;
        let nodes_asked = context.system.nodes;
        let slow = context.option(SLOW_NODE).unwrap_or("1");
        let slow = slow.parse().ok().filter(|number| (1..=nodes_asked).contains(number));
        let slow = slow.ok_or_else(|| HostError::Spec {
            node: context.system.name.clone(),
            problem: format!("`{SLOW_NODE}` is not one of its {nodes_asked} nodes"),
        })?;
        for (number, (name, location)) in (1..).zip(context.located()) {
            let client = ports.take_for(location)?;
            let dir = context.dir.join(&name);
            let mut args = vec![
                CANARY.to_owned(),
                "--listen".into(),
                location.listens_at(client).to_string(),
                "--data".into(),
                dir.join("data").display().to_string(),
                "--seed".into(),
                context.seed.to_string(),
            ];
            if context.option("sync").is_none() {
                args.extend(["--sync".into(), "each".into()]);
            }
            if let Some(first) = first {
                args.extend(["--first".into(), first.to_string()]);
            }
            first = first.or(Some(location.at(client)));
            for (option, value) in &context.system.options {
                let delay = option.starts_with("delay") || option == "warm-up";
                let everywhere = option == "old" || option == "split-after";
                let here = everywhere || if delay { number == slow } else { number == 1 };
                if here && option != SLOW_NODE {
                    args.extend([format!("--{option}"), value.clone()]);
                }
            }
            nodes.push(NodeSpec {
                program: program.clone(),
                args: args.into_iter().map(Into::into).collect(),
                dir,
                location,
                ports: vec![("client".into(), client)],
                limits: context.system.limits.clone(),
                name,
                ..NodeSpec::default()
            });
        }
        let options = context.system.options.iter();
        settings.extend(options.map(|(option, value)| setting(option, value, ASKED)));
        Ok(Description { nodes, settings, ..Description::default() })
    }

    fn probe(&self, nodes: &[Access]) -> Result<ClusterStatus, NotReady> {
        for node in nodes {
            let (status, body) = ask(node, "GET", "/health")?;
            if status != 200 {
                return Err(format!("GET /health answered {status}: {}", body.trim()).into());
            }
        }
        Ok(ClusterStatus { leader: Some(0), version: Some(env!("CARGO_PKG_VERSION").into()) })
    }

    fn clear(&self, node: &Access) -> Result<(), SystemError> {
        let (_, names) = ask(node, "GET", &format!("/list/{KEY_PREFIX}"))?;
        for name in names.lines() {
            ask(node, "DELETE", &format!("/kv/{name}"))?;
        }
        Ok(())
    }

    fn drive(&self, load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
        let lease_seconds = load.keyed.lease_seconds;
        load.over(move |node| HttpSession::new(node, Paths::new(lease_seconds)))
    }
}

fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    if run.operation != Maintenance::Compact {
        return Err(never_offered(node, run.operation));
    }
    let asked = Question { method: "POST", target: "/compact", patience, ..Question::default() };
    let reply = question(node, &asked)?;
    reply.succeeded()?;
    Ok(format!("answered {}", reply.status))
}

/// Returns the guarantees under these options.
fn guarantees(system: &study::System) -> Guarantees {
    let (acknowledged, acknowledged_in) = match super::option(system, "sync") {
        Some("none") => (
            "once the kernel has it: a crash of the program loses nothing, a power cut may",
            AckLocation::PageCache,
        ),
        _ => ("after it is synced to disk", AckLocation::Disk),
    };
    Guarantees {
        replication: match system.nodes {
            0 | 1 => "none: one node".into(),
            _ => "none: the first node has the data, the others forward requests to it".into(),
        },
        acknowledged: acknowledged.into(),
        reads: "linearizable; `stale` ones are not guaranteed to be".into(),
        acknowledged_in: Some(acknowledged_in),
        ..Guarantees::default()
    }
}

/// Returns the freshness of its reads.
fn freshness(_: &study::System, reads: ReadConsistency) -> Freshness {
    match reads {
        ReadConsistency::Stale => Freshness::NodeAsked,
        ReadConsistency::Linearizable | ReadConsistency::Default | ReadConsistency::Freshest => {
            Freshness::Linearizable
        }
    }
}

/// Maps operations onto `/kv/KEY` and `/list/PREFIX`, locks onto `/lock/KEY` and `/unlock/KEY`, and transactions onto
/// `/look` and `/move`.
#[derive(Debug)]
struct Paths {
    /// Word that names the client of the connection.
    word: String,
    lease_seconds: u64,
    /// Step of the `lock` in flight, and when it was sent.
    lock: Cell<(LockStep, Instant)>,
}

impl Paths {
    fn new(lease_seconds: u64) -> Self {
        let word = random_word();
        Self { word, lease_seconds, lock: Cell::new((LockStep::Acquire, clock::now())) }
    }

    fn read_lock(&self, status: u16, body: &[u8]) -> Answer<'static> {
        let (step, sent) = self.lock.get();
        match (step, status, place(body)) {
            (LockStep::Acquire, 200, Some(token)) => {
                Answer::Held { token, until: sent + Duration::from_secs(self.lease_seconds) }
            }
            (LockStep::Acquire, 409, _) => Answer::Again,
            (LockStep::Release, 409, _) => Answer::NotHeld { at_grant: false },
            (LockStep::Write | LockStep::Release, 204, _) => Answer::Done,
            _ => Answer::Failed(ErrorKind::Status, super::http_status_text(status, body)),
        }
    }
}

/// Reads the values of a group: a frame for each key, with the tag of all as its place.
fn read_group(mut body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    let (mut values, mut tag) = (Vec::new(), 0);
    while !body.is_empty() {
        match canary::read(body) {
            Ok(Some((frame, length))) => {
                tag = frame.place;
                values.push((frame.kind == FrameKind::Put).then_some(frame.value));
                body = body.get(length..).unwrap_or_default();
            }
            Ok(None) => {
                return on(Answer::Failed(ErrorKind::Protocol, "a part of a frame".to_owned()));
            }
            Err(error) => return on(Answer::Failed(ErrorKind::Protocol, error.to_string())),
        }
    }
    on(Answer::Group(&mut values.into_iter(), tag));
}

/// Returns the place among all writes that an answer has as its body.
fn place(body: &[u8]) -> Option<u64> {
    std::str::from_utf8(body).ok()?.parse().ok()
}

impl Mapping for Paths {
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        let start: &[u8] = match request.operation {
            Operation::Put => b"PUT /kv/",
            Operation::Get => b"GET /kv/",
            Operation::Delete => b"DELETE /kv/",
            Operation::List => b"GET /list/",
            Operation::Lock => {
                self.lock.set((request.lock, clock::now()));
                match request.lock {
                    LockStep::Acquire => b"POST /lock/",
                    LockStep::Write => b"PUT /kv/",
                    LockStep::Release => b"POST /unlock/",
                }
            }
            operation if operation.is_of_groups() => {
                let start: &[u8] = match request.compare {
                    Compare::Read => b"POST /look",
                    Compare::Replace(_) => b"POST /move",
                };
                return out.extend_from_slice(start);
            }
            operation => super::never_planned(operation),
        };
        out.extend_from_slice(start);
        out.extend_from_slice(request.key);
    }

    fn write_body(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if request.operation == Operation::Lock && request.lock != LockStep::Write {
            out.extend_from_slice(format!("{} {}", self.word, self.lease_seconds).as_bytes());
            return true;
        }
        let place = match request.compare {
            Compare::Read => 0,
            Compare::Replace(tag) => tag,
        };
        for GroupKey { name, value } in request.group {
            Frame { kind: FrameKind::Put, watcher: 0, place, name, value }.write(out);
        }
        out.extend_from_slice(request.value);
        matches!(
            request.operation,
            Operation::Put | Operation::Lock | Operation::Look | Operation::Move
        )
    }

    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        match (operation, status) {
            (Operation::Lock, _) => on(self.read_lock(status, body)),
            (Operation::Move, 409) => on(Answer::Conflict),
            (Operation::Move, 200) if body.is_empty() => on(Answer::Done),
            (Operation::Look | Operation::Move, 200) => read_group(body, on),
            (Operation::Delete, 200) => on(place(body).map_or(Answer::Done, Answer::DoneAt)),
            (Operation::Put | Operation::Delete, 200..=204) => on(Answer::Done),
            (Operation::Put | Operation::Delete, 409) => {
                on(Answer::Refused(ErrorKind::Status, super::http_status_text(status, body)));
            }
            (Operation::Get, 200) => on(Answer::Value(body)),
            (_, 404) => on(place(body).map_or(Answer::Missing, Answer::MissingAt)),
            (Operation::List, 200) => {
                let mut names = body.split(|&byte| byte == b'\n').filter(|name| !name.is_empty());
                on(Answer::Names(&mut names));
            }
            _ => on(Answer::Failed(ErrorKind::Status, super::http_status_text(status, body))),
        }
    }
}
