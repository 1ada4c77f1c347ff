//! Compares the verdicts on keys with deletes with a search through all orders, on random histories.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::history::judge_key;
use super::super::judged_history::HistoryVerdict;
use super::super::recorded_operation::OperationOrigin;
use super::*;
use RecordedAction::{CompareAndSet, Create, Delete, Missing, Read, Write};

fn operation(times: (u64, u64), action: RecordedAction) -> RecordedOperation {
    let origin = OperationOrigin { key: 0, client: 0, node: 0 };
    RecordedOperation::new(origin, times, action, OperationOutcome::Done)
}

/// Returns true if the key's history is linearizable, and `None` if it was not judged or not decided.
fn verdict(history: &[RecordedOperation]) -> Option<bool> {
    let (judged, violation) = judge_key(history, &mut Vec::new());
    assert_eq!(judged.keys + judged.keys_deleted, 1);
    assert_eq!(violation.is_some(), judged.verdict == HistoryVerdict::Violated);
    match judged.verdict {
        HistoryVerdict::Undecided(_) => None,
        verdict => (judged.keys == 1).then_some(verdict == HistoryVerdict::Linearizable),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    First,
    Value(u32),
    /// Deleted, at this place if it is known.
    Deleted(Option<Witness>),
}

/// Searches for an order that explains every answer, and the delete that each witness names.
fn by_search(history: &[RecordedOperation]) -> bool {
    let is = |outcome, one: &RecordedOperation| one.outcome == outcome;
    let happened: Vec<RecordedOperation> =
        history.iter().copied().filter(|one| !is(OperationOutcome::Refused, one)).collect();
    let deletes = happened.iter().filter(|one| is(OperationOutcome::Done, one));
    let places = deletes.filter_map(|one| match one.action() {
        Delete(place) => place,
        _ => None,
    });
    explains(&happened, &places.collect::<Vec<_>>(), 0, State::First)
}

fn explains(history: &[RecordedOperation], places: &[Witness], done: u32, state: State) -> bool {
    let is_unknown = |one: &RecordedOperation| one.outcome == OperationOutcome::Unknown;
    let end = |one: &RecordedOperation| if is_unknown(one) { u64::MAX } else { one.end };
    let left = || (0..history.len()).filter(move |index| done & (1 << index) == 0);
    if left().all(|index| is_unknown(&history[index])) {
        return true;
    }
    let is_missing = |witness: Option<Witness>| match (state, witness) {
        (State::Value(_), _) => false,
        (State::Deleted(None), _) | (_, None) => true,
        (_, Some(until)) => {
            let last = places.iter().filter(|place| **place <= until).max();
            state == last.map_or(State::First, |&place| State::Deleted(Some(place)))
        }
    };
    left().any(|index| {
        let one = &history[index];
        if left().any(|other| other != index && end(&history[other]) < one.start) {
            return false;
        }
        let after = match one.action() {
            Write(value) => State::Value(value),
            Read(value) if state == State::Value(value) => state,
            Missing(witness) if is_missing(witness) => state,
            CompareAndSet { expected, value } if state == State::Value(expected) => {
                State::Value(value)
            }
            Create(value, witness) if is_missing(witness) => State::Value(value),
            Delete(witness) => State::Deleted(witness.filter(|_| !is_unknown(one))),
            _ => return false,
        };
        explains(history, places, done | 1 << index, after)
    })
}

/// A store's answers about one key.
struct Random {
    history: Vec<RecordedOperation>,
    /// True if every answer is right.
    is_honest: bool,
}

/// Returns a random history. `unknown`: outcomes may be unknown. `witnessed`: answers have witnesses.
fn random(random: &mut Xoshiro256PlusPlus, unknown: bool, witnessed: bool) -> Random {
    let count = random.random_range(1..=8);
    let span = random.random_range(2..=24);
    let wrong = random.random_range(0..4);
    let mut history: Vec<RecordedOperation> = Vec::new();
    let mut events = Vec::new();
    for number in 1..=count {
        let start = random.random_range(0..span);
        let end = start + random.random_range(0..=span / 2);
        let action = match random.random_range(0..9) {
            0 | 1 => Write(number),
            2 => CompareAndSet { expected: 0, value: number },
            3..=5 => Delete(None),
            _ => Missing(None),
        };
        let mut one = operation((start, end), action);
        one.outcome = match random.random_range(0..12) {
            0 if unknown && !matches!(action, Missing(_)) => OperationOutcome::Unknown,
            1 if !matches!(action, Missing(_)) => OperationOutcome::Refused,
            _ => OperationOutcome::Done,
        };
        let latest = if one.outcome == OperationOutcome::Unknown { start + span } else { end };
        let effect = random.random_range(start..=latest);
        // The place of a read may be taken after it.
        let place = random.random_range(effect..=latest);
        events.extend([(effect, false, number - 1), (place, true, number - 1)]);
        history.push(one);
    }
    events.sort_unstable();
    let (mut state, mut place, mut is_honest) = (None, 1, true);
    for (_, takes_place, index) in events {
        let one = &mut history[index as usize];
        let (times, outcome) = ((one.start, one.end), one.outcome);
        let lies = random.random_range(0..20) < wrong;
        is_honest &= !lies;
        let shown = if lies { random.random_range(1..=place + 2) } else { place };
        let witness = Witness::new(shown).filter(|_| witnessed);
        if takes_place {
            if let Missing(_) = one.action() {
                *one = operation(times, Missing(witness));
            }
            continue;
        }
        let happens = match outcome {
            OperationOutcome::Done => true,
            OperationOutcome::Refused => false,
            OperationOutcome::Unknown => random.random_bool(0.5),
        };
        let met = match random.random_range(0..=count) {
            other if lies => (other != 0).then_some(other),
            _ => state,
        };
        if happens && !matches!(one.action(), Missing(_)) {
            place += 1;
        }
        let own = Witness::new(if lies { shown } else { place }).filter(|_| witnessed);
        let own = own.filter(|_| outcome == OperationOutcome::Done);
        let action = match (one.action(), met) {
            (Write(value), _) => Write(value),
            (CompareAndSet { value, .. }, Some(expected)) => CompareAndSet { expected, value },
            (CompareAndSet { value, .. }, None) => Create(value, own),
            // Some stores show that there was nothing to delete.
            (Delete(_), None) if outcome == OperationOutcome::Done && random.random_bool(0.5) => {
                Missing(witness)
            }
            (Delete(_), _) => Delete(own),
            (_, Some(value)) => Read(value),
            (_, None) => Missing(witness),
        };
        if happens {
            match action {
                Write(value) | CompareAndSet { value, .. } | Create(value, _) => {
                    state = Some(value)
                }
                Delete(_) => state = None,
                _ => {}
            }
        }
        *one = operation(times, action);
        one.outcome = outcome;
    }
    Random { history, is_honest }
}

#[test]
fn verdicts_with_deletes_agree_with_a_search_through_all_orders() {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(20_261_128);
    // Right, wrong and not judged, for each way.
    let mut counts = [[0_u32; 3]; 4];
    for round in 0..1_000_000 {
        let way = round % 4;
        let (unknown, witnessed) = (way % 2 == 1, way < 2);
        let Random { history, is_honest } = random(&mut generator, unknown, witnessed);
        let found = verdict(&history);
        let shown = || format!("{found:?}, {way}\n{history:#?}");
        match found {
            Some(expected) => assert_eq!(by_search(&history), expected, "{}", shown()),
            // Deletes of known places leave nothing in doubt, but liars give two of them one place.
            None => assert!(unknown || !witnessed || !is_honest, "{}", shown()),
        }
        assert!(!is_honest || found != Some(false), "{}", shown());
        counts[way][found.map_or(2, |right| usize::from(!right))] += 1;
    }
    for [right, wrong, open] in counts {
        assert!(right > 10_000 && wrong > 2_000 && open < 150_000, "{counts:?}");
    }
}

fn at(place: u64) -> Option<Witness> {
    Witness::new(place)
}

#[test]
fn witness_decides_which_delete_was_seen() {
    let deletes = [
        operation((0, 1), Write(1)),
        operation((2, 3), Delete(at(5))),
        operation((4, 5), Write(2)),
    ];
    let with = |last| verdict(&[&deletes[..], &[last]].concat());
    // The deleted value, a missing key after a later write, and one that the delete explains.
    assert_eq!(with(operation((6, 7), Read(1))), Some(false));
    assert_eq!(with(operation((6, 7), Missing(at(6)))), Some(false));
    assert_eq!(with(operation((3, 4), Missing(at(5)))), Some(true));
    // Without a witness a read of a missing key shows nothing, and an old value still does.
    let unplaced = [deletes[0], operation((2, 3), Delete(None)), deletes[2]];
    let with = |last| verdict(&[&unplaced[..], &[last]].concat());
    assert_eq!(with(operation((6, 7), Missing(None))), None);
    assert_eq!(with(operation((6, 7), Read(1))), Some(false));
}

#[test]
fn delete_of_unknown_outcome_excuses_later_missing_reads_only() {
    let mut unknown = operation((2, 3), Delete(None));
    unknown.outcome = OperationOutcome::Unknown;
    let history = [operation((0, 1), Write(1)), unknown];
    let with = |last| verdict(&[&history[..], &[last]].concat());
    assert_eq!(with(operation((4, 5), Missing(at(7)))), None);
    assert_eq!(with(operation((4, 5), Read(1))), Some(true));
    assert_eq!(with(operation((1, 1), Missing(at(7)))), Some(true));
    let early = operation((2, 2), Missing(at(7)));
    let mut late = unknown;
    late.start = 3;
    assert_eq!(verdict(&[history[0], late, early]), Some(false));
}
