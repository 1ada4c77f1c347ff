//! One generator: what it is asked for, and what it answers.
//!
//! Not here: the generator in this process (`local`), the one behind a pipe (`remote`), several at once (`all`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::Measurement;
use bakeoff_core::plan;
use bakeoff_core::record::GeneratorPart;
use bakeoff_core::study::{Arrivals, Load, Workload};
use bakeoff_engine::Live;
use bakeoff_engine::moments::MomentSender;
use bakeoff_engine::together::Together;
use bakeoff_engine::works::keyed::Reading;
use bakeoff_systems::{Access, System};

use super::error::GeneratorError;
use crate::machines::order::{LedgerSize, ReadBack};
use crate::machines::requests::Requests;

/// Drives a share of loads, and owns the keys of that share for a trial.
pub(crate) trait Generator: Sync {
    /// Writes every key of its share once.
    fn fill(&self, fill: &Fill<'_>, control: Control<'_>) -> Told<Measurement>;

    /// Drives its share of a stage, from the moment that `start` sets.
    fn stage(&self, stage: &StageAsk<'_>, start: &Arc<Start>, control: Control<'_>)
    -> Told<Driven>;

    /// Counts its keys with acknowledged writes.
    fn acknowledged(&self) -> Result<LedgerSize, GeneratorError>;

    /// Reads back its acknowledged keys: the most recent ones, and a seeded sample if they are more than `keys_max`.
    fn read_back(
        &self,
        ask: &ReadBackAsk<'_>,
        stop: &AtomicBool,
    ) -> Result<ReadBack, GeneratorError>;
}

/// An answer that is read when it is wanted: one that came over a pipe takes a tenth of the memory until then.
pub(crate) type Unread<T> = Box<dyn FnOnce() -> Result<T, GeneratorError> + Send>;

/// The answer of a generator that has driven something.
pub(crate) type Told<T> = Result<Unread<T>, GeneratorError>;

/// Where clients connect to.
#[derive(Clone, Copy)]
pub struct Loaded<'a> {
    /// The system that is loaded.
    pub system: &'static dyn System,
    /// Access to each of its nodes.
    pub nodes: &'a [Access],
    /// Whether connections resume TLS sessions.
    pub resumed: bool,
    /// Threads of each generator.
    pub threads: u32,
}

/// Keys that are written before a load.
pub struct Fill<'a> {
    /// Where clients connect to.
    pub to: Loaded<'a>,
    /// Clients of all generators together.
    pub clients: u32,
    /// Timeout of each write.
    pub timeout: Duration,
}

/// A stage of a load.
pub struct StageAsk<'a> {
    /// Where writes go, and reads too unless `reads_to` says otherwise.
    pub to: Loaded<'a>,
    /// Nodes that reads go to; `None` for those of `to`.
    pub reads_to: Option<&'a [Access]>,
    /// Requests that are sent in place of what the workload says; they name their servers themselves.
    pub requests: Option<&'a Requests>,
    /// The operations of the clients.
    pub workload: &'a Workload,
    /// How hard, over all its stages.
    pub load: &'a Load,
    /// The stage to drive.
    pub stage: plan::Stage,
    /// Spacing of the due moments of an open load.
    pub arrivals: Arrivals,
    /// The number of its first operation.
    pub first_ticket: u64,
    /// Seed of the keys and values.
    pub seed: u64,
    /// How reads are judged.
    pub reading: Reading,
    /// The listener for the beginning and end of measuring, on the generator's machine.
    pub moments: Option<MomentSender>,
}

/// Keys that are read back.
pub struct ReadBackAsk<'a> {
    /// Where clients connect to.
    pub to: Loaded<'a>,
    /// Most keys that are read.
    pub keys_max: u64,
    /// Seed of the sample if there are more keys.
    pub seed: u64,
}

/// A stage as one generator drove it.
pub(crate) struct Driven {
    pub(crate) measurement: Measurement,
    /// The number of the first operation not begun.
    pub(crate) next_ticket: u64,
    pub(crate) part: GeneratorPart,
}

/// Tells a generator to stop, and hears of each second of its load.
pub(crate) struct Control<'a> {
    pub(crate) stop: &'a AtomicBool,
    pub(crate) live: &'a mut dyn FnMut(&Live),
}

/// The moment at which all generators of a load begin.
pub(crate) struct Start {
    together: Together,
    /// How far ahead the moment is set, in nanoseconds: as the slowest generator needs it.
    lead: Arc<AtomicU64>,
}

impl Start {
    /// Waits for so many generators, and tells `begun` of the moment once it is set.
    pub(crate) fn new(generators: usize, begun: Sender<Instant>) -> Self {
        let lead = Arc::new(AtomicU64::new(0));
        let longest = Arc::clone(&lead);
        let gate = Box::new(move || {
            let at = clock::now() + Duration::from_nanos(longest.load(Ordering::Relaxed));
            begun.send(at).ok();
            Some(at)
        });
        Self { together: Together::gated(generators, gate), lead }
    }

    /// Waits until all generators are ready, this one among them, and returns the moment, which is at least `lead`
    /// away. `None` if one of them will never be ready.
    pub(crate) fn ready(&self, lead: Duration) -> Option<Instant> {
        self.lead.fetch_max(lead.as_nanos() as u64, Ordering::Relaxed);
        self.together.start()
    }

    /// Releases the others: one generator will never be ready.
    pub(crate) fn fail(&self) {
        self.together.fail();
    }
}
