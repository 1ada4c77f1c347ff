//! Where a load thread's requests come from: bytes that never change, or the script.
//!
//! A call into Lua is on the path of every request, so what a script does not define is not called,
//! and what its `response` does not take is not made.
//!
//! Not here: the calls themselves (`script`), sockets and time (`engine`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::{Failure, IdleClose, NotIssued};
use bakeoff_engine::works::http::{
    Batch, Body, JudgeResponses, Judged, MakeRequests, Response, Source,
};
use mlua::LuaString;

use super::pipeline;
use super::script::{Script, ScriptError, Wants};
use super::userdata::ThreadState;

/// How long a client rests whose thread the script has stopped: past the end of any load.
const FOR_GOOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// The statuses that wrk does not count as errors.
const GOOD: std::ops::RangeInclusive<u16> = 200..=399;

/// Describes thread 0's script; all threads are treated alike, as in wrk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Requests in what `request` returns.
    pub(super) pipeline: u32,
    /// `request` is to be called for each.
    pub(super) dynamic: bool,
    pub(super) delays: bool,
    pub(super) responds: bool,
}

/// Why the load was given up, by the first thread that had to.
pub(super) type Fault = Arc<Mutex<Option<ScriptError>>>;

/// One thread's requests.
pub(super) struct LuaSource {
    script: Script,
    shape: Shape,
    /// Bytes that are sent when the script makes no requests of its own.
    unchanging: Vec<u8>,
    wants: Wants,
    thread: Arc<ThreadState>,
    /// A callback failed: no more requests are made.
    failed: bool,
    fault: Fault,
    /// The batch that was looked at last: Lua keeps equal strings in one place, so that one which
    /// is sent again is known by its address.
    looked_at: Option<LuaString>,
    rests: HashMap<u32, Rest>,
}

/// A client's rest after a batch; it begins with the batch's first answer.
struct Rest {
    until: Instant,
    /// Answers of the batch that are still to come.
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
            wants: Wants::default(),
            thread,
            failed: false,
            fault,
            looked_at: None,
            rests: HashMap::new(),
        })
    }

    fn fail(&mut self, error: ScriptError) -> NotIssued {
        self.failed = true;
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(error);
        NotIssued::Abort
    }

    /// Sees that a batch is what the load counts on.
    fn look(&mut self, text: &LuaString, bytes: &[u8]) -> Result<(), ScriptError> {
        if self.shape.pipeline == 1 {
            if begins_a_request(bytes) {
                return Ok(());
            }
            if bytes.is_empty() {
                return Err(self.script.refuse("it returned an empty string"));
            }
            let seen: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            return Err(self.script.refuse(&format!("it returned what is no request, {seen:?}")));
        }
        let same = |before: &LuaString| before.to_pointer() == text.to_pointer();
        if self.looked_at.as_ref().is_some_and(same) {
            return Ok(());
        }
        let count =
            pipeline::count(bytes).map_err(|broken| self.script.refuse(&broken.to_string()))?;
        if count != self.shape.pipeline {
            return Err(self.script.refuse(&format!(
                "it returned {count} requests at once, and {} the first time",
                self.shape.pipeline
            )));
        }
        self.looked_at = Some(text.clone());
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
        if let Err(error) = self.look(&text, &bytes) {
            return Err(self.fail(error));
        }
        out.extend_from_slice(&bytes);
        Ok(batch(responses, &bytes))
    }
}

impl JudgeResponses for LuaSource {
    /// A script says only after its first answer whether it looks at bodies.
    fn reads_bodies(&self) -> bool {
        self.shape.responds
    }

    fn judge(&mut self, _: usize, status: u16, _: Body<'_>) -> Result<(), Failure> {
        if GOOD.contains(&status) {
            return Ok(());
        }
        Err(Failure::new(ErrorKind::Status, format!("status {status}")))
    }

    fn response(&mut self, operation: usize, response: &Response<'_>) -> Judged {
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

    /// Called for each answer, and in the beginning for each that could be under way: all of a
    /// batch get the same end of their rest, so that the next batch goes out as one.
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

/// Returns whether the first line is a request's: a quick look, taken at each.
fn begins_a_request(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\r') else { return false };
    let line = &bytes[..end];
    line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0")
}

/// Describes requests that were appended. wrk sends none twice: a connection that is closed is a read error.
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
