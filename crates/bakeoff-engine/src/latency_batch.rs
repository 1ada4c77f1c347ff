//! Records latencies in batches.
//!
//! Between two operations a worker touches more memory than a core's cache holds, most of it in the kernel. Recording
//! one latency would therefore fetch a line of a 280 KB histogram from main memory and stall the loop. A batch
//! overlaps these fetches and often hits the same lines.

use std::time::Duration;

use bakeoff_core::histogram::Latencies;

/// Maximum latencies that wait: 4 KB, recorded in a few microseconds.
const BATCH: usize = 512;

/// Collects latencies; the latest wait to be recorded.
#[derive(Default)]
pub(super) struct LatencyBatch {
    recorded: Latencies,
    /// Waiting latencies, in nanoseconds.
    waiting: Vec<u64>,
}

impl LatencyBatch {
    #[inline]
    pub(super) fn record(&mut self, latency: Duration) {
        self.waiting.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        if self.waiting.len() >= BATCH {
            self.record_waiting();
        }
    }

    pub(super) fn all(&mut self) -> &Latencies {
        self.record_waiting();
        &self.recorded
    }

    /// Removes all latencies but keeps the memory.
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
    fn batches_match_latencies_recorded_one_by_one() {
        let (mut batched, mut one_by_one) = (LatencyBatch::default(), Latencies::default());
        for count in [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH] {
            for nth in 0..count as u64 {
                // Some exceed the histogram's maximum of one hour.
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
