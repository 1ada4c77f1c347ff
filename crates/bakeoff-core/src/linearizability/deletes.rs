//! Finds the delete that each read of a missing key saw, by witnesses.
//!
//! A delete writes "missing", which names no write. Its [`Witness`] does, such as etcd's revision: a read of a missing
//! key at place r saw the delete with the greatest place up to r. So each delete has a value of its own here.
//!
//! This accuses no correct system. Suppose that a read's place was taken after the read, and that the key was deleted
//! again in between. Then that delete happened during the read, which may as well have seen it.
//!
//! Some answers do not show what they saw, if a delete has no witness or an unknown outcome. They are [doubtful](Doubts).
//!
//! Not here: judging (`linearizability`), witnesses of systems (their sessions).

use super::judged_history::{OperationOutcome, Witness};
use super::recorded_operation::{RecordedAction, RecordedOperation};
use super::{KeyAction, KeyEnd, KeyOperation, Linearizability};

/// Value of the first delete. Numbers of writes are smaller.
const DELETED: u64 = 1 << 32;
/// Value that nothing writes.
const NEVER: u64 = u64::MAX;

/// Treatment of doubtful operations: reads of a missing key and compare-and-sets that a delete of unknown place may
/// explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubts {
    /// Deletes of unknown place never happened. If the history is linearizable then, it is.
    Trusted,
    /// Doubtful reads are left out, and doubtful compare-and-sets are plain writes. If the rest is violated, so is the
    /// history, because a linearizable history without a write and its reads is linearizable.
    LeftOut,
}

/// The deletes of a key.
#[derive(Debug)]
pub(super) struct Deletes {
    /// Places of those that happened, ascending.
    places: Vec<u64>,
    /// Start of the first one that was sent.
    first: u64,
    /// Start of the first one that may have happened at an unknown place.
    first_unplaced: u64,
    /// True if one certainly happened at an unknown place.
    has_unplaced: bool,
}

impl Deletes {
    /// Returns the deletes of a key's history.
    pub(super) fn in_history(recorded: &[RecordedOperation]) -> Self {
        let none = u64::MAX;
        let mut deletes =
            Self { places: Vec::new(), first: none, first_unplaced: none, has_unplaced: false };
        for one in recorded {
            let RecordedAction::Delete(witness) = one.action() else { continue };
            match (one.outcome, witness) {
                (OperationOutcome::Refused, _) => continue,
                (OperationOutcome::Done, Some(witness)) => deletes.places.push(witness.get()),
                (outcome, _) => {
                    deletes.first_unplaced = deletes.first_unplaced.min(one.start);
                    deletes.has_unplaced |= outcome == OperationOutcome::Done;
                }
            }
            deletes.first = deletes.first.min(one.start);
        }
        deletes.places.sort_unstable();
        // A store that gives two deletes one place shows no order.
        if deletes.places.windows(2).any(|pair| pair[0] == pair[1]) {
            deletes.places.clear();
            (deletes.has_unplaced, deletes.first_unplaced) = (true, deletes.first);
        }
        deletes
    }

    /// Returns true if the verdict on a history with [`Doubts::Trusted`] is final.
    pub(super) fn are_certain(
        &self,
        recorded: &[RecordedOperation],
        trusted: &Linearizability,
    ) -> bool {
        // A delete that certainly happened cannot be trusted not to have happened.
        !self.has_unplaced
            && (*trusted == Linearizability::Linearizable
                || !recorded.iter().any(|one| self.is_doubtful(one)))
    }

    /// Iterates over a history's operations for the judge, in its order.
    pub(super) fn operations<'a>(
        &'a self,
        recorded: &'a [RecordedOperation],
        doubts: Doubts,
    ) -> impl Iterator<Item = KeyOperation> + 'a {
        recorded.iter().map(move |one| self.operation(one, doubts))
    }

    fn operation(&self, one: &RecordedOperation, doubts: Doubts) -> KeyOperation {
        let judged = |action| KeyOperation { start: one.start, end: one.key_end(), action };
        // A read without an answer says nothing.
        let left_out =
            KeyOperation { start: one.start, end: KeyEnd::Unknown, action: KeyAction::Read(None) };
        let is_left_out = doubts == Doubts::LeftOut && self.is_doubtful(one);
        match one.action() {
            RecordedAction::Missing(_) if is_left_out => left_out,
            RecordedAction::Create(value, _) | RecordedAction::CompareAndSet { value, .. }
                if is_left_out =>
            {
                judged(KeyAction::Write(value.into()))
            }
            RecordedAction::Write(value) => judged(KeyAction::Write(value.into())),
            RecordedAction::Read(value) => judged(KeyAction::Read(Some(value.into()))),
            RecordedAction::Missing(witness) => {
                judged(KeyAction::Read(self.last_until(one, witness)))
            }
            RecordedAction::CompareAndSet { expected, value } => {
                let (expected, value) = (Some(expected.into()), value.into());
                judged(KeyAction::CompareAndSet { expected, value })
            }
            RecordedAction::Create(value, witness) => {
                let (expected, value) = (self.last_until(one, witness), value.into());
                judged(KeyAction::CompareAndSet { expected, value })
            }
            RecordedAction::Delete(Some(witness)) if one.outcome == OperationOutcome::Done => {
                match self.places.binary_search(&witness.get()) {
                    Ok(place) => judged(KeyAction::Write(DELETED + place as u64)),
                    Err(_) => left_out,
                }
            }
            RecordedAction::Delete(_) => left_out,
        }
    }

    /// Returns the value of the last delete up to an operation's place; `None` is the key's first state.
    fn last_until(&self, one: &RecordedOperation, witness: Option<Witness>) -> Option<u64> {
        let Some(witness) = witness else { return self.is_doubtful(one).then_some(NEVER) };
        let until = self.places.partition_point(|&place| place <= witness.get());
        until.checked_sub(1).map(|last| DELETED + last as u64)
    }

    /// Returns true if a delete of unknown place may explain an operation.
    fn is_doubtful(&self, one: &RecordedOperation) -> bool {
        let is_unknown = one.outcome == OperationOutcome::Unknown;
        let from = match one.action() {
            RecordedAction::Missing(Some(_)) | RecordedAction::Create(_, Some(_)) => {
                self.first_unplaced
            }
            RecordedAction::Missing(None) | RecordedAction::Create(_, None) => self.first,
            // If versions of a key start again with each delete, it may have met another value.
            RecordedAction::CompareAndSet { .. } if is_unknown => self.first,
            _ => return false,
        };
        from <= one.end || (is_unknown && from != u64::MAX)
    }
}

#[cfg(test)]
mod tests;
