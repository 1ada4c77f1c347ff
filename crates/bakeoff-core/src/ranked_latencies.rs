//! Ranks the latencies of all operations, with failures above successes.
//!
//! A failed operation never got its answer. Its response time is censored: it would have been at least as long as the
//! client had waited. Percentiles of successes alone flatter a system that fails its slow operations, so a percentile
//! here covers all operations. It is a latency if it falls among the successes; otherwise it says that it falls among
//! the failures.
//!
//! A percentile also needs enough operations: 10 beyond it, so that it does not depend on a few.
//!
//! Not here: recording (`histogram`), the kinds of operations (`measurement`), combining several trials (`stats`).

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{LATENCY_MAX_NS, Latencies};
use crate::units::{count_text, latency_text, share_text};

/// Minimum number of operations beyond a reported percentile.
pub const BEYOND_MIN: f64 = 10.0;

/// Lower bound of latencies beyond the histogram.
const LATENCY_MAX: Duration = Duration::from_nanos(LATENCY_MAX_NS);

/// Describes a position in a distribution of all operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Percentile {
    /// Nothing was recorded.
    Nothing,
    /// The percentile needs more operations.
    TooFew {
        /// Number of operations.
        had: u64,
        /// Required number of operations: [`sample_min`].
        needed: u64,
    },
    /// Latency of a success, or of all operations.
    At(Duration),
    /// A success that took more than an hour.
    Beyond,
    /// Lower bound: failures are part of the mean, or are the slowest.
    AtLeast(Duration),
    /// A failure.
    Failed(FailedPercentile),
}

/// Describes a percentile that falls among the failures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FailedPercentile {
    /// Share of all operations that failed, above 0 and at most 1.
    pub share: f64,
    /// Median time to failure, if known.
    pub after: Option<Duration>,
    /// Lower bound of the percentile: the slowest success, or the wait of the failure at this position.
    pub least: Duration,
}

/// Returns the operations that a quantile (above 0, below 1) needs: `10 / (1 - q)`, and symmetrically below the
/// median. 20 for the median, 1,000 for p99, 10,000 for p99.9.
pub fn sample_min(quantile: f64) -> u64 {
    let rarer = quantile.min(1.0 - quantile);
    // Subtract a rounding error: 1 - 0.999 is slightly less than 0.001.
    (BEYOND_MIN / rarer - 1e-6).ceil() as u64
}

/// High percentiles that may decide, the highest first.
pub const TAILS: [(&str, f64); 4] = [("p99", 0.99), ("p95", 0.95), ("p90", 0.9), ("p50", 0.5)];

/// Returns the highest of [`TAILS`] that this number of operations supports, or the lowest if it supports none.
pub fn tail(operations: u64) -> (&'static str, f64) {
    let supported = TAILS.into_iter().find(|(_, quantile)| operations >= sample_min(*quantile));
    supported.unwrap_or(TAILS[TAILS.len() - 1])
}

/// Holds a distribution of operations.
#[derive(Debug, Clone)]
pub struct RankedLatencies<'a> {
    successes: Cow<'a, Latencies>,
    /// Waits of failures, as far as known.
    waits: Cow<'a, Latencies>,
    /// Number of all failures.
    failures: u64,
}

impl<'a> RankedLatencies<'a> {
    /// Ranks `failures` failures above these successes. `waits` has the waiting times of all or some of them. If
    /// there are more waits than failures, each wait counts as a failure.
    pub fn new(successes: Cow<'a, Latencies>, waits: Cow<'a, Latencies>, failures: u64) -> Self {
        let failures = failures.max(waits.count());
        Self {
            successes: Latencies::unpacked(successes),
            waits: Latencies::unpacked(waits),
            failures,
        }
    }

    /// Returns the ranking in the form that takes little memory, to keep thousands of them.
    pub fn packed(&self) -> RankedLatencies<'static> {
        let packed = |of: &Latencies| Cow::Owned(of.packed());
        let (successes, waits) = (packed(&self.successes), packed(&self.waits));
        RankedLatencies { successes, waits, failures: self.failures }
    }

    /// Ranks values that cannot fail, such as a schedule lag.
    pub fn of_values(values: &'a Latencies) -> Self {
        Self::new(Cow::Borrowed(values), Cow::Owned(Latencies::default()), 0)
    }

    /// Adds several distributions up, or returns the first error.
    pub fn all<E>(
        several: impl IntoIterator<Item = Result<RankedLatencies<'a>, E>>,
    ) -> Result<RankedLatencies<'static>, E> {
        let (mut successes, mut waits) = (Latencies::default(), Latencies::default());
        let mut failures = 0;
        for one in several {
            let one = one?;
            successes.merge(&one.successes);
            waits.merge(&one.waits);
            failures += one.failures;
        }
        Ok(RankedLatencies::new(Cow::Owned(successes), Cow::Owned(waits), failures))
    }

    /// Adds up distributions.
    pub fn sum<'b>(
        several: impl IntoIterator<Item = &'b RankedLatencies<'b>>,
    ) -> RankedLatencies<'static> {
        let known = several.into_iter().cloned().map(Ok::<_, Infallible>);
        let Ok(sum) = RankedLatencies::all(known);
        sum
    }

    /// Returns a copy that owns its histograms.
    pub fn into_owned(self) -> RankedLatencies<'static> {
        RankedLatencies {
            successes: Cow::Owned(self.successes.into_owned()),
            waits: Cow::Owned(self.waits.into_owned()),
            failures: self.failures,
        }
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u64 {
        self.successes.count() + self.failures
    }

    /// Returns the successes alone.
    pub fn successes(&self) -> &Latencies {
        &self.successes
    }

    /// Returns the longest known time of any operation, success or failure.
    pub fn slowest(&self) -> Option<Duration> {
        self.successes.max().max(self.waits.max())
    }

    /// Returns the number of operations that took longer than this, or failed.
    pub fn count_above(&self, latency: Duration) -> u64 {
        self.successes.count_above(latency) + self.failures
    }

    /// Returns the share of operations that failed, 0 to 1; 0 without operations.
    pub fn failed_share(&self) -> f64 {
        self.failures as f64 / self.count().max(1) as f64
    }

    /// Returns the value that a share of `quantile` (above 0, below 1) does not exceed, if there are [`sample_min`]
    /// operations.
    pub fn percentile(&self, quantile: f64) -> Percentile {
        let (had, needed) = (self.count(), sample_min(quantile));
        match had {
            0 => Percentile::Nothing,
            had if had < needed => Percentile::TooFew { had, needed },
            _ => self.at(quantile),
        }
    }

    /// Returns the value that a share of `quantile` (above 0, below 1) does not exceed, for any number of operations:
    /// for checks, not for claims.
    pub fn at(&self, quantile: f64) -> Percentile {
        let count = self.count();
        if count == 0 {
            return Percentile::Nothing;
        }
        if self.failures == 0 {
            return self.successes.quantile(quantile).map_or(Percentile::Beyond, Percentile::At);
        }
        let rank = ((quantile * count as f64 - 1e-6).ceil() as u64).clamp(1, count);
        let successes = self.successes.count();
        if rank <= successes {
            return at_rank(&self.successes, rank).map_or(Percentile::Beyond, Percentile::At);
        }
        // Failures with an unknown wait rank lowest among the failures.
        let known = (rank - successes).saturating_sub(self.failures - self.waits.count());
        let waited = match known {
            0 => Duration::ZERO,
            rank => at_rank(&self.waits, rank).unwrap_or(LATENCY_MAX),
        };
        Percentile::Failed(FailedPercentile {
            share: self.failed_share(),
            after: self.failed_after(),
            least: waited.max(slowest(&self.successes)),
        })
    }

    /// Returns the median time to failure; `None` if it is unknown for most failures.
    pub fn failed_after(&self) -> Option<Duration> {
        let known = self.waits.count() * 2 >= self.failures.max(1);
        self.waits.quantile(0.5).filter(|_| known)
    }

    /// Returns the fastest success.
    pub fn min(&self) -> Percentile {
        let successes = &self.successes;
        match successes.min() {
            _ if self.count() == 0 => Percentile::Nothing,
            // All recorded values are saturated.
            Some(_) if successes.saturated() == successes.count() => Percentile::Beyond,
            Some(least) => Percentile::At(least),
            None => Percentile::AtLeast(self.waits.min().unwrap_or_default()),
        }
    }

    /// Returns the slowest operation.
    pub fn max(&self) -> Percentile {
        match (self.count(), self.failures) {
            (0, _) => Percentile::Nothing,
            (_, 0) => self.successes.max().map_or(Percentile::Beyond, Percentile::At),
            _ => Percentile::AtLeast(slowest(&self.waits).max(slowest(&self.successes))),
        }
    }

    /// Returns the mean. With failures it is a lower bound, for which each failure counts as the slowest success or
    /// longer.
    pub fn mean(&self) -> Percentile {
        if self.count() == 0 {
            return Percentile::Nothing;
        }
        let mean = self.successes.mean();
        if self.failures == 0 {
            return mean.map_or(Percentile::Beyond, Percentile::At);
        }
        if mean.is_none() && !self.successes.is_empty() {
            return Percentile::Beyond;
        }
        let slowest = slowest(&self.successes);
        let known = self.waits.recorded();
        let waits: f64 =
            known.map(|(wait, count)| wait.max(slowest).as_secs_f64() * count as f64).sum();
        let unknown = (self.failures - self.waits.count()) as f64 * slowest.as_secs_f64();
        let served = mean.unwrap_or_default().as_secs_f64() * self.successes.count() as f64;
        let mean = (served + waits + unknown) / self.count() as f64;
        Percentile::AtLeast(Duration::try_from_secs_f64(mean).unwrap_or_default())
    }
}

/// Returns the slowest value, capped at an hour; zero for none.
fn slowest(of: &Latencies) -> Duration {
    if of.is_empty() { Duration::ZERO } else { of.max().unwrap_or(LATENCY_MAX) }
}

/// Returns the value of this rank, from 1; `None` beyond an hour.
fn at_rank(of: &Latencies, rank: u64) -> Option<Duration> {
    of.quantile((rank as f64 - 0.5) / of.count() as f64)
}

impl Percentile {
    /// Returns the latency, if it is known.
    pub fn latency(self) -> Option<Duration> {
        match self {
            Self::At(latency) => Some(latency),
            _ => None,
        }
    }

    /// Returns a lower bound; `None` if nothing or too little is known.
    pub fn least(self) -> Option<Duration> {
        match self {
            Self::Nothing | Self::TooFew { .. } => None,
            Self::At(latency) | Self::AtLeast(latency) => Some(latency),
            Self::Beyond => Some(LATENCY_MAX),
            Self::Failed(failed) => Some(failed.least),
        }
    }

    /// Formats it briefly: `12.3 ms`, `≥ 503 ms`, `49.0 % failed`, `too few`.
    pub fn text(self) -> String {
        match self {
            Self::Nothing => "–".to_owned(),
            Self::TooFew { .. } => "too few".to_owned(),
            Self::At(latency) => latency_text(latency),
            Self::Beyond => "> 1 h".to_owned(),
            Self::AtLeast(least) => format!("≥ {}", latency_text(least)),
            Self::Failed(failed) => format!("{} failed", share_text(failed.share)),
        }
    }

    /// Explains in a clause why there is no latency; `None` if there is one.
    pub fn why_not(self) -> Option<String> {
        match self {
            Self::At(_) => None,
            Self::Nothing => Some("nothing was recorded".to_owned()),
            Self::TooFew { had, needed } => Some(too_few_text(had, needed)),
            Self::Beyond => Some("it is longer than an hour".to_owned()),
            Self::AtLeast(_) => Some("some failed".to_owned()),
            Self::Failed(failed) => Some(failed.text()),
        }
    }
}

impl FailedPercentile {
    /// Formats it as a clause: `49.0 % failed; those after 503 ms`.
    pub fn text(&self) -> String {
        failed_text(self.share, self.after)
    }
}

/// Formats failures: `49.0 % failed; those after 503 ms`.
pub fn failed_text(share: f64, after: Option<Duration>) -> String {
    let after = after.map(|after| format!("; those after {}", latency_text(after)));
    format!("{} failed{}", share_text(share), after.unwrap_or_default())
}

/// Formats missing operations: `too few: 412 of 1,000 operations`.
pub fn too_few_text(had: u64, needed: u64) -> String {
    format!("too few: {} of {} operations", count_text(had), count_text(needed))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holding(milliseconds: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        milliseconds.into_iter().for_each(|ms| latencies.record(Duration::from_millis(ms)));
        latencies
    }

    fn ranked(successes: Latencies, waits: Latencies, failures: u64) -> RankedLatencies<'static> {
        RankedLatencies::new(Cow::Owned(successes), Cow::Owned(waits), failures)
    }

    #[test]
    fn tail_is_the_highest_percentile_that_the_operations_support() {
        let tails = [0, 19, 20, 99, 100, 199, 200, 999, 1000, 1_000_000].map(|n| tail(n).0);
        let expected = ["p50", "p50", "p50", "p50", "p90", "p90", "p95", "p95", "p99", "p99"];
        assert_eq!(tails, expected);
    }

    #[test]
    fn failures_rank_above_every_success() {
        // Figures of the connector of `access-gateway`: 12 ms, or 503 after half a second.
        let gate = ranked(holding((0..510).map(|_| 12)), holding((0..490).map(|_| 503)), 490);
        assert_eq!(gate.percentile(0.5).text(), "12.0 ms");
        let p99 = gate.percentile(0.99);
        assert_eq!(p99.why_not().as_deref(), Some("49.0 % failed; those after 503 ms"));
        assert_eq!((p99.latency(), p99.text()), (None, "49.0 % failed".to_owned()));
        assert_eq!(gate.max().text(), "≥ 503 ms");
        assert_eq!(gate.mean().text(), "≥ 253 ms");
        // Quick failures are not quick answers.
        let quick = ranked(holding((0..510).map(|_| 12)), holding((0..490).map(|_| 1)), 490);
        let Percentile::Failed(failed) = quick.percentile(0.99) else { panic!() };
        assert_eq!(latency_text(failed.least), "12.0 ms");
        assert_eq!(quick.mean().text(), "≥ 12.0 ms");
    }

    #[test]
    fn percentile_below_the_failures_covers_all_operations() {
        let some = ranked(holding(1..=990), holding([9; 10]), 10);
        assert_eq!(some.percentile(0.99).text(), "990 ms");
        assert_eq!(some.percentile(0.5).text(), "500 ms");
        assert!(matches!(some.percentile(0.991), Percentile::TooFew { .. }));
        assert!(matches!(some.at(0.991), Percentile::Failed(_)));
    }

    #[test]
    fn failures_whose_wait_is_unknown_count_and_rank_lowest() {
        let some = ranked(holding([2; 50]), holding([70; 10]), 50);
        let least = |quantile| some.at(quantile).least().map(latency_text);
        assert_eq!(least(0.89).as_deref(), Some("2.00 ms"));
        assert_eq!(least(0.91).as_deref(), Some("70.1 ms"));
        assert_eq!(some.at(0.91).why_not().as_deref(), Some("50.0 % failed"));
    }

    #[test]
    fn percentile_needs_ten_operations_beyond_it() {
        let needs = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.1].map(sample_min);
        assert_eq!(needs, [20, 40, 100, 200, 1000, 10_000, 100_000, 100]);
        let few = ranked(holding(1..=412), Latencies::default(), 0);
        assert_eq!(few.percentile(0.5).text(), "206 ms");
        let p99 = few.percentile(0.99);
        assert_eq!(p99.why_not().as_deref(), Some("too few: 412 of 1,000 operations"));
        assert_eq!(p99.least(), None);
    }

    #[test]
    fn only_failures_give_a_lower_bound_and_nothing_gives_none() {
        let nothing = ranked(Latencies::default(), Latencies::default(), 0);
        assert_eq!(
            (nothing.percentile(0.5), nothing.max()),
            (Percentile::Nothing, Percentile::Nothing)
        );
        let failures = ranked(Latencies::default(), holding([1000; 40]), 40);
        assert_eq!(failures.percentile(0.5).text(), "100 % failed");
        assert_eq!(failures.min().text(), "≥ 1.00 s");
    }

    proptest! {
        #[test]
        fn failing_an_operation_never_lowers_a_percentile(
            times in prop::collection::vec(1u64..5000, 20..60),
            failing in prop::collection::vec(any::<bool>(), 60),
            quantile in 0.01f64..0.99,
        ) {
            let all = ranked(holding(times.iter().copied()), Latencies::default(), 0);
            let some = |failed: bool| {
                let kept = times.iter().zip(&failing).filter(move |(_, fails)| **fails == failed);
                holding(kept.map(|(time, _)| *time))
            };
            let failures = some(true).count();
            let with = ranked(some(false), some(true), failures);
            prop_assert_eq!(with.count(), all.count());
            prop_assert!(with.at(quantile).least() >= all.at(quantile).least());
        }
    }
}
