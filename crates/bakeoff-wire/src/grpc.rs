//! Unary gRPC calls over one HTTP/2 connection.
//!
//! Source: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.
//!
//! Not here: streaming calls, compression (none is offered, so a compressed answer is an error),
//! deadlines (whoever owns the clock cancels), retries, and the messages themselves (`protobuf`).

use std::borrow::Cow;
use std::fmt;

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
}

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc status {}: {}", self.code, self.message)
    }
}

/// One connection for unary calls.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
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

    /// Gives a call up, for instance after a timeout. Nothing will be reported for it.
    pub fn cancel(&mut self, call: CallId, out: &mut Vec<u8>) {
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

    /// Takes everything received, calls `on` for every call that ends with its answer or why
    /// there is none, and writes what the protocol wants answered.
    ///
    /// # Errors
    /// When the peer breaks the protocol. The connection can then not be used any more.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(CallId, Result<&[u8], Status<'_>>),
    ) -> Result<(), ProtocolError> {
        self.connection.receive(input, out, &mut |stream, event| {
            let result = match event {
                Event::Response(response) => answer(&response),
                Event::Reset { code } => Err(reset(code)),
                Event::Malformed { what } => Err(failed(code::INTERNAL, what)),
            };
            on(CallId(stream), result);
        })
    }
}

fn failed(code: u32, message: &str) -> Status<'_> {
    Status { code, message: Cow::Borrowed(message) }
}

fn answer<'a>(response: &Response<'a>) -> Result<&'a [u8], Status<'a>> {
    // An answer that ended with its headers has its status there.
    let last = if response.trailers.is_empty() { response.headers } else { response.trailers };
    let Some(code) = last.get(b"grpc-status").filter(|_| response.status == 200) else {
        return Err(without_status(response.status));
    };
    if code != b"0" {
        return Err(status(code, last));
    }
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
    Status { code, message: Cow::Owned(format!("HTTP status {http_status} and no grpc-status")) }
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
    Status { code, message: Cow::Owned(format!("stream reset with HTTP/2 code {http2_code}")) }
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
mod tests {
    use super::*;
    use crate::hpack::Encoder;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        bytes.extend([0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        bytes.extend(payload);
    }

    fn block(fields: Fields<'_>) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            Encoder::new(4096).encode_once(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block
    }

    /// Answers one call with headers, a body and trailers, those two only if there are trailers.
    fn check(
        headers: Fields<'_>,
        body: &[u8],
        trailers: Fields<'_>,
        expected: Result<&[u8], (u32, &str)>,
    ) {
        let mut client = Client::new("localhost", false, &[("token", "secret")]);
        let mut out = Vec::new();
        client.open(&mut out);
        let method = client.method("/service/Method");
        let call = client.call(method, b"request", &mut out).unwrap();
        let mut peer = Vec::new();
        frame(&mut peer, 4, 0, 0, &[]);
        frame(&mut peer, 1, if trailers.is_empty() { 5 } else { 4 }, 1, &block(headers));
        if !trailers.is_empty() {
            frame(&mut peer, 0, 0, 1, body);
            frame(&mut peer, 1, 5, 1, &block(trailers));
        }
        let mut seen = 0;
        client
            .receive(&peer, &mut out, &mut |id, result| {
                assert_eq!(id, call);
                let result = result.map_err(|status| (status.code, status.message.into_owned()));
                assert_eq!(result, expected.map_err(|(code, text)| (code, text.to_owned())));
                seen += 1;
            })
            .unwrap();
        assert_eq!(seen, 1);
        assert_eq!(client.in_flight(), 0);
    }

    const OK: Fields<'_> = &[(":status", "200"), ("content-type", "application/grpc")];
    const DONE: Fields<'_> = &[("grpc-status", "0"), ("grpc-message", "")];

    #[test]
    fn a_message_with_status_0_is_a_success() {
        check(OK, b"\0\0\0\0\x05hello", DONE, Ok(b"hello"));
        check(OK, b"\0\0\0\0\0", DONE, Ok(b""));
    }

    #[test]
    fn a_status_may_stand_in_the_trailers_or_alone() {
        let fields: Fields<'_> =
            &[("grpc-status", "5"), ("grpc-message", "no%20such%E2%82%AC %zz%")];
        check(OK, b"", fields, Err((5, "no such\u{20ac} %zz%")));
        let fields: Fields<'_> = &[(":status", "200"), ("grpc-status", "14")];
        check(fields, b"", &[], Err((14, "")));
    }

    #[test]
    fn an_http_status_without_a_grpc_status_is_mapped() {
        for (status, code) in [("503", 14), ("404", 12), ("401", 16), ("200", 2), ("418", 2)] {
            let text = format!("HTTP status {status} and no grpc-status");
            check(&[(":status", status)], b"", &[], Err((code, &text)));
        }
    }

    #[test]
    fn a_call_is_written_as_grpc_has_it() {
        let mut client = Client::new("localhost:1", false, &[("token", "secret")]);
        let mut out = Vec::new();
        let method = client.method("/service/Method");
        client.call(method, b"message", &mut out).unwrap();
        let (headers, data) = out.split_at(9 + usize::from(out[2]));
        let mut fields = crate::hpack::HeaderBlock::new();
        crate::hpack::Decoder::new(4096, 1000).decode(&headers[9..], &mut fields).unwrap();
        let expected: Fields<'_> = &[
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/service/Method"),
            (":authority", "localhost:1"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", concat!("bakeoff/", env!("CARGO_PKG_VERSION"))),
            ("token", "secret"),
        ];
        let expected = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        assert!(fields.view().iter().eq(expected));
        assert_eq!(data, b"\0\0\x0c\0\x01\0\0\0\x01\0\0\0\0\x07message");
    }

    #[test]
    fn a_reset_call_has_the_status_of_its_cause() {
        for (http2_code, code) in [(7, 14), (8, 1), (11, 8), (12, 7), (2, 13)] {
            let mut client = Client::new("localhost", true, &[]);
            let mut out = Vec::new();
            let method = client.method("/service/Method");
            client.call(method, b"", &mut out).unwrap();
            let mut peer = Vec::new();
            frame(&mut peer, 4, 0, 0, &[]);
            frame(&mut peer, 3, 0, 1, &[0, 0, 0, http2_code]);
            let mut seen = Vec::new();
            client.receive(&peer, &mut out, &mut |_, r| seen.push(r.unwrap_err().code)).unwrap();
            assert_eq!(seen, [code]);
        }
    }

    #[test]
    fn a_broken_success_is_an_error() {
        check(OK, b"", DONE, Err((13, "success without a message")));
        check(OK, b"\0\0\0", DONE, Err((13, "success without a message")));
        let whole = Err((13, "not exactly one whole message"));
        check(OK, b"\0\0\0\0\x05hell", DONE, whole);
        check(OK, b"\0\0\0\0\x01a\0\0\0\0\0", DONE, whole);
        let compressed = Err((13, "a compressed message, which was not offered"));
        check(OK, b"\x01\0\0\0\x01a", DONE, compressed);
        check(OK, b"", &[("grpc-status", "00")], Err((2, "a grpc-status that is no code")));
        check(OK, b"", &[("grpc-status", "x")], Err((2, "a grpc-status that is no code")));
    }
}
