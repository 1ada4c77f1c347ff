//! Logs the versions of one key: when each write began and ended, and how.

use crate::ledger::{Write, WriteOutcome};

/// Holds the times of one write, in nanoseconds since a common origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionTimes {
    /// Kind of write.
    pub write: Write,
    /// Time at which it was due; 0 until its answer arrived.
    pub due: u64,
    /// Time before it was sent.
    pub sent: u64,
    /// Time at which its end was known; 0 while it is in flight.
    pub ended: u64,
    /// Outcome; `None` while it is in flight.
    pub outcome: Option<WriteOutcome>,
    /// True if it changed nothing, as the delete of a missing key. It has no event.
    pub is_void: bool,
}

impl VersionTimes {
    /// Returns true if each watcher must learn of it.
    pub fn is_acknowledged(&self) -> bool {
        self.outcome == Some(WriteOutcome::Acknowledged) && !self.is_void
    }

    /// Returns true if the system proved that it never happened.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Some(WriteOutcome::Refused | WriteOutcome::NotSent))
    }
}

/// Logs the writes of one key since watchers were created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionLog {
    /// Newest version before the log began.
    base: u32,
    versions: Vec<VersionTimes>,
}

impl VersionLog {
    /// Begins a log after version `base`.
    pub fn after(base: u32) -> Self {
        Self { base, versions: Vec::new() }
    }

    /// Returns the newest version before the log began.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Returns the newest version that began.
    pub fn newest(&self) -> u32 {
        self.base + self.versions.len() as u32
    }

    /// Logs the beginning of a version. Versions begin in order.
    pub fn begin(&mut self, version: u32, write: Write, sent: u64) {
        debug_assert!(version == self.newest() + 1, "version {version} after {}", self.newest());
        let (due, ended, outcome, is_void) = (0, 0, None, false);
        self.versions.push(VersionTimes { write, due, sent, ended, outcome, is_void });
    }

    /// Logs the end of a version.
    pub fn end(&mut self, version: u32, outcome: WriteOutcome, ended: u64, is_void: bool) {
        if let Some(times) = self.place(version).and_then(|place| self.versions.get_mut(place)) {
            (times.ended, times.outcome, times.is_void) = (ended, Some(outcome), is_void);
        }
    }

    /// Logs when a version was due.
    pub fn was_due(&mut self, version: u32, due: u64) {
        if let Some(times) = self.place(version).and_then(|place| self.versions.get_mut(place)) {
            times.due = due;
        }
    }

    fn place(&self, version: u32) -> Option<usize> {
        version.checked_sub(self.base + 1).map(|place| place as usize)
    }

    /// Returns the times of a version; `None` if it did not begin since the log did.
    pub fn get(&self, version: u32) -> Option<&VersionTimes> {
        self.versions.get(self.place(version)?)
    }

    /// Returns all versions with their times, in order.
    pub fn versions(&self) -> impl Iterator<Item = (u32, &VersionTimes)> {
        (self.base + 1..).zip(&self.versions)
    }

    /// Returns true if version `older` ended before version `newer` began, so that no order puts it later. Versions
    /// before the log precede all others.
    pub fn precedes(&self, older: u32, newer: u32) -> bool {
        match (self.get(older), self.get(newer)) {
            (Some(older), Some(newer)) => older.is_acknowledged() && older.ended < newer.sent,
            (None, Some(_)) => older <= self.base,
            _ => false,
        }
    }

    /// Returns the time from which a version that ended earlier cannot be the last one: the latest beginning of an
    /// acknowledged write.
    pub fn last_began(&self) -> u64 {
        let acknowledged = self.versions.iter().filter(|times| times.is_acknowledged());
        acknowledged.map(|times| times.sent).max().unwrap_or(0)
    }
}
