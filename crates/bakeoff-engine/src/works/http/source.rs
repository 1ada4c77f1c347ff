//! Where a load's requests come from, and where its answers go.
//!
//! Fixed requests, a study's, those that a script makes and those of vault-benchmark's templates share all
//! the rest: connections, redirects, counting (`driven`).

use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::http1::Response;
use bakeoff_wire::http2;

use super::url::UrlError;
use crate::work::{Failure, IdleClose, NotIssued, OperationTiming};

/// Reason why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// This source follows none.
    #[error("redirects are not followed")]
    NotFollowed,
    /// There were more than so many, one after the other.
    #[error("more than {0} redirects")]
    TooMany(u8),
    /// The server closes the connection, and the request that follows would need it.
    #[error("a redirect on a connection that ends")]
    ConnectionEnds,
    /// Its Location is not UTF-8.
    #[error("a location that is not UTF-8")]
    NotUtf8,
    /// Its Location is no URL.
    #[error("a location that is no URL: {0}")]
    NoUrl(#[source] UrlError),
    /// It leads to another server: scheme and authority.
    #[error("a redirect to another server, `{0}`")]
    Elsewhere(String),
    /// Its Location holds what a request cannot.
    #[error("a location that cannot be sent")]
    Unsendable,
}

/// Requests that were appended: whole HTTP/1.1 messages.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Which of the load's operations.
    pub operation: usize,
    /// How many responses are due: more than one for pipelined requests, never 0.
    pub responses: u32,
    /// Whether the responses have no bodies.
    pub is_head: bool,
    /// Tells what becomes of them if the server closes the connection before it answers.
    pub idle_close: IdleClose,
}

/// Header fields of an HTTP/2 request, pseudo-headers first, names in lower case.
pub type HeaderList = Vec<(String, String)>;

/// Header fields that were written one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnFields<'a> {
    /// Names, each followed by its value.
    pub bytes: &'a [u8],
    /// Where each name ends in `bytes`, and where its value does.
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

/// Parts of an HTTP/2 request beyond its operation's header list.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    /// Which of the load's operations.
    pub operation: usize,
    /// Its path, where the operation's header list has none.
    pub path: Option<&'a [u8]>,
    /// Header fields of its own.
    pub fields: OwnFields<'a>,
    /// Its body; empty for none.
    pub body: &'a [u8],
    /// Tells what becomes of it if the server closes the connection before it answers.
    pub idle_close: IdleClose,
}

/// The body of a response.
#[derive(Debug, Clone, Copy, Default)]
pub struct Body<'a> {
    /// The body; only its beginning if the source [reads no bodies](JudgeResponses::reads_bodies).
    pub bytes: &'a [u8],
    /// Bytes of the whole body.
    pub length: usize,
}

/// The verdict on a response.
pub enum Judged {
    /// It is what was expected.
    Success,
    /// It is not.
    Failure(Failure),
    /// It says where to go, and is to be followed.
    Redirect,
}

impl From<Result<(), Failure>> for Judged {
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
) -> Judged {
    let body = Body { bytes: response.body, length: response.length };
    let judged = source.judge(operation, response.status, body);
    let judged =
        judged.map_err(|failure| compressed(failure, response.headers.get("content-encoding")));
    judged.into()
}

/// Says so of a body that is not what was expected, and is compressed.
#[cold]
fn compressed(mut failure: Failure, coding: Option<&[u8]>) -> Failure {
    if failure.kind == ErrorKind::WrongValue
        && let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case(b"identity"))
    {
        let coding = coding.escape_ascii();
        let hint = "`Accept-Encoding: identity` asks for it as it is";
        failure.what = format!("the body is compressed ({coding}): {hint}; {}", failure.what);
    }
    failure
}

/// Where one worker's requests come from, and where its responses go.
pub trait Source: MakeRequests + JudgeResponses + Send {
    /// Returns the names of its operations; tables have one row each.
    fn operations(&self) -> Vec<String>;

    /// Returns how long `client` of a closed load waits before its next request.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        let _ = (client, now);
        Duration::ZERO
    }

    /// Returns what takes the moments of its requests; `None` if it needs none.
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        None
    }
}

/// Makes the requests of a [`Source`].
pub trait MakeRequests {
    /// Appends the next HTTP/1.1 request of `client`, which is connected to `node`, or several at once.
    fn request(
        &mut self,
        client: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, NotIssued>;

    /// Returns the header list of each operation over HTTP/2, for connections to `node`; `None` for one that is
    /// never asked there.
    fn header_lists(&self, node: usize) -> Vec<Option<HeaderList>> {
        let _ = node;
        Vec::new()
    }

    /// Makes the next HTTP/2 request of `client`, which is connected to `node`. Only called if there are
    /// [header lists](Self::header_lists).
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
    /// Returns true if it looks at bodies beyond their beginning. Those of other sources are counted and dropped.
    fn reads_bodies(&self) -> bool;

    /// Judges status and body of a response.
    fn judge(&mut self, operation: usize, status: u16, body: Body<'_>) -> Result<(), Failure>;

    /// Judges a whole HTTP/1.1 response, for a source that looks at more than status and body.
    #[inline]
    fn response(&mut self, operation: usize, response: &Response<'_>) -> Judged {
        judge_response(self, operation, response)
    }

    /// Judges a whole HTTP/2 response, for a source that looks at more than status and body.
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

    /// Appends the request that follows a redirect. Only called if [`Self::response`] finds one.
    /// Returns whether it is a HEAD request; an error says why the redirect cannot be followed.
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

/// Takes the moments of a [`Source`]'s requests.
pub trait Timed {
    /// Begins the load: requests are due from `start` on.
    fn begin(&mut self, start: Instant);

    /// Takes the moments of an answered request of `operation`.
    fn answered(&mut self, operation: usize, moments: &OperationTiming);

    /// Ends the worker's load.
    fn ended(&mut self);
}
