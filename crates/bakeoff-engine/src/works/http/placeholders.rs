//! Renders requests whose words in braces change with each request, such as `/users/{sequence}`.
//!
//! If no request has a word, `fixed_requests` sends the same bytes every time and this module is not used.
//!
//! Not here: the set of words (`bakeoff_core::template`), the source of such requests (`template_requests`), a
//! study's requests (`bakeoff_systems`).

use std::io::Write as _;

use bakeoff_core::template::{self, Table, Template, Word, WordValues};

/// Salts that make random words differ between a request's parts. HTTP/2 headers count up from the last one.
pub(super) const TARGET_SALT: u64 = 0;
const BODY_SALT: u64 = 1;
pub(super) const HEADERS_SALT: u64 = 2;

/// Holds the parts of a request that have words; `None` for fixed parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestWords {
    /// Path and query.
    pub(super) target: Option<Template>,
    /// Value of each header, in the request's order.
    pub(super) headers: Vec<Option<Template>>,
    /// Template of the body.
    pub(super) body: Option<Template>,
}

/// Names an unknown word, which is sent as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// Word with its braces.
    pub word: String,
    /// Part of the request that contains it.
    pub place: WordPlace,
}

/// Names a part of a request that may contain words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPlace {
    /// Path and query.
    Url,
    /// Header of this name.
    Header(String),
    /// Body of the request.
    Body,
}

impl RequestWords {
    /// Returns true if a part contains random characters.
    pub fn is_random(&self) -> bool {
        let all = self.target.iter().chain(self.headers.iter().flatten()).chain(&self.body);
        all.flat_map(Template::words).any(|word| matches!(word, Word::Random(_)))
    }

    /// Rejects table values that do not fit their place: line breaks in headers, messages that are not Base64.
    /// `headers`: those of the request.
    ///
    /// # Errors
    /// Names the place, the row and the column.
    pub fn check_rows(&self, headers: &[(String, String)], table: &Table) -> Result<(), String> {
        self.target.iter().try_for_each(|target| table.check_text("the URL", target))?;
        self.body.iter().try_for_each(|body| table.check_body(body))?;
        let headers = headers.iter().zip(&self.headers);
        headers
            .filter_map(|((name, _), template)| Some((name, template.as_ref()?)))
            .try_for_each(|(name, template)| table.check_header(name, template))
    }
}

/// Holds the HTTP/1.1 message of a request as far as it is known before sending.
pub(super) struct Message {
    /// Method and target.
    pub(super) start: Template,
    /// Rest of the head, up to the last user header.
    pub(super) head: Template,
    pub(super) framing: Framing,
    /// End of the head.
    pub(super) tail: &'static str,
    pub(super) body: MessageBody,
}

/// Selects how a message marks the end of its body (RFC 9112 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    NoBody,
    /// `Content-Length`.
    Length,
    /// Chunked, ending with an empty chunk.
    Chunks,
}

/// Bytes of one chunk of a body.
const CHUNK_SIZE: usize = 16 << 10;

pub(super) enum MessageBody {
    Fixed(Vec<u8>),
    Words(Template),
}

impl MessageBody {
    /// Returns the body of one request, rendered into `room` if it has words.
    pub(super) fn bytes<'a>(&'a self, values: &WordValues<'_>, room: &'a mut Vec<u8>) -> &'a [u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Words(template) => {
                room.clear();
                template.write(values, BODY_SALT, template::verbatim, room);
                room
            }
        }
    }
}

impl Message {
    /// Appends the message of one request; `room` is a buffer for its body.
    pub(super) fn write(&self, values: &WordValues<'_>, room: &mut Vec<u8>, out: &mut Vec<u8>) {
        self.start.write(values, TARGET_SALT, template::percent_encoded, out);
        self.head.write(values, HEADERS_SALT, template::verbatim, out);
        let body = self.body.bytes(values, room);
        // Writing to a vector cannot fail.
        let _ = match self.framing {
            Framing::NoBody => Ok(()),
            Framing::Length => write!(out, "Content-Length: {}\r\n", body.len()),
            Framing::Chunks => write!(out, "Transfer-Encoding: chunked\r\n"),
        };
        out.extend_from_slice(self.tail.as_bytes());
        if self.framing != Framing::Chunks {
            return out.extend_from_slice(body);
        }
        for chunk in body.chunks(CHUNK_SIZE) {
            let _ = write!(out, "{:x}\r\n", chunk.len());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Returns the values of a request's words.
pub(super) fn values(client: u32, sequence: u64, seed: u64, table: &Table) -> WordValues<'_> {
    WordValues { key: 0, sequence, client, seed, row: table.row(sequence) }
}
