//! Defines the record of a run: JSON Lines, versioned, one line per trial.
//!
//! The first line holds the study, the systems, the machine and the order of trials. Then each trial adds a line,
//! synced when it ends. The last line marks a run that ended by itself. Reports use only the record, so they can be
//! rendered again years later. A record with a missing or incomplete end is read as far as possible, and faults are
//! reported with their line.
//!
//! Not here: files (the binary), tables (`report`). Every field: `docs/record/`.

mod bounds;
pub mod chain;
#[cfg(feature = "schema")]
pub mod chained_line;
pub mod durability;
mod header;
mod injection;
pub mod machines;
mod origin;
mod source;
mod system;
mod trial;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Trial;
use crate::stats::judge::FALSE_ALARMS;
use crate::stats::sequential;
use crate::verdict::CheckName;

use bounds::{OutOfBounds, Sums};

pub use durability::{Durability, NodeSyncs};
pub use header::{
    BaselineAppends, BaselineRoundTrips, Environment, Gate, Hardware, MachineBaseline, NetworkPath,
    PodLimits, RoundCount, RunHeader, RunMachine, RunPod,
};
pub use injection::{FaultHit, HitCost, Injection};
pub use origin::OriginKey;
pub use system::{
    AckLocation, Encryption, Freshness, Guarantees, PartRecord, Setting, SystemRecord,
    UpgradeRecord,
};
pub use trial::{
    GeneratorPart, MachineClock, MachineTrial, StageRecord, TrialOutcome, TrialRecord, Usage,
};

pub use crate::verdict::Check;

/// Format version that this program writes. It reads this one and older ones.
pub const FORMAT: u32 = 1;

/// Holds one line of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "line")]
#[allow(clippy::large_enum_variant, reason = "there are few lines, and they are boxed nowhere")]
pub enum RecordLine {
    /// First line.
    Run(RunHeader),
    /// One line per trial.
    Trial(TrialRecord),
    /// The run continued here after a crash or an interruption.
    Resumed(RunResumed),
    /// Trials were added here: the earlier ones scattered too much, or the machine disturbed rounds.
    Extended(RunExtended),
    /// Last line of a run that was not killed.
    End(RunEnd),
}

impl RecordLine {
    /// Parses a line, with or without its newline.
    ///
    /// # Errors
    /// Fails for a text that is not a line of a record, or holds an impossible number.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Self::read(text.as_bytes(), &mut Sums::default())
    }

    /// Parses a line of a record. `sums` are those of the lines before it.
    ///
    /// Reads the tag first and then the rest as that kind. A derived reader of tagged variants buffers each line, and
    /// its code was a tenth of the program.
    fn read(text: &[u8], sums: &mut Sums) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Kind {
            Run,
            Trial,
            Resumed,
            Extended,
            End,
        }
        #[derive(Deserialize)]
        struct Tag {
            line: Kind,
        }
        sums.add(text).map_err(serde::de::Error::custom)?;
        let Tag { line } = serde_json::from_slice(text)?;
        Ok(match line {
            Kind::Run => Self::Run(serde_json::from_slice(text)?),
            Kind::Trial => Self::Trial(serde_json::from_slice(text)?),
            Kind::Resumed => Self::Resumed(serde_json::from_slice(text)?),
            Kind::Extended => Self::Extended(serde_json::from_slice(text)?),
            Kind::End => Self::End(serde_json::from_slice(text)?),
        })
    }
}

/// Describes the continuation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunResumed {
    /// Time of the continuation, in UTC.
    pub resumed: String,
    /// Version of the program that continued the run.
    pub bakeoff: String,
    /// Machines that it continued on, without their baselines.
    pub environment: Box<Environment>,
}

/// Identifies a round of one workload and load that the machine disturbed, and that an additional round replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepeatedRound {
    /// Name of the workload.
    pub workload: String,
    /// Name of the load.
    pub load: String,
    /// Disturbed round, from 0.
    pub round: u32,
    /// Check that failed.
    pub check: CheckName,
}

impl RepeatedRound {
    /// Returns its workload and load.
    pub fn place(&self) -> (&str, &str) {
        (&self.workload, &self.load)
    }
}

/// Describes an extension of a run by more trials: for a gate whose figures scatter, or for disturbed rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunExtended {
    /// Time of the extension, in UTC.
    pub extended: String,
    /// Total number of trials of each build, replacing the study's number; the study's own number if rounds are
    /// repeated.
    pub trials: u32,
    /// Number of trials before; the study's own number if rounds are repeated.
    pub before: u32,
    /// Rounds that the machine disturbed, one per additional round; empty for a gate that scatters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RepeatedRound>,
    /// Trials that are added to the order.
    pub order: Vec<Trial>,
}

/// Describes the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnd {
    /// Time of the end, in UTC.
    pub ended: String,
    /// True if all trials of the order were run.
    pub complete: bool,
    /// Number of rounds after which an adaptive run stopped, because all leading questions were answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_after: Option<u32>,
}

/// Holds a run that was read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// First line.
    pub header: RunHeader,
    /// Trials that were run, in order.
    pub trials: Vec<TrialRecord>,
    /// Continuations after an interruption or a crash.
    pub resumed: Vec<RunResumed>,
    /// Extensions by more trials.
    pub extended: Vec<RunExtended>,
    /// End of the run; `None` if it was killed.
    pub end: Option<RunEnd>,
}

impl Record {
    /// Adds a trial. A repeated trial replaces the interrupted one.
    fn take(&mut self, trial: TrialRecord) {
        self.trials.retain(|before| before.trial.number != trial.trial.number);
        self.trials.push(trial);
    }

    /// Adds trials to the order, unless there are too many.
    fn extend(&mut self, by: RunExtended) -> Result<(), OutOfBounds> {
        let ordered = self.header.order.len() + by.order.len();
        let before = std::mem::replace(&mut self.header.study.trials, by.trials);
        if let Err(error) = bounds::check_plan(&self.header, ordered) {
            self.header.study.trials = before;
            return Err(error);
        }
        self.header.order.extend(by.order.iter().cloned());
        self.extended.push(by);
        self.end = None;
        Ok(())
    }

    /// Ends the run. Trials behind the last round of a run that stopped early are no longer part of it.
    pub fn finish(&mut self, end: RunEnd) {
        if let Some(rounds) = end.answered_after {
            self.header.order.retain(|trial| trial.round < rounds);
        }
        self.end = Some(end);
    }

    /// Returns the number of rounds after which the run stopped early.
    pub fn answered_after(&self) -> Option<u32> {
        self.end.as_ref()?.answered_after
    }

    /// Returns the probability of any false claim at which each family of questions of this run is judged.
    pub fn false_alarms(&self) -> f64 {
        match self.header.rounds {
            RoundCount::Fixed => FALSE_ALARMS,
            RoundCount::Adaptive => {
                sequential::level(self.answered_after(), self.header.study.trials)
            }
        }
    }

    /// Returns the trials of the order that did not run to their end, in order.
    pub fn missing(&self) -> Vec<Trial> {
        let is_there = |one: &&TrialRecord| !one.outcome.is_broken_off();
        let done: Vec<u32> =
            self.trials.iter().filter(is_there).map(|one| one.trial.number).collect();
        self.header.order.iter().filter(|trial| !done.contains(&trial.number)).cloned().collect()
    }

    /// Returns true if every trial of the order ran to its end.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }
}

/// Describes a fault in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the fault.
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: {}", self.line, self.what)
    }
}

/// Formats one line of a record, with its newline.
pub fn write_line(line: &RecordLine) -> String {
    let mut text = serde_json::to_string(line).expect("a record holds nothing that JSON cannot");
    text.push('\n');
    text
}

/// Parses a record as far as possible. Without a valid first line it fails.
pub fn read(text: impl AsRef<[u8]>) -> Result<(Record, Vec<Complaint>), Complaint> {
    let mut lines = (1..).zip(text.as_ref().split_inclusive(|&byte| byte == b'\n'));
    let (_, first) =
        lines.next().ok_or(Complaint { line: 1, what: "the record is empty".into() })?;
    let mut sums = Sums::default();
    let header = read_header(first, &mut sums)
        .map_err(|error| Complaint { line: 1, what: error.to_string() })?;
    let mut record =
        Record { header, trials: Vec::new(), resumed: Vec::new(), extended: Vec::new(), end: None };
    let mut complaints = Vec::new();
    for (number, line) in lines {
        let complaint = |what: String| Complaint { line: number, what };
        match RecordLine::read(line, &mut sums) {
            Ok(RecordLine::Trial(trial)) => record.take(trial),
            // The run that ended here was continued.
            Ok(RecordLine::Resumed(resumed)) => {
                record.resumed.push(resumed);
                record.end = None;
            }
            Ok(RecordLine::Extended(extended)) => match record.extend(extended) {
                Ok(()) => {}
                Err(error) => complaints.push(complaint(error.to_string())),
            },
            Ok(RecordLine::End(end)) => record.finish(end),
            Ok(RecordLine::Run(_)) => {
                // The trials of a second run do not belong to this one.
                complaints.push(complaint("a second run begins here; the rest is ignored".into()));
                break;
            }
            Err(_) if !line.ends_with(b"\n") => {
                complaints.push(complaint("torn: the run was killed while it was written".into()));
            }
            Err(error) => complaints.push(complaint(format!("not a line of a record: {error}"))),
        }
    }
    Ok((record, complaints))
}

/// Explains why a first line does not describe a run.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    /// The version of the format is missing.
    #[error(fmt = no_record)]
    NoRecord(#[source] serde_json::Error),
    #[error(
        "the record has format {0}, and this program reads format {FORMAT}: a newer bakeoff wrote it, or one from before \
         the first release"
    )]
    NewerFormat(u32),
    #[error("a record begins with its run, and this line is something else")]
    OtherLine,
    /// The line is not a line of a record.
    #[error("the run's description cannot be read: {0}")]
    Unreadable(#[source] serde_json::Error),
}

fn no_record(error: &serde_json::Error, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    to.write_str("this is not a record of a run: ")?;
    if error.is_syntax() {
        return to.write_str("each line of one is JSON, and this line is not");
    }
    write!(to, "{error}")
}

fn read_header(line: &[u8], sums: &mut Sums) -> Result<RunHeader, HeaderError> {
    #[derive(Deserialize)]
    struct Peek {
        format: u32,
    }
    let peek: Peek = serde_json::from_slice(line).map_err(HeaderError::NoRecord)?;
    if peek.format > FORMAT {
        return Err(HeaderError::NewerFormat(peek.format));
    }
    match RecordLine::read(line, sums) {
        Ok(RecordLine::Run(header)) => {
            bounds::check_plan(&header, header.order.len())
                .map_err(|error| HeaderError::Unreadable(serde::de::Error::custom(error)))?;
            Ok(header)
        }
        Ok(_) => Err(HeaderError::OtherLine),
        Err(error) => Err(HeaderError::Unreadable(error)),
    }
}
