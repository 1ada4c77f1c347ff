//! Implements a client session with Redis: RESP, version 2, and what subscribers need of version 3.
//!
//! Commands are arrays of binary strings. Replies come in the order of the commands, so many can be in flight on one
//! connection. There is no handshake. Version 3 begins with `HELLO 3`. The server then also pushes messages between
//! its replies, for the channels to which the client has subscribed.
//!
//! Source: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! Not here: other types of version 3 than maps, nulls and pushed messages, the commands for "put" and for signing in
//! (`bakeoff_systems::redis`).

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
    /// List of replies. In version 3 also a map: keys and values in turn.
    Array(Array<'a>),
    /// Pushed message, its kind first, such as `message`. The kinds `subscribe` and `psubscribe` answer a command.
    Push(Array<'a>),
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
    /// Creates a session of version 3. Its first command must be `HELLO 3`, or `AUTH` before that. Each command
    /// subscribes to one channel or pattern.
    pub fn version_3() -> Self {
        let mut session = Self::default();
        session.scan.is_version_3 = true;
        session
    }

    /// Creates a session with these limits.
    pub fn with_limits(limits: Limits) -> Self {
        let Limits { max_in_flight, max_reply } = limits;
        let scan = Scan { max: max_reply, is_version_3: false, at: 0, open: Vec::new() };
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

    /// Consumes all of `input` and calls `on` with each reply, in the order of the commands, and with each pushed
    /// message.
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
    is_version_3: bool,
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

    fn is_answer(reply: &Reply<'_>) -> bool {
        let Reply::Push(message) = reply else { return true };
        let kind = message.clone().next();
        matches!(kind, Some(Reply::Bulk(b"subscribe" | b"psubscribe")))
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
                b'_' if self.is_version_3 => {}
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
                b'>' if self.is_version_3 && !self.open.is_empty() => {
                    return Err(ProtocolError::new("a pushed message within a reply"));
                }
                b'*' | b'%' | b'>' if kind == b'*' || self.is_version_3 => {
                    if let Some(count) = count(kind, line)?.filter(|&count| count > 0) {
                        // Each reply has at least three bytes.
                        if count > max / 3 || self.open.len() == DEPTH_MAX {
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

/// Parses the number of replies in an array, a map or a pushed message.
fn count(kind: u8, text: &[u8]) -> Result<Option<usize>, ProtocolError> {
    let each = if kind == b'%' { 2 } else { 1 };
    Ok(size(text)?.map(|size| size.saturating_mul(each)))
}

/// Parses a reply that [`Scan`] has found complete. Also returns the remaining bytes.
fn read(bytes: &[u8]) -> Option<(Reply<'_>, &[u8])> {
    let (kind, line, length) = line(bytes).ok()??;
    let rest = bytes.get(length..)?;
    let reply = match kind {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number(line).ok()?),
        b'_' => Reply::Nil,
        b'$' => match size(line).ok()? {
            None => Reply::Nil,
            Some(size) => return Some((Reply::Bulk(rest.get(..size)?), rest.get(size + 2..)?)),
        },
        b'*' | b'%' | b'>' => match count(kind, line).ok()? {
            None => Reply::Nil,
            Some(left) => {
                let array = Array { rest, left };
                let mut after = rest;
                for _ in 0..left {
                    (_, after) = read(after)?;
                }
                let reply = if kind == b'>' { Reply::Push(array) } else { Reply::Array(array) };
                return Some((reply, after));
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

    /// Returns the replies to a session of version 3 that has sent `HELLO 3`, a `SUBSCRIBE` and a `GET`.
    fn events_of_version_3(bytes: &[u8]) -> Result<Vec<String>, String> {
        let (mut session, mut out) = (Session::version_3(), Vec::new());
        session.request(&[b"HELLO", b"3"], &mut out).unwrap();
        session.request(&[b"SUBSCRIBE", b"c"], &mut out).unwrap();
        session.request(&[b"GET", b"k"], &mut out).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut seen = Vec::new();
        let received = session.receive(bytes, &mut |reply| {
            seen.push(match reply {
                Reply::Array(array) => format!("array of {}", array.count()),
                Reply::Push(mut array) => match array.next() {
                    Some(Reply::Bulk(kind)) => format!("pushed {} and {}", text(kind), array.len()),
                    other => format!("pushed {other:?}"),
                },
                Reply::Bulk(value) => text(value),
                other => format!("{other:?}"),
            });
        });
        received.map(|()| seen).map_err(|error| error.what)
    }

    #[test]
    fn version_3_pushes_messages_between_its_replies() {
        let hello = "%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*0\r\n";
        let subscribed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\nset\r\n";
        let bytes = [hello, subscribed, message, "_\r\n", message].concat();
        let expected = [
            "array of 4",
            "pushed subscribe and 2",
            "pushed message and 2",
            "Nil",
            "pushed message and 2",
        ];
        assert_eq!(events_of_version_3(bytes.as_bytes()).unwrap(), expected);
        let again = [&bytes, subscribed].concat();
        let refused = events_of_version_3(again.as_bytes()).unwrap_err();
        assert_eq!(refused, "resp: a reply without a request");
        let within = format!("*1\r\n{message}");
        let refused = events_of_version_3(within.as_bytes()).unwrap_err();
        assert_eq!(refused, "resp: a pushed message within a reply");
        let many = "%9223372036854775807\r\n";
        assert!(events_of_version_3(many.as_bytes()).is_err());
    }

    #[test]
    fn version_2_has_no_pushed_messages() {
        for bytes in [">1\r\n+a\r\n", "%1\r\n+a\r\n+b\r\n", "_\r\n"] {
            let kind = bytes.as_bytes()[0];
            let expected = format!("resp: a reply that begins with {kind:#04x}");
            assert_eq!(events_of(bytes.as_bytes()), Err(expected));
        }
    }

    #[test]
    fn large_reply_of_small_parts_is_rejected() {
        let part = [&b"$300\r\n"[..], &[b'x'; 300], b"\r\n"].concat();
        assert!(events_of(&[&b"*3\r\n"[..], &part, &part].concat()).is_ok());
        assert!(events_of(&[&b"*4\r\n"[..], &part, &part, &part, &part].concat()).is_err());
    }
}
