//! Reasons why a change is not judged, as a comparison prints them.
//!
//! Not here: when each applies (`compare`, `gate`, `runs`).

use std::fmt;

use bakeoff_core::memory::MemoryOf;
use bakeoff_core::stats::IncomparableReason;
use bakeoff_core::stats::judge::RUNS_MIN;
use bakeoff_core::study::BUILDS;
use bakeoff_core::units::{plural, share_text};

const INTERLEAVED: &str = "`bakeoff gate` runs both builds in turn, on one machine";

/// The trials behind a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Trials of the base run.
    BaseRun,
    /// Trials of the new run.
    NewRun,
    /// Trials of another run of the base's study.
    EarlierRun,
    /// Trials of a gate's old build.
    BaseBuild,
    /// Trials of a gate's new build.
    NewBuild,
}

impl fmt::Display for Side {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::BaseRun => "the base run",
            Self::NewRun => "the new run",
            Self::EarlierRun => "the earlier run",
            Self::BaseBuild => BUILDS[0],
            Self::NewBuild => BUILDS[1],
        })
    }
}

/// Reason why a change is not judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NotJudged {
    /// The runs had different numbers of clients in the stage; the base had this one.
    OtherClients(u32),
    /// Most operations failed: this share of all, 0 to 1.
    MostlyFailed { side: Side, share: f64 },
    /// Some trials have proportional memory, others resident memory.
    OtherMemory([MemoryOf; 2]),
    /// A trial's figure is not a number.
    Incomparable { side: Side, why: IncomparableReason },
    /// A trial's figure is 0, so there is no ratio.
    Zero(Side),
    /// A trial lacks the figure.
    NoFigure(Side),
    /// Too few valid trials.
    TooFewTrials { base: usize, new: usize },
    /// Too few rounds with valid trials of both.
    TooFewRounds(usize),
    /// The figure mixes writes and reads, which ran at different speeds.
    MixesHalves,
    /// No change can be proven.
    Unproven(UnprovenReason),
    /// Too few of the known runs have the figure.
    InFewRuns(usize),
}

impl fmt::Display for NotJudged {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OtherClients(base) => {
                write!(to, "the base run had {} there", plural(base.into(), "client"))
            }
            Self::MostlyFailed { side, share } => {
                write!(to, "{} of {side}'s operations failed", share_text(share))
            }
            Self::OtherMemory([one, other]) => {
                write!(to, "some trials have {}, others {}", one.name(), other.name())
            }
            Self::Incomparable { side, why } => write!(to, "{side} {why}"),
            Self::Zero(side) => write!(to, "a trial of {side} has 0"),
            Self::NoFigure(side) => write!(to, "a trial of {side} lacks it"),
            Self::TooFewTrials { base, new } => {
                write!(to, "too few valid trials: {base} and {new}")
            }
            Self::TooFewRounds(rounds) => {
                write!(to, "too few rounds with valid trials of both: {rounds}")
            }
            Self::MixesHalves => to.write_str(
                "it mixes writes and reads, which ran at different speeds; use `writes throughput`, \
                 `reads throughput`, `writes p99` or `reads p99`",
            ),
            Self::Unproven(why) => why.fmt(to),
            Self::InFewRuns(runs) => {
                let why = UnprovenReason::TooFewRuns(runs);
                write!(to, "only {runs} of the runs have it; {why}")
            }
        }
    }
}

/// Reason why no change between two runs can be proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnprovenReason {
    /// Difference between their machines.
    OtherMachine(&'static str),
    /// Number of known runs of the base's study, less than [`RUNS_MIN`].
    TooFewRuns(usize),
}

impl fmt::Display for UnprovenReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OtherMachine(what) => write!(
                to,
                "{what} differs between the two runs, and no number of runs can show the effect; \
                 {INTERLEAVED}"
            ),
            Self::TooFewRuns(runs) => {
                let more = match RUNS_MIN - runs {
                    1 => "once more".to_owned(),
                    more => format!("{more} times more"),
                };
                let are = if runs == 1 { "1 is".to_owned() } else { format!("{runs} are") };
                write!(
                    to,
                    "the spread between runs needs {RUNS_MIN} runs of the base's study on one \
                     machine, but {are} known; {INTERLEAVED}, or run the base's study {more}"
                )
            }
        }
    }
}
