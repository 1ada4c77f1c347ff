//! A client session with Newcomer. FILL IN: its protocol in two sentences, and its specification.
//!
//! Not here: the request of a "put" (`bakeoff_systems::newcomer`).

use bakeoff_wire::in_order::{InOrder, ReadReply};
use bakeoff_wire::{Busy, ProtocolError};

/// Longest accepted line, in bytes.
const LINE_MAX: usize = 64 << 10;
/// Largest accepted value, in bytes.
const VALUE_MAX: usize = 64 << 20;
/// Most requests in flight.
const IN_FLIGHT_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The request succeeded.
    Done,
    /// A value.
    Value(&'a [u8]),
    /// Names, separated by spaces.
    Names(&'a [u8]),
    /// The key does not exist.
    Missing,
    /// An error, in the server's words.
    Error(&'a [u8]),
}

/// A session on one connection.
#[derive(Debug, Default)]
pub struct Session {
    replies: InOrder,
}

/// Parser of the replies.
struct Replies;

impl ReadReply for Replies {
    type Reply<'a> = Reply<'a>;
    const PROTOCOL: &'static str = "newcomer";

    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, ProtocolError> {
        read(bytes)
    }
}

impl Session {
    /// Writes a request: words, and a value if it has one.
    ///
    /// # Errors
    /// [`Busy`] when too many requests are in flight. Nothing is written then.
    pub fn request(
        &mut self,
        words: &[&[u8]],
        value: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        self.replies.begin(IN_FLIGHT_MAX)?;
        // FILL IN: the format of a request.
        out.extend_from_slice(&words.join(&b' '));
        if let Some(value) = value {
            out.extend_from_slice(format!(" {}\r\n", value.len()).as_bytes());
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Processes received bytes and calls `on` with each answer, in the order of the requests.
    ///
    /// # Errors
    /// When the server violates the protocol. The connection is then unusable, and all later calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        on: &mut dyn FnMut(Reply<'_>),
    ) -> Result<(), ProtocolError> {
        self.replies.receive(&mut Replies, input, on)
    }
}

/// Parses the reply at the start of `bytes`. Also returns its length, or `None` while it is incomplete.
fn read(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
    // FILL IN: the format of a reply. Every length has a limit.
    let head = bytes.get(..LINE_MAX.min(bytes.len())).unwrap_or_default();
    let Some(end) = head.windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() < LINE_MAX { Ok(None) } else { Err("too long a line".into()) };
    };
    let (line, length) = (head.get(..end).unwrap_or_default(), end + 2);
    let split = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let (word, rest) = (line.get(..split).unwrap_or_default(), line.get(split + 1..));
    let rest = rest.unwrap_or_default();
    let reply = match word {
        b"OK" => Reply::Done,
        b"NONE" => Reply::Missing,
        b"NAMES" => Reply::Names(rest),
        b"ERROR" => Reply::Error(rest),
        b"VALUE" => {
            let size = std::str::from_utf8(rest).ok().and_then(|text| text.parse::<usize>().ok());
            let size = size.filter(|&size| size <= VALUE_MAX);
            let size = size.ok_or_else(|| format!("a value of `{}`", rest.escape_ascii()))?;
            let Some(value) = bytes.get(length..length + size + 2) else { return Ok(None) };
            let value = value.strip_suffix(b"\r\n").ok_or("a value without its end")?;
            return Ok(Some((Reply::Value(value), length + size + 2)));
        }
        other => return Err(format!("`{}` is not a reply", other.escape_ascii()).into()),
    };
    Ok(Some((reply, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the replies of a session that has sent two requests.
    fn heard(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
        let (mut session, mut out, mut seen) = (Session::default(), Vec::new(), Vec::new());
        session.request(&[b"GET", b"a"], None, &mut out).unwrap();
        session.request(&[b"GET", b"b"], None, &mut out).unwrap();
        for piece in pieces {
            let received = session.receive(piece, &mut |reply| seen.push(format!("{reply:?}")));
            if let Err(error) = received {
                assert!(session.receive(b"", &mut |_| {}).is_err(), "an error is for good");
                return Err(error.what);
            }
        }
        Ok(seen)
    }

    #[test]
    fn writes_a_request_with_its_value() {
        let mut out = Vec::new();
        Session::default().request(&[b"PUT", b"k"], Some(b"one"), &mut out).unwrap();
        assert_eq!(out, b"PUT k 3\r\none\r\n");
    }

    #[test]
    fn reads_replies_whole_and_in_pieces() {
        let bytes = b"VALUE 4\r\n\r\n\x00\xff\r\nNONE\r\n";
        let whole = heard(&[bytes]).unwrap();
        assert_eq!(whole.len(), 2);
        assert_eq!(heard(&bytes.chunks(1).collect::<Vec<_>>()).unwrap(), whole);
    }

    #[test]
    fn refuses_bytes_that_break_the_protocol() {
        for (bytes, expected) in [
            (&b"MAYBE\r\n"[..], "newcomer: `MAYBE` is not a reply"),
            (b"VALUE -1\r\n", "newcomer: a value of `-1`"),
            (b"VALUE 1\r\nabc", "newcomer: a value without its end"),
            (b"OK\r\nOK\r\nOK\r\n", "newcomer: a reply without a request"),
        ] {
            assert_eq!(heard(&[bytes]).unwrap_err(), expected);
        }
    }
}
