//! Defines the error of requests to a system outside the measured loop.
//!
//! Its text names the node and is part of messages as it is. `source` returns its cause.
//!
//! Not here: the reason why a cluster is not ready yet (`NotReady`), failures of operations under load
//! (`bakeoff_engine::work`).

use std::fmt;
use std::io;

use bakeoff_core::units;
use bakeoff_engine::tls::refusal;

use super::Access;
use super::variables::UnsetVariable;

/// A failed request to a system.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The node is unreachable, or its answer was cut off.
    #[error("{}", unreachable_text(node, authority, source))]
    Unreachable {
        /// Node name: `etcd-1`.
        node: String,
        /// Host and port: `127.0.0.1:2379`.
        authority: String,
        /// Error of the connection.
        source: io::Error,
    },
    /// The node answered with an error, or with something unexpected.
    #[error("`{node}`: {}", units::server_text(answer))]
    Answered {
        /// Node name: `etcd-1`.
        node: String,
        /// Answer, or its fault.
        answer: String,
    },
    /// An HTTP request did not succeed.
    #[error("{asked} was answered {}", units::server_text(answer))]
    Status {
        /// Request, as in `` `GET /v1/sys/health` of `vault-1` ``.
        asked: String,
        /// Status and message: `503: sealed`.
        answer: String,
    },
    /// The answer is not JSON.
    #[error("{asked} returned no JSON: {source}")]
    NoJson {
        /// Request, as in `` `GET /v1/sys/health` of `vault-1` ``.
        asked: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The request needs an environment variable that is not set.
    #[error("{0}")]
    Unset(#[from] UnsetVariable),
    /// The system's state does not allow the request, in the system's words.
    #[error("{0}")]
    State(String),
}

impl SystemError {
    /// Returns the error of an unreachable node.
    pub(crate) fn unreachable(node: &Access, source: io::Error) -> Self {
        Self::Unreachable { node: node.name.clone(), authority: node.authority.clone(), source }
    }

    /// Returns the error of a node with an unexpected answer.
    pub(crate) fn answered(node: &Access, answer: impl fmt::Display) -> Self {
        Self::Answered { node: node.name.clone(), answer: answer.to_string() }
    }
}

/// Describes a connection error. An endpoint without a name is shown once.
fn unreachable_text(node: &str, authority: &str, source: &io::Error) -> String {
    let seen = refusal::io_text(source);
    match node == authority {
        true => format!("`{node}`: {seen}"),
        false => format!("`{node}` at {authority}: {seen}"),
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
    use std::error::Error as _;

    use super::*;

    #[test]
    fn error_names_the_node_and_keeps_its_source() {
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
