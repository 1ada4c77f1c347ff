//! Implements a client session with memcached: the meta commands of its text protocol.
//!
//! A request is a line; `ms` (set) is followed by the value and a line break. Each request has one reply, in the
//! order of the requests. There is no handshake. A value is not escaped, so only its length separates it from the
//! next reply. A malformed reply therefore ends the session.
//!
//! Source: `doc/protocol.txt` of memcached 1.6, which has these commands since 1.6.0.
//!
//! Not here: the binary protocol, which is deprecated; quiet commands, which have no reply; the command that means
//! "put" (`bakeoff_systems::memcached`).

use crate::in_order::{InOrder, ReadReply};
use crate::{Busy, ProtocolError};

/// Maximum key length in bytes. After a longer key a server reads the value as commands.
pub const KEY_MAX: usize = 250;
/// Maximum length of a received line in bytes.
const LINE_MAX: usize = 2 << 10;
/// Maximum size of a received value in bytes. Servers allow items of up to 1 GiB, by default 1 MiB.
const VALUE_MAX: usize = 64 << 20;
/// Maximum size of received statistics in bytes.
const STATS_MAX: usize = 256 << 10;
/// Maximum requests in flight.
const IN_FLIGHT_MAX: usize = 10_000;

/// Describes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Reads a key's value, and its version if requested.
    Get {
        /// Key, at most [`KEY_MAX`] bytes.
        key: &'a [u8],
        /// True to read the version, too.
        versioned: bool,
    },
    /// Stores a value.
    Set {
        /// Key, at most [`KEY_MAX`] bytes.
        key: &'a [u8],
        /// Value of any bytes.
        value: &'a [u8],
        /// Condition for the write.
        when: StoreCondition,
    },
    /// Deletes a key.
    Delete(&'a [u8]),
    /// Reads the server's version.
    Version,
    /// Reads statistics: the general ones, or those of a group such as `settings`.
    Stats(&'a str),
    /// Removes every key.
    FlushAll,
}

/// Sets the condition under which a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCondition {
    /// No condition.
    Always,
    /// Only if the key does not exist.
    Absent,
    /// Only if the key has this version.
    Version(u64),
}

/// Holds a server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Success: `HD`, `OK`.
    Done,
    /// Value, and its version if requested.
    Value(&'a [u8], Option<u64>),
    /// The key does not exist: `EN`, `NF`.
    Missing,
    /// The condition of an `ms` does not hold: `NS`, `EX`.
    NotStored,
    /// Version of the server.
    Version(&'a [u8]),
    /// Lines of `STAT name value`.
    Stats(&'a [u8]),
    /// Error in the server's words.
    Error(&'a [u8]),
}

/// Holds one session on one connection.
#[derive(Debug, Default)]
pub struct Session {
    replies: InOrder,
}

/// Parses replies of the meta commands.
struct Meta;

impl ReadReply for Meta {
    type Reply<'a> = Reply<'a>;
    const PROTOCOL: &'static str = "memcached";

    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, ProtocolError> {
        read(bytes)
    }
}

impl Session {
    /// Returns how many more requests can be sent now.
    pub fn capacity(&self) -> usize {
        self.replies.capacity(IN_FLIGHT_MAX)
    }

    /// Writes a request. A key that the protocol cannot carry is replaced by none, which the server rejects with an
    /// error.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Session::capacity`] is 0; nothing is written then.
    pub fn request(&mut self, request: Request<'_>, out: &mut Vec<u8>) -> Result<(), Busy> {
        self.replies.begin(IN_FLIGHT_MAX)?;
        match request {
            Request::Get { key, versioned } => {
                line(&[b"mg", carried(key), if versioned { b"v c" } else { b"v" }], out);
            }
            // Without a key the server expects no value and would read it as commands.
            Request::Set { key, .. } if carried(key).is_empty() => line(&[b"ms"], out),
            Request::Set { key, value, when } => {
                let condition = match when {
                    StoreCondition::Always => String::new(),
                    StoreCondition::Absent => " ME".to_owned(),
                    StoreCondition::Version(version) => format!(" C{version}"),
                };
                let length = format!("{}{condition}", value.len());
                line(&[b"ms", key, length.as_bytes()], out);
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            Request::Delete(key) => line(&[b"md", carried(key)], out),
            Request::Version => line(&[b"version"], out),
            Request::Stats("") => line(&[b"stats"], out),
            Request::Stats(group) => line(&[b"stats", carried(group.as_bytes())], out),
            Request::FlushAll => line(&[b"flush_all"], out),
        }
        Ok(())
    }

    /// Consumes all of `input` and calls `on` with each reply, in the order of the requests.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        on: &mut dyn FnMut(Reply<'_>),
    ) -> Result<(), ProtocolError> {
        self.replies.receive(&mut Meta, input, on)
    }
}

/// Returns the key if a line can carry it, else an empty one.
fn carried(key: &[u8]) -> &[u8] {
    let fits = key.len() <= KEY_MAX && key.iter().all(u8::is_ascii_graphic);
    if fits { key } else { b"" }
}

fn line(words: &[&[u8]], out: &mut Vec<u8>) {
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}

/// Parses the reply at the start of `bytes`. Returns it with its length in bytes; `None` if it is incomplete.
fn read(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
    let Some((line, length)) = first_line(bytes)? else { return Ok(None) };
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let reply = match words.next().unwrap_or_default() {
        b"HD" | b"OK" => Reply::Done,
        b"EN" | b"NF" => Reply::Missing,
        b"NS" | b"EX" => Reply::NotStored,
        b"VERSION" => Reply::Version(words.next().unwrap_or_default()),
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Reply::Error(line),
        b"VA" => {
            let written = words.next().unwrap_or_default();
            let size = number(written).and_then(|size| usize::try_from(size).ok());
            let size = size.filter(|&size| size <= VALUE_MAX);
            let size = size.ok_or_else(|| format!("a value of `{}`", written.escape_ascii()))?;
            let version = words.find_map(|word| number(word.strip_prefix(b"c")?));
            let end = length + size + 2;
            let Some(value) = bytes.get(length..end) else { return Ok(None) };
            let value = value.strip_suffix(b"\r\n").ok_or("a value without its end")?;
            return Ok(Some((Reply::Value(value, version), end)));
        }
        b"STAT" | b"END" => return stats(bytes),
        _ => return Err(format!("unknown reply `{}`", line.escape_ascii()).into()),
    };
    Ok(Some((reply, length)))
}

/// Returns the first line without its end, and its length including it; `None` if it is incomplete.
fn first_line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let head = bytes.get(..LINE_MAX).unwrap_or(bytes);
    let Some(end) = head.iter().position(|&byte| byte == b'\n') else {
        let too_long = bytes.len() >= LINE_MAX;
        return if too_long { Err("a line without its end".into()) } else { Ok(None) };
    };
    let line = head.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.ok_or("a line that ends in a line feed alone")?;
    Ok(Some((line, end + 1)))
}

/// Parses statistics up to `END`.
fn stats(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
    let mut taken = 0;
    while let Some((line, length)) = first_line(bytes.get(taken..).unwrap_or_default())? {
        if line == b"END" {
            let lines = bytes.get(..taken).unwrap_or_default();
            return Ok(Some((Reply::Stats(lines), taken + length)));
        }
        taken += length;
        if !line.starts_with(b"STAT ") || taken > STATS_MAX {
            return Err("statistics without their end".into());
        }
    }
    Ok(None)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(request: Request<'_>) -> String {
        let mut out = Vec::new();
        Session::default().request(request, &mut out).unwrap();
        out.escape_ascii().to_string()
    }

    /// Returns the replies to a session that has sent two requests.
    fn events_of(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
        let (mut session, mut out, mut seen) = (Session::default(), Vec::new(), Vec::new());
        session.request(Request::Get { key: b"a", versioned: true }, &mut out).unwrap();
        session.request(Request::Stats(""), &mut out).unwrap();
        for piece in pieces {
            let received = session.receive(piece, &mut |reply| seen.push(format!("{reply:?}")));
            if let Err(error) = received {
                assert!(session.receive(b"", &mut |_| {}).is_err(), "an error is for good");
                assert_eq!(session.request(Request::Version, &mut out), Err(Busy));
                return Err(error.what);
            }
        }
        Ok(seen)
    }

    #[test]
    fn writes_requests_as_lines_and_values_by_their_length() {
        assert_eq!(written(Request::Get { key: b"k", versioned: false }), r"mg k v\r\n");
        assert_eq!(written(Request::Get { key: b"k", versioned: true }), r"mg k v c\r\n");
        let set = |when| written(Request::Set { key: b"k", value: b"\r\n", when });
        assert_eq!(set(StoreCondition::Always), r"ms k 2\r\n\r\n\r\n");
        assert_eq!(set(StoreCondition::Absent), r"ms k 2 ME\r\n\r\n\r\n");
        assert_eq!(set(StoreCondition::Version(7)), r"ms k 2 C7\r\n\r\n\r\n");
        assert_eq!(written(Request::Delete(b"k")), r"md k\r\n");
        assert_eq!(written(Request::Stats("settings")), r"stats settings\r\n");
    }

    #[test]
    fn value_of_an_invalid_key_is_never_sent() {
        let long = [b'k'; KEY_MAX + 1];
        for key in [&long[..], b"a b", b"a\r\nflush_all", b"", b"\x80"] {
            let set = Request::Set { key, value: b"flush_all", when: StoreCondition::Always };
            assert_eq!(written(set), r"ms\r\n");
        }
        assert_eq!(written(Request::Delete(b"a\r\nflush_all")), r"md \r\n");
    }

    #[test]
    fn reads_replies_whole_and_in_pieces() {
        let bytes = b"VA 4 c7 s4\r\n\r\n\x00\xff\r\nSTAT a 1\r\nSTAT b 2\r\nEND\r\n";
        let whole = events_of(&[bytes]).unwrap();
        assert_eq!(whole.len(), 2, "{whole:?}");
        assert!(whole[0].ends_with("Some(7))") && whole[1].starts_with("Stats"), "{whole:?}");
        assert_eq!(events_of(&bytes.chunks(1).collect::<Vec<_>>()).unwrap(), whole);
    }

    #[test]
    fn refuses_bytes_that_break_the_protocol() {
        for (bytes, expected) in [
            (&b"MAYBE\r\n"[..], "unknown reply `MAYBE`"),
            (b"\r\n", "unknown reply ``"),
            (b"HD\n", "a line that ends in a line feed alone"),
            (b"VA -1\r\n", "a value of `-1`"),
            (b"VA +1\r\n", "a value of `+1`"),
            (b"VA 18446744073709551615\r\n", "a value of `18446744073709551615`"),
            (b"VA 67108865\r\n", "a value of `67108865`"),
            (b"VA 1\r\nabc", "a value without its end"),
            (b"STAT a 1\r\nHD\r\n", "statistics without their end"),
            (b"HD\r\nHD\r\nHD\r\n", "a reply without a request"),
            (&[b'x'; LINE_MAX], "a line without its end"),
            (&b"STAT a 1\r\n".repeat(STATS_MAX / 10 + 1), "statistics without their end"),
        ] {
            assert_eq!(events_of(&[bytes]).unwrap_err(), format!("memcached: {expected}"));
        }
    }
}
