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
    pub(super) rate: f64,
    /// The winner's second, longer one.
    pub(super) confirming: bool,
    pub(super) part: Part,
    /// The objective's first latency in seconds; the response's p99 where it names none.
    pub(super) latency: Option<f64>,
    /// The broken conditions; empty when it kept the objective.
    pub(super) broken_by: Vec<String>,
    /// Disturbances of the generator or this machine meanwhile.
    pub(super) disturbed_by: Vec<String>,
}

impl Try {
    /// Returns whether it broke the objective without saying anything of the server: it was not valid.
    pub(super) fn is_void(&self) -> bool {
        !self.broken_by.is_empty() && !self.disturbed_by.is_empty()
    }

    pub(super) fn tried(&self) -> Tried {
        let Self { rate, confirming, .. } = *self;
        let (broken_by, disturbed_by) = (self.broken_by.clone(), self.disturbed_by.clone());
        Tried { rate, confirming, broken_by, void: self.is_void(), disturbed_by }
    }
}

/// The result of a search.
#[derive(Debug, Clone)]
pub(super) struct SearchResult {
    pub(super) settings: Settings,
    pub(super) objective: Vec<Condition>,
    pub(super) tries: Vec<Try>,
    /// `None` when it was interrupted.
    pub(super) found: Option<Found>,
}

impl SearchResult {
    /// The lowest rate above another that broke the objective, as it was tried last.
    pub(super) fn broken_above(&self, rate: f64) -> Option<&Try> {
        let tries: Vec<Tried> = self.tries.iter().map(Try::tried).collect();
        let bound = Tried::broken_above(tries.iter(), rate)?.rate;
        self.tries.iter().rev().find(|one| one.rate == bound)
    }

    /// Returns whether the server's highest rate is known, or that it is beyond all that was tried.
    pub(super) fn is_answer(&self) -> bool {
        match self.found {
            Some(Found::Rate(rate)) => !self.broken_above(rate).is_some_and(Try::is_void),
            Some(Found::NoLimit(_)) => true,
            Some(Found::Nothing(_) | Found::Unsteady(_) | Found::OutOfTime(_)) | None => false,
        }
    }
}
