//! Explains why a load could not be set up or run.
//!
//! Not here: failures of operations (`work::Failure`), other errors of the program (the binary).

use std::{fmt, io};

use bakeoff_core::study::Diagnostics;
use bakeoff_core::units::ByteCount;

use crate::address::Address;
use crate::own_limits::HELD_MAX;

/// Explains why a load could not run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine could not connect to a node before the load began.
    #[error("could not connect a client to `{address}`: {what}")]
    Unreachable {
        /// Address of the node.
        address: Address,
        /// Reason in words.
        what: String,
    },
    /// A server answered plain text by saying that it speaks TLS.
    #[error("`{address}` refuses plain text: {what}")]
    SpeaksTls {
        /// Address of the node.
        address: Address,
        /// The server's answer, in words.
        what: String,
    },
    /// The load has fewer clients than generators.
    #[error("there are fewer clients than generators")]
    NoClients,
    /// This machine has no free local port. Holds the reason and a hint.
    #[error("{0}")]
    NoPorts(String),
    /// Incomplete answers that are verified as a whole need more memory than the limit, 2 GiB.
    #[error(
        "answers that are verified as a whole hold more than {} of the generator's memory: use fewer clients, or \
         do not verify them",
        ByteCount(HELD_MAX as u64)
    )]
    HoldsTooMuch,
    /// Not all watchers could be created. Holds the reason.
    #[error("could not create the watchers: {0}")]
    NoWatchers(String),
    /// The user interrupted the load before it began.
    #[error("interrupted before the load began")]
    Interrupted,
    /// The kernel refused a socket, a thread or a timer.
    #[error("the load generator failed: {0}")]
    Io(#[from] io::Error),
}

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
            EngineError::Unreachable { .. }
            | EngineError::SpeaksTls { .. }
            | EngineError::NoWatchers(_) => Self::Unreachable(error.to_string()),
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
