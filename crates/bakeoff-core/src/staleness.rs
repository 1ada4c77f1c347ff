//! Measures the staleness of reads: how long a value had been superseded when it was read.
//!
//! A read that returned write *s* of a key is stale if a later write of the key had been acknowledged before the read
//! began. Its age is the time from the first acknowledgement that certainly superseded *s* to the start of the read.
//! Both times come from one process, so clock skew does not matter. The acknowledgement came after the write took
//! effect, so the age is a lower bound. The ledger decides which writes certainly supersede others: overlapping
//! writes may be ordered either way, and do not supersede each other.
//!
//! Not here: deciding that a read is stale (`ledger`), reading the clock (the engine).

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::Latencies;

/// Time for which a value had been superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Exact time.
    Exactly(Duration),
    /// Lower bound: the superseding write is no longer remembered.
    AtLeast(Duration),
}

/// Describes the staleness of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleBy {
    /// Time for which its value had been superseded when the read began.
    pub age: Age,
    /// Number of later acknowledged writes by then. A lower bound if the age is one.
    pub behind: u32,
}

/// Judges a read that may be stale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadAge {
    /// Not judged: no read of a value, or a key without a history.
    #[default]
    Unjudged,
    /// Not known to be stale.
    Fresh,
    /// Stale; `None` for a list, whose staleness is unknown.
    Stale(Option<StaleBy>),
}

/// Remembers when one key's writes superseded earlier ones.
#[derive(Debug, Clone)]
pub struct SupersededWrites {
    /// Oldest first; sequence numbers and times ascend.
    ring: VecDeque<Step>,
    ring_max: usize,
    /// Number of acknowledged writes of the key.
    acknowledged: u32,
    /// Acknowledged writes that others overlapped after their start, and their ends, by sequence number; at most as
    /// many as `ring` holds.
    overlapped: VecDeque<(u32, u32)>,
    /// Greatest sequence number and greatest end of the forgotten entries.
    dropped: Option<(u32, u32)>,
}

/// Describes an acknowledged write that was acknowledged before all later ones. It superseded every write that ended
/// before it began.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Sequence number of the write.
    sequence: u32,
    /// Number of the key's writes that were acknowledged before it.
    before: u32,
    /// Time of its acknowledgement, relative to a moment common to all keys.
    at: Duration,
}

/// Number of writes that had begun when a given one ended. Later writes supersede it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritesAtEnd {
    Exactly(u32),
    /// Upper bound.
    By(u32),
}

impl SupersededWrites {
    /// Creates an empty history that remembers `ring_max` times, at least one.
    pub fn new(ring_max: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            ring_max: ring_max.max(1),
            acknowledged: 0,
            overlapped: VecDeque::new(),
            dropped: None,
        }
    }

    /// Records that write `sequence` was acknowledged at `at`, when `ended` was the newest write begun.
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
            debug_assert!(
                self.ring.back().is_none_or(|last| last.at <= at),
                "write {sequence} was acknowledged before an earlier one, at {at:?}"
            );
            if self.ring.len() == self.ring_max {
                self.ring.pop_front();
            }
            self.ring.push_back(Step { sequence, before, at });
        }
    }

    /// Returns the number of acknowledged writes.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Returns the end of an acknowledged write.
    pub(crate) fn ended(&self, sequence: u32) -> WritesAtEnd {
        match self.overlapped.binary_search_by_key(&sequence, |&(one, _)| one) {
            Ok(place) => WritesAtEnd::Exactly(self.overlapped[place].1),
            Err(_) => match self.dropped {
                Some((newest, ended)) if sequence <= newest => WritesAtEnd::By(ended.max(sequence)),
                _ => WritesAtEnd::Exactly(sequence),
            },
        }
    }

    /// Returns the staleness of a read that found a superseded write with this end. The read began at `began`, after
    /// `acknowledged` writes.
    pub(crate) fn stale_by(
        &self,
        ended: WritesAtEnd,
        began: Duration,
        acknowledged: u32,
    ) -> StaleBy {
        let (WritesAtEnd::Exactly(end) | WritesAtEnd::By(end)) = ended;
        let place = self.ring.partition_point(|step| step.sequence <= end);
        let Some(step) = self.ring.get(place) else {
            // The superseding write is older than everything remembered.
            return StaleBy { age: Age::AtLeast(Duration::ZERO), behind: 1 };
        };
        let age = began.saturating_sub(step.at);
        // Forgotten writes may precede the oldest remembered one.
        let first_known = place > 0 || step.before == 0;
        let is_exact = first_known && matches!(ended, WritesAtEnd::Exactly(_));
        StaleBy {
            age: if is_exact { Age::Exactly(age) } else { Age::AtLeast(age) },
            behind: acknowledged.saturating_sub(step.before).max(1),
        }
    }
}

/// Counts the staleness of the reads of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Staleness {
    /// Name of the node.
    pub node: String,
    /// Verified reads of keys with a history.
    pub reads: u64,
    /// Reads whose value had been superseded when they began.
    pub stale: u64,
    /// Exact ages of stale reads.
    pub exact: Latencies,
    /// Lower bounds of the ages that are not known exactly; disjoint from `exact`.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub at_least: Latencies,
    /// Sum of the versions that stale reads were behind.
    pub behind: u64,
    /// Maximum versions that a stale read was behind.
    pub behind_max: u32,
}

impl Staleness {
    /// Counts one read; ignores unjudged ones.
    pub fn count(&mut self, seen: ReadAge) {
        let stale_by = match seen {
            ReadAge::Unjudged | ReadAge::Stale(None) => return,
            ReadAge::Fresh => None,
            ReadAge::Stale(stale_by) => stale_by,
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
        debug_assert!(self.adds_up(), "{self:?}");
    }

    /// Returns true if each stale read has an age and is behind by a version.
    fn adds_up(&self) -> bool {
        self.stale <= self.reads
            && self.exact.count() + self.at_least.count() == self.stale
            && self.behind >= self.stale
    }

    /// Adds all of `other`; keeps this node's name.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.stale += other.stale;
        // Usually both are empty, and merging a histogram is expensive.
        if !other.exact.is_empty() {
            self.exact.merge(&other.exact);
        }
        if !other.at_least.is_empty() {
            self.at_least.merge(&other.at_least);
        }
        self.behind += other.behind;
        self.behind_max = self.behind_max.max(other.behind_max);
        debug_assert!(!other.adds_up() || self.adds_up(), "{self:?} with {other:?}");
    }

    /// Clears everything but the node's name, and keeps the memory.
    pub fn clear(&mut self) {
        (self.reads, self.stale, self.behind, self.behind_max) = (0, 0, 0, 0);
        self.exact.clear();
        self.at_least.clear();
    }

    /// Returns the share of stale reads, 0 to 1; `None` without reads.
    pub fn share(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.stale as f64 / self.reads as f64)
    }

    /// Returns the mean number of versions that a stale read was behind; `None` without stale reads.
    pub fn behind_mean(&self) -> Option<f64> {
        (self.stale > 0).then(|| self.behind as f64 / self.stale as f64)
    }

    /// Returns the age that a share of `quantile` (0 to 1) of the stale reads does not exceed. Returns `None` without
    /// stale reads, or beyond an hour. It is exact if no lower bound could change it.
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

    /// Returns a history of writes 1, 2, 3, …, each acknowledged 10 ms after the previous one.
    fn one_by_one(count: u32, ring_max: usize) -> SupersededWrites {
        let mut superseded = SupersededWrites::new(ring_max);
        (1..=count).for_each(|n| superseded.acknowledge(n, n, ms(u64::from(n) * 10)));
        superseded
    }

    #[test]
    fn age_counts_from_the_first_later_acknowledgement() {
        let superseded = one_by_one(5, 8);
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(57), 5);
        assert_eq!(stale_by(4), StaleBy { age: Age::Exactly(ms(7)), behind: 1 });
        assert_eq!(stale_by(1), StaleBy { age: Age::Exactly(ms(37)), behind: 4 });
        assert_eq!(stale_by(0), StaleBy { age: Age::Exactly(ms(47)), behind: 5 });
    }

    #[test]
    fn writes_acknowledged_after_the_read_began_do_not_count() {
        assert_eq!(
            one_by_one(5, 8).stale_by(WritesAtEnd::Exactly(1), ms(33), 3),
            StaleBy { age: Age::Exactly(ms(13)), behind: 2 }
        );
    }

    #[test]
    fn forgotten_writes_give_only_a_lower_bound() {
        let superseded = one_by_one(10, 3); // 8, 9 and 10 are remembered
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(105), 10);
        assert_eq!(stale_by(9), StaleBy { age: Age::Exactly(ms(5)), behind: 1 });
        assert_eq!(stale_by(8), StaleBy { age: Age::Exactly(ms(15)), behind: 2 });
        assert_eq!(stale_by(7), StaleBy { age: Age::AtLeast(ms(25)), behind: 3 });
        assert_eq!(stale_by(1), StaleBy { age: Age::AtLeast(ms(25)), behind: 3 });
    }

    #[test]
    fn overlapping_writes_are_superseded_by_later_ones() {
        let mut superseded = SupersededWrites::new(2);
        superseded.acknowledge(1, 3, ms(10)); // 2 and 3 were in flight
        superseded.acknowledge(2, 3, ms(20));
        superseded.acknowledge(3, 3, ms(30));
        superseded.acknowledge(4, 4, ms(40));
        let stale_by = |seen| superseded.stale_by(superseded.ended(seen), ms(50), 4);
        for seen in 1..=3 {
            assert_eq!(stale_by(seen), StaleBy { age: Age::Exactly(ms(10)), behind: 1 }, "{seen}");
        }
        // The end of forgotten writes has a known upper bound.
        superseded.acknowledge(5, 6, ms(50));
        superseded.acknowledge(6, 6, ms(60));
        superseded.acknowledge(7, 7, ms(70));
        assert_eq!(superseded.ended(1), WritesAtEnd::By(3));
        let stale_by = superseded.stale_by(superseded.ended(1), ms(80), 7);
        assert_eq!(stale_by, StaleBy { age: Age::AtLeast(ms(20)), behind: 2 });
    }

    fn old(age: Age, behind: u32) -> ReadAge {
        ReadAge::Stale(Some(StaleBy { age, behind }))
    }

    #[test]
    fn merged_staleness_equals_counting_together() {
        let reads = [
            ReadAge::Fresh,
            old(Age::Exactly(ms(3)), 1),
            ReadAge::Unjudged,
            old(Age::AtLeast(ms(9)), 7),
            ReadAge::Stale(None),
            old(Age::Exactly(ms(5)), 2),
        ];
        let of = |reads: &[ReadAge]| {
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
    fn age_that_a_lower_bound_could_change_is_a_lower_bound() {
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
