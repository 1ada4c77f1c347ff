//! Tests the ledger, rule by rule.

use super::*;
use crate::staleness::Age;

fn end(history: &mut KeyHistory, sequence: u32, outcome: WriteOutcome) {
    history.end(sequence, outcome, || Duration::ZERO);
}

fn acknowledged(history: &mut KeyHistory, write: Write) -> u32 {
    let sequence = history.begin(write);
    end(history, sequence, WriteOutcome::Acknowledged);
    sequence
}

fn unknown(history: &mut KeyHistory, write: Write) -> u32 {
    let sequence = history.begin(write);
    end(history, sequence, WriteOutcome::Unknown);
    sequence
}

/// Judges a read that begins now and finds this write.
fn value(history: &KeyHistory, seen: u32) -> Result<(), Violation> {
    history.judge_value(seen.into(), &history.begin_read(|| Duration::ZERO))
}

/// Judges a read that begins now and finds nothing.
fn missing(history: &KeyHistory) -> Result<(), Violation> {
    history.judge_missing(&history.begin_read(|| Duration::ZERO))
}

#[test]
fn history_takes_at_most_24_bytes() {
    assert!(size_of::<KeyHistory>() <= 24, "{}", size_of::<KeyHistory>());
}

#[test]
fn newest_acknowledged_value_is_accepted_and_older_is_stale() {
    let mut history = KeyHistory::default();
    let first = acknowledged(&mut history, Write::Put);
    let second = acknowledged(&mut history, Write::Put);
    assert_eq!(value(&history, second), Ok(()));
    assert_eq!(value(&history, first), Err(Violation::Stale(1, 2)));
    assert_eq!(value(&history, 3), Err(Violation::FromTheFuture(3)));
}

#[test]
fn missing_key_is_lost_if_acknowledged_and_not_deleted() {
    let mut history = KeyHistory::default();
    assert_eq!(missing(&history), Ok(()));
    acknowledged(&mut history, Write::Put);
    assert_eq!(missing(&history), Err(Violation::Lost));
    let delete = acknowledged(&mut history, Write::Delete);
    assert_eq!(missing(&history), Ok(()));
    assert_eq!(value(&history, 1), Err(Violation::Stale(1, delete)));
}

#[test]
fn overlapping_writes_may_end_in_either_order() {
    let mut history = KeyHistory::default();
    let (first, second) = (history.begin(Write::Put), history.begin(Write::Put));
    end(&mut history, second, WriteOutcome::Acknowledged);
    end(&mut history, first, WriteOutcome::Acknowledged);
    for seen in [first, second] {
        assert_eq!(value(&history, seen), Ok(()));
    }
}

#[test]
fn write_is_superseded_by_a_later_one_although_others_overlap_both() {
    let mut history = KeyHistory::default();
    let long = history.begin(Write::Put);
    let old = acknowledged(&mut history, Write::Put);
    let new = acknowledged(&mut history, Write::Put);
    assert_eq!(value(&history, long), Ok(()));
    assert_eq!(value(&history, old), Err(Violation::Stale(old, new)));
    end(&mut history, long, WriteOutcome::Acknowledged);
    assert_eq!(value(&history, long), Ok(()), "it may have taken effect last");
    acknowledged(&mut history, Write::Put);
    for seen in [long, old, new] {
        assert_eq!(value(&history, seen), Err(Violation::Stale(seen, 4)));
    }
}

#[test]
fn write_of_unknown_outcome_may_appear_later_and_excuses_no_other() {
    let mut history = KeyHistory::default();
    acknowledged(&mut history, Write::Put);
    let late = unknown(&mut history, Write::Put);
    for _ in 0..3 {
        acknowledged(&mut history, Write::Put);
    }
    assert_eq!(value(&history, late), Ok(()));
    for seen in [1, 3, 4] {
        assert_eq!(value(&history, seen), Err(Violation::Stale(seen, 5)));
    }
    assert_eq!(missing(&history), Err(Violation::Lost));
    assert!(history.claims_fully());
}

#[test]
fn nothing_is_claimed_after_the_first_dropped_unknown_outcome() {
    let mut history = KeyHistory::new(2);
    acknowledged(&mut history, Write::Put);
    (0..2).for_each(|_| _ = unknown(&mut history, Write::Put));
    acknowledged(&mut history, Write::Put);
    assert!(history.claims_fully());
    let left_out = unknown(&mut history, Write::Put);
    assert!(!history.claims_fully());
    acknowledged(&mut history, Write::Put);
    acknowledged(&mut history, Write::Put);
    assert_eq!(value(&history, 4), Err(Violation::Stale(4, 7)));
    for seen in left_out..=7 {
        assert_eq!(value(&history, seen), Ok(()));
    }
}

#[test]
fn delete_of_unknown_outcome_excuses_a_missing_key() {
    let mut history = KeyHistory::default();
    unknown(&mut history, Write::Delete);
    acknowledged(&mut history, Write::Put);
    assert_eq!(missing(&history), Ok(()));
    assert!(!history.claims_fully());
}

#[test]
fn read_is_judged_by_acknowledgements_before_it_began() {
    let mut history = KeyHistory::default();
    let first = acknowledged(&mut history, Write::Put);
    let began = history.begin_read(|| Duration::ZERO);
    acknowledged(&mut history, Write::Put);
    assert_eq!(history.judge_value(first.into(), &began), Ok(()));
}

#[test]
fn slow_read_may_miss_a_key_deleted_and_rewritten_meanwhile() {
    let mut history = KeyHistory::default();
    acknowledged(&mut history, Write::Put);
    let began = history.begin_read(|| Duration::ZERO);
    acknowledged(&mut history, Write::Delete);
    acknowledged(&mut history, Write::Put);
    assert_eq!(history.judge_missing(&began), Ok(()));
    assert_eq!(missing(&history), Err(Violation::Lost));
}

#[test]
fn unsent_delete_excuses_nothing() {
    let mut history = KeyHistory::default();
    acknowledged(&mut history, Write::Put);
    let delete = history.begin(Write::Delete);
    assert_eq!(missing(&history), Ok(()), "it may still take effect");
    end(&mut history, delete, WriteOutcome::NotSent);
    assert_eq!(value(&history, 1), Ok(()));
    assert_eq!(missing(&history), Err(Violation::Lost));
    // It does not remove the excuse of an earlier delete either.
    acknowledged(&mut history, Write::Delete);
    let delete = history.begin(Write::Delete);
    end(&mut history, delete, WriteOutcome::NotSent);
    assert_eq!(missing(&history), Ok(()));
}

#[test]
fn permanently_overlapping_writes_are_forgotten_once_superseded() {
    let mut history = KeyHistory::default();
    let mut under_way = history.begin(Write::Put);
    for _ in 0..100 {
        let next = history.begin(Write::Put);
        end(&mut history, under_way, WriteOutcome::Acknowledged);
        under_way = next;
        assert!(history.open().count() <= 4, "of two clients");
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Records a put that was acknowledged at this time.
fn put(history: &mut KeyHistory, at: u64) {
    let sequence = history.begin(Write::Put);
    history.end(sequence, WriteOutcome::Acknowledged, || ms(at));
}

fn staleness_of(history: &KeyHistory, found: Result<(), Violation>, began: &ReadBegan) -> StaleBy {
    history.stale_by(found.expect_err("it is stale"), began).expect("ages are measured")
}

#[test]
fn staleness_counts_from_the_first_superseding_acknowledgement() {
    let mut history = KeyHistory::default().measuring_staleness(8);
    (1..=4).for_each(|n| put(&mut history, n * 10));
    let began = history.begin_read(|| ms(45));
    put(&mut history, 50); // after the read began, so irrelevant
    let found = history.judge_value(1, &began);
    let stale_by = staleness_of(&history, found, &began);
    assert_eq!(stale_by, StaleBy { age: Age::Exactly(ms(25)), behind: 3 });
    assert_eq!(history.judge_value(4, &began), Ok(()));
}

#[test]
fn overlapping_writes_do_not_make_each_other_stale() {
    let mut history = KeyHistory::default().measuring_staleness(8);
    put(&mut history, 10);
    let (second, third) = (history.begin(Write::Put), history.begin(Write::Put));
    history.end(third, WriteOutcome::Acknowledged, || ms(20));
    history.end(second, WriteOutcome::Acknowledged, || ms(30));
    let began = history.begin_read(|| ms(40));
    for seen in [2, 3] {
        assert_eq!(history.judge_value(seen, &began), Ok(()));
    }
    let found = history.judge_value(1, &began);
    let stale_by = staleness_of(&history, found, &began);
    assert_eq!(stale_by, StaleBy { age: Age::Exactly(ms(20)), behind: 2 });
}

#[test]
fn staleness_of_an_overlapped_write_counts_from_the_first_write_after_its_end() {
    let mut history = KeyHistory::default().measuring_staleness(8);
    let long = history.begin(Write::Put);
    put(&mut history, 10);
    put(&mut history, 20);
    history.end(long, WriteOutcome::Acknowledged, || ms(30));
    put(&mut history, 40);
    put(&mut history, 50);
    let began = history.begin_read(|| ms(60));
    let found = history.judge_value(long.into(), &began);
    let stale_by = staleness_of(&history, found, &began);
    assert_eq!(stale_by, StaleBy { age: Age::Exactly(ms(20)), behind: 2 });
    let found = history.judge_value(2, &began);
    let stale_by = staleness_of(&history, found, &began);
    assert_eq!(stale_by, StaleBy { age: Age::Exactly(ms(40)), behind: 4 });
}

#[test]
fn staleness_of_a_missing_key_counts_from_the_write_after_its_newest_delete() {
    let mut history = KeyHistory::default().measuring_staleness(8);
    put(&mut history, 10);
    let began = history.begin_read(|| ms(15));
    let found = history.judge_missing(&began);
    assert_eq!(staleness_of(&history, found, &began).age, Age::Exactly(ms(5)));
    let delete = history.begin(Write::Delete);
    history.end(delete, WriteOutcome::Acknowledged, || ms(20));
    (3..=5).for_each(|n| put(&mut history, n * 10));
    let began = history.begin_read(|| ms(55));
    let found = history.judge_missing(&began);
    assert_eq!(staleness_of(&history, found, &began).age, Age::Exactly(ms(25)));
}

#[test]
fn clock_is_not_read_without_staleness_tracking() {
    let mut history = KeyHistory::default();
    let sequence = history.begin(Write::Put);
    history.end(sequence, WriteOutcome::Acknowledged, || unreachable!("no age is measured"));
    let began = history.begin_read(|| unreachable!("no age is measured"));
    let found = history.judge_missing(&began).expect_err("it is lost");
    assert_eq!(history.stale_by(found, &began), None);
}
