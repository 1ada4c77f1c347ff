//! The agent's side of a generator: carries out a coordinator's orders.
//!
//! It decodes orders and calls the local generator. Only the start time comes from the coordinator instead.
//!
//! Not here: the pipe (`bakeoff_agent`), driving (`local`), the sum of all shares (`all_generators`).

use std::io::{self, BufWriter, Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_agent::{AgentRefusal, AgentState, Duties, Hello, Line, ReplySender};
use bakeoff_engine::LoadProgress;
use bakeoff_engine::open_files;
use bakeoff_engine::window_signal::MomentSender;
use bakeoff_engine::works::keyed::{KeyedState, StalenessTracking};
use bakeoff_host::page_cache;
use bakeoff_install::VersionRequest;
use bakeoff_systems::{self as systems, Access, System};
use serde_json::Value;

use super::error::GeneratorError;
use super::generator::{Fill, ReadBackRequest, StageRequest, StageTarget};
use super::load_start::{LoadStart, hearing, send_second, start_on_signal, to_json, until_stopped};
use super::local::LocalGenerator;
use crate::environment;
use crate::machines::affinity::{Affinity, GeneratorCpus};
use crate::machines::describe;
use crate::machines::kubernetes::keeper::Keeper;
use crate::machines::order::{CarriedTarget, Order, StageAnswer, StageOrder};
use crate::machines::requests::RequestsOrder;
use crate::warnings;

/// Carries out a coordinator's orders until the pipe closes, then ends everything it started.
///
/// # Errors
/// When the pipe breaks, or the coordinator sends an invalid frame.
pub fn serve(hello: &Hello, from: impl Read, to: impl Write + Send + 'static) -> io::Result<()> {
    bakeoff_agent::serve(hello, Arc::new(Generator::default()), from, to)
}

/// Drives shares of loads for a coordinator.
#[derive(Default)]
struct Generator {
    keys: Mutex<Option<LocalGenerator>>,
    /// Removes the run's namespace, if this is a pod with that task.
    keeper: Mutex<Option<Keeper>>,
}

fn refused(error: impl Into<GeneratorError>) -> AgentRefusal {
    let error = error.into();
    AgentRefusal {
        interrupted: matches!(error, GeneratorError::Interrupted),
        ..AgentRefusal::new(error)
    }
}

impl Duties for Generator {
    type Order = Order;

    fn perform(
        &self,
        order: Order,
        agent: &AgentState,
        line: &Line,
    ) -> Result<Value, AgentRefusal> {
        match order {
            Order::Keys(order) => {
                let staleness = match order.staleness {
                    true => StalenessTracking::Measured,
                    false => StalenessTracking::NotMeasured,
                };
                let keyed =
                    KeyedState::new(&order.workload, order.seed, staleness).owned(order.share);
                let keyed = if order.history { keyed.with_history() } else { keyed };
                let keys = LocalGenerator::new(Arc::new(keyed), order.workload);
                *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
                Ok(Value::Null)
            }
            Order::Environment { threads, dir } => {
                let open_files = open_files::raise_for(0).map_err(AgentRefusal::new)?;
                let described = environment::describe(&dir, threads, open_files, false);
                to_json(&described.map_err(AgentRefusal::new)?)
            }
            Order::Fill { to, clients, timeout_ms } => {
                let keys = self.keys()?;
                fill(&keys, to, clients, Duration::from_millis(timeout_ms), line)
            }
            Order::Stage(order) => stage(&self.keys()?, &order, agent, line),
            Order::Acknowledged => to_json(&self.keys()?.count_acknowledged()),
            Order::ReadBack { to, keys_max, seed } => {
                read_back(&self.keys()?, to, keys_max, seed, line)
            }
            Order::DisturbWatchers(how) => to_json(&self.keys()?.disturb(how).map_err(refused)?),
            Order::JudgeHistory => to_json(&self.keys()?.judge_keys()),
            Order::ExportHistory { wanted } => export_history(&self.keys()?, wanted, line),
            Order::ReleaseFiles { folders } => {
                folders.iter().for_each(|folder| page_cache::release(folder));
                Ok(Value::Null)
            }
            Order::OwnLimits => to_json(&bakeoff_host::own_limits()),
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
                to_json(&until_stopped(line, |stop| order.measure(open_files, stop))?)
            }
            Order::Appends(commits) => to_json(&until_stopped(line, |stop| commits.measure(stop))?),
            Order::Runtime { runtime, program, least } => {
                to_json(&runtime.look_for(&program, least))
            }
            Order::Describe { data } => to_json(&describe::describe(data.as_deref())),
        }
    }

    fn coordinator_gone(&self) {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(refusal)) = keeper.map(|keeper| keeper.remove()) {
            warnings::warn(&format!("cannot remove the run's namespace: {}", refusal.text));
        }
    }
}

impl Generator {
    fn keys(&self) -> Result<LocalGenerator, AgentRefusal> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone().ok_or_else(|| AgentRefusal::new("no trial has begun"))
    }
}

/// Bytes of a history per frame.
const HISTORY_PART: usize = 256 << 10;

/// Sends the judged history of the keys to the coordinator if it is wanted, and frees its memory.
fn export_history(keys: &LocalGenerator, wanted: bool, line: &Line) -> Result<Value, AgentRefusal> {
    let mut to = BufWriter::with_capacity(HISTORY_PART, HistoryPipe(&line.back));
    keys.write_history(wanted.then_some(&mut to as &mut dyn Write)).map_err(refused)?;
    to.flush().map_err(AgentRefusal::new)?;
    Ok(Value::Null)
}

/// Sends written bytes to the coordinator as data.
struct HistoryPipe<'a>(&'a ReplySender);

impl Write for HistoryPipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.data(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds the program of a kind on this machine's `PATH`.
fn program(kind: &str, version: Option<&str>) -> Result<Value, AgentRefusal> {
    let wanted =
        version.map(str::parse::<VersionRequest>).transpose().map_err(AgentRefusal::new)?;
    let found = systems::recipe_of(kind)
        .map(|recipe| bakeoff_install::on_path(recipe, wanted.as_ref()))
        .transpose();
    to_json(&found.map_err(AgentRefusal::new)?.flatten())
}

/// Returns the system and access to its nodes, for sessions on this machine.
fn reached(to: CarriedTarget) -> Result<(&'static dyn System, Vec<Access>), AgentRefusal> {
    let system = systems::by_kind(&to.system)
        .ok_or_else(|| AgentRefusal::new(format!("unknown kind `{}`", to.system)))?;
    let nodes = to.nodes.into_iter().map(|node| node.access(system));
    Ok((system, nodes.collect::<Result<Vec<_>, _>>().map_err(AgentRefusal::new)?))
}

/// Prepares requests for a kind that takes them. Keys of other kinds are prepared already.
fn remember_requests(
    system: &dyn System,
    nodes: &[Access],
    keys: &LocalGenerator,
) -> Result<(), AgentRefusal> {
    let (true, Some(first)) = (system.declares().kind.takes_requests(), nodes.first()) else {
        return Ok(());
    };
    system.prepare(first, nodes, keys.workload(), keys.keyed()).map_err(AgentRefusal::new)
}

fn fill(
    keys: &LocalGenerator,
    to: CarriedTarget,
    clients: u32,
    timeout: Duration,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let threads = to.threads;
    let (system, nodes) = reached(to)?;
    let to = StageTarget { system, nodes: &nodes, resumed: true, threads };
    let fill = Fill { to, clients, timeout };
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let back = &line.back;
    let live = &mut |live: &LoadProgress| send_second(back, live);
    to_json(&hearing(line, &begin, &stop, || keys.write_keys(&fill, &stop, live)).map_err(refused)?)
}

fn stage(
    keys: &LocalGenerator,
    order: &StageOrder,
    agent: &AgentState,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let (system, nodes) = reached(order.to.clone())?;
    let reads = order.reads_to.clone().map(reached).transpose()?.map(|(_, nodes)| nodes);
    remember_requests(system, &nodes, keys)?;
    let requests = order.requests.as_ref().map(RequestsOrder::requests);
    let ask = StageRequest {
        to: StageTarget { system, nodes: &nodes, resumed: true, threads: order.to.threads },
        reads_to: reads.as_deref(),
        requests: requests.as_ref(),
        workload: &order.workload,
        load: &order.load,
        stage: order.stage(),
        arrivals: order.arrivals,
        first_ticket: order.first_ticket,
        seed: order.seed,
        reading: order.reading,
        moments: agent.moments().map(MomentSender::new),
    };
    let pinned = agent.pinned();
    let affinity = Affinity::from(pinned.iter().map(Vec::as_slice));
    let (driven, begun) =
        start_on_signal(line, agent, |gate, stop, progress| keys.drive(&ask, gate, stop, progress));
    let (measurement, next_ticket) = driven.map_err(refused)?;
    let LoadStart { asked, began } = begun;
    let kept = affinity.as_ref().map(GeneratorCpus::from).unwrap_or_default();
    to_json(&StageAnswer { measurement, next_ticket, asked, began, kept })
}

fn read_back(
    keys: &LocalGenerator,
    to: CarriedTarget,
    keys_max: u64,
    seed: u64,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let threads = to.threads;
    let (system, nodes) = reached(to)?;
    let to = StageTarget { system, nodes: &nodes, resumed: true, threads };
    let ask = ReadBackRequest { to, keys_max, seed };
    to_json(&until_stopped(line, |stop| keys.read_keys(&ask, stop))?)
}
