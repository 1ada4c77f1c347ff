//! The reasons why generators did not drive a load.

use bakeoff_agent::AgentError;
use bakeoff_core::histogram::HistogramError;
use bakeoff_engine::{EngineError, LoadError};
use bakeoff_systems::SystemError;

use crate::error::FleetError;

/// A failure to drive a load or a share of it.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// A machine is lost, or its agent refused.
    #[error("{0}")]
    Agent(AgentError),
    /// This process could not drive the load.
    #[error("{}", .0.what())]
    Load(LoadError),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// Fewer clients than generators.
    #[error(
        "cannot share {clients} clients among {generators} generators: each needs at least one"
    )]
    FewClients {
        /// Clients of the load.
        clients: u32,
        /// Generators that share the load.
        generators: usize,
    },
    /// The received histogram is invalid.
    #[error("cannot decode a generator's figures: {0}")]
    Histogram(HistogramError),
    /// There are no watchers to disturb, or they are on another machine.
    #[error("the load has no watchers on this machine")]
    NoWatchers,
    /// A history could not be written.
    #[error("cannot write the history: {0}")]
    History(std::io::Error),
    /// Access to the nodes cannot be passed to a remote generator.
    #[error("{0}")]
    Access(SystemError),
}

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
            GeneratorError::FewClients { .. } | GeneratorError::NoWatchers => {
                Self::bad_input(error.to_string())
            }
            GeneratorError::Histogram(_)
            | GeneratorError::History(_)
            | GeneratorError::Access(_) => Self::machine(error.to_string()),
        }
    }
}
