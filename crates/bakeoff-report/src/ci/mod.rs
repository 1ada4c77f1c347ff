//! Judged conditions, as services that run builds show them: a JUnit file, annotations of GitHub's.
//!
//! Texts of other people (servers, records) are in both, and neither may be changed by what they hold.
//!
//! Not here: judging (`compare`, `bakeoff_core::condition`), writing the file, asking who runs the build.

pub mod github;
mod junit;

use crate::compare::{Compared, FailIfOutcome, Passed};

pub use junit::junit;

/// The judged conditions of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// The command: `bakeoff load`.
    pub name: String,
    /// Its conditions, in the order in which they were given.
    pub cases: Vec<Case>,
}

/// One condition, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The condition: `p99 > 20ms`.
    pub name: String,
    /// The outcome.
    pub outcome: CaseOutcome,
}

/// The outcome of a condition, with a line for each thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// Nothing is wrong.
    Passed,
    /// The condition holds, or is proven: the build must not pass.
    Failed(Vec<String>),
    /// Nobody can tell, which passes nothing.
    Unknown(Vec<String>),
}

impl Case {
    /// Returns whether trials or figures are valid; they are where there are no reasons against it.
    pub fn valid(reasons: Vec<String>) -> Self {
        let outcome = match reasons.is_empty() {
            true => CaseOutcome::Passed,
            false => CaseOutcome::Failed(reasons),
        };
        Self { name: "is valid".to_owned(), outcome }
    }

    /// Returns the conditions of a comparison; of a gate also whether its trials are valid.
    pub fn from_comparison(compared: &Compared) -> Vec<Self> {
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
            let reasons = compared.verdict().filter(|_| passed == Passed::NotValid);
            cases.push(Self::valid(reasons.into_iter().collect()));
        }
        cases
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A case of each outcome, with texts that would like to be more than texts.
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
