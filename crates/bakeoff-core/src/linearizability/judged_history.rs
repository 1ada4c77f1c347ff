//! Holds the verdict on a history as a record keeps it, with the operations that show a violation.
//!
//! Not here: judging (`history`), texts and tables (the report).

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::ViolationKind;
use crate::units::is_zero;

/// Place in the store's own order of writes, such as etcd's revision.
///
/// That of a write is its own. That of a read is the last write that the store had applied, at some moment between the
/// read and its answer.
pub type Witness = NonZeroU64;

/// Verdict on the history of a trial's operations on single keys.
///
/// Its fields are those of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgedHistory {
    /// Verdict on all keys together.
    #[serde(flatten)]
    pub verdict: HistoryVerdict,
    /// Number of recorded operations, with those that filled the keys.
    pub operations: u64,
    /// Number of writes of unknown outcome among them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Number of writes among them that the system refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Number of judged keys.
    pub keys: u64,
    /// Number of keys that are not judged because no answer shows the order of their deletes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keys_deleted: u64,
    /// Number of judged keys without an order that explains every answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keys_violated: u64,
    /// True if the system does not guarantee linearizable reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unguaranteed: bool,
    /// Violation with the fewest operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<ShownViolation>,
    /// File with the whole history; `None` if it was not kept.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptHistory>,
}

/// A history that was kept in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptHistory {
    /// Path relative to the run's folder.
    pub file: String,
    /// Size in bytes.
    pub file_bytes: u64,
    /// SHA-256 in hexadecimal.
    pub file_sha256: String,
}

/// Verdict on a history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "found", content = "why")]
pub enum HistoryVerdict {
    /// For each key, some order explains every answer.
    #[default]
    Linearizable,
    /// The history was not judged, for this reason.
    NotChecked(String),
    /// The check could not decide, for this reason.
    Undecided(String),
    /// For some key, no order explains every answer.
    Violated,
}

impl HistoryVerdict {
    /// Orders verdicts: the verdict on several parts is the heaviest of theirs.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::Linearizable => 0,
            Self::NotChecked(_) => 1,
            Self::Undecided(_) => 2,
            Self::Violated => 3,
        }
    }
}

/// The operations that show a violation on one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownViolation {
    /// Name of the key.
    pub key: String,
    /// Kind of violation.
    pub kind: ViolationKind,
    /// Operations by start; without any of them the others are linearizable.
    pub operations: Vec<ShownOperation>,
    /// Number of further operations that the violation needs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Longest prefix of the key's history that is linearizable.
    pub legal: LegalPrefix,
}

impl ShownViolation {
    /// Returns the violation in words. An old value that is read again is the most frequent one, and has its own words.
    pub fn text(&self) -> String {
        use ShownAction::{Delete, Read, Write};
        let actions: Vec<ShownAction> = self.operations.iter().map(|one| one.action).collect();
        match (self.kind, actions.as_slice()) {
            (
                ViolationKind::Disordered,
                [Write { value: old }, Write { value: new }, Read { value: Some(read) }],
            ) if old == read => {
                format!("write {read} was read after write {new}, which began after it had ended")
            }
            (
                ViolationKind::Disordered,
                [Write { value: old }, Delete, Read { value: Some(read) }],
            ) if old == read => {
                format!("write {read} was read after a delete, which began after it had ended")
            }
            (
                ViolationKind::Disordered,
                [Write { value: new }, Read { value: None }]
                | [Delete, Write { value: new }, Read { value: None }],
            ) => {
                format!("nothing was read after write {new}")
            }
            (kind, _) => kind.text().to_owned(),
        }
    }
}

/// The longest linearizable prefix of a key's history, by the times at which operations ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LegalPrefix {
    /// Number of operations that had ended by then.
    pub operations: u64,
    /// Number of operations on the key.
    pub of: u64,
    /// End of its last operation in milliseconds since the load began; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<f64>,
}

/// An operation with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownOperation {
    /// Number of the client.
    pub client: u32,
    /// Node that it was sent to.
    pub node: String,
    /// Effect or answer.
    #[serde(flatten)]
    pub action: ShownAction,
    /// Outcome.
    pub outcome: OperationOutcome,
    /// Time at which it was sent, in milliseconds since the load began. Negative while the keys were filled.
    pub start_ms: f64,
    /// Time at which its answer came, in milliseconds since the load began; `None` if the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<f64>,
}

/// One line of an exported history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// Name of the key.
    pub key: String,
    /// Number of the client.
    pub client: u32,
    /// Node that it was sent to.
    pub node: String,
    /// Effect or answer.
    #[serde(flatten)]
    pub action: ShownAction,
    /// Place in the store's own order of writes, of a delete or a missing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// Outcome.
    pub outcome: OperationOutcome,
    /// Time at which it was sent, in nanoseconds of the history's clock.
    pub start_ns: u64,
    /// Time at which its answer came, in nanoseconds of the same clock; `None` if the outcome is unknown.
    pub end_ns: Option<u64>,
}

/// Effect or answer of an operation. Values are numbers of the key's writes; `None` stands for a missing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum ShownAction {
    /// Wrote this value.
    Write {
        /// Number of the write.
        value: u32,
    },
    /// Read this value.
    Read {
        /// Number of the write that it read.
        value: Option<u32>,
    },
    /// Replaced `expected` by `value`.
    CompareAndSet {
        /// Number of the write that it met.
        expected: Option<u32>,
        /// Number of its own write.
        value: u32,
    },
    /// Deleted the key.
    Delete,
}

/// Outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OperationOutcome {
    /// It succeeded.
    Done,
    /// The system refused it, and changed nothing.
    Refused,
    /// It may have happened, or may still happen: no answer came, or an error that does not exclude it.
    Unknown,
}
