//! Describes a line of a record as it is written, for its schema.
//!
//! Not here: the fields that chain it (`chain`, `origin`).

use schemars::JsonSchema;
use serde::Serialize;

use super::RecordLine;

/// Describes a whole line of a record, with the fields that chain it.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A line of a bakeoff record", rename = "Line")]
pub struct ChainedLine {
    /// Content of the line.
    #[serde(flatten)]
    line: RecordLine,
    /// SHA-256 of the line before it without its newline, in lower-case hexadecimal; `None` in the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_sha256: Option<String>,
    /// HMAC-SHA-256 of the line up to this value, under a key of the user who ran it; `None` without a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_mac: Option<String>,
}
