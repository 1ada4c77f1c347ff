//! Why machines could not be reached, prepared or measured: what ends a command, too.
//!
//! Not here: a load that was not driven (`generators::error`), the table of exit codes (the binary's `failure`).

use std::io;
use std::path::Path;

use bakeoff_agent::AgentError;
use bakeoff_core::study::Diagnostics;
use bakeoff_engine::LoadError;
use bakeoff_host::HostError;
use bakeoff_install::InstallError;

/// A machine that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Bad input, a machine that does not answer, or one that refused something; or the user interrupted.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// A program that could not be installed.
    #[error("error: {0}")]
    Install(#[from] InstallError),
    /// Servers that could not be started.
    #[error("error: {0}")]
    Host(#[source] HostError),
}

impl FleetError {
    /// The user interrupted.
    pub const INTERRUPTED: Self = Self::Load(LoadError::Interrupted);

    /// Returns bad input with a hint.
    pub fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Load(LoadError::input(what, hint))
    }

    /// Returns bad input that needs no hint.
    pub fn bad_input(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Input(what.into(), None))
    }

    /// Returns that a machine does not answer.
    pub fn unreachable(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Unreachable(what.into()))
    }

    /// Returns that a machine refused something.
    pub fn machine(what: impl Into<String>) -> Self {
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

    /// Returns whether the user interrupted, whatever was under way.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Install(InstallError::Interrupted)
                | Self::Host(HostError::Interrupted { .. })
                | Self::Load(LoadError::Interrupted)
        )
    }

    /// Returns what went wrong in one line, as a record keeps it: without `error: ` and without hints.
    pub fn headline(&self) -> String {
        self.what().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the message without `error: ` and without a hint of its own.
    fn what(&self) -> String {
        match self {
            Self::Load(error) => error.what(),
            Self::Install(error) => error.to_string(),
            Self::Host(error) => error.to_string(),
        }
    }

    /// Returns bakeoff's exit code for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            _ if self.is_interruption() => 130,
            Self::Load(error) => error.exit_code(),
            Self::Install(_) => 3,
            Self::Host(_) => 4,
        }
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

impl From<HostError> for FleetError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Io { what, path, error } => Self::file(what, &path, &error),
            error => Self::Host(error),
        }
    }
}
