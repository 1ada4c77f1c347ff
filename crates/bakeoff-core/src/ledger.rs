//! Judges reads, and audits acknowledged writes, by the values that a key may hold.
//!
//! Writes to one key may overlap, and a system may order overlapping writes freely. So the ledger claims only what
//! holds for every order. A write is *superseded* once a write that began after its end is acknowledged. A superseded
//! write must not be read again. The acknowledged write that began last supersedes the most, so its number is enough.
//! For each write that others overlapped, the ledger remembers how many had begun when it ended, until it is
//! superseded. That is at most twice the number of clients.
//!
//! A write of unknown outcome (it timed out, or its connection broke) may take effect at any later time, so it is
//! never superseded. It excuses only itself. A key keeps a bounded number of them. If there are more, the ledger
//! claims nothing about the dropped ones and about writes that began after the first of those.
//! [`KeyHistory::claims_fully`] reports that.
//!
//! The staleness of a read follows from the same claim; see `staleness`.
//!
//! Not here: sharing a ledger between threads (the engine).

pub mod audit_keys;

use std::time::Duration;

use crate::staleness::{StaleBy, SupersededWrites, WritesAtEnd};

/// Default number of writes of unknown outcome that a key remembers.
const UNKNOWN_MAX: u16 = 64;

/// Holds the history of one key in 24 bytes. With their locks, two histories share a cache line, for which operations
/// wait. Rare fields are boxed.
#[derive(Debug, Clone)]
pub struct KeyHistory {
    /// Sequence number of the newest write begun.
    newest: u32,
    /// Sequence number of the newest acknowledged write; 0 if none.
    acknowledged: u32,
    /// Time of the last acknowledgement, in milliseconds since the ledger began.
    acknowledged_at: u32,
    /// Maximum number of remembered puts of unknown outcome.
    unknown_max: u16,
    /// True if the newest write is the only open write, and a put. False if [`RareState::open`] contains any: the next
    /// write moves it there.
    is_lone: bool,
    rare: Option<Box<RareState>>,
}

/// Holds the part of a history that few keys need.
#[derive(Debug, Clone, Default)]
struct RareState {
    /// Open writes by sequence number, except a [lone put](KeyHistory::is_lone). The memory is kept, because writes
    /// will overlap again.
    open: Vec<Open>,
    /// Greatest end of an acknowledged delete; 0 if none. See [`Open::ended`].
    delete_ended: u32,
    /// Greatest end among superseded writes that were removed from `open`.
    forgotten: u32,
    unknown: UnknownWrites,
    /// Times at which writes superseded others; `None` if staleness is not measured.
    superseded: Option<SupersededWrites>,
}

/// Describes a write that may still be read, or be ordered after an acknowledged one.
#[derive(Debug, Clone, Copy)]
struct Open {
    sequence: u32,
    write: Write,
    /// Newest write begun when this one was acknowledged; `None` while it is in flight. Once a later write than that
    /// is acknowledged, this one is superseded.
    ended: Option<u32>,
}

impl Open {
    #[inline]
    fn put(sequence: u32) -> Self {
        Self { sequence, write: Write::Put, ended: None }
    }
}

impl RareState {
    fn place(&self, sequence: u32) -> Option<usize> {
        self.open.binary_search_by_key(&sequence, |open| open.sequence).ok()
    }

    fn find(&self, sequence: u32) -> Option<Open> {
        self.place(sequence).map(|place| self.open[place])
    }

    /// Records that a write was acknowledged when `ended` was the newest write begun.
    fn acknowledge(&mut self, sequence: u32, write: Write, ended: u32) {
        debug_assert!(sequence <= ended, "write {sequence} ended before it began, after {ended}");
        if write == Write::Delete {
            self.delete_ended = self.delete_ended.max(ended);
        }
        match self.place(sequence) {
            Some(place) if ended == sequence => _ = self.open.remove(place),
            Some(place) => self.open[place].ended = Some(ended),
            None => {}
        }
    }

    /// Removes open writes that an acknowledgement has superseded.
    fn forget_superseded(&mut self, acknowledged: u32) {
        let forgotten = &mut self.forgotten;
        self.open.retain(|open| match open.ended {
            Some(ended) if ended < acknowledged => {
                *forgotten = ended.max(*forgotten);
                false
            }
            _ => true,
        });
        debug_assert!(
            *forgotten < acknowledged || acknowledged == 0,
            "the newest acknowledged write, {acknowledged}, may always be read; forgotten: {forgotten}"
        );
    }
}

/// Holds a key's writes of unknown outcome.
#[derive(Debug, Clone, Default)]
struct UnknownWrites {
    /// Sequence numbers of puts, in order.
    puts: Vec<u32>,
    /// True after a delete of unknown outcome, which excuses a missing key forever.
    delete: bool,
    /// Sequence number from which nothing is claimed, because there were too many.
    claims_until: Option<u32>,
}

impl UnknownWrites {
    fn add(&mut self, sequence: u32, write: Write, max: u16) {
        match write {
            Write::Delete => self.delete = true,
            Write::Put if self.puts.len() < usize::from(max) => {
                let place = self.puts.partition_point(|&one| one < sequence);
                debug_assert!(
                    self.puts.get(place) != Some(&sequence),
                    "write {sequence} ended twice"
                );
                self.puts.insert(place, sequence);
            }
            Write::Put => {
                let until = self.claims_until.map_or(sequence, |until| until.min(sequence));
                self.claims_until = Some(until);
            }
        }
    }

    /// Returns true if this write may be read at any time.
    fn excuses(&self, sequence: u32) -> bool {
        self.claims_until.is_some_and(|until| sequence >= until)
            || self.puts.binary_search(&sequence).is_ok()
    }
}

/// Holds the state of a key at the start of a read, by which the read is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBegan {
    /// Newest acknowledged write; 0 if none.
    pub newest: u32,
    /// Oldest write that the read may return. Earlier ones were superseded, unless their outcome is unknown.
    pub oldest_allowed: u32,
    /// Start of the read, relative to a moment common to all keys; zero if staleness is not measured.
    pub at: Duration,
    /// Number of acknowledged writes; 0 if staleness is not measured.
    pub acknowledged: u32,
}

/// Selects the kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Stores a value.
    Put,
    /// Removes the value.
    Delete,
}

/// Describes the outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The system acknowledged it.
    Acknowledged,
    /// It may have happened, or may still happen.
    Unknown,
    /// It certainly did not happen, because it was never sent.
    NotSent,
    /// It certainly did not happen, because the system refused it.
    Refused,
}

/// Describes why a read is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// The key is missing although a write was acknowledged.
    Lost,
    /// The read returned a superseded write: the sequence numbers of that write and of the newest acknowledged one.
    Stale(u32, u32),
    /// The read returned a write that was never begun.
    FromTheFuture(u32),
}

impl Default for KeyHistory {
    fn default() -> Self {
        Self::new(UNKNOWN_MAX)
    }
}

impl KeyHistory {
    /// Creates an empty history that remembers up to `unknown_max` puts of unknown outcome.
    pub fn new(unknown_max: u16) -> Self {
        Self {
            newest: 0,
            acknowledged: 0,
            acknowledged_at: 0,
            unknown_max,
            is_lone: false,
            rare: None,
        }
    }

    /// Also remembers when the last `ring_max` writes superseded others, to compute the staleness of reads.
    pub fn measuring_staleness(self, ring_max: usize) -> Self {
        let superseded = Some(SupersededWrites::new(ring_max));
        Self { rare: Some(Box::new(RareState { superseded, ..RareState::default() })), ..self }
    }

    /// Begins a write. Returns its sequence number, from 1, for [`Self::end`].
    #[inline]
    pub fn begin(&mut self, write: Write) -> u32 {
        self.newest = self.newest.wrapping_add(1);
        let sequence = self.newest;
        debug_assert!(sequence > 0, "a key has fewer than 2^32 writes");
        let is_alone = !self.is_lone && self.rare.as_ref().is_none_or(|rare| rare.open.is_empty());
        if write == Write::Put && is_alone {
            self.is_lone = true;
        } else {
            self.begin_among(Open { sequence, write, ended: None });
        }
        sequence
    }

    /// Begins a write that overlaps others or is a delete.
    fn begin_among(&mut self, open: Open) {
        let rare = self.rare.get_or_insert_default();
        if std::mem::take(&mut self.is_lone) {
            rare.open.push(Open::put(open.sequence.wrapping_sub(1)));
        }
        rare.open.push(open);
        debug_assert!(
            rare.open.is_sorted_by(|one, next| one.sequence < next.sequence),
            "open writes are found by their sequence number: {:?}",
            rare.open
        );
    }

    /// Ends a write by its sequence number. `at` returns the time, and is called only if staleness is measured.
    #[inline]
    pub fn end(&mut self, sequence: u32, outcome: WriteOutcome, at: impl FnOnce() -> Duration) {
        debug_assert!(sequence <= self.newest, "write {sequence} of {} ends", self.newest);
        let Some(Open { write, .. }) = self.find(sequence) else { return };
        match outcome {
            WriteOutcome::NotSent | WriteOutcome::Refused => self.remove(sequence),
            WriteOutcome::Unknown => {
                self.remove(sequence);
                let rare = self.rare.get_or_insert_default();
                rare.unknown.add(sequence, write, self.unknown_max);
            }
            WriteOutcome::Acknowledged => self.acknowledge(sequence, write, at),
        }
    }

    #[inline]
    fn acknowledge(&mut self, sequence: u32, write: Write, at: impl FnOnce() -> Duration) {
        let ended = self.newest;
        self.acknowledged = self.acknowledged.max(sequence);
        if self.has_lone(sequence) {
            self.is_lone = false;
        }
        if let Some(rare) = &mut self.rare {
            rare.acknowledge(sequence, write, ended);
            if let Some(superseded) = &mut rare.superseded {
                superseded.acknowledge(sequence, ended, at());
            }
            rare.forget_superseded(self.acknowledged);
        }
    }

    /// Sets the time of the last acknowledgement, in milliseconds since the ledger began.
    #[inline]
    pub fn acknowledged_at(&mut self, at_ms: u32) {
        self.acknowledged_at = at_ms;
    }

    /// Returns the time of the last acknowledgement, in milliseconds since the ledger began; `None` without one.
    pub fn last_acknowledged(&self) -> Option<u32> {
        self.has_acknowledged().then_some(self.acknowledged_at)
    }

    /// Iterates over the open writes by sequence number.
    #[inline]
    fn open(&self) -> impl Iterator<Item = Open> {
        let more = self.rare.iter().flat_map(|rare| rare.open.iter().copied());
        self.lone().into_iter().chain(more)
    }

    #[inline]
    fn find(&self, sequence: u32) -> Option<Open> {
        self.lone()
            .filter(|lone| lone.sequence == sequence)
            .or_else(|| self.rare.as_ref()?.find(sequence))
    }

    #[inline]
    fn lone(&self) -> Option<Open> {
        self.is_lone.then(|| Open::put(self.newest))
    }

    #[inline]
    fn has_lone(&self, sequence: u32) -> bool {
        self.is_lone && self.newest == sequence
    }

    fn remove(&mut self, sequence: u32) {
        if self.has_lone(sequence) {
            self.is_lone = false;
        }
        if let Some(rare) = &mut self.rare {
            rare.open.retain(|open| open.sequence != sequence);
        }
    }

    fn superseded(&self) -> Option<&SupersededWrites> {
        self.rare.as_ref()?.superseded.as_ref()
    }

    /// Returns the greatest end of the superseded writes that others overlapped.
    fn forgotten(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.forgotten)
    }

    fn delete_ended(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.delete_ended)
    }

    /// Begins a read. `at` is as for [`Self::end`].
    #[inline]
    pub fn begin_read(&self, at: impl FnOnce() -> Duration) -> ReadBegan {
        let oldest = self.open().next().map_or(u32::MAX, |open| open.sequence);
        let (newest, oldest_allowed) = (self.acknowledged, self.acknowledged.min(oldest));
        match self.superseded() {
            None => ReadBegan { newest, oldest_allowed, ..ReadBegan::default() },
            Some(superseded) => {
                let acknowledged = superseded.acknowledged();
                ReadBegan { newest, oldest_allowed, at: at(), acknowledged }
            }
        }
    }

    /// Returns the staleness of a read with this violation; `None` if staleness is not measured. A missing key counts
    /// as its newest delete, or as its state before any write.
    pub fn stale_by(&self, found: Violation, began: &ReadBegan) -> Option<StaleBy> {
        let superseded = self.superseded()?;
        let ended = match found {
            Violation::Stale(seen, _) => superseded.ended(seen),
            Violation::Lost => WritesAtEnd::Exactly(self.delete_ended()),
            Violation::FromTheFuture(_) => return None,
        };
        Some(superseded.stale_by(ended, began.at, began.acknowledged))
    }

    /// Returns the sequence number of the newest write begun; 0 if none.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Returns true if a write was acknowledged and must therefore be readable.
    pub fn has_acknowledged(&self) -> bool {
        self.acknowledged > 0
    }

    /// Returns true if the ledger would notice any loss of this key. Deletes of unknown outcome, or too many such
    /// puts, make it false.
    pub fn claims_fully(&self) -> bool {
        let unknown = self.rare.as_ref().map(|rare| &rare.unknown);
        unknown.is_none_or(|unknown| !unknown.delete && unknown.claims_until.is_none())
    }

    /// Judges a read that found sequence number `seen`.
    #[inline]
    pub fn judge_value(&self, seen: u64, began: &ReadBegan) -> Result<(), Violation> {
        debug_assert!(
            began.oldest_allowed <= began.newest && began.newest <= self.acknowledged,
            "a read began before its end: {began:?}, {} acknowledged",
            self.acknowledged
        );
        let Ok(seen) = u32::try_from(seen) else {
            return Err(Violation::FromTheFuture(u32::MAX));
        };
        if seen > self.newest {
            return Err(Violation::FromTheFuture(seen));
        }
        let unknown = self.rare.as_ref().is_some_and(|rare| rare.unknown.excuses(seen));
        if unknown || !self.was_superseded(seen, began) {
            return Ok(());
        }
        Err(Violation::Stale(seen, began.newest))
    }

    /// Returns true if a write of known outcome had certainly been superseded when the read began.
    #[inline]
    fn was_superseded(&self, seen: u32, began: &ReadBegan) -> bool {
        if seen >= began.newest || seen < began.oldest_allowed {
            return seen < began.oldest_allowed;
        }
        match self.find(seen) {
            Some(open) => open.ended.is_some_and(|ended| ended < began.newest),
            // It ended without overlap, was superseded meanwhile, or was never sent.
            None => self.forgotten() < began.newest,
        }
    }

    /// Judges a read that found nothing.
    pub fn judge_missing(&self, began: &ReadBegan) -> Result<(), Violation> {
        // A key may be missing if nothing was acknowledged, or if a delete was not superseded when the read began. A
        // delete in flight was not superseded, because it has not ended.
        let explained = began.newest == 0
            || self.delete_ended() >= began.newest
            || self.rare.as_ref().is_some_and(|rare| rare.unknown.delete)
            || self.open().any(|open| open.write == Write::Delete && open.ended.is_none());
        if explained { Ok(()) } else { Err(Violation::Lost) }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests;
