//! Errors of an agent and of the way to it, in the house form.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::GONE_AFTER;

/// Why an agent did not do what it was asked for, in its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRefusal {
    /// The whole message: its first line says what failed.
    pub text: String,
    /// Whether somebody asked for the end before it was done.
    #[serde(default)]
    pub interrupted: bool,
}

impl AgentRefusal {
    /// Refuses with these words.
    pub fn new(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), interrupted: false }
    }
}

/// A machine whose agent cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// The carrier could not be started.
    #[error("`{program}` cannot be started: {why}\nhint: it has to be on `PATH` of this machine")]
    NoCarrier {
        /// `ssh`.
        program: String,
        /// The kernel's reason.
        why: String,
    },
    /// No agent began to speak.
    #[error(
        "no agent began on `{machine}`: {how}{}\nhint: {}",
        quoted(.said),
        start_hint(.by_hand.as_deref())
    )]
    NotBegun {
        /// The machine's name.
        machine: String,
        /// How the carrier ended, or that it did not.
        how: String,
        /// The last lines that came from there.
        said: String,
        /// The command by which a user tries the same way; `None` if that is not to blame, but what was sent.
        by_hand: Option<String>,
    },
    /// The same for a pod.
    #[error(
        "no agent began in the pod `{machine}`: {how}{}\n\
         hint: its image needs `/bin/sh` and a C library that bakeoff, or `agent` of the places file, runs with; \
         with `agent-image` it needs neither",
        quoted(.said)
    )]
    NotBegunInPod {
        /// The machine's name.
        machine: String,
        /// How `kubectl exec` ended, or that it did not.
        how: String,
        /// The last lines that came from there.
        said: String,
    },
    /// A pod without a shell has another build of bakeoff than the one that is to serve.
    #[error(
        "`{machine}` has bakeoff {theirs} from `agent-image`, not {ours}, and no shell that could take that\n\
         hint: name an image of the same build, or the image's program of this machine as `agent: PATH`"
    )]
    OtherBuild {
        /// The machine's name.
        machine: String,
        /// The version and the hash there.
        theirs: String,
        /// The hash of the one that was to be sent.
        ours: String,
    },
    /// It is of another kind of machine.
    #[error(
        "`{machine}` is {theirs}, and bakeoff is at hand for {ours}\n\
         hint: name one that was built for it in the places file: `agent: {{{}: PATH}}`",
        .theirs.rsplit(' ').next().unwrap_or_default()
    )]
    OtherArchitecture {
        /// The machine's name.
        machine: String,
        /// `Linux aarch64`.
        theirs: String,
        /// Those that there is a bakeoff for: `Linux x86_64`.
        ours: String,
    },
    /// It speaks another version of the protocol.
    #[error(
        "the agent on `{machine}` speaks version {theirs} of the protocol, and this bakeoff version {ours}\n\
         hint: leave `agent` out of the places file, so that this bakeoff is sent there"
    )]
    OtherProtocol {
        /// The machine's name.
        machine: String,
        /// Its number.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// It is there, and refused.
    #[error("on `{machine}`: {}", .refusal.text)]
    Refused {
        /// The machine's name.
        machine: String,
        /// Its words.
        refusal: AgentRefusal,
    },
    /// It was there, and is not any more.
    #[error(
        "`{machine}` is lost: {why}\n\
         hint: see whether it is up and reached; if it is up, what ran there ends by itself within {} s",
        GONE_AFTER.as_secs()
    )]
    Lost {
        /// The machine's name.
        machine: String,
        /// The last that was seen.
        why: String,
    },
    /// It sent what no agent sends.
    #[error("the agent on `{machine}` cannot be understood: {why}")]
    Garbled {
        /// The machine's name.
        machine: String,
        /// The fault.
        why: String,
    },
}

/// Puts each line of a machine's output on a line of its own, behind a `|`.
fn quoted(said: &str) -> String {
    said.lines().map(|line| format!("\n    | {line}")).collect()
}

fn start_hint(by_hand: Option<&str>) -> String {
    match by_hand {
        Some(command) => format!("try the same by hand, without a password: `{command}`"),
        None => "see that what was sent is a bakeoff that runs there; `agent` of the places file names another".into(),
    }
}

impl AgentError {
    pub(crate) fn lost_by(machine: &str, error: &io::Error) -> Self {
        Self::Lost { machine: machine.to_owned(), why: error.to_string() }
    }

    pub(crate) fn silent(machine: &str, time: Duration) -> Self {
        let why = format!(
            "no answer within {time:?}: its agent hangs or is stopped, or the way there is cut"
        );
        Self::Lost { machine: machine.to_owned(), why }
    }

    /// Returns whether the machine is lost, so that nothing more can be asked of it.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// Returns whether somebody asked for the end.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.interrupted)
    }
}
