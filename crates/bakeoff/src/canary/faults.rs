//! Chooses the fault of each request.
//!
//! It draws one number per request and compares it with the shares laid end to end. Each fault thus hits exactly its
//! share of the requests that it applies to, and no fault hides another. The same seed and order of requests give the
//! same faults.
//!
//! Not here: the truth about latencies (`truth`). A list of every injected fault with key and time would belong next to
//! [`Tally`].

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Delay of a cold canary, as a multiple of [`Faults::delay`].
const COLD: f64 = 30.0;

/// Faults to inject. Shares are from 0 to 1. The default has no faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Faults {
    pub(crate) seed: u64,
    /// Share of writes that are acknowledged but neither logged nor applied.
    pub(crate) lose: f64,
    /// Share of writes that are acknowledged and applied but not logged, and so lost at a restart.
    pub(crate) lose_on_restart: f64,
    /// Time that acknowledged writes may stay in memory before they are logged.
    pub(crate) write_every: Duration,
    /// Share of reads with one byte of the value changed.
    pub(crate) corrupt: f64,
    /// Share of reads whose body and connection end early.
    pub(crate) truncate: f64,
    /// Share of gets that return the value before the newest one, if there was one.
    pub(crate) stale: f64,
    /// Replication lag of every node but the first: gets return the store's state from this long ago.
    pub(crate) old: Duration,
    /// Share of writes that are refused with 409 and not applied. That is honest.
    pub(crate) deny: f64,
    /// Share of writes that are refused with 409 and applied nevertheless.
    pub(crate) dirty: f64,
    /// Share of writes that are acknowledged at once, and applied after the next write of their key.
    pub(crate) reorder: f64,
    /// Time from the start after which further nodes apply writes to a copy of their own; zero for never.
    pub(crate) split_after: Duration,
    /// Share of requests whose connection is closed instead of an answer.
    pub(crate) refuse: f64,
    /// Share of requests that are answered with 500 and not executed.
    pub(crate) error: f64,
    /// Delay of a 500.
    pub(crate) error_after: Duration,
    /// Share of injected errors that the canary also logs.
    pub(crate) complain: f64,
    /// Share of requests that are answered with bytes that are not HTTP, and not executed.
    pub(crate) garbage: f64,
    /// Delay of a finished answer.
    pub(crate) delay: Duration,
    /// Share of answers that are delayed.
    pub(crate) delay_share: f64,
    /// Duration of the one stall that stops everything.
    pub(crate) stall: Duration,
    /// Time from the start to the stall.
    pub(crate) stall_after: Duration,
    /// Time for which a compaction stops everything; it has none if zero.
    pub(crate) compact: Duration,
    /// Time from the start in which the canary answers 503.
    pub(crate) slow_start: Duration,
    /// Time from the first delayed answer in which delays are longer: at first [`COLD`] times [`Self::delay`], falling
    /// linearly.
    pub(crate) warm_up: Duration,
    /// Length of each burst that burns all CPUs.
    pub(crate) burn: Duration,
    /// Time from one burst to the next; a second if zero.
    pub(crate) burn_every: Duration,
    /// Bytes of memory that the canary takes at the first request.
    pub(crate) hold: u64,
    /// Time after which the process ends itself.
    pub(crate) die_after: Option<Duration>,
    /// Share of events that their watcher never receives.
    pub(crate) lose_event: f64,
    /// Share of events that their watcher receives twice.
    pub(crate) repeat_event: f64,
    /// Share of events that their watcher receives after the next one.
    pub(crate) swap_events: f64,
    /// Share of events that are followed by one of a key or value that nothing wrote.
    pub(crate) foreign_event: f64,
    /// Delay of each event. That is honest.
    pub(crate) late_event: Duration,
    /// Share of resumed watchers that never receive their next event.
    pub(crate) skip_on_resume: f64,
    /// Share of reports of progress that run ahead of the writes.
    pub(crate) early_bookmark: f64,
    /// Share of watchers that continue after a gap in the history without a report.
    pub(crate) stale_after_compaction: f64,
    /// Share of requests for a held lock that are granted.
    pub(crate) grant_twice: f64,
    /// Share of grants of a lock with the number of the grant before.
    pub(crate) same_token: f64,
    /// Share of transactions that write only half of their keys.
    pub(crate) half_transaction: f64,
    /// Share of transactions that are refused as a conflict and applied nevertheless.
    pub(crate) dirty_transaction: f64,
    /// Time between two ends of all watchers' connections; zero for none. That is honest.
    pub(crate) drop_watchers: Duration,
}

/// Outcome chosen for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Honest,
    Lose,
    LoseOnRestart,
    Corrupt,
    Truncate,
    Stale,
    Deny,
    Dirty,
    Reorder,
    Refuse,
    Error,
    Garbage,
    LoseEvent,
    RepeatEvent,
    SwapEvents,
    ForeignEvent,
}

/// Kind of a request or message, which decides the faults that apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Event,
}

/// Number of injected faults of each kind.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Tally {
    pub(super) lost: u64,
    pub(super) lost_on_restart: u64,
    pub(super) corrupted: u64,
    pub(super) truncated: u64,
    pub(super) stale: u64,
    /// Refused writes that were not applied, as they should not be.
    pub(super) denied: u64,
    /// Refused writes that were applied.
    pub(super) dirty: u64,
    /// Writes that were applied after a later one.
    pub(super) reordered: u64,
    /// Writes that only further nodes have.
    pub(super) split: u64,
    /// Gets through further nodes whose answer differed from the current state.
    pub(super) old: u64,
    pub(super) refused: u64,
    pub(super) errors: u64,
    pub(super) garbage: u64,
    pub(super) delayed: u64,
    pub(super) stalls: u64,
    /// Measured duration of the stalls.
    pub(super) stalled_ns: u64,
    pub(super) events_lost: u64,
    pub(super) events_repeated: u64,
    /// Events that were sent after the next one.
    pub(super) events_swapped: u64,
    pub(super) events_foreign: u64,
    /// Resumed watchers that missed an event.
    pub(super) resumes_skipped: u64,
    /// Reports of progress that ran ahead.
    pub(super) bookmarks_early: u64,
    /// Gaps in the history that were not reported.
    pub(super) gaps_hidden: u64,
    /// Grants of locks that were held.
    pub(super) granted_twice: u64,
    /// Grants with the number of the grant before.
    pub(super) tokens_repeated: u64,
    /// Transactions that wrote only half of their keys.
    pub(super) transactions_halved: u64,
    /// Refused transactions that were applied.
    pub(super) transactions_dirty: u64,
    /// Times that all watchers' connections were ended, which is honest.
    pub(super) watchers_dropped: u64,
}

impl Faults {
    fn shares(&self, kind: Kind) -> [(Fate, f64); 8] {
        let any =
            [(Fate::Refuse, self.refuse), (Fate::Error, self.error), (Fate::Garbage, self.garbage)];
        let [a, b, c] = any;
        match kind {
            Kind::Write => [
                a,
                b,
                c,
                (Fate::Lose, self.lose),
                (Fate::LoseOnRestart, self.lose_on_restart),
                (Fate::Deny, self.deny),
                (Fate::Dirty, self.dirty),
                (Fate::Reorder, self.reorder),
            ],
            Kind::Read => [
                a,
                b,
                c,
                (Fate::Corrupt, self.corrupt),
                (Fate::Truncate, self.truncate),
                (Fate::Stale, self.stale),
                (Fate::Honest, 0.0),
                (Fate::Honest, 0.0),
            ],
            Kind::Event => [
                (Fate::LoseEvent, self.lose_event),
                (Fate::RepeatEvent, self.repeat_event),
                (Fate::SwapEvents, self.swap_events),
                (Fate::ForeignEvent, self.foreign_event),
                (Fate::Honest, 0.0),
                (Fate::Honest, 0.0),
                (Fate::Honest, 0.0),
                (Fate::Honest, 0.0),
            ],
        }
    }

    /// Rejects shares that add up to more than 1.
    pub(super) fn check(&self) -> Result<(), TooManyFaults> {
        let kinds = [(Kind::Read, "reads"), (Kind::Write, "writes"), (Kind::Event, "events")];
        for (kind, name) in kinds {
            let sum = self.shares(kind).iter().map(|(_, share)| share).sum::<f64>();
            if sum > 1.0 + 1e-9 {
                return Err(TooManyFaults { name, sum });
            }
        }
        Ok(())
    }
}

/// Error of fault shares above 1 in total.
#[derive(Debug, thiserror::Error)]
#[error("the fault shares of {name} add up to {:.1} %, more than 100 %", sum * 100.0)]
pub(crate) struct TooManyFaults {
    /// `reads`, `writes` or `events`.
    name: &'static str,
    sum: f64,
}

impl Faults {
    /// Returns the delay of an answer at time `since` after the first delayed one.
    pub(super) fn delay_after(&self, since: Duration) -> Duration {
        if self.warm_up.is_zero() {
            return self.delay;
        }
        let left = self.warm_up.saturating_sub(since);
        self.delay.mul_f64(1.0 + (COLD - 1.0) * left.as_secs_f64() / self.warm_up.as_secs_f64())
    }
}

pub(super) struct Dice {
    random: Xoshiro256PlusPlus,
    /// Upper ends of the fates' intervals in [0, 1), for reads, writes and events.
    read: Vec<(Fate, f64)>,
    write: Vec<(Fate, f64)>,
    event: Vec<(Fate, f64)>,
    delay_share: f64,
    complain: f64,
}

impl Dice {
    pub(super) fn new(faults: &Faults) -> Self {
        let ends = |kind| {
            let mut end = 0.0;
            let shares = faults.shares(kind).into_iter().filter(|(_, share)| *share > 0.0);
            shares
                .map(|(fate, share)| {
                    end += share;
                    (fate, end)
                })
                .collect()
        };
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(faults.seed),
            read: ends(Kind::Read),
            write: ends(Kind::Write),
            event: ends(Kind::Event),
            delay_share: if faults.delay.is_zero() { 0.0 } else { faults.delay_share },
            complain: faults.complain,
        }
    }

    pub(super) fn fate(&mut self, kind: Kind) -> Fate {
        let ends = match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
            Kind::Event => &self.event,
        };
        if ends.is_empty() {
            return Fate::Honest;
        }
        let drawn = self.random.random::<f64>();
        ends.iter().find(|(_, end)| drawn < *end).map_or(Fate::Honest, |(fate, _)| *fate)
    }

    pub(super) fn delays(&mut self) -> bool {
        self.falls(self.delay_share)
    }

    pub(super) fn complains(&mut self) -> bool {
        self.falls(self.complain)
    }

    /// Returns true in this share of the calls.
    pub(super) fn falls(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.random::<f64>() < share
    }

    /// Changes one byte of a non-empty value.
    pub(super) fn corrupt(&mut self, value: &mut [u8]) {
        let at = self.random.random_range(0..value.len());
        value[at] ^= self.random.random_range(1..=u8::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_hits_its_share_of_requests() {
        let faults =
            Faults { refuse: 0.1, lose: 0.2, corrupt: 0.3, stale: 0.4, ..Faults::default() };
        let mut dice = Dice::new(&faults);
        let mut share_of = |kind, fate| {
            let hits = (0..100_000).filter(|_| dice.fate(kind) == fate).count();
            (hits as f64 / 1000.0).round() as u32
        };
        assert_eq!(share_of(Kind::Read, Fate::Refuse), 10);
        assert_eq!(share_of(Kind::Read, Fate::Corrupt), 30);
        assert_eq!(share_of(Kind::Read, Fate::Stale), 40);
        assert_eq!(share_of(Kind::Read, Fate::Honest), 20);
        assert_eq!(share_of(Kind::Read, Fate::Lose), 0);
        assert_eq!(share_of(Kind::Write, Fate::Lose), 20);
        assert_eq!(share_of(Kind::Write, Fate::Corrupt), 0);
    }

    #[test]
    fn same_seed_gives_the_same_faults() {
        let fates = |seed| {
            let mut dice = Dice::new(&Faults { seed, error: 0.5, ..Faults::default() });
            (0..64).map(|_| dice.fate(Kind::Read)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn corruption_changes_exactly_one_byte() {
        let mut dice = Dice::new(&Faults::default());
        for _ in 0..1000 {
            let mut value = [7; 16];
            dice.corrupt(&mut value);
            assert_eq!(value.iter().filter(|&&b| b != 7).count(), 1);
        }
    }
}
