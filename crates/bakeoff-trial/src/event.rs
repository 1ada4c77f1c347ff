//! Events of a run: programs are fetched, servers are started, loaded and judged.
//!
//! The code that works reports to a [`Reporter`] and does not know who listens.
//!
//! Not here: the text of an event (the binary's `messages`), the record (`bakeoff_core::record`).

use std::path::Path;
use std::time::Duration;

use bakeoff_core::plan::Trial;
use bakeoff_core::record::{Gate, RepeatedRound, TrialRecord};
use bakeoff_core::search::TriedRate;
use bakeoff_core::stats::gate::Shortfall;
use bakeoff_core::study::{Fault, Study};
use bakeoff_core::trial_samples::NodeSample;
use bakeoff_engine::LoadProgress;
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::machines::baseline::BaselineEvent;
use bakeoff_install::InstallMessage;

/// Receives events in the order in which they happen.
pub trait Reporter {
    /// Receives one event. Returns soon, because a load may wait for it.
    fn report(&mut self, event: &Event<'_>);
}

/// An event of a run.
#[derive(Debug)]
#[allow(missing_docs, reason = "the variant's doc names its fields")]
pub enum Event<'a> {
    /// Programs that the run has to fetch or compile first: each with its source, and how long it takes if known.
    ProgramsMissing { programs: &'a [String] },
    /// The installer looks for, fetches or builds a program.
    Installing { message: InstallMessage<'a> },
    /// The version of a system is older than each version in bakeoff's sources.
    Outdated { system: &'a str, version: &'a str, newer: &'a str },
    /// bakeoff queries a system that already runs.
    SystemAsked { system: &'a str, endpoints: &'a str },
    /// A system's servers start, outside of a trial.
    SystemStarting { system: &'a str },
    /// Servers of a system outside of a trial ended, or run again.
    ServersChanged { what: &'a str },
    /// A server can be reached from another machine.
    Exposed { warning: &'a str },
    /// Relays cut the network, because the kernel refuses namespaces.
    CutsByRelays { why: &'a str },
    /// A node of a running cluster does not answer.
    NodeMissing { why: &'a str },
    /// A port was taken; the servers start again on other ports.
    PortTaken { why: &'a str },
    /// A limit of the study is not in effect.
    LimitsMissing { why: &'a str },
    /// Measuring the baseline of this machine, or of `machines` others, begins.
    BaselineStarted { machines: usize },
    /// The baseline could not be measured; the run goes on.
    BaselineFailed { failure: &'a FleetError },
    /// A gate begins.
    GateStarted(GateStarted<'a>),
    /// A gate needs more trials, because its figures scatter.
    GateExtended(GateExtended<'a>),
    /// Further rounds replace rounds that the machine disturbed; they take about `takes`.
    RoundsRepeated { repeats: &'a [RepeatedRound], takes: Duration },
    /// A run begins, with `trials` trials.
    RunStarted { study: &'a Study, seed: u64, trials: usize, folder: &'a Path },
    /// A run is resumed.
    RunResumed(ResumedRun<'a>),
    /// A run is resumed on machines that changed, as `--trust` allows.
    MachinesChanged { changes: &'a [String] },
    /// A run that was to be resumed is complete.
    NothingMissing { folder: &'a Path },
    /// An adaptive run stops early, because its figures answer all leading questions.
    Answered { rounds: u32, most: u32 },
    /// The incomplete last line of a record was removed.
    RecordTorn { file: &'a Path },
    /// A trial begins.
    TrialStarted(TrialStarted<'a>),
    /// The next phase of the trial begins.
    PhaseStarted { name: &'a str },
    /// `written` of `keys` keys are in place.
    Filling { written: u64, keys: u64 },
    /// A load begins.
    LoadStarted { clients: u32 },
    /// The load runs once more, with this fault.
    FaultStarted { fault: &'a Fault, repeat: u32 },
    /// Another second of a load has passed. `nodes` has the last samples, if they are taken on this machine.
    Observed { clients: u32, live: &'a LoadProgress, nodes: &'a [NodeSample] },
    /// A search has tried a rate.
    RateTried { tried: &'a TriedRate },
    /// A trial failed. It ends like any other.
    TrialFailed { text: &'a str },
    /// A system failed to start twice; its other `left` trials are skipped.
    GivenUp { system: &'a str, left: usize, why: &'a str },
    /// A trial has ended; the other trials take about `left`.
    TrialFinished { record: &'a TrialRecord, left: Duration },
    /// A lost machine is still out of reach; bakeoff waits for it.
    MachineAwaited { why: &'a str },
    /// A machine is lost, with `left` trials missing.
    MachineLost { why: &'a str, left: usize },
    /// The run has ended. The command `resume` runs what is missing, with the places file `on`.
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

/// The start of a gate.
#[derive(Debug)]
pub struct GateStarted<'a> {
    /// Study of the two builds.
    pub study: &'a Study,
    /// Conditions and error rates.
    pub gate: &'a Gate,
    /// Number of trials planned so far.
    pub trials: usize,
    /// Estimated time of these trials.
    pub takes: Duration,
    /// Longest time of all trials that the gate may add up to. It adds none beyond that.
    pub longest: Duration,
}

/// A gate that needs more trials.
#[derive(Debug)]
pub struct GateExtended<'a> {
    /// Conditions and error rates.
    pub gate: &'a Gate,
    /// Figure whose scatter requires more trials.
    pub shortfall: &'a Shortfall,
    /// Trials of each build before.
    pub before: u32,
    /// Trials of each build from now on.
    pub trials: u32,
    /// Estimated time of the further trials.
    pub takes: Duration,
}

/// A resumed run.
#[derive(Debug)]
pub struct ResumedRun<'a> {
    /// Study of the run.
    pub study: &'a Study,
    /// Number of missing trials.
    pub missing: usize,
    /// Number of trials of the whole run.
    pub trials: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Folder of the run.
    pub folder: &'a Path,
}

/// The start of a trial.
#[derive(Debug)]
pub struct TrialStarted<'a> {
    /// The trial.
    pub trial: &'a Trial,
    /// Number of trials of the run.
    pub trials: usize,
    /// True for the first trial of a further round.
    pub begins_round: bool,
    /// Estimated time of this trial and all after it.
    pub left: Duration,
    /// Rates so far under this workload and load.
    pub found: Option<&'a str>,
}
