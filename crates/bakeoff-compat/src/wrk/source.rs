//! Produces a load thread's requests: constant bytes, or the script's.
//!
//! Every request may call into Lua. So undefined functions are not called, and unused parts of a response are not
//! built.
//!
//! Not here: the calls themselves (`script`), sockets and time (`engine`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::{Failure, IdleClose, NotIssued};
use bakeoff_engine::works::http::{
    Batch, Body, JudgeResponses, MakeRequests, Response, ResponseVerdict, Source,
};
use mlua::LuaString;

use super::pipeline;
use super::script::{ResponseParts, Script, ScriptError};
use super::userdata::ThreadState;

/// Pause of a client whose thread was stopped by the script: longer than any load.
const FOR_GOOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// Statuses that wrk does not count as errors.
const GOOD: std::ops::RangeInclusive<u16> = 200..=399;

/// Properties of thread 0's script, which apply to all threads, as in wrk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Requests per call of `request`.
    pub(super) pipeline: u32,
    /// True if `request` must be called for each batch.
    pub(super) dynamic: bool,
    pub(super) delays: bool,
    pub(super) responds: bool,
}

/// First error that stopped the load.
pub(super) type Fault = Arc<Mutex<Option<ScriptError>>>;

pub(super) struct LuaSource {
    script: Script,
    shape: Shape,
    /// Bytes to send if the script does not make each request.
    unchanging: Vec<u8>,
    wants: ResponseParts,
    thread: Arc<ThreadState>,
    /// True after a callback failed: no more requests are made.
    failed: bool,
    fault: Fault,
    /// Last batch that was checked. Lua keeps equal strings once, so a repeated batch has the same address.
    last_checked: Option<LuaString>,
    rests: HashMap<u32, Rest>,
}

/// Pause of a client after a batch. It begins with the batch's first answer.
struct Rest {
    until: Instant,
    /// Answers of the batch that are still outstanding.
    more: u32,
}

impl LuaSource {
    pub(super) fn new(
        script: Script,
        shape: Shape,
        thread: Arc<ThreadState>,
        fault: Fault,
    ) -> Result<Self, ScriptError> {
        let unchanging =
            if shape.dynamic { Vec::new() } else { script.request()?.as_bytes().to_vec() };
        Ok(Self {
            script,
            shape,
            unchanging,
            wants: ResponseParts::default(),
            thread,
            failed: false,
            fault,
            last_checked: None,
            rests: HashMap::new(),
        })
    }

    fn fail(&mut self, error: ScriptError) -> NotIssued {
        self.failed = true;
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(error);
        NotIssued::Abort
    }

    /// Checks that a batch is HTTP with the expected number of requests.
    fn check_batch(&mut self, text: &LuaString, bytes: &[u8]) -> Result<(), ScriptError> {
        if self.shape.pipeline == 1 {
            if begins_a_request(bytes) {
                return Ok(());
            }
            if bytes.is_empty() {
                return Err(self.script.refuse("it returned an empty string"));
            }
            let seen: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            return Err(self.script.refuse(&format!("it returned no HTTP request but {seen:?}")));
        }
        let same = |before: &LuaString| before.to_pointer() == text.to_pointer();
        if self.last_checked.as_ref().is_some_and(same) {
            return Ok(());
        }
        let count =
            pipeline::count(bytes).map_err(|broken| self.script.refuse(&broken.to_string()))?;
        if count != self.shape.pipeline {
            return Err(self.script.refuse(&format!(
                "it returned {count} requests at once, but {} the first time",
                self.shape.pipeline
            )));
        }
        self.last_checked = Some(text.clone());
        Ok(())
    }
}

impl MakeRequests for LuaSource {
    fn request(&mut self, _: u32, _: usize, _: u64, out: &mut Vec<u8>) -> Result<Batch, NotIssued> {
        let responses = self.shape.pipeline;
        if !self.shape.dynamic && !self.failed && !self.thread.is_stopped() {
            out.extend_from_slice(&self.unchanging);
            return Ok(batch(responses, &self.unchanging));
        }
        if self.failed || self.thread.is_stopped() {
            return Err(NotIssued::Abort);
        }
        let text = match self.script.request() {
            Ok(text) => text,
            Err(error) => return Err(self.fail(error)),
        };
        let bytes = text.as_bytes();
        if let Err(error) = self.check_batch(&text, &bytes) {
            return Err(self.fail(error));
        }
        out.extend_from_slice(&bytes);
        Ok(batch(responses, &bytes))
    }
}

impl JudgeResponses for LuaSource {
    /// Bodies must be read, because a script decides only after its first answer whether it uses them.
    fn reads_bodies(&self) -> bool {
        self.shape.responds
    }

    fn judge(&mut self, _: usize, status: u16, _: Body<'_>) -> Result<(), Failure> {
        if GOOD.contains(&status) {
            return Ok(());
        }
        Err(Failure::new(ErrorKind::Status, format!("status {status}")))
    }

    fn response(&mut self, operation: usize, response: &Response<'_>) -> ResponseVerdict {
        if self.shape.responds && !self.failed {
            let called = self.script.response(response, self.wants).and_then(|is_new| {
                if is_new {
                    self.wants = self.script.wants()?;
                    self.script.response(response, self.wants)?;
                }
                Ok(())
            });
            if let Err(error) = called {
                self.fail(error);
            }
        }
        self.judge(operation, response.status, Body::default()).into()
    }
}

impl Source for LuaSource {
    fn operations(&self) -> Vec<String> {
        vec!["request".to_owned()]
    }

    /// Called for each answer, and at the start for each that could be in flight. All answers of a batch end their
    /// pause at the same time, so that the next batch is sent as one.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        if self.thread.is_stopped() {
            return FOR_GOOD;
        }
        if !self.shape.delays || self.failed {
            return Duration::ZERO;
        }
        if let Some(rest) = self.rests.get_mut(&client).filter(|rest| rest.more > 0) {
            rest.more -= 1;
            return rest.until.saturating_duration_since(now);
        }
        match self.script.delay() {
            Ok(delay) => {
                let delay = delay.min(FOR_GOOD);
                let rest = Rest { until: now + delay, more: self.shape.pipeline - 1 };
                self.rests.insert(client, rest);
                delay
            }
            Err(error) => {
                self.fail(error);
                Duration::ZERO
            }
        }
    }
}

/// Returns true if the first line is a request line. Quick, because it runs for each batch.
fn begins_a_request(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\r') else { return false };
    let line = &bytes[..end];
    line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0")
}

/// Describes appended requests. wrk repeats none: a closed connection is a read error.
fn batch(responses: u32, bytes: &[u8]) -> Batch {
    let is_head = bytes.starts_with(b"HEAD ");
    Batch { operation: 0, responses, is_head, idle_close: IdleClose::Broken }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_broken_request_at_once() {
        assert!(begins_a_request(b"GET / HTTP/1.1\r\n\r\n"));
        assert!(begins_a_request(b"PURGE /x HTTP/1.0\r\nHost: h\r\n\r\n"));
        for text in ["hello", "GET /\r\n\r\n", "\r\n", "GET / HTTP/1.1\n\n"] {
            assert!(!begins_a_request(text.as_bytes()), "{text}");
        }
    }
}
