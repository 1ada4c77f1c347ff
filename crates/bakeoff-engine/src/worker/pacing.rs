//! Decides when a worker's next operation is due and if there is one: lanes, rests, budget, timer.
//!
//! Not here: sending (`worker`, `due`), one node's part of an open load (`lanes`), the worker's lateness
//! (`lateness`).

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
use super::{Part, SCAN_EVERY, SharedState, TIMER};

/// Schedules a worker's operations.
pub(super) struct Pacing<'a> {
    shared: &'a SharedState<'a>,
    budget: Option<u64>,
    spin: Duration,
    timer: Timer,
    /// Due operations of each node; empty for a closed load.
    pub(super) lanes: Vec<Lane>,
    /// Resting clients of a closed load, by the time their rest ends.
    pub(super) resting: BinaryHeap<Reverse<(Instant, usize)>>,
    timer_set_for: Option<Instant>,
    pub(super) attention: Attention,
    /// True if no further operation begins.
    pub(super) exhausted: bool,
    /// An operation number that was drawn but not used.
    pub(super) spare_ticket: Option<u64>,
}

impl<'a> Pacing<'a> {
    pub(super) fn new(
        part: &Part,
        lanes: Vec<Lane>,
        shared: &'a SharedState<'a>,
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

    /// Takes one measured operation from the budget of a closed load. Returns false if it is used up.
    #[inline]
    pub(super) fn draw_on_budget(&mut self) -> bool {
        let Some(budget) = self.budget else { return true };
        let drawn = self.shared.begun.fetch_add(1, Ordering::Relaxed) < budget;
        self.exhausted |= !drawn;
        drawn
    }

    /// Draws the next number that belongs to this generator.
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

    /// Sets the timer for the next due operation. Returns true if that is too soon to sleep.
    #[inline]
    pub(super) fn set_timer(&mut self, now: Instant) -> io::Result<bool> {
        let next_rested = self.resting.peek().map(|Reverse((until, _))| *until);
        let next_due = self.first_due().map(|(_, due)| due);
        let Some(due) = next_due.or(next_rested) else {
            return Ok(false);
        };
        // A past time needs no wake-up.
        self.attention.wake_at = (due > now).then_some(due);
        let wait = due.saturating_duration_since(now);
        if wait <= self.spin && !self.spin.is_zero() {
            return Ok(true);
        }
        // Setting a timer costs more than most of the loop, so each time is set only once.
        if wait < SCAN_EVERY && self.timer_set_for != Some(due) {
            self.timer.set(wait.saturating_sub(self.spin))?;
            self.timer_set_for = Some(due);
        }
        Ok(false)
    }

    /// Returns true for an open load, whose operations are due even if no client is free.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Returns the lane with the earliest due operation and that time. Skips starved lanes. A worker has only one
    /// lane per node, so a scan is cheap.
    #[inline]
    pub(super) fn first_due(&self) -> Option<(usize, Instant)> {
        let waiting = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.starved);
        let dues = waiting.filter_map(|(place, lane)| Some((place, lane.next_due?)));
        dues.min_by_key(|&(_, due)| due)
    }

    /// Moves a lane to its next operation after the due one has begun.
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

    /// Returns true if a lane has measured operations left; ends the lane otherwise.
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

    /// Ends the load once all lanes have ended.
    fn note_end(&mut self) {
        self.exhausted |= self.lanes.iter().all(|lane| lane.next_due.is_none());
    }

    /// Records the lateness of a wake-up and marks operations that it delayed.
    #[inline]
    pub(super) fn note_wake(&mut self, now: Instant, recorder: &mut Recorder) {
        if let Some(from) = self.attention.note_wake(now, recorder) {
            self.lanes.iter_mut().for_each(|lane| lane.hold_up(from, now));
        }
    }
}
