//! Latencies that are recorded many at once.
//!
//! Between two operations a worker touches more memory than a core's cache holds, the kernel's most of all. So each
//! latency would fetch its place in a histogram of 280 KB from afar, and the loop would wait for it. A batch fetches
//! its places while it goes on, and many of them are the same.

use std::time::Duration;

use bakeoff_core::histogram::Latencies;

/// How many latencies wait at most: 4 KB of them, which take some microseconds to record.
const BATCH: usize = 512;

/// A distribution of latencies, of which the last wait to be recorded.
#[derive(Default)]
pub(super) struct Batched {
    recorded: Latencies,
    /// In nanoseconds.
    waiting: Vec<u64>,
}

impl Batched {
    /// Records one latency.
    #[inline]
    pub(super) fn record(&mut self, latency: Duration) {
        self.waiting.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if self.waiting.len() >= BATCH {
            self.record_waiting();
        }
    }

    /// Returns all that were recorded.
    pub(super) fn all(&mut self) -> &Latencies {
        self.record_waiting();
        &self.recorded
    }

    /// Forgets everything; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.recorded.clear();
    }

    fn record_waiting(&mut self) {
        let Self { recorded, waiting } = self;
        waiting.drain(..).for_each(|latency| recorded.record(Duration::from_nanos(latency)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_what_was_recorded_one_by_one() {
        let (mut batched, mut one_by_one) = (Batched::default(), Latencies::default());
        for count in [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH] {
            for nth in 0..count as u64 {
                // Some lie beyond the hour that histograms tell apart.
                let latency = Duration::from_secs(nth * nth);
                batched.record(latency);
                one_by_one.record(latency);
            }
            assert_eq!(*batched.all(), one_by_one, "after {count} more");
        }
        assert!(one_by_one.saturated() > 0);
        batched.clear();
        batched.record(Duration::from_secs(1));
        batched.clear();
        assert!(batched.all().is_empty());
    }
}
