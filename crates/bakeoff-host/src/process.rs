//! One running server, on this machine or on another.
//!
//! A [`Process`] is a launched [`Server`] on any machine. Dropping it kills the server.
//!
//! Not here: servers on this machine (`server`), servers behind an agent (`bakeoff-agent`).

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::record::durability::UnsafeSetting;
use bakeoff_core::study::DiskFault;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::child::Exit;
use super::ending::{Life, ServerEnding};
use super::error::LogTail;
use super::location::Location;
use super::observe::SampledProcess;
use super::syncs::SyncsSeen;
use super::{CutLosses, HostError, LimitsApplied, NodeSpec, UnsyncedFate};

/// Result of stopping a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopResult {
    /// How it ended.
    pub exit: Exit,
    /// True if it did not exit within the grace period and was killed.
    pub forced: bool,
}

/// A running server, controlled through its machine.
///
/// Has one method per request to a server. If the machine is lost, the server counts as ended with
/// [`Exit::OutOfReach`], and other requests return nothing.
pub trait Server: Send + Sync {
    /// Returns its description.
    fn spec(&self) -> &NodeSpec;
    /// Returns how it ended, with the cause if known; `None` while it runs.
    fn ending(&self) -> Option<ServerEnding>;
    /// Returns how it ended; `None` while it runs.
    fn exit(&self) -> Option<Exit> {
        self.ending().map(|ending| ending.exit)
    }
    /// Returns how its requested limits were applied.
    fn limits(&self) -> LimitsApplied;
    /// Describes the effect of its limits so far; `None` if they hardly mattered.
    fn held_by_limits(&self) -> Option<String>;
    /// Returns the TCP and UDP addresses that it and its descendants listen on. Empty if the kernel does not report
    /// them.
    fn listens_on(&self) -> Vec<SocketAddr>;
    /// Returns processes it left outside its group and descendants, as `nginx (4711)`. These daemons are in no sample.
    fn strays(&self) -> Vec<String>;
    /// Begins to count the syncs of its processes by tracing them. Slows the server until [`Self::end_counting_syncs`].
    ///
    /// # Errors
    /// A reason, if the kernel forbids tracing.
    fn begin_counting_syncs(&self) -> Result<(), String>;
    /// Ends counting and returns the syncs seen.
    fn end_counting_syncs(&self) -> SyncsSeen;
    /// Returns which of the known unsafe settings its processes run with. Reveals nothing else of their command lines
    /// and environments.
    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String>;
    /// Sends its group a signal. Does nothing once the server was reaped.
    fn signal(&self, signal: Signal);
    /// Stops all its processes with SIGSTOP, and returns the number of threads that were seen to stand still.
    ///
    /// # Errors
    /// A reason, if a thread goes on or the server has ended.
    fn pause(&self) -> Result<usize, String>;
    /// Continues all its processes with SIGCONT, and returns the number of their threads.
    ///
    /// # Errors
    /// A reason, if a thread stands still or the server has ended.
    fn resume(&self) -> Result<usize, String>;
    /// Kills it with its group and descendants at once, and reaps it.
    fn kill9(&self) -> Exit;
    /// Kills what still runs, then starts the same description in the existing directory. Output is appended to the
    /// same log.
    ///
    /// # Errors
    /// When the start fails, or the machine is lost.
    fn restart(&self) -> Result<(), HostError>;
    /// Makes later starts use the other version of its program ([`NodeSpec::upgrade`]), and returns that version.
    ///
    /// # Errors
    /// A reason, if its description has no other version, or the machine is lost.
    fn upgrade(&self) -> Result<String, String>;
    /// Breaks the disk of its directory, and returns the proof. It stays broken over restarts until
    /// [`Self::heal_disk`].
    ///
    /// # Errors
    /// A reason, if the fault is not proven, or its directory is on an ordinary file system
    /// ([`NodeDisk`](crate::NodeDisk)).
    fn break_disk(&self, fault: DiskFault) -> Result<String, String>;
    /// Heals the disk of its directory, and returns the proof.
    ///
    /// # Errors
    /// A reason, as of [`Self::break_disk`].
    fn heal_disk(&self) -> Result<String, String>;
    /// Replaces one of the files of its description, which a server that watches them reads again.
    ///
    /// # Errors
    /// A reason, if its description has no such file, its directory is on a file system of its own, or the file cannot
    /// be written.
    fn replace_file(&self, path: &Path, contents: &[u8]) -> Result<(), String>;
    /// Makes everything durable that it wrote so far, as the kernel does after half a minute.
    ///
    /// # Errors
    /// A reason, as of [`Self::cut_power`].
    fn write_back(&self) -> Result<(), String> {
        Err("power cuts work on this machine only".to_owned())
    }
    /// Kills it, and makes its file system drop what was not synced, as in a power cut. [`Self::restart`] starts it on
    /// what is left.
    ///
    /// # Errors
    /// A reason, if its directory is on an ordinary file system ([`NodeDisk`](crate::NodeDisk)), or its own file system
    /// failed.
    fn cut_power(&self, _seed: u64, _unsynced: UnsyncedFate) -> Result<CutLosses, String> {
        Err("power cuts work on this machine only".to_owned())
    }
    /// Sends its group the stop signal.
    fn ask_to_end(&self);
    /// Waits up to `grace` for its exit, then kills what is left.
    fn finish_within(&self, grace: Duration) -> StopResult;
    /// Returns the last lines of output since its launch, without control characters.
    fn log_tail(&self, lines: usize) -> LogTail;

    /// Returns its number at another machine's agent; `None` on this machine.
    fn number(&self) -> Option<u32> {
        None
    }
    /// Returns its process ID; `None` once it was reaped, or on another machine.
    fn pid(&self) -> Option<i32> {
        None
    }
    /// Returns the CPU time of the server process, in clock ticks. `None` once it was reaped, or on another machine.
    fn cpu_used(&self) -> Option<Duration> {
        None
    }
    /// Returns its log files on this machine: the output, and further files that may be missing.
    fn logs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Returns the inputs of a sampler, valid over all restarts; `None` on another machine.
    fn watched(&self) -> Option<SampledProcess> {
        None
    }
}

/// A launched server. Dropping it kills the server.
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
    /// Wraps a launched server.
    pub fn new(server: Box<dyn Server>) -> Self {
        Self { server, life: Mutex::default() }
    }

    /// Returns the node's name, such as `etcd-1`.
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    /// Returns the port for a purpose. Panics if there is none, which is a bug.
    pub fn port(&self, purpose: &str) -> u16 {
        self.spec().port(purpose)
    }

    /// Returns its ports, each with its purpose.
    pub fn purposes(&self) -> impl Iterator<Item = (&str, u16)> {
        self.spec().ports.iter().map(|(purpose, port)| (purpose.as_str(), *port))
    }

    /// Returns its ports.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.spec().ports.iter().map(|&(_, port)| port)
    }

    /// Returns the server's own words for log levels.
    pub fn level_words(&self) -> &'static [LevelWord] {
        self.spec().level_words
    }

    /// Returns the CPUs that it is pinned to; empty if it may run on all.
    pub fn cpus(&self) -> &[u32] {
        self.spec().limits.as_ref().map_or(&[], |limits| &limits.cpus)
    }

    /// Returns its machine and the address that it listens on.
    pub fn location(&self) -> Location {
        self.spec().location
    }

    /// Returns its directory, on its machine.
    pub fn dir(&self) -> &Path {
        &self.spec().dir
    }

    /// Returns true if the server process still runs.
    pub fn is_alive(&self) -> bool {
        self.exit().is_none()
    }

    /// Returns the stage of its life.
    pub fn life(&self) -> Life {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lives_as(&self, now: Life) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Sends the stop signal, waits up to `grace`, then kills what is left.
    pub fn terminate(&self, grace: Duration) -> StopResult {
        self.ask_to_end();
        self.finish_within(grace)
    }

    /// Starts it again: see [`Server::restart`].
    ///
    /// # Errors
    /// When the start fails.
    pub fn restart(&self) -> Result<(), HostError> {
        self.server.restart()?;
        self.lives_as(Life::StartedAgain);
        Ok(())
    }
}

/// Sends the stop signal to all processes, then waits for each, so the grace periods overlap.
pub fn terminate_all<'p>(
    processes: impl IntoIterator<Item = &'p Process> + Clone,
    grace: Duration,
) -> Vec<StopResult> {
    processes.clone().into_iter().for_each(|process| process.ask_to_end());
    let deadline = clock::now() + grace;
    let left = || deadline.saturating_duration_since(clock::now());
    processes.into_iter().map(|process| process.finish_within(left())).collect()
}

/// Kills all processes. Sends all signals before it waits for the first exit, because that takes time.
pub fn kill_all<'p>(processes: impl Iterator<Item = &'p Process>) -> Vec<Exit> {
    let processes: Vec<&Process> = processes.collect();
    processes.iter().for_each(|process| process.signal(Signal::KILL));
    processes.into_iter().map(|process| process.kill9()).collect()
}
