//! Errors of an agent and of the connection to it.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::GONE_AFTER;

/// The reason why an agent refused a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRefusal {
    /// Whole message. The first line names the failure.
    pub text: String,
    /// True if the request was interrupted before it was done.
    #[serde(default)]
    pub interrupted: bool,
}

impl AgentRefusal {
    /// Creates a refusal with this message.
    pub fn new(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), interrupted: false }
    }
}

/// A machine whose agent cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// Starting the carrier failed.
    #[error("cannot start `{program}`: {why}\nhint: it must be on this machine's `PATH`")]
    NoCarrier {
        /// Program name: `ssh`, `kubectl`.
        program: String,
        /// Reason from the operating system.
        why: String,
    },
    /// The connection ended before an agent introduced itself.
    #[error(
        "cannot start the agent on `{machine}`: {how}{}\nhint: {}",
        quoted(.said),
        start_hint(.by_hand.as_deref())
    )]
    NotBegun {
        /// Name in the places file.
        machine: String,
        /// Exit status of the carrier, or what failed while it still ran.
        how: String,
        /// Last lines of output from the machine.
        said: String,
        /// Command for a manual test of the connection. `None` if the executable sent is the likely cause.
        by_hand: Option<String>,
    },
    /// No agent introduced itself in a pod.
    #[error(
        "cannot start the agent in the pod `{machine}`: {how}{}\n\
         hint: its image needs `/bin/sh` and a C library that can run bakeoff (or the `agent` of the places file); \
         with `agent-image` it needs neither",
        quoted(.said)
    )]
    NotBegunInPod {
        /// Name in the places file.
        machine: String,
        /// Exit status of `kubectl exec`, or what failed while it still ran.
        how: String,
        /// Last lines of output from the pod.
        said: String,
    },
    /// The bakeoff in a pod's image is another build, and the pod has no shell to receive this one.
    #[error(
        "`{machine}` has bakeoff {theirs} from `agent-image`, needs {ours}, and has no shell to receive it\n\
         hint: use an image of the same build, or set `agent: PATH` to this machine's copy of the image's program"
    )]
    OtherBuild {
        /// Name in the places file.
        machine: String,
        /// Version and SHA-256 of the image's bakeoff.
        theirs: String,
        /// SHA-256 of the bakeoff to send.
        ours: String,
    },
    /// No bakeoff executable fits the machine's architecture.
    #[error(
        "`{machine}` is {theirs}, but the bakeoff to send is built for {ours}\n\
         hint: set `agent: {{{}: PATH}}` in the places file to a bakeoff built for that machine",
        .theirs.rsplit(' ').next().unwrap_or_default()
    )]
    OtherArchitecture {
        /// Name in the places file.
        machine: String,
        /// Operating system and architecture: `Linux aarch64`.
        theirs: String,
        /// Platforms of the available executables: `Linux x86_64`.
        ours: String,
    },
    /// The agent uses another version of the protocol.
    #[error(
        "the agent on `{machine}` speaks protocol version {theirs}, this bakeoff version {ours}\n\
         hint: remove `agent` from the places file; bakeoff then sends its own program"
    )]
    OtherProtocol {
        /// Name in the places file.
        machine: String,
        /// Version of the agent.
        theirs: u32,
        /// Version of this bakeoff.
        ours: u32,
    },
    /// The agent is reachable and refused a request.
    #[error("on `{machine}`: {}", .refusal.text)]
    Refused {
        /// Name in the places file.
        machine: String,
        /// Reason from the agent.
        refusal: AgentRefusal,
    },
    /// The connection to the agent is lost.
    #[error(
        "lost the connection to `{machine}`: {why}\n\
         hint: check that the machine is up and reachable; everything bakeoff started there stops within {} s",
        GONE_AFTER.as_secs()
    )]
    Lost {
        /// Name in the places file.
        machine: String,
        /// Last error or output from the connection.
        why: String,
    },
    /// The agent sent an invalid message.
    #[error("invalid message from the agent on `{machine}`: {why}")]
    Garbled {
        /// Name in the places file.
        machine: String,
        /// Description of the fault.
        why: String,
    },
}

/// Puts each line of a machine's output on its own line, after a `|`.
fn quoted(said: &str) -> String {
    said.lines().map(|line| format!("\n    | {line}")).collect()
}

fn start_hint(by_hand: Option<&str>) -> String {
    match by_hand {
        Some(command) => format!("check that `{command}` works without a password"),
        None => "check that the bakeoff sent there can run on that machine; `agent` in the places file selects another".into(),
    }
}

impl AgentError {
    pub(crate) fn lost_by(machine: &str, error: &io::Error) -> Self {
        Self::Lost { machine: machine.to_owned(), why: error.to_string() }
    }

    pub(crate) fn silent(machine: &str, time: Duration) -> Self {
        let why = format!(
            "no answer within {time:?}: the agent hangs or is stopped, or the network is cut"
        );
        Self::Lost { machine: machine.to_owned(), why }
    }

    /// Returns true if the connection is lost or never existed, so no further request can succeed.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// Returns true if the request was interrupted.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.interrupted)
    }
}
