//! Spreads what is kept for each key over several mutexes, so that workers seldom wait for each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of mutexes.
pub(super) const PLACES: usize = 256;

/// State of keys, in the place of each key.
pub(super) struct Places<T>(Box<[Mutex<T>]>);

impl<T: Default> Default for Places<T> {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl<T> Places<T> {
    /// Locks the place of a key.
    pub(super) fn lock(&self, key: u64) -> MutexGuard<'_, T> {
        let place = &self.0[(key % PLACES as u64) as usize];
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
