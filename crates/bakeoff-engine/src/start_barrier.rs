//! Starts several loads at one moment.
//!
//! Each load waits until the clients of all loads are connected; the last one sets the start time. If one load cannot
//! connect its clients, none begins.
//!
//! Not here: driving the loads (`engine`), choosing them (the binary's `trial::split_load`).

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::clock;

/// Delay from the last client's connection to the start of the load.
pub(super) const START_DELAY: Duration = Duration::from_millis(5);

/// Synchronizes the start of several loads.
pub struct StartBarrier {
    state: Mutex<State>,
    changed: Condvar,
    /// Chooses the start time once all are ready. Without a gate they start [`START_DELAY`] later.
    gate: Option<StartGate>,
}

/// Blocks until all generators are connected and returns the common start time. `None` cancels the load.
pub type StartGate = Box<dyn Fn() -> Option<Instant> + Send + Sync>;

enum State {
    /// Number of loads that are not ready yet.
    Waiting(usize),
    At(Instant),
    Failed,
}

impl StartBarrier {
    /// Waits for `loads` loads.
    pub fn new(loads: usize) -> Self {
        Self { state: Mutex::new(State::Waiting(loads)), changed: Condvar::new(), gate: None }
    }

    /// Waits for `loads` loads, which begin at the time that `gate` returns.
    pub fn gated(loads: usize, gate: StartGate) -> Self {
        Self { gate: Some(gate), ..Self::new(loads) }
    }

    /// Marks one load as ready, waits for the others and returns the start time. Returns `None` if one of them failed
    /// to connect.
    pub fn start(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waiting(left) = &mut *state {
            *left = left.saturating_sub(1);
            if *left == 0 {
                let at = match &self.gate {
                    None => Some(clock::now() + START_DELAY),
                    Some(gate) => gate(),
                };
                *state = at.map_or(State::Failed, State::At);
                self.changed.notify_all();
            }
        }
        let waits = |state: &mut State| matches!(state, State::Waiting(_));
        let state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::At(start) => Some(start),
            State::Waiting(_) | State::Failed => None,
        }
    }

    /// Cancels the start because one load failed to connect. No effect after the start.
    pub fn fail(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Waiting(_)) {
            *state = State::Failed;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_start_together_or_not_at_all() {
        let barrier = StartBarrier::new(2);
        let starts = std::thread::scope(|scope| {
            let other = scope.spawn(|| barrier.start());
            [barrier.start(), other.join().unwrap()]
        });
        assert!(starts[0].is_some() && starts[0] == starts[1]);
        let barrier = StartBarrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| barrier.start());
            barrier.fail();
            assert_eq!(other.join().unwrap(), None);
        });
        assert_eq!(barrier.start(), None);
    }
}
