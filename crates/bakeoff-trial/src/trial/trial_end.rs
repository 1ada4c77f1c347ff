//! Defines why a trial ended early.
//!
//! Not here: its outcome in the record (`super`).

use std::fmt;

use bakeoff_agent::AgentError;
use bakeoff_systems::SystemError;

use crate::cluster::NoTargets;
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::generators::error::GeneratorError;

pub(super) enum TrialEnd {
    Interrupted,
    Failed(TrialFailure),
}

/// A failure: one line for the record, and the full message for the user.
pub(super) struct TrialFailure {
    pub(super) headline: String,
    pub(super) text: String,
    /// The failure itself, if a command can fail with it.
    pub(super) failure: Option<Box<FleetError>>,
}

impl TrialFailure {
    fn new(text: String, failure: Option<Box<FleetError>>) -> Self {
        let headline = text.lines().next().unwrap_or_default().to_owned();
        Self { headline, text, failure }
    }
}

impl TrialEnd {
    /// Returns the end by an error. Its first line goes into the record.
    pub(super) fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(TrialFailure::new(error.to_string(), None))
    }

    /// Prepends an earlier failure to the message.
    pub(super) fn after(self, before: Option<String>) -> Self {
        match (self, before) {
            (Self::Failed(TrialFailure { text, .. }), Some(before)) => {
                Self::failed(format!("{before}\n{text}"))
            }
            (ended, _) => ended,
        }
    }
}

impl From<SystemError> for TrialEnd {
    fn from(error: SystemError) -> Self {
        Self::failed(error)
    }
}

impl From<NoTargets> for TrialEnd {
    fn from(why: NoTargets) -> Self {
        Self::failed(why)
    }
}

impl From<FleetError> for TrialEnd {
    fn from(failure: FleetError) -> Self {
        match failure.is_interruption() {
            true => Self::Interrupted,
            false => Self::Failed(TrialFailure {
                headline: failure.headline(),
                text: failure.to_string(),
                failure: Some(Box::new(failure)),
            }),
        }
    }
}

impl From<AgentError> for TrialEnd {
    fn from(error: AgentError) -> Self {
        GeneratorError::from(error).into()
    }
}

impl From<GeneratorError> for TrialEnd {
    fn from(error: GeneratorError) -> Self {
        match error {
            GeneratorError::Interrupted => Self::Interrupted,
            error => {
                Self::Failed(TrialFailure::new(error.to_string(), Some(Box::new(error.into()))))
            }
        }
    }
}
