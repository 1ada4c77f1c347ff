//! Watches a trial on a machine: samples its servers, and marks in their logs where a load begins and ends.
//!
//! A trial calls [`Watch`] alone, wherever its servers run. An agent answers by the [`LocalWatch`] of its machine.
//!
//! Not here: the samples (`observe`), the marks (`logs`), machines behind an agent (the program's `machines`).

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock::Moment;
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::observed::{Observed, PhaseName};

use super::Process;
use super::logs::Marks;
use super::observe::Sampler;

/// Watches the servers of a trial on one machine or several. Each method skips servers of other machines, and a
/// machine that is lost.
pub trait Watch: Sync {
    /// Samples these servers from now on.
    fn watch(&self, servers: &[&Process]);
    /// Begins a phase of the trial.
    fn phase(&self, name: PhaseName);
    /// Marks the beginning of a load in the logs of these servers.
    fn mark_logs(&self, servers: &[&Process]);
    /// Marks the end of the load.
    fn end_marks(&self);
    /// Returns the complaints of the servers in between.
    fn complaints(&self) -> Vec<NodeLog>;
}

/// Watches servers of this machine.
pub struct LocalWatch {
    sampler: Mutex<Sampler>,
    marks: Mutex<Marks>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalWatch {
    /// Begins to sample bakeoff and the machine. `began`: when the trial did; all times count from there. `data`: a
    /// directory on the disk that holds the servers' data.
    pub fn begin(data: &Path, every: Duration, began: Instant) -> Self {
        let sampler = Mutex::new(Sampler::start(data, every, began));
        Self { sampler, marks: Mutex::default() }
    }

    /// Returns where the engine reports when measuring begins and ends.
    pub fn moments(&self) -> Sender<Moment> {
        locked(&self.sampler).moments()
    }

    /// Returns what has been sampled by now.
    pub fn so_far(&self) -> Observed {
        locked(&self.sampler).so_far()
    }

    /// Takes a last sample and returns all.
    pub fn end(self) -> Observed {
        self.sampler.into_inner().unwrap_or_else(PoisonError::into_inner).stop()
    }
}

impl Watch for LocalWatch {
    fn watch(&self, servers: &[&Process]) {
        locked(&self.sampler).watch(servers.iter().filter_map(|server| server.watched()));
    }

    fn phase(&self, name: PhaseName) {
        locked(&self.sampler).phase(name);
    }

    fn mark_logs(&self, servers: &[&Process]) {
        *locked(&self.marks) = Marks::begin(servers.iter().copied());
    }

    fn end_marks(&self) {
        locked(&self.marks).end();
    }

    fn complaints(&self) -> Vec<NodeLog> {
        locked(&self.marks).complaints()
    }
}
