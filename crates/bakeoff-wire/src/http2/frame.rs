//! Defines frames (RFC 9113 sections 4 and 6): their numbers, parsing and writing.

use crate::ProtocolError;

// Frame types, RFC 9113 section 6.
pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const PRIORITY: u8 = 0x2;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PUSH_PROMISE: u8 = 0x5;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;

// Flags, RFC 9113 section 6.
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// Size of a frame header: length, type, flags and stream (section 4.1).
pub(super) const FRAME_HEADER: usize = 9;
/// Initial window size in bytes (section 6.9.2).
pub(super) const FIRST_WINDOW: u32 = 65_535;
/// Maximum of windows, increments and stream numbers (sections 6.9.1 and 5.1.1).
pub(super) const MAX_31_BIT: u32 = (1 << 31) - 1;
/// Minimum and initial SETTINGS_MAX_FRAME_SIZE (section 6.5.2).
pub(super) const LEAST_FRAME_SIZE: u32 = 16_384;

/// Locates a part of the input.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn bytes(self, input: &[u8]) -> &[u8] {
        input.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// Holds a complete frame.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
    /// Offset of the payload in the input.
    pub(super) start: usize,
}

impl<'a> Frame<'a> {
    pub(super) fn new(whole: &'a [u8]) -> Self {
        let (header, payload) = whole.split_at_checked(FRAME_HEADER).unwrap_or_default();
        let &[_, _, _, kind, flags, a, b, c, d] = header else {
            return Self { kind: u8::MAX, flags: 0, stream: 0, payload, start: 0 };
        };
        let stream = u32::from_be_bytes([a, b, c, d]) & MAX_31_BIT;
        Self { kind, flags, stream, payload, start: FRAME_HEADER }
    }

    pub(super) fn of_connection(&self) -> Result<(), ProtocolError> {
        if self.stream == 0 {
            return Ok(());
        }
        Err(ProtocolError::new(format!("http2: frame type {} on a stream", self.kind)))
    }

    pub(super) fn u32(&self) -> Result<u32, ProtocolError> {
        let bytes = self.payload.try_into().map_err(|_| {
            ProtocolError::new(format!("http2: frame type {} of a wrong size", self.kind))
        })?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Locates the payload without padding in the input (section 6.1).
    pub(super) fn unpadded(&self) -> Result<Span, ProtocolError> {
        let (start, end) = (self.start, self.start + self.payload.len());
        if self.flags & PADDED == 0 {
            return Ok(Span { start, end });
        }
        match self.payload.first() {
            Some(&padding) if usize::from(padding) < self.payload.len() => {
                Ok(Span { start: start + 1, end: end - usize::from(padding) })
            }
            _ => Err(ProtocolError::new("http2: more padding than frame")),
        }
    }
}

/// Returns the payload length from the start of a frame.
pub(super) fn frame_length(header: &[u8]) -> Result<usize, ProtocolError> {
    // A server that does not know our version may answer with a bare text page.
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if header.starts_with(b"HTTP/1.") || (header.len() >= 9 && header.iter().all(is_text)) {
        return Err(ProtocolError::new(
            "http2: the server speaks HTTP/1 on this port, leave HTTP/2 out",
        ));
    }
    let length = match header {
        &[a, b, c, ..] => u32::from_be_bytes([0, a, b, c]),
        _ => 0,
    };
    if length > LEAST_FRAME_SIZE {
        return Err(ProtocolError::new(format!("http2: a frame of {length} bytes")));
    }
    Ok(length as usize)
}

/// Appends input to `partial` until it has `wanted` bytes. Returns true once it has.
pub(super) fn fill(partial: &mut Vec<u8>, wanted: usize, input: &[u8], at: &mut usize) -> bool {
    let rest = input.get(*at..).unwrap_or_default();
    let missing = wanted.saturating_sub(partial.len());
    let taken = rest.get(..missing).unwrap_or(rest);
    partial.extend_from_slice(taken);
    *at += taken.len();
    partial.len() >= wanted
}

pub(super) fn put_frame_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Writes a header block as HEADERS and, if it is long, CONTINUATION frames.
pub(super) fn put_header_block(
    out: &mut Vec<u8>,
    block: &[u8],
    flags: u8,
    stream: u32,
    frame_size: u32,
) {
    let (first, mut rest) = block.split_at(block.len().min(frame_size as usize));
    let ends = if rest.is_empty() { END_HEADERS } else { 0 };
    put_frame_header(out, first.len(), HEADERS, flags | ends, stream);
    out.extend_from_slice(first);
    while !rest.is_empty() {
        let (next, after) = rest.split_at(rest.len().min(frame_size as usize));
        rest = after;
        let ends = if rest.is_empty() { END_HEADERS } else { 0 };
        put_frame_header(out, next.len(), CONTINUATION, ends, stream);
        out.extend_from_slice(next);
    }
}

pub(super) fn put_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    put_frame_header(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(super) fn put_rst_stream(out: &mut Vec<u8>, stream: u32, code: u32) {
    put_frame_header(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&code.to_be_bytes());
}
