//! Orders of a coordinator to generators, and their answers.
//!
//! An order is complete: it is all that a generator knows about a study. Orders travel as JSON.
//!
//! Not here: carrying orders out (`serve`), sending them (`remote`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, Exchange, IncomingFrame, LoadLine, Request};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::record::PodLimits;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{Arrivals, Load, ReadConsistency, Stop, Workload};
use bakeoff_engine::watch::WatchDisturbance;
use bakeoff_engine::works::keyed::{Findings, Reading};
use bakeoff_host::disk;
use bakeoff_install::{Runtime, RuntimeFound, RuntimeMissing};
use bakeoff_systems::carried_access::CarriedAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::affinity::GeneratorCpus;
use super::baseline::BaselineOrder;
use super::describe::MachineTold;
use super::requests::RequestsOrder;

/// An order for a generator.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Begins a trial: the generator owns these keys from here on.
    Keys(Box<KeysOrder>),
    /// Describes the machine for a record.
    Environment { threads: u32, dir: PathBuf },
    /// Writes every key of its share once.
    Fill {
        to: CarriedTarget,
        /// Clients of all generators together.
        clients: u32,
        timeout_ms: u64,
    },
    /// Drives its share of a stage, from a start time that follows in a note.
    Stage(Box<StageOrder>),
    /// Returns the number of its keys with acknowledged writes.
    Acknowledged,
    /// Reads back its acknowledged keys. If there are more than `keys_max`, the most recent ones and a seeded sample.
    ReadBack { to: CarriedTarget, keys_max: u64, seed: u64 },
    /// Disturbs the watchers of the running load. Answers with the evidence.
    DisturbWatchers(WatchDisturbance),
    /// Judges the history of its keys, and ends recording.
    JudgeHistory,
    /// Sends the judged history as data if it is wanted, and frees its memory.
    ExportHistory { wanted: bool },
    /// Drops the files in these folders from the page cache.
    ReleaseFiles { folders: Vec<PathBuf> },
    /// Reads the limits of its container.
    OwnLimits,
    /// Finds the program of a kind on its machine's `PATH`, in the given version if any.
    Program { kind: String, version: Option<String> },
    /// Starts a kind's program with its libraries, far enough to print its version.
    Starts { kind: String, program: PathBuf, libraries: Vec<PathBuf> },
    /// Removes this Kubernetes namespace once the coordinator is gone.
    Keep { namespace: String },
    /// Measures its machine's baseline.
    Baseline(BaselineOrder),
    /// Measures the rate of durable appends to its disk again.
    Appends(disk::Commits),
    /// Finds a runtime at a path or on `PATH`, with at least this major version.
    Runtime { runtime: Runtime, program: PathBuf, least: u32 },
    /// Describes its machine. `data`: folder for servers' data.
    Describe { data: Option<PathBuf> },
}

impl Order {
    /// Returns the agent request that carries out the order.
    pub(crate) fn request(&self) -> Request {
        Request::Duty { order: serde_json::to_value(self).unwrap_or_default() }
    }
}

/// Sends an order and waits for its single answer.
///
/// # Errors
/// When the agent refuses, or its machine is lost.
pub(crate) fn duty<T: DeserializeOwned>(agent: &Agent, order: &Order) -> Result<T, AgentError> {
    agent.ask(&order.request())
}

/// Returns an agent's description of its machine. `data`: folder for servers' data.
///
/// # Errors
/// When the agent refuses, or its machine is lost.
pub fn describe(agent: &Agent, data: Option<PathBuf>) -> Result<MachineTold, AgentError> {
    duty(agent, &Order::Describe { data })
}

/// Returns the limits of an agent's container.
///
/// # Errors
/// When the agent refuses, or its machine is lost.
pub fn container_limits(agent: &Agent) -> Result<PodLimits, AgentError> {
    duty(agent, &Order::OwnLimits)
}

/// Finds a runtime of at least this major version on an agent's `PATH`.
///
/// # Errors
/// When the agent refuses, or its machine is lost.
pub fn find_runtime(
    agent: &Agent,
    runtime: Runtime,
    least: u32,
) -> Result<Result<RuntimeFound, RuntimeMissing>, AgentError> {
    duty(agent, &Order::Runtime { runtime, program: runtime.program().into(), least })
}

/// Sends each agent an order, without waiting for the answers.
///
/// # Errors
/// When an agent is lost.
pub(crate) fn open<'a>(
    agents: impl Iterator<Item = &'a Agent>,
    orders: impl Iterator<Item = Order>,
) -> Result<Vec<Exchange>, AgentError> {
    agents.zip(orders).map(|(agent, order)| agent.open(&order.request())).collect()
}

/// Interval between checks for a stop request while waiting for answers.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// Waits for the answers of some requests in order, and passes each answer or refusal to `take`, one in memory at a
/// time. Stops all once `stop` is set. Calls `look` in between; its error ends the wait.
///
/// When an agent is lost or its answer is not a `T`, and errors of `look` and `take`.
/// When an agent is lost or answers what was not asked; those of `look` and `take`.
pub(crate) fn answers<T: DeserializeOwned, E: From<AgentError>>(
    open: &[Exchange],
    stop: &AtomicBool,
    look: &dyn Fn() -> Result<(), E>,
    take: &mut dyn FnMut(Result<T, AgentError>) -> Result<(), E>,
) -> Result<(), E> {
    let mut stopped = false;
    for exchange in open {
        take(loop {
            if stop.load(Ordering::Relaxed) && !stopped {
                stopped = true;
                tell_to_stop(open);
            }
            look()?;
            match exchange.next_within(LISTEN_EVERY)? {
                Some(IncomingFrame::Answer(body)) => break Ok(exchange.read_answer(&body)?),
                Some(IncomingFrame::Refusal(refusal)) => break Err(exchange.refused(refusal)),
                _ => {}
            }
        })?;
    }
    Ok(())
}

/// Sends a stop note for each request. Ignores lost agents.
pub(crate) fn tell_to_stop(open: &[Exchange]) {
    open.iter().for_each(|exchange| drop(exchange.tell(&LoadLine::Stop)));
}

/// Target of a generator's clients.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct CarriedTarget {
    /// Kind of the system.
    pub(crate) system: String,
    pub(crate) nodes: Vec<CarriedAccess>,
    pub(crate) threads: u32,
}

/// The keys of a trial.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeysOrder {
    /// Workload that uses the keys.
    pub workload: Workload,
    /// Seed of the keys and values.
    pub seed: u64,
    /// True to measure staleness.
    pub staleness: bool,
    /// True to record the history of each key.
    #[serde(default)]
    pub history: bool,
    /// Share of the load, and of the keys, of the generator.
    pub share: LoadShare,
}

/// A stage of a load.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StageOrder {
    pub(crate) workload: Workload,
    pub(crate) load: Load,
    /// Clients of all generators together.
    pub(crate) clients: u32,
    pub(crate) stop: Stop,
    pub(crate) arrivals: Arrivals,
    pub(crate) first_ticket: u64,
    pub(crate) seed: u64,
    pub(crate) reading: Reading,
    /// Target of writes, and of reads if `reads_to` is `None`.
    pub(crate) to: CarriedTarget,
    /// Separate target of reads.
    pub(crate) reads_to: Option<CarriedTarget>,
    /// Requests to send instead of the workload's.
    pub(crate) requests: Option<RequestsOrder>,
}

impl StageOrder {
    pub(crate) fn stage(&self) -> plan::Stage {
        plan::Stage { clients: self.clients, stop: self.stop }
    }
}

/// Result of one generator's stage.
#[derive(Serialize, Deserialize)]
pub(crate) struct StageAnswer {
    pub(crate) measurement: Measurement,
    pub(crate) next_ticket: u64,
    /// Requested start time, and the actual one below, in nanoseconds of the generator's clock.
    pub(crate) asked: u64,
    pub(crate) began: u64,
    /// CPUs of the generator next to pinned servers.
    pub(crate) kept: GeneratorCpus,
}

/// Size of a generator's ledger.
#[derive(Serialize, Deserialize)]
pub struct LedgerSize {
    /// Keys with acknowledged writes.
    pub keys: u64,
    /// The ledger remembers one in this many keys.
    pub stride: u64,
}

/// Result of a generator's read-back.
#[derive(Default, Serialize, Deserialize)]
pub struct ReadBack {
    /// Number of keys to read.
    pub asked: u64,
    /// Number of those keys that would show any loss.
    pub claimed: u64,
    /// Findings of the reads.
    pub findings: Findings,
    /// True if the user interrupted it.
    pub interrupted: bool,
    /// First reasons for unread keys.
    pub errors: Vec<String>,
}

/// Rules for reads that must return the newest value.
pub const NEWEST: Reading = Reading {
    reads: ReadConsistency::Linearizable,
    may_be_stale: false,
    lists_are_complete: false,
};
