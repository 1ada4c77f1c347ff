//! Decides when the last events of a load have come.

use std::time::{Duration, Instant};

use super::observer::Observer;

/// Time without any event after which no more are expected.
const QUIET_FOR: Duration = Duration::from_secs(10);
/// Longest wait while events still come.
const WITHIN: Duration = Duration::from_secs(60);
/// Interval between looks for completeness.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits for the last events of a load.
pub(super) struct Drain {
    began: Instant,
    look_at: Instant,
}

impl Drain {
    /// Begins once the load has ended.
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, look_at: now }
    }

    /// Returns true once all events have come, none has come for 10 s, or 60 s are over.
    pub(super) fn is_over(&mut self, observer: &mut Observer, now: Instant) -> bool {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            if observer.is_complete() {
                return true;
            }
        }
        let last = observer.last_event.map_or(self.began, |last| last.max(self.began));
        if now >= last + QUIET_FOR {
            return true;
        }
        let cut_off = now >= self.began + WITHIN;
        if cut_off {
            observer.judge.cut_off();
        }
        cut_off
    }
}
