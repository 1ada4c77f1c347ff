//! Judged conditions in formats of CI services: a JUnit file, and annotations for GitHub.
//!
//! Both contain texts from servers and records, which must not alter the format.
//!
//! Not here: judging (`compare`, `bakeoff_core::condition`), writing the file, detecting the CI service.

pub mod github;
mod junit;

use crate::compare::{FailIfOutcome, GateOutcome, RunComparison};

pub use junit::junit;

/// The judged conditions of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// Name of the command: `bakeoff load`.
    pub name: String,
    /// Conditions, in the order in which they were given.
    pub cases: Vec<Case>,
}

/// One judged condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The condition: `p99 > 20ms`.
    pub name: String,
    /// Outcome.
    pub outcome: CaseOutcome,
}

/// Outcome of a condition, with a line for each observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// No problem was found.
    Passed,
    /// The condition holds or is proven, so the build must not pass.
    Failed(Vec<String>),
    /// Unknown, which does not pass the build.
    Unknown(Vec<String>),
}

impl Case {
    /// Creates the case that trials or figures are valid: passed without reasons against it.
    pub fn valid(reasons: Vec<String>) -> Self {
        let outcome = match reasons.is_empty() {
            true => CaseOutcome::Passed,
            false => CaseOutcome::Failed(reasons),
        };
        Self { name: "is valid".to_owned(), outcome }
    }

    /// Returns the conditions of a comparison. For a gate, adds the case that its trials are valid.
    pub fn from_comparison(compared: &RunComparison) -> Vec<Self> {
        let case = |(name, outcome): &(String, FailIfOutcome)| Self {
            name: name.clone(),
            outcome: match outcome {
                FailIfOutcome::Proven(seen) => CaseOutcome::Failed(seen.clone()),
                FailIfOutcome::CannotTell(seen) => CaseOutcome::Unknown(seen.clone()),
                FailIfOutcome::HoldsNot => CaseOutcome::Passed,
            },
        };
        let mut cases: Vec<Self> = compared.outcomes().iter().map(case).collect();
        if let Some(passed) = compared.passed() {
            let reasons = compared.verdict().filter(|_| passed == GateOutcome::NotValid);
            cases.push(Self::valid(reasons.into_iter().collect()));
        }
        cases
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// One case per outcome, with texts that try to break out of the format.
    pub(crate) fn suite() -> Suite {
        let case = |name: &str, outcome| Case { name: name.to_owned(), outcome };
        Suite {
            name: "bakeoff load".to_owned(),
            cases: vec![
                case("p99 > 20ms", CaseOutcome::Passed),
                case(
                    "errors > 1%",
                    CaseOutcome::Failed(vec![
                        "errors is 4, 100 %".to_owned(),
                        "</failure>\n::error::owned \u{1b}[31m\u{ffff}\"'&".to_owned(),
                    ]),
                ),
                case("max > 1s", CaseOutcome::Unknown(vec!["max is unknown".to_owned()])),
            ],
        }
    }
}
