//! What checking found. "Not checked" is a finding of its own and never passes for a success.

use serde::{Deserialize, Serialize};

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
    /// Whether it was checked and holds.
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Whether it was checked and does not hold.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// What reading back acknowledged writes found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// When: `after the load`, `after kill -9 and restart of all nodes`.
    pub when: String,
    /// Keys with an acknowledged write.
    pub acknowledged: u64,
    /// How many of them were read back.
    pub read: u64,
    /// How many were gone.
    pub lost: u64,
    /// How many held something else than was written, or something older than was acknowledged.
    pub wrong: u64,
    /// How many could not be read.
    pub unreadable: u64,
    /// The first of each, by key.
    pub examples: Vec<String>,
    /// What follows from it.
    pub verdict: Verdict,
}

impl Audit {
    /// An audit in which nothing has been read.
    pub fn of(when: &str, verdict: Verdict) -> Self {
        Self {
            when: when.to_owned(),
            acknowledged: 0,
            read: 0,
            lost: 0,
            wrong: 0,
            unreadable: 0,
            examples: Vec::new(),
            verdict,
        }
    }
}
