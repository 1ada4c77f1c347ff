//! Compares the judgement by zones with a search through all orders, on random histories.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// Searches for an order that explains every answer (Wing and Gong, 1993): any operation that no other one precedes may
/// come next. An operation of unknown outcome may also never happen.
fn by_search(history: &[KeyOperation]) -> bool {
    fn end(one: &KeyOperation) -> u64 {
        match one.end {
            KeyEnd::Done(end) => end,
            KeyEnd::Failed(_) | KeyEnd::Unknown => u64::MAX,
        }
    }
    fn explains(history: &[KeyOperation], done: u32, state: Option<u64>) -> bool {
        let left = || (0..history.len()).filter(move |index| done & (1 << index) == 0);
        if left().all(|index| history[index].end == KeyEnd::Unknown) {
            return true;
        }
        left().any(|index| {
            let one = &history[index];
            if left().any(|other| other != index && end(&history[other]) < one.start) {
                return false;
            }
            let after = match one.action {
                KeyAction::Write(value) => Some(value),
                KeyAction::Read(value) if value == state => state,
                KeyAction::CompareAndSet { expected, value } if expected == state => Some(value),
                _ => return false,
            };
            explains(history, done | 1 << index, after)
        })
    }
    let happened: Vec<KeyOperation> = history
        .iter()
        .copied()
        .filter(|one| !matches!(one.end, KeyEnd::Failed(_)))
        // A read without an answer says nothing.
        .filter(|one| one.end != KeyEnd::Unknown || !matches!(one.action, KeyAction::Read(_)))
        .collect();
    explains(&happened, 0, None)
}

/// Returns a history of a register that answers rightly, mostly.
fn random(random: &mut Xoshiro256PlusPlus) -> Vec<KeyOperation> {
    let count = random.random_range(1..=8);
    let span = random.random_range(2..=24);
    let mut history: Vec<KeyOperation> = (0..count)
        .map(|number| {
            let start = random.random_range(0..span);
            let end = start + random.random_range(0..=span / 2);
            let end = match random.random_range(0..12) {
                0 => KeyEnd::Unknown,
                1 => KeyEnd::Failed(end),
                _ => KeyEnd::Done(end),
            };
            let action = match random.random_range(0..5) {
                0 | 1 => KeyAction::Write(number),
                2 => KeyAction::CompareAndSet { expected: None, value: number },
                _ => KeyAction::Read(None),
            };
            KeyOperation { start, end, action }
        })
        .collect();
    // Each operation takes effect at a moment within its time. Few get another answer than the register gave.
    let mut order: Vec<(u64, usize)> = history
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let end = match one.end {
                KeyEnd::Done(end) | KeyEnd::Failed(end) => end,
                KeyEnd::Unknown => one.start + span,
            };
            (random.random_range(one.start..=end), index)
        })
        .collect();
    order.sort_unstable();
    let values: Vec<u64> = (0..count).collect();
    let mut state = None;
    let wrong = random.random_range(0..6);
    for (_, index) in order {
        let happens = match history[index].end {
            KeyEnd::Done(_) => true,
            KeyEnd::Failed(_) => false,
            KeyEnd::Unknown => random.random_bool(0.5),
        };
        let any = |random: &mut Xoshiro256PlusPlus| match random.random_range(0..=count) {
            none if none == count => None,
            value => Some(values[value as usize]),
        };
        let met = if random.random_range(0..12) < wrong { any(random) } else { state };
        match &mut history[index].action {
            KeyAction::Write(value) if happens => state = Some(*value),
            KeyAction::Write(_) => {}
            KeyAction::Read(value) => *value = met,
            KeyAction::CompareAndSet { expected, value } => {
                *expected = met;
                if happens {
                    state = Some(*value);
                }
            }
        }
    }
    history
}

/// Number of random histories.
const HISTORIES: u64 = 1_000_000;

#[test]
fn zones_agree_with_a_search_through_all_orders() {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(20_260_728);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..HISTORIES {
        let history = random(&mut generator);
        let found = judge(&history);
        let expected = by_search(&history);
        assert_eq!(found == Linearizability::Linearizable, expected, "{found:?}\n{history:#?}");
        *if expected { &mut right } else { &mut wrong } += 1;
        // The operations that show a violation violate by themselves, and none of them is superfluous.
        if let Linearizability::Violated(LinearizabilityViolation { kind, shown_by }) = &found {
            let only = |without: Option<usize>| -> Vec<KeyOperation> {
                let kept = shown_by.iter().filter(|&&index| Some(index) != without);
                kept.map(|&index| history[index]).collect()
            };
            assert!(!by_search(&only(None)), "{found:?}\n{history:#?}");
            for &index in shown_by {
                let rest = judged(&only(Some(index)));
                let same = matches!(&rest, Linearizability::Violated(one) if one.kind == *kind);
                assert!(!same, "{found:?} without {index}\n{history:#?}");
            }
        }
    }
    assert!(right > HISTORIES / 10 && wrong > HISTORIES / 10, "{right} right, {wrong} wrong");
}

fn done(start: u64, end: u64, action: KeyAction) -> KeyOperation {
    KeyOperation { start, end: KeyEnd::Done(end), action }
}

#[track_caller]
fn violates(history: &[KeyOperation], kind: ViolationKind, shown_by: &[usize]) {
    let expected = LinearizabilityViolation { kind, shown_by: shown_by.to_vec() };
    assert_eq!(judge(history), Linearizability::Violated(expected));
    assert!(!by_search(history));
}

#[test]
fn each_kind_of_violation_is_named() {
    use KeyAction::{CompareAndSet, Read, Write};
    let (first, second) = (done(0, 1, Write(1)), done(2, 3, Write(2)));
    // A stale read: the first value after the second was acknowledged.
    violates(&[first, second, done(4, 5, Read(Some(1)))], ViolationKind::Disordered, &[0, 1, 2]);
    violates(&[done(0, 1, Read(Some(7)))], ViolationKind::NeverWritten, &[0]);
    let failed = KeyOperation { start: 0, end: KeyEnd::Failed(1), action: Write(1) };
    violates(&[failed, done(2, 3, Read(Some(1)))], ViolationKind::DirtyRead, &[0, 1]);
    violates(&[done(0, 1, Read(Some(2))), second], ViolationKind::ReadBeforeWrite, &[0, 1]);
    let swap = |start, expected, value| done(start, start + 1, CompareAndSet { expected, value });
    // Two clients replace the same value.
    violates(
        &[first, swap(2, Some(1), 2), swap(4, Some(1), 3)],
        ViolationKind::LostUpdate,
        &[0, 1, 2],
    );
    violates(
        &[first, swap(2, Some(1), 2), done(4, 5, Read(Some(1)))],
        ViolationKind::AfterReplaced,
        &[0, 1, 2],
    );
    // Two readers see two writes in another order.
    let both = [done(0, 9, Write(1)), done(0, 9, Write(2))];
    let seen = [(1, 1), (3, 2), (5, 1), (7, 2)].map(|(at, value)| done(at, at, Read(Some(value))));
    violates(
        &[both, [seen[0], seen[1]], [seen[2], seen[3]]].concat(),
        ViolationKind::Disordered,
        &[0, 1, 3, 4, 5],
    );
}

#[test]
fn unknown_outcomes_accuse_nobody() {
    use KeyAction::{Read, Write};
    let unknown = KeyOperation { start: 2, end: KeyEnd::Unknown, action: Write(2) };
    let first = done(0, 1, Write(1));
    // It may happen late, or never.
    for seen in [&[1, 1][..], &[1, 2], &[2, 2]] {
        let reads = (0u64..)
            .zip(seen)
            .map(|(nth, &value)| done(10 + 2 * nth, 11 + 2 * nth, Read(Some(value))));
        let history: Vec<KeyOperation> = [first, unknown].into_iter().chain(reads).collect();
        assert_eq!(judge(&history), Linearizability::Linearizable, "{seen:?}");
    }
    let back = [first, unknown, done(10, 11, Read(Some(2))), done(12, 13, Read(Some(1)))];
    assert!(matches!(judge(&back), Linearizability::Violated(_)));
}

/// Number of random histories with repeated values.
const REPEATED: u64 = 100_000;

#[test]
fn search_with_memory_agrees_with_a_search_through_all_orders() {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(20_261_129);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..REPEATED {
        let mut history = random(&mut generator);
        let values = generator.random_range(1..=3);
        let fold = |value: &mut u64| *value %= values;
        for one in &mut history {
            match &mut one.action {
                KeyAction::Write(value) => fold(value),
                KeyAction::Read(value) => value.iter_mut().for_each(fold),
                KeyAction::CompareAndSet { expected, value } => {
                    expected.iter_mut().for_each(fold);
                    fold(value);
                }
            }
        }
        let found = search::judged(&history);
        let expected = by_search(&history);
        assert_eq!(found == Linearizability::Linearizable, expected, "{found:?}\n{history:#?}");
        assert_eq!(judge(&history) == Linearizability::Linearizable, expected, "{history:#?}");
        *if expected { &mut right } else { &mut wrong } += 1;
        if let Linearizability::Violated(LinearizabilityViolation { shown_by, .. }) =
            judge(&history)
        {
            let shown: Vec<KeyOperation> = shown_by.iter().map(|&index| history[index]).collect();
            assert!(!by_search(&shown), "{shown:#?}\n{history:#?}");
        }
    }
    assert!(right > REPEATED / 10 && wrong > REPEATED / 10, "{right} right, {wrong} wrong");
}

#[test]
fn long_history_with_repeated_values_is_judged() {
    use KeyAction::{Read, Write};
    let round = |at: u64| {
        let value = at % 5;
        [done(4 * at, 4 * at + 1, Write(value)), done(4 * at + 2, 4 * at + 3, Read(Some(value)))]
    };
    let mut history: Vec<KeyOperation> = (0..5_000).flat_map(round).collect();
    // Its outcome is unknown for as long as the history lasts.
    history.push(KeyOperation { start: 1, end: KeyEnd::Unknown, action: Write(3) });
    assert_eq!(judge(&history), Linearizability::Linearizable);
    history.push(done(30_000, 30_001, Read(Some(1))));
    let Linearizability::Violated(found) = judge(&history) else { panic!("a stale read") };
    assert_eq!(found.kind, ViolationKind::NoOrder);
    assert!(found.shown_by.contains(&10_001) && found.shown_by.len() < 9, "{found:?}");
}
