//! Why generators did not drive a load.

use std::fmt;

use bakeoff_agent::AgentError;
use bakeoff_core::histogram::HistogramError;
use bakeoff_engine::{EngineError, LoadError};
use bakeoff_systems::SystemError;

use crate::error::FleetError;

/// A load, or a share of one, that was not driven.
#[derive(Debug)]
pub enum GeneratorError {
    /// A machine is lost, or refused.
    Agent(AgentError),
    /// This process could not drive it.
    Load(LoadError),
    /// The user wants the end.
    Interrupted,
    /// Fewer clients than generators.
    FewClients {
        /// Clients of the load.
        clients: u32,
        /// Generators that share it.
        generators: usize,
    },
    /// The received histogram is invalid.
    Histogram(HistogramError),
    /// A remote generator cannot be given access to the nodes.
    Access(SystemError),
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(error) => error.fmt(to),
            Self::Load(error) => write!(to, "{}", error.what()),
            Self::Interrupted => write!(to, "interrupted"),
            Self::FewClients { clients, generators } => write!(
                to,
                "{clients} clients cannot be shared by {generators} generators: each needs one"
            ),
            Self::Histogram(error) => write!(to, "a generator's figures cannot be read: {error}"),
            Self::Access(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for GeneratorError {}

impl From<AgentError> for GeneratorError {
    fn from(error: AgentError) -> Self {
        match error.is_interruption() {
            true => Self::Interrupted,
            false => Self::Agent(error),
        }
    }
}

impl From<LoadError> for GeneratorError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Interrupted => Self::Interrupted,
            error => Self::Load(error),
        }
    }
}

impl From<EngineError> for GeneratorError {
    fn from(error: EngineError) -> Self {
        LoadError::from(error).into()
    }
}

impl From<GeneratorError> for FleetError {
    fn from(error: GeneratorError) -> Self {
        match error {
            GeneratorError::Interrupted => Self::INTERRUPTED,
            GeneratorError::Agent(error) => error.into(),
            GeneratorError::Load(error) => error.into(),
            GeneratorError::FewClients { .. } => Self::bad_input(error.to_string()),
            GeneratorError::Histogram(_) | GeneratorError::Access(_) => {
                Self::machine(error.to_string())
            }
        }
    }
}
