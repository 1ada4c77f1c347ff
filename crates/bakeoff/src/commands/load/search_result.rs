//! The result of a search for the highest rate, ready to be shown.
//!
//! Not here: searching (`find`), how it looks (`curve`).

use bakeoff_core::condition::Condition;
use bakeoff_core::search::{Found, Tried};

use super::result::Part;
use super::settings::Settings;

/// One rate that was tried.
#[derive(Debug, Clone)]
pub(super) struct Try {
    pub(super) tried: Tried,
    pub(super) part: Part,
    /// The objective's first latency in seconds; the response's p99 where it names none.
    pub(super) latency: Option<f64>,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub(super) struct SearchResult {
    pub(super) settings: Settings,
    pub(super) objective: Vec<Condition>,
    pub(super) tries: Vec<Try>,
    /// `None` when it was interrupted.
    pub(super) found: Option<Found>,
    /// The reasons for which the search is not valid.
    pub(super) reasons: Vec<String>,
}

impl SearchResult {
    /// The lowest rate above another that broke the objective, as it was tried last.
    pub(super) fn broken_above(&self, rate: f64) -> Option<&Try> {
        let bound = Tried::broken_above(self.tries.iter().map(|one| &one.tried), rate)?.rate;
        self.tries.iter().rev().find(|one| one.tried.rate == bound)
    }

    /// Returns whether the server's highest rate is known, or that it is beyond all that was tried.
    pub(super) fn is_answer(&self) -> bool {
        match self.found {
            Some(Found::Rate(rate)) => !self.broken_above(rate).is_some_and(|one| one.tried.void),
            Some(Found::NoLimit(_)) => true,
            Some(Found::Nothing(_) | Found::Unsteady(_) | Found::OutOfTime(_)) | None => false,
        }
    }

    /// Returns whether the answer may be used: it is one, and the trial is valid.
    pub(super) fn is_valid(&self) -> bool {
        self.is_answer() && self.reasons.is_empty()
    }
}
