//! Runs maintenance on Vault and OpenBao: rotate the key that encrypts stored data, and take a snapshot of Raft.
//!
//! Not here: the time of it (`bakeoff_trial`).

use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{Maintenance, MaintenanceOffer, MaintenanceScope};
use serde_json::Value;

use super::open::{TOKEN_HEADER, token};
use super::storage::Storage;
use crate::declaration::never_offered;
use crate::exchange::Patience;
use crate::http_session::{Question, question, snapshot};
use crate::{Access, SystemError};

pub(super) const OFFERS: &[MaintenanceOffer] = &[
    MaintenanceOffer::new(Maintenance::Rotate, MaintenanceScope::System),
    MaintenanceOffer {
        operation: Maintenance::Snapshot,
        scope: MaintenanceScope::System,
        lacks: |system| {
            (Storage::configured(system).name != "raft")
                .then_some("only storage `raft` has snapshots")
        },
    },
];

pub(crate) fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    let token = token(node)?;
    let headers = &[(TOKEN_HEADER, token.as_str())];
    let asked = Question { headers, patience, ..Question::default() };
    match run.operation {
        Maintenance::Rotate => {
            let before = key_term(node, &asked)?;
            let rotate = Question { method: "POST", target: "/v1/sys/rotate", ..asked };
            question(node, &rotate)?.succeeded()?;
            match key_term(node, &asked)? {
                after if after > before => Ok(format!("key {before} was followed by key {after}")),
                _ => Err(SystemError::answered(node, format!("key {before} is still in use"))),
            }
        }
        Maintenance::Snapshot => snapshot(node, "/v1/sys/storage/raft/snapshot", headers, patience),
        operation => Err(never_offered(node, operation)),
    }
}

/// Returns the number of the key that encrypts new data.
fn key_term(node: &Access, asked: &Question<'_>) -> Result<u64, SystemError> {
    let reply = question(node, &Question { target: "/v1/sys/key-status", ..*asked })?.success()?;
    let term = reply.pointer("/data/term").or_else(|| reply.get("term")).and_then(Value::as_u64);
    term.ok_or_else(|| SystemError::answered(node, "its answer has no term of the key"))
}
