//! The open side of a worker: what is due at each node, and who is free to send it.
//!
//! Each lane is one node's part of what the worker sends, with clients of its own. What is due at a
//! node that hangs waits for that node's clients, and holds up no other's.
//!
//! Not here: which operations and clients a lane has (`bakeoff_core::lanes`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::schedule::OpenSchedule;

use super::super::client::Client;
use super::super::clock;
use super::super::work::Work;
use super::Worker;
use super::pacing::Pacing;
use super::recorder::Failed;

/// More dropped operations than this are counted by [`DROPPED_PARTS`] of the time they were due in.
const DROPPED_ONE_BY_ONE: u64 = 100_000;
const DROPPED_PARTS: u32 = 10_000;

/// What one worker sends to one node in an open load.
pub(crate) struct Lane {
    /// The node; one of its places where it has several.
    node: usize,
    schedule: OpenSchedule,
    /// How many measured operations are left to be begun; `None` in a load that ends by time.
    left: Option<u64>,
    /// When the next operation is due; `None` when none is to come.
    pub(super) next_due: Option<Instant>,
    /// Clients with a free slot and nothing due.
    pub(super) idle: VecDeque<usize>,
    /// Whether an operation is due that no client is free for.
    pub(super) starved: bool,
    /// From when to when the worker was late while something fell due, as far as that has not begun.
    held_up: VecDeque<(Instant, Instant)>,
}

/// So many times are kept in which operations were held up that still wait for a client.
const HELD_UP_MAX: usize = 4096;

impl Lane {
    pub(crate) fn new(node: usize, schedule: OpenSchedule, count: Option<u64>) -> Self {
        Self {
            node,
            schedule,
            left: count,
            next_due: None,
            idle: VecDeque::new(),
            starved: false,
            held_up: VecDeque::new(),
        }
    }

    /// The worker was late: whatever fell due meanwhile was held up by it.
    pub(super) fn hold_up(&mut self, from: Instant, to: Instant) {
        if self.held_up.len() == HELD_UP_MAX {
            self.held_up.pop_front();
        }
        if self.next_due.is_some_and(|due| due <= to) {
            self.held_up.push_back((from, to));
        }
    }

    /// Returns how late an operation went out by the worker's own doing; `None` where it waited for a client
    /// alone. Operations are asked for in the order in which they are due.
    #[inline]
    pub(super) fn schedule_lag(&mut self, due: Instant, now: Instant) -> Option<Duration> {
        if !self.starved {
            return Some(now.saturating_duration_since(due));
        }
        while self.held_up.front().is_some_and(|&(_, to)| to < due) {
            self.held_up.pop_front();
        }
        let &(from, to) = self.held_up.front()?;
        (from <= due).then(|| to - due)
    }

    /// A client is free and nothing is due.
    pub(super) fn wait(&mut self) {
        self.starved = false;
        self.held_up.clear();
    }

    /// Goes on to the operation that is due next, from the beginning of the load.
    fn advance(&mut self, start: Instant) {
        // A pace that has come down to zero is never due again.
        self.next_due = start.checked_add(self.schedule.next_due());
    }
}

impl Pacing<'_> {
    /// Returns whether the load is open: operations are due whether or not a client is free.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// The lane whose next operation is due first, and when; of those that somebody may be free for.
    /// A worker has one lane for each node: few.
    #[inline]
    pub(super) fn first_due(&self) -> Option<(usize, Instant)> {
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.starved);
        let dues = waiting.filter_map(|(place, lane)| Some((place, lane.next_due?)));
        dues.min_by_key(|&(_, due)| due)
    }

    /// The operation that was due next at a lane has begun: goes on to the one after it.
    #[inline]
    pub(super) fn advance(&mut self, lane: usize, measured: bool, start: Instant) {
        let lane = &mut self.lanes[lane];
        if measured && let Some(left) = &mut lane.left {
            *left = left.saturating_sub(1);
        }
        lane.advance(start);
        if lane.next_due.is_none() {
            self.note_end();
        }
    }

    /// Returns whether a lane has a measured operation left; where not, it is over.
    #[inline]
    pub(super) fn has_left(&mut self, lane: usize) -> bool {
        let lane = &mut self.lanes[lane];
        if lane.left == Some(0) {
            lane.next_due = None;
            self.note_end();
            return false;
        }
        true
    }

    /// When all lanes are over, so is the load.
    fn note_end(&mut self) {
        self.exhausted |= self.lanes.iter().all(|lane| lane.next_due.is_none());
    }
}

impl<W: Work> Worker<'_, W> {
    /// Sends what has become due to clients that were waiting for it.
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

    /// What was due for as long as the timeout while no client of its node had a connection has failed.
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
                let ticket = self.pacing.take_ticket();
                let Some(operation) = self.work.skip(node, ticket) else { return };
                let what = || format!("no connection for {timeout:?}");
                let failed = Failed { operation, due, node, kind: ErrorKind::Refused };
                self.recorder.count_failure(failed, now, what);
                self.pacing.advance(place, measured, self.recorder.window.start);
            }
        }
    }

    /// What was due and never sent did not vanish: it waited until now. A load far beyond what a
    /// system can do leaves more of it than can be gone through one by one; then equal parts of the
    /// time that was left stand for the operations that were due in them.
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
                    let ticket = self.pacing.take_ticket();
                    let Some(operation) = self.work.skip(node, ticket) else { return };
                    self.recorder.count_failure(Failed { operation, due, node, kind }, now, what);
                    let rest = u64::from(u64::from(part) < count % u64::from(DROPPED_PARTS));
                    let more = count / u64::from(DROPPED_PARTS) + rest - 1;
                    let figures = &mut self.recorder.slice.operations[operation];
                    figures.unanswered.record_many(now.saturating_duration_since(due), more);
                    figures.errors.entry(ErrorKind::Dropped).or_default().count += more;
                }
                return;
            }
            let ticket = self.pacing.take_ticket();
            let Some(operation) = self.work.skip(node, ticket) else { return };
            self.recorder.count_failure(Failed { operation, due, node, kind }, now, what);
            self.pacing.lanes[place].advance(start);
        }
    }
}
