//! Error codes of replies.

use std::fmt;

/// Why a request failed (`KeeperException.Code`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The server failed.
    pub const SYSTEM_ERROR: Self = Self(-1);
    /// The server contradicts itself.
    pub const RUNTIME_INCONSISTENCY: Self = Self(-2);
    /// The server lost its data.
    pub const DATA_INCONSISTENCY: Self = Self(-3);
    /// The connection is lost, and it is unknown whether the request was done.
    pub const CONNECTION_LOSS: Self = Self(-4);
    /// The request could not be read.
    pub const MARSHALLING_ERROR: Self = Self(-5);
    /// No such operation.
    pub const UNIMPLEMENTED: Self = Self(-6);
    /// The server took too long.
    pub const OPERATION_TIMEOUT: Self = Self(-7);
    /// The request makes no sense.
    pub const BAD_ARGUMENTS: Self = Self(-8);
    /// The server had no room for another request.
    pub const THROTTLED_OP: Self = Self(-127);
    /// A quota is exceeded.
    pub const QUOTA_EXCEEDED: Self = Self(-125);
    /// The request was not done within the time the server allows.
    pub const REQUEST_TIMEOUT: Self = Self(-122);
    /// The node is not there.
    pub const NO_NODE: Self = Self(-101);
    /// Not allowed.
    pub const NO_AUTH: Self = Self(-102);
    /// The node has another version.
    pub const BAD_VERSION: Self = Self(-103);
    /// Ephemeral nodes have no children.
    pub const NO_CHILDREN_FOR_EPHEMERALS: Self = Self(-108);
    /// The node is there already.
    pub const NODE_EXISTS: Self = Self(-110);
    /// The node has children.
    pub const NOT_EMPTY: Self = Self(-111);
    /// The session is gone.
    pub const SESSION_EXPIRED: Self = Self(-112);
    /// An access list makes no sense.
    pub const INVALID_ACL: Self = Self(-114);
    /// Authentication failed.
    pub const AUTH_FAILED: Self = Self(-115);
    /// The session has moved to another server.
    pub const SESSION_MOVED: Self = Self(-118);
    /// The server may only be read from.
    pub const NOT_READ_ONLY: Self = Self(-119);

    /// The code's name in ZooKeeper's documentation, if it is known here.
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
