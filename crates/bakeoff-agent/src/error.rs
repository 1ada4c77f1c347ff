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
#[derive(Debug, Clone)]
pub enum AgentError {
    /// The carrier could not be started.
    NoCarrier {
        /// `ssh`.
        program: String,
        /// The kernel's reason.
        why: String,
    },
    /// No agent began to speak.
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
    NotBegunInPod {
        /// The machine's name.
        machine: String,
        /// How `kubectl exec` ended, or that it did not.
        how: String,
        /// The last lines that came from there.
        said: String,
    },
    /// A pod without a shell has another build of bakeoff than the one that is to serve.
    OtherBuild {
        /// The machine's name.
        machine: String,
        /// The version and the hash there.
        theirs: String,
        /// The hash of the one that was to be sent.
        ours: String,
    },
    /// It is of another kind of machine.
    OtherArchitecture {
        /// The machine's name.
        machine: String,
        /// `Linux aarch64`.
        theirs: String,
        /// Those that there is a bakeoff for: `Linux x86_64`.
        ours: String,
    },
    /// It speaks another version of the protocol.
    OtherProtocol {
        /// The machine's name.
        machine: String,
        /// Its number.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// It is there, and refused.
    Refused {
        /// The machine's name.
        machine: String,
        /// Its words.
        refusal: AgentRefusal,
    },
    /// It was there, and is not any more.
    Lost {
        /// The machine's name.
        machine: String,
        /// The last that was seen.
        why: String,
    },
    /// It sent what no agent sends.
    Garbled {
        /// The machine's name.
        machine: String,
        /// The fault.
        why: String,
    },
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

impl fmt::Display for AgentError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCarrier { program, why } => write!(
                to,
                "`{program}` cannot be started: {why}\nhint: it has to be on `PATH` of this machine"
            ),
            Self::NotBegun { machine, how, said, by_hand } => {
                write!(to, "no agent began on `{machine}`: {how}")?;
                said.lines().try_for_each(|line| write!(to, "\n    | {line}"))?;
                match by_hand {
                    Some(command) => {
                        write!(to, "\nhint: try the same by hand, without a password: `{command}`")
                    }
                    None => write!(
                        to,
                        "\nhint: see that what was sent is a bakeoff that runs there; `agent` of the places file names another"
                    ),
                }
            }
            Self::NotBegunInPod { machine, how, said } => {
                write!(to, "no agent began in the pod `{machine}`: {how}")?;
                said.lines().try_for_each(|line| write!(to, "\n    | {line}"))?;
                write!(
                    to,
                    "\nhint: its image needs `/bin/sh` and a C library that bakeoff, or `agent` of the places file, runs with; \
                     with `agent-image` it needs neither"
                )
            }
            Self::OtherBuild { machine, theirs, ours } => write!(
                to,
                "`{machine}` has bakeoff {theirs} from `agent-image`, not {ours}, and no shell that could take that\nhint: \
                 name an image of the same build, or the image's program of this machine as `agent: PATH`"
            ),
            Self::OtherArchitecture { machine, theirs, ours } => write!(
                to,
                "`{machine}` is {theirs}, and bakeoff is at hand for {ours}\nhint: name one that was built for it in the \
                 places file: `agent: {{{}: PATH}}`",
                theirs.rsplit(' ').next().unwrap_or_default()
            ),
            Self::OtherProtocol { machine, theirs, ours } => write!(
                to,
                "the agent on `{machine}` speaks version {theirs} of the protocol, and this bakeoff version {ours}\n\
                 hint: leave `agent` out of the places file, so that this bakeoff is sent there"
            ),
            Self::Refused { machine, refusal } => write!(to, "on `{machine}`: {}", refusal.text),
            Self::Lost { machine, why } => write!(
                to,
                "`{machine}` is lost: {why}\nhint: see whether it is up and reached; if it is up, what ran there ends by itself \
                 within {} s",
                GONE_AFTER.as_secs()
            ),
            Self::Garbled { machine, why } => {
                write!(to, "the agent on `{machine}` cannot be understood: {why}")
            }
        }
    }
}

impl std::error::Error for AgentError {}
