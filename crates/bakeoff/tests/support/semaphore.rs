//! Provides a counting semaphore, for tests that may not all run at once.
//!
//! Unit tests of systems use it too.

use std::sync::{Condvar, Mutex, PoisonError};

/// A number of permits. A waiter gets the first one that is returned.
pub(crate) struct Semaphore {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Semaphore {
    pub(crate) const fn new(permits: usize) -> Self {
        Self { free: Mutex::new(permits), given_back: Condvar::new() }
    }

    /// Waits until `needed` permits are free, and takes them until the guard is dropped.
    pub(crate) fn acquire(&self, needed: usize) -> Permits<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.given_back.wait_while(free, |free| *free < needed);
        *free.unwrap_or_else(PoisonError::into_inner) -= needed;
        Permits { semaphore: self, taken: needed }
    }
}

/// Acquired permits, returned when dropped.
pub(crate) struct Permits<'a> {
    semaphore: &'a Semaphore,
    taken: usize,
}

impl Drop for Permits<'_> {
    fn drop(&mut self) {
        *self.semaphore.free.lock().unwrap_or_else(PoisonError::into_inner) += self.taken;
        self.semaphore.given_back.notify_all();
    }
}
