//! Frames: the unit that both ends write and read, and what comes before the first.
//!
//! A frame is a head of nine bytes and a body: one byte of kind, four bytes of number (which request it belongs
//! to), four bytes of length, both big-endian. A shell on the way may print something first, so an agent begins
//! with [`PREAMBLE`], and whoever reads it passes over what stands before.
//!
//! Not here: what bodies mean (`message`).

use std::io::{self, Read, Write};
use std::str;

use serde::de::{DeserializeOwned, Error as _};

/// The bytes that an agent begins with.
pub(crate) const PREAMBLE: &[u8] = b"\x00bakeoff agent\x00";

/// Most bytes that may stand before the preamble: a message of the day, a script's complaint.
const BEFORE_MAX: usize = 64 << 10;

/// Most bytes of a body. The largest are samples of a long trial and a load's distributions.
const BODY_MAX: u32 = 256 << 20;

/// Bytes of a head.
const HEAD: usize = 9;

/// Most bytes that [`Kind::Data`] carries at once.
pub(crate) const DATA_MAX: usize = 256 << 10;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To the agent: a request, JSON. Its number is new.
    Ask = 1,
    /// From the agent: the answer to a request, JSON. Nothing of that number follows.
    Answer = 2,
    /// From the agent: why there is no answer, JSON. Nothing of that number follows.
    Refusal = 3,
    /// Either way, while a request is under way: JSON.
    Note = 4,
    /// Either way, while a request is under way: plain bytes.
    Data = 5,
    /// Either way: no more data of this request.
    End = 6,
}

impl Kind {
    fn read(byte: u8) -> Option<Self> {
        let all = [Self::Ask, Self::Answer, Self::Refusal, Self::Note, Self::Data, Self::End];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Reads JSON from a body. It is read as text, as records are: a type has one reader then, and not a second for bytes.
///
/// # Errors
/// When it is not UTF-8, or is no such message.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    serde_json::from_str(str::from_utf8(body).map_err(serde_json::Error::custom)?)
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// Writes it whole.
    ///
    /// # Errors
    /// Those of writing; `InvalidInput` for a body that the other end would refuse.
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

    /// Reads one; `None` where the other end closed between two frames.
    ///
    /// # Errors
    /// Those of reading; `InvalidData` for bytes that are no frame.
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
            return Err(invalid(format!("no frame begins with the byte {:#04x}", head[0])));
        };
        if length > BODY_MAX {
            return Err(invalid(format!("a frame of {length} bytes is larger than 256 MiB")));
        }
        // Memory grows with what comes, not with what is announced.
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

/// Reads to the end of the preamble, and returns what stood before it.
///
/// # Errors
/// Those of reading, with what was read until then: an end, or too much, without a preamble.
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
            return Err((invalid("64 KiB came, and no agent".to_owned()), seen));
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
    fn frames_are_read_as_they_were_written() {
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
    fn bytes_that_are_no_frame_are_an_error() {
        let read = |bytes: &[u8]| Frame::read(&mut &bytes[..]).unwrap_err().kind();
        assert_eq!(read(b"\x07\0\0\0\0\0\0\0\0"), io::ErrorKind::InvalidData);
        assert_eq!(read(b"\x01\0\0\0\0\xff\0\0\0"), io::ErrorKind::InvalidData);
        assert_eq!(read(b"\x01\0\0\0\0\0\0\0\x05abc"), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(b"\x01\0"), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_greeting_before_the_preamble_is_passed_over() {
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
    fn any_bytes_are_frames_or_an_error() {
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
