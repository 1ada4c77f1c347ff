//! Implements the watches of the canary, bakeoff's own test server: frames of one shape in both directions.
//!
//! A client begins with a request of HTTP/1.1 for another protocol (RFC 9110, section 7.8). After the answer 101 both
//! sides send frames. Numbers are little-endian:
//!
//! | field | bytes |
//! | --- | --- |
//! | kind of the frame | 1 |
//! | watcher, as its client numbers it | 4 |
//! | place among all writes | 8 |
//! | length of the name | 4 |
//! | length of the value | 4 |
//! | name | as given |
//! | value | as given |
//!
//! A watcher costs the client one frame, and a change costs the server one for each watcher.
//!
//! Not here: keys and values (`http1`), the server (crate `bakeoff`), what a frame means to a judge
//! (`bakeoff_systems`).

use crate::ProtocolError;

/// Path of the request that asks for watches.
pub const PATH: &str = "/watch";
/// Name of the protocol in the header `Upgrade`.
pub const PROTOCOL: &str = "bakeoff-watch";
/// Bytes before the name.
const HEADER: usize = 1 + 4 + 8 + 4 + 4;
/// Maximum length of a name in bytes.
const NAME_MAX: usize = 64 << 10;
/// Maximum length of a value in bytes.
const VALUE_MAX: usize = 16 << 20;
/// Maximum length of the answer to the first request in bytes.
const HEAD_MAX: usize = 8 << 10;
/// Largest buffer of an incomplete frame to keep, in bytes.
const KEPT_MAX: usize = 64 << 10;

/// Selects the meaning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Creates a watcher of the key `name`, for changes after `place`; from now on if it is 0.
    WatchKey,
    /// Creates a watcher of all keys that begin with `name`, for changes after `place`; from now on if it is 0.
    WatchPrefix,
    /// Asks for the progress of each watcher.
    AskProgress,
    /// Asks for a sign of life.
    Ping,
    /// The watcher exists, and observes changes after `place`.
    Created,
    /// The key `name` has a new value.
    Put,
    /// The key `name` was deleted.
    Delete,
    /// The watcher has received every change up to `place`.
    Progress,
    /// The watcher ended, because the first change that the server still has is that of `place`.
    Gone,
    /// Answers a [`Self::Ping`].
    Pong,
}

/// Each kind and its byte.
const KINDS: [(FrameKind, u8); 10] = [
    (FrameKind::WatchKey, b'k'),
    (FrameKind::WatchPrefix, b'w'),
    (FrameKind::AskProgress, b'a'),
    (FrameKind::Ping, b'i'),
    (FrameKind::Created, b'c'),
    (FrameKind::Put, b'p'),
    (FrameKind::Delete, b'd'),
    (FrameKind::Progress, b'r'),
    (FrameKind::Gone, b'g'),
    (FrameKind::Pong, b'o'),
];

/// Holds one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Meaning.
    pub kind: FrameKind,
    /// Number of the watcher; 0 in frames about the connection.
    pub watcher: u32,
    /// Place among all writes; 0 if it has none.
    pub place: u64,
    /// Key or prefix; empty if it has none.
    pub name: &'a [u8],
    /// Value; empty if it has none.
    pub value: &'a [u8],
}

impl Frame<'_> {
    /// Returns a frame without a name and a value.
    pub fn bare(kind: FrameKind, watcher: u32, place: u64) -> Self {
        Self { kind, watcher, place, name: &[], value: &[] }
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { kind, watcher, place, name, value } = *self;
        let byte = KINDS.iter().find(|(one, _)| *one == kind).map_or(0, |(_, byte)| *byte);
        out.reserve(HEADER + name.len() + value.len());
        out.push(byte);
        out.extend_from_slice(&watcher.to_le_bytes());
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
}

/// Parses the frame at the start of `bytes`. Returns it with its length in bytes; `None` if it is incomplete.
///
/// # Errors
/// Fails if the kind is unknown, or a length is above its limit.
pub fn read(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, ProtocolError> {
    let Some(header) = Header::read(bytes)? else { return Ok(None) };
    let name_end = HEADER + header.name;
    let Some(value) = bytes.get(name_end..header.frame_length()) else { return Ok(None) };
    let name = bytes.get(HEADER..name_end).unwrap_or_default();
    let Header { kind, watcher, place, .. } = header;
    Ok(Some((Frame { kind, watcher, place, name, value }, header.frame_length())))
}

/// The start of a frame.
struct Header {
    kind: FrameKind,
    watcher: u32,
    place: u64,
    /// Length of the name.
    name: usize,
    /// Length of the value.
    value: usize,
}

impl Header {
    /// Parses a header at the start of `bytes`; `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some((byte, rest)) = bytes.split_first() else { return Ok(None) };
        let kind = KINDS.iter().find(|(_, one)| one == byte).map(|(kind, _)| *kind);
        let kind = kind.ok_or_else(|| format!("unknown frame {byte:#04x}"))?;
        let Some((watcher, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some((place, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some((name, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some((value, _)) = rest.split_first_chunk() else { return Ok(None) };
        let (name, value) = (u32::from_le_bytes(*name), u32::from_le_bytes(*value));
        let length = |length: u32, max: usize, what: &str| {
            let length = usize::try_from(length).ok().filter(|&length| length <= max);
            length.ok_or_else(|| ProtocolError::new(format!("a frame with too long a {what}")))
        };
        Ok(Some(Self {
            kind,
            watcher: u32::from_le_bytes(*watcher),
            place: u64::from_le_bytes(*place),
            name: length(name, NAME_MAX, "name")?,
            value: length(value, VALUE_MAX, "value")?,
        }))
    }

    fn frame_length(&self) -> usize {
        HEADER + self.name + self.value
    }
}

/// Holds the client's side of one connection of watchers.
#[derive(Debug, Default)]
pub struct Session {
    /// Start of the server's first answer.
    head: Vec<u8>,
    is_open: bool,
    /// Start of an incomplete frame.
    partial: Vec<u8>,
    failed: bool,
}

impl Session {
    /// Appends the request for watches. `authority`: host and port of the server.
    pub fn open(&self, authority: &str, out: &mut Vec<u8>) {
        let request = format!(
            "GET {PATH} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n"
        );
        out.extend_from_slice(request.as_bytes());
    }

    /// Returns true if frames may be sent.
    pub fn is_open(&self) -> bool {
        self.is_open && !self.failed
    }

    /// Consumes all of `input` and calls `on` with each frame.
    ///
    /// # Errors
    /// Fails if the server refuses watches or breaks the protocol. The connection is then unusable, and all further
    /// calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let result = match self.failed {
            true => Err(ProtocolError::new("received after an error")),
            false => self.receive_all(input, on),
        };
        self.failed = result.is_err();
        result.map_err(|error| error.within("canary"))
    }

    fn receive_all(
        &mut self,
        input: &[u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        let rest = if self.is_open { input } else { self.receive_answer(input)? };
        let mut rest = self.complete_partial(rest, on)?;
        while let Some((frame, length)) = read(rest)? {
            on(frame)?;
            rest = rest.get(length..).unwrap_or_default();
        }
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Receives the answer to the first request. Returns the bytes after it.
    fn receive_answer<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
        for (at, &byte) in input.iter().enumerate() {
            self.head.push(byte);
            if self.head.ends_with(b"\r\n\r\n") {
                accepted(&self.head)?;
                (self.is_open, self.head) = (true, Vec::new());
                return Ok(input.get(at + 1..).unwrap_or_default());
            }
            if self.head.len() >= HEAD_MAX {
                return Err("an answer without the end of its head".into());
            }
        }
        Ok(&[])
    }

    /// Completes the frame that began in earlier bytes, so that no other frame is copied. Returns the bytes after it;
    /// none if it is still incomplete.
    fn complete_partial<'a>(
        &mut self,
        mut input: &'a [u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<(), ProtocolError>,
    ) -> Result<&'a [u8], ProtocolError> {
        while !self.partial.is_empty() {
            if let Some((frame, _)) = read(&self.partial)? {
                on(frame)?;
                self.partial.clear();
                self.partial.shrink_to(KEPT_MAX);
                break;
            }
            let header = Header::read(&self.partial)?;
            let length = header.map_or(HEADER, |header| header.frame_length());
            let missing = length.saturating_sub(self.partial.len());
            let Some((taken, rest)) = input.split_at_checked(missing) else {
                self.partial.extend_from_slice(input);
                return Ok(&[]);
            };
            self.partial.extend_from_slice(taken);
            input = rest;
        }
        Ok(input)
    }
}

/// Checks that the server's first answer accepts the protocol.
fn accepted(head: &[u8]) -> Result<(), ProtocolError> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    match line.strip_prefix(b"HTTP/1.1 101") {
        Some([] | [b' ', ..]) => Ok(()),
        _ => Err(format!("the server answered `{}` and not 101", line.escape_ascii()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: bakeoff-watch\r\n\r\n";

    fn frames() -> Vec<Frame<'static>> {
        let put = Frame {
            kind: FrameKind::Put,
            watcher: u32::MAX,
            place: u64::MAX,
            name: b"bakeoff/1",
            value: &[0xff, 0, b'\r', b'\n'],
        };
        vec![
            Frame::bare(FrameKind::Created, 7, 12),
            put,
            Frame { kind: FrameKind::Delete, value: &[], ..put },
            Frame { name: &[], value: &[], ..put },
            Frame::bare(FrameKind::Progress, 7, 14),
            Frame::bare(FrameKind::Gone, 7, 90),
            Frame::bare(FrameKind::Pong, 0, 0),
        ]
    }

    fn bytes() -> Vec<u8> {
        let mut bytes = ACCEPTED.to_vec();
        frames().iter().for_each(|frame| frame.write(&mut bytes));
        bytes
    }

    /// Returns the frames of a session, or its error.
    fn received(pieces: &[&[u8]]) -> Result<Vec<String>, String> {
        let (mut session, mut seen) = (Session::default(), Vec::new());
        for piece in pieces {
            let result = session.receive(piece, &mut |frame| {
                seen.push(format!("{frame:?}"));
                Ok(())
            });
            if let Err(error) = result {
                assert!(session.receive(b"", &mut |_| Ok(())).is_err(), "an error is for good");
                assert!(!session.is_open());
                return Err(error.what);
            }
        }
        Ok(seen)
    }

    #[test]
    fn every_kind_is_read_as_written() {
        for (kind, _) in KINDS {
            let frame = Frame { kind, watcher: 3, place: 5, name: b"n", value: b"v" };
            let mut out = Vec::new();
            frame.write(&mut out);
            assert_eq!(read(&out), Ok(Some((frame, out.len()))));
            for end in 0..out.len() {
                assert_eq!(read(&out[..end]), Ok(None), "{kind:?} up to {end}");
            }
        }
    }

    #[test]
    fn cuts_at_any_byte_change_nothing() {
        let bytes = bytes();
        let expected: Vec<_> = frames().iter().map(|frame| format!("{frame:?}")).collect();
        assert_eq!(received(&[&bytes]).unwrap(), expected);
        for cut in 0..=bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(received(&[first, second]).unwrap(), expected, "cut at {cut}");
        }
        assert_eq!(received(&bytes.chunks(1).collect::<Vec<_>>()).unwrap(), expected);
    }

    #[test]
    fn session_is_open_once_the_server_accepts() {
        let (mut session, mut out) = (Session::default(), Vec::new());
        session.open("127.0.0.1:80", &mut out);
        assert!(out.starts_with(b"GET /watch HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"));
        let (all, last) = ACCEPTED.split_at(ACCEPTED.len() - 1);
        for (piece, is_open) in [(all, false), (last, true)] {
            session.receive(piece, &mut |_| panic!("there is no frame")).unwrap();
            assert_eq!(session.is_open(), is_open);
        }
    }

    #[test]
    fn refuses_bytes_that_break_the_protocol() {
        let with = |bytes: &[u8]| received(&[ACCEPTED, bytes]).unwrap_err();
        assert_eq!(with(b"x"), "canary: unknown frame 0x78");
        let mut long = Vec::new();
        Frame::bare(FrameKind::Put, 0, 0).write(&mut long);
        for (at, what) in [(13, "name"), (17, "value")] {
            let mut long = long.clone();
            long[at..at + 4].fill(0xff);
            assert_eq!(with(&long), format!("canary: a frame with too long a {what}"));
        }
        let refused = received(&[b"HTTP/1.1 503 Service Unavailable\r\n\r\n"]).unwrap_err();
        assert!(refused.contains("answered `HTTP/1.1 503 Service Unavailable` and not 101"));
        assert!(received(&[b"HTTP/1.1 1010\r\n\r\n"]).is_err());
        assert!(received(&[&[b'a'; HEAD_MAX]]).unwrap_err().contains("without the end"));
    }
}
