//! Defines the errors that Tarantool reports.
//!
//! Not here: violations of the protocol (`ProtocolError`).

use std::fmt;

/// Explains why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Class of the failure.
    pub code: ErrorCode,
    /// Description in the server's words.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// Identifies the class of a failure (`errcode.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// The server has no memory left for tuples.
    pub const MEMORY_ISSUE: Self = Self(2);
    /// A tuple with this key already exists.
    pub const TUPLE_FOUND: Self = Self(3);
    /// The server is read-only.
    pub const READONLY: Self = Self(7);
    /// The Lua code of a function failed.
    pub const PROC_LUA: Self = Self(32);
    /// The function does not exist.
    pub const NO_SUCH_PROC: Self = Self(33);
    /// The space does not exist.
    pub const NO_SUCH_SPACE: Self = Self(36);
    /// The user has no permission.
    pub const ACCESS_DENIED: Self = Self(42);
    /// The user does not exist.
    pub const NO_SUCH_USER: Self = Self(45);
    /// The password is wrong.
    pub const PASSWORD_MISMATCH: Self = Self(47);

    /// Returns the code's name in Tarantool's documentation, if known.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::MEMORY_ISSUE => "ER_MEMORY_ISSUE",
            Self::TUPLE_FOUND => "ER_TUPLE_FOUND",
            Self::READONLY => "ER_READONLY",
            Self::PROC_LUA => "ER_PROC_LUA",
            Self::NO_SUCH_PROC => "ER_NO_SUCH_PROC",
            Self::NO_SUCH_SPACE => "ER_NO_SUCH_SPACE",
            Self::ACCESS_DENIED => "ER_ACCESS_DENIED",
            Self::NO_SUCH_USER => "ER_NO_SUCH_USER",
            Self::PASSWORD_MISMATCH => "ER_PASSWORD_MISMATCH",
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}, {}", self.0),
            None => write!(f, "tarantool error {}", self.0),
        }
    }
}
