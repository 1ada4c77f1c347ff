//! A server on another machine, as its agent tells of it.
//!
//! Not here: launching it (`client`), the server itself (`bakeoff_host`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::record::durability::UnsafeSetting;
use bakeoff_host::{
    Ending, Exit, HostError, LimitsApplied, LogTail, NodeSpec, Process, Server, Stopped, SyncsSeen,
};
use rustix::process::Signal;
use serde::de::DeserializeOwned;

use super::client::Agent;
use super::error::AgentError;
use super::message::Request;
use super::order::LaunchOrder;

/// A server that an agent launched.
struct RemoteServer {
    spec: NodeSpec,
    agent: Arc<Agent>,
    number: u32,
}

impl Agent {
    /// Launches a server there. `order`: its description with the paths of that machine; `spec`: as it was described.
    ///
    /// # Errors
    /// When it cannot be launched, or the machine is lost.
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
    /// Asks; a machine that is lost, or refuses, answers with nothing.
    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Option<T> {
        self.agent.ask(request).ok()
    }
}

impl Server for RemoteServer {
    fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    fn ending(&self) -> Option<Ending> {
        match self.agent.ask(&Request::Ending { node: self.number }) {
            Ok(ending) => ending,
            Err(_) => Some(Ending { exit: Exit::OutOfReach, cause: None }),
        }
    }

    fn limits(&self) -> LimitsApplied {
        let lost = || LimitsApplied::NotApplied { why: "its machine is lost".to_owned() };
        self.ask(&Request::Limits { node: self.number }).unwrap_or_else(lost)
    }

    fn held_by_limits(&self) -> Option<String> {
        self.ask(&Request::Held { node: self.number })?
    }

    fn listens_on(&self) -> Vec<SocketAddr> {
        self.ask(&Request::Listening { node: self.number }).unwrap_or_default()
    }

    fn strays(&self) -> Vec<String> {
        self.ask(&Request::Strays { node: self.number }).unwrap_or_default()
    }

    fn begin_counting_syncs(&self) -> Result<(), String> {
        let request = Request::CountSyncs { node: self.number };
        self.agent.ask(&request).map_err(|error| error.to_string())
    }

    fn end_counting_syncs(&self) -> SyncsSeen {
        let unseen = |error: AgentError| SyncsSeen::unseen(error.to_string());
        self.agent.ask(&Request::SyncsCounted { node: self.number }).unwrap_or_else(unseen)
    }

    fn unsafe_settings(&self, known: &[UnsafeSetting]) -> Vec<String> {
        let request = Request::UnsafeSettings { node: self.number, known: known.to_vec() };
        self.ask(&request).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        self.ask::<()>(&Request::Signal { node: self.number, signal: signal.as_raw() });
    }

    fn kill9(&self) -> Exit {
        self.ask(&Request::Kill { node: self.number }).unwrap_or(Exit::OutOfReach)
    }

    fn restart(&self) -> Result<(), HostError> {
        self.agent.ask(&Request::Restart { node: self.number }).map_err(elsewhere)
    }

    fn ask_to_end(&self) {
        self.ask::<()>(&Request::AskToEnd { node: self.number });
    }

    fn finish_within(&self, grace: Duration) -> Stopped {
        let grace_ms = grace.as_millis() as u64;
        let lost = Stopped { exit: Exit::OutOfReach, forced: true };
        self.ask(&Request::Finish { node: self.number, grace_ms }).unwrap_or(lost)
    }

    fn log_tail(&self, lines: usize) -> LogTail {
        let tail: Option<LogTail> = self.ask(&Request::LogTail { node: self.number, lines });
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
            self.ask::<()>(&Request::Forget { node: self.number });
        }
    }
}
