//! Handles Ctrl-C.
//!
//! The first interrupt ends the set-up or the load and gives the clean-up a limited time. The second one ends the
//! clean-up, which then lists the objects left behind. Normally a second signal ends the program at once. Resetting
//! the flag after each signal prevents that.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

/// Interval between checks for a signal: shorter than a double key press.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Number of interrupts, and the time of the first.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    count: AtomicU32,
    first: OnceLock<Instant>,
    /// True after the first interrupt. The load reads it.
    pub(super) asked: AtomicBool,
    over: AtomicBool,
}

impl Interrupts {
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the time since the first interrupt.
    pub(super) fn since_first(&self) -> Option<Duration> {
        self.first.get().map(|first| clock::now().saturating_duration_since(*first))
    }

    /// Runs `what` while counting the signals that set `flag`.
    pub(super) fn during<T>(&self, flag: &AtomicBool, what: impl FnOnce(&Self) -> T) -> T {
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !self.over.load(Ordering::Relaxed) {
                    if flag.swap(false, Ordering::Relaxed) {
                        self.first.get_or_init(clock::now);
                        self.count.fetch_add(1, Ordering::Relaxed);
                        self.asked.store(true, Ordering::Relaxed);
                    }
                    thread::park_timeout(CHECK_EVERY);
                }
            });
            // Stops the watcher even if `what` panics, because the scope waits for it.
            let _ending = WatcherGuard { interrupts: self, watcher: watcher.thread() };
            what(self)
        })
    }
}

struct WatcherGuard<'a> {
    interrupts: &'a Interrupts,
    watcher: &'a thread::Thread,
}

impl Drop for WatcherGuard<'_> {
    fn drop(&mut self) {
        self.interrupts.over.store(true, Ordering::Relaxed);
        self.watcher.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_counted_and_resets_the_flag() {
        let flag = AtomicBool::new(false);
        Interrupts::default().during(&flag, |interrupts| {
            for expected in 1..=2 {
                assert!(!flag.swap(true, Ordering::Relaxed));
                while interrupts.count() < expected {
                    thread::yield_now();
                }
                assert!(interrupts.asked.load(Ordering::Relaxed));
            }
        });
        assert!(!flag.load(Ordering::Relaxed));
    }
}
