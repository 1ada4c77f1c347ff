//! Measures the worker's own lateness: at timers, at ready answers, and stalls.
//!
//! A stalled generator delays operations and answers just as a slow server does. These figures tell the two apart.
//! They use clock readings that the loop takes anyway.
//!
//! Not here: the verdict (`bakeoff_core::check`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::STALL_MIN;

use super::super::collector::Slice;
use super::SCAN_EVERY;
use super::recorder::Recorder;

/// Shortest lateness of a wake-up that counts as delaying operations.
const LATE_MIN: Duration = Duration::from_millis(1);
/// Rounding of `epoll_wait`, which counts in milliseconds and rounds up.
const ROUNDING: Duration = Duration::from_millis(1);

/// Tracks when the worker should have run, and when it did.
pub(super) struct Attention {
    /// Time at which the loop last finished a pass and went to sleep.
    since: Instant,
    /// Requested wake-up time, if it was still in the future.
    pub(super) wake_at: Option<Instant>,
    /// Time of the first read of the current batch.
    batch_began: Option<Instant>,
    /// Time after which the current pass asked for what was ready, if the clock was read.
    polled_from: Option<Instant>,
    /// Time at which all was ready that the loop has read.
    read_all_at: Instant,
    /// Earliest time at which an answer of the current batch may have been ready.
    ready_from: Instant,
}

impl Attention {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            wake_at: None,
            batch_began: None,
            polled_from: None,
            read_all_at: now,
            ready_from: now,
        }
    }

    #[inline]
    pub(super) fn note_read(&mut self, now: Instant) {
        if self.batch_began.is_none() {
            self.batch_began = Some(now);
            // A batch that begins late may have been ready since the loop last read all that was.
            let scan_at = self.read_all_at + SCAN_EVERY + ROUNDING;
            let is_late =
                now.saturating_duration_since(scan_at) >= LATE_MIN || self.late_from(now).is_some();
            self.ready_from = if is_late { self.read_all_at } else { now };
        }
    }

    /// Returns how long an answer may have been ready, at most, when the read at `read` began.
    #[inline]
    pub(super) fn unread_for(&self, read: Instant) -> Duration {
        read.saturating_duration_since(self.ready_from)
    }

    /// Records how long an answer waited behind others that were ready. `read` is the time of the read that completed
    /// it.
    #[inline]
    pub(super) fn note_answer(&mut self, read: Instant, measure: Instant, slice: &mut Slice) {
        match self.batch_began {
            Some(began) if began < measure => {}
            Some(began) if began < read => slice.receive_lag.record(read - began),
            _ => slice.prompt += 1,
        }
    }

    /// Returns the latest time at which an undisturbed loop would have run again.
    fn latest(&self) -> Instant {
        let scan_at = self.since + SCAN_EVERY;
        self.wake_at.map_or(scan_at, |at| at.min(scan_at))
    }

    /// Records the timer's lateness. Returns its start if operations were delayed.
    #[inline]
    pub(super) fn note_wake(&mut self, now: Instant, recorder: &mut Recorder) -> Option<Instant> {
        let late = self.late_from(now);
        // A loop that stood still may have done so between its question and this reading.
        self.polled_from = Some(if late.is_some() { self.since } else { now });
        if let Some(at) = self.wake_at
            && now >= at
            && at >= recorder.window.measure
        {
            recorder.slice.timer_lag.record(now - at);
        }
        late
    }

    /// Returns the time at which the loop should have run at the latest, if `now` is clearly later.
    #[inline]
    fn late_from(&self, now: Instant) -> Option<Instant> {
        let scan_at = self.since + SCAN_EVERY + ROUNDING;
        let from = self.wake_at.map_or(scan_at, |at| at.min(scan_at));
        (now.saturating_duration_since(from) >= LATE_MIN).then_some(from)
    }

    /// Ends a pass of the loop, and records a stall if it took too long. `interrupted`: a signal ended its wait, so what was
    /// ready is still unread.
    #[inline]
    pub(super) fn note_end_of_loop(
        &mut self,
        now: Instant,
        interrupted: bool,
        recorder: &mut Recorder,
    ) {
        if now.saturating_duration_since(self.since) >= STALL_MIN {
            self.note_stall(now, recorder);
        }
        self.since = now;
        if !interrupted {
            // What arrives during a pass is read in the next one.
            self.read_all_at = self.batch_began.unwrap_or(now).min(self.polled_from.unwrap_or(now));
        }
        self.polled_from = None;
        self.batch_began = None;
        self.wake_at = None;
    }

    #[cold]
    fn note_stall(&self, now: Instant, recorder: &mut Recorder) {
        let latest = self.latest();
        // A readable socket may have woken it earlier.
        let from = self.batch_began.map_or(latest, |began| began.min(latest));
        let from = from.max(recorder.window.measure);
        let to = recorder.window.end.map_or(now, |end| now.min(end));
        if to.saturating_duration_since(from) >= STALL_MIN {
            recorder.slice.stalls.push((from, to));
        }
    }
}
