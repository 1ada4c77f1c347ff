//! How another machine's clocks stand to ours, by round trips.
//!
//! An answer was given between question and reply, so half of the round trip is the most by which the estimate can
//! be wrong; of many the shortest is the best (Cristian, Probabilistic clock synchronization, Distributed Computing
//! 3, 1989). It serves to begin at one moment and to lay samples side by side. No latency is measured with it: each
//! operation's times are of one clock.

use std::time::{Duration, Instant};

use bakeoff_clock as clock;

use super::message::ClockReading;

/// The offset of an agent's clock, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// A moment of ours.
    ours: Instant,
    /// The same moment by its clock, in nanoseconds.
    theirs: u64,
    /// Seconds by which its clock on the wall was ahead of ours.
    pub wall_ahead: f64,
    /// Half of the shortest round trip.
    pub error: Duration,
}

impl Offset {
    /// Takes one round trip: asked at `asked`, when our clock on the wall had `wall`, answered with `theirs`, heard at
    /// `heard`.
    pub(crate) fn of_trip(
        (asked, wall): (Instant, f64),
        theirs: ClockReading,
        heard: Instant,
    ) -> Self {
        let half = heard.saturating_duration_since(asked) / 2;
        let wall_ahead = theirs.wall - (wall + half.as_secs_f64());
        Self { ours: asked + half, theirs: theirs.nanos, wall_ahead, error: half }
    }

    /// Returns the better of two.
    pub(crate) fn or(self, other: Self) -> Self {
        if other.error < self.error { other } else { self }
    }

    /// Returns a moment by its clock; those before it began are 0.
    pub fn theirs(&self, moment: Instant) -> u64 {
        match moment.checked_duration_since(self.ours) {
            Some(later) => self.theirs.saturating_add(later.as_nanos() as u64),
            None => {
                let earlier = self.ours.saturating_duration_since(moment);
                self.theirs.saturating_sub(earlier.as_nanos() as u64)
            }
        }
    }

    /// Returns a moment of its clock by ours.
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

/// A clock that counts nanoseconds from its own beginning.
#[derive(Debug, Clone, Copy)]
pub struct Origin(Instant);

impl Origin {
    pub(crate) fn now() -> Self {
        Self(clock::now())
    }

    /// Returns a moment in nanoseconds since then.
    pub fn nanos(self, at: Instant) -> u64 {
        at.saturating_duration_since(self.0).as_nanos() as u64
    }

    /// Returns the moment of so many nanoseconds.
    pub fn instant(self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_the_same_by_both_clocks() {
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
