//! One running server, on this machine or on another.
//!
//! Whoever starts, asks and stops servers needs not know where they run: a [`Process`] passes each call on to
//! the server here, or to whoever reaches it elsewhere ([`Distant`]). Dropping a process kills the server.
//!
//! Not here: servers of this machine (`server`), the agent on other machines (`bakeoff-agent`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::log_findings::LevelWord;
use bakeoff_core::record::durability::UnsafeSetting;
use rustix::process::Signal;

use super::child::Exit;
use super::ending::{Ending, Life};
use super::error::LogTail;
use super::seat::Seat;
use super::server::{Server, Stopped};
use super::syncs::SyncsSeen;
use super::{HostError, LimitsApplied, NodeSpec};

/// A server on another machine.
///
/// It has one method for each thing that is asked of a server, hence their number. Where the machine is lost,
/// the server has ended as [`Exit::OutOfReach`], and what else is asked has no answer.
pub trait Distant: Send + Sync {
    /// Returns how it ended by itself; `None` while it runs.
    fn ending(&self) -> Option<Ending>;
    /// Returns whether and how its limits were applied.
    fn limits(&self) -> LimitsApplied;
    /// Describes the effect of its limits; `None` when that was nothing that matters.
    fn held_by_limits(&self) -> Option<String>;
    /// Returns the addresses that it can be reached at.
    fn listens_on(&self) -> Vec<SocketAddr>;
    /// Returns the daemons that it left running.
    fn strays(&self) -> Vec<String>;
    /// Begins to count the syncs of its processes.
    ///
    /// # Errors
    /// When they cannot be counted, in words.
    fn begin_counting_syncs(&self) -> Result<(), String>;
    /// Ends counting, and returns the count.
    fn end_counting_syncs(&self) -> SyncsSeen;
    /// Returns the unsafe settings in the command lines and environments of its processes.
    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String>;
    /// Sends its group a signal.
    fn signal(&self, signal: Signal);
    /// Kills it with all that descends from it.
    fn kill9(&self) -> Exit;
    /// Starts it again as it was described.
    ///
    /// # Errors
    /// When it cannot be started, or its machine is lost.
    fn restart(&self) -> Result<(), HostError>;
    /// Asks it to end.
    fn ask_to_end(&self);
    /// Waits for its end for so long, and kills what is left then.
    fn finish_within(&self, grace: Duration) -> Stopped;
    /// Returns the last lines of its log.
    fn log_tail(&self, lines: usize) -> LogTail;
    /// Returns the number by which its machine's agent knows it.
    fn number(&self) -> u32;
}

/// A server that was launched. Dropping it kills it.
pub struct Process(Inner);

enum Inner {
    Here(Box<Server>),
    Elsewhere { spec: Box<NodeSpec>, life: Mutex<Life>, server: Box<dyn Distant> },
}

impl Process {
    /// A server that was launched on another machine, as it was described.
    pub fn elsewhere(spec: NodeSpec, server: Box<dyn Distant>) -> Self {
        Self(Inner::Elsewhere { spec: Box::new(spec), life: Mutex::default(), server })
    }

    pub(super) fn here(server: Server) -> Self {
        Self(Inner::Here(Box::new(server)))
    }

    fn spec(&self) -> &NodeSpec {
        match &self.0 {
            Inner::Here(server) => server.spec(),
            Inner::Elsewhere { spec, .. } => spec,
        }
    }

    /// The server, where it runs on this machine.
    pub(super) fn server(&self) -> Option<&Server> {
        match &self.0 {
            Inner::Here(server) => Some(server),
            Inner::Elsewhere { .. } => None,
        }
    }

    /// The server, where it runs on another machine.
    pub fn distant(&self) -> Option<&dyn Distant> {
        match &self.0 {
            Inner::Here(_) => None,
            Inner::Elsewhere { server, .. } => Some(&**server),
        }
    }

    /// `etcd-1`.
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    /// The port for a purpose. Asking for one that the description lacks is a bug.
    pub fn port(&self, purpose: &str) -> u16 {
        self.spec().port(purpose)
    }

    /// All its ports, each with its purpose.
    pub fn purposes(&self) -> impl Iterator<Item = (&str, u16)> {
        self.spec().ports.iter().map(|(purpose, port)| (purpose.as_str(), *port))
    }

    /// All its ports.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.spec().ports.iter().map(|&(_, port)| port)
    }

    /// The files of this machine that it complains in, which need not be there: its output, and further ones.
    pub fn logs(&self) -> impl Iterator<Item = PathBuf> {
        self.server().into_iter().flat_map(Server::logs)
    }

    /// Returns the words by which it names the levels of its lines.
    pub fn level_words(&self) -> &'static [LevelWord] {
        self.spec().level_words
    }

    /// The CPUs that it is pinned to; none when it may run on all.
    pub fn cpus(&self) -> &[u32] {
        self.spec().limits.as_ref().map_or(&[], |limits| &limits.cpus)
    }

    /// Where it runs, and the address that it was told to listen on.
    pub fn seat(&self) -> Seat {
        self.spec().seat
    }

    /// Its own directory, on its machine.
    pub fn dir(&self) -> &Path {
        &self.spec().dir
    }

    /// The TCP and UDP addresses that it can be reached at, with all that descends from it; none where the kernel
    /// does not tell.
    pub fn listens_on(&self) -> Vec<SocketAddr> {
        match &self.0 {
            Inner::Here(server) => server.listens_on(),
            Inner::Elsewhere { server, .. } => server.listens_on(),
        }
    }

    /// The server's process id on this machine; `None` once it was reaped, and elsewhere.
    pub fn pid(&self) -> Option<i32> {
        self.server()?.pid()
    }

    /// CPU time that the process itself has used, in steps of a clock tick; `None` once it was reaped, and elsewhere.
    pub fn cpu_used(&self) -> Option<Duration> {
        self.server()?.cpu_used()
    }

    /// The process id as it is now and after every restart; 0 while there is none.
    pub fn pid_cell(&self) -> Arc<AtomicI32> {
        self.server().map(Server::pid_cell).unwrap_or_default()
    }

    /// Returns whether and how the requested limits were applied.
    pub fn limits(&self) -> LimitsApplied {
        match &self.0 {
            Inner::Here(server) => server.limits(),
            Inner::Elsewhere { server, .. } => server.limits(),
        }
    }

    /// Describes the effect of its limits on a server that runs; `None` when that was nothing that matters.
    pub fn held_by_limits(&self) -> Option<String> {
        match &self.0 {
            Inner::Here(server) => server.held_by_limits(),
            Inner::Elsewhere { server, .. } => server.held_by_limits(),
        }
    }

    /// Returns whether the server itself still runs.
    pub fn is_alive(&self) -> bool {
        self.exit().is_none()
    }

    /// Returns how it ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        match &self.0 {
            Inner::Here(server) => server.exit(),
            Inner::Elsewhere { server, .. } => server.ending().map(|ending| ending.exit),
        }
    }

    /// Returns how it ended by itself, and why as far as that can be seen; `None` while it runs.
    pub fn ending(&self) -> Option<Ending> {
        match &self.0 {
            Inner::Here(server) => server.ending(),
            Inner::Elsewhere { server, .. } => server.ending(),
        }
    }

    /// Returns what it has done so far.
    pub fn life(&self) -> Life {
        match &self.0 {
            Inner::Here(server) => server.life(),
            Inner::Elsewhere { life, .. } => *life.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(super) fn lives_as(&self, now: Life) {
        match &self.0 {
            Inner::Here(server) => server.lives_as(now),
            Inner::Elsewhere { life, .. } => {
                *life.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
    }

    /// Kills it, its group and all that descends from it, and reaps it, now.
    pub fn kill9(&self) -> Exit {
        match &self.0 {
            Inner::Here(server) => server.kill9(),
            Inner::Elsewhere { server, .. } => server.kill9(),
        }
    }

    /// Returns what it left running outside of its group and of all that descends from it: daemons, of which no sample
    /// tells. Each is told as its name and process id: `nginx (4711)`.
    pub fn strays(&self) -> Vec<String> {
        match &self.0 {
            Inner::Here(server) => server.strays(),
            Inner::Elsewhere { server, .. } => server.strays(),
        }
    }

    /// Begins to count the syncs of its processes, by tracing them. That slows it down until
    /// [`Self::end_counting_syncs`].
    ///
    /// # Errors
    /// When the kernel forbids it, in words.
    pub fn begin_counting_syncs(&self) -> Result<(), String> {
        match &self.0 {
            Inner::Here(server) => server.begin_counting_syncs(),
            Inner::Elsewhere { server, .. } => server.begin_counting_syncs(),
        }
    }

    /// Ends counting, and returns the syncs that were seen.
    pub fn end_counting_syncs(&self) -> SyncsSeen {
        match &self.0 {
            Inner::Here(server) => server.end_counting_syncs(),
            Inner::Elsewhere { server, .. } => server.end_counting_syncs(),
        }
    }

    /// Returns those of the known unsafe settings that its processes run with. Nothing else of their command lines and
    /// environments is returned.
    pub fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String> {
        match &self.0 {
            Inner::Here(server) => server.unsafe_settings(known),
            Inner::Elsewhere { server, .. } => server.unsafe_settings(known),
        }
    }

    /// Asks its group to end, waits, and kills what is left after `grace`.
    pub fn terminate(&self, grace: Duration) -> Stopped {
        self.ask_to_end();
        self.finish_by(clock::now() + grace)
    }

    /// Asks its group to end.
    pub fn ask_to_end(&self) {
        match &self.0 {
            Inner::Here(server) => server.ask_to_end(),
            Inner::Elsewhere { server, .. } => server.ask_to_end(),
        }
    }

    /// Waits for its end for so long, and kills what is left then.
    pub fn finish_within(&self, grace: Duration) -> Stopped {
        self.finish_by(clock::now() + grace)
    }

    fn finish_by(&self, deadline: Instant) -> Stopped {
        match &self.0 {
            Inner::Here(server) => server.finish_by(deadline),
            Inner::Elsewhere { server, .. } => {
                server.finish_within(deadline.saturating_duration_since(clock::now()))
            }
        }
    }

    /// Sends its group a signal; nothing when it was reaped.
    pub fn signal(&self, signal: Signal) {
        match &self.0 {
            Inner::Here(server) => server.signal(signal),
            Inner::Elsewhere { server, .. } => server.signal(signal),
        }
    }

    /// Starts it again as it was described, in the directory as it is, after killing what may
    /// still run. Its log goes on in the same file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&self) -> Result<(), HostError> {
        match &self.0 {
            Inner::Here(server) => server.restart(),
            Inner::Elsewhere { server, .. } => {
                server.restart()?;
                self.lives_as(Life::StartedAgain);
                Ok(())
            }
        }
    }

    /// Returns where its output goes.
    #[cfg(test)]
    pub fn log_path(&self) -> &Path {
        self.server().expect("tests of this crate start servers here").log_path()
    }

    /// The last lines of its output since it was launched, fit to be shown.
    pub fn log_tail(&self, lines: usize) -> LogTail {
        match &self.0 {
            Inner::Here(server) => server.log_tail(lines),
            Inner::Elsewhere { server, .. } => server.log_tail(lines),
        }
    }
}

/// Asks all to end at once, so that the graces run side by side, and waits for each.
pub fn terminate_all(processes: &[Process], grace: Duration) -> Vec<Stopped> {
    processes.iter().for_each(Process::ask_to_end);
    let deadline = clock::now() + grace;
    processes.iter().map(|process| process.finish_by(deadline)).collect()
}
