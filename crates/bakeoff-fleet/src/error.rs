//! Why machines could not be reached, prepared or measured.
//!
//! Not here: a load that was not driven (`generators::error`), exit codes (the binary's `failure`).

use std::fmt;
use std::io;
use std::path::Path;

use bakeoff_agent::AgentError;
use bakeoff_core::study::Diagnostics;
use bakeoff_engine::LoadError;
use bakeoff_host::HostError;
use bakeoff_install::InstallError;

/// A machine that could not be used.
#[derive(Debug)]
pub enum FleetError {
    /// Bad input, a machine that does not answer, or one that refused something; or the user interrupted.
    Load(LoadError),
    /// A program that could not be installed.
    Install(InstallError),
    /// Servers that could not be started.
    Host(HostError),
}

impl FleetError {
    /// The user interrupted.
    pub const INTERRUPTED: Self = Self::Load(LoadError::Interrupted);

    /// Returns bad input with a hint.
    pub(crate) fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Load(LoadError::input(what, hint))
    }

    /// Returns bad input that needs no hint.
    pub(crate) fn bad_input(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Input(what.into(), None))
    }

    /// Returns that a machine does not answer.
    pub(crate) fn unreachable(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Unreachable(what.into()))
    }

    /// Returns that a machine refused something.
    pub(crate) fn machine(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Machine(what.into()))
    }

    /// Returns a file operation that failed: the verb, the path and the system's error.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "\nhint: the disk is full; `--out DIR` puts runs somewhere else"
            }
            io::ErrorKind::PermissionDenied => "\nhint: `--out DIR` puts runs somewhere else",
            _ => "",
        };
        Self::machine(format!("cannot {doing} `{}`: {error}{hint}", path.display()))
    }
}

impl From<AgentError> for FleetError {
    fn from(error: AgentError) -> Self {
        match error.is_interruption() {
            true => Self::INTERRUPTED,
            false => Self::unreachable(error.to_string()),
        }
    }
}

impl From<Diagnostics> for FleetError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Load(LoadError::Diagnostics(diagnostics))
    }
}

impl From<LoadError> for FleetError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<InstallError> for FleetError {
    fn from(error: InstallError) -> Self {
        Self::Install(error)
    }
}

impl From<HostError> for FleetError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Io { what, path, error } => Self::file(what, &path, &error),
            error => Self::Host(error),
        }
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(to),
            Self::Install(error) => write!(to, "error: {error}"),
            Self::Host(error) => write!(to, "error: {error}"),
        }
    }
}

impl std::error::Error for FleetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Load(error) => Some(error),
            Self::Install(error) => Some(error),
            Self::Host(error) => Some(error),
        }
    }
}
