//! Parses a body in chunks (RFC 9112 section 7.1).

use super::Connection;
use crate::ProtocolError;

/// Tracks the position in a chunked body (RFC 9112 section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Within the size, after `digits` digits.
    Size {
        digits: u8,
        size: usize,
    },
    /// Within an extension, after `length` bytes of it.
    Extension {
        size: usize,
        length: usize,
    },
    /// After the CR of the size line.
    SizeEnd {
        size: usize,
    },
    Data {
        left: usize,
    },
    DataCr,
    DataLf,
    /// At the start of a trailer line, after `length` bytes of trailers.
    TrailerStart {
        length: usize,
    },
    Trailer {
        length: usize,
    },
    /// After the CR of the final empty line.
    End,
}

pub(super) const CHUNK_START: Chunk = Chunk::Size { digits: 0, size: 0 };

impl Connection {
    /// Consumes a part of a chunked body. Returns the new position, `None` at the end of the body, and the remaining
    /// bytes.
    pub(super) fn receive_chunks<'i>(
        &mut self,
        mut chunk: Chunk,
        mut rest: &'i [u8],
    ) -> Result<(Option<Chunk>, &'i [u8]), ProtocolError> {
        let max_head = self.limits.max_head;
        while let Some((&byte, after)) = rest.split_first() {
            if let Chunk::Data { left } = chunk {
                let (taken, after) = rest.split_at(left.min(rest.len()));
                self.gather(taken);
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
                    // Twelve hexadecimal digits fit in 48 bits.
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
                    return Err(ProtocolError::new("a chunk size that is not a number"));
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
                    self.check_body(self.length.saturating_add(size))?;
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
