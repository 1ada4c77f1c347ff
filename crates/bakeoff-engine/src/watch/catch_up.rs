//! Follows watchers that begin with old events, until each knows the newest version of its keys.
//!
//! No write is in flight meanwhile, so that version stays the same. Time counts from the watcher's request, because a
//! server may send events before it confirms the watcher.
//!
//! Not here: what old events prove (`bakeoff_core::watch`), when the load begins (`party`).

use std::time::Instant;

use bakeoff_core::watch;

/// Follows watchers that begin with old events.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// Version of each key that a watcher must reach; 0 if it has none.
    targets: Vec<u32>,
    /// Number of keys that each watcher has not reached.
    missing: Vec<u32>,
    /// Number of watchers that have not reached all their keys.
    behind: u32,
    /// Time of each watcher's first request.
    requested: Vec<Option<Instant>>,
    /// Time of the first request.
    began: Option<Instant>,
    /// Time at which the last watcher caught up so far.
    reached: Option<Instant>,
    /// True once the load has begun.
    is_over: bool,
    figures: watch::CatchUp,
}

impl CatchUp {
    /// Begins with the version of each key to reach. `key_of` returns the only key of a watcher, or `None` for all.
    pub(super) fn new(
        targets: Vec<u32>,
        watchers: u32,
        key_of: impl Fn(u32) -> Option<u32>,
    ) -> Self {
        let all = targets.iter().filter(|&&version| version > 0).count() as u32;
        let missing = (0..watchers).map(|watcher| match key_of(watcher) {
            Some(key) => u32::from(targets[key as usize] > 0),
            None => all,
        });
        let missing: Vec<u32> = missing.collect();
        let behind = missing.iter().filter(|&&keys| keys > 0).count() as u32;
        let figures = watch::CatchUp { watchers: behind, ..watch::CatchUp::default() };
        let requested = vec![None; watchers as usize];
        let (began, reached, is_over) = (None, None, false);
        Self { targets, missing, behind, requested, began, reached, is_over, figures }
    }

    /// Notes that a watcher is requested.
    pub(super) fn requested(&mut self, watcher: u32, now: Instant) {
        self.began.get_or_insert(now);
        if let Some(requested) = self.requested.get_mut(watcher as usize) {
            requested.get_or_insert(now);
        }
    }

    /// Returns the version of a key that a watcher must reach; `None` if the load has begun, or the key has none.
    pub(super) fn target(&self, key: u32) -> Option<u32> {
        let target = self.targets.get(key as usize).copied();
        target.filter(|&version| version > 0 && !self.is_over)
    }

    /// Notes that a watcher has reached a key's target.
    pub(super) fn reached(&mut self, watcher: u32, now: Instant) {
        let Some(missing) = self.missing.get_mut(watcher as usize) else { return };
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.behind = self.behind.saturating_sub(1);
            self.reached = Some(now);
            let requested = self.requested[watcher as usize].unwrap_or(now);
            self.figures.took.record(now.saturating_duration_since(requested));
        }
    }

    /// Returns true if each watcher has reached all its keys.
    pub(super) fn is_complete(&self) -> bool {
        self.behind == 0
    }

    /// Notes the begin of the load. `events`: number of events before it.
    pub(super) fn end(&mut self, events: u64, now: Instant) {
        self.is_over = true;
        let ended = if self.is_complete() { self.reached } else { Some(now) };
        let lasted = self.began.zip(ended);
        self.figures.lasted =
            lasted.map(|(began, ended)| ended.saturating_duration_since(began)).unwrap_or_default();
        self.figures.events = events;
    }

    pub(super) fn figures(self) -> watch::CatchUp {
        self.figures
    }
}
