//! Several loads that begin at one moment.
//!
//! Each waits until the clients of all are connected; the last to come sets the moment. One that
//! cannot connect its clients says so, and then none begins.
//!
//! Not here: driving them (`engine`), what they are (the binary's `trial::split_load`).

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::{START_DELAY, clock};

/// The wait that they share.
pub struct Together {
    state: Mutex<State>,
    changed: Condvar,
    /// Says when, once all are ready; a moment from then where nobody else has to be asked.
    gate: Option<StartGate>,
}

/// Waits for whoever else has to be ready, and says when all begin; `None`: not at all.
pub type StartGate = Box<dyn Fn() -> Option<Instant> + Send + Sync>;

enum State {
    /// So many are not ready yet.
    Waiting(usize),
    At(Instant),
    Failed,
}

impl Together {
    /// For so many loads.
    pub fn new(loads: usize) -> Self {
        Self { state: Mutex::new(State::Waiting(loads)), changed: Condvar::new(), gate: None }
    }

    /// For so many loads, which begin when `gate` says.
    pub fn gated(loads: usize, gate: StartGate) -> Self {
        Self { gate: Some(gate), ..Self::new(loads) }
    }

    /// Waits for the others, for one is ready, and returns the moment. `None`: one of them will never be ready.
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

    /// One will never be ready; of no effect once they have begun.
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
    fn all_begin_at_one_moment_or_none_does() {
        let together = Together::new(2);
        let starts = std::thread::scope(|scope| {
            let other = scope.spawn(|| together.start());
            [together.start(), other.join().unwrap()]
        });
        assert!(starts[0].is_some() && starts[0] == starts[1]);
        let together = Together::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| together.start());
            together.fail();
            assert_eq!(other.join().unwrap(), None);
        });
        assert_eq!(together.start(), None);
    }
}
