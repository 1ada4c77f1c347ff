//! The client's side of one HTTP/1.1 connection (RFC 9112).
//!
//! A response that lies whole in the input, with its length stated, is handed out from where it
//! lies: nothing is copied or allocated. Anything else is gathered in buffers that are kept. A head
//! that is byte for byte the one before it means the same and is not parsed again: servers repeat
//! themselves until their clock's next second. Where the RFC lets a client guess what a dubious
//! message meant, this one refuses: a measurement must not rest on a guess.
//!
//! Requests go out one at a time, or as a batch that was rendered together (pipelining, section
//! 9.3.2), which is for users who ask for it: many servers and proxies answer it badly.
//!
//! Not here: trailers (read and dropped), protocol upgrades, transfer codings other than chunked,
//! content codings (a body is what was sent).

mod head;

use std::io::Write as _;

use self::head::{Framing, Head, end_of_head, parse};
use crate::{Busy, ProtocolError};

/// Buffers above this many bytes are given back after the response.
const KEPT_BUFFER: usize = 1 << 20;

/// Limits on the peer's heads and bodies.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of status line and header fields; also of trailers and of chunk extensions.
    pub max_head: usize,
    /// Bytes of a body.
    pub max_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_head: 64 << 10, max_body: 16 << 20 }
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
    /// The body, without its transfer coding.
    pub body: &'a [u8],
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

/// The place in a chunked body (RFC 9112 section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the size, after so many digits.
    Size {
        digits: u8,
        size: usize,
    },
    /// After the size, in an extension: so many bytes of it so far.
    Extension {
        size: usize,
        length: usize,
    },
    /// After the CR of the size's line.
    SizeEnd {
        size: usize,
    },
    Data {
        left: usize,
    },
    DataCr,
    DataLf,
    /// At the beginning of a trailer's line, or within one; so many bytes of trailers so far.
    TrailerStart {
        length: usize,
    },
    Trailer {
        length: usize,
    },
    /// After the CR of the empty line that ends it all.
    End,
}

const CHUNK_START: Chunk = Chunk::Size { digits: 0, size: 0 };

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
            known_text: Vec::new(),
            known: Head { status: 0, framing: Framing::UntilClose, keep_alive: false },
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
                    self.body.extend_from_slice(taken);
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
                    self.check_body(self.body.len() + rest.len())?;
                    self.body.extend_from_slice(rest);
                    rest = &[];
                }
                Phase::Idle => {
                    return Err(ProtocolError::new(format!(
                        "{} bytes after the body: it is longer than its Content-Length, or they answer no request",
                        rest.len()
                    )));
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

    /// Takes a head, or what there is of one, and if possible the body after it. Returns what
    /// comes after.
    fn receive_head<'i>(
        &mut self,
        input: &'i [u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<&'i [u8], ProtocolError> {
        if self.head.is_empty() {
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
                            self.known_text.clear();
                            self.known_text.extend_from_slice(text);
                            self.known = head;
                        }
                        let keep_alive = self.end(&head);
                        let headers = Headers { head: text };
                        on(Response { status: head.status, headers, body, keep_alive });
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
            return Err(ProtocolError::new("what came is not HTTP/1"));
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

    /// The head is in `self.head`; the body begins.
    fn begin_body(
        &mut self,
        head: &Head,
        on: &mut dyn FnMut(Response<'_>),
    ) -> Result<(), ProtocolError> {
        self.body.clear();
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
        let headers = Headers { head: &buffer };
        on(Response { status: head.status, headers, body: &self.body, keep_alive });
        if self.body.capacity() > KEPT_BUFFER {
            self.body = Vec::new();
        }
        self.head = buffer;
        self.head.clear();
        Ok(())
    }

    /// Takes as much of a chunked body as there is. Returns where it stands then, `None` when at
    /// its end, and what comes after.
    fn receive_chunks<'i>(
        &mut self,
        mut chunk: Chunk,
        mut rest: &'i [u8],
    ) -> Result<(Option<Chunk>, &'i [u8]), ProtocolError> {
        let max_head = self.limits.max_head;
        while let Some((&byte, after)) = rest.split_first() {
            if let Chunk::Data { left } = chunk {
                let (taken, after) = rest.split_at(left.min(rest.len()));
                self.body.extend_from_slice(taken);
                rest = after;
                chunk = match left - taken.len() {
                    0 => Chunk::DataCr,
                    left => Chunk::Data { left },
                };
                continue;
            }
            rest = after;
            chunk = match (chunk, byte) {
                (Chunk::Size { digits, size }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    let digit = char::from(byte).to_digit(16).unwrap_or(0) as usize;
                    if digits >= 12 {
                        return Err(ProtocolError::new("a chunk size of more than 12 digits"));
                    }
                    // Twelve digits have 48 bits.
                    let size = (size << 4) | digit;
                    Chunk::Size { digits: digits + 1, size }
                }
                (Chunk::Size { digits: 0, .. }, _) => {
                    return Err(ProtocolError::new("a chunk without a size"));
                }
                (Chunk::Size { size, .. } | Chunk::Extension { size, .. }, b'\r') => {
                    Chunk::SizeEnd { size }
                }
                (Chunk::Size { size, .. }, b';' | b' ' | b'\t') => {
                    Chunk::Extension { size, length: 1 }
                }
                (Chunk::Size { .. }, _) => {
                    return Err(ProtocolError::new("a chunk size that is no number"));
                }
                (Chunk::Extension { .. }, b'\n') => {
                    return Err(ProtocolError::new("a line feed in a chunk extension"));
                }
                (Chunk::Extension { size, length }, _) if length < max_head => {
                    Chunk::Extension { size, length: length + 1 }
                }
                (Chunk::Extension { .. }, _) => {
                    return Err(ProtocolError::new(format!(
                        "a chunk extension of more than {max_head} bytes"
                    )));
                }
                (Chunk::SizeEnd { size: 0 }, b'\n') => Chunk::TrailerStart { length: 0 },
                (Chunk::SizeEnd { size }, b'\n') => {
                    self.check_body(self.body.len().saturating_add(size))?;
                    Chunk::Data { left: size }
                }
                (Chunk::DataCr, b'\r') => Chunk::DataLf,
                (Chunk::DataLf, b'\n') => CHUNK_START,
                (Chunk::DataCr | Chunk::DataLf, _) => {
                    return Err(ProtocolError::new("a chunk longer than its size"));
                }
                (Chunk::TrailerStart { .. }, b'\r') => Chunk::End,
                (Chunk::Trailer { length }, b'\n') => Chunk::TrailerStart { length: length + 1 },
                (Chunk::TrailerStart { length } | Chunk::Trailer { length }, _)
                    if length < max_head =>
                {
                    Chunk::Trailer { length: length + 1 }
                }
                (Chunk::TrailerStart { .. } | Chunk::Trailer { .. }, _) => {
                    return Err(ProtocolError::new(format!(
                        "trailers of more than {max_head} bytes"
                    )));
                }
                (Chunk::End, b'\n') => return Ok((None, rest)),
                (Chunk::SizeEnd { .. } | Chunk::End, _) => {
                    return Err(ProtocolError::new("a carriage return without a line feed"));
                }
                (Chunk::Data { .. }, _) => chunk,
            };
        }
        Ok((Some(chunk), rest))
    }
}

#[cfg(test)]
mod tests;
