//! Summaries of several trials: medians, ranges, and the sentence that compares systems.
//!
//! Each trial yields one figure; trials are combined by their median and shown with their range.
//! Whether two systems differ is for [`judge`] to say, and fewer than [`TRIALS_MIN`] trials say
//! nothing of it.
//!
//! Not here: which figures there are, and how they are shown (`report`).

pub mod gate;
pub mod judge;
pub mod position;
pub mod rounds;
pub mod samples;
mod sentence;
mod student;

pub use sentence::{Comparing, Contender, Counted, NotCompared, Scene, Tail, TailFound, sentence};

use std::fmt;

use crate::ranked::too_few_text;
use crate::units::{figure_text, share_text};

/// Fewer valid trials of a system than this are an observation, and no finding.
pub const TRIALS_MIN: usize = 3;

/// One figure of one trial, or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// There is none: nothing was recorded.
    Absent,
    /// A number, in its quantity's unit.
    Value(f64),
    /// A latency beyond the longest that is told apart: more than an hour, by an unknown amount.
    Beyond,
    /// At least this: failures, which have no latency, are part of it.
    AtLeast(f64),
    /// None: it falls among operations that failed.
    Failed {
        /// Which share of all operations failed, 0 to 1.
        share: f64,
        /// After what time half of them had, in the quantity's unit; `None` where that is unknown.
        after: Option<f64>,
    },
    /// None: it needs more operations.
    TooFew {
        /// Number of operations.
        had: u64,
        /// Number that it needs.
        needed: u64,
    },
}

/// Reason why a figure cannot be compared, printed as a clause that goes on from a system's name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Incomparable {
    /// It is more than an hour, by an unknown amount.
    Beyond,
    /// Failures are part of it, so that it is only known to be at least something.
    AtLeast,
    /// It falls among operations that failed.
    Failed {
        /// Share of all operations that failed, 0 to 1.
        share: f64,
    },
    /// It needs more operations.
    TooFew {
        /// Number of operations.
        had: u64,
        /// Number that it needs.
        needed: u64,
    },
}

impl fmt::Display for Incomparable {
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
    /// The number, where there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Returns why it cannot be compared with another; `None` where it can, or where there is none at all.
    pub fn incomparable(self) -> Option<Incomparable> {
        match self {
            Self::Absent | Self::Value(_) => None,
            Self::Beyond => Some(Incomparable::Beyond),
            Self::AtLeast(_) => Some(Incomparable::AtLeast),
            Self::Failed { share, .. } => Some(Incomparable::Failed { share }),
            Self::TooFew { had, needed } => Some(Incomparable::TooFew { had, needed }),
        }
    }

    /// Ranks it among the trials' figures: numbers, then what is beyond an hour, then failures.
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

/// Summary of one quantity over the trials of one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle one; the mean of the two middle ones of an even number.
    pub median: Figure,
    /// The least.
    pub min: Figure,
    /// The most.
    pub max: Figure,
    /// Number of trials with a figure.
    pub trials: usize,
}

/// Combines one quantity's figures of several trials.
///
/// Trials without a figure are left out and not counted. `Beyond` is more than every number, and
/// `Failed` is more than that; an even number of trials whose upper middle one is either has that
/// for its median, since half of what is unknown is unknown. A median above something that is only
/// `AtLeast` known is itself only at least. Where any trial had too few operations nothing is told:
/// in a closed load it is the slow trials that have few.
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

/// The median of figures in order, of which there is at least one.
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

/// The median of sorted numbers, of which there is at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// More digits where the ratio is near 1, so that a difference is never shown as `1.00 times`.
pub fn ratio_text(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() => "infinitely many".to_owned(),
        ratio if (ratio - 1.0).abs() < 0.01 => format!("{ratio:.4}"),
        ratio if (ratio - 1.0).abs() < 0.1 => format!("{ratio:.3}"),
        ratio => figure_text(ratio),
    }
}

/// `1.61 to 1.88`.
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

/// The condition of a minimum detectable effect: trials that did not happen to be slow cannot know of slow ones.
const AS_EVEN: &str = " if all trials scatter as these do";

/// A minimum detectable effect beyond this ratio says that there are too few trials, and nothing of the systems.
const FEW_FROM: f64 = 10.0;

/// Returns the minimum detectable effect: `6.0 %`, `3.20 times`.
pub fn least_text(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    // Rounded up: less was not guaranteed.
    let up = |step: f64| (percent * step - 1e-9).ceil() / step;
    match percent {
        p if p < 10.0 => format!("{:.1} %", up(10.0)),
        p if p <= 100.0 => format!("{:.0} %", up(1.0)),
        _ if ratio <= FEW_FROM => format!("{} times", figure_text(ratio)),
        _ => "too few trials".to_owned(),
    }
}

/// `a`, `a and b`, `a, b and c`.
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
    fn trials_that_failures_reach_are_more_than_every_number() {
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
    fn a_small_difference_is_not_shown_as_none() {
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
