//! Decides when the last events have come: those from before a load, or those of a load.

use std::time::{Duration, Instant};

use super::observer::WatchObserver;

/// Time without any event after which no more are expected.
const QUIET_FOR: Duration = Duration::from_secs(10);
/// Interval between looks for completeness.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Describes why no more events are awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainEnd {
    /// All have come.
    Complete,
    /// None has come for a while.
    Quiet,
    /// The time is over, and events still come.
    CutOff,
}

/// Waits for the last events.
pub(super) struct Drain {
    began: Instant,
    /// Longest wait while events still come.
    within: Duration,
    look_at: Instant,
}

impl Drain {
    /// Begins to wait.
    pub(super) fn new(within: Duration, now: Instant) -> Self {
        Self { began: now, within, look_at: now }
    }

    /// Returns the reason to wait no longer: `has_all`, no event for 10 s, or the time is over. `None` while it waits.
    pub(super) fn end<O: WatchObserver>(
        &mut self,
        observer: &mut O,
        now: Instant,
        has_all: impl FnOnce(&mut O) -> bool,
    ) -> Option<DrainEnd> {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            if has_all(observer) {
                return Some(DrainEnd::Complete);
            }
        }
        let last = observer.last_event().map_or(self.began, |last| last.max(self.began));
        if now >= last + QUIET_FOR {
            return Some(DrainEnd::Quiet);
        }
        (now >= self.began + self.within).then_some(DrainEnd::CutOff)
    }
}
