//! Ends a worker's load and counts what is left.
//!
//! Not here: due operations that were never sent (`due`), clients without a connection (`connecting`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bakeoff_core::ledger::WriteOutcome;

use super::super::client::{Client, Connection};
use super::super::clock;
use super::super::work::Work;
use super::Worker;

/// Time that operations in flight have to finish after an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
/// Time after the end of a load from which idle connections are closed.
const IDLE_GRACE: Duration = Duration::from_millis(100);

impl<W: Work> Worker<'_, W> {
    /// Returns true if an operation that was due at `due` may still be sent. In an open load the timer's slack may
    /// carry it past the end; a wait for a free client may not.
    #[inline]
    pub(super) fn may_begin(&self, lane: Option<usize>, due: Instant, now: Instant) -> bool {
        let only_just_late = lane.is_some_and(|lane| !self.pacing.lanes[lane].starved);
        !self.is_over(now)
            || (only_just_late
                && !self.pacing.exhausted
                && self.recorder.window.end.is_some_and(|end| due < end))
    }

    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.pacing.exhausted || self.recorder.window.end.is_some_and(|end| now >= end)
    }

    /// Returns true if the load is over and no operation is in flight, or if it cannot go on. `interrupted_at` keeps
    /// the time at which the interrupt was first seen.
    pub(super) fn has_ended(&mut self, now: Instant, interrupted_at: &mut Option<Instant>) -> bool {
        if self.shared.interrupted.load(Ordering::Relaxed) {
            self.pacing.exhausted = true;
            if now > *interrupted_at.get_or_insert(now) + INTERRUPT_GRACE {
                return true;
            }
        }
        let is_quiet = self.is_over(now) && self.clients.iter().all(Client::is_quiet);
        is_quiet || self.wants.is_some()
    }

    /// Closes connections without an operation some time after the end of the load. A server that takes one connection
    /// at a time would otherwise wait for their next request, and never get to the operations still in flight.
    #[cold]
    pub(super) fn release_idle(&mut self, now: Instant) {
        let over_since = *self.over_since.get_or_insert(now);
        if !self.part.begins_short || now < over_since + IDLE_GRACE {
            return;
        }
        for client in self.clients.iter_mut().filter(|client| client.is_up() && client.is_quiet()) {
            self.recorder.slice.bytes_sent += client.close(Connection::Down { retry_at: now });
        }
    }

    /// Counts the rest of the load, closes the connections, and hands over the last slice.
    pub(super) fn finish(mut self, interrupted: bool, busy: f64) {
        let interrupted = interrupted || self.shared.aborted.load(Ordering::Relaxed);
        let now = clock::now();
        if let (Some(end), false) = (self.recorder.window.end, interrupted) {
            self.count_dropped(end, now);
            self.count_waiting(end);
            self.recorder.end(end, !self.pacing.exhausted);
        }
        let end = self.recorder.window.end.map_or(now, |end| end.min(now));
        self.count_clients(end.saturating_duration_since(self.recorder.window.measure));
        for client in &mut self.clients {
            self.recorder.slice.bytes_sent += client.close(Connection::Resting);
            for pending in client.pendings.iter_mut().filter_map(Option::take) {
                self.work.give_up(pending, WriteOutcome::Unknown);
            }
            if let Some(lost_at) = client.lost_at {
                self.recorder.slice.disconnected += self.recorder.window.overlap(lost_at, now);
            }
        }
        self.recorder.slice.interrupted |= interrupted;
        self.recorder.send_slice();
        self.work.ended();
        self.recorder.finish(busy);
    }
}
