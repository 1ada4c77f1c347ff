//! Implements unary, server-streaming and standing gRPC calls over one HTTP/2 connection.
//!
//! Source: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
//!
//! Not here: streams of requests that the client ends, compression (none is offered, so a compressed answer is an error), deadlines (the
//! owner of the clock cancels), retries, the messages themselves (`protobuf`).

mod stream;

use std::borrow::Cow;
use std::fmt;

use self::stream::MessageCollector;
use crate::http2::{self, Connection, Event, GoAway, Headers, HeadersId, Response, StreamId};
use crate::{Busy, ProtocolError};

/// Names status codes of gRPC, <https://github.com/grpc/grpc/blob/master/doc/statuscodes.md>.
pub mod code {
    /// Success; never in a [`Status`](super::Status).
    pub const OK: u32 = 0;
    /// The caller cancelled the call, or the stream was reset with CANCEL.
    pub const CANCELLED: u32 = 1;
    /// Unknown error, or no status at all.
    pub const UNKNOWN: u32 = 2;
    /// The caller has no permission.
    pub const PERMISSION_DENIED: u32 = 7;
    /// A quota or another resource is exhausted.
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    /// The method does not exist.
    pub const UNIMPLEMENTED: u32 = 12;
    /// The server or the transport had an internal error.
    pub const INTERNAL: u32 = 13;
    /// The service is unavailable; a retry may help.
    pub const UNAVAILABLE: u32 = 14;
    /// Valid credentials are missing.
    pub const UNAUTHENTICATED: u32 = 16;

    /// Names by code.
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];

    /// Returns the name of a code; `None` for a code that is not defined.
    pub fn name(code: u32) -> Option<&'static str> {
        NAMES.get(code as usize).copied()
    }
}

/// Identifies a method of [`Client::method`], valid for that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MethodId(HeadersId);

/// Identifies a call in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(StreamId);

impl CallId {
    /// Returns a small number that is unique among the client's calls in flight: an index into a table of
    /// [`Client::slots`] elements.
    pub fn slot(self, slots: usize) -> usize {
        self.0.slot(slots)
    }

    /// Returns the stream number in the protocol. Numbers are never reused.
    pub fn number(self) -> u32 {
        self.0.number()
    }
}

/// Describes the failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status<'a> {
    /// One of [`code`], never [`code::OK`].
    pub code: u32,
    /// Message of the server, percent-decoded, or our own if the server sent no status.
    pub message: Cow<'a, str>,
    /// True if the server certainly did not process the call (RFC 9113 section 8.7).
    pub is_unprocessed: bool,
}

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match code::name(self.code) {
            Some(name) => write!(f, "gRPC {name}")?,
            None => write!(f, "gRPC status {}", self.code)?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// Answer to a unary call: its message, or the failure.
pub type UnaryResult<'a> = Result<&'a [u8], Status<'a>>;

/// Holds a part of the answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallReply<'a> {
    /// A unary call has ended.
    Answer(UnaryResult<'a>),
    /// Message of a streaming call, which continues.
    Message(&'a [u8]),
    /// A streaming call has ended, with success or a failure.
    Ended(Result<(), Status<'a>>),
}

/// Makes calls over one connection.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    /// Streaming calls in flight.
    streaming: Vec<MessageCollector>,
    message_max: usize,
    authority: String,
    scheme: &'static str,
    metadata: Vec<(String, String)>,
}

impl Client {
    /// Creates a client with the default limits of [`http2::Settings`]. `authority` is host and port. `metadata` is
    /// sent with each call; its names must be in lower case.
    pub fn new(authority: &str, scheme_is_tls: bool, metadata: &[(&str, &str)]) -> Self {
        Self::with_settings(authority, scheme_is_tls, metadata, http2::Settings::default())
    }

    /// Creates a client with other limits.
    pub fn with_settings(
        authority: &str,
        scheme_is_tls: bool,
        metadata: &[(&str, &str)],
        settings: http2::Settings,
    ) -> Self {
        Self {
            streaming: Vec::new(),
            message_max: settings.max_body,
            connection: Connection::new(settings),
            authority: authority.to_owned(),
            scheme: if scheme_is_tls { "https" } else { "http" },
            metadata: metadata.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
        }
    }

    /// Writes the connection preface. Calls may follow without waiting for an answer.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        self.connection.open(out);
    }

    /// Prepares calls of the method at `path`, such as `/etcdserverpb.KV/Put`.
    pub fn method(&mut self, path: &str) -> MethodId {
        let mut headers = vec![
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", path),
            (":authority", self.authority.as_str()),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", concat!("bakeoff/", env!("CARGO_PKG_VERSION"))),
        ];
        headers.extend(self.metadata.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        MethodId(self.connection.prepare(&headers))
    }

    /// Returns how many more calls can be made now.
    pub fn capacity(&self) -> usize {
        self.connection.capacity()
    }

    /// Returns true once the server has announced its limit on concurrent calls.
    pub fn is_settled(&self) -> bool {
        self.connection.is_settled()
    }

    /// Returns the number of calls in flight.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// Returns the number of different values of [`CallId::slot`].
    pub fn slots(&self) -> usize {
        self.connection.slots()
    }

    /// Writes a call.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Client::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `method` belongs to another client, or `message` has 4 GiB or more.
    pub fn call(
        &mut self,
        method: MethodId,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        self.connection.request(method.0, &[&prefix(message), message], out).map(CallId)
    }

    /// Writes a call whose answer is a stream of messages, until the server ends it or [`Client::cancel`] is called.
    /// Read them with [`Client::receive_replies`].
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Client::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `method` belongs to another client, or `message` has 4 GiB or more.
    pub fn call_streaming(
        &mut self,
        method: MethodId,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        let call = self.call(method, message, out)?;
        self.connection.in_pieces(call.0);
        self.streaming.push(MessageCollector::new(call.0, self.message_max));
        Ok(call)
    }

    /// Writes a call that takes further requests by [`Client::send`], and whose answer is a stream of messages.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Client::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `method` belongs to another client, or `message` has 4 GiB or more.
    pub fn call_standing(
        &mut self,
        method: MethodId,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        let prefix = prefix(message);
        let stream = self.connection.request_open(method.0, &[&prefix, message], out)?;
        self.connection.in_pieces(stream);
        self.streaming.push(MessageCollector::new(stream, self.message_max));
        Ok(CallId(stream))
    }

    /// Writes a further request of a standing call. Send one only after the answer to the last one.
    ///
    /// # Errors
    /// Returns [`Busy`] if the call has ended.
    ///
    /// # Panics
    /// Panics if `message` has 4 GiB or more.
    pub fn send(&mut self, call: CallId, message: &[u8], out: &mut Vec<u8>) -> Result<(), Busy> {
        self.connection.send_more(call.0, &[&prefix(message), message], out)
    }

    /// Cancels a call, for instance after a timeout. Nothing more is reported for it.
    pub fn cancel(&mut self, call: CallId, out: &mut Vec<u8>) {
        self.streaming.retain(|incoming| incoming.stream != call.0);
        self.connection.cancel(call.0, out);
    }

    /// Sends a PING; [`Client::pings_answered`] counts the answers.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.connection.ping(out);
    }

    /// Returns the number of answers to [`Client::ping`].
    pub fn pings_answered(&self) -> u64 {
        self.connection.pings_answered()
    }

    /// Returns the peer's GOAWAY, if it sent one: it accepts no further calls.
    pub fn going_away(&self) -> Option<&GoAway> {
        self.connection.going_away()
    }

    /// Consumes all of `input`, calls `on` for every unary call that ends, and writes protocol answers. Replies to
    /// streaming calls are dropped.
    ///
    /// # Errors
    /// Fails if the peer breaks the protocol. The connection is then unusable.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(CallId, UnaryResult<'_>),
    ) -> Result<(), ProtocolError> {
        self.receive_replies(input, out, &mut |call, reply| {
            if let CallReply::Answer(result) = reply {
                on(call, result);
            }
        })
    }

    /// Consumes all of `input` like [`Client::receive`], and also calls `on` for messages and ends of streaming
    /// calls.
    ///
    /// # Errors
    /// Fails if the peer breaks the protocol. The connection is then unusable.
    pub fn receive_replies(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(CallId, CallReply<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, streaming, .. } = self;
        connection.receive(input, out, &mut |stream, event| {
            let call = CallId(stream);
            let place = streaming.iter().position(|incoming| incoming.stream == stream);
            let result = match event {
                Event::Piece { status, content, stop } => {
                    // With another HTTP status the body is text, not a message.
                    if let Some(place) = place.filter(|_| status == 200)
                        && let Err(what) = streaming[place]
                            .take(content, &mut |message| on(call, CallReply::Message(message)))
                    {
                        *stop = true;
                        streaming.swap_remove(place);
                        on(call, CallReply::Ended(Err(failed(code::INTERNAL, what))));
                    }
                    return;
                }
                Event::Response(response) if place.is_none() => answer(&response),
                Event::Response(response) => ended(&response).map(|()| &[][..]),
                Event::Reset { code } => Err(reset(code)),
                Event::Malformed { what } => Err(failed(code::INTERNAL, what)),
            };
            let Some(place) = place else { return on(call, CallReply::Answer(result)) };
            let between_messages = streaming.swap_remove(place).is_between_messages();
            on(
                call,
                CallReply::Ended(match result {
                    Ok(_) if !between_messages => {
                        Err(failed(code::INTERNAL, "the call ended within a message"))
                    }
                    result => result.map(drop),
                }),
            );
        })
    }
}

/// Returns what precedes a message: a zero byte for "not compressed", and four bytes for the length.
fn prefix(message: &[u8]) -> [u8; 5] {
    let length = u32::try_from(message.len()).expect("a message below 4 GiB");
    let [a, b, c, d] = length.to_be_bytes();
    [0, a, b, c, d]
}

fn failed(code: u32, message: &str) -> Status<'_> {
    Status { code, message: Cow::Borrowed(message), is_unprocessed: false }
}

/// Returns true for the content type of gRPC messages in any encoding. gRPC-Web is another protocol.
pub fn is_content_type(value: &[u8]) -> bool {
    value
        .strip_prefix(b"application/grpc")
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Returns the status with which the server ended a call. The messages in the response's body are not read.
///
/// # Errors
/// Fails with the server's status, or with one of our own if it sent none.
pub fn ended<'a>(response: &Response<'a>) -> Result<(), Status<'a>> {
    // An answer without trailers has its status in the headers.
    let last = if response.trailers.is_empty() { response.headers } else { response.trailers };
    let Some(code) = last.get(b"grpc-status").filter(|_| response.status == 200) else {
        return Err(without_status(response.status));
    };
    if code != b"0" {
        return Err(status(code, last));
    }
    Ok(())
}

fn answer<'a>(response: &Response<'a>) -> UnaryResult<'a> {
    ended(response)?;
    let Some((&[compressed, a, b, c, d], message)) = response.body.split_first_chunk::<5>() else {
        return Err(failed(code::INTERNAL, "success without a message"));
    };
    if compressed != 0 {
        return Err(failed(code::INTERNAL, "a compressed message, which was not offered"));
    }
    if message.len() != u32::from_be_bytes([a, b, c, d]) as usize {
        return Err(failed(code::INTERNAL, "not exactly one whole message"));
    }
    Ok(message)
}

fn status<'a>(code: &[u8], fields: Headers<'a>) -> Status<'a> {
    let code = std::str::from_utf8(code).ok().and_then(|text| text.parse().ok());
    match code {
        // Success has only one valid encoding.
        Some(code) if code != code::OK => Status {
            code,
            message: percent_decoded(fields.get(b"grpc-message").unwrap_or_default()),
            is_unprocessed: false,
        },
        _ => failed(code::UNKNOWN, "a grpc-status that is not a code"),
    }
}

/// Maps an HTTP status: <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>
fn without_status(http_status: u16) -> Status<'static> {
    let code = match http_status {
        400 => code::INTERNAL,
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        404 => code::UNIMPLEMENTED,
        429 | 502 | 503 | 504 => code::UNAVAILABLE,
        _ => code::UNKNOWN,
    };
    let message = Cow::Owned(format!("HTTP status {http_status} and no grpc-status"));
    Status { code, message, is_unprocessed: false }
}

/// Maps codes of RST_STREAM by PROTOCOL-HTTP2.md, section Errors.
fn reset(http2_code: u32) -> Status<'static> {
    let code = match http2_code {
        http2::code::REFUSED_STREAM => code::UNAVAILABLE,
        http2::code::CANCEL => code::CANCELLED,
        http2::code::ENHANCE_YOUR_CALM => code::RESOURCE_EXHAUSTED,
        http2::code::INADEQUATE_SECURITY => code::PERMISSION_DENIED,
        _ => code::INTERNAL,
    };
    let message = Cow::Owned(format!("stream reset with HTTP/2 code {http2_code}"));
    Status { code, message, is_unprocessed: http2_code == http2::code::REFUSED_STREAM }
}

/// Decodes %XX. Invalid sequences stay unchanged, as PROTOCOL-HTTP2.md requires.
fn percent_decoded(text: &[u8]) -> Cow<'_, str> {
    if !text.contains(&b'%') {
        return String::from_utf8_lossy(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        rest = match after {
            [high, low, after @ ..] if *first == b'%' => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    after
                }
                _ => {
                    decoded.push(b'%');
                    rest.get(1..).unwrap_or_default()
                }
            },
            _ => {
                decoded.push(*first);
                after
            }
        };
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests;
