//! Defines verdicts of checks and audits. "Not checked" is a separate verdict and never counts as a pass.
//!
//! Not here: judging a trial (`check`), reading keys back (the binary).

mod name;

use serde::{Deserialize, Serialize};

use crate::units::{count_text, plural};

pub use name::{Cause, CheckName};

/// Holds one check of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Name of the check.
    pub name: CheckName,
    /// Passed, or failed or not checked with the reason.
    pub verdict: Verdict,
    /// Cause of its failure, if it differs from the check's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

impl Check {
    /// Creates a check whose failure has the usual cause.
    pub fn new(name: CheckName, verdict: Verdict) -> Self {
        Self { name, verdict, cause: None }
    }

    /// Returns the cause of its failure.
    pub fn cause(&self) -> Cause {
        self.cause.unwrap_or(self.name.cause())
    }
}

/// Holds the outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// It was checked and holds.
    Passed,
    /// It was checked and does not hold, for this reason.
    Failed(String),
    /// It could not be checked, for this reason.
    NotChecked(String),
}

impl Verdict {
    /// Returns true if it was checked and holds.
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }

    /// Returns true if it was checked and does not hold.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Returns the reason of a failure; `None` if it passed or was not checked.
    pub fn into_failure(self) -> Option<String> {
        match self {
            Self::Failed(why) => Some(why),
            Self::Passed | Self::NotChecked(_) => None,
        }
    }
}

/// Selects the subject of an audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AuditSubject {
    /// Acknowledged keys that are read back.
    #[default]
    Writes,
    /// Requests let through by a gateway, which must not exceed the granted ones.
    Passages,
}

impl AuditSubject {
    fn is_writes(&self) -> bool {
        *self == Self::Writes
    }
}

/// Holds the result of reading acknowledged writes back, or of counting requests that were let through.
///
/// Its fields are those of a record, which stays flat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Time of the audit: `after the load`, `after kill -9 and restart of all nodes`.
    pub when: String,
    /// Subject of the audit.
    #[serde(default, skip_serializing_if = "AuditSubject::is_writes")]
    pub of: AuditSubject,
    /// Number of keys with an acknowledged write; for passages, of granted requests.
    pub acknowledged: u64,
    /// Number of keys read back; for passages, of requests let through.
    pub read: u64,
    /// Number of missing keys.
    pub lost: u64,
    /// Number of keys with another value than written, or an older one than acknowledged.
    pub wrong: u64,
    /// Number of wrong keys with an older write than acknowledged, so that an update is lost.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub older: u64,
    /// Number of keys that could not be read.
    pub unreadable: u64,
    /// Number of read keys whose first read failed.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub repeated: u64,
    /// Number of audited keys whose loss would have been noticed; `None` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<u64>,
    /// Writes that the kill interrupted; `None` for a kill at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<KilledUnderLoad>,
    /// Reason for a kill at rest instead of under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest_because: Option<String>,
    /// Power cuts before the audit; `None` if the power was not cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<PowerCutsMade>,
    /// Bit that was flipped before the audit; `None` if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flipped: Option<FlippedBit>,
    /// True if the system does not guarantee what the audit found. A system that acknowledges from memory may
    /// lose a write in a kill.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unguaranteed: bool,
    /// First examples of each kind, by key.
    pub examples: Vec<String>,
    /// Passed, or failed or not checked with the reason.
    pub verdict: Verdict,
}

impl Audit {
    /// Creates an audit that has read nothing.
    pub fn new(when: &str, verdict: Verdict) -> Self {
        Self {
            when: when.to_owned(),
            of: AuditSubject::Writes,
            acknowledged: 0,
            read: 0,
            lost: 0,
            wrong: 0,
            older: 0,
            unreadable: 0,
            repeated: 0,
            claimed: None,
            under_load: None,
            at_rest_because: None,
            power_cuts: None,
            flipped: None,
            unguaranteed: false,
            examples: Vec::new(),
            verdict,
        }
    }
}

/// Describes the writes in flight when all nodes were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KilledUnderLoad {
    /// Number of writing clients.
    pub clients: u32,
    /// Time for which they had written, in milliseconds.
    pub after_ms: u64,
    /// Number of acknowledged writes in that time.
    pub acknowledged: u64,
}

/// Describes the power cuts of a trial, all during writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerCutsMade {
    /// Number of cuts.
    pub cuts: u32,
    /// Number of the cut after which acknowledged writes were lost or wrong, from 1; `None` if they never were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in: Option<u32>,
    /// Number of acknowledged writes before the cuts.
    pub acknowledged: u64,
    /// Unsynced bytes that the file systems dropped.
    pub dropped_bytes: u64,
    /// Files that lost bytes, counted at each cut.
    pub dropped_files: u64,
    /// Creations, renames, deletions and truncations that the file systems dropped.
    pub dropped_names: u64,
    /// Syncs of files and directories that the servers made.
    pub syncs: u64,
}

/// Describes a bit that was flipped in a data file of a stopped node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlippedBit {
    /// Name of the node.
    pub node: String,
    /// Path of the file below the node's directory.
    pub file: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Place of the byte in the file, from 0.
    pub offset: u64,
    /// Number of the bit, from 0 for the lowest.
    pub bit: u8,
    /// How the node ended because of it; `None` if it served again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl FlippedBit {
    /// Describes the flip and what became of the node.
    pub fn text(&self) -> String {
        let Self { node, file, offset, bit, ended, .. } = self;
        let became = match ended {
            None => "served again".to_owned(),
            Some(how) => format!("noticed it: it {how}"),
        };
        format!(
            "bit {bit} of byte {} of `{file}` of {node} flipped, and {node} {became}",
            count_text(*offset)
        )
    }
}

/// Counts granted requests and requests let through, each by its own source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passages {
    /// Requests granted by the service that knows the rights.
    pub granted: u64,
    /// Requests that reached the protected service.
    pub passed: u64,
}

impl Passages {
    /// Judges a gateway: nothing may pass unchecked. An unused grant, after a client has left, is not a fault.
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
            of: AuditSubject::Passages,
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
    fn passages_beyond_the_grants_passed_unchecked() {
        let audit = |granted, passed| Passages { granted, passed }.audit("during the load");
        assert!(audit(0, 0).verdict.passed());
        assert!(audit(10_000, 9_999).verdict.passed());
        assert!(audit(10_000, 10_000).verdict.passed());
        let Verdict::Failed(why) = audit(10_000, 12_001).verdict else { panic!("it passed") };
        assert_eq!(why, "2,001 requests passed unchecked: 12,001 in all, with 10,000 granted");
        let one = audit(1, 0);
        assert_eq!((one.acknowledged, one.read, one.of), (1, 0, AuditSubject::Passages));
    }
}
