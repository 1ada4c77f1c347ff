//! What a coordinator asks generators for, and what they answer.
//!
//! Orders are whole: a generator knows nothing of a study but what they say. They travel as JSON.
//!
//! Not here: carrying orders out (`serve`), giving them (`remote`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_agent::{Agent, AgentError, Exchange, Incoming, LoadLine, Request};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::record::PodLimits;
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{Arrivals, Load, ReadConsistency, Stop, Workload};
use bakeoff_engine::works::keyed::{Findings, Reading};
use bakeoff_host::disk;
use bakeoff_install::{Runtime, RuntimeFound, RuntimeMissing};
use bakeoff_systems::carried::CarriedAccess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::affinity::Kept;
use super::baseline::BaselineOrder;
use super::describe::MachineTold;
use super::requests::RequestsOrder;

/// An order for a generator.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Begins a trial: from here on the generator has these keys.
    Keys(Box<KeysOrder>),
    /// Tells of the machine for a record.
    Environment { threads: u32, dir: PathBuf },
    /// Writes every key of its share once.
    Fill {
        to: To,
        /// Clients of all generators together.
        clients: u32,
        timeout_ms: u64,
    },
    /// Drives its share of a stage, from the moment that it will be told.
    Stage(Box<StageOrder>),
    /// Tells how many of its keys have acknowledged writes.
    Acknowledged,
    /// Reads back its acknowledged keys: the most recent ones and a seeded sample if they are more than `keys_max`.
    ReadBack { to: To, keys_max: u64, seed: u64 },
    /// Releases what is cached of the files in these folders.
    ReleaseFiles { folders: Vec<PathBuf> },
    /// Reads the limits of the container that it is in.
    OwnLimits,
    /// Finds the program of a kind on its machine's `PATH`, of this version where one is named.
    Program { kind: String, version: Option<String> },
    /// Starts a kind's program with its libraries, as far as it takes to say its version.
    Starts { kind: String, program: PathBuf, libraries: Vec<PathBuf> },
    /// Removes this namespace of Kubernetes once the coordinator is gone.
    Keep { namespace: String },
    /// Measures what its machine can do at best.
    Baseline(BaselineOrder),
    /// Measures again what its disk can commit.
    Appends(disk::Commits),
    /// Looks for a runtime at a path, else on `PATH`, of at least this major version.
    Runtime { runtime: Runtime, program: PathBuf, least: u32 },
    /// Describes its machine; `data` is the folder for servers' data.
    Describe { data: Option<PathBuf> },
}

impl Order {
    /// Returns the request to an agent that carries it out.
    pub(crate) fn request(&self) -> Request {
        Request::Duty { order: serde_json::to_value(self).unwrap_or_default() }
    }
}

/// Has an agent carry out an order that is over with one answer.
///
/// # Errors
/// When it refuses, or its machine is lost.
pub(crate) fn duty<T: DeserializeOwned>(agent: &Agent, order: &Order) -> Result<T, AgentError> {
    agent.ask(&order.request())
}

/// Has an agent describe its machine; `data` is the folder for servers' data.
///
/// # Errors
/// When it refuses, or its machine is lost.
pub fn describe(agent: &Agent, data: Option<PathBuf>) -> Result<MachineTold, AgentError> {
    duty(agent, &Order::Describe { data })
}

/// Has an agent read the limits of the container that it is in.
///
/// # Errors
/// When it refuses, or its machine is lost.
pub fn container_limits(agent: &Agent) -> Result<PodLimits, AgentError> {
    duty(agent, &Order::OwnLimits)
}

/// Has an agent find a runtime of at least this major version on its `PATH`.
///
/// # Errors
/// When it refuses, or its machine is lost.
pub fn find_runtime(
    agent: &Agent,
    runtime: Runtime,
    least: u32,
) -> Result<Result<RuntimeFound, RuntimeMissing>, AgentError> {
    duty(agent, &Order::Runtime { runtime, program: runtime.program().into(), least })
}

/// Gives each agent an order whose answer is waited for later.
///
/// # Errors
/// When one is lost.
pub(crate) fn open<'a>(
    agents: impl Iterator<Item = &'a Agent>,
    orders: impl Iterator<Item = Order>,
) -> Result<Vec<Exchange>, AgentError> {
    agents.zip(orders).map(|(agent, order)| agent.open(&order.request())).collect()
}

/// How often it is looked whether somebody wants the end while answers are waited for.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// Waits for the answers of some requests, in their order, and hands on each answer or refusal, one in memory at a
/// time. Tells all to stop once `stop` says so. `look` is asked meanwhile whether to go on.
///
/// # Errors
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
                Some(Incoming::Answer(body)) => break Ok(exchange.read_answer(&body)?),
                Some(Incoming::Refusal(refusal)) => break Err(exchange.refused(refusal)),
                _ => {}
            }
        })?;
    }
    Ok(())
}

/// Tells all to stop that are still there.
pub(crate) fn tell_to_stop(open: &[Exchange]) {
    open.iter().for_each(|exchange| drop(exchange.tell(&LoadLine::Stop)));
}

/// Where a generator's clients connect to.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct To {
    /// The kind.
    pub(crate) system: String,
    pub(crate) nodes: Vec<CarriedAccess>,
    pub(crate) threads: u32,
}

/// The keys of a trial.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeysOrder {
    /// The workload whose keys these are.
    pub workload: Workload,
    /// Seed of the keys and values.
    pub seed: u64,
    /// Whether staleness is measured.
    pub staleness: bool,
    /// The part of the load that the generator drives.
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
    /// Where writes go, and everything where reads do not go elsewhere.
    pub(crate) to: To,
    /// Where reads go, where that is elsewhere.
    pub(crate) reads_to: Option<To>,
    /// Requests in place of what the workload says.
    pub(crate) requests: Option<RequestsOrder>,
}

impl StageOrder {
    pub(crate) fn stage(&self) -> plan::Stage {
        plan::Stage { clients: self.clients, stop: self.stop }
    }
}

/// The measurement of one generator.
#[derive(Serialize, Deserialize)]
pub(crate) struct StageTold {
    pub(crate) measurement: Measurement,
    pub(crate) next_ticket: u64,
    /// When it was asked to begin, and when it began, by its clock in nanoseconds.
    pub(crate) asked: u64,
    pub(crate) began: u64,
    /// Result of keeping it off the CPUs of servers that are pinned on its machine.
    pub(crate) kept: Kept,
}

/// The size of a generator's ledger.
#[derive(Serialize, Deserialize)]
pub struct LedgerSize {
    /// Keys with acknowledged writes.
    pub keys: u64,
    /// One in how many keys is remembered.
    pub stride: u64,
}

/// The keys that a generator read back.
#[derive(Default, Serialize, Deserialize)]
pub struct ReadBack {
    /// Keys that were read.
    pub asked: u64,
    /// Keys that would show whatever was lost of them.
    pub claimed: u64,
    /// The findings of the reads.
    pub findings: Findings,
    /// True if the user interrupted it.
    pub interrupted: bool,
    /// The first reasons for which keys could not be read.
    pub errors: Vec<String>,
}

/// How reads are judged that must return the newest value.
pub const NEWEST: Reading = Reading {
    reads: ReadConsistency::Linearizable,
    may_be_stale: false,
    lists_are_complete: false,
};
