//! How long failures lasted, where they all lasted alike: then something was waited for.
//!
//! A failure that takes as long as a timeout is one. Which one it was the times do not say, but a
//! round number just below the quickest of them is a good guess, and is named as what it is.
//!
//! Not here: failures by kind and by what they said (`measurement`), operations that the generator itself
//! gave up (its timeouts last as long as its own, and are not among these).

use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::units::{count_text, duration_text, latency_text, share_text};

/// From fewer failures follows nothing.
const FAILURES_MIN: u64 = 20;
/// The shortest failure that counts as one that was waited for.
const WAITED_MIN: Duration = Duration::from_millis(10);
/// So far below the median a failure may be to have lasted as long, as a part of it,
const ALIKE_BELOW: f64 = 0.05;
/// so far above it, since a timeout is noticed late and never early,
const ALIKE_ABOVE: f64 = 0.1;
/// and this share of all have to be.
const ALIKE_MIN: f64 = 0.8;
/// The digits that timeouts commonly have.
const ROUND: [f64; 11] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5, 8.0, 9.0];
/// So much later than a timeout it may be noticed, as a part of it; a clock may be half as much early.
const LATE: f64 = 0.02;

/// Failures that lasted alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lasted {
    /// All failures that were looked at.
    pub(crate) failures: u64,
    /// How many of them lasted alike,
    pub(crate) alike: u64,
    /// from so long
    pub(crate) from: Duration,
    /// to so long.
    pub(crate) to: Duration,
    /// A timeout that would explain it.
    pub(crate) timeout: Option<Duration>,
}

impl Lasted {
    /// `all 1,868 failures lasted 500 ms to 508 ms, as long as a timeout of 500ms somewhere behind …`.
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
            Some(timeout) => format!(
                "as long as a timeout of {} somewhere behind the server would make them",
                duration_text(timeout)
            ),
            None => "as if each had waited for the same thing behind the server".to_owned(),
        };
        format!("{whose} lasted {span}, {why}")
    }
}

/// Returns whether failures with these times lasted alike.
pub(crate) fn lasted(failed: &Latencies) -> Option<Lasted> {
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
    // What most of the quick ones reached: a single one may have failed for another reason.
    let mut left = alike / 20;
    let quick = near.iter().find(|(_, count)| {
        let is_it = left < *count;
        left = left.saturating_sub(*count);
        is_it
    });
    let timeout = timeout(quick.map_or(from, |(time, _)| *time));
    Some(Lasted { failures, alike, from, to, timeout })
}

/// The round time that this one is just above.
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

    fn lasted_of(times: &[(f64, u64)]) -> Option<Lasted> {
        let mut failed = Latencies::default();
        for &(milliseconds, count) in times {
            failed.record_many(Duration::from_secs_f64(milliseconds / 1e3), count);
        }
        lasted(&failed)
    }

    fn check(times: &[(f64, u64)], expected: Option<&str>) {
        assert_eq!(lasted_of(times).map(|lasted| lasted.text()).as_deref(), expected, "{times:?}");
    }

    #[test]
    fn failures_as_long_as_a_timeout_are_said_to_be() {
        let behind = "somewhere behind the server would make them";
        let all = format!(
            "all 1,868 failures lasted 500 ms to 508 ms, as long as a timeout of 500ms {behind}"
        );
        check(&[(500.2, 868), (503.0, 900), (507.6, 100)], Some(&all));
        let most = format!(
            "96.0 % of 100 failures lasted 10.0 s to 10.1 s, as long as a timeout of 10s {behind}"
        );
        check(&[(0.4, 4), (10_005.0, 90), (10_100.0, 6)], Some(&most));
        check(
            &[(437.0, 50), (440.0, 50)],
            Some(
                "all 100 failures lasted 437 ms to 440 ms, as if each had waited for the same thing \
                 behind the server",
            ),
        );
    }

    #[test]
    fn failures_that_differ_come_at_once_or_are_few_are_not() {
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
