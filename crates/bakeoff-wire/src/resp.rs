//! Implements a client session with Redis: RESP, version 2.
//!
//! Commands are arrays of binary strings. Replies come in the order of the commands, so many can be in flight on one
//! connection. There is no handshake.
//!
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! Not here: version 3 and its pushed messages (`HELLO` is never sent), subscriptions, the commands for "put" and for
//! signing in (`bakeoff_systems::redis`).

use crate::in_order::{InOrder, ReadReply};
use crate::{Busy, ProtocolError};

/// Maximum length of a received line: a number, a status or an error.
const LINE_MAX: usize = 64 << 10;
/// Maximum nesting depth of arrays.
const DEPTH_MAX: usize = 8;

/// Sets the limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum commands in flight.
    pub max_in_flight: usize,
    /// Maximum size of a reply in bytes. A server's values have up to 512 MiB by default.
    pub max_reply: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_in_flight: 10_000, max_reply: 64 << 20 }
    }
}

/// Holds a server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Status, such as `OK`.
    Status(&'a [u8]),
    /// Error, starting with its kind: `WRONGTYPE Operation against …`.
    Error(&'a [u8]),
    /// Signed 64-bit number.
    Integer(i64),
    /// String of any bytes.
    Bulk(&'a [u8]),
    /// Null: the key does not exist, or a wait timed out.
    Nil,
    /// List of replies.
    Array(Array<'a>),
}

/// Iterates over the replies of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Array<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (reply, rest) = read(self.rest)?;
        self.rest = rest;
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Array<'_> {}

/// Holds one session on one connection.
#[derive(Debug)]
pub struct Session {
    max_in_flight: usize,
    replies: InOrder,
    scan: Scan,
}

impl Default for Session {
    fn default() -> Self {
        Self::with_limits(Limits::default())
    }
}

impl Session {
    /// Creates a session with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        let Limits { max_in_flight, max_reply } = limits;
        let scan = Scan { max: max_reply, at: 0, open: Vec::new() };
        Self { max_in_flight, replies: InOrder::default(), scan }
    }

    /// Returns how many more commands can be sent now.
    pub fn capacity(&self) -> usize {
        self.replies.capacity(self.max_in_flight)
    }

    /// Writes a command: its name and its arguments.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Session::capacity`] is 0; nothing is written then.
    pub fn request(&mut self, words: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Busy> {
        self.replies.begin(self.max_in_flight)?;
        put_number(b'*', words.len(), out);
        for word in words {
            put_number(b'$', word.len(), out);
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Consumes all of `input` and calls `on` with each reply, in the order of the commands.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        on: &mut dyn FnMut(Reply<'_>),
    ) -> Result<(), ProtocolError> {
        self.replies.receive(&mut self.scan, input, on)
    }
}

/// Tracks how far an incomplete reply was scanned, so that no byte is scanned twice.
#[derive(Debug)]
struct Scan {
    /// Maximum size of a reply in bytes.
    max: usize,
    at: usize,
    /// Replies still missing in each open array, the innermost last.
    open: Vec<usize>,
}

impl ReadReply for Scan {
    type Reply<'a> = Reply<'a>;
    const PROTOCOL: &'static str = "resp";

    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, ProtocolError> {
        let Some(length) = self.end(bytes)? else { return Ok(None) };
        let whole = bytes.get(..length).and_then(read);
        let (reply, _) = whole.ok_or("a malformed reply")?;
        Ok(Some((reply, length)))
    }
}

impl Scan {
    /// Returns the end of the reply at the start of `bytes`; `None` if it is incomplete.
    fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let max = self.max;
        loop {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some((kind, line, length)) = line(rest)? else { return Ok(None) };
            let mut end = self.at + length;
            match kind {
                b'+' | b'-' => {}
                b':' => _ = number(line)?,
                b'$' => {
                    if let Some(size) = size(line)? {
                        if size > max {
                            return Err(ProtocolError::new(format!("a string of {size} bytes")));
                        }
                        let bulk = rest.get(length..).unwrap_or_default();
                        let Some(ending) = bulk.get(size..size + 2) else { return Ok(None) };
                        if ending != b"\r\n" {
                            return Err(ProtocolError::new("a string without its end"));
                        }
                        end += size + 2;
                    }
                }
                b'*' => {
                    if let Some(count) = size(line)?.filter(|&count| count > 0) {
                        // Each reply has at least four bytes.
                        if count > max / 4 || self.open.len() == DEPTH_MAX {
                            return Err(ProtocolError::new(format!(
                                "an array of {count}, {} deep",
                                self.open.len()
                            )));
                        }
                        self.open.push(count);
                        self.at = end;
                        continue;
                    }
                }
                other => {
                    return Err(ProtocolError::new(format!(
                        "a reply that begins with {other:#04x}"
                    )));
                }
            }
            if end > max {
                return Err(ProtocolError::new(format!("a reply of more than {max} bytes")));
            }
            self.at = end;
            while let Some(left) = self.open.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                self.open.pop();
            }
            if self.open.is_empty() {
                self.at = 0;
                return Ok(Some(end));
            }
        }
    }
}

/// Kind, content and full length of a line.
type Line<'a> = (u8, &'a [u8], usize);

/// Splits a line; `None` if it is incomplete.
fn line(bytes: &[u8]) -> Result<Option<Line<'_>>, ProtocolError> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    let head = rest.get(..LINE_MAX.min(rest.len())).unwrap_or_default();
    match head.iter().position(|&byte| byte == b'\n') {
        Some(at) => match head.get(..at).and_then(|line| line.strip_suffix(b"\r")) {
            Some(line) => Ok(Some((kind, line, at + 2))),
            None => Err(ProtocolError::new("a line that ends in a line feed alone")),
        },
        None if rest.len() >= LINE_MAX => {
            Err(ProtocolError::new(format!("a line of more than {LINE_MAX} bytes")))
        }
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64, ProtocolError> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("`{}` instead of a number", text.escape_ascii()).into())
}

/// Parses the length of a string or an array; `None` for -1, which stands for null.
fn size(text: &[u8]) -> Result<Option<usize>, ProtocolError> {
    match number(text)? {
        -1 => Ok(None),
        size => usize::try_from(size).map(Some).map_err(|_| format!("a length of {size}").into()),
    }
}

/// Parses a reply that [`Scan`] has found complete. Also returns the remaining bytes.
fn read(bytes: &[u8]) -> Option<(Reply<'_>, &[u8])> {
    let (kind, line, length) = line(bytes).ok()??;
    let rest = bytes.get(length..)?;
    let reply = match kind {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number(line).ok()?),
        b'$' => match size(line).ok()? {
            None => Reply::Nil,
            Some(size) => return Some((Reply::Bulk(rest.get(..size)?), rest.get(size + 2..)?)),
        },
        b'*' => match size(line).ok()? {
            None => Reply::Nil,
            Some(left) => {
                let array = Array { rest, left };
                let mut after = rest;
                for _ in 0..left {
                    (_, after) = read(after)?;
                }
                return Some((Reply::Array(array), after));
            }
        },
        _ => return None,
    };
    Some((reply, rest))
}

fn put_number(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    let mut digits = [0; 20];
    let mut left = number;
    let mut at = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        at -= 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the replies to a session that has sent two commands.
    fn events_of(bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut session = Session::with_limits(Limits { max_in_flight: 2, max_reply: 1000 });
        let mut out = Vec::new();
        session.request(&[b"GET", b"a"], &mut out).unwrap();
        session.request(&[b"GET", b"b"], &mut out).unwrap();
        assert_eq!(session.request(&[b"PING"], &mut out), Err(Busy));
        let mut seen = Vec::new();
        let result = session.receive(bytes, &mut |reply| seen.push(format!("{reply:?}")));
        if result.is_err() {
            assert!(session.receive(b"", &mut |_| {}).is_err());
        }
        result.map(|()| seen).map_err(|error| error.what)
    }

    #[test]
    fn writes_a_command_as_an_array_of_strings() {
        let mut out = Vec::new();
        let value = [b'x'; 120];
        Session::default().request(&[b"SET", b"k", &value], &mut out).unwrap();
        let expected = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$120\r\n", &value[..], b"\r\n"].concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn rejects_malformed_replies() {
        let cases: [(&[u8], &str); 10] = [
            (b"+OK\n", "a line that ends in a line feed alone"),
            (b"!OK\r\n", "a reply that begins with 0x21"),
            (b":one\r\n", "`one` instead of a number"),
            (b"$-2\r\n", "a length of -2"),
            (b"$2000\r\n", "a string of 2000 bytes"),
            (b"$1\r\nab\r\n", "a string without its end"),
            (b"*2000000\r\n", "an array of 2000000, 0 deep"),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "an array of 1, 8 deep"),
            (b"+1\r\n+2\r\n+3\r\n", "a reply without a request"),
            (b"*2\r\n$600\r\n", ""),
        ];
        for (bytes, expected) in cases {
            match events_of(bytes) {
                Err(what) => assert_eq!(what, format!("resp: {expected}")),
                Ok(_) => assert_eq!(expected, "", "{}", bytes.escape_ascii()),
            }
        }
        assert!(events_of(&[&b"+"[..], &[b'x'; LINE_MAX]].concat()).is_err());
    }

    #[test]
    fn large_reply_of_small_parts_is_rejected() {
        let part = [&b"$300\r\n"[..], &[b'x'; 300], b"\r\n"].concat();
        assert!(events_of(&[&b"*3\r\n"[..], &part, &part].concat()).is_ok());
        assert!(events_of(&[&b"*4\r\n"[..], &part, &part, &part, &part].concat()).is_err());
    }
}
