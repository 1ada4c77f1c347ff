//! Collects figures of each second for `--sample`, by the second in which an operation was sent.
//!
//! Not here: the lines that it prints (`report`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_engine::work::OperationTiming;
use bakeoff_engine::works::grpc::TimingSink;

use super::report::SecondPoint;

/// Figures by operation and second since 1970.
pub(super) type SecondsByOperation = BTreeMap<usize, BTreeMap<i64, SecondPoint>>;

/// Receives the times of one worker's operations.
pub(super) struct SecondSink {
    /// Start of the load, by both clocks.
    start: Option<(Instant, Duration)>,
    own: SecondsByOperation,
    all: Arc<Mutex<SecondsByOperation>>,
}

impl SecondSink {
    /// Creates a sink that adds its figures to `all` at the end of the load.
    pub(super) fn new(all: &Arc<Mutex<SecondsByOperation>>) -> Self {
        Self { start: None, own: BTreeMap::new(), all: all.clone() }
    }
}

impl SecondSink {
    /// Adds a success that was sent at this time. Does nothing before the load has begun.
    pub(super) fn add(&mut self, operation: usize, sent: Instant, time: Duration) {
        let Some((start, wall)) = self.start else { return };
        let sent = wall + sent.saturating_duration_since(start);
        let second = i64::try_from(sent.as_secs()).unwrap_or(i64::MAX);
        let point = SecondPoint { least: time, total: time, most: time, count: 1 };
        add(self.own.entry(operation).or_default().entry(second).or_default(), &point);
    }

    /// Adds its figures to those of all workers.
    pub(super) fn add_to_all(&mut self) {
        // No code panics while it holds the lock.
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for (operation, seconds) in std::mem::take(&mut self.own) {
            let of = all.entry(operation).or_default();
            for (second, point) in seconds {
                add(of.entry(second).or_default(), &point);
            }
        }
    }
}

fn add(point: &mut SecondPoint, other: &SecondPoint) {
    if point.count == 0 {
        *point = *other;
        return;
    }
    point.least = point.least.min(other.least);
    point.most = point.most.max(other.most);
    point.total += other.total;
    point.count += other.count;
}

impl TimingSink for SecondSink {
    fn begin(&mut self, start: Instant) {
        let now = Duration::try_from_secs_f64(bakeoff_clock::wall::seconds()).unwrap_or_default();
        let since = bakeoff_clock::now().saturating_duration_since(start);
        // The load may begin a few milliseconds after this.
        let until = start.saturating_duration_since(bakeoff_clock::now());
        self.start = Some((start, now.saturating_sub(since) + until));
    }

    fn answered(&mut self, operation: usize, moments: &OperationTiming) {
        let time = moments.done.saturating_duration_since(moments.sent);
        self.add(operation, moments.sent, time);
    }

    fn ended(&mut self) {
        self.add_to_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_by_the_second_of_sending() {
        let all = Arc::default();
        let start = bakeoff_clock::now();
        let ms = Duration::from_millis;
        for [sent, took] in [[0, 5], [0, 7], [3000, 1]] {
            let mut sink = SecondSink::new(&all);
            sink.begin(start);
            sink.start = Some((start, Duration::from_secs(100)));
            let sent = start + ms(sent);
            sink.answered(0, &OperationTiming { due: start, sent, done: sent + ms(took) });
            sink.ended();
        }
        let both = SecondPoint { least: ms(5), total: ms(12), most: ms(7), count: 2 };
        let one = SecondPoint { least: ms(1), total: ms(1), most: ms(1), count: 1 };
        let expected = BTreeMap::from([(0, BTreeMap::from([(100, both), (103, one)]))]);
        assert_eq!(*all.lock().unwrap(), expected);
    }
}
