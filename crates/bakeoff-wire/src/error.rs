//! The one error a wire session reports: the peer broke the protocol.
//!
//! A status that the peer reports in good order (an HTTP 404, a gRPC status, a ZooKeeper
//! error code) is an outcome, never one of these.
//!
//! Not here: errors of sockets and TLS, which belong to whoever owns them.

/// A breach of the protocol by the peer, in words; the connection cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ProtocolError {
    /// Lower case, no full stop, ready to stand after a colon.
    pub what: String,
}

impl ProtocolError {
    /// An error that says `what` the peer did.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }

    /// Returns the error with the name of the protocol before it.
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

/// The connection cannot take another request now: ask again after more has been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no more requests can be in flight on this connection")]
pub struct Busy;
