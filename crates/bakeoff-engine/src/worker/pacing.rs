//! When a worker's next operation is due, and whether there is one: lanes, rests, the budget, the timer.
//!
//! Not here: who sends it (`worker`), what is due at each node in an open load (`lanes`), how late the
//! worker was at it (`lateness`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::Registry;

use super::super::timer::Timer;
use super::lanes::Lane;
use super::lateness::Attention;
use super::{Part, SCAN_EVERY, Shared, TIMER};

/// Says when a worker's operations are due.
pub(super) struct Pacing<'a> {
    shared: &'a Shared<'a>,
    budget: Option<u64>,
    spin: Duration,
    timer: Timer,
    /// What is due at each node; empty for a closed load.
    pub(super) lanes: Vec<Lane>,
    /// Clients of a closed load that rest, and until when.
    pub(super) resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// What the timer was last set for.
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

    #[inline]
    pub(super) fn take_ticket(&mut self) -> u64 {
        let spare = self.spare_ticket.take();
        spare.unwrap_or_else(|| self.shared.tickets.fetch_add(1, Ordering::Relaxed))
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
}
