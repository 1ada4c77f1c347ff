//! Holds what a worker of an open load has to send to one node.
//!
//! Each lane is one node's part of what the worker sends, with clients of its own. What is due at a
//! node that hangs waits for that node's clients, and holds up no other's.
//!
//! Not here: which operations and clients a lane has (`bakeoff_core::lanes`), who sends what is due (`due`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bakeoff_core::schedule::OpenSchedule;

/// Operations that one worker sends to one node in an open load.
pub(crate) struct Lane {
    /// The node; one of its places where it has several.
    pub(super) node: usize,
    pub(super) schedule: OpenSchedule,
    /// How many measured operations are left to be begun; `None` in a load that ends by time.
    pub(super) left: Option<u64>,
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
    pub(super) fn advance(&mut self, start: Instant) {
        // A pace that has come down to zero is never due again.
        self.next_due = start.checked_add(self.schedule.next_due());
    }
}
