//! Judges reads and audits acknowledged writes by the values that a key may hold.
//!
//! Writes to one key may overlap, and a system may order overlapping writes as it likes. So the
//! ledger claims only what no order can excuse: a write is *superseded* once a write that began
//! after it had ended is acknowledged, and what is superseded may not be read again. Of all
//! acknowledged writes the one that began last supersedes most, so one number says what has been
//! acknowledged. Of each write that others overlapped it is remembered how many had begun when it
//! ended, until it is superseded; never more of them than twice the clients.
//!
//! A write whose outcome is unknown (it timed out, its connection broke) may take effect at any
//! later time, so it is never superseded. It excuses itself and no other write. A bounded number
//! of them is kept for a key. Where there are more, nothing is claimed of these and of what began
//! after the first of them, and [`KeyHistory::claims_fully`] says so.
//!
//! The staleness of a read follows from the same claim: see `staleness`.
//!
//! Not here: who shares a ledger between threads (the engine).

pub mod audited;

use std::time::Duration;

use crate::staleness::{Ended, StaleBy, Superseded};

/// Default number of writes of unknown outcome that a key remembers.
const UNKNOWN_MAX: u16 = 64;

/// The history of one key, in 24 bytes, so that two with their locks share a line of a CPU's cache: operations wait for
/// it. What few keys have is elsewhere.
#[derive(Debug, Clone)]
pub struct KeyHistory {
    /// Sequence number of the newest write begun.
    newest: u32,
    /// Sequence number of the newest write acknowledged; 0 is none.
    acknowledged: u32,
    /// When a write was last acknowledged, in milliseconds since the ledger began.
    acknowledged_at: u32,
    /// Most puts of unknown outcome that are remembered.
    unknown_max: u16,
    /// True if the newest write is the one open write, and a put. False if [`Rare::open`] has any: another write that
    /// begins moves it there.
    is_lone: bool,
    rare: Option<Box<Rare>>,
}

/// The part of a history that few keys have.
#[derive(Debug, Clone, Default)]
struct Rare {
    /// The open writes, by sequence number, unless there is a [lone put](KeyHistory::is_lone). It keeps its memory: writes
    /// will overlap again.
    open: Vec<Open>,
    /// The greatest end of an acknowledged delete; 0 is none. See [`Open::ended`].
    delete_ended: u32,
    /// The greatest end of what was taken out of the open writes because it is superseded.
    forgotten: u32,
    unknown: Unknown,
    /// Moments at which writes superseded others; only where staleness is measured.
    superseded: Option<Superseded>,
}

/// A write that may still be read, or be ordered after one that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Open {
    sequence: u32,
    write: Write,
    /// The newest write begun when this one was acknowledged; `None` while it is under way. It is
    /// superseded once a later one than that is acknowledged.
    ended: Option<u32>,
}

impl Open {
    /// A put that is under way.
    #[inline]
    fn put(sequence: u32) -> Self {
        Self { sequence, write: Write::Put, ended: None }
    }
}

impl Rare {
    /// Returns where an open write is.
    fn place(&self, sequence: u32) -> Option<usize> {
        self.open.binary_search_by_key(&sequence, |open| open.sequence).ok()
    }

    fn find(&self, sequence: u32) -> Option<Open> {
        self.place(sequence).map(|place| self.open[place])
    }

    /// Notes that a write was acknowledged when `ended` was the newest begun.
    fn acknowledge(&mut self, sequence: u32, write: Write, ended: u32) {
        if write == Write::Delete {
            self.delete_ended = self.delete_ended.max(ended);
        }
        match self.place(sequence) {
            Some(place) if ended == sequence => _ = self.open.remove(place),
            Some(place) => self.open[place].ended = Some(ended),
            None => {}
        }
    }

    /// Forgets what the acknowledgement of a write has superseded.
    fn forget_superseded(&mut self, acknowledged: u32) {
        let forgotten = &mut self.forgotten;
        self.open.retain(|open| match open.ended {
            Some(ended) if ended < acknowledged => {
                *forgotten = ended.max(*forgotten);
                false
            }
            _ => true,
        });
    }
}

/// A key's writes of unknown outcome.
#[derive(Debug, Clone, Default)]
struct Unknown {
    /// Sequence numbers of puts, in order.
    puts: Vec<u32>,
    /// Whether there was a delete among them: it excuses a missing key for ever.
    delete: bool,
    /// From here on nothing is claimed, for there were too many.
    claims_until: Option<u32>,
}

impl Unknown {
    fn add(&mut self, sequence: u32, write: Write, max: u16) {
        match write {
            Write::Delete => self.delete = true,
            Write::Put if self.puts.len() < usize::from(max) => {
                let place = self.puts.partition_point(|&one| one < sequence);
                self.puts.insert(place, sequence);
            }
            Write::Put => {
                let until = self.claims_until.map_or(sequence, |until| until.min(sequence));
                self.claims_until = Some(until);
            }
        }
    }

    /// Returns whether this write may be read at any time.
    fn excuses(&self, sequence: u32) -> bool {
        self.claims_until.is_some_and(|until| sequence >= until)
            || self.puts.binary_search(&sequence).is_ok()
    }
}

/// State of a key at the beginning of a read, by which the read is judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBegan {
    /// The newest write acknowledged by then; 0 is none.
    pub newest: u32,
    /// Every write below was superseded by then, unless its outcome is unknown.
    pub oldest_allowed: u32,
    /// When it was, since a moment that is the same for all keys; zero where staleness is not measured.
    pub at: Duration,
    /// Number of acknowledged writes; 0 where staleness is not measured.
    pub acknowledged: u32,
}

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A value.
    Put,
    /// Its absence.
    Delete,
}

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The system said that it is done.
    Acknowledged,
    /// It may or may not have happened, or may happen yet.
    Unknown,
    /// It certainly did not happen: it was never sent.
    NotSent,
}

/// Fault of a read's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged write is gone: the key is missing.
    Lost,
    /// It returned an older write (sequence number seen) than one that superseded it (the newest
    /// acknowledged).
    Stale(u32, u32),
    /// It returned a write that was never begun.
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

    /// The same, which remembers when the last `ring_max` writes superseded others, so that it can
    /// tell how old a stale read was.
    pub fn measuring_staleness(self, ring_max: usize) -> Self {
        let superseded = Some(Superseded::new(ring_max));
        Self { rare: Some(Box::new(Rare { superseded, ..Rare::default() })), ..self }
    }

    /// Begins a write; returns its sequence number, from 1, which [`Self::end`] takes.
    #[inline]
    pub fn begin(&mut self, write: Write) -> u32 {
        self.newest = self.newest.wrapping_add(1);
        let sequence = self.newest;
        let is_alone = !self.is_lone && self.rare.as_ref().is_none_or(|rare| rare.open.is_empty());
        if write == Write::Put && is_alone {
            self.is_lone = true;
        } else {
            self.begin_among(Open { sequence, write, ended: None });
        }
        sequence
    }

    /// Begins a write that is not the only open one, or is no put.
    fn begin_among(&mut self, open: Open) {
        let rare = self.rare.get_or_insert_default();
        if std::mem::take(&mut self.is_lone) {
            rare.open.push(Open::put(open.sequence.wrapping_sub(1)));
        }
        rare.open.push(open);
    }

    /// Ends a write that was begun, by its sequence number. `at` is the time, since the moment that
    /// all times here count from; it is asked for only where staleness is measured.
    #[inline]
    pub fn end(&mut self, sequence: u32, outcome: WriteOutcome, at: impl FnOnce() -> Duration) {
        let Some(Open { write, .. }) = self.find(sequence) else { return };
        match outcome {
            WriteOutcome::NotSent => self.remove(sequence),
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

    /// Notes when a write was acknowledged, in milliseconds since the ledger began.
    #[inline]
    pub fn acknowledged_at(&mut self, at_ms: u32) {
        self.acknowledged_at = at_ms;
    }

    /// Returns when a write was last acknowledged, in milliseconds since the ledger began; `None` if none was.
    pub fn last_acknowledged(&self) -> Option<u32> {
        self.has_acknowledged().then_some(self.acknowledged_at)
    }

    /// The open writes, by sequence number.
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

    /// Returns the lone put.
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

    fn superseded(&self) -> Option<&Superseded> {
        self.rare.as_ref()?.superseded.as_ref()
    }

    /// The greatest end of what is superseded and was overlapped.
    fn forgotten(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.forgotten)
    }

    fn delete_ended(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.delete_ended)
    }

    /// A read begins. `at` as for [`Self::end`].
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

    /// Returns the staleness of a read in which this was found; `None` where staleness is not measured.
    /// A key that was missing stands for its newest delete, or for its state before any write.
    pub fn stale_by(&self, found: Violation, began: &ReadBegan) -> Option<StaleBy> {
        let superseded = self.superseded()?;
        let ended = match found {
            Violation::Stale(seen, _) => superseded.ended(seen),
            Violation::Lost => Ended::Exactly(self.delete_ended()),
            Violation::FromTheFuture(_) => return None,
        };
        Some(superseded.stale_by(ended, began.at, began.acknowledged))
    }

    /// Returns whether any write was acknowledged and must therefore show.
    pub fn has_acknowledged(&self) -> bool {
        self.acknowledged > 0
    }

    /// Returns whether every superseded write would be found out if it were read, and the key if it were
    /// gone: no delete has an unknown outcome, and no more other writes than are remembered.
    pub fn claims_fully(&self) -> bool {
        let unknown = self.rare.as_ref().map(|rare| &rare.unknown);
        unknown.is_none_or(|unknown| !unknown.delete && unknown.claims_until.is_none())
    }

    /// Judges a read that found sequence number `seen`.
    #[inline]
    pub fn judge_value(&self, seen: u64, began: &ReadBegan) -> Result<(), Violation> {
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

    /// Returns whether a write of known outcome had certainly been superseded when the read began.
    #[inline]
    fn was_superseded(&self, seen: u32, began: &ReadBegan) -> bool {
        if seen >= began.newest || seen < began.oldest_allowed {
            return seen < began.oldest_allowed;
        }
        match self.find(seen) {
            Some(open) => open.ended.is_some_and(|ended| ended < began.newest),
            // It ended with nothing that overlapped it, or was superseded meanwhile, or never sent.
            None => self.forgotten() < began.newest,
        }
    }

    /// Judges a read that found nothing.
    pub fn judge_missing(&self, began: &ReadBegan) -> Result<(), Violation> {
        // A key that had nothing acknowledged may be missing; so may one with a delete that was not
        // superseded when the read began. What is under way now was not, for it has not ended.
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
