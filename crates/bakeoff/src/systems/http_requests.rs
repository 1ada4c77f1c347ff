//! Plain HTTP requests as a load: what a workload's `request` says, and what must come back.
//!
//! For every system whose clients are browsers or services rather than its own client library. An
//! answer of another status, length or text than the workload expects is an error, never a success.
//! Every kind that has the operation `request` is prepared and driven by this, unless it does so
//! itself: one that tells requests apart by their sessions adds headers to each (`headers_of`).
//!
//! Not here: requests of a system's own API (`http_session`), `bakeoff load` (`bakeoff_engine::works::http`).

use std::sync::Arc;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::study::{HttpRequest, Operation, Workload};
use bakeoff_engine::EngineError;
use bakeoff_engine::works::keyed::{Answer, Request};

use super::http_session::{HttpSession, Mapping};
use super::{Access, KvLoad};
use crate::environment;

/// Where a request's own headers come from: appends header lines, each with its end.
pub(super) type HeadersOf = fn(&Request<'_>, &mut Vec<u8>);

/// A workload's requests, as one session asks them.
#[derive(Clone)]
pub(super) struct Requests {
    request: Arc<HttpRequest>,
    /// The path before, between and after each `{key}`.
    path: Arc<[String]>,
    headers: Arc<[u8]>,
    headers_of: HeadersOf,
}

impl Requests {
    /// The requests of a workload; an error names an environment variable that is not set.
    pub(super) fn of(workload: &Workload, headers_of: HeadersOf) -> Result<Self, String> {
        let request = &workload.request;
        let mut headers = Vec::new();
        for (name, value) in &request.headers {
            let value = environment::expanded(value)?;
            headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        Ok(Self {
            request: Arc::new(request.clone()),
            path: request.path.split("{key}").map(str::to_owned).collect(),
            headers: headers.into(),
            headers_of,
        })
    }
}

/// Has the nodes remember the requests of a workload, for [`drive`].
pub(super) fn prepare(
    first: &Access,
    workload: &Workload,
    headers_of: HeadersOf,
) -> Result<(), String> {
    first.memory.keep(Requests::of(workload, headers_of)?);
    Ok(())
}

/// Drives the requests that [`prepare`] was told of.
pub(super) fn drive(load: KvLoad<'_>) -> Result<(Measurement, u64), EngineError> {
    load.over(|node| {
        let requests =
            node.memory.get::<Requests>().expect("a load is prepared before it is driven");
        HttpSession::new(node, (*requests).clone())
    })
}

impl Mapping for Requests {
    fn write_target(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.request.method.as_bytes());
        out.push(b' ');
        for (place, part) in self.path.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(request.number.to_string().as_bytes());
            }
            out.extend_from_slice(part.as_bytes());
        }
    }

    fn write_headers(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.headers);
    }

    fn write_headers_of(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        (self.headers_of)(request, out);
    }

    fn write_body(&self, _: &Request<'_>, out: &mut Vec<u8>) -> bool {
        let Some(body) = &self.request.body else { return false };
        out.extend_from_slice(body.as_bytes());
        true
    }

    fn read(&self, operation: Operation, status: u16, body: &[u8], on: &mut dyn FnMut(Answer<'_>)) {
        on(match operation {
            Operation::Denied => denied(status, body),
            _ => answered(&self.request, status, body),
        });
    }
}

/// Whether an answer is what the workload expects.
fn answered(expected: &HttpRequest, status: u16, body: &[u8]) -> Answer<'static> {
    if status != expected.status {
        return Answer::Failed(ErrorKind::Status, super::http_status_text(status, body));
    }
    let size = body.len() as u64;
    if let Some(wanted) = expected.body_size.filter(|&wanted| wanted != size) {
        let what = format!("{status} with a body of {size} bytes, where {wanted} are right");
        return Answer::Failed(ErrorKind::WrongValue, what);
    }
    let holds = |text: &String| memchr::memmem::find(body, text.as_bytes()).is_some();
    if let Some(text) = expected.contains.as_ref().filter(|&text| !holds(text)) {
        let what = format!("{status} with a body that does not hold `{text}`");
        return Answer::Failed(ErrorKind::WrongValue, what);
    }
    Answer::Done
}

/// A refusal alone is right: 401 or 403.
fn denied(status: u16, body: &[u8]) -> Answer<'static> {
    match status {
        401 | 403 => Answer::Done,
        200..=299 => Answer::Failed(
            ErrorKind::WrongValue,
            format!("{status}: it passed, and had no right to"),
        ),
        _ => Answer::Failed(ErrorKind::Status, super::http_status_text(status, body)),
    }
}
