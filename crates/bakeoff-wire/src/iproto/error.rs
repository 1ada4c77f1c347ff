//! Errors that Tarantool answers with.
//!
//! Not here: violations of the protocol (`ProtocolError`).

use std::fmt;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The kind of failure.
    pub code: ErrorCode,
    /// In the server's words.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// A kind of failure (`errcode.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No memory is left for tuples.
    pub const MEMORY_ISSUE: Self = Self(2);
    /// There is a tuple with this key.
    pub const TUPLE_FOUND: Self = Self(3);
    /// It may only be read from.
    pub const READONLY: Self = Self(7);
    /// The Lua of a function failed.
    pub const PROC_LUA: Self = Self(32);
    /// There is no such function.
    pub const NO_SUCH_PROC: Self = Self(33);
    /// There is no such space.
    pub const NO_SUCH_SPACE: Self = Self(36);
    /// The user may not do this.
    pub const ACCESS_DENIED: Self = Self(42);
    /// There is no such user.
    pub const NO_SUCH_USER: Self = Self(45);
    /// The password is wrong.
    pub const PASSWORD_MISMATCH: Self = Self(47);

    /// The code's name in Tarantool's documentation, if it is known here.
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
