//! Makes single calls outside of the load: sign-in, status, hash, compaction.
//!
//! Each call runs on the engine's own loop with a connection of its own, so it has the load's TLS, timeouts and errors.
//!
//! Not here: the load (`run`), messages (`bakeoff_wire::etcd`).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::secrets;
use bakeoff_engine::work::{Failure, NotIssued, Success};
use bakeoff_engine::works::grpc::{
    Call, CallReply, CallSlot, CallSource, CallTargets, FirstCall, NextStep, drive_calls,
};
use bakeoff_engine::{Drive, LoadError};
use bakeoff_wire::etcd::{self, CompactionAnswer, Member, MemberStatus};

use super::calls::status_text;

/// Makes one call.
struct OneCall {
    method: &'static [&'static str; 1],
    request: Vec<u8>,
    answer: Arc<Mutex<Option<Answer>>>,
}

/// Message of an answer, or the failure in words.
type Answer = Result<Vec<u8>, String>;

impl CallSource for OneCall {
    fn operations(&self) -> Vec<String> {
        vec![self.method[0].to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        self.method
    }

    fn begin(
        &mut self,
        _: CallSlot,
        _: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        message.extend_from_slice(&self.request);
        Ok(FirstCall { operation: 0, call: Call::unary(0) })
    }

    fn reply(&mut self, _: CallSlot, reply: CallReply<'_>, _: &mut Vec<u8>) -> NextStep {
        let answer = match reply {
            CallReply::Answer(Ok(message)) => Ok(message.to_vec()),
            CallReply::Answer(Err(status)) => Err(status_text(&status)),
            CallReply::Message(_) | CallReply::Ended(_) => {
                Err("a stream, not an answer".to_owned())
            }
        };
        let result = answer.clone().map(|_| Success::default());
        // No code panics while it holds the lock.
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        NextStep::End(result.map_err(|what| Failure::new(ErrorKind::Status, what)))
    }
}

/// Makes calls to one server.
pub(super) struct Control<'a> {
    targets: CallTargets,
    timeout: Duration,
    interrupted: &'a AtomicBool,
}

impl<'a> Control<'a> {
    /// Makes calls to server number `server` of `targets`. Each waits up to `timeout`.
    pub(super) fn new(
        targets: &CallTargets,
        server: usize,
        timeout: Duration,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let targets = CallTargets {
            peers: targets.peers[server..=server].to_vec(),
            authorities: targets.authorities[server..=server].to_vec(),
            slots: None,
            ..targets.clone()
        };
        Self { targets, timeout, interrupted }
    }

    fn authority(&self) -> &str {
        &self.targets.authorities[0]
    }

    /// Makes one call and returns its answer.
    ///
    /// # Errors
    /// Fails if the server does not answer in time, or refuses.
    fn call(
        &self,
        method: &'static [&'static str; 1],
        request: Vec<u8>,
    ) -> Result<Vec<u8>, LoadError> {
        let answer = Arc::default();
        let source = &mut |_| -> Box<dyn CallSource> {
            Box::new(OneCall { method, request: request.clone(), answer: Arc::clone(&answer) })
        };
        let drive = Drive::once(1, 1, 1, self.timeout);
        let driven = drive_calls(&self.targets, &drive, source, self.interrupted, &mut |_| {})?;
        let name = method[0].rsplit('/').next().unwrap_or_default();
        let at = |what: &str| {
            let what = secrets::masked(what);
            LoadError::Unreachable(format!("{name} at `{}`: {what}", self.authority()))
        };
        match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(answer) => answer.map_err(|what| at(&what)),
            None => {
                let mut examples = driven.0.error_examples();
                Err(at(examples.next().map_or("no answer", |(_, example)| &example.what)))
            }
        }
    }

    fn unreadable(&self, error: &bakeoff_wire::ProtocolError) -> LoadError {
        LoadError::Unreachable(format!(
            "the answer of `{}` is unreadable: {error}",
            self.authority()
        ))
    }

    /// Exchanges a name and a password for a token.
    pub(super) fn token(&self, user: &str, password: &str) -> Result<String, LoadError> {
        let mut request = Vec::new();
        etcd::write_authenticate(user, password, &mut request);
        let answer = self.call(&[etcd::AUTHENTICATE], request)?;
        etcd::read_token(&answer).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn status(&self) -> Result<MemberStatus, LoadError> {
        let answer = self.call(&[etcd::STATUS], Vec::new())?;
        etcd::read_status(&answer).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn members(&self) -> Result<Vec<Member>, LoadError> {
        let answer = self.call(&[etcd::MEMBER_LIST], Vec::new())?;
        etcd::read_members(&answer).map_err(|error| self.unreadable(&error))
    }

    /// Returns the hash of all keys at a revision, and the node's revision. Revision 0 is the newest.
    pub(super) fn hash(&self, revision: u64) -> Result<(u32, u64), LoadError> {
        let mut request = Vec::new();
        bakeoff_wire::protobuf::put_uint(&mut request, 1, revision);
        let answer = self.call(&[etcd::HASH_KV], request)?;
        let read =
            etcd::read_hash(&answer).and_then(|hash| Ok((hash, etcd::read_revision(&answer)?)));
        read.map_err(|error| self.unreadable(&error))
    }

    /// Writes a key, and returns the revision.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, LoadError> {
        let mut request = Vec::new();
        etcd::write_put(key, value, &mut request);
        let answer = self.call(&[etcd::PUT], request)?;
        etcd::read_revision(&answer).map_err(|error| self.unreadable(&error))
    }

    /// Removes the history except for the newest `keeps` revisions. Returns the first revision that stays, or `None` if
    /// there are no more.
    pub(super) fn compact(&self, keeps: u64) -> Result<Option<u64>, LoadError> {
        let mut request = Vec::new();
        etcd::write_get(b"foo", false, &mut request);
        let answer = self.call(&[etcd::RANGE], request)?;
        let newest = etcd::read_revision(&answer).map_err(|error| self.unreadable(&error))?;
        let Some(revision) = newest.checked_sub(keeps).filter(|revision| *revision > 0) else {
            return Ok(None);
        };
        let mut request = Vec::new();
        etcd::write_compact(revision, CompactionAnswer::Decided, &mut request);
        self.call(&[etcd::COMPACT], request)?;
        Ok(Some(revision))
    }
}
