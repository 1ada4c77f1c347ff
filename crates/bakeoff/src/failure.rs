//! Failures of a command, and the exit code of each.

use std::fmt;
use std::io;
use std::path::Path;

use bakeoff_agent::AgentError;
use bakeoff_core::study::Diagnostics;
use bakeoff_engine::LoadError;
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::generators::error::GeneratorError;
use bakeoff_host::HostError;
use bakeoff_install::InstallError;

/// The meaning of exit codes; `--help` prints this table.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done; every trial is valid
  1    done, and at least one trial is not valid: the report says why
  2    bad input: a study, a flag, a record
  3    a program is missing and could not be fetched
  4    servers could not be started or reached
  5    this machine refused something: files, disk space, sockets
  6    compare, gate: a condition of --fail-if is proven; verify: the record does not hold together;
       reproduce: a claim is contradicted
  7    compare, gate: no condition is proven, and of one or more nobody can tell;
       reproduce: no claim is contradicted, and not all are replicated
  130  interrupted; what was measured by then is kept";

/// A run in which at least one trial is not valid.
pub(crate) const NOT_VALID: u8 = 1;
/// Servers that could not be started or reached.
pub(crate) const UNREACHABLE: u8 = 4;

/// A command that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad input, a peer that does not answer, a machine that refused something, or the wish to end.
    Load(LoadError),
    /// A program that could not be had.
    Install(InstallError),
    /// Servers that could not be started.
    Host(HostError),
}

impl Failure {
    /// The user has had enough.
    pub(crate) const INTERRUPTED: Self = Self::Load(LoadError::Interrupted);

    /// Returns bad input with a hint.
    pub(crate) fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Load(LoadError::input(what, hint))
    }

    /// Returns bad input that speaks for itself.
    pub(crate) fn bad_input(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Input(what.into(), None))
    }

    /// Returns that somebody does not answer.
    pub(crate) fn unreachable(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Unreachable(what.into()))
    }

    /// Returns that the machine refused something.
    pub(crate) fn machine(what: impl Into<String>) -> Self {
        Self::Load(LoadError::Machine(what.into()))
    }

    /// Returns a file operation that failed: `write`, where, and what the system said.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        FleetError::file(doing, path, error).into()
    }

    /// Tells whether it is the user's wish to end, wherever that was met.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Install(InstallError::Interrupted)
                | Self::Host(HostError::Interrupted { .. })
                | Self::Load(LoadError::Interrupted)
        )
    }

    /// Returns what went wrong in one line, as a record keeps it: without `error: ` and without hints.
    pub(crate) fn headline(&self) -> String {
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

    /// The exit code that tells this failure from others.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            _ if self.is_interruption() => 130,
            Self::Load(error) => error.exit_code(),
            Self::Install(_) => 3,
            Self::Host(_) => UNREACHABLE,
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Load(LoadError::Diagnostics(diagnostics))
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<InstallError> for Failure {
    fn from(error: InstallError) -> Self {
        Self::Install(error)
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        FleetError::from(error).into()
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Load(error) => Self::Load(error),
            FleetError::Install(error) => Self::Install(error),
            FleetError::Host(error) => Self::Host(error),
        }
    }
}

impl From<GeneratorError> for Failure {
    fn from(error: GeneratorError) -> Self {
        FleetError::from(error).into()
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        FleetError::from(error).into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(to),
            Self::Install(error) => write!(to, "error: {error}"),
            Self::Host(error) => write!(to, "error: {error}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Load(error) => Some(error),
            Self::Install(error) => Some(error),
            Self::Host(error) => Some(error),
        }
    }
}
