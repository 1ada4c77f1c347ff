//! Holds the operations that a worker of an open load sends to one node.
//!
//! Each lane has its own clients. If a node hangs, its operations wait for its own clients and do not delay those of
//! other nodes.
//!
//! Not here: dealing operations and clients to lanes (`bakeoff_core::lanes`), sending (`due`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bakeoff_core::schedule::OpenSchedule;

/// Schedules the operations of one worker for one node in an open load.
pub(crate) struct Lane {
    /// Index of the node; if it has several addresses, of one of them.
    pub(super) node: usize,
    pub(super) schedule: OpenSchedule,
    /// Measured operations left to begin; `None` in a load that ends by time.
    pub(super) left: Option<u64>,
    /// Due time of the next operation; `None` if there are no more.
    pub(super) next_due: Option<Instant>,
    /// Clients with a free slot while nothing is due.
    pub(super) idle: VecDeque<usize>,
    /// True if an operation is due and no client is free.
    pub(super) starved: bool,
    /// Intervals in which the worker was late while operations fell due, as long as some of those have not begun.
    held_up: VecDeque<(Instant, Instant)>,
}

/// Maximum number of kept intervals in `held_up`.
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

    /// Records that the worker was late, which delayed the operations due in this interval.
    pub(super) fn hold_up(&mut self, from: Instant, to: Instant) {
        if self.held_up.len() == HELD_UP_MAX {
            self.held_up.pop_front();
        }
        if self.next_due.is_some_and(|due| due <= to) {
            self.held_up.push_back((from, to));
        }
    }

    /// Returns how late the worker itself made an operation; `None` if it only waited for a client. Call it in order
    /// of due times.
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

    /// Records that a client is free and nothing is due.
    pub(super) fn wait(&mut self) {
        self.starved = false;
        self.held_up.clear();
    }

    /// Moves to the next due operation. `start` is the start of the load.
    pub(super) fn advance(&mut self, start: Instant) {
        // A rate that has dropped to zero makes nothing due again.
        let next_due = start.checked_add(self.schedule.next_due());
        debug_assert!(
            next_due.is_none_or(|next| self.next_due.is_none_or(|due| due <= next)),
            "due times never go back: from {:?} to {next_due:?}",
            self.next_due
        );
        self.next_due = next_due;
    }
}
