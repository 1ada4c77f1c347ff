//! A server on another machine, controlled through its agent.
//!
//! Not here: launching it (`client`), the server itself (`bakeoff_host`).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::record::durability::UnsafeSetting;
use bakeoff_core::study::DiskFault;
use bakeoff_host::{
    Exit, HostError, LimitsApplied, LogTail, NodeSpec, Process, Server, ServerEnding, StopResult,
    SyncsSeen,
};
use rustix::process::Signal;
use serde::de::DeserializeOwned;

use super::client::Agent;
use super::error::AgentError;
use super::message::{NodeRequest, Request};
use super::order::LaunchOrder;

/// A server that an agent launched.
struct RemoteServer {
    spec: NodeSpec,
    agent: Arc<Agent>,
    number: u32,
}

impl Agent {
    /// Launches a server on the agent's machine. `order` has that machine's paths; `spec` is the original description.
    ///
    /// # Errors
    /// When the launch fails or the machine is lost.
    pub fn launch(
        self: &Arc<Self>,
        spec: NodeSpec,
        order: LaunchOrder,
    ) -> Result<Process, HostError> {
        let number: u32 =
            self.ask(&Request::Launch { node: Box::new(order) }).map_err(elsewhere)?;
        Ok(Process::new(Box::new(RemoteServer { spec, agent: Arc::clone(self), number })))
    }
}

fn elsewhere(error: AgentError) -> HostError {
    HostError::Elsewhere { text: error.to_string() }
}

impl RemoteServer {
    /// Sends a request. Returns `None` if the agent refuses or is lost.
    fn ask<T: DeserializeOwned>(&self, ask: NodeRequest) -> Option<T> {
        self.try_ask(ask).ok()
    }

    fn try_ask<T: DeserializeOwned>(&self, ask: NodeRequest) -> Result<T, AgentError> {
        self.agent.ask(&Request::Node { node: self.number, ask })
    }
}

impl Server for RemoteServer {
    fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    fn ending(&self) -> Option<ServerEnding> {
        match self.try_ask(NodeRequest::Ending) {
            Ok(ending) => ending,
            Err(_) => Some(ServerEnding { exit: Exit::OutOfReach, cause: None }),
        }
    }

    fn limits(&self) -> LimitsApplied {
        let lost = || LimitsApplied::NotApplied {
            why: "the connection to its machine is lost".to_owned(),
        };
        self.ask(NodeRequest::Limits).unwrap_or_else(lost)
    }

    fn held_by_limits(&self) -> Option<String> {
        self.ask(NodeRequest::Held)?
    }

    fn listens_on(&self) -> Vec<SocketAddr> {
        self.ask(NodeRequest::Listening).unwrap_or_default()
    }

    fn strays(&self) -> Vec<String> {
        self.ask(NodeRequest::Strays).unwrap_or_default()
    }

    fn begin_counting_syncs(&self) -> Result<(), String> {
        let request = NodeRequest::CountSyncs;
        self.try_ask(request).map_err(|error| error.to_string())
    }

    fn end_counting_syncs(&self) -> SyncsSeen {
        let unseen = |error: AgentError| SyncsSeen::unseen(error.to_string());
        self.try_ask(NodeRequest::SyncsCounted).unwrap_or_else(unseen)
    }

    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String> {
        let request = NodeRequest::UnsafeSettings(known.to_vec());
        self.ask(request).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        self.ask::<()>(NodeRequest::Signal(signal.as_raw()));
    }

    fn pause(&self) -> Result<usize, String> {
        self.try_ask(NodeRequest::Pause).map_err(|error| error.to_string())
    }

    fn resume(&self) -> Result<usize, String> {
        self.try_ask(NodeRequest::Resume).map_err(|error| error.to_string())
    }

    fn break_disk(&self, fault: DiskFault) -> Result<String, String> {
        self.try_ask(NodeRequest::BreakDisk(fault)).map_err(|error| error.to_string())
    }

    fn heal_disk(&self) -> Result<String, String> {
        self.try_ask(NodeRequest::HealDisk).map_err(|error| error.to_string())
    }

    fn replace_file(&self, path: &Path, contents: &[u8]) -> Result<(), String> {
        let (path, contents) = (path.to_owned(), contents.to_owned());
        let replace = NodeRequest::ReplaceFile { path, contents };
        self.try_ask(replace).map_err(|error| error.to_string())
    }

    fn kill9(&self) -> Exit {
        self.ask(NodeRequest::Kill).unwrap_or(Exit::OutOfReach)
    }

    fn upgrade(&self) -> Result<String, String> {
        self.try_ask(NodeRequest::Upgrade).map_err(|error| error.to_string())
    }

    fn restart(&self) -> Result<(), HostError> {
        self.try_ask(NodeRequest::Restart).map_err(elsewhere)
    }

    fn ask_to_end(&self) {
        self.ask::<()>(NodeRequest::AskToEnd);
    }

    fn finish_within(&self, grace: Duration) -> StopResult {
        let grace_ms = grace.as_millis() as u64;
        let lost = StopResult { exit: Exit::OutOfReach, forced: true };
        self.ask(NodeRequest::Finish(grace_ms)).unwrap_or(lost)
    }

    fn log_tail(&self, lines: usize) -> LogTail {
        let tail: Option<LogTail> = self.ask(NodeRequest::LogTail(lines));
        let on =
            |path: PathBuf| PathBuf::from(format!("{}:{}", self.agent.machine(), path.display()));
        match tail {
            Some(tail) => LogTail { path: on(tail.path), ..tail },
            None => LogTail { path: on("lost with the machine".into()), lines: Vec::new() },
        }
    }

    fn number(&self) -> Option<u32> {
        Some(self.number)
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        if self.agent.lost().is_none() {
            self.ask::<()>(NodeRequest::Forget);
        }
    }
}
