//! The interface of one generator, its orders and its answers.
//!
//! Not here: the generator in this process (`local`), behind a pipe (`remote`), all of a trial (`all_generators`).

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::linearizability::judged_history::JudgedHistory;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::study::{Arrivals, Load, Workload};
use bakeoff_engine::LoadProgress;
use bakeoff_engine::start_barrier::StartBarrier;
use bakeoff_engine::watch::WatchDisturbance;
use bakeoff_engine::window_signal::MomentSender;
use bakeoff_engine::works::keyed::Reading;
use bakeoff_systems::{Access, System};

use super::error::GeneratorError;
use crate::machines::order::{LedgerSize, ReadBack};
use crate::machines::requests::Requests;

/// Drives a share of loads, and owns the keys of that share for a trial.
pub(crate) trait Generator: Sync {
    /// Writes every key of its share once.
    fn fill(&self, fill: &Fill<'_>, control: Control<'_>) -> GeneratorResult<Measurement>;

    /// Drives its share of a stage, from the moment that `start` sets.
    fn stage(
        &self,
        stage: &StageRequest<'_>,
        start: &Arc<Start>,
        control: Control<'_>,
    ) -> GeneratorResult<StageResult>;

    /// Returns the number of its keys with acknowledged writes.
    fn acknowledged(&self) -> Result<LedgerSize, GeneratorError>;

    /// Reads back its acknowledged keys. If there are more than `keys_max`, the most recent ones and a seeded sample.
    fn read_back(
        &self,
        ask: &ReadBackRequest<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError>;

    /// Disturbs the watchers of the running load, and returns the evidence.
    fn disturb_watchers(&self, how: WatchDisturbance) -> Result<String, GeneratorError>;

    /// Judges the history of its keys, and ends recording. Holds the history for [`Self::export_history`].
    fn judge_history(&self) -> Result<JudgedHistory, GeneratorError>;

    /// Writes the judged history, one operation a line, and frees its memory. `None` only frees it.
    fn export_history(&self, to: Option<&mut dyn Write>) -> Result<(), GeneratorError>;
}

/// A result that is decoded on demand: the encoded form takes a tenth of the memory.
pub(crate) type LazyResult<T> = Box<dyn FnOnce() -> Result<T, GeneratorError> + Send>;

/// Result of a generator's work.
pub(crate) type GeneratorResult<T> = Result<LazyResult<T>, GeneratorError>;

/// The target that clients connect to.
#[derive(Clone, Copy)]
pub struct StageTarget<'a> {
    /// System under load.
    pub system: &'static dyn System,
    /// Access to each of its nodes.
    pub nodes: &'a [Access],
    /// True if connections resume TLS sessions.
    pub resumed: bool,
    /// Threads of each generator.
    pub threads: u32,
}

/// Keys to write before a load.
pub struct Fill<'a> {
    /// Target of the clients.
    pub to: StageTarget<'a>,
    /// Clients of all generators together.
    pub clients: u32,
    /// Timeout of each write.
    pub timeout: Duration,
}

/// A stage of a load to drive.
pub struct StageRequest<'a> {
    /// Target of writes, and of reads if `reads_to` is `None`.
    pub to: StageTarget<'a>,
    /// Nodes that reads go to; `None` for those of `to`.
    pub reads_to: Option<&'a [Access]>,
    /// Requests to send instead of the workload's. They contain their own addresses.
    pub requests: Option<&'a Requests>,
    /// Operations of the clients.
    pub workload: &'a Workload,
    /// Load, over all its stages.
    pub load: &'a Load,
    /// Stage to drive.
    pub stage: plan::Stage,
    /// Spacing of the due times of an open load.
    pub arrivals: Arrivals,
    /// Number of the stage's first operation.
    pub first_ticket: u64,
    /// Seed of the keys and values.
    pub seed: u64,
    /// Rules to judge reads by.
    pub reading: Reading,
    /// Receiver for the beginning and end of measuring, on the generator's machine.
    pub moments: Option<MomentSender>,
}

/// Keys to read back.
pub struct ReadBackRequest<'a> {
    /// Target of the clients.
    pub to: StageTarget<'a>,
    /// Most keys to read.
    pub keys_max: u64,
    /// Seed of the sample if there are more keys.
    pub seed: u64,
}

/// A stage as one generator drove it.
pub(crate) struct StageResult {
    pub(crate) measurement: Measurement,
    /// Number of the first operation that was not begun.
    pub(crate) next_ticket: u64,
    pub(crate) part: GeneratorPart,
}

/// Stops a generator, and receives each second of its load.
pub(crate) struct Control<'a> {
    pub(crate) stop: &'a AtomicBool,
    pub(crate) live: &'a mut dyn FnMut(&LoadProgress),
}

/// The common start time of all generators of a load.
pub(crate) struct Start {
    barrier: StartBarrier,
    /// Time ahead at which the start is set, in nanoseconds: the longest that any generator needs.
    lead: Arc<AtomicU64>,
}

impl Start {
    /// Waits for `generators` generators. Sends the start time to `begun` once it is set.
    pub(crate) fn new(generators: usize, begun: Sender<Instant>) -> Self {
        let lead = Arc::new(AtomicU64::new(0));
        let longest = Arc::clone(&lead);
        let gate = Box::new(move || {
            let at = clock::now() + Duration::from_nanos(longest.load(Ordering::Relaxed));
            begun.send(at).ok();
            Some(at)
        });
        Self { barrier: StartBarrier::gated(generators, gate), lead }
    }

    /// Waits until all generators are ready and returns the start time, at least `lead` away. Returns `None` if one of
    /// them will never be ready.
    pub(crate) fn ready(&self, lead: Duration) -> Option<Instant> {
        self.lead.fetch_max(lead.as_nanos() as u64, Ordering::Relaxed);
        self.barrier.start()
    }

    /// Releases the waiting generators because one will never be ready.
    pub(crate) fn fail(&self) {
        self.barrier.fail();
    }
}
