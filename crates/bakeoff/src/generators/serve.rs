//! The generator's side: what an agent does when it is asked to drive a share of a load.
//!
//! It has the keys of its share, and their ledger, from the beginning of a trial to its end. The loop is the one that
//! drives loads here; what differs is who says when it begins.
//!
//! Not here: the pipe (`bakeoff_agent`), what the shares add up to (`drive`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_agent::{AgentRefusal, Duties, Incoming, Line, LoadLine, Workshop};
use bakeoff_clock as clock;
use bakeoff_core::read_write_split;
use bakeoff_core::schedule;
use bakeoff_core::study::{Arrivals, ReadConsistency, Stop};
use bakeoff_core::workload::mix64;
use bakeoff_engine::moments::MomentSender;
use bakeoff_engine::open_files;
use bakeoff_engine::together::{StartGate, Together};
use bakeoff_engine::works::keyed::{Keyed, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, EngineError, Live};
use bakeoff_host::disk;
use serde_json::Value;

use super::http;
use super::order::{AcknowledgedTold, KeysOrder, Order, ReadBackTold, StageOrder, StageTold, To};
use crate::cluster::contenders;
use crate::environment;
use crate::machines::describe;
use crate::machines::kubernetes::keeper::Keeper;
use crate::messages;
use crate::systems::{self, Access, KvLoad, System};
use crate::trial::audit::Auditor;
use crate::trial::load::drive_of;
use crate::trial::split_load::{self, SplitLoad};

/// How often it is looked whether the coordinator wants the end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Drives shares of loads for a coordinator.
#[derive(Default)]
pub(crate) struct Generator {
    keys: Mutex<Option<Keys>>,
    /// Removes the namespace of the run, where this is one of its pods.
    keeper: Mutex<Option<Keeper>>,
}

/// The keys of the trial that is under way.
#[derive(Clone)]
struct Keys {
    order: Arc<KeysOrder>,
    keyed: Arc<Keyed>,
}

pub(super) fn told(value: &impl serde::Serialize) -> Result<Value, AgentRefusal> {
    serde_json::to_value(value).map_err(AgentRefusal::new)
}

fn refused(error: EngineError) -> AgentRefusal {
    let interrupted = matches!(error, EngineError::Interrupted);
    AgentRefusal { interrupted, ..AgentRefusal::new(error) }
}

impl Duties for Generator {
    fn perform(
        &self,
        what: Value,
        workshop: &Workshop,
        line: &Line,
    ) -> Result<Value, AgentRefusal> {
        let order: Order = serde_json::from_value(what)
            .map_err(|error| AgentRefusal::new(format!("this is no order: {error}")))?;
        match order {
            Order::Keys(order) => {
                let staleness = match order.staleness {
                    true => StalenessTracking::Measured,
                    false => StalenessTracking::NotMeasured,
                };
                let keyed = Keyed::new(&order.workload, order.seed, staleness).owned(order.share);
                let keys = Keys { order: order.into(), keyed: Arc::new(keyed) };
                *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
                Ok(Value::Null)
            }
            Order::Environment { threads, dir } => {
                let open_files = open_files::raise_for(0).map_err(AgentRefusal::new)?;
                let described = environment::describe(&dir, threads, open_files, false);
                told(&described.map_err(AgentRefusal::new)?)
            }
            Order::Fill { to, clients, timeout_ms } => {
                let keys = self.keys()?;
                fill(&keys, to, clients, Duration::from_millis(timeout_ms), line)
            }
            Order::Stage(order) => stage(&self.keys()?, &order, workshop, line),
            Order::Acknowledged => {
                let ledger = &self.keys()?.keyed.ledger;
                let keys = ledger.acknowledged().len() as u64;
                told(&AcknowledgedTold { keys, stride: ledger.stride() })
            }
            Order::ReadBack { to, keys_max, seed } => {
                read_back(&self.keys()?, to, keys_max, seed, line)
            }
            Order::Http(order) => http::drive(*order, workshop, line),
            Order::OwnLimits => told(&bakeoff_host::own_limits()),
            Order::Program { kind, version } => program(&kind, version.as_deref()),
            Order::Keep { namespace } => {
                let keeper = Keeper::in_pod(&namespace)?;
                *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
                Ok(Value::Null)
            }
            Order::Baseline(order) => {
                let open_files = open_files::raise_for(0).map_err(AgentRefusal::new)?;
                told(&until_stopped(line, |stop| order.measure(open_files, stop))?)
            }
            Order::Appends { dir, bytes, clients } => {
                told(&until_stopped(line, |stop| disk::commits(&dir, bytes, &clients, stop))?)
            }
            Order::Runtime { runtime, program, least } => {
                let found = runtime.look_for(&program, least);
                told(&found.map_err(|missing| missing.to_string()))
            }
            Order::Describe { data } => told(&describe::describe(data.as_deref())),
        }
    }

    fn coordinator_gone(&self) {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(refusal)) = keeper.map(|keeper| keeper.remove()) {
            messages::warn(&format!("the namespace of the run is left: {}", refusal.text));
        }
    }
}

impl Generator {
    fn keys(&self) -> Result<Keys, AgentRefusal> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone().ok_or_else(|| AgentRefusal::new("no trial was begun"))
    }
}

/// Finds the program of a kind on this machine's `PATH`.
fn program(kind: &str, version: Option<&str>) -> Result<Value, AgentRefusal> {
    let system = systems::by_kind(kind)
        .ok_or_else(|| AgentRefusal::new(format!("there is no kind `{kind}`")))?;
    let wanted = contenders::version_request(version).map_err(AgentRefusal::new)?;
    let recipe = system.declares().origin.recipe();
    let found = recipe.map(|recipe| bakeoff_install::on_path(recipe, wanted.as_ref())).transpose();
    told(&found.map_err(AgentRefusal::new)?.flatten())
}

/// Returns the system and its nodes, for sessions on this machine.
fn reached(to: To) -> Result<(&'static dyn System, Vec<Access>), AgentRefusal> {
    let system = systems::by_kind(&to.system)
        .ok_or_else(|| AgentRefusal::new(format!("there is no kind `{}`", to.system)))?;
    let nodes = to.nodes.into_iter().map(|node| node.access(system));
    Ok((system, nodes.collect::<Result<Vec<_>, _>>().map_err(AgentRefusal::new)?))
}

/// Makes what a kind that takes requests needs; keys of others are prepared already.
fn remember_requests(
    system: &dyn System,
    nodes: &[Access],
    keys: &Keys,
) -> Result<(), AgentRefusal> {
    let (true, Some(first)) = (system.declares().kind.takes_requests(), nodes.first()) else {
        return Ok(());
    };
    system.prepare(first, nodes, &keys.order.workload, &keys.keyed).map_err(AgentRefusal::new)
}

/// Runs what may be broken off, and refuses what could not be done, in its words.
fn until_stopped<T: Send, E: fmt::Display + Send>(
    line: &Line,
    work: impl FnOnce(&AtomicBool) -> Result<T, E> + Send,
) -> Result<T, AgentRefusal> {
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let done = hearing(line, &begin, &stop, || work(&stop));
    done.map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        AgentRefusal { interrupted: stop.load(Ordering::Relaxed), ..AgentRefusal::new(text) }
    })
}

/// Runs `work` in a thread while this one hears what the coordinator says meanwhile.
fn hearing<T: Send>(
    line: &Line,
    begin: &mpsc::Sender<Option<u64>>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            match line.next_within(LOOK_EVERY) {
                Ok(None) => {}
                Ok(Some(Incoming::Note(note))) => match serde_json::from_value(note) {
                    Ok(LoadLine::Begin(at)) => drop(begin.send(Some(at))),
                    Ok(LoadLine::Stop) => {
                        stop.store(true, Ordering::Relaxed);
                        begin.send(None).ok();
                    }
                    _ => {}
                },
                Ok(Some(_)) => {}
                Err(_) => {
                    stop.store(true, Ordering::Relaxed);
                    begin.send(None).ok();
                    break;
                }
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn fill(
    keys: &Keys,
    to: To,
    clients: u32,
    timeout: Duration,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let threads = to.threads;
    let (system, nodes) = reached(to)?;
    let share = keys.order.share;
    let count = share.count(keys.order.workload.keys.count);
    let drive = Drive::once(count, (clients / share.of).max(1), threads, timeout);
    let reading = Reading {
        reads: keys.order.workload.reads,
        may_be_stale: false,
        lists_are_complete: false,
    };
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let driven = hearing(line, &begin, &stop, || {
        system.drive(KvLoad {
            nodes: &nodes,
            keyed: &keys.keyed,
            source: &mut |_| Source::Fill,
            reading,
            drive: &drive,
            together: None,
            interrupted: &stop,
            progress: &mut |_| {},
        })
    });
    told(&driven.map_err(refused)?.0)
}

fn stage(
    keys: &Keys,
    order: &StageOrder,
    workshop: &Workshop,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let threads = order.to.threads;
    let (system, nodes) = reached(order.to.clone())?;
    let reads = order.reads_to.clone().map(reached).transpose()?.map(|(_, nodes)| nodes);
    remember_requests(system, &nodes, keys)?;
    let share = keys.order.share;
    let seed = order.seed;
    let drawn = mix64(seed ^ mix64(order.first_ticket));
    let own = |source: &mut Source, stop: Stop, arrivals: Arrivals| match (stop, arrivals) {
        (Stop::Operations(count), Arrivals::Closed) => {
            Some(source.count_owned(order.first_ticket, count, share))
        }
        _ => None,
    };
    let mut source = Source::mix(&order.workload, seed, drawn);
    let drive = Drive {
        arrivals: schedule::paced(order.arrivals),
        threads,
        seed: mix64(seed ^ order.first_ticket),
        first_ticket: order.first_ticket,
        moments: workshop.moments().map(MomentSender::new),
        share,
        own_operations: own(&mut source, order.stop, order.arrivals),
        ..drive_of(&order.load, &order.stage())
    };
    let (driven, begun) = begin_when_told(line, workshop, |gate, stop, progress| match &reads {
        None => system.drive(KvLoad {
            nodes: &nodes,
            keyed: &keys.keyed,
            source: &mut |_| Source::mix(&order.workload, seed, drawn),
            reading: order.reading,
            drive: &drive,
            together: Some(&Together::gated(1, gate)),
            interrupted: stop,
            progress,
        }),
        Some(reads) => {
            let halves =
                read_write_split::halves(&order.workload, &order.stage(), order.arrivals, threads);
            let halves = halves.expect("only what writes and reads is driven apart");
            let split = SplitLoad {
                system,
                keyed: &keys.keyed,
                reading: order.reading,
                drive: &drive,
                seed,
                interrupted: stop,
            };
            split_load::drive(&split, &halves, [&nodes, reads], Some(gate), progress)
        }
    });
    let (measurement, next_ticket) = driven.map_err(refused)?;
    let Begun { asked, began } = begun;
    told(&StageTold { measurement, next_ticket, asked, began })
}

/// When a load was asked to begin, and when it began, by this machine's clock in nanoseconds.
pub(super) struct Begun {
    pub(super) asked: u64,
    pub(super) began: u64,
}

/// Drives a load that says when its clients are connected, begins when the coordinator says so, and tells of each
/// second. `drive` is given its gate, whether to stop, and whom to tell.
pub(super) fn begin_when_told<T: Send>(
    line: &Line,
    workshop: &Workshop,
    drive: impl FnOnce(StartGate, &AtomicBool, &mut dyn FnMut(&Live)) -> T + Send,
) -> (T, Begun) {
    let (begin, begins) = mpsc::channel();
    let times = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let gate = gate(line, begins, workshop, Arc::clone(&times));
    let stop = AtomicBool::new(false);
    let back = &line.back;
    let driven = hearing(line, &begin, &stop, || {
        drive(gate, &stop, &mut |live| {
            if let Ok(live) = serde_json::to_value(live) {
                back.tell(&LoadLine::Live(live));
            }
        })
    });
    let [asked, began] = [&times.0, &times.1].map(|time| time.load(Ordering::Relaxed));
    (driven, Begun { asked, began })
}

/// Returns the gate of a load: says that its clients are connected, and waits for the moment to begin.
fn gate(
    line: &Line,
    begins: mpsc::Receiver<Option<u64>>,
    workshop: &Workshop,
    times: Arc<(AtomicU64, AtomicU64)>,
) -> StartGate {
    let back = line.back.clone();
    let begins = Mutex::new(begins);
    let clock = workshop.clock();
    Box::new(move || {
        back.tell(&LoadLine::Connected);
        let begins = begins.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begins.recv().ok().flatten()?;
        times.0.store(at, Ordering::Relaxed);
        let moment = clock.instant(at);
        let now = clock::now();
        // A moment that is past when it is heard of cannot be kept: the load begins at once, and says so.
        let start = moment.max(now);
        times.1.store(clock.nanos(start), Ordering::Relaxed);
        Some(start)
    })
}

fn read_back(
    keys: &Keys,
    to: To,
    keys_max: u64,
    seed: u64,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let (system, nodes) = reached(to)?;
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let auditor = Auditor {
        system,
        keyed: &keys.keyed,
        keys_max,
        seed,
        interrupted: &stop,
        generators: None,
    };
    let acknowledged = auditor.sample(keys.keyed.ledger.acknowledged());
    let asked = acknowledged.len() as u64;
    let claimed = keys.keyed.ledger.claiming_fully(&acknowledged);
    if asked == 0 {
        let findings = Default::default();
        return told(&ReadBackTold {
            asked,
            claimed,
            findings,
            interrupted: false,
            errors: vec![],
        });
    }
    let read = hearing(line, &begin, &stop, || auditor.read_back(acknowledged, &nodes));
    let read = read.map_err(refused)?;
    told(&ReadBackTold {
        asked,
        claimed,
        findings: read.findings,
        interrupted: read.interrupted,
        errors: read.errors,
    })
}

/// Returns how writes after a kill are read.
pub(crate) const NEWEST: Reading = Reading {
    reads: ReadConsistency::Linearizable,
    may_be_stale: false,
    lists_are_complete: false,
};
