//! Parses the head of a response: status, framing of the body, keep-alive.
//!
//! Not here: bodies and chunks (`http1`).

use std::mem::MaybeUninit;

use super::oddity::{Oddities, Oddity};
use crate::ProtocolError;

/// Number of fields that fit on the stack, which is enough for most responses.
pub(super) const USUAL_FIELDS: usize = 96;
/// Maximum number of fields. A head of 1 MiB has room for hardly more.
const MAX_FIELDS: usize = 100_000;

/// Holds the relevant fields of a head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) oddities: Oddities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// Length of the head, and the head or the reason why it is invalid.
pub(super) type HeadResult = (usize, Result<Head, ProtocolError>);

/// Parses a complete head at the start of `input`.
///
/// # Errors
/// Fails if it is incomplete or not a head.
#[inline]
pub(super) fn parse(input: &[u8], is_head: bool) -> Result<HeadResult, ProtocolError> {
    // The parser itself would skip leading blank lines.
    if !input.starts_with(b"HTTP/1.") {
        return Err(not_http(input));
    }
    let mut fields = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    let strict = httparse::ParserConfig::default();
    match parse_as(&strict, input, is_head, &mut fields) {
        Err(error) => parse_tolerantly(input, is_head, error),
        Ok(None) => Err(ProtocolError::new("a malformed head: it ends too early")),
        Ok(Some(parsed)) => Ok(parsed),
    }
}

/// Parses a head with this parser configuration; `None` if it is incomplete.
#[inline]
fn parse_as<'b>(
    config: &httparse::ParserConfig,
    input: &'b [u8],
    is_head: bool,
    fields: &mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<HeadResult>, httparse::Error> {
    let mut response = httparse::Response::new(&mut []);
    let parsed = config.parse_response_with_uninit_headers(&mut response, input, fields)?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let status = response.code.unwrap_or(0);
    let head = read_head(status, response.version == Some(1), is_head, response.headers);
    Ok(Some((length, head)))
}

/// Parses a head that breaks the rules but is unambiguous.
#[cold]
fn parse_tolerantly(
    input: &[u8],
    is_head: bool,
    error: httparse::Error,
) -> Result<HeadResult, ProtocolError> {
    let malformed = |error| Err(ProtocolError::new(format!("a malformed head: {error}")));
    let many = error == httparse::Error::TooManyHeaders;
    if !many && error != httparse::Error::HeaderName {
        return malformed(error);
    }
    let lines = input.iter().filter(|&&byte| byte == b'\n').count();
    let mut fields = Vec::new();
    for (folded, blanks) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut config = httparse::ParserConfig::default();
        config.allow_obsolete_multiline_headers_in_responses(folded);
        config.allow_spaces_after_header_name_in_responses(blanks);
        fields.clear();
        fields.resize_with(lines.min(MAX_FIELDS), MaybeUninit::uninit);
        let Ok(Some((length, mut head))) = parse_as(&config, input, is_head, &mut fields) else {
            continue;
        };
        if let Ok(head) = &mut head {
            let met = [
                (many, Oddity::ManyFields),
                (folded, Oddity::FoldedField),
                (blanks, Oddity::BlankBeforeColon),
            ];
            met.into_iter().filter(|(met, _)| *met).for_each(|(_, odd)| head.oddities |= odd);
        }
        return Ok((length, head));
    }
    malformed(error)
}

/// Describes bytes that are not an HTTP/1 response.
#[cold]
pub(super) fn not_http(input: &[u8]) -> ProtocolError {
    match input {
        // Record of the type alert (RFC 8446 section 5.1).
        [0x15] | [0x15, 0x03, ..] => {
            ProtocolError::new("the answer is a TLS alert: this port may speak TLS, try https://")
        }
        _ => ProtocolError::new("the answer is not HTTP/1"),
    }
}

/// Determines the end of the body (RFC 9112 section 6.3) and keep-alive (section 9.3).
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
    let mut oddities = Oddities::default();
    for field in fields {
        // Compare lengths first, because most fields match none of these.
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let stated = content_length(field.value)?;
                match length {
                    None => length = Some(stated),
                    Some(before) if before == stated => oddities |= Oddity::RepeatedLength,
                    Some(_) => {
                        return Err(ProtocolError::new("two different fields content-length"));
                    }
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if field.value.eq_ignore_ascii_case(b"identity") {
                    oddities |= Oddity::IdentityCoding;
                    continue;
                }
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
            oddities |= Oddity::LengthNextToChunks;
            Framing::Chunked
        }
        (None, Some(())) => Framing::Chunked,
        (Some(length), None) => Framing::Length(length),
        (None, None) => {
            keep_alive = false;
            Framing::UntilClose
        }
    };
    Ok(Head { status, framing, keep_alive, oddities })
}

/// Parses a length. A list of equal lengths counts as one (RFC 9110 section 8.6).
fn content_length(value: &[u8]) -> Result<usize, ProtocolError> {
    let mut lengths = value.split(|byte| *byte == b',').map(|one| number(one.trim_ascii()));
    let first = lengths.next().unwrap_or(Ok(0))?;
    for other in lengths {
        if other? != first {
            return Err(ProtocolError::new("two different lengths in content-length"));
        }
    }
    Ok(first)
}

fn number(value: &[u8]) -> Result<usize, ProtocolError> {
    let mut length = 0usize;
    if value.is_empty() || value.len() > 15 {
        return Err(ProtocolError::new("a content-length that is not a number"));
    }
    for &byte in value {
        if !byte.is_ascii_digit() {
            return Err(ProtocolError::new("a content-length that is not a number"));
        }
        // Fifteen decimal digits fit in 64 bits.
        length = length * 10 + usize::from(byte - b'0');
    }
    Ok(length)
}

/// Returns the end of the empty line that ends a head, if `head` has it. The first `seen` bytes were searched before.
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
