//! The answer to a probe: a cluster can serve, or why it cannot.
//!
//! Not here: waiting until it can (`cluster` of the crate `bakeoff`).

use std::collections::BTreeMap;
use std::io;

use bakeoff_engine::tls::refusal::{self, Wording};
use bakeoff_wire::ProtocolError;

use super::SystemError;

/// The configuration that a server was given by another one, each thing under a name that can stand in
/// a sentence.
pub type ConfigSnapshot = BTreeMap<String, serde_json::Value>;

/// The status of a cluster that can serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Which of the nodes leads; `None` for a system without a leader.
    pub leader: Option<usize>,
    /// The version that the leader reports.
    pub version: Option<String>,
}

/// Why a cluster cannot serve: what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// It may before long.
    NotYet(String),
    /// It is there, and does not answer as such a system does. One that is starting may get over it; one that has
    /// been running for long does not.
    Odd {
        /// `` `10.0.0.5:2379`: grpc status 13 ``.
        seen: String,
        /// Without `hint: `.
        hint: &'static str,
    },
    /// Waiting does not help: what was seen, and what to try.
    Never {
        /// `` `vault-1` is sealed ``.
        seen: String,
        /// Without `hint: `.
        hint: String,
    },
}

impl From<String> for NotReady {
    fn from(seen: String) -> Self {
        Self::NotYet(seen)
    }
}

impl From<SystemError> for NotReady {
    fn from(seen: SystemError) -> Self {
        match &seen {
            SystemError::Unreachable { source, .. } => match source.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => Self::Never {
                    hint: refusal::hint(inner.downcast_ref(), Wording::Study).to_owned(),
                    seen: seen.to_string(),
                },
                Some(inner) if inner.is::<ProtocolError>() => {
                    Self::Odd { seen: seen.to_string(), hint: ANOTHER_PROTOCOL }
                }
                _ if source.kind() == io::ErrorKind::TimedOut => {
                    Self::Odd { seen: seen.to_string(), hint: SILENT }
                }
                _ if is_broken_off(source.kind()) => {
                    Self::Odd { seen: seen.to_string(), hint: ANOTHER_PROTOCOL }
                }
                _ => Self::NotYet(seen.to_string()),
            },
            // Servers say so while they elect one of them.
            SystemError::Status { answer, .. } if answer.starts_with('5') => {
                Self::NotYet(seen.to_string())
            }
            SystemError::Answered { .. }
            | SystemError::Status { .. }
            | SystemError::NoJson { .. } => Self::Odd { seen: seen.to_string(), hint: OWN_CLIENT },
            SystemError::Unset(_) | SystemError::State(_) => Self::NotYet(seen.to_string()),
        }
    }
}

/// Returns whether a conversation ended so that one who speaks otherwise may have ended it.
fn is_broken_off(how: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&how)
}

const SILENT: &str =
    "it took the connection and says nothing: it may hang, or another system listens at the port";
const ANOTHER_PROTOCOL: &str =
    "this is not how such a system speaks: look at the endpoint's port, and at the study's `kind`";
const OWN_CLIENT: &str = "look at the endpoint with the system's own client";

impl From<&str> for NotReady {
    fn from(seen: &str) -> Self {
        Self::NotYet(seen.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_a_broken_conversation_have_hints_of_their_own() {
        for (kind, wanted) in
            [(io::ErrorKind::TimedOut, SILENT), (io::ErrorKind::UnexpectedEof, ANOTHER_PROTOCOL)]
        {
            let source = io::Error::new(kind, "seen");
            let seen = SystemError::Unreachable {
                node: "c-1".to_owned(),
                authority: "c:1".to_owned(),
                source,
            };
            let NotReady::Odd { hint, .. } = NotReady::from(seen) else { panic!("{kind}") };
            assert_eq!(hint, wanted);
        }
    }
}
