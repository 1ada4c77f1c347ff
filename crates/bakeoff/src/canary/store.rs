//! Holds the canary's keys and values in memory, in front of the log.
//!
//! Not here: what watchers receive (`watch`).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_wire::canary::Frame;

use super::Durability;
use super::history::History;
use super::log::{Entry, Log, ReplayResult};
use super::transactions;

pub(super) struct Store {
    keys: Keys,
    log: Log,
}

/// Describes what a store keeps besides the newest values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeptStates {
    /// True to keep the value before the newest, for stale answers. It doubles the memory.
    pub(super) previous: bool,
    /// Time for which states are kept for [`Store::a_while_ago`].
    pub(super) lag: Duration,
    /// Bytes of changes that are kept for watchers.
    pub(super) history: usize,
}

/// Presence of a write in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogPresence {
    Yes,
    /// Lost at a restart.
    No,
}

impl Store {
    /// Replays the log in `dir`.
    pub(super) fn open(
        dir: &Path,
        durability: Durability,
        kept: KeptStates,
    ) -> io::Result<(Self, ReplayResult)> {
        let (map, pasts) = (BTreeMap::new(), BTreeMap::new());
        // The first write has place 2.
        let history = History::after(1, kept.history);
        let mut keys = Keys { map, live: 0, kept, pasts, history };
        let began = clock::now();
        let (log, found) = Log::open(dir, durability, |entry| match entry {
            Entry::Put { key, value } => keys.set(key, Some(value), began),
            Entry::Delete { key } => keys.set(key, None, began),
            Entry::PutAll { frames } => {
                let frames = transactions::frames(frames).unwrap_or_default();
                frames.iter().for_each(|frame| keys.set(frame.name, Some(frame.value), began));
            }
        })?;
        Ok((Self { keys, log }, found))
    }

    /// Sets a value. It is visible at once, and durable after [`Store::commit`].
    pub(super) fn put(&mut self, key: &[u8], value: &[u8], logged: LogPresence, now: Instant) {
        self.keys.remember(key, now);
        self.keys.set(key, Some(value), now);
        if logged == LogPresence::Yes {
            self.log.append(Entry::Put { key, value });
        }
    }

    /// Sets the values of several keys, like [`Store::put`]. A restart finds all of them or none.
    pub(super) fn put_all(&mut self, frames: &[Frame<'_>], now: Instant) {
        let mut record = Vec::new();
        for frame in frames {
            self.keys.remember(frame.name, now);
            self.keys.set(frame.name, Some(frame.value), now);
            frame.write(&mut record);
        }
        self.log.append(Entry::PutAll { frames: &record });
    }

    /// Deletes a key, like [`Store::put`].
    pub(super) fn delete(&mut self, key: &[u8], logged: LogPresence, now: Instant) {
        self.keys.remember(key, now);
        self.keys.set(key, None, now);
        if logged == LogPresence::Yes {
            self.log.append(Entry::Delete { key });
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.keys.map.get(key)?.now.as_deref()
    }

    /// Returns the value before the newest write of a key.
    pub(super) fn previous(&self, key: &[u8]) -> Option<&[u8]> {
        self.keys.map.get(key)?.previous.as_deref()
    }

    /// Returns the value one lag ago, and true if it was written since.
    pub(super) fn a_while_ago(&self, key: &[u8], now: Instant) -> (Option<&[u8]>, bool) {
        let past = self.keys.pasts.get(key).into_iter().flatten();
        let mut since = past.filter(|(written, _)| *written + self.keys.kept.lag > now);
        match since.next() {
            Some((_, before)) => (before.as_deref(), true),
            None => (self.get(key), false),
        }
    }

    /// Returns the keys that begin with `prefix`, sorted.
    pub(super) fn list<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = self.keys.map.range::<[u8], _>(from);
        keys.take_while(move |(key, _)| key.starts_with(prefix))
            .filter(|(_, versions)| versions.now.is_some())
            .map(|(key, _)| &**key)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.live
    }

    /// Returns the place of the last write among all writes, with those before a restart; 1 before the first.
    pub(super) fn place(&self) -> u64 {
        self.keys.history.newest()
    }

    /// Returns the changes that watchers may receive. Those since the last [`Store::commit`] must wait for the next.
    pub(super) fn history(&self) -> &History {
        &self.keys.history
    }

    /// Writes all changes to the log, synced if so configured, and returns the bytes written.
    pub(super) fn commit(&mut self) -> io::Result<usize> {
        self.log.commit()
    }
}

struct Keys {
    map: BTreeMap<Box<[u8]>, Versions>,
    live: usize,
    kept: KeptStates,
    /// Newest changes, and the place of the last one.
    history: History,
    /// Time of each recent write of a key and the value before it, oldest first.
    pasts: BTreeMap<Box<[u8]>, ValueHistory>,
}

type ValueHistory = VecDeque<(Instant, Option<Arc<[u8]>>)>;

#[derive(Default)]
struct Versions {
    /// `None` for a deleted key that is kept for its previous value.
    now: Option<Arc<[u8]>>,
    previous: Option<Arc<[u8]>>,
}

impl Keys {
    /// Keeps a key's value before a write, and drops values older than the lag.
    fn remember(&mut self, key: &[u8], now: Instant) {
        if self.kept.lag.is_zero() {
            return;
        }
        let there = self.map.get(key).and_then(|versions| versions.now.clone());
        let past = self.pasts.entry(key.into()).or_default();
        while past.front().is_some_and(|(written, _)| *written + self.kept.lag <= now) {
            past.pop_front();
        }
        past.push_back((now, there));
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>, now: Instant) {
        // The history shares the value.
        let value: Option<Arc<[u8]>> = value.map(Arc::from);
        self.history.push(key, value.clone(), now);
        let Some(versions) = self.map.get_mut(key) else {
            if let Some(value) = value {
                let versions = Versions { now: Some(value), previous: None };
                self.map.insert(key.into(), versions);
                self.live += 1;
            }
            return;
        };
        let is_delete = value.is_none();
        let old = std::mem::replace(&mut versions.now, value);
        self.live = self.live + usize::from(!is_delete) - usize::from(old.is_some());
        if !self.kept.previous {
            if is_delete {
                self.map.remove(key);
            }
        } else if old.is_some() {
            versions.previous = old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path, kept: KeptStates) -> (Store, ReplayResult) {
        Store::open(dir, Durability::PageCache, kept).unwrap()
    }

    const PREVIOUS: KeptStates = KeptStates { previous: true, lag: Duration::ZERO, history: 0 };

    #[test]
    fn previous_value_survives_update_deletion_and_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), PREVIOUS);
        store.put(b"a", b"1", LogPresence::Yes, clock::now());
        assert_eq!((store.get(b"a"), store.previous(b"a")), (Some(&b"1"[..]), None));
        store.put(b"a", b"2", LogPresence::Yes, clock::now());
        assert_eq!(store.previous(b"a"), Some(&b"1"[..]));
        store.delete(b"a", LogPresence::Yes, clock::now());
        assert_eq!((store.get(b"a"), store.previous(b"a")), (None, Some(&b"2"[..])));
        assert_eq!(store.len(), 0);
        store.commit().unwrap();
        drop(store);
        let (store, _) = open(dir.path(), PREVIOUS);
        assert_eq!((store.get(b"a"), store.previous(b"a")), (None, Some(&b"2"[..])));
    }

    #[test]
    fn list_holds_live_keys_with_the_prefix_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), PREVIOUS);
        for key in ["b/2", "a/1", "b/1", "b/3", "c/1", "b"] {
            store.put(key.as_bytes(), b"", LogPresence::Yes, clock::now());
        }
        store.delete(b"b/2", LogPresence::Yes, clock::now());
        assert_eq!(store.list(b"b/").collect::<Vec<_>>(), [b"b/1", b"b/3"]);
        assert_eq!(store.list(b"").count(), 5);
        assert_eq!(store.len(), 5);
    }

    #[test]
    fn unlogged_write_is_lost_at_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = open(dir.path(), KeptStates::default());
        store.put(b"kept", b"1", LogPresence::Yes, clock::now());
        store.put(b"lost", b"1", LogPresence::No, clock::now());
        store.commit().unwrap();
        assert!(store.get(b"lost").is_some());
        drop(store);
        let (store, found) = open(dir.path(), KeptStates::default());
        assert_eq!((store.get(b"kept").is_some(), store.get(b"lost").is_some()), (true, false));
        assert_eq!(found.records, 1);
    }

    #[test]
    fn stale_value_is_the_one_before_the_first_write_since() {
        let dir = tempfile::tempdir().unwrap();
        let lag = Duration::from_millis(50);
        let (mut store, _) = open(dir.path(), KeptStates { lag, ..KeptStates::default() });
        let start = clock::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        store.put(b"a", b"1", LogPresence::Yes, at(0));
        store.put(b"a", b"2", LogPresence::Yes, at(30));
        store.delete(b"a", LogPresence::Yes, at(60));
        store.put(b"a", b"3", LogPresence::Yes, at(90));
        let seen = |milliseconds| store.a_while_ago(b"a", at(milliseconds));
        // The first two are dropped by now: times only move forward.
        assert_eq!(seen(91), (Some(&b"2"[..]), true));
        assert_eq!(seen(109), (Some(&b"2"[..]), true));
        assert_eq!(seen(110), (None, true));
        assert_eq!(seen(139), (None, true));
        assert_eq!(seen(140), (Some(&b"3"[..]), false));
        assert_eq!(store.a_while_ago(b"b", at(140)), (None, false));
    }
}
