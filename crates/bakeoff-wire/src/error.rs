//! Defines the error of a wire session: the peer broke the protocol.
//!
//! A status that the peer reports (an HTTP 404, a gRPC status, a ZooKeeper error code) is an outcome, not a protocol
//! error.
//!
//! Not here: errors of sockets and TLS, which belong to the owner of the connection.

/// Describes how the peer broke the protocol. The connection is unusable afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ProtocolError {
    /// Lower case and without a full stop, to follow a colon.
    pub what: String,
}

impl ProtocolError {
    /// Creates an error; `what` describes the peer's fault.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }

    /// Returns the error prefixed with the protocol's name.
    pub(crate) fn within(self, protocol: &str) -> Self {
        Self::new(format!("{protocol}: {}", self.what))
    }
}

impl From<String> for ProtocolError {
    fn from(what: String) -> Self {
        Self { what }
    }
}

impl From<&str> for ProtocolError {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

/// Reports that the connection cannot accept another request now. Retry after more bytes have been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no more requests can be in flight on this connection")]
pub struct Busy;
