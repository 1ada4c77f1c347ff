//! Why a load could not be set up or driven.
//!
//! Not here: why an operation failed (`work::Failure`), what else can go wrong (the binary).

use std::fmt;

use bakeoff_core::study::Diagnostics;

use crate::EngineError;

/// Why a load could not be set up or driven.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file of input that is wrong, with every place. Each diagnostic begins with `error: `.
    #[error("{0}")]
    Diagnostics(Diagnostics),
    /// Bad input: what is wrong, and what to try.
    #[error(fmt = input)]
    Input(String, Option<String>),
    /// Nobody answers there.
    #[error("error: {0}")]
    Unreachable(String),
    /// The machine refused something.
    #[error("error: {0}")]
    Machine(String),
    /// The user has had enough.
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
    /// Bad input with a hint.
    pub fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input(what.into(), Some(hint.into()))
    }

    /// Returns what went wrong, without `error: ` and without a hint.
    pub fn what(&self) -> String {
        match self {
            Self::Diagnostics(diagnostics) => diagnostics.to_string(), // each says `error: ` itself
            Self::Input(what, _) | Self::Unreachable(what) | Self::Machine(what) => what.clone(),
            Self::Interrupted => "interrupted".to_owned(),
        }
    }

    /// Returns bakeoff's exit code for it.
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
