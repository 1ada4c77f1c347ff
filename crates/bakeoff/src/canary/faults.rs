//! Chooses the requests that are answered wrongly, and how.
//!
//! One number is drawn for each request and compared with the shares laid end to end, so that each
//! fault hits exactly its share of the requests that it can hit, and none hides another. The same
//! seed and the same order of requests give the same faults.
//!
//! A ground-truth mode (every fault that was injected written down, with its key and time, for a
//! checker to be compared with) has its place beside [`Tally`]. The truth about latencies is in `truth`.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Delay of a cold canary, in multiples of a warm one's.
const COLD: f64 = 30.0;

/// The faults to make. Shares are from 0 to 1; the default is to be honest.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Faults {
    /// The seed of the draws.
    pub(crate) seed: u64,
    /// Of writes: acknowledged, neither logged nor applied.
    pub(crate) lose: f64,
    /// Of writes: acknowledged and applied, not logged, so gone after a restart.
    pub(crate) lose_on_restart: f64,
    /// Acknowledged writes wait in memory for up to so long before they are logged.
    pub(crate) write_every: Duration,
    /// Of reads: one byte of the value is changed.
    pub(crate) corrupt: f64,
    /// Of reads: the body ends early, and the connection with it.
    pub(crate) truncate: f64,
    /// Of gets: the value before the newest one, where there was one.
    pub(crate) stale: f64,
    /// Further nodes answer gets with what the store held so long ago.
    pub(crate) old: Duration,
    /// Of all: the connection is closed in place of an answer.
    pub(crate) refuse: f64,
    /// Of all: 500, nothing done.
    pub(crate) error: f64,
    /// The delay of such an answer.
    pub(crate) error_after: Duration,
    /// Of those that are answered so: which share it writes an error about into its log.
    pub(crate) complain: f64,
    /// Of all: bytes that are no HTTP, nothing done.
    pub(crate) garbage: f64,
    /// The delay of an answer that could have gone out.
    pub(crate) delay: Duration,
    /// Of all: which share is delayed.
    pub(crate) delay_share: f64,
    /// Once, everything stops for this long.
    pub(crate) stall: Duration,
    /// How long after the start it does.
    pub(crate) stall_after: Duration,
    /// The time from the start in which it answers 503.
    pub(crate) slow_start: Duration,
    /// For how long after the first request the delay is longer: [`COLD`] times [`Self::delay`] at
    /// first, then ever less.
    pub(crate) warm_up: Duration,
    /// Length of each burst in which it burns all CPUs.
    pub(crate) burn: Duration,
    /// Time from one burst to the next; a second if zero.
    pub(crate) burn_every: Duration,
    /// Bytes of memory that it takes at the first request.
    pub(crate) hold: u64,
    /// The time after which the process ends by itself.
    pub(crate) die_after: Option<Duration>,
}

/// The fate of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Honest,
    Lose,
    LoseOnRestart,
    Corrupt,
    Truncate,
    Stale,
    Refuse,
    Error,
    Garbage,
}

/// The kind of a request, as far as faults go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// Counts of each fault.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Tally {
    pub(super) lost: u64,
    pub(super) lost_on_restart: u64,
    pub(super) corrupted: u64,
    pub(super) truncated: u64,
    pub(super) stale: u64,
    /// Gets of further nodes that were answered with something other than what is there.
    pub(super) old: u64,
    pub(super) refused: u64,
    pub(super) errors: u64,
    pub(super) garbage: u64,
    pub(super) delayed: u64,
    pub(super) stalls: u64,
    /// Their true duration.
    pub(super) stalled_ns: u64,
}

impl Faults {
    fn shares(&self, kind: Kind) -> [(Fate, f64); 6] {
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
                (Fate::Honest, 0.0),
            ],
            Kind::Read => [
                a,
                b,
                c,
                (Fate::Corrupt, self.corrupt),
                (Fate::Truncate, self.truncate),
                (Fate::Stale, self.stale),
            ],
        }
    }

    /// Shares that add up to more than everything cannot all be had.
    pub(super) fn check(&self) -> Result<(), TooManyFaults> {
        for (kind, name) in [(Kind::Read, "reads"), (Kind::Write, "writes")] {
            let sum = self.shares(kind).iter().map(|(_, share)| share).sum::<f64>();
            if sum > 1.0 + 1e-9 {
                return Err(TooManyFaults { name, sum });
            }
        }
        Ok(())
    }
}

/// Shares of faults that add up to more than all requests.
#[derive(Debug, thiserror::Error)]
#[error("the faults of {name} add up to {:.1} %, more than all of them", sum * 100.0)]
pub(crate) struct TooManyFaults {
    /// `reads` or `writes`.
    name: &'static str,
    sum: f64,
}

impl Faults {
    /// Returns how long a delayed answer waits, so long after the first request.
    pub(super) fn delay_after(&self, since: Duration) -> Duration {
        if self.warm_up.is_zero() {
            return self.delay;
        }
        let left = self.warm_up.saturating_sub(since);
        self.delay.mul_f64(1.0 + (COLD - 1.0) * left.as_secs_f64() / self.warm_up.as_secs_f64())
    }
}

/// Draws fates.
pub(super) struct Dice {
    random: Xoshiro256PlusPlus,
    /// Upper ends of the intervals that fates have in [0, 1), by kind.
    read: Vec<(Fate, f64)>,
    write: Vec<(Fate, f64)>,
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
            delay_share: if faults.delay.is_zero() { 0.0 } else { faults.delay_share },
            complain: faults.complain,
        }
    }

    pub(super) fn fate(&mut self, kind: Kind) -> Fate {
        let ends = match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
        };
        if ends.is_empty() {
            return Fate::Honest;
        }
        let drawn = self.random.random::<f64>();
        ends.iter().find(|(_, end)| drawn < *end).map_or(Fate::Honest, |(fate, _)| *fate)
    }

    pub(super) fn delays(&mut self) -> bool {
        self.delay_share > 0.0 && self.random.random::<f64>() < self.delay_share
    }

    pub(super) fn complains(&mut self) -> bool {
        self.complain > 0.0 && self.random.random::<f64>() < self.complain
    }

    /// Changes one byte of a value that is not empty.
    pub(super) fn corrupt(&mut self, value: &mut [u8]) {
        let at = self.random.random_range(0..value.len());
        value[at] ^= self.random.random_range(1..=u8::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_hits_its_share_of_what_it_can_hit() {
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
    fn the_same_seed_gives_the_same_faults() {
        let fates = |seed| {
            let mut dice = Dice::new(&Faults { seed, error: 0.5, ..Faults::default() });
            (0..64).map(|_| dice.fate(Kind::Read)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn corruption_always_changes_exactly_one_byte() {
        let mut dice = Dice::new(&Faults::default());
        for _ in 0..1000 {
            let mut value = [7; 16];
            dice.corrupt(&mut value);
            assert_eq!(value.iter().filter(|&&b| b != 7).count(), 1);
        }
    }
}
