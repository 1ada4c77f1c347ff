//! Writes and reads transactions of a group of keys: `PUT /v1/txn`, a list of operations that happen together.
//!
//! Keys are read by `get-or-empty`, because a `get` of a missing key would hide the others. They are written by `cas`,
//! whose index is that of the last read; 0 stands for a missing key.
//!
//! Not here: other operations (`kv_api`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::works::keyed::{Answer, Compare, GroupKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::http_status_text;

/// Message of an operation that found another index (`txn_endpoint`, `kvs.go`).
const STALE: &str = "index is stale";

/// Returns the body of a transaction.
pub(super) fn body(group: &[GroupKey], compare: Compare) -> Vec<u8> {
    let operations = group.iter().map(|GroupKey { name, value }| {
        let key = String::from_utf8_lossy(name);
        match compare {
            Compare::Read => json!({"KV": {"Verb": "get-or-empty", "Key": key}}),
            Compare::Replace(index) => {
                let value = STANDARD.encode(value);
                json!({"KV": {"Verb": "cas", "Key": key, "Value": value, "Index": index}})
            }
        }
    });
    serde_json::Value::from_iter(operations).to_string().into_bytes()
}

/// Passes on the answer to a transaction.
pub(super) fn read(compare: Compare, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    match (compare, status) {
        (Compare::Read, 200) => read_values(body, on),
        (Compare::Replace(_), 200) => on(Answer::Done),
        (Compare::Replace(_), 409) if String::from_utf8_lossy(body).contains(STALE) => {
            on(Answer::Conflict);
        }
        _ => on(Answer::Failed(ErrorKind::Status, http_status_text(status, body))),
    }
}

/// Results of a transaction.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Results {
    results: Vec<OperationResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct OperationResult {
    kv: Pair,
}

/// Pair of a key and its value in base64. A missing key has index 0.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Pair {
    value: Option<String>,
    modify_index: u64,
}

fn read_values(body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    let broken = |what: String| Answer::Failed(ErrorKind::Protocol, what);
    let results = match serde_json::from_slice::<Results>(body) {
        Ok(results) => results.results,
        Err(error) => return on(broken(error.to_string())),
    };
    let index = results.iter().map(|one| one.kv.modify_index).find(|&index| index > 0);
    let decoded = results.into_iter().map(|OperationResult { kv }| match kv.modify_index {
        0 => Ok(None),
        _ => STANDARD.decode(kv.value.unwrap_or_default()).map(Some),
    });
    match decoded.collect::<Result<Vec<_>, _>>() {
        Ok(values) => {
            let mut values = values.iter().map(Option::as_deref);
            on(Answer::Group(&mut values, index.unwrap_or(0)));
        }
        Err(error) => on(broken(error.to_string())),
    }
}
