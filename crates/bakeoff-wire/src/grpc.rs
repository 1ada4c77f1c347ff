//! Unary and server-streaming gRPC calls over one HTTP/2 connection.
//!
//! Source: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
//!
//! Not here: calls whose client streams, too, compression (none is offered, so a compressed answer is an error),
//! deadlines (whoever owns the clock cancels), retries, and the messages themselves (`protobuf`).

mod stream;

use std::borrow::Cow;
use std::fmt;

use self::stream::Incoming;
use crate::http2::{self, Connection, Event, GoAway, Headers, HeadersId, Response, StreamId};
use crate::{Busy, ProtocolError};

/// Status codes of gRPC, <https://github.com/grpc/grpc/blob/master/doc/statuscodes.md>.
pub mod code {
    /// Success; never in a [`Status`](super::Status).
    pub const OK: u32 = 0;
    /// Given up by the caller, or reset as if it were.
    pub const CANCELLED: u32 = 1;
    /// Something else, or no status at all.
    pub const UNKNOWN: u32 = 2;
    /// The request makes no sense.
    pub const INVALID_ARGUMENT: u32 = 3;
    /// Too late.
    pub const DEADLINE_EXCEEDED: u32 = 4;
    /// Not there.
    pub const NOT_FOUND: u32 = 5;
    /// There already.
    pub const ALREADY_EXISTS: u32 = 6;
    /// Not allowed.
    pub const PERMISSION_DENIED: u32 = 7;
    /// A quota or a limit is exhausted.
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    /// The system is not in a state for this.
    pub const FAILED_PRECONDITION: u32 = 9;
    /// Lost against another one.
    pub const ABORTED: u32 = 10;
    /// Outside of what is valid.
    pub const OUT_OF_RANGE: u32 = 11;
    /// No such method.
    pub const UNIMPLEMENTED: u32 = 12;
    /// The server or the transport is broken.
    pub const INTERNAL: u32 = 13;
    /// Not now; trying again may help.
    pub const UNAVAILABLE: u32 = 14;
    /// Data is lost.
    pub const DATA_LOSS: u32 = 15;
    /// No valid credentials.
    pub const UNAUTHENTICATED: u32 = 16;
}

/// A method prepared by [`Client::method`], valid for that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MethodId(HeadersId);

/// One call in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(StreamId);

impl CallId {
    /// A small number that no other call in flight of the client has: an index into a table of
    /// [`Client::slots`] elements.
    pub fn slot(self, slots: usize) -> usize {
        self.0.slot(slots)
    }

    /// The stream's number in the protocol, which never comes again.
    pub fn number(self) -> u32 {
        self.0.number()
    }
}

/// The failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status<'a> {
    /// One of [`code`], never [`code::OK`].
    pub code: u32,
    /// The server's words, percent-decoded; or ours, when the server gave no status.
    pub message: Cow<'a, str>,
    /// True if the server has certainly not processed the call (RFC 9113 section 8.7).
    pub is_unprocessed: bool,
}

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc status {}: {}", self.code, self.message)
    }
}

/// The message that answers a unary call, or why there is none.
pub type Answered<'a> = Result<&'a [u8], Status<'a>>;

/// Part of the answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallReply<'a> {
    /// A unary call is over.
    Answer(Answered<'a>),
    /// A message of a streaming call, which goes on.
    Message(&'a [u8]),
    /// A streaming call is over: the server has said all, or why it will not.
    Ended(Result<(), Status<'a>>),
}

/// One connection for calls.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    /// Streaming calls in flight.
    streaming: Vec<Incoming>,
    message_max: usize,
    authority: String,
    scheme: &'static str,
    metadata: Vec<(String, String)>,
}

impl Client {
    /// A client with the limits of [`http2::Settings`]'s default. `authority` is host and port,
    /// `metadata` goes with each call (names in lower case).
    pub fn new(authority: &str, scheme_is_tls: bool, metadata: &[(&str, &str)]) -> Self {
        Self::with_settings(authority, scheme_is_tls, metadata, http2::Settings::default())
    }

    /// Like [`Client::new`], with other limits.
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

    /// Writes what a client says first. Calls may follow without waiting for an answer.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        self.connection.open(out);
    }

    /// Prepares calls of the method at `path`, for instance `/etcdserverpb.KV/Put`.
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

    /// Returns true if the server has said how many calls it takes at once.
    pub fn is_settled(&self) -> bool {
        self.connection.is_settled()
    }

    /// Returns how many calls are in flight.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// Returns how many different values [`CallId::slot`] has.
    pub fn slots(&self) -> usize {
        self.connection.slots()
    }

    /// Writes a call.
    ///
    /// # Errors
    /// [`Busy`] when [`Client::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// When `method` is not of this client, or `message` has 4 GiB or more.
    pub fn call(
        &mut self,
        method: MethodId,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        // One byte says that it is not compressed, four how long it is.
        let length = u32::try_from(message.len()).expect("a message below 4 GiB");
        let [a, b, c, d] = length.to_be_bytes();
        self.connection.request(method.0, &[&[0, a, b, c, d], message], out).map(CallId)
    }

    /// Writes a call that the server answers with as many messages as it likes, until it ends or is
    /// given up. They come with [`Client::receive_replies`].
    ///
    /// # Errors
    /// [`Busy`] when [`Client::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// When `method` is not of this client, or `message` has 4 GiB or more.
    pub fn call_streaming(
        &mut self,
        method: MethodId,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<CallId, Busy> {
        let call = self.call(method, message, out)?;
        self.connection.in_pieces(call.0);
        self.streaming.push(Incoming::new(call.0, self.message_max));
        Ok(call)
    }

    /// Gives a call up, for instance after a timeout. Nothing will be reported for it.
    pub fn cancel(&mut self, call: CallId, out: &mut Vec<u8>) {
        self.streaming.retain(|incoming| incoming.stream != call.0);
        self.connection.cancel(call.0, out);
    }

    /// Asks the peer for a sign of life; [`Client::pings_answered`] counts the answers.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.connection.ping(out);
    }

    /// Returns how many answers to [`Client::ping`] have come.
    pub fn pings_answered(&self) -> u64 {
        self.connection.pings_answered()
    }

    /// The peer's GOAWAY, if it sent one: it takes no further calls.
    pub fn going_away(&self) -> Option<&GoAway> {
        self.connection.going_away()
    }

    /// Takes everything received, calls `on` for every unary call that ends with its answer or why
    /// there is none, and writes what the protocol wants answered. What streaming calls bring is dropped.
    ///
    /// # Errors
    /// When the peer breaks the protocol. The connection can then not be used any more.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(CallId, Answered<'_>),
    ) -> Result<(), ProtocolError> {
        self.receive_replies(input, out, &mut |call, reply| {
            if let CallReply::Answer(result) = reply {
                on(call, result);
            }
        })
    }

    /// Like [`Client::receive`], and calls `on` for messages and ends of streaming calls, too.
    ///
    /// # Errors
    /// When the peer breaks the protocol. The connection can then not be used any more.
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
                    // The body of another status is words for people, and no message.
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

fn failed(code: u32, message: &str) -> Status<'_> {
    Status { code, message: Cow::Borrowed(message), is_unprocessed: false }
}

/// The status that the server ended a call with.
fn ended<'a>(response: &Response<'a>) -> Result<(), Status<'a>> {
    // An answer that ended with its headers has its status there.
    let last = if response.trailers.is_empty() { response.headers } else { response.trailers };
    let Some(code) = last.get(b"grpc-status").filter(|_| response.status == 200) else {
        return Err(without_status(response.status));
    };
    if code != b"0" {
        return Err(status(code, last));
    }
    Ok(())
}

fn answer<'a>(response: &Response<'a>) -> Answered<'a> {
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
        // Success is written in one way only.
        Some(code) if code != code::OK => Status {
            code,
            message: percent_decoded(fields.get(b"grpc-message").unwrap_or_default()),
            is_unprocessed: false,
        },
        _ => failed(code::UNKNOWN, "a grpc-status that is no code"),
    }
}

/// <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>
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

/// The mapping of RST_STREAM's codes in PROTOCOL-HTTP2.md, section Errors.
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

/// Decodes %XX; what is not valid stays as it is, as PROTOCOL-HTTP2.md asks.
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
