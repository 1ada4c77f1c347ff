//! Holds one operation of a recorded history.
//!
//! A load records millions, so one takes 40 bytes.
//!
//! Not here: all operations of a load (`history`), what a record shows of them (`judged_history`).

use super::KeyEnd;
use super::judged_history::{OperationOutcome, ShownAction, ShownOperation, Witness};

/// One recorded operation on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedOperation {
    /// Time at which it was sent, in nanoseconds of the history's clock.
    pub start: u64,
    /// Time at which its outcome was known, in nanoseconds of the same clock.
    pub end: u64,
    /// Witness, or 0 without one. A compare-and-set has the number of the value that it met here.
    pub(super) detail: u64,
    /// Number of the key.
    pub key: u32,
    /// Client that sent it.
    pub client: u32,
    /// Number of the value that it wrote or read.
    pub(super) value: u32,
    /// Index of the node that it was sent to, in [`History::nodes`](super::history::History::nodes).
    pub node: u16,
    /// Outcome.
    pub outcome: OperationOutcome,
    pub(super) kind: ActionKind,
}

const _: () = assert!(size_of::<RecordedOperation>() == 40);

/// Where a [`RecordedOperation`] came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationOrigin {
    /// Number of the key.
    pub key: u32,
    /// Client that sent it.
    pub client: u32,
    /// Index of the node that it was sent to, in [`History::nodes`](super::history::History::nodes).
    pub node: u16,
}

/// Effect or answer of a recorded operation. Writes of a key are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedAction {
    /// Wrote the value with this number.
    Write(u32),
    /// Read the value with this number.
    Read(u32),
    /// Found the key missing.
    Missing(Option<Witness>),
    /// Replaced a value.
    CompareAndSet {
        /// Number of the value that it met.
        expected: u32,
        /// Number of the value that it wrote.
        value: u32,
    },
    /// Wrote the value with this number by a compare-and-set that required a missing key.
    Create(u32, Option<Witness>),
    /// Deleted the key.
    Delete(Option<Witness>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionKind {
    Write,
    Read,
    Missing,
    CompareAndSet,
    Create,
    Delete,
}

impl RecordedOperation {
    /// Creates an operation with its start and end.
    pub fn new(
        OperationOrigin { key, client, node }: OperationOrigin,
        (start, end): (u64, u64),
        action: RecordedAction,
        outcome: OperationOutcome,
    ) -> Self {
        let place = |witness: Option<Witness>| witness.map_or(0, Witness::get);
        let (kind, value, detail) = match action {
            RecordedAction::Write(value) => (ActionKind::Write, value, 0),
            RecordedAction::Read(value) => (ActionKind::Read, value, 0),
            RecordedAction::Missing(witness) => (ActionKind::Missing, 0, place(witness)),
            RecordedAction::CompareAndSet { expected, value } => {
                (ActionKind::CompareAndSet, value, expected.into())
            }
            RecordedAction::Create(value, witness) => (ActionKind::Create, value, place(witness)),
            RecordedAction::Delete(witness) => (ActionKind::Delete, 0, place(witness)),
        };
        Self { start, end, detail, key, client, value, node, outcome, kind }
    }

    /// Returns its effect or answer.
    pub fn action(&self) -> RecordedAction {
        let (value, witness) = (self.value, Witness::new(self.detail));
        match self.kind {
            ActionKind::Write => RecordedAction::Write(value),
            ActionKind::Read => RecordedAction::Read(value),
            ActionKind::Missing => RecordedAction::Missing(witness),
            ActionKind::CompareAndSet => {
                RecordedAction::CompareAndSet { expected: self.detail as u32, value }
            }
            ActionKind::Create => RecordedAction::Create(value, witness),
            ActionKind::Delete => RecordedAction::Delete(witness),
        }
    }

    /// Returns its end for the judge.
    pub(super) fn key_end(&self) -> KeyEnd {
        match self.outcome {
            OperationOutcome::Done => KeyEnd::Done(self.end),
            OperationOutcome::Refused => KeyEnd::Failed(self.end),
            OperationOutcome::Unknown => KeyEnd::Unknown,
        }
    }

    /// Returns its witness, if it has one.
    pub(super) fn witness(&self) -> Option<Witness> {
        match self.action() {
            RecordedAction::Missing(witness)
            | RecordedAction::Create(_, witness)
            | RecordedAction::Delete(witness) => witness,
            _ => None,
        }
    }

    /// Returns the operation for a record, with times relative to `began`.
    pub(super) fn shown(&self, nodes: &[String], began: u64) -> ShownOperation {
        let ms = |at: u64| (i128::from(at) - i128::from(began)) as f64 / 1e6;
        let action = match self.action() {
            RecordedAction::Write(value) => ShownAction::Write { value },
            RecordedAction::Read(value) => ShownAction::Read { value: Some(value) },
            RecordedAction::Missing(_) => ShownAction::Read { value: None },
            RecordedAction::CompareAndSet { expected, value } => {
                ShownAction::CompareAndSet { expected: Some(expected), value }
            }
            RecordedAction::Create(value, _) => {
                ShownAction::CompareAndSet { expected: None, value }
            }
            RecordedAction::Delete(_) => ShownAction::Delete,
        };
        let ended = self.outcome != OperationOutcome::Unknown;
        ShownOperation {
            client: self.client,
            node: nodes.get(usize::from(self.node)).cloned().unwrap_or_default(),
            action,
            outcome: self.outcome,
            start_ms: ms(self.start),
            end_ms: ended.then(|| ms(self.end)),
        }
    }
}
