//! Describes a stored run for `bakeoff history`.
//!
//! Not here: finding and deleting runs (the binary), trends (`render::trend`).

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Describes a stored run. `bakeoff history --json` prints a list of them, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Folder of the run.
    pub run: PathBuf,
    /// Name of the study.
    pub study: String,
    /// True for the quick form of the study.
    pub quick: bool,
    /// Start in UTC.
    pub started: String,
    /// Number of planned trials.
    pub trials: usize,
    /// Number of trials that were run.
    pub trials_run: usize,
    /// State of the run.
    pub state: RunState,
    /// Size of the folder on disk.
    pub bytes: u64,
    /// True if a line of the record was changed after it was written.
    pub altered: bool,
    /// Verdict of the report; `None` without a report.
    pub sentence: Option<String>,
}

/// Names the states of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// All trials were run.
    Complete,
    /// It is still being written.
    InProgress,
    /// Its user interrupted it.
    Interrupted,
    /// It ended without a last line.
    Killed,
}

impl fmt::Display for RunState {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Complete => "complete",
            Self::InProgress => "in progress",
            Self::Interrupted => "interrupted",
            Self::Killed => "killed",
        })
    }
}
