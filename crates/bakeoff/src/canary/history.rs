//! Holds the newest changes of a store, for watchers that lag behind or resume.
//!
//! Not here: who receives them (`watch`), the changes on disk (`log`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Bytes that a change takes besides its key and its value.
const OVERHEAD: usize = 96;

/// One write.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: Box<[u8]>,
    /// New value; `None` for a delete.
    pub(super) value: Option<Arc<[u8]>>,
    /// Time of the write, or of its replay.
    pub(super) at: Instant,
}

impl Change {
    fn size(&self) -> usize {
        OVERHEAD + self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }
}

/// The newest changes by their places. Each write takes the next place, so there are no gaps.
#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Change>,
    /// Place of the last change.
    newest: u64,
    size: usize,
    size_max: usize,
}

impl History {
    /// Begins after a place, with at most `size_max` bytes.
    pub(super) fn after(place: u64, size_max: usize) -> Self {
        Self { changes: VecDeque::new(), newest: place, size: 0, size_max }
    }

    /// Returns the place of the last change.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the place of the first change that is kept; that of the next one if there is none.
    pub(super) fn first(&self) -> u64 {
        self.newest + 1 - self.changes.len() as u64
    }

    /// Returns the change of a place; `None` if it is gone or has not happened.
    pub(super) fn get(&self, place: u64) -> Option<&Change> {
        let index = place.checked_sub(self.first())?;
        self.changes.get(usize::try_from(index).ok()?)
    }

    /// Adds a change, and drops the oldest ones beyond the maximum size. The newest one stays.
    pub(super) fn push(&mut self, key: &[u8], value: Option<Arc<[u8]>>, at: Instant) {
        let change = Change { key: key.into(), value, at };
        self.newest += 1;
        self.size += change.size();
        self.changes.push_back(change);
        while self.size > self.size_max && self.changes.len() > 1 {
            let oldest = self.changes.pop_front();
            self.size -= oldest.map_or(0, |change| change.size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bakeoff_clock as clock;

    #[test]
    fn oldest_changes_are_dropped_and_places_stay() {
        let mut history = History::after(4, 3 * (OVERHEAD + 2));
        assert_eq!((history.first(), history.newest()), (5, 4));
        for number in 0..9_u8 {
            history.push(&[number], Some(Arc::from([number])), clock::now());
        }
        assert_eq!((history.first(), history.newest()), (11, 13));
        assert!(history.get(10).is_none() && history.get(14).is_none());
        for place in 11..=13 {
            assert_eq!(*history.get(place).unwrap().key, [place as u8 - 5]);
        }
        history.push(b"large", Some(Arc::from([0; 1000])), clock::now());
        assert_eq!((history.first(), history.newest()), (14, 14), "the newest stays");
    }
}
