//! Reasons why a change is not judged, as a comparison prints them.
//!
//! Not here: when each of them applies (`compare`, `gate`, `runs`).

use std::fmt;

use bakeoff_core::memory::MemoryOf;
use bakeoff_core::stats::Incomparable;
use bakeoff_core::stats::judge::RUNS_MIN;
use bakeoff_core::study::BUILDS;
use bakeoff_core::units::{plural, share_text};

const INTERLEAVED: &str = "`bakeoff gate` runs both builds in turn, on one machine";

/// Trials that a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those of the run that is compared with.
    BaseRun,
    /// Those of the run that is compared.
    NewRun,
    /// Those of a further run of the base's study.
    EarlierRun,
    /// Those of a gate's old build.
    BaseBuild,
    /// Those of a gate's new build.
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
    /// The base run had this number of clients in the stage, and the new run another.
    OtherClients(u32),
    /// Most operations failed: this share of all, 0 to 1.
    MostlyFailed { side: Side, share: f64 },
    /// Some trials have proportional memory, others resident memory.
    OtherMemory([MemoryOf; 2]),
    /// A trial's figure is no number.
    Incomparable { side: Side, why: Incomparable },
    /// A trial's figure is 0, of which there is no ratio.
    Zero(Side),
    /// A trial has no such figure.
    NoFigure(Side),
    /// These numbers of valid trials do not suffice.
    TooFewTrials { base: usize, new: usize },
    /// This number of rounds with valid trials of both does not suffice.
    TooFewRounds(usize),
    /// Writes and reads ran at their own speeds, and this figure mixes them.
    MixesHalves,
    /// Nothing can be proven of any change.
    Unproven(Unproven),
    /// This number of the known runs have the figure, which does not suffice.
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
            Self::NoFigure(side) => write!(to, "a trial of {side} has none"),
            Self::TooFewTrials { base, new } => {
                write!(to, "too few valid trials: {base} and {new}")
            }
            Self::TooFewRounds(rounds) => {
                write!(to, "too few rounds with valid trials of both: {rounds}")
            }
            Self::MixesHalves => to.write_str(
                "writes and reads ran at their own speeds, and it mixes them; `writes throughput`, \
                 `reads throughput`, `writes p99` and `reads p99` are compared",
            ),
            Self::Unproven(why) => why.fmt(to),
            Self::InFewRuns(runs) => {
                let why = Unproven::TooFewRuns(runs);
                write!(to, "it is in no more than {runs} of the runs; {why}")
            }
        }
    }
}

/// Reason why nothing can be proven of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// This differs between their machines.
    OtherMachine(&'static str),
    /// This number of runs of the base's study is known, fewer than [`RUNS_MIN`].
    TooFewRuns(usize),
}

impl fmt::Display for Unproven {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OtherMachine(what) => write!(
                to,
                "{what} differs between the two runs, and no number of runs tells what that does; \
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
                    "how far runs lie apart is known from {RUNS_MIN} runs of the base's study on one \
                     machine, and {are} known; {INTERLEAVED}, or run the base's study {more}"
                )
            }
        }
    }
}
