//! Says when a worker's next operation is due, and whether there is one: lanes, rests, the budget, the timer.
//!
//! Not here: who sends it (`worker`, `due`), one node's part of an open load (`lanes`), how late the
//! worker was (`lateness`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::Registry;

use super::super::timer::Timer;
use super::super::work::Tickets;
use super::lanes::Lane;
use super::lateness::Attention;
use super::recorder::Recorder;
use super::{Part, SCAN_EVERY, Shared, TIMER};

/// Says when a worker's operations are due.
pub(super) struct Pacing<'a> {
    shared: &'a Shared<'a>,
    budget: Option<u64>,
    spin: Duration,
    timer: Timer,
    /// Due operations of each node; empty for a closed load.
    pub(super) lanes: Vec<Lane>,
    /// Clients of a closed load that rest, and until when.
    pub(super) resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The time that the timer was last set to.
    timer_set_for: Option<Instant>,
    pub(super) attention: Attention,
    /// Whether no further operation begins, whatever the time.
    pub(super) exhausted: bool,
    /// A number that was drawn and not used.
    pub(super) spare_ticket: Option<u64>,
}

impl<'a> Pacing<'a> {
    pub(super) fn new(
        part: &Part,
        lanes: Vec<Lane>,
        shared: &'a Shared<'a>,
        registry: &Registry,
        now: Instant,
    ) -> io::Result<Self> {
        Ok(Self {
            shared,
            budget: part.budget,
            spin: part.spin,
            timer: Timer::new(registry, TIMER)?,
            lanes,
            resting: BinaryHeap::new(),
            timer_set_for: None,
            attention: Attention::new(now),
            exhausted: false,
            spare_ticket: None,
        })
    }

    /// Takes a measured operation from what is left of a closed load. `false`: nothing is.
    #[inline]
    pub(super) fn draw_on_budget(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        let drawn = self.shared.begun.fetch_add(1, Ordering::Relaxed) < budget;
        self.exhausted |= !drawn;
        drawn
    }

    /// Takes the next number whose operation is this generator's; the others' owners take theirs.
    #[inline]
    pub(super) fn take_ticket(&mut self, work: &mut impl Tickets) -> u64 {
        if let Some(spare) = self.spare_ticket.take() {
            return spare;
        }
        loop {
            let ticket = self.shared.tickets.fetch_add(1, Ordering::Relaxed);
            if work.owns(ticket) {
                return ticket;
            }
        }
    }

    /// Sets the timer for what is due next. Whether that is so soon that sleeping is not wanted.
    #[inline]
    pub(super) fn set_timer(&mut self, now: Instant) -> io::Result<bool> {
        let next_rested = self.resting.peek().map(|Reverse((until, _))| *until);
        let next_due = self.first_due().map(|(_, due)| due);
        let Some(due) = next_due.or(next_rested) else {
            return Ok(false);
        };
        // What is past is not waited for any more.
        self.attention.wake_at = (due > now).then_some(due);
        let wait = due.saturating_duration_since(now);
        if wait <= self.spin && !self.spin.is_zero() {
            return Ok(true);
        }
        // Setting a timer costs more than most of what is done here, so it is done once for each time.
        if wait < SCAN_EVERY && self.timer_set_for != Some(due) {
            self.timer.set(wait.saturating_sub(self.spin))?;
            self.timer_set_for = Some(due);
        }
        Ok(false)
    }

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

    /// Notes how late a worker that is awake is at its timer, and what was held up by that.
    #[inline]
    pub(super) fn note_wake(&mut self, now: Instant, recorder: &mut Recorder) {
        if let Some(from) = self.attention.note_wake(now, recorder) {
            self.lanes.iter_mut().for_each(|lane| lane.hold_up(from, now));
        }
    }
}
