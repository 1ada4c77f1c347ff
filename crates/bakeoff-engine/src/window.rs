//! Divides the time of a load into warm-up and measured window.
//!
//! Not here: publishing the window to samplers (`window_signal`).

use std::time::{Duration, Instant};

use bakeoff_core::study::Stop;

/// Holds the start of the load and the measured interval.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Due time of the first operations.
    pub(crate) start: Instant,
    pub(crate) measure: Instant,
    /// Time after which no operation is sent; `None` if the load ends by a count.
    pub(crate) end: Option<Instant>,
}

impl Window {
    /// Returns the window of a load that begins at `start`.
    pub fn new(start: Instant, warmup: Duration, stop: Stop) -> Self {
        let measure = start + warmup;
        let end = match stop {
            Stop::After(time) => Some(measure + time),
            Stop::Operations(_) => None,
        };
        Self { start, measure, end }
    }

    /// Returns the start of measuring, and its end if the load stops by time.
    pub fn measured(&self) -> (Instant, Option<Instant>) {
        (self.measure, self.end)
    }

    pub(crate) fn second_of(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.measure).as_secs() as u32
    }

    /// Returns true if this second, counted from the start of measuring, begins before the load ends.
    pub(crate) fn begins(&self, second: u32) -> bool {
        let begin = self.measure + Duration::from_secs(second.into());
        self.end.is_none_or(|end| begin < end)
    }

    pub(crate) fn seconds_at(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.measure).as_secs_f64()
    }

    /// Returns true if `at` lies in the measured window.
    pub(crate) fn holds(&self, at: Instant) -> bool {
        at >= self.measure && self.end.is_none_or(|end| at <= end)
    }

    /// Returns true if `at` lies in the last second before measuring.
    pub(crate) fn ends_warmup(&self, at: Instant) -> bool {
        at < self.measure && at + Duration::from_secs(1) > self.measure
    }

    /// Returns how much of `from..to` lies in the measured window.
    pub(crate) fn overlap(&self, from: Instant, to: Instant) -> Duration {
        let from = from.max(self.measure);
        let to = self.end.map_or(to, |end| to.min(end));
        to.saturating_duration_since(from)
    }
}
