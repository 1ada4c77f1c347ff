//! Sends due operations of open loads and of rested clients, and counts those that could not be sent.
//!
//! Not here: due times (`pacing`, `lanes`).

use std::cmp::Reverse;
use std::time::Instant;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::units::latency_text;

use super::super::client::Client;
use super::super::clock;
use super::super::work::Work;
use super::Worker;
use super::recorder::FailedOperation;

/// Number of dropped operations above which they are counted by [`DROPPED_PARTS`] slices of the time they were due
/// in.
const DROPPED_ONE_BY_ONE: u64 = 100_000;
const DROPPED_PARTS: u32 = 10_000;

impl<W: Work> Worker<'_, W> {
    /// Sends due operations to idle clients.
    pub(super) fn serve_due(&mut self) {
        let mut now = clock::now();
        while let Some((lane, due)) = self.pacing.first_due() {
            if due > now || !self.may_begin(Some(lane), due, now) {
                return;
            }
            let Some(index) = self.pacing.lanes[lane].idle.pop_front() else {
                self.pacing.lanes[lane].starved = true;
                continue;
            };
            self.clients[index].idle = false;
            self.refill(index, now);
            self.flush(index);
            now = clock::now();
        }
    }

    /// Fails operations that waited for the full timeout while no client of their node had a connection.
    pub(super) fn refuse_due(&mut self, now: Instant) {
        let timeout = self.part.timeout;
        for place in 0..self.pacing.lanes.len() {
            let of_lane = |client: &Client<W>| client.lane == place && client.is_connected();
            if self.clients.iter().any(of_lane) {
                continue;
            }
            let node = self.pacing.lanes[place].node;
            while let Some(due) =
                self.pacing.lanes[place].next_due.filter(|due| *due + timeout <= now)
            {
                if self.is_over(now) {
                    return;
                }
                let measured = due >= self.recorder.window.measure;
                if measured && !self.pacing.has_left(place) {
                    break;
                }
                let ticket = self.pacing.take_ticket(&mut self.work);
                let Some(operation) = self.work.skip(node, ticket) else { return };
                let what = || format!("no connection for {}", latency_text(timeout));
                let refused = |client: &Client<W>| client.lane == place && client.refused;
                let kind = match self.clients.iter().any(refused) {
                    true => ErrorKind::Refused,
                    false => ErrorKind::Timeout,
                };
                let failed = FailedOperation { operation, due, node, kind };
                self.recorder.count_failure(failed, now, &what);
                self.pacing.advance(place, measured, self.recorder.window.start);
            }
        }
    }

    /// Counts operations that were due but never sent; each waited until now. A very large backlog is not counted one
    /// by one. Equal slices of the remaining time then stand for the operations due in them.
    pub(super) fn count_dropped(&mut self, end: Instant, now: Instant) {
        for place in 0..self.pacing.lanes.len() {
            self.count_dropped_of(place, end, now);
        }
    }

    fn count_dropped_of(&mut self, place: usize, end: Instant, now: Instant) {
        let node = self.pacing.lanes[place].node;
        let what = || "no client was free before the load ended".to_owned();
        let start = self.recorder.window.start;
        let kind = ErrorKind::Dropped;
        while let Some(due) = self.pacing.lanes[place].next_due.filter(|&due| due < end) {
            let left = end.duration_since(due);
            let count =
                self.pacing.lanes[place].schedule.due_between(due - start, end - start) as u64;
            if count > DROPPED_ONE_BY_ONE {
                for part in 0..DROPPED_PARTS {
                    let due =
                        due + left.mul_f64((f64::from(part) + 0.5) / f64::from(DROPPED_PARTS));
                    let ticket = self.pacing.take_ticket(&mut self.work);
                    let Some(operation) = self.work.skip(node, ticket) else { return };
                    self.recorder.count_failure(
                        FailedOperation { operation, due, node, kind },
                        now,
                        &what,
                    );
                    let rest = u64::from(u64::from(part) < count % u64::from(DROPPED_PARTS));
                    let more = count / u64::from(DROPPED_PARTS) + rest - 1;
                    let figures = &mut self.recorder.slice.operations[operation];
                    figures.unanswered.record_many(now.saturating_duration_since(due), more);
                    figures.errors.entry(ErrorKind::Dropped).or_default().count += more;
                    if let Some(target) = self.recorder.slice.targets.get_mut(node) {
                        target.errors += more;
                    }
                }
                return;
            }
            let ticket = self.pacing.take_ticket(&mut self.work);
            let Some(operation) = self.work.skip(node, ticket) else { return };
            self.recorder.count_failure(FailedOperation { operation, due, node, kind }, now, &what);
            self.pacing.lanes[place].advance(start);
        }
    }

    /// Samples the time at which an operation was sent. Stops once an operation waits for a free client, because then
    /// the system causes the gaps.
    pub(super) fn sample_sent(&mut self, lane: usize, now: Instant) {
        if self.pacing.lanes[lane].starved {
            self.part.sample_sent = 0;
            return;
        }
        let since = now.saturating_duration_since(self.recorder.window.measure);
        self.recorder.slice.sent.push(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        self.part.sample_sent -= 1;
    }

    /// Resumes clients of a closed load whose rest is over.
    pub(super) fn wake_resting(&mut self) {
        while let Some(&Reverse((until, index))) = self.pacing.resting.peek() {
            let now = clock::now();
            if until > now {
                return;
            }
            self.pacing.resting.pop();
            self.refill(index, now);
            self.flush(index);
        }
    }
}
