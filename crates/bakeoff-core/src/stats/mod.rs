//! Summarizes several trials: medians, ranges, and the sentence that compares systems.
//!
//! Each trial yields one figure. Trials are combined by their median and shown with their range. [`judge`] decides if
//! two systems differ. With fewer than [`TRIALS_MIN`] trials there is no comparison.
//!
//! Not here: the choice of figures, and their presentation (`report`).

pub mod change_points;
pub mod clusters;
pub mod gate;
pub mod judge;
pub mod position;
pub mod rounds;
pub mod samples;
mod sentence;
pub mod sequential;
mod student;

pub use sentence::{
    ComparedFigure, Contender, NotCompared, Scene, Tail, TailFound, ThroughputJudgement, sentence,
};

use std::fmt;

use self::judge::TestResult;
use crate::ranked_latencies::too_few_text;
use crate::units::{figure_text, share_text};

/// Minimum number of valid trials of a system for a finding. With fewer, a figure is only an observation.
pub const TRIALS_MIN: usize = 3;

/// Holds one figure of one trial, or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Nothing was recorded.
    Absent,
    /// Number in the unit of its quantity.
    Value(f64),
    /// Latency above the maximum of one hour, by an unknown amount.
    Beyond,
    /// Lower bound: failures, which have no latency, are part of it.
    AtLeast(f64),
    /// No figure: it falls among failed operations.
    Failed {
        /// Share of all operations that failed, 0 to 1.
        share: f64,
        /// Median time to failure, in the quantity's unit; `None` if unknown.
        after: Option<f64>,
    },
    /// No figure: it needs more operations.
    TooFew {
        /// Number of operations.
        had: u64,
        /// Required number of operations.
        needed: u64,
    },
}

/// Explains why a figure cannot be compared. Printed as a clause after a system's name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IncomparableReason {
    /// It exceeds an hour by an unknown amount.
    Beyond,
    /// It is only a lower bound, because failures are part of it.
    AtLeast,
    /// It falls among failed operations.
    Failed {
        /// Share of all operations that failed, 0 to 1.
        share: f64,
    },
    /// It needs more operations.
    TooFew {
        /// Number of operations.
        had: u64,
        /// Required number of operations.
        needed: u64,
    },
}

impl fmt::Display for IncomparableReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Beyond => to.write_str("had a trial beyond an hour"),
            Self::AtLeast => to.write_str("had failures, which are part of it"),
            Self::Failed { share } => {
                write!(to, "had failures, which reach it ({} failed)", share_text(share))
            }
            Self::TooFew { had, needed } => {
                write!(to, "had a trial with {}", too_few_text(had, needed))
            }
        }
    }
}

impl Figure {
    /// Returns the number, if there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Returns why it cannot be compared; `None` if it can, or if there is no figure.
    pub fn incomparable(self) -> Option<IncomparableReason> {
        match self {
            Self::Absent | Self::Value(_) => None,
            Self::Beyond => Some(IncomparableReason::Beyond),
            Self::AtLeast(_) => Some(IncomparableReason::AtLeast),
            Self::Failed { share, .. } => Some(IncomparableReason::Failed { share }),
            Self::TooFew { had, needed } => Some(IncomparableReason::TooFew { had, needed }),
        }
    }

    /// Ranks figures: first numbers, then values beyond an hour, then failures.
    fn rank(self) -> (u8, f64) {
        match self {
            Self::Value(value) | Self::AtLeast(value) => (0, value),
            Self::Failed { share, .. } => (2, share),
            Self::Beyond | Self::Absent | Self::TooFew { .. } => (1, 0.0),
        }
    }
}

impl From<Option<f64>> for Figure {
    fn from(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Absent, Self::Value)
    }
}

/// Summarizes one quantity over the trials of one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Median; for an even number of trials the mean of the two middle ones.
    pub median: Figure,
    /// Minimum.
    pub min: Figure,
    /// Maximum.
    pub max: Figure,
    /// Number of trials with a figure.
    pub trials: usize,
}

/// Combines one quantity's figures of several trials.
///
/// Trials without a figure are skipped. `Beyond` ranks above every number, and `Failed` above that. For an even
/// number of trials whose upper middle one is either of these, it becomes the median, because the mean is unknown. A
/// median above an `AtLeast` is itself only a lower bound. If any trial had too few operations, the result is
/// `TooFew`, because in a closed load slow trials have few.
pub fn summary(figures: impl IntoIterator<Item = Figure>) -> Summary {
    let mut known: Vec<Figure> =
        figures.into_iter().filter(|figure| *figure != Figure::Absent).collect();
    let few = known.iter().filter_map(|figure| match *figure {
        Figure::TooFew { had, needed } => Some((had, needed)),
        _ => None,
    });
    let trials = known.len();
    let all = |figure| Summary { median: figure, min: figure, max: figure, trials };
    if let Some((had, needed)) = few.min() {
        return all(Figure::TooFew { had, needed });
    }
    known.sort_by(|a, b| {
        let (a, b) = (a.rank(), b.rank());
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    match known.as_slice() {
        [] => all(Figure::Absent),
        [first, .., last] | [first @ last] => {
            Summary { median: middle_of(&known), min: *first, max: *last, trials }
        }
    }
}

/// Returns the median of at least one sorted figure.
fn middle_of(sorted: &[Figure]) -> Figure {
    let upper = sorted.len() / 2;
    let lower = if sorted.len() % 2 == 1 { upper } else { upper - 1 };
    let middle = match (sorted[lower].rank(), sorted[upper].rank()) {
        ((0, lower), (0, upper)) if lower == upper => lower,
        ((0, lower), (0, upper)) => f64::midpoint(lower, upper),
        _ => return sorted[upper],
    };
    let any_least = sorted[..=upper].iter().any(|figure| matches!(figure, Figure::AtLeast(_)));
    if any_least { Figure::AtLeast(middle) } else { Figure::Value(middle) }
}

/// Returns the median of at least one sorted number.
pub fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// Formats a ratio. Uses more digits near 1, so a difference never shows as `1.00 times`.
pub fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "infinitely many".to_owned(),
        ratio if (ratio - 1.0).abs() < 0.01 => format!("{ratio:.4}"),
        ratio if (ratio - 1.0).abs() < 0.1 => format!("{ratio:.3}"),
        ratio => figure_text(ratio),
    }
}

/// Formats a proven ratio: `1.74 times`. `early`: the run stopped at this result. Runs stop at large ratios, so only the
/// interval's end is promised: `at least 1.40 times`, or `at most 0.71 times` for a ratio below 1.
pub fn times_text(answer: &TestResult, early: bool) -> String {
    let (low, high) = answer.interval;
    match early {
        false => format!("{} times", ratio_text(answer.ratio)),
        true if high < 1.0 => format!("at most {} times", ratio_text(high)),
        true => format!("at least {} times", ratio_text(low)),
    }
}

/// Formats an interval: `1.61 to 1.88`.
pub fn interval_text((low, high): (f64, f64)) -> String {
    format!("{} to {}", ratio_text(low), ratio_text(high))
}

/// Returns `a difference of more than 6.0 % would have been detected`.
pub fn min_detectable_text(ratio: f64) -> String {
    match ratio {
        ratio if ratio <= 2.0 => {
            format!(
                "a difference of more than {} would have been detected{AS_EVEN}",
                least_text(ratio)
            )
        }
        ratio if ratio <= FEW_FROM => {
            format!("only more than {} would have been detected{AS_EVEN}", least_text(ratio))
        }
        _ => "too few trials: not even a tenfold difference would have been detected".to_owned(),
    }
}

/// Condition of a minimum detectable effect: trials that happened to have no slow ones do not reveal slow trials.
const AS_EVEN: &str = " if all trials scatter as these do";

/// Ratio above which a minimum detectable effect only means that there are too few trials.
pub const FEW_FROM: f64 = 10.0;
/// Text of a minimum detectable effect above [`FEW_FROM`].
pub const TOO_FEW: &str = "too few trials";

/// Formats a minimum detectable effect: `6.0 %`, `3.20 times`.
pub fn least_text(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    // Round up: less was not guaranteed.
    let up = |step: f64| (percent * step - 1e-9).ceil() / step;
    match percent {
        p if p < 10.0 => format!("{:.1} %", up(10.0)),
        p if p <= 100.0 => format!("{:.0} %", up(1.0)),
        _ if ratio <= FEW_FROM => format!("{} times", figure_text(ratio)),
        _ => TOO_FEW.to_owned(),
    }
}

/// Joins words: `a`, `a and b`, `a, b and c`.
pub fn and<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::Figure::{Absent, Beyond, Value};
    use super::*;

    #[test]
    fn trials_are_combined_by_their_median() {
        let check = |figures: &[Figure], median, min, max, trials| {
            let expected = Summary { median, min, max, trials };
            assert_eq!(summary(figures.iter().copied()), expected, "{figures:?}");
        };
        check(&[], Absent, Absent, Absent, 0);
        check(&[Absent], Absent, Absent, Absent, 0);
        check(&[Value(3.0)], Value(3.0), Value(3.0), Value(3.0), 1);
        check(&[Value(9.0), Value(1.0), Value(2.0)], Value(2.0), Value(1.0), Value(9.0), 3);
        check(&[Value(4.0), Absent, Value(1.0)], Value(2.5), Value(1.0), Value(4.0), 2);
        check(&[Value(1.0), Beyond, Value(2.0)], Value(2.0), Value(1.0), Beyond, 3);
        check(&[Value(1.0), Beyond], Beyond, Value(1.0), Beyond, 2);
    }

    #[test]
    fn figures_among_failures_rank_above_every_number() {
        let failed = |share| Figure::Failed { share, after: Some(503.0) };
        let check = |figures: &[Figure], median, max| {
            let found = summary(figures.iter().copied());
            assert_eq!((found.median, found.max), (median, max), "{figures:?}");
        };
        let one = failed(0.02);
        check(&[one, Value(3.0), Value(9.0)], Value(9.0), one);
        check(&[one, Value(3.0), Beyond], Beyond, one);
        check(&[one, failed(0.5), Value(1.0)], one, failed(0.5));
        check(&[one, Value(3.0)], one, one);
        let at_least = Figure::AtLeast;
        check(&[at_least(1.0), Value(3.0), Value(9.0)], at_least(3.0), Value(9.0));
        check(&[at_least(10.0), Value(3.0), Value(9.0)], Value(9.0), at_least(10.0));
        check(&[at_least(4.0), Value(2.0)], at_least(3.0), at_least(4.0));
        let few = |had| Figure::TooFew { had, needed: 1000 };
        check(&[few(980), Value(2.0), few(412)], few(412), few(412));
    }

    #[test]
    fn small_difference_is_not_shown_as_none() {
        assert_eq!(ratio_text(1.002), "1.0020");
        assert_eq!(ratio_text(1.05), "1.050");
        assert_eq!(ratio_text(0.9512), "0.951");
        assert_eq!(ratio_text(1.74), "1.74");
        assert_eq!(ratio_text(0.5), "0.50");
        assert_eq!(ratio_text(f64::INFINITY), "infinitely many");
    }

    #[test]
    fn minimum_detectable_effect_is_rounded_up() {
        let check = |ratio, expected: &str| {
            let text = min_detectable_text(ratio);
            assert!(text.starts_with(expected), "{text}");
        };
        check(1.0601, "a difference of more than 6.1 % ");
        check(1.05, "a difference of more than 5.0 % ");
        check(1.153, "a difference of more than 16 % ");
        check(3.2, "only more than 3.20 times ");
        check(1941.0, "too few trials");
        check(f64::INFINITY, "too few trials");
        assert_eq!(least_text(1941.0), "too few trials");
    }
}
