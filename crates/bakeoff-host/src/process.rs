//! One running server, on this machine or on another.
//!
//! A [`Process`] is a [`Server`] that was launched, wherever it runs. Dropping it kills the server.
//!
//! Not here: servers of this machine (`server`), those behind an agent (`bakeoff-agent`).

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::record::durability::UnsafeSetting;
use rustix::process::Signal;

use super::child::Exit;
use super::ending::{Ending, Life};
use super::error::LogTail;
use super::observe::Watched;
use super::seat::Seat;
use super::server::Stopped;
use super::syncs::SyncsSeen;
use super::{HostError, LimitsApplied, NodeSpec};

/// A server, as a machine runs it.
///
/// It has one method for each thing that is asked of a server, hence their number. Where the machine is lost,
/// the server has ended as [`Exit::OutOfReach`], and what else is asked has no answer.
pub trait Server: Send + Sync {
    /// Returns its description.
    fn spec(&self) -> &NodeSpec;
    /// Returns how it ended by itself, and why as far as that can be seen; `None` while it runs.
    fn ending(&self) -> Option<Ending>;
    /// Returns how it ended; `None` while it runs.
    fn exit(&self) -> Option<Exit> {
        self.ending().map(|ending| ending.exit)
    }
    /// Returns whether and how the requested limits were applied.
    fn limits(&self) -> LimitsApplied;
    /// Describes the effect of its limits on a server that runs; `None` when that was nothing that matters.
    fn held_by_limits(&self) -> Option<String>;
    /// Returns the TCP and UDP addresses that it can be reached at, with all that descends from it; none where the
    /// kernel does not tell.
    fn listens_on(&self) -> Vec<SocketAddr>;
    /// Returns what it left running outside of its group and of all that descends from it, as `nginx (4711)`: daemons,
    /// which no sample includes.
    fn strays(&self) -> Vec<String>;
    /// Begins to count the syncs of its processes, by tracing them. That slows it down until
    /// [`Self::end_counting_syncs`].
    ///
    /// # Errors
    /// When the kernel forbids it, in words.
    fn begin_counting_syncs(&self) -> Result<(), String>;
    /// Ends counting, and returns the syncs that were seen.
    fn end_counting_syncs(&self) -> SyncsSeen;
    /// Returns those of the known unsafe settings that its processes run with. Nothing else of their command lines and
    /// environments is returned.
    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String>;
    /// Sends its group a signal; nothing when it was reaped.
    fn signal(&self, signal: Signal);
    /// Kills it, its group and all that descends from it, and reaps it, now.
    fn kill9(&self) -> Exit;
    /// Starts it again as it was described, in the directory as it is, after killing what may still run. Its log goes
    /// on in the same file.
    ///
    /// # Errors
    /// When it cannot be started, or its machine is lost.
    fn restart(&self) -> Result<(), HostError>;
    /// Asks its group to end.
    fn ask_to_end(&self);
    /// Waits for its end for so long, and kills what is left then.
    fn finish_within(&self, grace: Duration) -> Stopped;
    /// Returns the last lines of its output since it was launched, fit to be shown.
    fn log_tail(&self, lines: usize) -> LogTail;

    /// Returns the number by which another machine's agent knows it; `None` on this machine.
    fn number(&self) -> Option<u32> {
        None
    }
    /// Returns its process id on this machine; `None` once it was reaped, and elsewhere.
    fn pid(&self) -> Option<i32> {
        None
    }
    /// Returns the CPU time that the process itself has used, in steps of a clock tick; `None` once it was reaped, and
    /// elsewhere.
    fn cpu_used(&self) -> Option<Duration> {
        None
    }
    /// Returns the files of this machine that it complains in, which need not be there: its output, and further ones.
    fn logs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Returns what a sampler needs of it, over all its restarts; `None` for one of another machine.
    fn watched(&self) -> Option<Watched> {
        None
    }
}

/// A server that was launched. Dropping it kills it.
pub struct Process {
    server: Box<dyn Server>,
    life: Mutex<Life>,
}

impl Deref for Process {
    type Target = dyn Server;

    fn deref(&self) -> &Self::Target {
        &*self.server
    }
}

impl Process {
    /// Owns a server that was launched.
    pub fn new(server: Box<dyn Server>) -> Self {
        Self { server, life: Mutex::default() }
    }

    /// `etcd-1`.
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    /// Returns the port for a purpose. Asking for one that the description lacks is a bug.
    pub fn port(&self, purpose: &str) -> u16 {
        self.spec().port(purpose)
    }

    /// Returns all its ports, each with its purpose.
    pub fn purposes(&self) -> impl Iterator<Item = (&str, u16)> {
        self.spec().ports.iter().map(|(purpose, port)| (purpose.as_str(), *port))
    }

    /// Returns all its ports.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.spec().ports.iter().map(|&(_, port)| port)
    }

    /// Returns the words by which it names the levels of its lines.
    pub fn level_words(&self) -> &'static [LevelWord] {
        self.spec().level_words
    }

    /// Returns the CPUs that it is pinned to; none when it may run on all.
    pub fn cpus(&self) -> &[u32] {
        self.spec().limits.as_ref().map_or(&[], |limits| &limits.cpus)
    }

    /// Returns where it runs, and the address that it was told to listen on.
    pub fn seat(&self) -> Seat {
        self.spec().seat
    }

    /// Returns its own directory, on its machine.
    pub fn dir(&self) -> &Path {
        &self.spec().dir
    }

    /// Returns whether the server itself still runs.
    pub fn is_alive(&self) -> bool {
        self.exit().is_none()
    }

    /// Returns what it has done so far.
    pub fn life(&self) -> Life {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lives_as(&self, now: Life) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Asks its group to end, waits, and kills what is left after `grace`.
    pub fn terminate(&self, grace: Duration) -> Stopped {
        self.ask_to_end();
        self.finish_within(grace)
    }

    /// Starts it again: see [`Server::restart`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&self) -> Result<(), HostError> {
        self.server.restart()?;
        self.lives_as(Life::StartedAgain);
        Ok(())
    }
}

/// Asks all to end at once, so that the graces run side by side, and waits for each.
pub fn terminate_all(processes: &[Process], grace: Duration) -> Vec<Stopped> {
    processes.iter().for_each(|process| process.ask_to_end());
    let deadline = clock::now() + grace;
    let left = || deadline.saturating_duration_since(clock::now());
    processes.iter().map(|process| process.finish_within(left())).collect()
}
