//! The client's side of one HTTP/1.1 connection (RFC 9112).
//!
//! A response that lies whole in the input, with its length stated, is handed out from where it
//! lies: nothing is copied or allocated. Anything else is gathered in buffers that are kept. A head
//! that is byte for byte the one before it means the same and is not parsed again: servers repeat
//! themselves until their clock's next second. A message that breaks a rule and still has one meaning is
//! read, and its [`Oddity`] is kept; where a client would have to guess, this one refuses.
//!
//! Requests go out one at a time, or as a batch that was rendered together (pipelining, section
//! 9.3.2), which is for users who ask for it: many servers and proxies answer it badly.
//!
//! Not here: trailers (read and dropped), protocol upgrades, transfer codings other than chunked,
//! content codings (a body is what was sent).

mod chunks;
mod head;
mod oddity;

use std::io::Write as _;

use self::chunks::{CHUNK_START, Chunk};
use self::head::{Framing, Head, end_of_head, not_http, parse};
pub use self::oddity::{Oddities, Oddity};
use crate::{Busy, ProtocolError};

/// Buffers above this many bytes are given back after the response.
const KEPT_BUFFER: usize = 1 << 20;
/// Heads above this many bytes are an [`Oddity`]: many clients refuse them.
const USUAL_HEAD: usize = 64 << 10;
/// Bytes of an unexpected answer that an error quotes.
const QUOTED: usize = 120;

/// Limits on the peer's heads and bodies.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of status line and header fields; also of trailers and of chunk extensions.
    pub max_head: usize,
    /// Bytes of a body.
    pub max_body: usize,
    /// Bytes of a body that are kept. Those beyond are counted and dropped.
    pub kept_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_head: 1 << 20, max_body: 16 << 20, kept_body: 16 << 20 }
    }
}

/// A request. Nothing in it is checked: it is sent as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// The request target (RFC 9112 section 3.2), as a rule a path.
    pub target: &'a str,
    /// The fields, `host` among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body. Unless `headers` have a `content-length` one is added when there is a body or
    /// the method is POST, PUT or PATCH.
    pub body: &'a [u8],
    /// Asks the server whether it wants the body (`Expect: 100-continue`, RFC 9110 section
    /// 10.1.1), which is sent when it says so, or never. Only for requests with a body.
    pub expect_continue: bool,
}

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The final status, 200 to 999.
    pub status: u16,
    /// The header fields.
    pub headers: Headers<'a>,
    /// The body, without its transfer coding, as far as it is [kept](Limits::kept_body).
    pub body: &'a [u8],
    /// Bytes of the whole body.
    pub length: usize,
    /// Deviations from the protocol that were met since the last response.
    pub oddities: Oddities,
    /// Whether another request can be sent on this connection.
    pub keep_alive: bool,
}

/// Header fields of a response; taken apart when they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    /// A whole head that was found to be one, status line included: equal ones say the same.
    pub head: &'a [u8],
}

impl<'a> Headers<'a> {
    /// The first value of the field `name`, in capitals or not, without blanks around it.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names and values in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at_checked(colon)?;
            let name = match name.first() {
                // The rest of a folded field.
                Some(b' ' | b'\t') => return None,
                _ => name.trim_ascii_end(),
            };
            Some((str::from_utf8(name).ok()?, value.get(1..)?.trim_ascii()))
        })
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    phase: Phase,
    /// Responses that are due after the one being received.
    more: u32,
    /// The request was HEAD: what a response says of its body is not followed by one.
    is_head: bool,
    /// A body kept until the server says that it wants it.
    held: Vec<u8>,
    holding: bool,
    /// The head of the response, as far as it has arrived, unless it was dealt with in place.
    head: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the body so far, dropped ones included.
    length: usize,
    oddities: Oddities,
    /// The last head that was dealt with in place, and what it said; empty when there is none.
    known_text: Vec<u8>,
    known: Head,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No request is open.
    Idle,
    Head,
    /// So many bytes of the body are missing.
    Length(usize),
    Chunked(Chunk),
    UntilClose,
    /// The peer will close, or was told to, or broke the protocol.
    Over,
    Failed,
}

impl Connection {
    /// A connection on which nothing has been asked.
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
            known_text: Vec::new(),
            known: Head {
                status: 0,
                framing: Framing::UntilClose,
                keep_alive: false,
                oddities: Oddities::default(),
            },
        }
    }

    /// Returns whether a request can be sent now.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns whether the connection can no longer be used, now or after waiting.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Failed)
    }

    /// Writes a request.
    ///
    /// # Errors
    /// [`Busy`] unless [`Connection::is_ready`]; nothing is written then.
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
            // Writing into a vector cannot fail.
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

    /// Writes a request that was rendered before. Whether its method is HEAD decides whether a
    /// body is expected.
    ///
    /// # Errors
    /// [`Busy`] unless [`Connection::is_ready`]; nothing is written then.
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

    /// Says that `count` requests, one after another, are being written to the peer by the caller:
    /// so many responses are due. With several of them none may be answered by closing, and all or
    /// none must be HEAD, which decides whether bodies are expected.
    ///
    /// # Errors
    /// [`Busy`] unless [`Connection::is_ready`], and for a `count` of 0.
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
            self.known_text.clear(); // what a head means for the body depends on the method
        }
        self.phase = Phase::Head;
        self.more = 0;
        self.is_head = is_head;
        self.holding = false;
        self.head.clear();
        Ok(())
    }

    /// Sends a body held by `expect_continue` without waiting any longer. RFC 9110 section
    /// 10.1.1 wants a client not to wait forever for servers that never say 100.
    pub fn send_held_body(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.holding) {
            out.extend_from_slice(&self.held);
        }
    }

    /// Takes everything received and calls `on` when the response is complete; writes a body that
    /// was held and is wanted now.
    ///
    /// # Errors
    /// When the peer breaks the protocol, exceeds a limit, or sends what was not asked for. The
    /// connection can then not be used any more, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<(), ProtocolError> {
        self.receive_all(input, out, on).map_err(|error| self.fail(error))
    }

    /// To be called when the peer has closed the connection (at the end of its side of it):
    /// completes a body that lasts until then.
    ///
    /// # Errors
    /// When a response was due or is incomplete; the message says how much was missing.
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
                Phase::Idle => rest = self.without_line_breaks(rest).map_err(unasked)?,
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

    /// Takes a head, or what there is of one, and if possible the body after it. Returns what
    /// comes after.
    fn receive_head<'i>(
        &mut self,
        input: &'i [u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<&'i [u8], ProtocolError> {
        if self.head.is_empty() {
            if matches!(input.first(), Some(b'\r' | b'\n')) {
                return Ok(self.without_line_breaks(input).unwrap_or_else(|rest| rest));
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
                    self.interim(&head, out)?;
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
        // Not whole yet, or no good: which of the two is known when its end is there.
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
            self.interim(&head, out)?;
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

    /// A response before the final one (RFC 9110 section 15.2): 100 lets a held body go.
    fn interim(&mut self, head: &Head, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        match head.status {
            100 => self.send_held_body(out),
            101 => return Err(ProtocolError::new("a switch of protocols that nobody asked for")),
            _ => {}
        }
        Ok(())
    }

    /// Takes the oddities of a response that is complete.
    #[inline]
    fn take_oddities(&mut self, head: &Head) -> Oddities {
        let mut oddities = std::mem::take(&mut self.oddities);
        oddities |= head.oddities;
        oddities
    }

    /// Skips line breaks between two responses, which some servers send after a body. `Err`: what follows is no line
    /// break, or there is none.
    #[cold]
    fn without_line_breaks<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], &'i [u8]> {
        let breaks = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = input.get(breaks..).unwrap_or_default();
        if breaks > 0 {
            self.oddities |= Oddity::LineBreaksBetween;
        }
        if rest.is_empty() { Ok(rest) } else { Err(rest) }
    }

    /// Takes a piece of the body, and keeps it as far as there is room.
    fn gather(&mut self, piece: &[u8]) {
        self.length += piece.len();
        let room = self.limits.kept_body.saturating_sub(self.body.len());
        self.body.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// The head is in `self.head`; the body begins.
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

    /// The response is complete; says whether the connection goes on.
    fn end(&mut self, head: &Head) -> bool {
        // A body that was announced and never sent leaves the peer waiting for it.
        let keep_alive = head.keep_alive && !self.holding;
        self.phase = match (keep_alive, self.more) {
            (false, _) => Phase::Over,
            (true, 0) => Phase::Idle,
            (true, _) => Phase::Head,
        };
        self.more = self.more.saturating_sub(1);
        keep_alive
    }

    /// Hands out a response that was gathered.
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

/// Describes bytes that came while no request was open. A server that turns a connection away says so there.
#[cold]
fn unasked(bytes: &[u8]) -> ProtocolError {
    if bytes.starts_with(b"HTTP/1.") {
        let line = bytes.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or(bytes);
        let line = line.get(..QUOTED).unwrap_or(line).escape_ascii();
        return ProtocolError::new(format!("an answer that nobody asked for: `{line}`"));
    }
    let count = bytes.len();
    ProtocolError::new(format!(
        "{count} bytes after the body: it is longer than its Content-Length, or they answer no request"
    ))
}

#[cfg(test)]
mod tests;
