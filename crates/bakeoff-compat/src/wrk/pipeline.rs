//! Checks that a script's text is HTTP, and counts its requests.
//!
//! wrk calls `request` once before a run and assumes the same number of requests in all later calls. So does bakeoff,
//! and it checks each later batch.
//!
//! Not here: responses (`bakeoff_wire::http1`).

use std::fmt;

/// Most headers in one request.
const HEADERS_MAX: usize = 256;

/// Place at which a text stops being HTTP.
#[derive(Debug, PartialEq)]
pub(super) struct FaultPlace {
    what: RequestFault,
    line: usize,
    column: usize,
}

impl fmt::Display for FaultPlace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} at {}:{}", self.what, self.line, self.column)
    }
}

/// Fault of a request that a script returned.
#[derive(Debug, PartialEq)]
enum RequestFault {
    Head(httparse::Error),
    Incomplete,
    ContentLength(String),
    ShortBody { seen: usize, announced: usize },
    IncompleteChunks,
    ChunkSize,
}

impl fmt::Display for RequestFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(error) => write!(to, "{error}"),
            Self::Incomplete => to.write_str("incomplete request"),
            Self::ContentLength(text) => write!(to, "a Content-Length of `{text}`"),
            Self::ShortBody { seen, announced } => {
                write!(to, "incomplete request: a body of {seen} bytes, {announced} announced")
            }
            Self::IncompleteChunks => to.write_str("incomplete chunked body"),
            Self::ChunkSize => to.write_str("a chunk without a size"),
        }
    }
}

/// Counts the complete requests in `bytes`. Fails without any, or on anything after them.
pub(super) fn count(bytes: &[u8]) -> Result<u32, FaultPlace> {
    let (mut at, mut requests) = (0, 0);
    loop {
        at += message(&bytes[at..]).map_err(|what| {
            let (before, column) = position(&bytes[..at]);
            FaultPlace { what, line: before, column }
        })?;
        requests += 1;
        if at == bytes.len() {
            return Ok(requests);
        }
    }
}

/// Returns line and column after these bytes, from 1.
fn position(bytes: &[u8]) -> (usize, usize) {
    let line = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + bytes.iter().rev().take_while(|&&byte| byte != b'\n').count();
    (line, column)
}

/// Returns the length of the first request.
fn message(bytes: &[u8]) -> Result<usize, RequestFault> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes).map_err(RequestFault::Head)? {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial => return Err(RequestFault::Incomplete),
    };
    let value = |name: &str| {
        let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    if value("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return chunks(&bytes[head..]).map(|length| head + length);
    }
    let length = match value("content-length") {
        Some(text) => text.trim().parse().map_err(|_| RequestFault::ContentLength(text))?,
        None => 0_usize,
    };
    head.checked_add(length)
        .filter(|&end| end <= bytes.len())
        .ok_or(RequestFault::ShortBody { seen: bytes.len() - head, announced: length })
}

/// Returns the length of a chunked body without trailers.
fn chunks(bytes: &[u8]) -> Result<usize, RequestFault> {
    let mut at = 0;
    loop {
        match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((start, size))) => {
                let end =
                    usize::try_from(size).ok().and_then(|size| at.checked_add(start + size + 2));
                at = end.filter(|&end| end <= bytes.len()).ok_or(RequestFault::IncompleteChunks)?;
                if size == 0 {
                    return Ok(at);
                }
            }
            Ok(httparse::Status::Partial) => return Err(RequestFault::IncompleteChunks),
            Err(_) => return Err(RequestFault::ChunkSize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted() {
        let check =
            |text: &str, expected| assert_eq!(count(text.as_bytes()), Ok(expected), "{text}");
        check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1);
        check("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", 2);
        check("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n", 2);
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        check(chunked, 1);
    }

    #[test]
    fn refuses_a_broken_request_with_its_place() {
        let check = |text: &str, wording: &str| {
            let error = count(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(wording), "{text}: {error}");
        };
        check("", "incomplete request at 1:1");
        check("GET / HTTP/1.1\r\n", "incomplete request at 1:1");
        check("hello world", "at 1:1");
        check("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc", "a body of 3 bytes, 5 announced");
        check("GET / HTTP/1.1\r\n\r\nrest", "at 3:1");
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "chunked");
        let huge = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", u64::MAX);
        check(&huge, "announced");
    }
}
