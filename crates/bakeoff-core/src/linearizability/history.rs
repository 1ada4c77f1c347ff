//! Holds the recorded history of a load, and judges it key by key.
//!
//! Only the operations that show a violation become [`ShownOperation`]s.
//!
//! Not here: recording (the engine), one operation (`recorded_operation`), judging one key (`linearizability`), the verdict in a record (`judged_history`).

use std::ops::AddAssign;

use super::deletes::{Deletes, Doubts};
use super::judged_history::{
    HistoryLine, HistoryVerdict, JudgedHistory, LegalPrefix, OperationOutcome, ShownOperation,
    ShownViolation,
};
use super::recorded_operation::RecordedOperation;
use super::{KeyEnd, KeyOperation, Linearizability, LinearizabilityViolation, judge, judged};

/// Most operations that a history keeps: 400 MB, and about 2 GiB while one key with all of them is judged.
pub const HISTORY_MAX: u64 = 10_000_000;

/// Most operations of a violation that a record shows.
const SHOWN_MAX: usize = 20;

/// The operations of a load on the keys of one generator.
#[derive(Debug, Default)]
pub struct History {
    /// Operations in any order; incomplete if there were more than [`HISTORY_MAX`].
    pub operations: Vec<RecordedOperation>,
    /// Number of all operations, also of those that were not kept.
    pub recorded: u64,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Start of the load in nanoseconds of the history's clock. Operations before it filled the keys.
    pub began: u64,
}

impl History {
    /// Judges all keys. `name` returns a key's name.
    pub fn judge(&mut self, name: &dyn Fn(u32) -> String) -> JudgedHistory {
        debug_assert!(
            self.recorded >= self.operations.len() as u64,
            "{} operations of {} recorded ones",
            self.operations.len(),
            self.recorded
        );
        let mut all = JudgedHistory { operations: self.recorded, ..JudgedHistory::default() };
        if self.recorded > self.operations.len() as u64 {
            all.verdict = HistoryVerdict::Undecided(format!(
                "there were {} operations, and at most {} are judged",
                crate::units::count_text(self.recorded),
                crate::units::count_text(HISTORY_MAX),
            ));
            return all;
        }
        self.operations.sort_unstable_by_key(|one| (one.key, one.start));
        let (mut history, mut fewest) = (Vec::new(), None);
        for of_key in self.operations.chunk_by(|one, other| one.key == other.key) {
            let (judged, violation) = judge_key(of_key, &mut history);
            all += judged;
            let Some(violation) = violation else { continue };
            let shown_by = violation.found.shown_by.len();
            if fewest.as_ref().is_none_or(|&(_, _, least)| shown_by < least) {
                fewest = Some((of_key, violation, shown_by));
            }
        }
        // The prefix is judged some twenty times, so only for the key that is shown.
        all.violation = fewest.map(|(of_key, violation, _)| self.shown(of_key, &violation, name));
        all
    }

    /// Returns a key's violation for a record.
    fn shown(
        &self,
        of_key: &[RecordedOperation],
        KeyViolation { found, doubts }: &KeyViolation,
        name: &dyn Fn(u32) -> String,
    ) -> ShownViolation {
        let shown = found.shown_by.iter().take(SHOWN_MAX);
        let deletes = Deletes::in_history(of_key);
        let history: Vec<KeyOperation> = deletes.operations(of_key, *doubts).collect();
        ShownViolation {
            key: name(of_key[0].key),
            kind: found.kind,
            operations: shown.map(|&index| of_key[index].shown(&self.nodes, self.began)).collect(),
            more: found.shown_by.len().saturating_sub(SHOWN_MAX) as u64,
            legal: legal_prefix(&history, self.began),
        }
    }

    /// Iterates over the lines of an exported history, by key and start once it was judged. `name` returns a key's
    /// name.
    pub fn lines(&self, name: &dyn Fn(u32) -> String) -> impl Iterator<Item = HistoryLine> {
        self.operations.iter().map(|one| {
            let ShownOperation { client, node, action, outcome, .. } = one.shown(&self.nodes, 0);
            let ended = outcome != OperationOutcome::Unknown;
            HistoryLine {
                key: name(one.key),
                client,
                node,
                action,
                witness: one.witness(),
                outcome,
                start_ns: one.start,
                end_ns: ended.then_some(one.end),
            }
        })
    }
}

/// A key's violation, and the operations that were judged for it.
pub(super) struct KeyViolation {
    found: LinearizabilityViolation,
    doubts: Doubts,
}

/// Judges one key. `history` is memory for its operations.
pub(super) fn judge_key(
    recorded: &[RecordedOperation],
    history: &mut Vec<KeyOperation>,
) -> (JudgedHistory, Option<KeyViolation>) {
    debug_assert!(
        recorded.iter().all(|one| one.key == recorded[0].key),
        "the history of one key has no other key's operations"
    );
    let outcome = |outcome| recorded.iter().filter(|one| one.outcome == outcome).count() as u64;
    let one = JudgedHistory {
        keys: 1,
        unknown: outcome(OperationOutcome::Unknown),
        refused: outcome(OperationOutcome::Refused),
        ..JudgedHistory::default()
    };
    let deletes = Deletes::in_history(recorded);
    let mut judge_with = |doubts| {
        history.clear();
        history.extend(deletes.operations(recorded, doubts));
        judge(history)
    };
    let (mut doubts, mut verdict) = (Doubts::Trusted, judge_with(Doubts::Trusted));
    if !deletes.are_certain(recorded, &verdict) {
        (doubts, verdict) = (Doubts::LeftOut, judge_with(Doubts::LeftOut));
        if verdict == Linearizability::Linearizable {
            return (JudgedHistory { keys: 0, keys_deleted: 1, ..one }, None);
        }
    }
    match verdict {
        Linearizability::Linearizable => (one, None),
        Linearizability::Undecided(why) => {
            let verdict = HistoryVerdict::Undecided(why.to_owned());
            (JudgedHistory { verdict, ..one }, None)
        }
        Linearizability::Violated(found) => {
            let verdict = HistoryVerdict::Violated;
            let judged = JudgedHistory { verdict, keys_violated: 1, ..one };
            (judged, Some(KeyViolation { found, doubts }))
        }
    }
}

impl JudgedHistory {
    /// Returns the verdict on all parts together: a history without a judged key is not checked.
    pub fn concluded(mut self) -> Self {
        if self.keys == 0 && self.verdict == HistoryVerdict::Linearizable {
            self.verdict = HistoryVerdict::NotChecked(match self.keys_deleted {
                0 => "no operation on a single key was recorded".to_owned(),
                _ => "all keys have deletes whose order no answer shows".to_owned(),
            });
        }
        self
    }
}

/// Adds the verdict on other keys. Of two violations, the one with fewer operations stays.
impl AddAssign for JudgedHistory {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.keys += other.keys;
        self.keys_deleted += other.keys_deleted;
        self.keys_violated += other.keys_violated;
        debug_assert!(self.keys_violated <= self.keys, "{} of {}", self.keys_violated, self.keys);
        let length = |of: &Option<ShownViolation>| {
            of.as_ref().map_or(u64::MAX, |one| one.operations.len() as u64 + one.more)
        };
        if length(&other.violation) < length(&self.violation) {
            self.violation = other.violation;
        }
        if other.verdict.weight() > self.verdict.weight() {
            self.verdict = other.verdict;
        }
        self.kept = self.kept.take().or(other.kept);
    }
}

/// Returns the longest prefix of a violating history, by the times at which operations ended, that is linearizable.
/// Operations that had not ended then have an unknown outcome in it.
fn legal_prefix(history: &[KeyOperation], began: u64) -> LegalPrefix {
    let end = |one: &KeyOperation| match one.end {
        KeyEnd::Done(end) | KeyEnd::Failed(end) => Some(end),
        KeyEnd::Unknown => None,
    };
    let mut ends: Vec<u64> = history.iter().filter_map(end).collect();
    ends.sort_unstable();
    let is_legal = |until: u64| {
        let begun = history.iter().filter(|one| one.start <= until);
        let prefix: Vec<KeyOperation> = begun
            .map(|one| match end(one) {
                Some(end) if end > until => KeyOperation { end: KeyEnd::Unknown, ..*one },
                _ => *one,
            })
            .collect();
        judged(&prefix) == Linearizability::Linearizable
    };
    // Each prefix of a linearizable history is linearizable.
    let operations = ends.partition_point(|&until| is_legal(until));
    let until = operations.checked_sub(1).map(|last| ends[last]);
    LegalPrefix {
        operations: operations as u64,
        of: history.len() as u64,
        until_ms: until.map(|until| (i128::from(until) - i128::from(began)) as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::judged_history::ShownAction;
    use super::super::recorded_operation::{OperationOrigin, RecordedAction};
    use super::*;
    use crate::linearizability::ViolationKind;

    /// Returns an operation of client 1 on key 7, in milliseconds.
    fn operation(start: u64, end: u64, action: RecordedAction) -> RecordedOperation {
        let origin = OperationOrigin { key: 7, client: 1, node: 0 };
        let times = (start * 1_000_000, end * 1_000_000);
        RecordedOperation::new(origin, times, action, OperationOutcome::Done)
    }

    fn judged_history(operations: Vec<RecordedOperation>) -> JudgedHistory {
        let recorded = operations.len() as u64;
        let nodes = vec!["a".to_owned()];
        let mut history = History { operations, recorded, nodes, began: 10_000_000 };
        history.judge(&|key| format!("k{key}")).concluded()
    }

    use RecordedAction::{CompareAndSet, Create, Delete, Missing, Read, Write};

    #[test]
    fn stale_read_is_shown_with_its_interval_and_the_legal_prefix() {
        let stale = vec![
            operation(1, 2, Write(1)),
            operation(11, 12, Write(2)),
            operation(12, 13, Read(2)),
            operation(14, 15, Read(1)),
            operation(16, 17, Read(2)),
        ];
        let found = judged_history(stale);
        assert_eq!(found.verdict, HistoryVerdict::Violated);
        assert_eq!((found.operations, found.keys, found.keys_violated), (5, 1, 1));
        let shown = found.violation.unwrap();
        assert_eq!((shown.key.as_str(), shown.kind), ("k7", ViolationKind::Disordered));
        let actions: Vec<ShownAction> = shown.operations.iter().map(|one| one.action).collect();
        let [w1, w2, r1] = actions[..] else { panic!("{actions:?}") };
        assert_eq!(w1, ShownAction::Write { value: 1 });
        assert_eq!(w2, ShownAction::Write { value: 2 });
        assert_eq!(r1, ShownAction::Read { value: Some(1) });
        let text = "write 1 was read after write 2, which began after it had ended";
        assert_eq!(shown.text(), text);
        let times: Vec<_> = shown.operations.iter().map(|one| (one.start_ms, one.end_ms)).collect();
        assert_eq!(times, [(-9.0, Some(-8.0)), (1.0, Some(2.0)), (4.0, Some(5.0))]);
        assert_eq!(shown.legal, LegalPrefix { operations: 3, of: 5, until_ms: Some(3.0) });
    }

    #[test]
    fn keys_with_deletes_without_witness_are_left_out() {
        let mut other = operation(5, 6, Missing(None));
        other.key = 8;
        let deleted = || vec![operation(1, 2, Write(1)), operation(3, 4, Delete(None))];
        let found = judged_history([deleted(), vec![other]].concat());
        assert_eq!(found.verdict, HistoryVerdict::Linearizable);
        assert_eq!((found.keys, found.keys_deleted), (1, 1));
        let found = judged_history(deleted());
        assert!(matches!(found.verdict, HistoryVerdict::NotChecked(_)), "{found:?}");
        assert!(matches!(judged_history(Vec::new()).verdict, HistoryVerdict::NotChecked(_)));
    }

    #[test]
    fn history_with_missing_operations_is_undecided() {
        let operations = vec![operation(1, 2, Write(1))];
        let mut history = History { operations, recorded: 2, ..History::default() };
        let found = history.judge(&|_| String::new());
        assert!(matches!(found.verdict, HistoryVerdict::Undecided(_)), "{found:?}");
    }

    #[test]
    fn refused_writes_must_not_be_read_and_unknown_ones_may() {
        let with = |outcome| {
            let write = RecordedOperation { outcome, ..operation(1, 2, Write(1)) };
            judged_history(vec![write, operation(3, 4, Read(1))])
        };
        let found = with(OperationOutcome::Refused);
        assert_eq!(found.violation.unwrap().kind, ViolationKind::DirtyRead);
        let found = with(OperationOutcome::Unknown);
        assert_eq!((found.verdict, found.unknown), (HistoryVerdict::Linearizable, 1));
    }

    #[test]
    fn shortest_violation_of_all_keys_is_shown() {
        let create =
            |client, value| RecordedOperation { client, ..operation(1, 2, Create(value, None)) };
        let lost = vec![create(1, 1), create(2, 2)];
        let stale =
            [operation(1, 2, Write(1)), operation(3, 4, Write(2)), operation(5, 6, Read(1))];
        let stale = stale.map(|one| RecordedOperation { key: 3, ..one });
        let found = judged_history([stale.to_vec(), lost].concat());
        assert_eq!(found.keys_violated, 2);
        let shown = found.violation.unwrap();
        assert_eq!((shown.kind, shown.key.as_str()), (ViolationKind::LostUpdate, "k7"));
    }

    #[test]
    fn verdict_reads_back_as_it_was_written() {
        let found = judged_history(vec![
            operation(1, 2, Write(1)),
            operation(3, 4, CompareAndSet { expected: 1, value: 2 }),
            operation(5, 6, Missing(None)),
        ]);
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<JudgedHistory>(&text).unwrap(), found, "{text}");
    }
}
