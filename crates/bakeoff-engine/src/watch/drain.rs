//! Decides when the last events of a load have come.

use std::time::{Duration, Instant};

use super::observer::WatchObserver;

/// Time without any event after which no more are expected.
const QUIET_FOR: Duration = Duration::from_secs(10);
/// Interval between looks for completeness.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits for the last events of a load.
pub(super) struct Drain {
    began: Instant,
    /// Longest wait while events still come.
    within: Duration,
    look_at: Instant,
}

impl Drain {
    /// Begins once the load has ended.
    pub(super) fn new(within: Duration, now: Instant) -> Self {
        Self { began: now, within, look_at: now }
    }

    /// Returns true once all events have come, none has come for 10 s, or the time is over.
    pub(super) fn is_over(&mut self, observer: &mut impl WatchObserver, now: Instant) -> bool {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            if observer.is_complete() {
                return true;
            }
        }
        let last = observer.last_event().map_or(self.began, |last| last.max(self.began));
        if now >= last + QUIET_FOR {
            return true;
        }
        let cut_off = now >= self.began + self.within;
        if cut_off {
            observer.cut_off();
        }
        cut_off
    }
}
