//! The verdict of a run so far, by the code of its final report.
//!
//! It is computed between two rounds, when no load runs: after each round all systems have the same number of trials.

use std::path::Path;

use bakeoff_report::Report;
use bakeoff_trial::run::folder;

/// The verdict on the trials so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VerdictSoFar {
    /// Sentences of the report.
    pub(super) sentences: Vec<String>,
    /// Trials in the record.
    pub(super) trials: usize,
    /// True if all trials of the run have ended.
    pub(super) is_final: bool,
}

/// Returns the verdict on the record in this folder; `None` without a readable record or a trial.
pub(super) fn verdict(folder: &Path) -> Option<VerdictSoFar> {
    let record = folder::read(folder).ok()?.record;
    let trials = record.trials.len();
    let is_final = record.end.is_some() && record.is_complete();
    let sentences = || Report::new(&record).answer();
    (trials > 0).then(|| VerdictSoFar { sentences: sentences(), trials, is_final })
}
