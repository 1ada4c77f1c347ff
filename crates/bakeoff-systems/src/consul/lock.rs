//! Follows the lock of a connection's client: a session that acquires a key.
//!
//! A client that is refused reads the key until no session holds it, and tries again, as Consul's own library does. So
//! all waiting clients try at once. The wait is a blocking query.
//!
//! Consul frees a lock when the session of its holder ends, after a delay (`LockDelay`, 15 s by default).
//!
//! Not here: holders of a lock (`bakeoff_engine::works::keyed`), values (`kv_api`).

use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::works::keyed::{Answer, LockStep, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::kv_api::CreatedSession;
use crate::coordination::lock_name;
use crate::http_status_text;

/// Lock of a connection's client.
pub(super) struct ClientLock {
    /// Time for which its session lasts.
    lasts: Duration,
    /// True if writes depend on the lock.
    fences: bool,
    /// Session, once created.
    session: Option<String>,
    /// Sending of the last creation or renewal of the session that succeeded.
    renewed: Instant,
    /// Sending of the request in flight.
    sent: Instant,
    step: Step,
}

/// Request in flight, or the next one to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    CreateSession,
    RenewSession,
    /// Try to acquire the key.
    Acquire,
    /// Read the key, once it differs from this index; 0 for now.
    Look(u64),
    /// Read the number of the acquisition.
    Confirm,
    Write,
    Release,
}

/// Content of a key that is a lock.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    lock_index: u64,
    modify_index: u64,
    session: Option<String>,
}

impl ClientLock {
    pub(super) fn new(lease_seconds: u64, fences: bool) -> Self {
        let (lasts, now) = (Duration::from_secs(lease_seconds), clock::now());
        let step = Step::CreateSession;
        Self { lasts, fences, session: None, renewed: now, sent: now, step }
    }

    /// Returns method and target of the next request.
    pub(super) fn target(&mut self, request: &Request<'_>) -> String {
        self.sent = clock::now();
        self.step = match (request.lock, self.step) {
            (LockStep::Write, _) => Step::Write,
            (LockStep::Release, _) => Step::Release,
            (LockStep::Acquire, step @ Step::Confirm) => step,
            (LockStep::Acquire, _) if self.session.is_none() => Step::CreateSession,
            (LockStep::Acquire, _) if self.sent > self.renewed + self.lasts / 3 => {
                Step::RenewSession
            }
            (LockStep::Acquire, step @ Step::Look(_)) => step,
            (LockStep::Acquire, _) => Step::Acquire,
        };
        let (name, session) = (lock_name(request.number), self.session.as_deref().unwrap_or(""));
        match self.step {
            Step::CreateSession => "PUT /v1/session/create".to_owned(),
            Step::RenewSession => format!("PUT /v1/session/renew/{session}"),
            Step::Acquire => format!("PUT /v1/kv/{name}?acquire={session}"),
            Step::Look(0) | Step::Confirm => format!("GET /v1/kv/{name}?consistent"),
            Step::Look(index) => {
                // Consul adds up to a sixteenth. The session is renewed between two waits.
                let wait = self.lasts.as_secs().div_ceil(4);
                format!("GET /v1/kv/{name}?index={index}&wait={wait}s")
            }
            Step::Write if self.fences => "PUT /v1/txn".to_owned(),
            Step::Write => format!("PUT /v1/kv/{}", String::from_utf8_lossy(request.key)),
            Step::Release => format!("PUT /v1/kv/{name}?release={session}"),
        }
    }

    /// Returns the body of the request; `None` for a request without one.
    pub(super) fn body(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        match self.step {
            Step::CreateSession => {
                Some(json!({"TTL": format!("{}s", self.lasts.as_secs())}).to_string().into_bytes())
            }
            Step::Write if self.fences => {
                let (key, lock) = (String::from_utf8_lossy(request.key), lock_name(request.number));
                let check = json!({"Verb": "check-session", "Key": lock, "Session": self.session});
                let value = STANDARD.encode(request.value);
                let set = json!({"Verb": "set", "Key": key, "Value": value});
                Some(json!([{"KV": check}, {"KV": set}]).to_string().into_bytes())
            }
            Step::Write => Some(request.value.to_vec()),
            Step::Look(_) | Step::Confirm => None,
            Step::RenewSession | Step::Acquire | Step::Release => Some(Vec::new()),
        }
    }

    /// Converts a response to an answer.
    pub(super) fn read(&mut self, status: u16, body: &[u8]) -> Answer<'static> {
        let failed = || Answer::Failed(ErrorKind::Status, http_status_text(status, body));
        let broken =
            |error: serde_json::Error| Answer::Failed(ErrorKind::Protocol, error.to_string());
        match (self.step, status) {
            (Step::CreateSession, 200) => match serde_json::from_slice::<CreatedSession>(body) {
                Ok(created) => {
                    self.session = Some(created.id);
                    self.renewed = self.sent;
                    Answer::Again
                }
                Err(error) => broken(error),
            },
            (Step::RenewSession, 200) => {
                self.renewed = self.sent;
                self.step = Step::Look(0);
                Answer::Again
            }
            (Step::RenewSession, 404) => {
                self.session = None;
                Answer::Again
            }
            (Step::Acquire | Step::Release | Step::Write, 200) => match body.trim_ascii() {
                b"false" if self.step == Step::Acquire => self.go_on_with(Step::Look(0)),
                b"false" => Answer::NotHeld { at_grant: false },
                _ if self.step == Step::Acquire => self.go_on_with(Step::Confirm),
                _ => Answer::Done,
            },
            (Step::Look(_), 404) => self.go_on_with(Step::Acquire),
            (Step::Look(_) | Step::Confirm, 200) => {
                match serde_json::from_slice::<[Entry; 1]>(body) {
                    Ok([entry]) => self.looked(&entry),
                    Err(error) => broken(error),
                }
            }
            // A transaction whose check failed.
            (Step::Write, 409) => Answer::NotHeld { at_grant: false },
            // `invalid session`: it has ended.
            (Step::Acquire, 500) if http_status_text(status, body).contains("invalid session") => {
                self.session = None;
                self.go_on_with(Step::CreateSession)
            }
            _ => failed(),
        }
    }

    fn go_on_with(&mut self, step: Step) -> Answer<'static> {
        self.step = step;
        Answer::Again
    }

    /// Handles the content of the key.
    fn looked(&mut self, entry: &Entry) -> Answer<'static> {
        match (self.step, &entry.session) {
            (Step::Confirm, own) if *own == self.session => {
                self.step = Step::Acquire;
                Answer::Held { token: entry.lock_index, until: self.renewed + self.lasts }
            }
            (_, Some(_)) => self.go_on_with(Step::Look(entry.modify_index)),
            (_, None) => self.go_on_with(Step::Acquire),
        }
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::study::Operation;

    use super::*;

    fn asked(lock: &mut ClientLock, step: LockStep) -> String {
        let request = crate::replay::request(Operation::Lock, b"bakeoff/k", b"v");
        lock.target(&Request { lock: step, ..request })
    }

    fn acquires(lock: &mut ClientLock) -> String {
        asked(lock, LockStep::Acquire)
    }

    #[track_caller]
    fn goes_on(lock: &mut ClientLock, status: u16, body: &str) {
        assert!(matches!(lock.read(status, body.as_bytes()), Answer::Again), "{body}");
    }

    #[test]
    fn refused_client_waits_until_no_session_holds_the_key() {
        let mut lock = ClientLock::new(60, true);
        assert_eq!(acquires(&mut lock), "PUT /v1/session/create");
        goes_on(&mut lock, 200, "{\"ID\":\"s1\"}");
        assert_eq!(acquires(&mut lock), "PUT /v1/kv/bakeoff/locks/1?acquire=s1");
        goes_on(&mut lock, 200, "false\n");
        assert_eq!(acquires(&mut lock), "GET /v1/kv/bakeoff/locks/1?consistent");
        goes_on(&mut lock, 200, "[{\"LockIndex\":4,\"ModifyIndex\":90,\"Session\":\"s2\"}]");
        assert_eq!(acquires(&mut lock), "GET /v1/kv/bakeoff/locks/1?index=90&wait=15s");
        goes_on(&mut lock, 200, "[{\"LockIndex\":4,\"ModifyIndex\":91}]");
        assert_eq!(acquires(&mut lock), "PUT /v1/kv/bakeoff/locks/1?acquire=s1");
        goes_on(&mut lock, 200, "true");
        assert_eq!(acquires(&mut lock), "GET /v1/kv/bakeoff/locks/1?consistent");
        let held = lock.read(200, b"[{\"LockIndex\":5,\"ModifyIndex\":92,\"Session\":\"s1\"}]");
        assert!(matches!(held, Answer::Held { token: 5, .. }));
        assert_eq!(asked(&mut lock, LockStep::Write), "PUT /v1/txn");
        assert!(matches!(lock.read(409, b""), Answer::NotHeld { at_grant: false }));
        assert_eq!(asked(&mut lock, LockStep::Release), "PUT /v1/kv/bakeoff/locks/1?release=s1");
        assert!(matches!(lock.read(200, b"true"), Answer::Done));
        assert_eq!(acquires(&mut lock), "PUT /v1/kv/bakeoff/locks/1?acquire=s1");
    }

    #[test]
    fn client_whose_session_has_ended_creates_another() {
        let mut lock = ClientLock::new(60, true);
        acquires(&mut lock);
        goes_on(&mut lock, 200, "{\"ID\":\"s1\"}");
        acquires(&mut lock);
        goes_on(&mut lock, 500, "invalid session \"s1\"");
        assert_eq!(acquires(&mut lock), "PUT /v1/session/create");
        assert!(matches!(lock.read(500, b"No cluster leader"), Answer::Failed(..)));
    }
}
