//! The offset between another machine's clocks and ours, measured by round trips.
//!
//! The remote clock is read between request and answer, so the estimate is off by at most half the round trip. The
//! shortest of many round trips is therefore the best (Cristian, Probabilistic clock synchronization, Distributed
//! Computing 3, 1989). The offset serves to begin loads at the same moment and to align samples. Latencies do not use
//! it: the times of an operation come from one clock.

use std::time::{Duration, Instant};

use bakeoff_clock as clock;

use super::message::ClockReading;

/// The offset of an agent's clock, and the error of the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// Reference moment on our clock.
    ours: Instant,
    /// The reference moment on the agent's clock, in nanoseconds.
    theirs: u64,
    /// Seconds by which the agent's wall clock is ahead of ours.
    pub wall_ahead: f64,
    /// The agent's wall clock minus its monotonic clock, in seconds.
    pub wall_offset: f64,
    /// Half of the shortest round trip, an upper bound of the error.
    pub error: Duration,
}

impl Offset {
    /// Estimates the offset from one round trip. `asked` and `wall`: our clocks at the request; `theirs`: the agent's
    /// clocks; `heard`: our clock at the answer.
    pub(crate) fn of_trip(
        (asked, wall): (Instant, f64),
        theirs: ClockReading,
        heard: Instant,
    ) -> Self {
        let half = heard.saturating_duration_since(asked) / 2;
        let wall_ahead = theirs.wall - (wall + half.as_secs_f64());
        let wall_offset = theirs.wall_offset();
        Self { ours: asked + half, theirs: theirs.nanos, wall_ahead, wall_offset, error: half }
    }

    /// Returns the estimate with the smaller error.
    pub(crate) fn or(self, other: Self) -> Self {
        if other.error < self.error { other } else { self }
    }

    /// Converts a moment to the agent's clock, in nanoseconds. Moments before the agent started give 0.
    pub fn theirs(&self, moment: Instant) -> u64 {
        match moment.checked_duration_since(self.ours) {
            Some(later) => self.theirs.saturating_add(later.as_nanos() as u64),
            None => {
                let earlier = self.ours.saturating_duration_since(moment);
                self.theirs.saturating_sub(earlier.as_nanos() as u64)
            }
        }
    }

    /// Converts nanoseconds of the agent's clock to our clock.
    pub fn ours(&self, theirs: u64) -> Instant {
        match theirs.checked_sub(self.theirs) {
            Some(later) => self.ours + Duration::from_nanos(later),
            None => {
                let earlier = Duration::from_nanos(self.theirs - theirs);
                self.ours.checked_sub(earlier).unwrap_or(self.ours)
            }
        }
    }
}

/// A clock that counts nanoseconds from its creation.
#[derive(Debug, Clone, Copy)]
pub struct Origin(Instant);

impl Origin {
    pub(crate) fn now() -> Self {
        Self(clock::now())
    }

    /// Returns a moment in nanoseconds since the origin; earlier moments give 0.
    pub fn nanos(self, at: Instant) -> u64 {
        at.saturating_duration_since(self.0).as_nanos() as u64
    }

    /// Returns the moment `nanos` after the origin.
    pub fn instant(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_convert_between_both_clocks() {
        let now = clock::now();
        let ms = Duration::from_millis;
        let trip = |asked: u64, nanos, wall, heard: u64| {
            let asked_at = (now + ms(asked), 1e9 + asked as f64 / 1e3);
            Offset::of_trip(asked_at, ClockReading { nanos, wall }, now + ms(heard))
        };
        let slow = trip(0, 5_000_000, 1e9 + 60.0, 20);
        assert_eq!(slow.error, ms(10));
        assert!((slow.wall_ahead - 59.99).abs() < 1e-6, "{}", slow.wall_ahead);
        let best = slow.or(trip(40, 40_500_000, 1e9 + 60.041, 42));
        assert_eq!(best.error, ms(1));
        assert!((best.wall_ahead - 60.0).abs() < 1e-6, "{}", best.wall_ahead);
        assert_eq!(best.or(slow), best);
        let moment = now + ms(141);
        assert_eq!(best.theirs(moment), 140_500_000);
        assert_eq!(best.ours(140_500_000), moment);
        assert_eq!(best.ours(20_500_000), now + ms(21));
        assert_eq!(best.theirs(now + ms(21)), 20_500_000);
    }
}
