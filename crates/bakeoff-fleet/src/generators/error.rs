//! The reasons why generators did not drive a load.

use std::fmt;

use bakeoff_agent::AgentError;
use bakeoff_core::histogram::HistogramError;
use bakeoff_engine::{EngineError, LoadError};
use bakeoff_systems::SystemError;

use crate::error::FleetError;

/// A failure to drive a load or a share of it.
#[derive(Debug)]
pub enum GeneratorError {
    /// A machine is lost, or its agent refused.
    Agent(AgentError),
    /// This process could not drive the load.
    Load(LoadError),
    /// The user interrupted.
    Interrupted,
    /// Fewer clients than generators.
    FewClients {
        /// Clients of the load.
        clients: u32,
        /// Generators that share the load.
        generators: usize,
    },
    /// The received histogram is invalid.
    Histogram(HistogramError),
    /// Access to the nodes cannot be passed to a remote generator.
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
                "cannot share {clients} clients among {generators} generators: each needs at least one"
            ),
            Self::Histogram(error) => write!(to, "cannot decode a generator's figures: {error}"),
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
