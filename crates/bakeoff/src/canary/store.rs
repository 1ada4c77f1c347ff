//! The canary's keys and values: a map in memory, in front of the log.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;

use super::Durability;
use super::log::{Entry, Log, Replayed};

/// Keys, values, and the log of both.
pub(super) struct Store {
    keys: Keys,
    log: Log,
}

/// Whether a write reaches the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    Yes,
    /// Gone after a restart.
    No,
}

impl Store {
    /// Replays the log in `dir`. `keep_previous` is for stale answers; it doubles the memory.
    pub(super) fn open(
        dir: &Path,
        durability: Durability,
        keep_previous: bool,
    ) -> io::Result<(Self, Replayed)> {
        let mut keys = Keys { map: BTreeMap::new(), live: 0, keep_previous };
        let (log, found) = Log::open(dir, durability, |entry| match entry {
            Entry::Put { key, value } => keys.set(key, Some(value)),
            Entry::Delete { key } => keys.set(key, None),
        })?;
        Ok((Self { keys, log }, found))
    }

    /// Visible at once, durable after [`Store::commit`].
    pub(super) fn put(&mut self, key: &[u8], value: &[u8], logged: Logged) {
        self.keys.set(key, Some(value));
        if logged == Logged::Yes {
            self.log.append(Entry::Put { key, value });
        }
    }

    /// As [`Store::put`].
    pub(super) fn delete(&mut self, key: &[u8], logged: Logged) {
        self.keys.set(key, None);
        if logged == Logged::Yes {
            self.log.append(Entry::Delete { key });
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.keys.map.get(key)?.now.as_deref()
    }

    /// The value that the newest write of this key replaced or deleted.
    pub(super) fn previous(&self, key: &[u8]) -> Option<&[u8]> {
        self.keys.map.get(key)?.previous.as_deref()
    }

    /// The keys that begin with `prefix`, sorted.
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

    /// Makes all writes so far as durable as was chosen, and returns the bytes that it took.
    pub(super) fn commit(&mut self) -> io::Result<usize> {
        self.log.commit()
    }
}

struct Keys {
    map: BTreeMap<Box<[u8]>, Versions>,
    live: usize,
    keep_previous: bool,
}

#[derive(Default)]
struct Versions {
    /// `None`: deleted, and kept for what was before.
    now: Option<Box<[u8]>>,
    previous: Option<Box<[u8]>>,
}

impl Keys {
    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(versions) = self.map.get_mut(key) else {
            if let Some(value) = value {
                let versions = Versions { now: Some(value.into()), previous: None };
                self.map.insert(key.into(), versions);
                self.live += 1;
            }
            return;
        };
        let old = std::mem::replace(&mut versions.now, value.map(Box::from));
        self.live = self.live + usize::from(value.is_some()) - usize::from(old.is_some());
        if !self.keep_previous {
            if value.is_none() {
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

    #[test]
    fn the_previous_value_is_known_after_an_update_a_deletion_and_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(dir.path(), Durability::PageCache, true).unwrap();
        store.put(b"a", b"1", Logged::Yes);
        assert_eq!((store.get(b"a"), store.previous(b"a")), (Some(&b"1"[..]), None));
        store.put(b"a", b"2", Logged::Yes);
        assert_eq!(store.previous(b"a"), Some(&b"1"[..]));
        store.delete(b"a", Logged::Yes);
        assert_eq!((store.get(b"a"), store.previous(b"a")), (None, Some(&b"2"[..])));
        assert_eq!(store.len(), 0);
        store.commit().unwrap();
        drop(store);
        let (store, _) = Store::open(dir.path(), Durability::PageCache, true).unwrap();
        assert_eq!((store.get(b"a"), store.previous(b"a")), (None, Some(&b"2"[..])));
    }

    #[test]
    fn a_list_holds_live_keys_with_the_prefix_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(dir.path(), Durability::PageCache, true).unwrap();
        for key in ["b/2", "a/1", "b/1", "b/3", "c/1", "b"] {
            store.put(key.as_bytes(), b"", Logged::Yes);
        }
        store.delete(b"b/2", Logged::Yes);
        assert_eq!(store.list(b"b/").collect::<Vec<_>>(), [b"b/1", b"b/3"]);
        assert_eq!(store.list(b"").count(), 5);
        assert_eq!(store.len(), 5);
    }

    #[test]
    fn a_write_that_is_not_logged_is_gone_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(dir.path(), Durability::PageCache, false).unwrap();
        store.put(b"kept", b"1", Logged::Yes);
        store.put(b"lost", b"1", Logged::No);
        store.commit().unwrap();
        assert!(store.get(b"lost").is_some());
        drop(store);
        let (store, found) = Store::open(dir.path(), Durability::PageCache, false).unwrap();
        assert_eq!((store.get(b"kept").is_some(), store.get(b"lost").is_some()), (true, false));
        assert_eq!(found.records, 1);
    }
}
