//! Keeps the due times of failures and of slow successes, so that each can be attributed to what happened before it.
//!
//! Only open loads have them. They are not recorded: a trial keeps the counts (`crate::attribution`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ErrorKind;

/// Maximum number of failures of a thread that are kept.
const FAILURES_EACH: usize = 50_000;
/// Maximum number of slow successes of a thread that are kept; the slowest are.
const SLOW_EACH: usize = 5_000;

/// Holds due times, in microseconds since measuring began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DueTimes {
    /// Operations that failed at once ([`ErrorKind::is_failed_at_once`]).
    pub failed: Vec<u64>,
    /// Operations of unknown outcome ([`ErrorKind::has_unknown_outcome`]).
    pub unknown: Vec<u64>,
    /// Successes, each with its response time in microseconds.
    pub slow: Vec<(u64, u64)>,
    /// Response time from which on all successes are kept, in microseconds.
    pub slow_from: u64,
    /// Number of failures that were not kept.
    pub left_out: u64,
}

impl DueTimes {
    /// Adds a failure that was due at `due` since measuring began.
    pub fn add_failure(&mut self, due: Duration, kind: ErrorKind) {
        let times = match kind {
            _ if kind.is_failed_at_once() => &mut self.failed,
            _ if kind.has_unknown_outcome() => &mut self.unknown,
            _ => return,
        };
        match times.len() < FAILURES_EACH {
            true => times.push(microseconds(due)),
            false => self.left_out += 1,
        }
    }

    /// Adds a success. Returns the minimum response time of the next one to add.
    pub fn add_success(&mut self, due: Duration, took: Duration) -> Duration {
        self.slow.push((microseconds(due), microseconds(took)));
        if self.slow.len() >= SLOW_EACH {
            // The slower half stays, and leaves room for as many.
            let half = SLOW_EACH / 2;
            let (_, middle, _) = self.slow.select_nth_unstable_by_key(half, |one| one.1);
            self.slow_from = middle.1 + 1;
            self.slow.retain(|one| one.1 >= self.slow_from);
        }
        Duration::from_micros(self.slow_from)
    }

    /// Adds the times of another thread or load.
    pub fn merge(&mut self, other: &Self) {
        self.failed.extend(&other.failed);
        self.unknown.extend(&other.unknown);
        self.slow.extend(&other.slow);
        self.slow_from = self.slow_from.max(other.slow_from);
        self.left_out += other.left_out;
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_successes_are_kept() {
        let mut times = DueTimes::default();
        let mut slow_min = Duration::ZERO;
        for number in 0..100_000_u64 {
            // Each response time from 0 to 999 µs as often as the others, in a mixed order.
            let took = Duration::from_micros(number * 7919 % 1000);
            if took >= slow_min {
                slow_min = times.add_success(Duration::from_micros(number), took);
            }
        }
        assert_eq!(slow_min, Duration::from_micros(times.slow_from));
        assert!((900..990).contains(&times.slow_from), "{}", times.slow_from);
        let kept = |took: u64| times.slow.iter().filter(|one| one.1 == took).count();
        assert!((times.slow_from..1000).all(|took| kept(took) == 100), "all above are there");
        assert!(times.slow.len() < SLOW_EACH, "{}", times.slow.len());
    }

    #[test]
    fn failures_beyond_the_limit_are_counted() {
        let mut times = DueTimes::default();
        for _ in 0..=FAILURES_EACH {
            times.add_failure(Duration::ZERO, ErrorKind::Timeout);
        }
        times.add_failure(Duration::ZERO, ErrorKind::StaleValue);
        times.add_failure(Duration::from_secs(1), ErrorKind::Status);
        assert_eq!((times.unknown.len(), times.left_out), (FAILURES_EACH, 1));
        assert_eq!(times.failed, [1_000_000]);
    }
}
