//! The effect of Ctrl-C at each moment.
//!
//! The first one ends the set-up or the load and lets the clean-up go on for a while; the second ends the
//! clean-up, which then says what it leaves behind. The program's own rule, that a second signal
//! ends it at once, is kept off by taking each one as soon as it comes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

/// How soon a signal is taken: sooner than anybody presses keys twice.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often the user has asked for the end.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    count: AtomicU32,
    first: OnceLock<Instant>,
    /// The user has asked at least once: what the load is told.
    pub(super) asked: AtomicBool,
    over: AtomicBool,
}

impl Interrupts {
    /// Returns how often the user has asked for the end.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the time since the user asked for the end first, if that happened.
    pub(super) fn since_first(&self) -> Option<Duration> {
        self.first.get().map(|first| clock::now().saturating_duration_since(*first))
    }

    /// Does `what` while signals, which set `flag`, are counted.
    pub(super) fn during<T>(&self, flag: &AtomicBool, what: impl FnOnce(&Self) -> T) -> T {
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !self.over.load(Ordering::Relaxed) {
                    if flag.swap(false, Ordering::Relaxed) {
                        self.first.get_or_init(clock::now);
                        self.count.fetch_add(1, Ordering::Relaxed);
                        self.asked.store(true, Ordering::Relaxed);
                    }
                    thread::park_timeout(LOOK_EVERY);
                }
            });
            // Also when `what` panics: the scope waits for the watcher.
            let _ending = Ending { interrupts: self, watcher: watcher.thread() };
            what(self)
        })
    }
}

struct Ending<'a> {
    interrupts: &'a Interrupts,
    watcher: &'a thread::Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.interrupts.over.store(true, Ordering::Relaxed);
        self.watcher.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_counted_and_taken() {
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
