//! Frames: the unit that both ends read and write, and the preamble before the first.
//!
//! A frame has a head of nine bytes and a body. The head holds the kind (one byte), the number of the request (four
//! bytes, big-endian) and the length of the body (four bytes, big-endian). A login shell may print something first, so
//! an agent starts with [`PREAMBLE`], and the reader skips everything before it.
//!
//! Not here: what bodies mean (`message`).

use std::io::{self, Read, Write};
use std::str;

use serde::de::{DeserializeOwned, Error as _};

/// Bytes that an agent sends first.
pub(crate) const PREAMBLE: &[u8] = b"\x00bakeoff agent\x00";

/// Most bytes before the preamble, such as a message of the day or a script's errors.
const BEFORE_MAX: usize = 64 << 10;

/// Most bytes in a body. The largest bodies are the samples of a long trial and the histograms of a load.
const BODY_MAX: u32 = 256 << 20;

const HEAD: usize = 9;

/// Most bytes in one [`Kind::Data`] frame.
pub(crate) const DATA_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Request to the agent, as JSON, with a new number.
    Ask = 1,
    /// Answer from the agent, as JSON. The last frame of its number.
    Answer = 2,
    /// Refusal from the agent, as JSON. The last frame of its number.
    Refusal = 3,
    /// Note in either direction during a request, as JSON.
    Note = 4,
    /// Plain bytes in either direction during a request.
    Data = 5,
    /// End of data in either direction.
    End = 6,
}

impl Kind {
    fn read(byte: u8) -> Option<Self> {
        let all = [Self::Ask, Self::Answer, Self::Refusal, Self::Note, Self::Data, Self::End];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Parses a body as JSON text, as records are parsed, so each type needs only one deserializer.
///
/// # Errors
/// When the body is not UTF-8, or not a `T`.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    serde_json::from_str(str::from_utf8(body).map_err(serde_json::Error::custom)?)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Writes the whole frame and flushes.
    ///
    /// # Errors
    /// Write errors, and `InvalidInput` if the body is longer than 256 MiB.
    pub(crate) fn write(&self, to: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let length = u32::try_from(self.body.len()).ok().filter(|&length| length <= BODY_MAX);
        let length = length.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a message is larger than 256 MiB")
        })?;
        let mut head = [0; HEAD];
        head[0] = self.kind as u8;
        head[1..5].copy_from_slice(&self.number.to_be_bytes());
        head[5..].copy_from_slice(&length.to_be_bytes());
        to.write_all(&head)?;
        to.write_all(&self.body)?;
        to.flush()
    }

    /// Reads one frame. Returns `None` if the other end closed between two frames.
    ///
    /// # Errors
    /// Read errors, and `InvalidData` if the bytes are not a frame.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        let mut have = 0;
        while have < HEAD {
            match from.read(&mut head[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (number, length) = (word(1), word(5));
        let Some(kind) = Kind::read(head[0]) else {
            return Err(invalid(format!("invalid frame: unknown kind {:#04x}", head[0])));
        };
        if length > BODY_MAX {
            return Err(invalid(format!("invalid frame: {length} bytes, more than 256 MiB")));
        }
        // Memory grows with the bytes received, not with the length announced.
        let mut body = Vec::new();
        let read = from.take(length.into()).read_to_end(&mut body)?;
        if read < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Self { kind, number, body }))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads to the end of the preamble and returns the bytes before it.
///
/// # Errors
/// Read errors, end of input, and more than 64 KiB without a preamble. Each comes with the bytes read so far.
pub(crate) fn skip_to_preamble(from: &mut impl Read) -> Result<Vec<u8>, (io::Error, Vec<u8>)> {
    let mut seen = Vec::new();
    loop {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) => return Err((io::ErrorKind::UnexpectedEof.into(), seen)),
            Ok(_) => seen.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err((error, seen)),
        }
        if seen.ends_with(PREAMBLE) {
            seen.truncate(seen.len() - PREAMBLE.len());
            return Ok(seen);
        }
        if seen.len() > BEFORE_MAX {
            return Err((
                invalid("no agent started within the first 64 KiB of output".to_owned()),
                seen,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes).unwrap());
        bytes
    }

    #[test]
    fn frames_survive_a_round_trip() {
        let frames = [
            Frame { kind: Kind::Ask, number: 7, body: b"{}".to_vec() },
            Frame { kind: Kind::Data, number: u32::MAX, body: vec![0; 100_000] },
            Frame { kind: Kind::End, number: 7, body: Vec::new() },
        ];
        let bytes = bytes(&frames);
        let mut from = &bytes[..];
        for frame in frames {
            assert_eq!(Frame::read(&mut from).unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut from).unwrap(), None);
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let read = |bytes: &[u8]| Frame::read(&mut &bytes[..]).unwrap_err().kind();
        assert_eq!(read(b"\x07\0\0\0\0\0\0\0\0"), io::ErrorKind::InvalidData);
        assert_eq!(read(b"\x01\0\0\0\0\xff\0\0\0"), io::ErrorKind::InvalidData);
        assert_eq!(read(b"\x01\0\0\0\0\0\0\0\x05abc"), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(b"\x01\0"), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn skips_a_greeting_before_the_preamble() {
        let mut text = b"Welcome!\n\0bakeoff\n".to_vec();
        text.extend(PREAMBLE);
        text.extend(b"rest");
        let mut from = &text[..];
        assert_eq!(skip_to_preamble(&mut from).unwrap(), b"Welcome!\n\0bakeoff\n");
        assert_eq!(from, b"rest");
        let (_, seen) = skip_to_preamble(&mut &b"sh: no such file"[..]).unwrap_err();
        assert_eq!(seen, b"sh: no such file");
        assert!(skip_to_preamble(&mut io::repeat(b'x')).is_err());
    }

    #[test]
    fn arbitrary_bytes_decode_or_fail_cleanly() {
        let seed = bytes(&[
            Frame { kind: Kind::Ask, number: 1, body: b"{\"ask\":\"now\"}".to_vec() },
            Frame { kind: Kind::End, number: 1, body: Vec::new() },
        ]);
        bakeoff_fuzz::run("frames of an agent", &[&seed], &["\0bakeoff agent\0"], |bytes| {
            let mut from = bytes;
            while let Ok(Some(frame)) = Frame::read(&mut from) {
                assert!(frame.body.len() <= bytes.len());
            }
            let _ = skip_to_preamble(&mut &bytes[..]);
        });
    }
}
