//! Executes transactions of several keys: all are read at once, or all written at once if none has changed.
//!
//! A request holds a frame for each key, as watches have them. The answer to `POST /look` holds the values, and a tag of
//! them as place of each frame. `POST /move` names the tag that the keys must still have.
//!
//! Not here: other requests (`service`), the log (`log`).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use bakeoff_wire::canary::{self, Frame, FrameKind};

use super::faults::{Dice, Faults, Tally};
use super::store::Store;

/// Result of a `move`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveResult {
    Done,
    /// The keys have another tag, so nothing was written.
    Conflict,
}

/// Appends the values of the keys that a request names; `None` if the request breaks the protocol.
pub(super) fn look(store: &Store, body: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let keys = frames(body)?;
    let place = tag(store, &keys);
    for Frame { name, .. } in keys {
        let (kind, value) = match store.get(name) {
            Some(value) => (FrameKind::Put, value),
            None => (FrameKind::Delete, &[][..]),
        };
        Frame { kind, watcher: 0, place, name, value }.write(out);
    }
    Some(())
}

/// Writes the keys of a request unless one has changed; `None` if the request breaks the protocol.
pub(super) fn write_all(
    store: &mut Store,
    body: &[u8],
    now: Instant,
    (faults, dice, tally): (&Faults, &mut Dice, &mut Tally),
) -> Option<MoveResult> {
    let mut keys = frames(body)?;
    if keys.iter().any(|key| key.place != tag(store, &keys)) {
        return Some(MoveResult::Conflict);
    }
    if dice.falls(faults.half_transaction) {
        tally.transactions_halved += 1;
        keys.truncate(keys.len() / 2);
    }
    store.put_all(&keys, now);
    if dice.falls(faults.dirty_transaction) {
        tally.transactions_dirty += 1;
        return Some(MoveResult::Conflict);
    }
    Some(MoveResult::Done)
}

/// Returns the frames of a request; `None` if it is incomplete or has none.
pub(super) fn frames(mut body: &[u8]) -> Option<Vec<Frame<'_>>> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let (frame, length) = canary::read(body).ok()??;
        all.push(frame);
        body = body.get(length..)?;
    }
    (!all.is_empty()).then_some(all)
}

/// Returns a number that changes with the values of keys; 0 if all are missing.
fn tag(store: &Store, keys: &[Frame<'_>]) -> u64 {
    let values = || keys.iter().map(|key| store.get(key.name));
    if values().all(|value| value.is_none()) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    values().for_each(|value| value.hash(&mut hasher));
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use bakeoff_clock as clock;

    use super::super::Durability;
    use super::super::store::KeptStates;
    use super::*;

    fn request(place: u64, pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (name, value) in pairs {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            Frame { kind: FrameKind::Put, watcher: 0, place, name, value }.write(&mut body);
        }
        body
    }

    fn open(dir: &std::path::Path) -> Store {
        Store::open(dir, Durability::PageCache, KeptStates::default()).unwrap().0
    }

    #[test]
    fn transaction_happens_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let faults = Faults::default();
        let (mut dice, mut tally) = (Dice::new(&faults), Tally::default());
        let mut write = |store: &mut Store, place, value| {
            let body = request(place, &[("a", value), ("b", value)]);
            write_all(store, &body, clock::now(), (&faults, &mut dice, &mut tally)).unwrap()
        };
        let read = |store: &Store| {
            let mut out = Vec::new();
            look(store, &request(0, &[("a", ""), ("b", "")]), &mut out).unwrap();
            let frames = frames(&out).unwrap();
            let values = frames.iter().map(|frame| frame.value.escape_ascii().to_string());
            (frames[0].place, values.collect::<Vec<_>>())
        };
        assert_eq!(read(&store), (0, vec![String::new(), String::new()]));
        assert_eq!(write(&mut store, 5, "0"), MoveResult::Conflict);
        assert_eq!(write(&mut store, 0, "1"), MoveResult::Done);
        assert_eq!(write(&mut store, 0, "2"), MoveResult::Conflict);
        let (first, values) = read(&store);
        assert_eq!(values, ["1", "1"]);
        assert_eq!(write(&mut store, first, "3"), MoveResult::Done);
        assert_eq!(write(&mut store, first, "4"), MoveResult::Conflict);
        store.commit().unwrap();
        drop(store);
        assert_eq!(read(&open(dir.path())).1, ["3", "3"], "after a restart");
    }

    #[test]
    fn damaged_request_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let whole = request(0, &[("a", "1")]);
        for body in [&b""[..], b"x", &whole[..whole.len() - 1]] {
            assert_eq!(look(&store, body, &mut Vec::new()), None, "{body:?}");
        }
    }
}
