//! Records a worker's successes and failures, by the second in which they ended.
//!
//! Each worker has its own slice and hands it over each second, so the loop takes no locks. Methods that need the
//! time get the loop's clock reading.
//!
//! Not here: adding slices up (`collector`), the worker's lateness (`lateness`).

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::{
    DueTimes, ErrorKind, Example, OperationFigures, SILENCE_RECORDED_MIN, STEP, StepCounts,
};
use bakeoff_core::staleness::ReadAge;

use super::super::Window;
use super::super::client::Flight;
use super::super::collector::{Message, Slice};
use super::super::lookup::Addresses;
use super::super::work::Success;

/// Number of silences after which the minimum recorded duration doubles. Keeps memory bounded.
const SILENCES_EACH: u32 = 10_000;

/// Connects a worker to the collector: full slices go out, read ones come back.
pub(crate) struct Outlet {
    pub(crate) to_collector: Sender<Message>,
    pub(crate) recycled: Receiver<Box<Slice>>,
}

#[derive(Clone, Copy)]
pub(super) struct FailedOperation {
    pub(super) operation: usize,
    pub(super) due: Instant,
    pub(super) node: usize,
    pub(super) kind: ErrorKind,
}

pub(super) struct Recorder {
    worker: usize,
    pub(super) addresses: Addresses,
    pub(super) window: Window,
    /// True for a closed load. Operations in flight across the window's start then count if they fail, because they
    /// block all later operations of their client.
    keeps_in_flight: bool,
    /// End of the second that is being recorded.
    second_ends: Instant,
    /// End of the step that is being counted, within that second.
    step_ends: Instant,
    /// Successes and failures of the slice's earlier steps.
    stepped: StepCounts,
    /// Successes of each part in the slice's earlier steps: of each operation, then of each node.
    stepped_parts: Vec<u64>,
    /// Time of the last success; initially the start of the load.
    last_success: Instant,
    /// Earliest due time of an operation that failed since the last success.
    failing_since: Option<Instant>,
    /// Minimum duration of a recorded silence.
    silence_min: Duration,
    /// Number of silences since the minimum last doubled.
    silences: u32,
    /// Due times of failures and slow successes, in an open load.
    dues: DueTimes,
    /// Minimum response time of a success whose due time is kept.
    slow_min: Duration,
    /// Time for which the current answers may have been unread; see [`Attention::unread_for`].
    ///
    /// [`Attention::unread_for`]: super::lateness::Attention::unread_for
    pub(super) unread_for: Duration,
    pub(super) slice: Box<Slice>,
    outlet: Outlet,
}

impl Recorder {
    /// Records into `slice`. Nothing is measured before [`Self::begin`].
    pub(super) fn new(
        worker: usize,
        addresses: Addresses,
        slice: Box<Slice>,
        outlet: Outlet,
        now: Instant,
    ) -> Self {
        Self {
            worker,
            addresses,
            window: Window { start: now, measure: now, end: None },
            keeps_in_flight: false,
            second_ends: now,
            step_ends: now,
            stepped: StepCounts::default(),
            stepped_parts: vec![0; slice.operations.len() + slice.targets.len()],
            last_success: now,
            failing_since: None,
            silence_min: SILENCE_RECORDED_MIN,
            silences: 0,
            dues: DueTimes::default(),
            slow_min: Duration::MAX,
            unread_for: Duration::ZERO,
            slice,
            outlet,
        }
    }

    /// Starts measuring. Keeps the handshakes and addresses of the initial connections and drops all other earlier
    /// figures. `closed` marks a closed load.
    pub(super) fn begin(&mut self, window: Window, closed: bool) {
        self.keeps_in_flight = closed;
        self.slow_min = if closed { Duration::MAX } else { Duration::ZERO };
        let handshakes = self.slice.handshakes;
        let addresses = std::mem::take(&mut self.slice.addresses);
        self.slice.clear();
        (self.slice.handshakes, self.slice.addresses) = (handshakes, addresses);
        self.window = window;
        self.second_ends = window.measure + Duration::from_secs(1);
        self.step_ends = window.measure + STEP;
        self.last_success = window.start;
    }

    /// Records the silence in which the load ended, if there is one.
    pub(super) fn end(&mut self, end: Instant, begins_more: bool) {
        if let Some(since) = self.failing_since {
            self.end_silence(since, end, begins_more);
        }
    }

    /// Reports the worker's end and its share of a CPU to the collector.
    pub(super) fn finish(self, busy: f64) {
        self.outlet
            .to_collector
            .send(Message::Ended { worker: self.worker, busy, dues: self.dues })
            .ok();
    }

    /// Counts the staleness of a read, if it is judged.
    #[inline]
    pub(super) fn count_age(&mut self, node: usize, seen: ReadAge) {
        let place = node.min(self.slice.staleness.len().saturating_sub(1));
        if let Some(staleness) = self.slice.staleness.get_mut(place) {
            staleness.count(seen);
        }
    }

    /// Counts an answer whose last bytes arrived at `now`, after a pause.
    pub(super) fn count_paused_end(&mut self, pause: Duration, now: Instant) {
        if self.window.holds(now) {
            self.slice.paused_ends.count(pause);
        }
    }

    /// Returns true if an operation that was due at `due` and failed at `now` is part of the measurement.
    ///
    /// An open load has due operations in the window even while earlier ones hang. A closed client that waits for an
    /// answer since the warm-up has none, so that operation counts.
    pub(super) fn measures(&self, due: Instant, now: Instant) -> bool {
        due >= self.window.measure || (self.keeps_in_flight && now >= self.window.measure)
    }

    /// Counts an operation that succeeded at `now`. `begins_more`: the load still sends operations. Returns true if
    /// `now` is within the window.
    #[inline]
    pub(super) fn count_success(
        &mut self,
        flight: &Flight,
        now: Instant,
        node: usize,
        success: &Success,
        begins_more: bool,
    ) -> bool {
        self.roll_over(now);
        self.end_silence(flight.due, now, begins_more);
        let figures = &mut self.slice.operations[flight.operation];
        let in_window = self.window.holds(now);
        figures.verified_in_window += u64::from(in_window);
        if flight.due < self.window.measure {
            self.slice.warmup_operations += 1;
            self.slice.last_of_warmup += u64::from(self.window.ends_warmup(now));
            self.slice.carried_over += u64::from(in_window);
            return in_window;
        }
        self.slice.last_end = Some(now);
        self.count_age(node, success.seen);
        let figures = &mut self.slice.operations[flight.operation];
        figures.verified += 1;
        figures.hits += u64::from(success.hit == Some(true));
        figures.misses += u64::from(success.hit == Some(false));
        figures.stale_reads += u64::from(matches!(success.seen, ReadAge::Stale(_)));
        let waited = now.saturating_duration_since(flight.due);
        let served = if flight.due == flight.sent {
            self.slice.on_time[flight.operation].record(waited);
            waited
        } else {
            let served = now.saturating_duration_since(flight.sent);
            figures.response.record(waited);
            figures.service.record(served);
            served
        };
        self.slice.undelayed.record(waited.saturating_sub(flight.lag + self.unread_for));
        if let Some(target) = self.slice.targets.get_mut(node) {
            target.verified += 1;
            target.service.record(served);
        }
        if waited >= self.slow_min {
            self.keep_slow(flight.due, waited);
        }
        in_window
    }

    #[cold]
    fn keep_slow(&mut self, due: Instant, waited: Duration) {
        self.slow_min = self.dues.add_success(due - self.window.measure, waited);
    }

    /// Records the time without success up to now. Once no more operations begin, the slowest of the last ones is not
    /// a silence.
    #[inline]
    fn end_silence(&mut self, due: Instant, now: Instant, begins_more: bool) {
        let due = self.failing_since.take().map_or(due, |since| since.min(due));
        let since = due.max(self.last_success);
        if now.saturating_duration_since(since) >= self.silence_min && begins_more {
            self.record_silence(since, now);
        }
        self.last_success = now;
    }

    #[cold]
    fn record_silence(&mut self, since: Instant, now: Instant) {
        let last = self.slice.silences.last();
        debug_assert!(last.is_none_or(|&(_, to)| to <= since) && since <= now, "silences overlap");
        self.slice.silences.push((since, now));
        self.silences += 1;
        if self.silences == SILENCES_EACH {
            self.silences = 0;
            self.silence_min *= 2;
        }
    }

    /// Counts an operation that failed at `now`, if it is part of the measurement.
    pub(super) fn count_failure(
        &mut self,
        failed: FailedOperation,
        now: Instant,
        what: &dyn Fn() -> String,
    ) {
        let FailedOperation { operation, due, node, kind } = failed;
        if !self.measures(due, now) {
            self.slice.warmup_operations += 1;
            return;
        }
        self.roll_over(now);
        if due >= self.window.measure {
            self.slice.last_end = Some(now);
            if !self.keeps_in_flight {
                self.dues.add_failure(due - self.window.measure, kind);
            }
        }
        self.failing_since = Some(self.failing_since.map_or(due, |since| since.min(due)));
        if let Some(target) = self.slice.targets.get_mut(node) {
            target.errors += 1;
        }
        let figures = &mut self.slice.operations[operation];
        let waited = now.saturating_duration_since(due);
        match kind {
            // These failures ended by waiting, so their time is a lower bound.
            ErrorKind::Timeout | ErrorKind::Refused | ErrorKind::Dropped => {
                figures.unanswered.record(waited);
            }
            _ => figures.failed.record(waited),
        }
        let at_seconds = self.window.seconds_at(now);
        let address = self.addresses.at(node);
        figures.count_error(kind, || Example {
            at_seconds,
            node: address.to_string(),
            what: what(),
        });
    }

    /// Counts a failure that was sent at `sent` and that a reaction of the server ended at `now`.
    pub(super) fn count_failed_answer(
        &mut self,
        failed: FailedOperation,
        sent: Instant,
        now: Instant,
        what: &dyn Fn() -> String,
    ) {
        self.count_failure(failed, now, what);
        if self.measures(failed.due, now) && failed.kind.is_answer() {
            let figures = &mut self.slice.operations[failed.operation];
            figures.failed_answers.record(now.saturating_duration_since(failed.due));
            figures.failed_answers_service.record(now.saturating_duration_since(sent));
        }
    }

    /// Counts past steps, and hands over the figures of past seconds.
    #[inline]
    pub(super) fn roll_over(&mut self, now: Instant) {
        if now >= self.step_ends {
            self.begin_step(now);
        }
    }

    #[cold]
    fn begin_step(&mut self, now: Instant) {
        if now < self.second_ends {
            self.count_step();
        } else {
            let second = self.window.second_of(now);
            debug_assert!(
                second > self.slice.second,
                "second {second} follows {}",
                self.slice.second
            );
            self.send_slice();
            self.slice.second = second;
            self.second_ends = self.window.measure + Duration::from_secs(u64::from(second) + 1);
        }
        self.step_ends = self.window.measure + STEP * (self.step_of(now) + 1);
    }

    /// Returns the number of the step at `now`.
    fn step_of(&self, now: Instant) -> u32 {
        let since = now.saturating_duration_since(self.window.measure);
        u32::try_from(since.as_nanos() / STEP.as_nanos()).unwrap_or(u32::MAX - 1)
    }

    /// Counts the operations that ended since the last step ended.
    fn count_step(&mut self) {
        let so_far = StepCounts {
            verified: self.slice.operations.iter().map(|of| of.verified_in_window).sum(),
            errors: self.slice.operations.iter().map(OperationFigures::error_count).sum(),
            unknown: self.slice.operations.iter().map(OperationFigures::unknown_count).sum(),
        };
        let new = so_far.since(&self.stepped);
        if !new.is_empty() {
            // The step that ends at `step_ends`.
            let place = self.step_of(self.step_ends).saturating_sub(1);
            let Slice { operations, targets, steps, part_steps, .. } = &mut *self.slice;
            steps.push((place, new));
            self.stepped = so_far;
            let operations = operations.iter().map(|of| of.verified_in_window);
            let parts = operations.chain(targets.iter().map(|of| of.verified));
            for (part, (so_far, earlier)) in parts.zip(&mut self.stepped_parts).enumerate() {
                let new = so_far.saturating_sub(std::mem::replace(earlier, so_far));
                part_steps.extend((new > 0).then_some((place, part, new)));
            }
        }
    }

    pub(super) fn send_slice(&mut self) {
        self.count_step();
        self.stepped = StepCounts::default();
        self.stepped_parts.fill(0);
        let (operations, targets) = (self.slice.operations.len(), self.slice.targets.len());
        let aged = self.slice.staleness.len();
        let fresh = self
            .outlet
            .recycled
            .try_recv()
            .unwrap_or_else(|_| Box::new(Slice::new(self.worker, operations, targets, aged)));
        let full = std::mem::replace(&mut self.slice, fresh);
        self.outlet.to_collector.send(Message::Slice(full)).ok();
    }
}
