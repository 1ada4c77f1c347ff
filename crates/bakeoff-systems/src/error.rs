//! The error of everything that is asked of a system outside the measured loop.
//!
//! Its text names the node and stands in a message as it is; what it comes from is its source.
//!
//! Not here: why a cluster is not ready yet (`NotReady`), failures of operations under load
//! (`bakeoff_engine::work`).

use std::error::Error;
use std::fmt;
use std::io;

use bakeoff_core::units;
use bakeoff_engine::tls::refusal;

use super::Access;
use super::variables::UnsetVariable;

/// A question to a system, or a preparation of it, that failed.
#[derive(Debug)]
pub enum SystemError {
    /// A node that could not be reached, or whose answer broke off.
    Unreachable {
        /// `etcd-1`.
        node: String,
        /// `127.0.0.1:2379`.
        authority: String,
        /// The error of the connection.
        source: io::Error,
    },
    /// A node that answered with an error of its own, or with something else than was asked for.
    Answered {
        /// `etcd-1`.
        node: String,
        /// The answer, or what is wrong with it.
        answer: String,
    },
    /// A request over HTTP whose answer is no success.
    Status {
        /// `` `GET /v1/sys/health` of `vault-1` ``.
        asked: String,
        /// `503: sealed`.
        answer: String,
    },
    /// An answer that is no JSON.
    NoJson {
        /// `` `GET /v1/sys/health` of `vault-1` ``.
        asked: String,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A request that needs a variable of the environment.
    Unset(UnsetVariable),
    /// A state that does not allow what was asked for, in the system's words.
    State(String),
}

impl SystemError {
    /// Returns the error of a node that could not be reached.
    pub(crate) fn unreachable(node: &Access, source: io::Error) -> Self {
        Self::Unreachable { node: node.name.clone(), authority: node.authority.clone(), source }
    }

    /// Returns the error of a node that answered something else than was asked for.
    pub(crate) fn answered(node: &Access, answer: impl fmt::Display) -> Self {
        Self::Answered { node: node.name.clone(), answer: answer.to_string() }
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { node, authority, source } => {
                let seen = refusal::io_text(source);
                match node == authority {
                    true => write!(to, "`{node}`: {seen}"),
                    false => write!(to, "`{node}` at {authority}: {seen}"),
                }
            }
            Self::Answered { node, answer } => {
                write!(to, "`{node}`: {}", units::server_text(answer))
            }
            Self::Status { asked, answer } => {
                write!(to, "{asked} was answered {}", units::server_text(answer))
            }
            Self::NoJson { asked, source } => write!(to, "{asked} was answered no JSON: {source}"),
            Self::Unset(variable) => variable.fmt(to),
            Self::State(seen) => to.write_str(seen),
        }
    }
}

impl Error for SystemError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source),
            Self::NoJson { source, .. } => Some(source),
            Self::Unset(variable) => Some(variable),
            Self::Answered { .. } | Self::Status { .. } | Self::State(_) => None,
        }
    }
}

impl From<UnsetVariable> for SystemError {
    fn from(variable: UnsetVariable) -> Self {
        Self::Unset(variable)
    }
}

impl From<String> for SystemError {
    fn from(seen: String) -> Self {
        Self::State(seen)
    }
}

impl From<&str> for SystemError {
    fn from(seen: &str) -> Self {
        Self::State(seen.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_the_node_and_the_source_is_kept() {
        let error = SystemError::Unreachable {
            node: "etcd-1".to_owned(),
            authority: "127.0.0.1:2379".to_owned(),
            source: io::Error::other("no answer in time"),
        };
        assert_eq!(error.to_string(), "`etcd-1` at 127.0.0.1:2379: no answer in time");
        assert_eq!(error.source().unwrap().to_string(), "no answer in time");
        let state = SystemError::from("no node is active yet");
        assert_eq!(state.to_string(), "no node is active yet");
        assert!(state.source().is_none());
    }
}
