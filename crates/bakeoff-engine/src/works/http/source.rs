//! Defines the source of a load's requests and the receiver of its answers.
//!
//! Fixed requests, a study's, a script's and vault-benchmark's templates share all other code: connections,
//! redirects, counting (`http_work`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::http1::Response;
use bakeoff_wire::http2;

use super::url::UrlError;
use crate::work::{Failure, IdleClose, NotIssued, OperationTiming};

/// Explains why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// This source follows no redirects.
    #[error("redirects are not followed")]
    NotFollowed,
    /// More than this many redirects in a row.
    #[error("more than {0} redirects")]
    TooMany(u8),
    /// The server closes the connection that the next request would need.
    #[error("a redirect on a connection that ends")]
    ConnectionEnds,
    /// The `Location` is not UTF-8.
    #[error("a location that is not UTF-8")]
    NotUtf8,
    /// The `Location` is not a URL.
    #[error("a location that is not a URL: {0}")]
    NoUrl(#[source] UrlError),
    /// The redirect leads to another server, given as scheme and authority.
    #[error("a redirect to another server, `{0}`")]
    Elsewhere(String),
    /// The `Location` contains characters that a request cannot.
    #[error("a location that cannot be sent")]
    Unsendable,
}

/// Describes appended requests, which are whole HTTP/1.1 messages.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Index of the load's operation.
    pub operation: usize,
    /// Number of responses due: more than one for pipelined requests, never 0.
    pub responses: u32,
    /// True if the responses have no bodies.
    pub is_head: bool,
    /// Rule for requests whose connection the server closes before it answers.
    pub idle_close: IdleClose,
}

/// Header fields of an HTTP/2 request: pseudo-headers first, names in lower case.
pub type HeaderList = Vec<(String, String)>;

/// Holds header fields in one buffer.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnFields<'a> {
    /// Names, each followed by its value.
    pub bytes: &'a [u8],
    /// End of each name and end of its value in `bytes`.
    pub ends: &'a [(usize, usize)],
}

impl<'a> OwnFields<'a> {
    /// Returns names and values.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.ends.iter().scan(0, move |begin, &(name, value)| {
            let field = (&self.bytes[*begin..name], &self.bytes[name..value]);
            *begin = value;
            Some(field)
        })
    }
}

/// Holds the parts of an HTTP/2 request beyond its operation's header list.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    /// Index of the load's operation.
    pub operation: usize,
    /// Path, if the operation's header list has none.
    pub path: Option<&'a [u8]>,
    /// Additional header fields.
    pub fields: OwnFields<'a>,
    /// Body; empty for none.
    pub body: &'a [u8],
    /// Rule for the request if the server closes the connection before it answers.
    pub idle_close: IdleClose,
}

/// Holds the body of a response.
#[derive(Debug, Clone, Copy, Default)]
pub struct Body<'a> {
    /// Body; only its beginning if the source [reads no bodies](JudgeResponses::reads_bodies).
    pub bytes: &'a [u8],
    /// Length of the whole body in bytes.
    pub length: usize,
}

/// Holds the verdict on a response.
pub enum ResponseVerdict {
    /// Expected response.
    Success,
    /// Unexpected response.
    Failure(Failure),
    /// Redirect that must be followed.
    Redirect,
}

impl From<Result<(), Failure>> for ResponseVerdict {
    #[inline]
    fn from(judged: Result<(), Failure>) -> Self {
        match judged {
            Ok(()) => Self::Success,
            Err(failure) => Self::Failure(failure),
        }
    }
}

/// Judges status and body of an HTTP/1.1 response.
#[inline]
pub(super) fn judge_response<S: JudgeResponses + ?Sized>(
    source: &mut S,
    operation: usize,
    response: &Response<'_>,
) -> ResponseVerdict {
    let body = Body { bytes: response.body, length: response.length };
    let judged = source.judge(operation, response.status, body);
    let judged =
        judged.map_err(|failure| compressed(failure, response.headers.get("content-encoding")));
    judged.into()
}

/// Adds a hint if an unexpected body is compressed.
#[cold]
fn compressed(mut failure: Failure, coding: Option<&[u8]>) -> Failure {
    if failure.kind == ErrorKind::WrongValue
        && let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    {
        let coding = coding.escape_ascii();
        let hint = "`Accept-Encoding: identity` requests it uncompressed";
        failure.what = format!("the body is compressed ({coding}): {hint}; {}", failure.what);
    }
    failure
}

/// Makes one worker's requests and judges the responses.
pub trait Source: MakeRequests + JudgeResponses + Send {
    /// Returns the operation names; tables have one row each.
    fn operations(&self) -> Vec<String>;

    /// Returns the pause of `client`, of a closed load, before its next request.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        let _ = (client, now);
        Duration::ZERO
    }

    /// Returns the receiver of request times; `None` if the source does not need them.
    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        None
    }
}

/// Makes the requests of a [`Source`].
pub trait MakeRequests {
    /// Appends the next HTTP/1.1 request of `client`, which is connected to `node`, or several pipelined ones.
    fn request(
        &mut self,
        client: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued>;

    /// Returns the HTTP/2 header list of each operation for connections to `node`; `None` for an operation that is
    /// never sent there.
    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        let _ = node;
        Vec::new()
    }

    /// Makes the next HTTP/2 request of `client`, which is connected to `node`. Only called if there are [header
    /// lists](Self::header_lists).
    fn stream(&mut self, client: u32, node: usize, ticket: u64) -> Result<Stream<'_>, NotIssued> {
        let _ = (client, node, ticket);
        Err(NotIssued::Abort)
    }

    /// Returns which operation `ticket` would have been at `node`; `None` if no operations are left.
    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        let _ = (node, ticket);
        Some(0)
    }
}

/// Judges the responses to the requests of a [`Source`].
pub trait JudgeResponses {
    /// Returns true if it checks bodies beyond their beginning. Otherwise bodies are counted and dropped.
    fn reads_bodies(&self) -> bool;

    /// Judges status and body of a response.
    fn judge(&mut self, operation: usize, status: u16, body: Body<'_>) -> Result<(), Failure>;

    /// Judges a whole HTTP/1.1 response. Override it to check more than status and body.
    #[inline]
    fn response(&mut self, operation: usize, response: &Response<'_>) -> ResponseVerdict {
        judge_response(self, operation, response)
    }

    /// Judges a whole HTTP/2 response. Override it to check more than status and body.
    #[inline]
    fn stream_response(
        &mut self,
        operation: usize,
        response: &http2::Response<'_>,
    ) -> Result<(), Failure> {
        let body = Body { bytes: response.body, length: response.length };
        let judged = self.judge(operation, response.status, body);
        judged.map_err(|failure| compressed(failure, response.headers.get(b"content-encoding")))
    }

    /// Appends the next request of a redirect. Only called after [`ResponseVerdict::Redirect`]. Returns true for a HEAD
    /// request; the error says why the redirect is not followed.
    fn follow(
        &mut self,
        operation: usize,
        response: &Response<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, RedirectError> {
        let _ = (operation, response, out);
        Err(RedirectError::NotFollowed)
    }
}

/// Receives the times of a [`Source`]'s requests.
pub trait TimingSink {
    /// Begins the load: requests are due from `start`.
    fn begin(&mut self, start: Instant);

    /// Receives the times of an answered request of `operation`.
    fn answered(&mut self, operation: usize, moments: &OperationTiming);

    /// Ends the worker's load.
    fn ended(&mut self);
}
