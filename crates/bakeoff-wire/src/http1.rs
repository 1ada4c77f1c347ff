//! Implements the client's side of one HTTP/1.1 connection (RFC 9112).
//!
//! A response with a stated length that arrives in one piece is passed on without copying or allocation. Anything
//! else is collected in reused buffers. A head that is byte for byte equal to the previous one is not parsed again:
//! servers repeat themselves until their clock's next second. A message that breaks a rule but has only one possible
//! meaning is accepted, and its [`Oddity`] is recorded. If the client would have to guess, it rejects the message.
//!
//! Requests are sent one at a time, or as a batch rendered together (pipelining, section 9.3.2). Pipelining is
//! optional, because many servers and proxies handle it badly.
//!
//! Not here: trailers (read and dropped), protocol upgrades, transfer codings other than chunked, content codings
//! (bodies are not decoded).

mod chunks;
mod head;
mod oddity;

use std::io::Write as _;

use self::chunks::{CHUNK_START, Chunk};
use self::head::{Framing, Head, end_of_head, not_http, parse};
pub use self::oddity::{Oddities, Oddity};
use crate::overhead::Overhead;
use crate::{Busy, ProtocolError};

/// Largest buffer to keep after a response, in bytes.
const KEPT_BUFFER: usize = 1 << 20;
/// Size in bytes above which a head is an [`Oddity`], because many clients reject it.
const USUAL_HEAD: usize = 64 << 10;
/// Maximum bytes of an unexpected answer that an error quotes.
const QUOTED: usize = 120;

/// Limits the size of the peer's heads and bodies.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum bytes of status line and header fields; also of trailers, and of a chunk extension.
    pub max_head: usize,
    /// Maximum bytes of a body.
    pub max_body: usize,
    /// Bytes of a body that are kept. Later bytes are counted and dropped.
    pub kept_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_head: 1 << 20, max_body: 16 << 20, kept_body: 16 << 20 }
    }
}

/// Describes a request. It is sent unchecked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Method in capitals.
    pub method: &'a str,
    /// Request target (RFC 9112 section 3.2), normally a path.
    pub target: &'a str,
    /// Header fields, including `host`.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body. If `headers` have no `content-length`, one is added for a body, and for POST, PUT and PATCH.
    pub body: &'a [u8],
    /// True to send the body only after the server agrees (`Expect: 100-continue`, RFC 9110 section 10.1.1). Only for
    /// requests with a body.
    pub expect_continue: bool,
}

/// Holds a complete response.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Final status, 200 to 999.
    pub status: u16,
    /// Header fields.
    pub headers: Headers<'a>,
    /// Body without its transfer coding, as far as it is [kept](Limits::kept_body).
    pub body: &'a [u8],
    /// Length of the whole body in bytes.
    pub length: usize,
    /// Deviations from the protocol since the last response.
    pub oddities: Oddities,
    /// True if the connection accepts another request.
    pub keep_alive: bool,
}

/// Holds the header fields of a response; parses them on access.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// Whole valid head, including the status line. Equal heads mean the same.
    pub head: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Returns the first value of the field `name`, ignoring case, without surrounding blanks.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns names and values in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at_checked(colon)?;
            let name = match name.first() {
                // Skip the continuation of a folded field.
                Some(b' ' | b'\t') => return None,
                _ => name.trim_ascii_end(),
            };
            Some((str::from_utf8(name).ok()?, value.get(1..)?.trim_ascii()))
        })
    }
}

/// Holds the state of one connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    phase: Phase,
    /// Responses due after the current one.
    more: u32,
    /// True for HEAD: the response has no body, despite its headers.
    is_head: bool,
    /// Body that waits for the server's consent.
    held: Vec<u8>,
    holding: bool,
    /// Head of the response, as far as it has arrived, unless it was parsed in place.
    head: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the body so far, including dropped ones.
    length: usize,
    oddities: Oddities,
    /// Interim responses and line breaks since the last response.
    overhead: Overhead,
    /// Last head parsed in place; empty if there is none.
    known_text: Vec<u8>,
    known: Head,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No request is in flight.
    Idle,
    Head,
    /// Number of missing bytes of the body.
    Length(usize),
    Chunked(Chunk),
    UntilClose,
    /// The peer closes, was asked to close, or broke the protocol.
    Over,
    Failed,
}

impl Connection {
    /// Creates a connection that has sent no request.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Idle,
            more: 0,
            is_head: false,
            held: Vec::new(),
            holding: false,
            head: Vec::new(),
            body: Vec::new(),
            length: 0,
            oddities: Oddities::default(),
            overhead: Overhead::default(),
            known_text: Vec::new(),
            known: Head {
                status: 0,
                framing: Framing::UntilClose,
                keep_alive: false,
                oddities: Oddities::default(),
            },
        }
    }

    /// Returns true if a request can be sent now.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns true if the connection is unusable for good.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Failed)
    }

    /// Writes a request.
    ///
    /// # Errors
    /// Returns [`Busy`] unless [`Connection::is_ready`]; nothing is written then.
    pub fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Busy> {
        self.begin(request.method == "HEAD")?;
        for part in [request.method, " ", request.target, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        let mut has_length = false;
        for (name, value) in request.headers {
            has_length |= name.eq_ignore_ascii_case("content-length");
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        let has_body = !request.body.is_empty();
        if !has_length && (has_body || matches!(request.method, "POST" | "PUT" | "PATCH")) {
            // Writing to a vector cannot fail.
            let _ = write!(out, "content-length: {}\r\n", request.body.len());
        }
        self.holding = request.expect_continue && has_body;
        if self.holding {
            out.extend_from_slice(b"expect: 100-continue\r\n\r\n");
            self.held.clear();
            self.held.extend_from_slice(request.body);
        } else {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(request.body);
        }
        Ok(())
    }

    /// Writes a rendered request. `method_is_head` decides whether a body is expected.
    ///
    /// # Errors
    /// Returns [`Busy`] unless [`Connection::is_ready`]; nothing is written then.
    pub fn send_raw(
        &mut self,
        method_is_head: bool,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        self.begin(method_is_head)?;
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// Expects `count` responses to requests that the caller writes to the peer itself. If `count` exceeds 1, no
    /// response may end with the connection's close, and all or none of the requests must be HEAD.
    ///
    /// # Errors
    /// Returns [`Busy`] unless [`Connection::is_ready`], and for a `count` of 0.
    pub fn expect(&mut self, methods_are_head: bool, count: u32) -> Result<(), Busy> {
        let more = count.checked_sub(1).ok_or(Busy)?;
        self.begin(methods_are_head)?;
        self.more = more;
        Ok(())
    }

    fn begin(&mut self, is_head: bool) -> Result<(), Busy> {
        if self.phase != Phase::Idle {
            return Err(Busy);
        }
        if self.is_head != is_head {
            self.known_text.clear(); // the method decides what a head means for the body
        }
        self.phase = Phase::Head;
        self.more = 0;
        self.is_head = is_head;
        self.holding = false;
        self.head.clear();
        Ok(())
    }

    /// Sends a body held by `expect_continue` without further waiting. RFC 9110 section 10.1.1 forbids waiting
    /// forever for servers that never send 100.
    pub fn send_held_body(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.holding) {
            out.extend_from_slice(&self.held);
        }
    }

    /// Consumes all of `input` and calls `on` with a complete response. Writes a held body that the server now
    /// accepts.
    ///
    /// # Errors
    /// Fails if the peer breaks the protocol, exceeds a limit, or sends an unrequested response. The connection is
    /// then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<(), ProtocolError> {
        self.receive_all(input, out, on).map_err(|error| self.fail(error))
    }

    /// Handles the peer's close of its sending side, which completes a body without a length.
    ///
    /// # Errors
    /// Fails if a response is missing or incomplete. The message states the missing bytes.
    pub fn closed(&mut self, on: &mut dyn FnMut(Response<'_>)) -> Result<(), ProtocolError> {
        let what = match self.phase {
            Phase::Idle | Phase::Over => {
                self.phase = Phase::Over;
                return Ok(());
            }
            Phase::UntilClose => {
                return self.deliver(on).map_err(|error| self.fail(error));
            }
            Phase::Failed => "closed after an error".to_owned(),
            Phase::Head if self.head.is_empty() => "closed before a response".into(),
            Phase::Head => format!("closed after {} bytes of a head", self.head.len()),
            Phase::Length(missing) => format!("closed with {missing} bytes of the body missing"),
            Phase::Chunked(Chunk::Data { left }) => {
                format!("closed with {left} bytes of a chunk missing")
            }
            Phase::Chunked(_) => "closed before the last chunk".into(),
        };
        Err(self.fail(ProtocolError::new(what)))
    }

    fn fail(&mut self, error: ProtocolError) -> ProtocolError {
        self.phase = Phase::Failed;
        error.within("http1")
    }

    fn receive_all(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<(), ProtocolError> {
        if self.phase == Phase::Failed {
            return Err(ProtocolError::new("received after an error"));
        }
        let mut rest = input;
        while !rest.is_empty() {
            match self.phase {
                Phase::Head => rest = self.receive_head(rest, out, on)?,
                Phase::Length(missing) => {
                    let (taken, after) = rest.split_at(missing.min(rest.len()));
                    self.gather(taken);
                    rest = after;
                    self.phase = Phase::Length(missing - taken.len());
                    if missing == taken.len() {
                        self.deliver(on)?;
                    }
                }
                Phase::Chunked(chunk) => {
                    let (chunk, after) = self.receive_chunks(chunk, rest)?;
                    rest = after;
                    match chunk {
                        Some(chunk) => self.phase = Phase::Chunked(chunk),
                        None => self.deliver(on)?,
                    }
                }
                Phase::UntilClose => {
                    self.check_body(self.length + rest.len())?;
                    self.gather(rest);
                    rest = &[];
                }
                Phase::Idle => {
                    self.overhead.add(rest.len(), "line breaks")?;
                    rest = self.without_line_breaks(rest).map_err(unrequested_bytes)?;
                }
                Phase::Over | Phase::Failed => {
                    return Err(ProtocolError::new(format!(
                        "{} bytes after the last response",
                        rest.len()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Consumes a head or a part of it, and the body if possible. Returns the remaining bytes.
    fn receive_head<'i>(
        &mut self,
        input: &'i [u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<&'i [u8], ProtocolError> {
        if self.head.is_empty() {
            if matches!(input.first(), Some(b'\r' | b'\n')) {
                let rest = self.without_line_breaks(input).unwrap_or_else(|rest| rest);
                self.overhead.add(input.len() - rest.len(), "line breaks")?;
                return Ok(rest);
            }
            let is_known = !self.known_text.is_empty() && input.starts_with(&self.known_text);
            let parsed = if is_known {
                Some((self.known_text.len(), Ok(self.known)))
            } else {
                parse(input, self.is_head).ok()
            };
            if let Some((length, head)) = parsed
                && length <= self.limits.max_head
            {
                let head = head?;
                let (text, rest) = input.split_at(length);
                if head.status < 200 {
                    self.interim(&head, length, out)?;
                    return Ok(rest);
                }
                if let Framing::Length(length) = head.framing {
                    self.check_body(length)?;
                    if let Some((body, rest)) = rest.split_at_checked(length) {
                        if !is_known {
                            if text.len() > USUAL_HEAD {
                                self.oddities |= Oddity::LargeHead;
                            }
                            self.known_text.clear();
                            self.known_text.extend_from_slice(text);
                            self.known = head;
                        }
                        let keep_alive = self.end(&head);
                        let headers = Headers { head: text };
                        let oddities = self.take_oddities(&head);
                        let status = head.status;
                        on(Response { status, headers, body, length, oddities, keep_alive });
                        return Ok(rest);
                    }
                }
                self.head.extend_from_slice(text);
                self.begin_body(&head, on)?;
                return Ok(rest);
            }
        }
        // The head is incomplete or invalid. Its end will show which.
        let before = self.head.len();
        let room = self.limits.max_head.saturating_sub(before).saturating_add(1);
        let taken = input.get(..room).unwrap_or(input);
        self.head.extend_from_slice(taken);
        let beginning = self.head.get(..7).unwrap_or(&self.head);
        if !b"HTTP/1.".starts_with(beginning) {
            return Err(not_http(&self.head));
        }
        let end = end_of_head(&self.head, before);
        if end.unwrap_or(self.head.len()) > self.limits.max_head {
            return Err(ProtocolError::new(format!(
                "a head of more than {} bytes",
                self.limits.max_head
            )));
        }
        let Some(end) = end else { return Ok(&[]) };
        self.head.truncate(end);
        let rest = input.get(end - before..).unwrap_or_default();
        let (_, head) = parse(&self.head, self.is_head)?;
        let head = head?;
        if head.status < 200 {
            self.interim(&head, end, out)?;
            self.head.clear();
        } else {
            self.begin_body(&head, on)?;
        }
        Ok(rest)
    }

    fn check_body(&self, length: usize) -> Result<(), ProtocolError> {
        if length > self.limits.max_body {
            return Err(ProtocolError::new(format!(
                "a body of more than {} bytes",
                self.limits.max_body
            )));
        }
        Ok(())
    }

    /// Handles an interim response of `length` bytes (RFC 9110 section 15.2). Status 100 releases a held body.
    #[cold]
    fn interim(
        &mut self,
        head: &Head,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        self.overhead.add(length, "interim responses")?;
        match head.status {
            100 => self.send_held_body(out),
            101 => return Err(ProtocolError::new("an unrequested switch of protocols")),
            _ => {}
        }
        Ok(())
    }

    /// Returns and resets the oddities of a complete response.
    #[inline]
    fn take_oddities(&mut self, head: &Head) -> Oddities {
        let mut oddities = std::mem::take(&mut self.oddities);
        oddities |= head.oddities;
        oddities
    }

    /// Skips line breaks between two responses, which some servers send after a body. Returns `Err` if there are none
    /// or other bytes follow.
    #[cold]
    fn without_line_breaks<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], &'i [u8]> {
        let breaks = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = input.get(breaks..).unwrap_or_default();
        if breaks > 0 {
            self.oddities |= Oddity::LineBreaksBetween;
        }
        if rest.is_empty() { Ok(rest) } else { Err(rest) }
    }

    /// Counts a piece of the body, and keeps it as far as the limit allows.
    fn gather(&mut self, piece: &[u8]) {
        self.length += piece.len();
        let room = self.limits.kept_body.saturating_sub(self.body.len());
        self.body.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// Begins the body after the head in `self.head`.
    fn begin_body(
        &mut self,
        head: &Head,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<(), ProtocolError> {
        self.body.clear();
        self.length = 0;
        if self.head.len() > USUAL_HEAD {
            self.oddities |= Oddity::LargeHead;
        }
        match head.framing {
            Framing::Length(length) => {
                self.check_body(length)?;
                self.phase = Phase::Length(length);
                if length == 0 {
                    self.deliver(on)?;
                }
            }
            Framing::Chunked => self.phase = Phase::Chunked(CHUNK_START),
            Framing::UntilClose => self.phase = Phase::UntilClose,
        }
        Ok(())
    }

    /// Ends the response. Returns true if the connection continues.
    fn end(&mut self, head: &Head) -> bool {
        self.overhead.reset();
        // The peer would wait for an announced body that was never sent.
        let keep_alive = head.keep_alive && !self.holding;
        self.phase = match (keep_alive, self.more) {
            (false, _) => Phase::Over,
            (true, 0) => Phase::Idle,
            (true, _) => Phase::Head,
        };
        self.more = self.more.saturating_sub(1);
        keep_alive
    }

    /// Passes on a collected response.
    fn deliver(&mut self, on: &mut dyn FnMut(Response<'_>)) -> Result<(), ProtocolError> {
        let buffer = std::mem::take(&mut self.head);
        let (_, head) = parse(&buffer, self.is_head)?;
        let head = head?;
        let keep_alive = self.end(&head);
        let (status, headers) = (head.status, Headers { head: &buffer });
        let (length, oddities) = (self.length, self.take_oddities(&head));
        on(Response { status, headers, body: &self.body, length, oddities, keep_alive });
        if self.body.capacity() > KEPT_BUFFER {
            self.body = Vec::new();
        }
        self.head = buffer;
        self.head.clear();
        Ok(())
    }
}

/// Describes bytes that arrived without a request. A server that refuses a connection sends its reason there.
#[cold]
fn unrequested_bytes(bytes: &[u8]) -> ProtocolError {
    if bytes.starts_with(b"HTTP/1.") {
        let line = bytes.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or(bytes);
        let line = line.get(..QUOTED).unwrap_or(line).escape_ascii();
        return ProtocolError::new(format!("an answer without a request: `{line}`"));
    }
    let count = bytes.len();
    ProtocolError::new(format!(
        "{count} bytes after the body: it is longer than its Content-Length, or they belong to no request"
    ))
}

#[cfg(test)]
mod tests;
