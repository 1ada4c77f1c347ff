//! Counts statuses and bytes of answers, and records the first and last times.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_engine::work::OperationTiming;

/// Counts of one test.
#[derive(Debug, Clone, Default)]
pub(super) struct TestCounts {
    /// Answers by status.
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Time since the load began, as in the fields below. Only answered requests count.
    pub(super) first_sent: Option<Duration>,
    pub(super) last_sent: Duration,
    pub(super) last_done: Duration,
}

/// Counts of one worker, added to the total when it ends.
pub(super) struct Counts {
    own: Vec<WorkerCounts>,
    start: Option<Instant>,
    all: Arc<Mutex<Vec<TestCounts>>>,
}

/// Counts of one worker for one test.
#[derive(Clone)]
struct WorkerCounts {
    counts: TestCounts,
    /// Answers by status, in a table that needs no search.
    statuses: Box<[u64; 1000]>,
}

impl Counts {
    pub(super) fn new(tests: usize, all: &Arc<Mutex<Vec<TestCounts>>>) -> Self {
        let own = WorkerCounts { counts: TestCounts::default(), statuses: Box::new([0; 1000]) };
        Self { own: vec![own; tests], start: None, all: all.clone() }
    }

    pub(super) fn begin(&mut self, start: Instant) {
        self.start = Some(start);
    }

    #[inline]
    pub(super) fn sent(&mut self, test: usize, body: usize) {
        self.own[test].counts.bytes_out += body as u64;
    }

    #[inline]
    pub(super) fn answer(&mut self, test: usize, status: u16, body: usize) {
        let own = &mut self.own[test];
        if let Some(count) = own.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        own.counts.bytes_in += body as u64;
    }

    #[inline]
    pub(super) fn answered(&mut self, test: usize, moments: &OperationTiming) {
        let Some(start) = self.start else { return };
        let counts = &mut self.own[test].counts;
        let sent = moments.sent.saturating_duration_since(start);
        counts.first_sent.get_or_insert(sent);
        counts.last_sent = counts.last_sent.max(sent);
        counts.last_done = counts.last_done.max(moments.done.saturating_duration_since(start));
    }

    pub(super) fn ended(&mut self) {
        // A worker that panicked leaves only whole numbers, so its counts stay usable.
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, own) in all.iter_mut().zip(&self.own) {
            for (status, &count) in (0..).zip(own.statuses.iter()).filter(|(_, count)| **count > 0)
            {
                *all.statuses.entry(status).or_default() += count;
            }
            let own = &own.counts;
            all.bytes_in += own.bytes_in;
            all.bytes_out += own.bytes_out;
            all.first_sent = match (all.first_sent, own.first_sent) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            all.last_sent = all.last_sent.max(own.last_sent);
            all.last_done = all.last_done.max(own.last_done);
        }
    }
}
