//! Holds the requests of a disk that is slow or stands still.
//!
//! A held request waits in a queue, and no thread waits with it: the disk still answers others, and takes the order
//! that heals it. The kernel does not let a process end while one of its requests is unanswered. So the disk is healed
//! before bakeoff waits for the end of a killed process.
//!
//! Not here: a full disk (`image`), the orders (`serve`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bakeoff_clock as clock;
use bakeoff_core::study::DiskFault;

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Sync,
}

/// Requests that wait, shared by all mounts of a file system.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    fault: Option<DiskFault>,
    /// In the order of their arrival; later ones are never due earlier.
    held: VecDeque<HeldAnswer>,
}

struct HeldAnswer {
    /// Time of its answer; `None` until the disk is healed.
    due: Option<Instant>,
    answer: Box<dyn FnOnce() + Send>,
}

/// A request that has to wait.
pub(crate) struct Hold<'a> {
    gate: &'a Gate,
    state: MutexGuard<'a, State>,
    due: Option<Instant>,
}

impl Gate {
    /// Creates a gate, with the thread that answers held requests.
    pub(crate) fn open() -> std::io::Result<Arc<Self>> {
        let gate = Arc::new(Self::default());
        let answering = Arc::clone(&gate);
        let thread = std::thread::Builder::new().name("held".into());
        thread.spawn(move || answering.answer())?;
        Ok(gate)
    }

    /// Breaks the disk, or heals it. Either answers all held requests.
    pub(crate) fn set(&self, fault: Option<DiskFault>) {
        let mut state = self.state();
        state.fault = fault;
        let now = clock::now();
        state.held.iter_mut().for_each(|held| held.due = Some(now));
        self.changed.notify_one();
    }

    /// Returns the hold on a request; `None` if it is to be answered at once.
    pub(crate) fn hold(&self, purpose: Purpose) -> Option<Hold<'_>> {
        let state = self.state();
        let due = match (state.fault?, purpose) {
            (DiskFault::Slow { sync_delay }, Purpose::Sync) => Some(clock::now() + sync_delay),
            (DiskFault::Stalled, _) => None,
            (DiskFault::Slow { .. }, Purpose::Write) | (DiskFault::Full, _) => return None,
        };
        Some(Hold { gate: self, state, due })
    }

    /// Answers held requests when they are due, for as long as the process lives.
    fn answer(&self) {
        let mut state = self.state();
        loop {
            let first = state.held.front().map(|held| held.due);
            state = match first {
                Some(Some(due)) => {
                    let left = due.saturating_duration_since(clock::now());
                    if left.is_zero() {
                        let held = state.held.pop_front();
                        drop(state);
                        held.into_iter().for_each(|held| (held.answer)());
                        self.state()
                    } else {
                        let waited = self.changed.wait_timeout(state, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                }
                None | Some(None) => {
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold<'_> {
    /// Keeps the answer until it is due.
    pub(crate) fn until_due(mut self, answer: impl FnOnce() + Send + 'static) {
        self.state.held.push_back(HeldAnswer { due: self.due, answer: Box::new(answer) });
        self.gate.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// Sends a request through the gate. Returns the channel of its answer.
    fn request(gate: &Gate, purpose: Purpose) -> mpsc::Receiver<Instant> {
        let (answer, answered) = mpsc::channel();
        let done = move || answer.send(clock::now()).unwrap();
        match gate.hold(purpose) {
            None => done(),
            Some(hold) => hold.until_due(done),
        }
        answered
    }

    #[test]
    fn syncs_of_a_slow_disk_take_longer_and_do_not_wait_for_each_other() {
        let gate = Gate::open().unwrap();
        let sync_delay = Duration::from_millis(200);
        gate.set(Some(DiskFault::Slow { sync_delay }));
        let began = clock::now();
        let syncs: Vec<_> = (0..20).map(|_| request(&gate, Purpose::Sync)).collect();
        assert!(request(&gate, Purpose::Write).try_recv().is_ok(), "writes are as quick as before");
        for sync in syncs {
            let took = sync.recv_timeout(LONG).unwrap() - began;
            assert!(took >= sync_delay && took < sync_delay * 15, "{took:?}");
        }
    }

    #[test]
    fn requests_of_a_stalled_disk_are_answered_in_order_once_it_is_healed() {
        let gate = Gate::open().unwrap();
        gate.set(Some(DiskFault::Stalled));
        let write = request(&gate, Purpose::Write);
        let sync = request(&gate, Purpose::Sync);
        assert!(write.recv_timeout(Duration::from_millis(100)).is_err());
        gate.set(None);
        assert!(write.recv_timeout(LONG).unwrap() <= sync.recv_timeout(LONG).unwrap());
        assert!(request(&gate, Purpose::Sync).try_recv().is_ok());
    }

    #[test]
    fn healing_ends_the_wait_of_slow_syncs() {
        let gate = Gate::open().unwrap();
        gate.set(Some(DiskFault::Slow { sync_delay: Duration::from_secs(3600) }));
        let sync = request(&gate, Purpose::Sync);
        gate.set(Some(DiskFault::Full));
        sync.recv_timeout(LONG).unwrap();
        assert!(request(&gate, Purpose::Write).try_recv().is_ok());
    }
}
