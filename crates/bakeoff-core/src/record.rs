//! Record of a run: JSON Lines, versioned, one line a trial.
//!
//! The first line tells what was asked, of whom, where and in which order; then comes a line for
//! each trial, written and synced as it ends; the last line says that the run ended by itself. All
//! that a report shows comes from here, so that it can be rendered again years later. A record whose
//! end is missing or torn is read as far as it goes, and what is wrong with it is told with its
//! line.
//!
//! Not here: files (the binary), tables (`report`). Every field: `docs/record-format.md` and `docs/record-trials.md`.

mod bounds;
pub mod chain;
pub mod durability;
mod header;
mod system;
mod trial;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Trial;
use crate::verdict::CheckName;

pub use durability::{Durability, NodeSyncs};
pub use header::{
    BaselineAppends, BaselineRoundTrips, Environment, Gate, Hardware, MachineBaseline, NetworkPath,
    PodLimits, RunHeader, RunMachine, RunPod,
};
pub use system::{
    Acknowledged, Encryption, Freshness, Guarantees, PartRecord, Setting, SystemRecord,
};
pub use trial::{GeneratorPart, MachineTrial, StageRecord, TrialOutcome, TrialRecord, Usage};

pub use crate::verdict::Check;

/// The version of the format that this program writes. It reads this one and older ones.
pub const FORMAT: u32 = 3;

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
#[allow(clippy::large_enum_variant, reason = "there are few lines, and they are boxed nowhere")]
pub enum RecordLine {
    /// The first.
    Run(RunHeader),
    /// One for each trial.
    Trial(TrialRecord),
    /// The run went on here, after a crash or an interruption.
    Resumed(RunResumed),
    /// Trials were added to the order here: those before scattered too much, or the machine spoilt rounds.
    Extended(RunExtended),
    /// The last, of a run that was not killed.
    End(RunEnd),
}

impl RecordLine {
    /// Reads a line, with or without its newline.
    ///
    /// # Errors
    /// What is no line of a record, or holds a number that no run records.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Self::read(text, &mut 0)
    }

    /// Reads a line of a record, whose numbers so far add up to `sum`.
    ///
    /// Looks at the tag first and reads the rest as that kind: a derived reader of tagged variants holds
    /// each line a second time, and its code was a tenth of the program's.
    fn read(text: &str, sum: &mut u64) -> Result<Self, serde_json::Error> {
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
        bounds::check(text, sum).map_err(serde::de::Error::custom)?;
        let Tag { line } = serde_json::from_str(text)?;
        Ok(match line {
            Kind::Run => Self::Run(serde_json::from_str(text)?),
            Kind::Trial => Self::Trial(serde_json::from_str(text)?),
            Kind::Resumed => Self::Resumed(serde_json::from_str(text)?),
            Kind::Extended => Self::Extended(serde_json::from_str(text)?),
            Kind::End => Self::End(serde_json::from_str(text)?),
        })
    }
}

/// Continuation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// When, in UTC.
    pub resumed: String,
    /// Version of the program that went on with it.
    pub bakeoff: String,
}

/// A round of one workload and load that the machine spoilt, and that a further round stands in for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// The workload's name.
    pub workload: String,
    /// The load's name.
    pub load: String,
    /// The spoilt round, from 0.
    pub round: u32,
    /// The check that failed.
    pub check: CheckName,
}

impl Repeated {
    /// Returns its workload and load.
    pub fn place(&self) -> (&str, &str) {
        (&self.workload, &self.load)
    }
}

/// Extension of a run by more trials: of a gate whose figures scatter, or in place of rounds that the machine spoilt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunExtended {
    /// When, in UTC.
    pub extended: String,
    /// Number of trials of each build in all, in place of the study's number; the study's own number if rounds are
    /// repeated.
    pub trials: u32,
    /// Number of trials before; the study's own number if rounds are repeated.
    pub before: u32,
    /// Rounds that the machine spoilt, one for each further round; none in a gate that scatters, and before format 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeated>,
    /// The trials that are added to the order.
    pub order: Vec<Trial>,
}

/// End of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When, in UTC.
    pub ended: String,
    /// Whether all trials of the order were run.
    pub complete: bool,
}

/// A run, read back.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its first line.
    pub header: RunHeader,
    /// The trials that were run, in order.
    pub trials: Vec<TrialRecord>,
    /// When it went on after it had been interrupted or killed.
    pub resumed: Vec<RunResumed>,
    /// When it was given more trials.
    pub extended: Vec<RunExtended>,
    /// Its end; `None` when it was killed.
    pub end: Option<RunEnd>,
}

impl Record {
    /// Adds a trial; one that was run again takes the place of what was broken off.
    fn take(&mut self, trial: TrialRecord) {
        self.trials.retain(|before| before.trial.number != trial.trial.number);
        self.trials.push(trial);
    }

    /// Adds trials to the order.
    fn extend(&mut self, by: RunExtended) {
        self.header.study.trials = by.trials;
        self.header.order.extend(by.order.iter().cloned());
        self.extended.push(by);
        self.end = None;
    }

    /// The trials of the order that were not run to their end, in order.
    pub fn missing(&self) -> Vec<Trial> {
        let is_there = |one: &&TrialRecord| !one.outcome.is_broken_off();
        let done: Vec<u32> =
            self.trials.iter().filter(is_there).map(|one| one.trial.number).collect();
        self.header.order.iter().filter(|trial| !done.contains(&trial.number)).cloned().collect()
    }

    /// Returns whether every trial of the order is here and was run to its end.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }
}

/// Something wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The line, from 1.
    pub line: usize,
    /// Its fault.
    pub what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: {}", self.line, self.what)
    }
}

/// One line of a record, as text with its newline.
pub fn write_line(line: &RecordLine) -> String {
    let mut text = serde_json::to_string(line).expect("a record holds nothing that JSON cannot");
    text.push('\n');
    text
}

/// Reads a record as far as it can be read. Without a first line that makes sense nothing can.
pub fn read(text: &str) -> Result<(Record, Vec<Complaint>), Complaint> {
    let mut lines = (1..).zip(text.split_inclusive('\n'));
    let (_, first) =
        lines.next().ok_or(Complaint { line: 1, what: "the record is empty".into() })?;
    let mut sum = 0;
    let header = read_header(first, &mut sum)
        .map_err(|error| Complaint { line: 1, what: error.to_string() })?;
    let mut record =
        Record { header, trials: Vec::new(), resumed: Vec::new(), extended: Vec::new(), end: None };
    let mut complaints = Vec::new();
    for (number, line) in lines {
        let complaint = |what: String| Complaint { line: number, what };
        match RecordLine::read(line, &mut sum) {
            Ok(RecordLine::Trial(trial)) => record.take(trial),
            // What ended before, did not.
            Ok(RecordLine::Resumed(resumed)) => {
                record.resumed.push(resumed);
                record.end = None;
            }
            Ok(RecordLine::Extended(extended)) => record.extend(extended),
            Ok(RecordLine::End(end)) => record.end = Some(end),
            Ok(RecordLine::Run(_)) => {
                // Its trials are not this run's.
                complaints.push(complaint("a second run begins here; the rest is ignored".into()));
                break;
            }
            Err(_) if !line.ends_with('\n') => {
                complaints.push(complaint("torn: the run was killed while it was written".into()));
            }
            Err(error) => complaints.push(complaint(format!("not a line of a record: {error}"))),
        }
    }
    Ok((record, complaints))
}

/// A first line that describes no run.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    /// It has no version of the format.
    #[error(fmt = no_record)]
    NoRecord(#[source] serde_json::Error),
    #[error(
        "the record has format {0}, and this program reads formats up to {FORMAT}; use a newer bakeoff"
    )]
    NewerFormat(u32),
    #[error("a record begins with its run, and this line is something else")]
    OtherLine,
    /// It is no line of a record.
    #[error("the run's description cannot be read: {0}")]
    Unreadable(#[source] serde_json::Error),
}

fn no_record(error: &serde_json::Error, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    to.write_str("this is no record of a run: ")?;
    if error.is_syntax() {
        return to.write_str("each line of one is JSON, and this line is not");
    }
    write!(to, "{error}")
}

fn read_header(line: &str, sum: &mut u64) -> Result<RunHeader, HeaderError> {
    #[derive(Deserialize)]
    struct Peek {
        format: u32,
    }
    let peek: Peek = serde_json::from_str(line).map_err(HeaderError::NoRecord)?;
    if peek.format > FORMAT {
        return Err(HeaderError::NewerFormat(peek.format));
    }
    match RecordLine::read(line, sum) {
        Ok(RecordLine::Run(header)) => Ok(header),
        Ok(_) => Err(HeaderError::OtherLine),
        Err(error) => Err(HeaderError::Unreadable(error)),
    }
}
