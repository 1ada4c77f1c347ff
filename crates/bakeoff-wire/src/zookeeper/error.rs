//! Names the error codes of replies.

use std::fmt;

/// Identifies why a request failed (`KeeperException.Code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The server had an internal error.
    pub const SYSTEM_ERROR: Self = Self(-1);
    /// The server is in an inconsistent state.
    pub const RUNTIME_INCONSISTENCY: Self = Self(-2);
    /// The server's data is inconsistent.
    pub const DATA_INCONSISTENCY: Self = Self(-3);
    /// The connection is lost; the request may have been processed.
    pub const CONNECTION_LOSS: Self = Self(-4);
    /// The server could not parse the request.
    pub const MARSHALLING_ERROR: Self = Self(-5);
    /// The operation does not exist.
    pub const UNIMPLEMENTED: Self = Self(-6);
    /// The server took too long.
    pub const OPERATION_TIMEOUT: Self = Self(-7);
    /// The arguments are invalid.
    pub const BAD_ARGUMENTS: Self = Self(-8);
    /// The server limits requests and refused this one.
    pub const THROTTLED_OP: Self = Self(-127);
    /// A quota is exceeded.
    pub const QUOTA_EXCEEDED: Self = Self(-125);
    /// The request exceeded the server's time limit.
    pub const REQUEST_TIMEOUT: Self = Self(-122);
    /// The node does not exist.
    pub const NO_NODE: Self = Self(-101);
    /// The client has no permission.
    pub const NO_AUTH: Self = Self(-102);
    /// The node has another version.
    pub const BAD_VERSION: Self = Self(-103);
    /// Ephemeral nodes cannot have children.
    pub const NO_CHILDREN_FOR_EPHEMERALS: Self = Self(-108);
    /// The node already exists.
    pub const NODE_EXISTS: Self = Self(-110);
    /// The node has children.
    pub const NOT_EMPTY: Self = Self(-111);
    /// The session has expired.
    pub const SESSION_EXPIRED: Self = Self(-112);
    /// The access list is invalid.
    pub const INVALID_ACL: Self = Self(-114);
    /// Authentication failed.
    pub const AUTH_FAILED: Self = Self(-115);
    /// The session has moved to another server.
    pub const SESSION_MOVED: Self = Self(-118);
    /// The server is read-only.
    pub const NOT_READ_ONLY: Self = Self(-119);

    /// Returns the code's name in ZooKeeper's documentation, if known.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SYSTEM_ERROR => "SystemError",
            Self::RUNTIME_INCONSISTENCY => "RuntimeInconsistency",
            Self::DATA_INCONSISTENCY => "DataInconsistency",
            Self::CONNECTION_LOSS => "ConnectionLoss",
            Self::MARSHALLING_ERROR => "MarshallingError",
            Self::UNIMPLEMENTED => "Unimplemented",
            Self::OPERATION_TIMEOUT => "OperationTimeout",
            Self::BAD_ARGUMENTS => "BadArguments",
            Self::THROTTLED_OP => "ThrottledOp",
            Self::QUOTA_EXCEEDED => "QuotaExceeded",
            Self::REQUEST_TIMEOUT => "RequestTimeout",
            Self::NO_NODE => "NoNode",
            Self::NO_AUTH => "NoAuth",
            Self::BAD_VERSION => "BadVersion",
            Self::NO_CHILDREN_FOR_EPHEMERALS => "NoChildrenForEphemerals",
            Self::NODE_EXISTS => "NodeExists",
            Self::NOT_EMPTY => "NotEmpty",
            Self::SESSION_EXPIRED => "SessionExpired",
            Self::INVALID_ACL => "InvalidACL",
            Self::AUTH_FAILED => "AuthFailed",
            Self::SESSION_MOVED => "SessionMoved",
            Self::NOT_READ_ONLY => "NotReadOnly",
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "zookeeper error {}", self.0),
        }
    }
}
