//! Explains why a load could not be set up or run.
//!
//! Not here: failures of operations (`work::Failure`), other errors of the program (the binary).

use std::fmt;

use bakeoff_core::study::Diagnostics;

use crate::EngineError;

/// Explains why a load could not be set up or run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Diagnostics of an input file. Each begins with `error: `.
    #[error("{0}")]
    Diagnostics(Diagnostics),
    /// Invalid input: the problem, and an optional hint.
    #[error(fmt = input)]
    Input(String, Option<String>),
    /// A server does not answer.
    #[error("error: {0}")]
    Unreachable(String),
    /// This machine refused a resource.
    #[error("error: {0}")]
    Machine(String),
    /// The user interrupted the load.
    #[error("interrupted")]
    Interrupted,
}

fn input(what: &str, hint: &Option<String>, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    match hint {
        None => write!(to, "error: {what}"),
        Some(hint) => write!(to, "error: {what}\nhint: {hint}"),
    }
}

impl LoadError {
    /// Creates an input error with a hint.
    pub fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input(what.into(), Some(hint.into()))
    }

    /// Returns the problem, without `error: ` and the hint.
    pub fn what(&self) -> String {
        match self {
            Self::Diagnostics(diagnostics) => diagnostics.to_string(), // each has its own `error: `
            Self::Input(what, _) | Self::Unreachable(what) | Self::Machine(what) => what.clone(),
            Self::Interrupted => "interrupted".to_owned(),
        }
    }

    /// Returns the exit code of bakeoff for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Diagnostics(_) | Self::Input(..) => 2,
            Self::Unreachable(_) => 4,
            Self::Machine(_) => 5,
            Self::Interrupted => 130,
        }
    }
}

impl From<EngineError> for LoadError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Interrupted => Self::Interrupted,
            EngineError::Unreachable { .. } | EngineError::SpeaksTls { .. } => {
                Self::Unreachable(error.to_string())
            }
            EngineError::Io(_)
            | EngineError::NoClients
            | EngineError::NoPorts(_)
            | EngineError::HoldsTooMuch => Self::Machine(error.to_string()),
        }
    }
}

impl From<Diagnostics> for LoadError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Diagnostics(diagnostics)
    }
}
