//! Result of a search for the highest rate.
//!
//! Not here: the search (`find`), rendering (`curve`).

use bakeoff_core::condition::Condition;
use bakeoff_core::search::{FoundRate, TriedRate};

use super::result::Part;
use super::settings::Settings;

/// A try: one load at one rate.
#[derive(Debug, Clone)]
pub(super) struct Try {
    pub(super) tried: TriedRate,
    pub(super) part: Part,
    /// First latency that the objective limits, in seconds, or the p99 response time if it limits none.
    pub(super) latency: Option<f64>,
}

#[derive(Debug, Clone)]
pub(super) struct SearchResult {
    pub(super) settings: Settings,
    pub(super) objective: Vec<Condition>,
    pub(super) tries: Vec<Try>,
    /// `None` if the search was interrupted.
    pub(super) found: Option<FoundRate>,
    /// Reasons why the search is not valid; empty if it is valid.
    pub(super) reasons: Vec<String>,
}

impl SearchResult {
    /// Returns the last try of the lowest rate above `rate` that broke the objective.
    pub(super) fn broken_above(&self, rate: f64) -> Option<&Try> {
        let bound = TriedRate::broken_above(self.tries.iter().map(|one| &one.tried), rate)?.rate;
        self.tries.iter().rev().find(|one| one.tried.rate == bound)
    }

    /// Returns true if the server's highest rate is known, or known to be above all tries.
    pub(super) fn is_answer(&self) -> bool {
        match self.found {
            Some(FoundRate::Rate(rate)) => {
                !self.broken_above(rate).is_some_and(|one| one.tried.void)
            }
            Some(FoundRate::NoLimit(_)) => true,
            Some(FoundRate::Nothing(_) | FoundRate::Unsteady(_) | FoundRate::OutOfTime(_))
            | None => false,
        }
    }

    /// Returns true if there is an answer and the trial is valid.
    pub(super) fn is_valid(&self) -> bool {
        self.is_answer() && self.reasons.is_empty()
    }
}
