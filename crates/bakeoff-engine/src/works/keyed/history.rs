//! Records the operations on single keys, for the linearizability check.
//!
//! Each worker fills a batch of its own and hands it over when it is full, so the loop takes no lock. Without the check
//! there is no recorder, and no clock is read. The ledger numbers the writes of a key, so only its keys have a history.
//!
//! Times are those of one process. A key belongs to one generator, so one clock measures all operations on it. The
//! recorder reads the clock before a request is written and after its answer was read. Intervals are therefore too long
//! rather than too short, which accuses no system wrongly.
//!
//! Not here: judging (`bakeoff_core::linearizability`).

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use bakeoff_core::ledger::WriteOutcome;
use bakeoff_core::linearizability::history::{HISTORY_MAX, History};
use bakeoff_core::linearizability::judged_history::{OperationOutcome, Witness};
use bakeoff_core::linearizability::recorded_operation::{
    OperationOrigin, RecordedAction, RecordedOperation,
};
use bakeoff_core::study::Operation;

use super::two_step::Halves;
use super::{Answer, KeyedState, PendingOperation};
use crate::clock;

/// Operations of a batch: 160 KB.
const BATCH: usize = 4096;

type Batch = Vec<RecordedOperation>;

/// Collects the operations that all workers of a trial record.
pub struct HistoryCollector {
    /// Origin of its times.
    since: Instant,
    /// Start of the load, after the fill.
    began: OnceLock<Instant>,
    /// True once the history was taken: later operations are not recorded.
    is_closed: AtomicBool,
    /// Number of operations handed over or dropped.
    recorded: AtomicU64,
    /// Most operations that it keeps.
    max: u64,
    nodes: Mutex<Vec<String>>,
    /// Both ends of the way of the batches.
    batches: Mutex<(Sender<Batch>, Receiver<Batch>)>,
}

impl Default for HistoryCollector {
    fn default() -> Self {
        Self::keeping(HISTORY_MAX)
    }
}

impl HistoryCollector {
    /// Creates a collector that keeps at most `max` operations.
    fn keeping(max: u64) -> Self {
        Self {
            since: clock::now(),
            began: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            recorded: AtomicU64::new(0),
            max,
            nodes: Mutex::default(),
            batches: Mutex::new(channel()),
        }
    }

    /// Returns the time of the history's clock, in nanoseconds. It is never 0, which marks operations without history.
    fn time(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.since).as_nanos() as u64 + 1
    }

    /// Notes the start of the load. Later loads of the trial change nothing.
    pub(super) fn begins(&self, at: Instant) {
        self.began.get_or_init(|| at);
    }

    /// Ends recording, and returns all operations. The workers must have ended.
    pub fn take(&self) -> History {
        self.is_closed.store(true, Ordering::Relaxed);
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = self.recorded.load(Ordering::Relaxed);
        let mut operations = Vec::with_capacity(recorded.min(self.max) as usize);
        batches.1.try_iter().for_each(|mut batch| operations.append(&mut batch));
        debug_assert!(
            operations.len() as u64 <= recorded.min(self.max),
            "{} operations were kept of {recorded}",
            operations.len()
        );
        History {
            operations,
            recorded,
            nodes: self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            began: self.began.get().map_or(0, |&began| self.time(began)),
        }
    }

    /// Returns a worker's recorder, for clients of these nodes. `None` once the history was taken.
    pub(super) fn recorder(
        self: &Arc<Self>,
        names: impl Iterator<Item = String>,
    ) -> Option<HistoryRecorder> {
        if self.is_closed.load(Ordering::Relaxed) {
            return None;
        }
        let mut known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = |name: String| {
            let place = known.iter().position(|one| *one == name).unwrap_or(known.len());
            if place == known.len() {
                known.push(name);
            }
            u16::try_from(place).unwrap_or(u16::MAX)
        };
        let nodes = names.map(&mut place).collect();
        let to = self.batches.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
        let (clients, batch) = (Vec::new(), Vec::with_capacity(BATCH));
        let (collector, witness) = (Arc::clone(self), None);
        Some(HistoryRecorder { collector, to, nodes, clients, batch, witness, is_missing: false })
    }
}

/// Records the operations of one worker.
pub(super) struct HistoryRecorder {
    collector: Arc<HistoryCollector>,
    to: Sender<Batch>,
    /// Index of each node of the load among all nodes.
    nodes: Vec<u16>,
    /// Node of each client, by its number.
    clients: Vec<u16>,
    batch: Batch,
    /// Witness of the answer that is being judged.
    witness: Option<Witness>,
    /// True if this answer is that the key is missing.
    is_missing: bool,
}

impl HistoryRecorder {
    /// Returns the current time for [`PendingOperation::started`].
    pub(super) fn now(&self) -> u64 {
        self.collector.time(clock::now())
    }

    /// Notes the start of the load.
    pub(super) fn begins(&self, at: Instant) {
        self.collector.begins(at);
    }

    /// Notes that a client connects to a node.
    pub(super) fn connects(&mut self, client: u32, node: usize) {
        let client = client as usize;
        if self.clients.len() <= client {
            self.clients.resize(client + 1, u16::MAX);
        }
        self.clients[client] = self.nodes.get(node).copied().unwrap_or(u16::MAX);
    }

    /// Notes the answer that is judged next.
    pub(super) fn answered(&mut self, answer: &Answer<'_>) {
        self.is_missing = matches!(answer, Answer::Missing | Answer::MissingAt(_));
        self.witness = match *answer {
            Answer::DoneAt(place) | Answer::MissingAt(place) => Witness::new(place),
            _ => None,
        };
    }

    /// Records a read that returned the write with this number, or found nothing.
    pub(super) fn read(&mut self, pending: &PendingOperation, seen: Option<u64>) {
        let action = match seen.map(u32::try_from) {
            None => RecordedAction::Missing(self.witness),
            Some(Ok(seen @ 1..)) => RecordedAction::Read(seen),
            // Numbers that the ledger never gave are wrong answers, which another check reports.
            Some(_) => return,
        };
        self.record(pending, action, OperationOutcome::Done);
    }

    /// Records the end of a write or a delete.
    pub(super) fn write(&mut self, pending: &PendingOperation, outcome: WriteOutcome) {
        let value = pending.sequence;
        if value == 0 {
            return;
        }
        let outcome = match outcome {
            WriteOutcome::Acknowledged => OperationOutcome::Done,
            WriteOutcome::Refused => OperationOutcome::Refused,
            WriteOutcome::Unknown => OperationOutcome::Unknown,
            WriteOutcome::NotSent => return,
        };
        let witness = self.witness.filter(|_| outcome == OperationOutcome::Done);
        let action = match (pending.operation, pending.halves) {
            // It deleted nothing.
            (Operation::Delete, _) if self.is_missing && outcome == OperationOutcome::Done => {
                RecordedAction::Missing(witness)
            }
            (Operation::Delete, _) => RecordedAction::Delete(witness),
            (operation, Halves::Writing { hit: false, .. }) if operation.compares() => {
                RecordedAction::Create(value, witness)
            }
            (operation, Halves::Writing { replaced: expected @ 1.., .. })
                if operation.compares() =>
            {
                RecordedAction::CompareAndSet { expected, value }
            }
            _ => RecordedAction::Write(value),
        };
        self.record(pending, action, outcome);
    }

    fn record(
        &mut self,
        pending: &PendingOperation,
        action: RecordedAction,
        outcome: OperationOutcome,
    ) {
        let (Ok(key), 1..) = (u32::try_from(pending.key), pending.started) else { return };
        let client = pending.client;
        let node = self.clients.get(client as usize).copied().unwrap_or(u16::MAX);
        let (origin, times) =
            (OperationOrigin { key, client, node }, (pending.started, self.now()));
        debug_assert!(times.0 <= times.1, "an operation returns after its call: {times:?}");
        debug_assert!(
            !self.collector.is_closed.load(Ordering::Relaxed),
            "nothing is recorded after the history was taken"
        );
        self.batch.push(RecordedOperation::new(origin, times, action, outcome));
        if self.batch.len() == BATCH {
            let full = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
            self.hand_over(full);
        }
    }

    fn hand_over(&self, batch: Batch) {
        let count = batch.len() as u64;
        let before = self.collector.recorded.fetch_add(count, Ordering::Relaxed);
        if before + count <= self.collector.max {
            self.to.send(batch).ok();
        }
    }
}

impl Drop for HistoryRecorder {
    fn drop(&mut self) {
        let last = mem::take(&mut self.batch);
        self.hand_over(last);
    }
}

impl KeyedState {
    /// Also records the history of its keys, for [`Self::history`].
    pub fn with_history(mut self) -> Self {
        self.history = Some(Arc::default());
        self
    }

    /// Returns the history of its keys; `None` if it is not recorded.
    pub fn history(&self) -> Option<&HistoryCollector> {
        self.history.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_beyond_the_limit_are_counted_and_not_kept() {
        let collector = Arc::new(HistoryCollector::keeping(2 * BATCH as u64));
        let recorder = collector.recorder(["a".to_owned()].into_iter()).unwrap();
        let origin = OperationOrigin { key: 0, client: 0, node: 0 };
        let (action, outcome) = (RecordedAction::Read(1), OperationOutcome::Done);
        let one = RecordedOperation::new(origin, (1, 2), action, outcome);
        (0..3).for_each(|_| recorder.hand_over(vec![one; BATCH]));
        drop(recorder);
        let history = collector.take();
        assert_eq!(history.operations.len(), 2 * BATCH);
        assert_eq!(history.recorded, 3 * BATCH as u64);
    }
}
