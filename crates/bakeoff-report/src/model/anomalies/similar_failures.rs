//! Detects failures that all lasted about the same time, which suggests a timeout.
//!
//! The times do not say which timeout it was. A round number just below the shortest failure is a good guess, and the
//! report presents it as one.
//!
//! Not here: failures by kind and text (`measurement`), operations that the generator itself timed out, which are
//! excluded.

use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::units::{count_text, duration_text, latency_text, share_text};

/// Fewest failures to draw a conclusion from.
const FAILURES_MIN: u64 = 20;
/// Shortest failure that counts as a wait.
const WAITED_MIN: Duration = Duration::from_millis(10);
/// Largest relative distance below the median at which failures count as equally long.
const ALIKE_BELOW: f64 = 0.05;
/// Largest relative distance above the median: timeouts are noticed late, never early.
const ALIKE_ABOVE: f64 = 0.1;
/// Smallest share of all failures that must be equally long.
const ALIKE_MIN: f64 = 0.8;
/// Leading digits of common timeouts.
const ROUND: [f64; 11] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0, 9.0];
/// Largest relative delay after a timeout. A clock may be early by half as much.
const LATE: f64 = 0.02;

/// Failures of about the same duration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SimilarFailures {
    /// Failures examined.
    pub(crate) failures: u64,
    /// Failures of about the same duration.
    pub(crate) alike: u64,
    /// Shortest duration among them.
    pub(crate) from: Duration,
    /// Longest duration among them.
    pub(crate) to: Duration,
    /// Timeout that would explain the duration.
    pub(crate) timeout: Option<Duration>,
}

impl SimilarFailures {
    /// Returns `all 1,868 failures lasted 500 ms to 508 ms, which suggests a timeout of 500ms …`.
    pub(crate) fn text(&self) -> String {
        let whose = match self.alike == self.failures {
            true => format!("all {} failures", count_text(self.failures)),
            false => {
                let share = share_text(self.alike as f64 / self.failures as f64);
                format!("{share} of {} failures", count_text(self.failures))
            }
        };
        let (from, to) = (latency_text(self.from), latency_text(self.to));
        let span = if from == to { from } else { format!("{from} to {to}") };
        let why = match self.timeout {
            Some(timeout) => {
                format!("which suggests a timeout of {} behind the server", duration_text(timeout))
            }
            None => "which suggests a wait for the same thing behind the server".to_owned(),
        };
        format!("{whose} lasted {span}, {why}")
    }
}

/// Returns the common duration of failures with these times, if they have one.
pub(crate) fn similar_failures(failed: &Latencies) -> Option<SimilarFailures> {
    let failures = failed.count();
    let median = failed.quantile(0.5)?;
    if failures < FAILURES_MIN || median < WAITED_MIN {
        return None;
    }
    let (least, most) = (median.mul_f64(1.0 - ALIKE_BELOW), median.mul_f64(1.0 + ALIKE_ABOVE));
    let near: Vec<(Duration, u64)> =
        failed.recorded().filter(|(time, _)| (least..=most).contains(time)).collect();
    let alike: u64 = near.iter().map(|(_, count)| count).sum();
    if (alike as f64) < ALIKE_MIN * failures as f64 {
        return None;
    }
    let (from, to) = (near.first()?.0, near.last()?.0);
    // Ignore the shortest 5 %: a single failure may have had another reason.
    let mut left = alike / 20;
    let quick = near.iter().find(|(_, count)| {
        let is_it = left < *count;
        left = left.saturating_sub(*count);
        is_it
    });
    let timeout = timeout(quick.map_or(from, |(time, _)| *time));
    Some(SimilarFailures { failures, alike, from, to, timeout })
}

/// Returns the round number just below a time.
fn timeout(time: Duration) -> Option<Duration> {
    let milliseconds = time.as_secs_f64() * 1e3;
    let power = 10_f64.powf(milliseconds.log10().floor());
    let mut candidates = ROUND.iter().map(|digits| digits * power).chain([10.0 * power]);
    let fits = |round: &f64| {
        milliseconds >= round * (1.0 - LATE / 2.0) && milliseconds <= round * (1.0 + LATE)
    };
    let round = candidates.find(fits)?;
    Duration::try_from_secs_f64(round / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasted_of(times: &[(f64, u64)]) -> Option<SimilarFailures> {
        let mut failed = Latencies::default();
        for &(milliseconds, count) in times {
            failed.record_many(Duration::from_secs_f64(milliseconds / 1e3), count);
        }
        similar_failures(&failed)
    }

    fn check(times: &[(f64, u64)], expected: Option<&str>) {
        assert_eq!(lasted_of(times).map(|lasted| lasted.text()).as_deref(), expected, "{times:?}");
    }

    #[test]
    fn failures_as_long_as_a_timeout_are_detected() {
        let behind = "behind the server";
        let all = format!(
            "all 1,868 failures lasted 500 ms to 508 ms, which suggests a timeout of 500ms {behind}"
        );
        check(&[(500.2, 868), (503.0, 900), (507.6, 100)], Some(&all));
        let most = format!(
            "96.0 % of 100 failures lasted 10.0 s to 10.1 s, which suggests a timeout of 10s {behind}"
        );
        check(&[(0.4, 4), (10_005.0, 90), (10_100.0, 6)], Some(&most));
        check(
            &[(437.0, 50), (440.0, 50)],
            Some(
                "all 100 failures lasted 437 ms to 440 ms, which suggests a wait for the same \
                 thing behind the server",
            ),
        );
    }

    #[test]
    fn different_immediate_or_few_failures_are_ignored() {
        check(&[(500.0, 19)], None);
        check(&[(3.0, 1000)], None);
        check(&[(100.0, 50), (500.0, 50)], None);
        check(&[(500.0, 79), (100.0, 21)], None);
        check(&[], None);
        assert!(lasted_of(&[(500.0, 80), (100.0, 20)]).is_some());
    }

    #[test]
    fn timeouts_are_round_numbers_just_below() {
        let of = |milliseconds: f64| {
            timeout(Duration::from_secs_f64(milliseconds / 1e3))
                .map(|found| found.as_secs_f64() * 1e3)
        };
        assert_eq!(of(500.4), Some(500.0));
        assert_eq!(of(499.0), Some(500.0));
        assert_eq!(of(998.0), Some(1000.0));
        assert_eq!(of(1511.0), Some(1500.0));
        assert_eq!(of(60_020.0), Some(60_000.0));
        assert_eq!((of(440.0), of(520.0), of(490.0)), (None, None, None));
    }
}
