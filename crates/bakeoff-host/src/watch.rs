//! Watches a trial on a machine: samples its servers, and marks in their logs where a load begins and ends.
//!
//! A trial calls only [`Watch`], wherever its servers run. An agent answers with the [`LocalWatch`] of its machine.
//!
//! Not here: the samples (`observe`), the marks (`logs`), machines behind an agent (`bakeoff-fleet`).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock::Moment;
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::trial_samples::{NodeSample, PhaseName, TrialSamples};

use super::Process;
use super::listening;
use super::logs::Marks;
use super::observe::Sampler;

/// Watches the servers of a trial on one or several machines. Each method skips servers of other machines, and lost
/// machines.
pub trait Watch: Sync {
    /// Adds these servers to the samples.
    fn watch(&self, servers: &[&Process]);
    /// Begins a phase of the trial.
    fn phase(&self, name: PhaseName);
    /// Marks the beginning of a load in the logs of these servers.
    fn mark_logs(&self, servers: &[&Process]);
    /// Marks the end of the load in the logs.
    fn end_marks(&self);
    /// Returns the log findings between both marks.
    fn complaints(&self) -> Vec<NodeLog>;
}

/// Programs that listen for servers which run elsewhere: in a container, or on another machine. The kernel cuts names
/// off after 15 bytes.
const FORWARDERS: [&str; 9] = [
    "docker-proxy",
    "rootlessport",
    "rootlesskit",
    "slirp4netns",
    "pasta",
    "conmon",
    "kubectl",
    "ssh",
    "socat",
];

/// Watches servers of this machine.
pub struct LocalWatch {
    sampler: Mutex<Sampler>,
    marks: Mutex<Marks>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalWatch {
    /// Starts sampling bakeoff and the machine. `began`: start of the trial, the origin of all times. `data`: a
    /// directory on the disk that holds the servers' data.
    pub fn begin(data: &Path, every: Duration, began: Instant) -> Self {
        let sampler = Mutex::new(Sampler::start(data, every, began));
        Self { sampler, marks: Mutex::default() }
    }

    /// Returns a channel for the times at which measuring begins and ends.
    pub fn moments(&self) -> Sender<Moment> {
        locked(&self.sampler).moments()
    }

    /// Counts a process and its descendants as part of the trial.
    pub fn count_helper(&self, process: i32) {
        locked(&self.sampler).count_helper(process);
    }

    /// Counts the process that listens on one of these addresses as part of the trial.
    ///
    /// # Errors
    /// Returns the reason why the server's process is not known.
    pub fn count_listener(&self, addresses: &[SocketAddr]) -> Result<(), String> {
        let Some((pid, program)) = addresses.iter().find_map(|&at| listening::process(at)) else {
            return Err("its process cannot be seen: another user started it".to_owned());
        };
        if FORWARDERS.contains(&&*program) {
            return Err(format!("`{program}` passes its connections on to an unknown process"));
        }
        self.count_helper(pid);
        Ok(())
    }

    /// Returns the samples so far.
    pub fn so_far(&self) -> TrialSamples {
        locked(&self.sampler).so_far()
    }

    /// Returns the last sample of each server and of bakeoff itself, without taking one.
    pub fn last_samples(&self) -> Vec<NodeSample> {
        locked(&self.sampler).last_samples()
    }

    /// Takes a last sample and returns all.
    pub fn end(self) -> TrialSamples {
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
