//! The head of a response: its status, the framing of its body, and whether the connection goes on.
//!
//! Not here: bodies and chunks (`http1`).

use std::mem::MaybeUninit;

use crate::ProtocolError;

/// Fields that a response may have.
pub(super) const MAX_FIELDS: usize = 96;

/// The fields of a head that matter here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// The head's length, and the head or why it makes no sense.
pub(super) type Parsed = (usize, Result<Head, ProtocolError>);

/// Reads a whole head at the beginning of `input`.
///
/// # Errors
/// When it is not whole or not a head.
pub(super) fn parse(input: &[u8], is_head: bool) -> Result<Parsed, ProtocolError> {
    // The parser itself would skip blank lines in front.
    if !input.starts_with(b"HTTP/1.") {
        return Err(ProtocolError::new("what came is not HTTP/1"));
    }
    let mut response = httparse::Response::new(&mut []);
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let length = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, input, &mut fields)
        .map_err(|error| format!("a malformed head: {error}"))?;
    let httparse::Status::Complete(length) = length else {
        return Err(ProtocolError::new("a malformed head: it ends too early"));
    };
    let status = response.code.unwrap_or(0);
    let head = read_head(status, response.version == Some(1), is_head, response.headers);
    Ok((length, head))
}

/// Returns where the body ends (RFC 9112 section 6.3), and whether the connection goes on (section 9.3).
fn read_head(
    status: u16,
    is_1_1: bool,
    is_head: bool,
    fields: &[httparse::Header<'_>],
) -> Result<Head, ProtocolError> {
    if status < 100 {
        return Err(ProtocolError::new(format!("a status of {status}")));
    }
    let mut length = None;
    let mut chunked = None;
    let mut keep_alive = is_1_1;
    for field in fields {
        // By length first: most fields are none of these.
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                if length.is_some() {
                    return Err(ProtocolError::new("two fields content-length"));
                }
                length = Some(content_length(field.value)?);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if chunked.is_some() || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ProtocolError::new("a transfer-encoding other than chunked"));
                }
                chunked = Some(());
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for token in field.value.split(|byte| *byte == b',') {
                    let token = token.trim_ascii();
                    if token.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if token.eq_ignore_ascii_case(b"keep-alive") && !is_1_1 {
                        keep_alive = true;
                    }
                }
            }
            _ => {}
        }
    }
    let framing = match (length, chunked) {
        _ if is_head || matches!(status, 100..200 | 204 | 304) => Framing::Length(0),
        (Some(_), Some(())) => {
            return Err(ProtocolError::new("both content-length and transfer-encoding"));
        }
        (None, Some(())) => Framing::Chunked,
        (Some(length), None) => Framing::Length(length),
        (None, None) => {
            keep_alive = false;
            Framing::UntilClose
        }
    };
    Ok(Head { status, framing, keep_alive })
}

fn content_length(value: &[u8]) -> Result<usize, ProtocolError> {
    let mut length = 0usize;
    if value.is_empty() || value.len() > 15 {
        return Err(ProtocolError::new("a content-length that is no number"));
    }
    for &byte in value {
        if !byte.is_ascii_digit() {
            return Err(ProtocolError::new("a content-length that is no number"));
        }
        // Fifteen digits have less than 64 bits.
        length = length * 10 + usize::from(byte - b'0');
    }
    Ok(length)
}

/// Returns where the empty line that ends a head ends, if `head` has it; the first `seen` bytes were
/// searched before.
pub(super) fn end_of_head(head: &[u8], seen: usize) -> Option<usize> {
    let mut at = seen.saturating_sub(2);
    loop {
        let rest = head.get(at..)?;
        let feed = rest.iter().position(|byte| *byte == b'\n')?;
        let after = rest.get(feed + 1..)?;
        at += feed + 1;
        if after.starts_with(b"\n") {
            return Some(at + 1);
        }
        if after.starts_with(b"\r\n") {
            return Some(at + 2);
        }
    }
}
