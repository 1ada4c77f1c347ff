//! Maps operations onto Consul's HTTP API: `/v1/kv`, `/v1/session` for leases and locks, `/v1/txn` for transactions.
//!
//! Not here: the wire format (`bakeoff_wire::http1`).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_engine::works::keyed::{Answer, Compare, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::TOKEN;
use super::lock::ClientLock;
use super::transaction;
use crate::http_session::Mapping;
use crate::{Access, ClientToken, http_status_text};

/// Passes on the answer to either half of a compare-and-set: a word, or the key with its `ModifyIndex` and its value
/// in base64.
fn compared(body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Entry {
        modify_index: u64,
        value: Option<String>,
    }
    match body.trim_ascii() {
        b"true" => return on(Answer::Done),
        b"false" => return on(Answer::Conflict),
        _ => {}
    }
    let broken = |what: String| Answer::Failed(ErrorKind::Protocol, what);
    match serde_json::from_slice::<[Entry; 1]>(body) {
        Ok([entry]) => match STANDARD.decode(entry.value.unwrap_or_default()) {
            Ok(value) => on(Answer::Versioned(&value, entry.modify_index)),
            Err(error) => on(broken(error.to_string())),
        },
        Err(error) => on(broken(error.to_string())),
    }
}

/// Appends the header line with a client's token, if there is one.
pub(super) fn write_token(token: Option<&ClientToken>, out: &mut Vec<u8>) {
    if let Some(token) = token {
        out.extend_from_slice(format!("{TOKEN}: {}\r\n", token.0).as_bytes());
    }
}

/// Mapping of a connection's operations.
pub(super) struct KvApi {
    /// Token of the clients, if there is one.
    token: Option<Arc<ClientToken>>,
    /// Time to live of sessions.
    lease_seconds: u64,
    lock: RefCell<ClientLock>,
    /// Half of the `move` in flight.
    compare: Cell<Compare>,
}

impl KvApi {
    /// Creates the mapping of one connection. Its leases live `lease_seconds`; `fences`: writes depend on the lock.
    pub(super) fn new(node: &Access, lease_seconds: u64, fences: bool) -> Self {
        let lock = RefCell::new(ClientLock::new(lease_seconds, fences));
        Self { token: node.memory.get(), lease_seconds, lock, compare: Cell::default() }
    }

    /// Reads the answer to a request for a session, or to a renewal, which answers a list.
    fn read_lease(&self, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        match (status, body.first()) {
            (200, Some(b'[')) => on(Answer::Done),
            (200, _) => match serde_json::from_slice::<CreatedSession>(body) {
                Ok(created) => on(Answer::Granted(&created.id)),
                Err(error) => on(Answer::Failed(ErrorKind::Protocol, error.to_string())),
            },
            (404, _) => on(Answer::LeaseExpired(Duration::from_secs(self.lease_seconds))),
            _ => on(Answer::Failed(ErrorKind::Status, http_status_text(status, body))),
        }
    }
}

/// Answer to the creation of a session.
#[derive(Deserialize)]
pub(super) struct CreatedSession {
    #[serde(rename = "ID")]
    pub(super) id: String,
}

impl Mapping for KvApi {
    fn write_headers(&self, out: &mut Vec<u8>) {
        write_token(self.token.as_deref(), out);
    }

    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        if request.operation == Operation::Lock {
            let target = self.lock.borrow_mut().target(request);
            return out.extend_from_slice(target.as_bytes());
        }
        if request.operation.is_of_leases() {
            let target = match request.lease {
                "" => "PUT /v1/session/create".to_owned(),
                lease => format!("PUT /v1/session/renew/{lease}"),
            };
            return out.extend_from_slice(target.as_bytes());
        }
        self.compare.set(request.compare);
        let (method, question) = match request.operation {
            Operation::Put => ("PUT", ""),
            Operation::Delete => ("DELETE", ""),
            Operation::Get => ("GET", "?raw"),
            Operation::List => ("GET", "?keys"),
            Operation::Look | Operation::Move => ("PUT", "?"),
            Operation::CompareAndSet => match request.compare {
                Compare::Read => ("GET", "?"),
                Compare::Replace(_) => ("PUT", "?cas="),
            },
            operation => crate::never_planned(operation),
        };
        let consistency = match (request.operation, request.reads) {
            (Operation::Put | Operation::Delete, _) | (_, ReadConsistency::Default) => "",
            (Operation::CompareAndSet | Operation::Move, _) if request.compare != Compare::Read => {
                ""
            }
            (_, ReadConsistency::Stale) => "&stale",
            (_, ReadConsistency::Linearizable | ReadConsistency::Freshest) => "&consistent",
        };
        out.extend_from_slice(method.as_bytes());
        if request.operation.is_of_groups() {
            out.extend_from_slice(b" /v1/txn");
        } else {
            out.extend_from_slice(b" /v1/kv/");
            out.extend_from_slice(request.key); // bakeoff's keys need no escaping
        }
        out.extend_from_slice(question.as_bytes());
        if let (Operation::CompareAndSet, Compare::Replace(index)) =
            (request.operation, request.compare)
        {
            out.extend_from_slice(index.to_string().as_bytes());
        }
        out.extend_from_slice(consistency.as_bytes());
    }

    fn write_body(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if request.operation == Operation::Lock {
            let body = self.lock.borrow().body(request);
            out.extend_from_slice(body.as_deref().unwrap_or_default());
            return body.is_some();
        }
        if request.operation.is_of_leases() {
            // A renewal needs none, and may have it.
            let seconds = self.lease_seconds;
            out.extend_from_slice(
                format!("{{\"TTL\":\"{seconds}s\",\"LockDelay\":\"0s\"}}").as_bytes(),
            );
            return true;
        }
        if request.operation.is_of_groups() {
            out.extend_from_slice(&transaction::body(request.group, request.compare));
            return true;
        }
        out.extend_from_slice(request.value);
        request.operation == Operation::Put || request.compare != Compare::Read
    }

    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        match (operation, status) {
            (Operation::Lock, _) => {
                // The next request needs the lock again.
                let answer = self.lock.borrow_mut().read(status, body);
                on(answer);
            }
            _ if operation.is_of_leases() => self.read_lease(status, body, on),
            _ if operation.is_of_groups() => {
                transaction::read(self.compare.get(), status, body, on);
            }
            (Operation::Get, 200) => on(Answer::Value(body)),
            (Operation::Get | Operation::List | Operation::CompareAndSet, 404) => {
                on(Answer::Missing);
            }
            (Operation::CompareAndSet, 200) => compared(body, on),
            (Operation::Put | Operation::Delete, 200) if body.trim_ascii() == b"true" => {
                on(Answer::Done);
            }
            (Operation::List, 200) => match serde_json::from_slice::<Vec<String>>(body) {
                Ok(names) => on(Answer::Names(&mut names.iter().map(String::as_bytes))),
                Err(error) => on(Answer::Failed(ErrorKind::Protocol, error.to_string())),
            },
            _ => on(Answer::Failed(ErrorKind::Status, http_status_text(status, body))),
        }
    }
}
