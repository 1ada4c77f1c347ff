//! What a key may hold: the rule by which a read is judged and acknowledged writes are audited.
//!
//! Writes to one key may overlap, and a system may order overlapping writes as it likes. So the
//! ledger claims only what no order can excuse. An *epoch* of a key is a stretch in which its
//! writes overlap; it ends when none is under way. Once a write of an epoch has been acknowledged,
//! nothing from an earlier epoch may be read again. A write whose outcome is unknown (it timed out,
//! its connection broke) may take effect at any later time: it never leaves its epoch, so the key
//! makes no further claims beyond that epoch. This never accuses a correct system; on keys that are
//! written all the time it may overlook a stale read.
//!
//! How old a stale read was follows from the same claim: see `staleness`.
//!
//! Not here: who shares a ledger between threads (the engine).

use std::time::Duration;

use crate::staleness::{Lag, Superseded};

/// The history of one key, in 32 bytes, and what [`Superseded`] takes where ages are measured.
#[derive(Debug, Clone, Default)]
pub struct KeyHistory {
    /// Sequence number of the newest write begun.
    newest: u32,
    /// The oldest sequence number that may still be read.
    floor: u32,
    /// The first sequence number of the current epoch.
    epoch: u32,
    /// Writes begun and not known to have ended.
    under_way: u16,
    /// Sequence number of the newest delete begun; 0 is none.
    newest_delete: u32,
    /// When what was superseded; only where ages are measured.
    superseded: Option<Box<Superseded>>,
}

/// What is remembered of the moment at which a read began, to judge it by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBegan {
    /// [`KeyHistory::floor`] as it was then.
    pub floor: u32,
    /// When it was, since a moment that is the same for all keys; zero where ages are not measured.
    pub at: Duration,
    /// How many writes had been acknowledged; 0 where ages are not measured.
    pub acknowledged: u32,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A value.
    Put,
    /// Its absence.
    Delete,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The system said that it is done.
    Acknowledged,
    /// It may or may not have happened, or may happen yet.
    Unknown,
    /// It certainly did not happen: it was never sent.
    NotSent,
}

/// What is wrong with what a read returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged write is gone: the key is missing.
    Lost,
    /// It returned an older write (sequence number seen) than must be there (oldest allowed).
    Stale(u32, u32),
    /// It returned a write that was never begun.
    FromTheFuture(u32),
}

impl KeyHistory {
    /// An empty history that remembers when the last `ring_max` epochs were first acknowledged, so
    /// that it can tell how old a stale read was.
    pub fn measuring_ages(ring_max: usize) -> Self {
        Self { superseded: Some(Box::new(Superseded::new(ring_max))), ..Self::default() }
    }

    /// Begins a write; returns its sequence number, from 1.
    pub fn begin(&mut self, write: Write) -> u32 {
        self.newest = self.newest.wrapping_add(1);
        if self.under_way == 0 {
            self.epoch = self.newest;
        }
        self.under_way = self.under_way.saturating_add(1);
        if write == Write::Delete {
            self.newest_delete = self.newest;
        }
        self.newest
    }

    /// Ends a write that was begun. `at` is the time, since the moment that all times here count
    /// from; it is asked for only where ages are measured.
    pub fn end(&mut self, outcome: Outcome, at: impl FnOnce() -> Duration) {
        match outcome {
            Outcome::Unknown => return, // stays under way: it may still happen
            Outcome::NotSent => {}
            Outcome::Acknowledged => {
                self.floor = self.epoch;
                if let Some(superseded) = &mut self.superseded {
                    superseded.acknowledge(self.epoch, at());
                }
            }
        }
        // A count that saturated can no longer be trusted to reach zero, so it never does.
        if self.under_way < u16::MAX {
            self.under_way -= 1;
        }
    }

    /// The oldest sequence number that a read which begins now may return.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// A read begins. `at` as for [`Self::end`].
    pub fn begin_read(&self, at: impl FnOnce() -> Duration) -> ReadBegan {
        match &self.superseded {
            None => ReadBegan { floor: self.floor, ..ReadBegan::default() },
            Some(superseded) => {
                let acknowledged = superseded.acknowledged();
                ReadBegan { floor: self.floor, at: at(), acknowledged }
            }
        }
    }

    /// By how much a read was behind in which this was found; `None` where ages are not measured.
    /// A key that was missing stands for its newest delete, or for its state before any write.
    pub fn lag(&self, found: Violation, began: &ReadBegan) -> Option<Lag> {
        let seen = match found {
            Violation::Stale(seen, _) => seen,
            Violation::Lost => self.newest_delete,
            Violation::FromTheFuture(_) => return None,
        };
        self.superseded.as_ref()?.lag(seen, began.at, began.acknowledged)
    }

    /// Whether any write was acknowledged and must therefore show.
    pub fn has_acknowledged(&self) -> bool {
        self.floor > 0
    }

    /// Judges a read that found sequence number `seen`. `floor` is [`Self::floor`] as it was when
    /// the read began.
    pub fn judge_value(&self, seen: u64, floor: u32) -> Result<(), Violation> {
        match u32::try_from(seen) {
            Ok(seen) if seen < floor => Err(Violation::Stale(seen, floor)),
            Ok(seen) if seen > self.newest => Err(Violation::FromTheFuture(seen)),
            Ok(_) => Ok(()),
            Err(_) => Err(Violation::FromTheFuture(u32::MAX)),
        }
    }

    /// Judges a read that found nothing. `floor` as for [`Self::judge_value`].
    pub fn judge_missing(&self, floor: u32) -> Result<(), Violation> {
        // A key that had nothing acknowledged may be missing; so may one with a delete that nothing
        // later is known to have overwritten when the read began.
        let explained = floor == 0 || self.newest_delete >= floor;
        if explained { Ok(()) } else { Err(Violation::Lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staleness::Age;

    fn acknowledged(history: &mut KeyHistory, write: Write) -> u32 {
        let sequence = history.begin(write);
        history.end(Outcome::Acknowledged, || Duration::ZERO);
        sequence
    }

    #[test]
    fn the_newest_acknowledged_value_is_accepted_and_an_older_one_is_stale() {
        let mut history = KeyHistory::default();
        let first = acknowledged(&mut history, Write::Put);
        let second = acknowledged(&mut history, Write::Put);
        let floor = history.floor();
        assert_eq!(history.judge_value(second.into(), floor), Ok(()));
        assert_eq!(history.judge_value(first.into(), floor), Err(Violation::Stale(1, 2)));
        assert_eq!(history.judge_value(3, floor), Err(Violation::FromTheFuture(3)));
    }

    #[test]
    fn a_missing_key_is_lost_only_if_a_put_was_acknowledged_and_no_delete_explains_it() {
        let mut history = KeyHistory::default();
        assert_eq!(history.judge_missing(history.floor()), Ok(()));
        acknowledged(&mut history, Write::Put);
        assert_eq!(history.judge_missing(history.floor()), Err(Violation::Lost));
        let delete = acknowledged(&mut history, Write::Delete);
        assert_eq!(history.judge_missing(history.floor()), Ok(()));
        assert_eq!(history.judge_value(1, history.floor()), Err(Violation::Stale(1, delete)));
    }

    #[test]
    fn overlapping_writes_may_end_in_either_order() {
        let mut history = KeyHistory::default();
        let first = history.begin(Write::Put);
        let second = history.begin(Write::Put);
        history.end(Outcome::Acknowledged, || Duration::ZERO);
        history.end(Outcome::Acknowledged, || Duration::ZERO);
        for seen in [first, second] {
            assert_eq!(history.judge_value(seen.into(), history.floor()), Ok(()));
        }
    }

    #[test]
    fn a_write_of_unknown_outcome_may_show_at_any_later_time() {
        let mut history = KeyHistory::default();
        acknowledged(&mut history, Write::Put);
        let unknown = history.begin(Write::Put);
        history.end(Outcome::Unknown, || Duration::ZERO);
        for _ in 0..3 {
            acknowledged(&mut history, Write::Put);
        }
        assert_eq!(history.judge_value(unknown.into(), history.floor()), Ok(()));
        assert_eq!(history.judge_value(1, history.floor()), Err(Violation::Stale(1, 2)));
    }

    #[test]
    fn a_read_is_judged_by_the_floor_of_its_beginning() {
        let mut history = KeyHistory::default();
        let first = acknowledged(&mut history, Write::Put);
        let floor = history.floor();
        acknowledged(&mut history, Write::Put);
        assert_eq!(history.judge_value(first.into(), floor), Ok(()));
    }

    #[test]
    fn a_slow_read_may_miss_a_key_that_was_deleted_and_written_again_meanwhile() {
        let mut history = KeyHistory::default();
        acknowledged(&mut history, Write::Put);
        let floor = history.floor();
        acknowledged(&mut history, Write::Delete);
        acknowledged(&mut history, Write::Put);
        assert_eq!(history.judge_missing(floor), Ok(()));
        assert_eq!(history.judge_missing(history.floor()), Err(Violation::Lost));
    }

    #[test]
    fn a_write_that_was_never_sent_changes_nothing() {
        let mut history = KeyHistory::default();
        acknowledged(&mut history, Write::Put);
        history.begin(Write::Delete);
        history.end(Outcome::NotSent, || Duration::ZERO);
        assert_eq!(history.judge_value(1, history.floor()), Ok(()));
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A put that was acknowledged at this time.
    fn put(history: &mut KeyHistory, at: u64) {
        history.begin(Write::Put);
        history.end(Outcome::Acknowledged, || ms(at));
    }

    fn lag_of(history: &KeyHistory, found: Result<(), Violation>, began: &ReadBegan) -> Lag {
        history.lag(found.expect_err("it is stale"), began).expect("ages are measured")
    }

    #[test]
    fn a_stale_read_is_as_old_as_the_first_acknowledgement_that_superseded_it() {
        let mut history = KeyHistory::measuring_ages(8);
        (1..=4).for_each(|n| put(&mut history, n * 10));
        let began = history.begin_read(|| ms(45));
        put(&mut history, 50); // after the read began: no matter
        let found = history.judge_value(1, began.floor);
        let lag = lag_of(&history, found, &began);
        assert_eq!(lag, Lag { age: Age::Exactly(ms(25)), behind: 3 });
        assert_eq!(history.judge_value(4, began.floor), Ok(()));
    }

    #[test]
    fn overlapping_writes_make_no_read_of_one_of_them_stale_nor_older() {
        let mut history = KeyHistory::measuring_ages(8);
        put(&mut history, 10);
        history.begin(Write::Put);
        history.begin(Write::Put);
        history.end(Outcome::Acknowledged, || ms(20));
        history.end(Outcome::Acknowledged, || ms(30));
        let began = history.begin_read(|| ms(40));
        for seen in [2, 3] {
            assert_eq!(history.judge_value(seen, began.floor), Ok(()));
        }
        let found = history.judge_value(1, began.floor);
        let lag = lag_of(&history, found, &began);
        assert_eq!(lag, Lag { age: Age::Exactly(ms(20)), behind: 2 });
    }

    #[test]
    fn a_missing_key_is_as_old_as_what_followed_its_newest_delete() {
        let mut history = KeyHistory::measuring_ages(8);
        put(&mut history, 10);
        let began = history.begin_read(|| ms(15));
        let found = history.judge_missing(began.floor);
        assert_eq!(lag_of(&history, found, &began).age, Age::Exactly(ms(5)));
        history.begin(Write::Delete);
        history.end(Outcome::Acknowledged, || ms(20));
        (3..=5).for_each(|n| put(&mut history, n * 10));
        let began = history.begin_read(|| ms(55));
        let found = history.judge_missing(began.floor);
        assert_eq!(lag_of(&history, found, &began).age, Age::Exactly(ms(25)));
    }

    #[test]
    fn where_ages_are_not_measured_nobody_is_asked_for_the_time() {
        let mut history = KeyHistory::default();
        history.begin(Write::Put);
        history.end(Outcome::Acknowledged, || unreachable!("no age is measured"));
        let began = history.begin_read(|| unreachable!("no age is measured"));
        let found = history.judge_missing(began.floor).expect_err("it is lost");
        assert_eq!(history.lag(found, &began), None);
    }
}
