//! Staleness of reads: by how long a value had been superseded when it was read.
//!
//! A read that returned write *s* of a key is stale when a later write of the key had been
//! acknowledged before the read began. Its age is the time from the first acknowledgement that
//! certainly superseded *s* to the beginning of the read. Both are moments of one process, so that
//! no skew of clocks is in it; and the acknowledgement came later than the write took effect, so
//! that the value was at least so old. Which writes certainly supersede which is the ledger's claim:
//! writes that overlap may be ordered either way, and supersede nothing of each other.
//!
//! Not here: which reads are stale (`ledger`), who takes the times (the engine).

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;

/// Time for which a value had been superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Known exactly.
    Exactly(Duration),
    /// A lower bound: the write that superseded it is no longer remembered.
    AtLeast(Duration),
}

/// Staleness of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleBy {
    /// Time for which its value had been superseded when the read began.
    pub age: Age,
    /// Number of later acknowledged writes by then. A lower bound where the age is one.
    pub behind: u32,
}

/// Judgement of a read that may be stale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Seen {
    /// It was no read of a value, or nothing is remembered of its key.
    #[default]
    Unjudged,
    /// Nothing says that it was stale.
    Fresh,
    /// It was stale; by how much is not known of a list.
    Stale(Option<StaleBy>),
}

/// When one key's writes superseded those before them, as far back as is remembered.
#[derive(Debug, Clone)]
pub struct Superseded {
    /// Oldest first; sequence numbers and times rise.
    ring: VecDeque<Step>,
    ring_max: usize,
    /// Acknowledged writes of the key.
    acknowledged: u32,
    /// Acknowledged writes that others overlapped after their beginning, and their ends; by
    /// sequence number, as many as `ring` has at most.
    overlapped: VecDeque<(u32, u32)>,
    /// The greatest sequence number and the greatest end of those that are remembered no longer.
    dropped: Option<(u32, u32)>,
}

/// A write that was acknowledged before any that began later: it superseded what had ended before.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Its sequence number.
    sequence: u32,
    /// Writes of the key that were acknowledged before it.
    before: u32,
    /// When it was, since a moment that is the same for all keys.
    at: Duration,
}

/// Number of writes that had begun when a certain one ended: later ones supersede it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exactly(u32),
    /// Not later than this.
    By(u32),
}

impl Superseded {
    /// Nothing yet; remembers `ring_max` moments, at least one.
    pub fn new(ring_max: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            ring_max: ring_max.max(1),
            acknowledged: 0,
            overlapped: VecDeque::new(),
            dropped: None,
        }
    }

    /// Write `sequence` was acknowledged at `at`, when `ended` was the newest that had begun.
    pub(crate) fn acknowledge(&mut self, sequence: u32, ended: u32, at: Duration) {
        let before = self.acknowledged;
        self.acknowledged = self.acknowledged.saturating_add(1);
        if ended > sequence {
            let place = self.overlapped.partition_point(|&(one, _)| one < sequence);
            self.overlapped.insert(place, (sequence, ended));
            if self.overlapped.len() > self.ring_max
                && let Some((sequence, ended)) = self.overlapped.pop_front()
            {
                let dropped = self.dropped.unwrap_or_default();
                self.dropped = Some((dropped.0.max(sequence), dropped.1.max(ended)));
            }
        }
        if self.ring.back().is_none_or(|last| last.sequence < sequence) {
            if self.ring.len() == self.ring_max {
                self.ring.pop_front();
            }
            self.ring.push_back(Step { sequence, before, at });
        }
    }

    /// Returns how many writes have been acknowledged.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// When an acknowledged write ended.
    pub(crate) fn ended(&self, sequence: u32) -> Ended {
        match self.overlapped.binary_search_by_key(&sequence, |&(one, _)| one) {
            Ok(place) => Ended::Exactly(self.overlapped[place].1),
            Err(_) => match self.dropped {
                Some((newest, ended)) if sequence <= newest => Ended::By(ended.max(sequence)),
                _ => Ended::Exactly(sequence),
            },
        }
    }

    /// By how much a read was behind that found a write which `ended` then, though it had been
    /// superseded. The read began at `began`, when `acknowledged` writes were.
    pub(crate) fn stale_by(&self, ended: Ended, began: Duration, acknowledged: u32) -> StaleBy {
        let (Ended::Exactly(end) | Ended::By(end)) = ended;
        let place = self.ring.partition_point(|step| step.sequence <= end);
        let Some(step) = self.ring.get(place) else {
            // What superseded it came before all that is known of it.
            return StaleBy { age: Age::AtLeast(Duration::ZERO), behind: 1 };
        };
        let age = began.saturating_sub(step.at);
        // Before the oldest that is remembered there may have been others, if any was forgotten.
        let first_known = place > 0 || step.before == 0;
        let is_exact = first_known && matches!(ended, Ended::Exactly(_));
        StaleBy {
            age: if is_exact { Age::Exactly(age) } else { Age::AtLeast(age) },
            behind: acknowledged.saturating_sub(step.before).max(1),
        }
    }
}

/// Staleness of the reads of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// Which node, by its name.
    pub node: String,
    /// Verified reads of keys whose history is remembered.
    pub reads: u64,
    /// Number of these whose value had been superseded when they began.
    pub stale: u64,
    /// Ages of the stale ones.
    #[serde(rename = "ages", alias = "exact")]
    pub exact: Latencies,
    /// Lower bounds of those whose age is not known exactly: none is in `exact`.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub at_least: Latencies,
    /// Versions that the stale ones were behind, added up.
    pub behind: u64,
    /// The most versions that any was behind.
    pub behind_max: u32,
}

impl Staleness {
    /// Counts one read; what was not judged is not counted.
    pub fn count(&mut self, seen: Seen) {
        let stale_by = match seen {
            Seen::Unjudged | Seen::Stale(None) => return,
            Seen::Fresh => None,
            Seen::Stale(stale_by) => stale_by,
        };
        self.reads += 1;
        let Some(StaleBy { age, behind }) = stale_by else { return };
        self.stale += 1;
        match age {
            Age::Exactly(age) => self.exact.record(age),
            Age::AtLeast(age) => self.at_least.record(age),
        }
        self.behind += u64::from(behind);
        self.behind_max = self.behind_max.max(behind);
    }

    /// Adds all that `other` has; whose it is stays.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.stale += other.stale;
        // Most of the time there is nothing, and a histogram is long.
        if !other.exact.is_empty() {
            self.exact.merge(&other.exact);
        }
        if !other.at_least.is_empty() {
            self.at_least.merge(&other.at_least);
        }
        self.behind += other.behind;
        self.behind_max = self.behind_max.max(other.behind_max);
    }

    /// Forgets everything but whose it is; keeps the memory.
    pub fn clear(&mut self) {
        (self.reads, self.stale, self.behind, self.behind_max) = (0, 0, 0, 0);
        self.exact.clear();
        self.at_least.clear();
    }

    /// Stale reads by all, 0 to 1; `None` where nothing was read.
    pub fn share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.stale as f64 / self.reads as f64)
    }

    /// Versions that a stale read was behind, on average; `None` where there is none.
    pub fn behind_mean(&self) -> Option<f64> {
        (self.stale > 0).then(|| self.behind as f64 / self.stale as f64)
    }

    /// The age that a share of `quantile` (0 to 1) of the stale reads does not exceed; `None` where
    /// there is none, or where it lies beyond an hour. It is exact where those of which only a lower
    /// bound is known could be of any age without moving it.
    pub fn age(&self, quantile: f64) -> Option<Age> {
        if self.at_least.is_empty() {
            return self.exact.quantile(quantile).map(Age::Exactly);
        }
        let mut all = self.exact.clone();
        all.merge(&self.at_least);
        let least = all.quantile(quantile)?;
        let rank = (quantile * all.count() as f64).ceil().max(1.0);
        let known = self.exact.count() as f64;
        let most = if rank > known { None } else { self.exact.quantile(rank / known) };
        Some(if most == Some(least) { Age::Exactly(least) } else { Age::AtLeast(least) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Writes 1, 2, 3, … one after the other, each acknowledged 10 ms after the last.
    fn one_by_one(count: u32, ring_max: usize) -> Superseded {
        let mut superseded = Superseded::new(ring_max);
        (1..=count).for_each(|n| superseded.acknowledge(n, n, ms(u64::from(n) * 10)));
        superseded
    }

    #[test]
    fn a_value_is_as_old_as_the_first_write_after_it_has_been_acknowledged() {
        let superseded = one_by_one(5, 8);
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(57), 5);
        assert_eq!(stale_by(4), StaleBy { age: Age::Exactly(ms(7)), behind: 1 });
        assert_eq!(stale_by(1), StaleBy { age: Age::Exactly(ms(37)), behind: 4 });
        assert_eq!(stale_by(0), StaleBy { age: Age::Exactly(ms(47)), behind: 5 });
    }

    #[test]
    fn writes_acknowledged_after_the_read_began_do_not_count() {
        assert_eq!(
            one_by_one(5, 8).stale_by(Ended::Exactly(1), ms(33), 3),
            StaleBy { age: Age::Exactly(ms(13)), behind: 2 }
        );
    }

    #[test]
    fn of_what_is_forgotten_only_a_lower_bound_is_told() {
        let superseded = one_by_one(10, 3); // 8, 9 and 10 are remembered
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(105), 10);
        assert_eq!(stale_by(9), StaleBy { age: Age::Exactly(ms(5)), behind: 1 });
        assert_eq!(stale_by(8), StaleBy { age: Age::Exactly(ms(15)), behind: 2 });
        assert_eq!(stale_by(7), StaleBy { age: Age::AtLeast(ms(25)), behind: 3 });
        assert_eq!(stale_by(1), StaleBy { age: Age::AtLeast(ms(25)), behind: 3 });
    }

    #[test]
    fn overlapping_writes_are_superseded_by_later_ones() {
        let mut superseded = Superseded::new(2);
        superseded.acknowledge(1, 3, ms(10)); // 2 and 3 were under way
        superseded.acknowledge(2, 3, ms(20));
        superseded.acknowledge(3, 3, ms(30));
        superseded.acknowledge(4, 4, ms(40));
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(50), 4);
        for seen in 1..=3 {
            assert_eq!(stale_by(seen), StaleBy { age: Age::Exactly(ms(10)), behind: 1 }, "{seen}");
        }
        // Of those that are remembered no longer the end is known not to be later.
        superseded.acknowledge(5, 6, ms(50));
        superseded.acknowledge(6, 6, ms(60));
        superseded.acknowledge(7, 7, ms(70));
        assert_eq!(superseded.ended(1), Ended::By(3));
        let stale_by = superseded.stale_by(superseded.ended(1), ms(80), 7);
        assert_eq!(stale_by, StaleBy { age: Age::AtLeast(ms(20)), behind: 2 });
    }

    fn old(age: Age, behind: u32) -> Seen {
        Seen::Stale(Some(StaleBy { age, behind }))
    }

    #[test]
    fn staleness_merges_as_if_it_had_been_counted_together() {
        let reads = [
            Seen::Fresh,
            old(Age::Exactly(ms(3)), 1),
            Seen::Unjudged,
            old(Age::AtLeast(ms(9)), 7),
            Seen::Stale(None),
            old(Age::Exactly(ms(5)), 2),
        ];
        let of = |reads: &[Seen]| {
            let mut of = Staleness::default();
            reads.iter().for_each(|&read| of.count(read));
            of
        };
        let whole = of(&reads);
        assert_eq!((whole.reads, whole.stale), (4, 3));
        assert_eq!((whole.behind, whole.behind_max), (10, 7));
        let mut merged = of(&reads[..3]);
        merged.merge(&of(&reads[3..]));
        assert_eq!(merged, whole);
        merged.clear();
        assert_eq!(merged, Staleness::default());
    }

    #[test]
    fn an_age_that_a_lower_bound_could_move_is_told_as_one() {
        let mut of = Staleness::default();
        (0..98).for_each(|_| of.count(old(Age::Exactly(ms(10)), 1)));
        (0..2).for_each(|_| of.count(old(Age::AtLeast(ms(4)), 1)));
        let near = |age: Option<Age>| match age.expect("there are stale reads") {
            Age::Exactly(age) => ("exactly", age.as_secs_f64() * 1e3),
            Age::AtLeast(age) => ("at least", age.as_secs_f64() * 1e3),
        };
        let (word, median) = near(of.age(0.5));
        assert!(word == "exactly" && (median - 10.0).abs() < 0.1, "{word} {median}");
        assert_eq!(near(of.age(0.99)).0, "at least");
        assert_eq!(near(of.age(1.0)).0, "at least");
        assert_eq!(Staleness::default().age(0.5), None);
    }
}
