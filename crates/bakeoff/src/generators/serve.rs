//! The generator's side: what an agent does when it is asked to drive a share of a load.
//!
//! It has the keys of its share, and their ledger, from the beginning of a trial to its end. The loop is the one that
//! drives loads here; what differs is who says when it begins.
//!
//! Not here: the pipe (`bakeoff_agent`), what the shares add up to (`drive`).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_agent::{AgentRefusal, Duties, Line, Workshop};
use bakeoff_core::read_write_split;
use bakeoff_core::schedule;
use bakeoff_core::study::{Arrivals, Stop};
use bakeoff_core::workload::mix64;
use bakeoff_engine::moments::MomentSender;
use bakeoff_engine::open_files;
use bakeoff_engine::together::Together;
use bakeoff_engine::works::keyed::{Keyed, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, EngineError};
use bakeoff_host::page_cache;
use serde_json::Value;

use super::begin::{Begun, begin_when_told, hearing, told, until_stopped};
use super::http;
use super::order::{AcknowledgedTold, KeysOrder, Order, ReadBackTold, StageOrder, StageTold, To};
use crate::cluster::contenders;
use crate::environment;
use crate::machines::describe;
use crate::machines::kubernetes::keeper::Keeper;
use crate::messages;
use crate::systems::{self, Access, KvLoad, System};
use crate::trial::affinity::{Affinity, Kept};
use crate::trial::audit::Auditor;
use crate::trial::load::drive_of;
use crate::trial::split_load::{self, SplitLoad};

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

fn refused(error: EngineError) -> AgentRefusal {
    let interrupted = matches!(error, EngineError::Interrupted);
    AgentRefusal { interrupted, ..AgentRefusal::new(error) }
}

impl Duties for Generator {
    fn perform(&self, what: &str, workshop: &Workshop, line: &Line) -> Result<Value, AgentRefusal> {
        let order: Order = serde_json::from_str(what)
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
            Order::ReleaseFiles { folders } => {
                folders.iter().for_each(|folder| page_cache::release(folder));
                Ok(Value::Null)
            }
            Order::OwnLimits => told(&bakeoff_host::own_limits()),
            Order::Program { kind, version } => program(&kind, version.as_deref()),
            Order::Starts { kind, program, libraries } => {
                if let Some(recipe) = systems::recipe_of(&kind) {
                    bakeoff_install::starts(recipe, &program, &libraries)
                        .map_err(AgentRefusal::new)?;
                }
                Ok(Value::Null)
            }
            Order::Keep { namespace } => {
                let keeper = Keeper::in_pod(&namespace)?;
                *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
                Ok(Value::Null)
            }
            Order::Baseline(order) => {
                let open_files = open_files::raise_for(0).map_err(AgentRefusal::new)?;
                told(&until_stopped(line, |stop| order.measure(open_files, stop))?)
            }
            Order::Appends(commits) => told(&until_stopped(line, |stop| commits.measure(stop))?),
            Order::Runtime { runtime, program, least } => told(&runtime.look_for(&program, least)),
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
    let pinned = workshop.pinned();
    let affinity = Affinity::from(pinned.iter().map(Vec::as_slice));
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
    let kept = affinity.as_ref().map(Kept::from).unwrap_or_default();
    told(&StageTold { measurement, next_ticket, asked, began, kept })
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
    let acknowledged = auditor.choose(keys.keyed.ledger.acknowledged());
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
