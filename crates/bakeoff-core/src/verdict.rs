//! Verdicts of checks and audits. "Not checked" is a verdict of its own and never passes for a success.
//!
//! Not here: how a trial is judged (`check`), reading keys back (the binary).

mod name;

use serde::{Deserialize, Serialize};

use crate::units::{count_text, plural};

pub use name::{Cause, CheckName};

/// One thing that was checked about a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Which.
    pub name: CheckName,
    /// Its verdict.
    pub verdict: Verdict,
    /// Cause of its failure, if it is not the check's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

impl Check {
    /// A check whose failure has the check's own cause.
    pub fn new(name: CheckName, verdict: Verdict) -> Self {
        Self { name, verdict, cause: None }
    }

    /// Returns the cause of its failure.
    pub fn cause(&self) -> Cause {
        self.cause.unwrap_or(self.name.cause())
    }
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// It was checked and holds.
    Passed,
    /// It was checked and does not hold, because of this.
    Failed(String),
    /// It could not be checked, because of this.
    NotChecked(String),
}

impl Verdict {
    /// Returns whether it was checked and holds.
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Returns whether it was checked and does not hold.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Returns why it does not hold; `None` where it does, or was not checked.
    pub fn into_failure(self) -> Option<String> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Passed | Self::NotChecked(_) => None,
        }
    }
}

/// Subject of an audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audited {
    /// Keys that were acknowledged, and are read back.
    #[default]
    Writes,
    /// Requests that somebody granted, and that were let through: never more than were granted.
    Passages,
}

impl Audited {
    fn is_writes(&self) -> bool {
        *self == Self::Writes
    }
}

/// Result of reading acknowledged writes back, or of counting requests that were let through.
///
/// Its fields are a record's, which stays flat: old records load by the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When: `after the load`, `after kill -9 and restart of all nodes`.
    pub when: String,
    /// Its subject.
    #[serde(default, skip_serializing_if = "Audited::is_writes")]
    pub of: Audited,
    /// Keys with an acknowledged write; of passages, requests that were granted.
    pub acknowledged: u64,
    /// Number that was read back; of passages, number of requests that were let through.
    pub read: u64,
    /// Number that was gone.
    pub lost: u64,
    /// Number with another value than was written, or an older one than was acknowledged.
    pub wrong: u64,
    /// Number of these with an older write than was acknowledged: an update is lost.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub older: u64,
    /// Number that could not be read.
    pub unreadable: u64,
    /// Number of those to be read back whose loss would have been noticed; `None` if that was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<u64>,
    /// In the midst of what the nodes were killed before, if they were killed under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<KilledUnderLoad>,
    /// Reason for a kill at rest, where it was to be under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest_because: Option<String>,
    /// True if the system does not guarantee what the audit found. A system that acknowledges from memory may
    /// lose a write in a kill.
    #[serde(
        rename = "unpromised",
        alias = "unguaranteed",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub unguaranteed: bool,
    /// The first of each, by key.
    pub examples: Vec<String>,
    /// Its verdict.
    pub verdict: Verdict,
}

impl Audit {
    /// An audit in which nothing has been read.
    pub fn new(when: &str, verdict: Verdict) -> Self {
        Self {
            when: when.to_owned(),
            of: Audited::Writes,
            acknowledged: 0,
            read: 0,
            lost: 0,
            wrong: 0,
            older: 0,
            unreadable: 0,
            claimed: None,
            under_load: None,
            at_rest_because: None,
            unguaranteed: false,
            examples: Vec::new(),
            verdict,
        }
    }
}

/// Writes under way when all nodes were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KilledUnderLoad {
    /// Clients that wrote.
    pub clients: u32,
    /// Time for which they had written, in milliseconds.
    pub after_ms: u64,
    /// Writes that were acknowledged in that time.
    pub acknowledged: u64,
}

/// Requests that were granted and that were let through, each by the word of who did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passages {
    /// By whom rights are known.
    pub granted: u64,
    /// To what is protected.
    pub passed: u64,
}

impl Passages {
    /// Judges a gate: nothing may pass unchecked. A grant that was not made use of, since the client had left,
    /// is no fault.
    pub fn audit(self, when: &str) -> Audit {
        let Self { granted, passed } = self;
        let verdict = match passed.saturating_sub(granted) {
            0 => Verdict::Passed,
            unchecked => Verdict::Failed(format!(
                "{} passed unchecked: {} in all, with {} granted",
                plural(unchecked, "request"),
                count_text(passed),
                count_text(granted),
            )),
        };
        Audit {
            of: Audited::Passages,
            acknowledged: granted,
            read: passed,
            ..Audit::new(when, verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_that_passed_than_was_granted_passed_unchecked() {
        let audit = |granted, passed| Passages { granted, passed }.audit("during the load");
        assert!(audit(0, 0).verdict.passed());
        assert!(audit(10_000, 9_999).verdict.passed());
        assert!(audit(10_000, 10_000).verdict.passed());
        let Verdict::Failed(why) = audit(10_000, 12_001).verdict else { panic!("it passed") };
        assert_eq!(why, "2,001 requests passed unchecked: 12,001 in all, with 10,000 granted");
        let one = audit(1, 0);
        assert_eq!((one.acknowledged, one.read, one.of), (1, 0, Audited::Passages));
    }
}
