//! Defines the result of a probe: the status of a ready cluster, or why it is not ready.
//!
//! Not here: the wait for readiness (`cluster` in the crate `bakeoff`).

use std::collections::BTreeMap;
use std::io;

use bakeoff_engine::tls::refusal::{self, Wording};
use bakeoff_wire::ProtocolError;

use super::SystemError;

/// Configuration that a server received from another one, by resource. The names can be part of a sentence.
pub type ConfigSnapshot = BTreeMap<String, serde_json::Value>;

/// Status of a cluster that can serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Index of the leader; `None` for a system without a leader.
    pub leader: Option<usize>,
    /// Version that the leader reports.
    pub version: Option<String>,
}

/// Reason why a cluster cannot serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// It may be ready soon. Holds the observed state.
    NotYet(String),
    /// It answers, but not like such a system. A starting server may recover; one that has run for long will not.
    Odd {
        /// Observed state: `` `10.0.0.5:2379`: gRPC INTERNAL ``.
        seen: String,
        /// Hint, without `hint: `.
        hint: &'static str,
    },
    /// Waiting does not help.
    Never {
        /// Observed state: `` `vault-1` is sealed ``.
        seen: String,
        /// Hint, without `hint: `.
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
            // Servers return these while they elect a leader.
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

/// Returns true if an exchange ended in a way that suggests another protocol.
fn is_broken_off(how: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&how)
}

const SILENT: &str = "it accepted the connection but sends nothing: it may hang, or another system listens on the port";
const ANOTHER_PROTOCOL: &str =
    "such a system does not answer like this: check the endpoint's port and the study's `kind`";
const OWN_CLIENT: &str = "check the endpoint with the system's own client";

impl From<&str> for NotReady {
    fn from(seen: &str) -> Self {
        Self::NotYet(seen.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_a_broken_exchange_have_different_hints() {
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
