//! Shares the versions of all keys between writers and watchers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bakeoff_core::ledger::{Write, WriteOutcome};
use bakeoff_core::watch::VersionLog;

use crate::clock;
use crate::work::OperationTiming;

/// Shares the versions of all keys between writers and watchers.
#[derive(Debug)]
pub struct SharedVersions {
    /// Origin of its times.
    since: Instant,
    /// Time from which writes are measured; 0 until it is known.
    measured_from: AtomicU64,
    keys: Vec<Mutex<VersionLog>>,
}

impl SharedVersions {
    /// Begins the logs of `keys` keys, of which `newest(key)` is the newest version.
    pub fn new(keys: u32, newest: impl Fn(u32) -> u32) -> Self {
        let logs = (0..keys).map(|key| Mutex::new(VersionLog::after(newest(key))));
        Self { since: clock::now(), measured_from: AtomicU64::new(0), keys: logs.collect() }
    }

    /// Returns the number of keys.
    pub fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Returns nanoseconds since the logs began; never 0.
    pub fn time(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.since).as_nanos() as u64 + 1
    }

    /// Sets the time from which writes are measured.
    pub fn measure_from(&self, at: Instant) {
        self.measured_from.store(self.time(at), Ordering::Relaxed);
    }

    /// Forgets the time from which writes are measured, because another load begins.
    pub(crate) fn measure_later(&self) {
        self.measured_from.store(0, Ordering::Relaxed);
    }

    /// Returns the time from which writes are measured; the greatest one until it is known.
    pub fn measured_from(&self) -> u64 {
        match self.measured_from.load(Ordering::Relaxed) {
            0 => u64::MAX,
            known => known,
        }
    }

    /// Returns the log of a key.
    ///
    /// # Panics
    /// If there is no such key.
    pub(crate) fn log(&self, key: u32) -> MutexGuard<'_, VersionLog> {
        self.keys[key as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_of(&self, key: u64) -> Option<MutexGuard<'_, VersionLog>> {
        let log = self.keys.get(usize::try_from(key).ok()?)?;
        Some(log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Logs the writes of one worker.
pub(crate) struct VersionRecorder {
    versions: Arc<SharedVersions>,
    /// Key and version of each ended operation whose times have not come; `None` if it was no write.
    ended: VecDeque<Option<(u64, u32)>>,
}

impl VersionRecorder {
    pub(crate) fn new(versions: Arc<SharedVersions>) -> Self {
        Self { versions, ended: VecDeque::new() }
    }

    /// Logs the beginning of a write. Call it with the key's history locked.
    pub(crate) fn begin(&self, key: u64, version: u32, write: Write) {
        if let Some(mut log) = self.versions.log_of(key) {
            log.begin(version, write, self.versions.time(clock::now()));
        }
    }

    /// Logs the end of a write.
    pub(crate) fn end(&self, key: u64, version: u32, outcome: WriteOutcome, is_void: bool) {
        if let Some(mut log) = self.versions.log_of(key) {
            log.end(version, outcome, self.versions.time(clock::now()), is_void);
        }
    }

    /// Notes an operation that ended, in the order of [`Self::answered`].
    pub(crate) fn ended(&mut self, write: Option<(u64, u32)>) {
        self.ended.push_back(write);
    }

    /// Logs when the next ended operation was due.
    pub(crate) fn answered(&mut self, timing: &OperationTiming) {
        let Some((key, version)) = self.ended.pop_front().flatten() else { return };
        if let Some(mut log) = self.versions.log_of(key) {
            log.was_due(version, self.versions.time(timing.due));
        }
    }
}
