//! Events of a run: programs are fetched, servers are started, loaded and judged.
//!
//! Whoever does the work tells a [`Reporter`] and knows nothing of who listens: lines on standard error
//! today, a live page later.
//!
//! Not here: how an event reads (`messages`), what is kept of it (`bakeoff_core::record`).

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use bakeoff_core::plan::Trial;
use bakeoff_core::record::{Gate, Repeated, TrialRecord};
use bakeoff_core::search::Tried;
use bakeoff_core::stats::gate::Shortfall;
use bakeoff_core::study::Study;
use bakeoff_engine::Live;
use bakeoff_fleet::machines::baseline::BaselineEvent;

/// Takes events in the order in which they happen.
pub(crate) trait Reporter {
    /// Takes one event, and returns soon: a load may wait for it.
    fn report(&mut self, event: &Event<'_>);
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A program is looked for, fetched or built: a line of the installer's.
    Installing { line: &'a str },
    /// A system is older than all versions of it that bakeoff's sources list.
    Outdated { system: &'a str, version: &'a str, newer: &'a str },
    /// A system that runs already is asked who it is.
    SystemAsked { system: &'a str, endpoints: &'a str },
    /// A system's servers are started, outside of a trial.
    SystemStarting { system: &'a str },
    /// Servers can be reached from further away than they ought to be.
    Exposed { warning: &'a str },
    /// A cluster that runs already lacks a node.
    NodeMissing { why: &'a str },
    /// Servers found a port of theirs taken, and are started again with others.
    PortTaken { why: &'a str },
    /// A limit that was asked for does not hold.
    LimitsMissing { why: &'a str },
    /// The own limits of this machine, or of so many others, are measured.
    BaselineStarted { machines: usize },
    /// They could not be measured; the run goes on.
    BaselineFailed { failure: &'a Failure },
    /// A gate is about to run.
    GateStarted(GateStarted<'a>),
    /// A gate's figures scatter so much that it needs more trials.
    GateExtended(GateExtended<'a>),
    /// Further rounds stand in for rounds that the machine spoilt, and may take `takes`.
    RoundsRepeated { repeats: &'a [Repeated], takes: Duration },
    /// A run begins.
    RunStarted { study: &'a Study, seed: u64, trials: usize, folder: &'a Path },
    /// A run goes on with the trials that it lacks.
    RunResumed(Resumed<'a>),
    /// A run was to go on and lacks nothing.
    NothingMissing { folder: &'a Path },
    /// A record ended within a line, which was cut off.
    RecordTorn { file: &'a Path },
    /// A trial begins.
    TrialStarted(TrialStarted<'a>),
    /// The trial does something else from here on.
    PhaseStarted { name: &'a str },
    /// Keys are written before a load: so many of them by now.
    Filling { written: u64, keys: u64 },
    /// A trial's clients begin to work.
    LoadStarted { clients: u32 },
    /// They have worked for another second.
    Observed { clients: u32, live: &'a Live },
    /// A search tried a rate.
    RateTried { tried: &'a Tried },
    /// A trial could not do what it was for. It ends as any other.
    TrialFailed { text: &'a str },
    /// A contender failed to start as often as it is tried, and `left` trials of it are not begun.
    GivenUp { system: &'a str, left: usize, why: &'a str },
    /// A trial has ended and those after it may take `left`.
    TrialFinished { record: &'a TrialRecord, left: Duration },
    /// A machine that was lost cannot be reached yet, and is waited for.
    MachineAwaited { why: &'a str },
    /// A machine of the run is lost, and with it so many trials that are missing.
    MachineLost { why: &'a str, left: usize },
    /// No further trial follows. `resume` goes on with what is missing.
    RunFinished { complete: bool, resume: &'a str, folder: &'a Path, on: Option<&'a Path> },
}

impl<'a> From<BaselineEvent<'a>> for Event<'a> {
    fn from(event: BaselineEvent<'a>) -> Self {
        match event {
            BaselineEvent::Started { machines } => Self::BaselineStarted { machines },
            BaselineEvent::Failed { failure } => Self::BaselineFailed { failure },
        }
    }
}

/// A gate that begins, and the time that its first trials may take.
#[derive(Debug)]
pub(crate) struct GateStarted<'a> {
    pub(crate) study: &'a Study,
    pub(crate) gate: &'a Gate,
    pub(crate) trials: usize,
    pub(crate) takes: Duration,
}

/// A gate that goes on: the reason, and the time that it takes.
#[derive(Debug)]
pub(crate) struct GateExtended<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) shortfall: &'a Shortfall,
    /// Trials of each build, by now and to come.
    pub(crate) before: u32,
    pub(crate) trials: u32,
    pub(crate) takes: Duration,
}

/// A run that goes on.
#[derive(Debug)]
pub(crate) struct Resumed<'a> {
    pub(crate) title: &'a str,
    pub(crate) missing: usize,
    pub(crate) trials: usize,
    pub(crate) seed: u64,
    pub(crate) folder: &'a Path,
}

/// A trial, and how far its run is.
#[derive(Debug)]
pub(crate) struct TrialStarted<'a> {
    pub(crate) trial: &'a Trial,
    /// The number of trials of the run.
    pub(crate) trials: usize,
    /// True for the first trial of a further round.
    pub(crate) begins_round: bool,
    /// The time that this trial and those after it may take.
    pub(crate) left: Duration,
    /// The findings of earlier trials under this workload and load.
    pub(crate) found: Option<&'a str>,
}
