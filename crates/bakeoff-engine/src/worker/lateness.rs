//! How late the worker itself was: at its timers, at answers that were ready, at all.
//!
//! A generator that stands still delays what is due and what is answered, and without this nothing
//! would tell it from a server that does. All of it comes from readings of the clock that the loop
//! takes anyway.
//!
//! Not here: what follows from it (`bakeoff_core::check`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::STALL_MIN;

use super::super::collector::Slice;
use super::SCAN_EVERY;
use super::recorder::Recorder;

/// So late a wake-up holds operations up that fall due meanwhile.
const LATE_MIN: Duration = Duration::from_millis(1);
/// `epoll_wait` counts in milliseconds, and rounds up.
const ROUNDING: Duration = Duration::from_millis(1);

/// A worker's schedule lag.
pub(super) struct Attention {
    /// When the loop last came to its end, and went to sleep.
    since: Instant,
    /// When it asked to be woken, where that was still to come.
    pub(super) wake_at: Option<Instant>,
    /// When the first bytes of those that are ready were read.
    batch_began: Option<Instant>,
}

impl Attention {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, wake_at: None, batch_began: None }
    }

    /// Something has been read.
    #[inline]
    pub(super) fn note_read(&mut self, now: Instant) {
        self.batch_began.get_or_insert(now);
    }

    /// Notes how long an answer waited behind others that were ready: the bytes that completed it were read from `read` on.
    #[inline]
    pub(super) fn note_answer(&mut self, read: Instant, measure: Instant, slice: &mut Slice) {
        match self.batch_began {
            Some(began) if began < measure => {}
            Some(began) if began < read => slice.receive_lag.record(read - began),
            _ => slice.prompt += 1,
        }
    }

    /// When the loop had to go on at the latest, had nobody held it up.
    fn latest(&self) -> Instant {
        let scan_at = self.since + SCAN_EVERY;
        self.wake_at.map_or(scan_at, |at| at.min(scan_at))
    }

    /// Notes how late the worker is at its timer. Returns since when it has been, where what fell due
    /// meanwhile was held up.
    #[inline]
    pub(super) fn note_wake(&self, now: Instant, recorder: &mut Recorder) -> Option<Instant> {
        if let Some(at) = self.wake_at
            && now >= at
            && at >= recorder.window.measure
        {
            recorder.slice.timer_lag.record(now - at);
        }
        let scan_at = self.since + SCAN_EVERY + ROUNDING;
        let from = self.wake_at.map_or(scan_at, |at| at.min(scan_at));
        (now.saturating_duration_since(from) >= LATE_MIN).then_some(from)
    }

    /// The loop has come to its end: notes whether it stood still since it last did.
    #[inline]
    pub(super) fn note_end_of_loop(&mut self, now: Instant, recorder: &mut Recorder) {
        if now.saturating_duration_since(self.since) >= STALL_MIN {
            self.note_stall(now, recorder);
        }
        self.since = now;
        self.batch_began = None;
        self.wake_at = None;
    }

    #[cold]
    fn note_stall(&self, now: Instant, recorder: &mut Recorder) {
        let latest = self.latest();
        // Something to read may have woken it before.
        let from = self.batch_began.map_or(latest, |began| began.min(latest));
        let from = from.max(recorder.window.measure);
        let to = recorder.window.end.map_or(now, |end| now.min(end));
        if to.saturating_duration_since(from) >= STALL_MIN {
            recorder.slice.stalls.push((from, to));
        }
    }
}
