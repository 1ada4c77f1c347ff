//! The reasons why machines could not be reached, prepared or measured. Each also ends a command.
//!
//! Not here: failures of a load (`generators::error`), the table of exit codes (the binary's `failure`).

use std::io;
use std::path::Path;

use bakeoff_agent::AgentError;
use bakeoff_core::study::Diagnostics;
use bakeoff_engine::LoadError;
use bakeoff_host::HostError;
use bakeoff_install::InstallError;

/// A failure to use a machine.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Bad input, an unreachable machine, a refusal by one, or an interrupt by the user.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// A program could not be installed.
    #[error("error: {0}")]
    Install(#[from] InstallError),
    /// Servers could not be started.
    #[error("error: {0}")]
    Host(#[source] HostError),
}

impl FleetError {
    /// An interrupt by the user.
    pub const INTERRUPTED: Self = Self::Load(LoadError::Interrupted);

    /// Creates an error about bad input, with a hint.
    pub fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Load(LoadError::input(what, hint))
    }

    /// Creates an error about bad input, without a hint.
    pub fn bad_input(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Input(what.into(), None))
    }

    /// Creates an error about an unreachable machine.
    pub fn unreachable(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Unreachable(what.into()))
    }

    /// Creates an error about a machine that refused something.
    pub fn machine(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Machine(what.into()))
    }

    /// Creates an error about a file operation: the verb, the path and the system's error.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "\nhint: the disk is full; put runs on another disk with `--out DIR`"
            }
            io::ErrorKind::PermissionDenied => {
                "\nhint: put runs into another folder with `--out DIR`"
            }
            _ => "",
        };
        Self::machine(format!("cannot {doing} `{}`: {error}{hint}", path.display()))
    }

    /// Adds the file and line that list the machine, before a hint.
    pub fn listed_at(self, at: Option<&str>) -> Self {
        let Some(at) = at else { return self };
        let added = |text: String| match text.split_once("\nhint: ") {
            Some((what, hint)) => format!("{what}\n  listed in: {at}\nhint: {hint}"),
            None => format!("{text}\n  listed in: {at}"),
        };
        match self {
            Self::Load(LoadError::Input(what, hint)) => {
                Self::Load(LoadError::Input(added(what), hint))
            }
            Self::Load(LoadError::Unreachable(what)) => Self::unreachable(added(what)),
            Self::Load(LoadError::Machine(what)) => Self::machine(added(what)),
            other => other,
        }
    }

    /// Returns true if the user interrupted the operation.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Install(InstallError::Interrupted)
                | Self::Host(HostError::Interrupted { .. })
                | Self::Load(LoadError::Interrupted)
        )
    }

    /// Returns the first line of the message for a record, without `error: ` and hints.
    pub fn headline(&self) -> String {
        self.what().lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the message without `error: `.
    fn what(&self) -> String {
        match self {
            Self::Load(error) => error.what(),
            Self::Install(error) => error.to_string(),
            Self::Host(error) => error.to_string(),
        }
    }

    /// Returns bakeoff's exit code for this error.
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
