//! Parses requests and writes answers of HTTP/1.1, as far as the canary needs it. Has no sockets.
//!
//! Not here: the client side (`bakeoff_wire::http1`), frames of watches (`bakeoff_wire::canary`).

use std::borrow::Cow;
use std::io::Write;

use bakeoff_wire::canary;

/// Maximum bytes of a request line and its headers; more is answered with 431.
pub(super) const HEAD_MAX: usize = 16 << 10;
/// Maximum headers of a request; more is answered with 431.
const HEADERS_MAX: usize = 64;
/// Maximum bytes of a body; more is answered with 413.
pub(super) const BODY_MAX: usize = 16 << 20;

/// Result of parsing the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParseResult<'a> {
    /// The head is incomplete.
    Partial,
    /// A complete head. Its body may be incomplete.
    Head(Head<'a>),
    /// Not a request. The answer has this status and closes the connection, because the start of the next request is
    /// unknown.
    Bad(Status),
}

/// Head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// True if a further node asks for an older state.
    pub(super) old: bool,
    /// True if a further node asks that may have a copy of its own.
    pub(super) split: bool,
    /// Bytes of the head.
    pub(super) length: usize,
    pub(super) body_length: usize,
    pub(super) keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
    /// True if the client asks for watches on this connection.
    pub(super) upgrades: bool,
}

/// Status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    NoContent,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Conflict,
    LengthRequired,
    ContentTooLarge,
    HeadersTooLarge,
    UpgradeRequired,
    InternalError,
    Unavailable,
}

/// Query by which a further node asks the first for an older state.
pub(super) const OLD: &str = "old";
/// Query of the requests of a further node that may have a copy of its own.
pub(super) const SPLIT: &str = "split";

/// Interim answer that makes a client send its body.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Parses a head at the start of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> ParseResult<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_MAX => return ParseResult::Partial,
        Ok(httparse::Status::Partial) => return ParseResult::Bad(Status::HeadersTooLarge),
        Err(httparse::Error::TooManyHeaders) => return ParseResult::Bad(Status::HeadersTooLarge),
        Err(_) => return ParseResult::Bad(Status::BadRequest),
    };
    if length > HEAD_MAX {
        return ParseResult::Bad(Status::HeadersTooLarge);
    }
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return ParseResult::Bad(Status::BadRequest);
    };
    let mut keep_alive = request.version == Some(1);
    let (mut expects_continue, mut upgrades) = (false, false);
    let mut body_length = None;
    for header in request.headers.iter() {
        let value = header.value;
        if header.name.eq_ignore_ascii_case("content-length") {
            match number(value) {
                // Two different lengths would allow request smuggling.
                Some(n) if body_length.is_none_or(|known| known == n) => body_length = Some(n),
                _ => return ParseResult::Bad(Status::BadRequest),
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return ParseResult::Bad(Status::LengthRequired);
        } else if header.name.eq_ignore_ascii_case("connection") {
            let has = |word: &[u8]| {
                value.split(|&b| b == b',').any(|w| w.trim_ascii().eq_ignore_ascii_case(word))
            };
            keep_alive = (keep_alive || has(b"keep-alive")) && !has(b"close");
        } else if header.name.eq_ignore_ascii_case("expect") {
            expects_continue = value.eq_ignore_ascii_case(b"100-continue");
        } else if header.name.eq_ignore_ascii_case("upgrade") {
            upgrades = value.eq_ignore_ascii_case(canary::PROTOCOL.as_bytes());
        }
    }
    let body_length = body_length.unwrap_or(0);
    if body_length > BODY_MAX as u64 {
        return ParseResult::Bad(Status::ContentTooLarge);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (old, split) = (query == OLD, query == SPLIT);
    let body_length = body_length as usize;
    ParseResult::Head(Head {
        method,
        path,
        old,
        split,
        length,
        body_length,
        keep_alive,
        expects_continue,
        upgrades,
    })
}

/// Appends the answer that makes a connection one of watchers.
pub(super) fn switch_protocols(out: &mut Vec<u8>) {
    out.extend(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ");
    out.extend(canary::PROTOCOL.as_bytes());
    out.extend(b"\r\n\r\n");
}

/// Parses digits only: `+5` is a number, but not a valid Content-Length.
fn number(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Returns the percent-decoded key of a path. `None` if it is malformed or holds control characters, which would break
/// lists.
pub(super) fn key(path: &str) -> Option<Cow<'_, [u8]>> {
    let key = if path.contains('%') {
        let mut decoded = Vec::with_capacity(path.len());
        let mut bytes = path.bytes();
        while let Some(byte) = bytes.next() {
            let digit = |b: Option<u8>| char::from(b?).to_digit(16);
            decoded.push(match byte {
                b'%' => (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8,
                byte => byte,
            });
        }
        Cow::Owned(decoded)
    } else {
        Cow::Borrowed(path.as_bytes())
    };
    (!key.iter().any(u8::is_ascii_control)).then_some(key)
}

/// Appends a complete answer and returns the offset of its body.
pub(super) fn answer(out: &mut Vec<u8>, status: Status, body: &[u8], keep_alive: bool) -> usize {
    out.extend(status.line());
    if !keep_alive {
        out.extend(b"Connection: close\r\n");
    }
    // A 204 must not have a Content-Length (RFC 9110, 8.6).
    if status != Status::NoContent {
        // Writing to a vector cannot fail.
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    if status == Status::MethodNotAllowed {
        out.extend(b"Allow: GET, PUT, DELETE\r\n");
    }
    if status == Status::UpgradeRequired {
        let _ = write!(out, "Upgrade: {}\r\n", canary::PROTOCOL);
    }
    out.extend(b"\r\n");
    let begins = out.len();
    out.extend(body);
    begins
}

impl Status {
    fn line(self) -> &'static [u8] {
        match self {
            Self::Ok => b"HTTP/1.1 200 OK\r\n",
            Self::NoContent => b"HTTP/1.1 204 No Content\r\n",
            Self::BadRequest => b"HTTP/1.1 400 Bad Request\r\n",
            Self::NotFound => b"HTTP/1.1 404 Not Found\r\n",
            Self::MethodNotAllowed => b"HTTP/1.1 405 Method Not Allowed\r\n",
            Self::Conflict => b"HTTP/1.1 409 Conflict\r\n",
            Self::LengthRequired => b"HTTP/1.1 411 Length Required\r\n",
            Self::ContentTooLarge => b"HTTP/1.1 413 Content Too Large\r\n",
            Self::HeadersTooLarge => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
            Self::UpgradeRequired => b"HTTP/1.1 426 Upgrade Required\r\n",
            Self::InternalError => b"HTTP/1.1 500 Internal Server Error\r\n",
            Self::Unavailable => b"HTTP/1.1 503 Service Unavailable\r\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head<'_> {
        match parse(text.as_bytes()) {
            ParseResult::Head(head) => head,
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn head_gives_offset_and_length_of_its_body() {
        let text = "PUT /kv/a?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET";
        let head = head(text);
        assert_eq!((head.method, head.path), ("PUT", "/kv/a"));
        assert_eq!(&text[head.length..head.length + head.body_length], "abc");
    }

    #[test]
    fn every_prefix_of_a_request_is_partial() {
        let text = "GET /kv/a HTTP/1.1\r\nHost: h\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end]), ParseResult::Partial, "{end}");
        }
    }

    #[test]
    fn keep_alive_follows_version_and_header() {
        let kept = |line: &str, header: &str| head(&format!("{line}\r\n{header}\r\n")).keep_alive;
        assert!(kept("GET / HTTP/1.1", ""));
        assert!(!kept("GET / HTTP/1.1", "Connection: foo, Close\r\n"));
        assert!(!kept("GET / HTTP/1.0", ""));
        assert!(kept("GET / HTTP/1.0", "Connection: Keep-Alive\r\n"));
    }

    #[test]
    fn only_the_protocol_of_watches_upgrades() {
        let with = |header: &str| head(&format!("GET /watch HTTP/1.1\r\n{header}\r\n")).upgrades;
        assert!(with("Connection: Upgrade\r\nUpgrade: bakeoff-watch\r\n"));
        assert!(!with("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
        assert!(!with(""));
    }

    #[test]
    fn malformed_request_gets_a_4xx_status() {
        let bad = |text: &str, status| assert_eq!(parse(text.as_bytes()), ParseResult::Bad(status));
        let with = |header: &str| format!("PUT /kv/a HTTP/1.1\r\n{header}\r\n\r\n");
        bad("\0\0\0\0", Status::BadRequest);
        bad("GET / HTTP/3.0\r\n\r\n", Status::BadRequest);
        bad(&with("Content-Length: -1"), Status::BadRequest);
        bad(&with("Content-Length: +1"), Status::BadRequest);
        bad(&with("Content-Length: 1\r\nContent-Length: 2"), Status::BadRequest);
        bad(&with("Content-Length: 99999999999999999999999"), Status::BadRequest);
        bad(&with("Content-Length: 16777217"), Status::ContentTooLarge);
        bad(&with("Transfer-Encoding: chunked"), Status::LengthRequired);
        bad(&with(&format!("A: {}", "b".repeat(HEAD_MAX))), Status::HeadersTooLarge);
        bad(&format!("GET /{}", "b".repeat(HEAD_MAX)), Status::HeadersTooLarge);
        bad(&with(&["A: b"; 65].join("\r\n")), Status::HeadersTooLarge);
    }

    #[test]
    fn keys_are_percent_decoded_and_hold_no_control_characters() {
        assert_eq!(key("a/b").as_deref(), Some(&b"a/b"[..]));
        assert_eq!(key("a%2Fb%25").as_deref(), Some(&b"a/b%"[..]));
        assert_eq!(key("%FF").as_deref(), Some(&b"\xff"[..]));
        for bad in ["%", "%4", "%zz", "%0a", "%+1"] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
