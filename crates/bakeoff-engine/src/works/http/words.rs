//! Requests whose words in braces differ from one to the next: `/users/{sequence}`.
//!
//! Where no request has a word, `fixed` sends the same bytes again and again, and nothing here is used.
//!
//! Not here: what words there are (`bakeoff_core::template`), the source of such requests (`worded`), a study's
//! requests (`bakeoff_systems`).

use std::io::Write as _;

use bakeoff_core::template::{self, Table, Template, Word, WordValues};

use super::request::Request;

/// Tells the random words of a request's parts apart; those of HTTP/2's headers begin after them.
pub(super) const TARGET_SALT: u64 = 0;
const BODY_SALT: u64 = 1;
pub(super) const HEADERS_SALT: u64 = 2;

/// The parts of a request that have words; `None` for those that are always the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestWords {
    /// Path and query.
    pub(super) target: Option<Template>,
    /// The value of each header, in the request's order.
    pub(super) headers: Vec<Option<Template>>,
    /// The body.
    pub(super) body: Option<Template>,
}

/// A word that stands for nothing, and is sent as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// With its braces.
    pub word: String,
    /// The part of the request that holds it.
    pub place: WordPlace,
}

/// A part of a request that may hold words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPlace {
    /// Path and query.
    Url,
    /// The header of this name.
    Header(String),
    /// The body.
    Body,
}

impl RequestWords {
    /// Returns whether a part draws characters at random.
    pub fn is_random(&self) -> bool {
        let all = self.target.iter().chain(self.headers.iter().flatten()).chain(&self.body);
        all.flat_map(Template::words).any(|word| matches!(word, Word::Random(_)))
    }

    /// Refuses headers of `request` that take a value of the table which would end their line.
    ///
    /// # Errors
    /// Names the header, the row and the column.
    pub fn check_headers(&self, request: &Request, table: &Table) -> Result<(), String> {
        let headers = request.headers.iter().zip(&self.headers);
        headers
            .filter_map(|((name, _), template)| Some((name, template.as_ref()?)))
            .try_for_each(|(name, template)| table.check_header(name, template))
    }
}

/// The HTTP/1.1 message of a request, as far as it is known before it is sent.
pub(super) struct Message {
    /// Method and target.
    pub(super) start: Template,
    /// From there to the last of the user's headers.
    pub(super) head: Template,
    /// How it says where its body ends.
    pub(super) framing: Framing,
    /// The head's end.
    pub(super) tail: &'static str,
    pub(super) body: MessageBody,
}

/// How a message says where its body ends (RFC 9112 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    NoBody,
    /// By its length.
    Length,
    /// In chunks, the last of which is empty.
    Chunks,
}

/// Bytes of one chunk of a body.
const CHUNK_SIZE: usize = 16 << 10;

/// A message's body.
pub(super) enum MessageBody {
    Fixed(Vec<u8>),
    Words(Template),
}

impl MessageBody {
    /// Returns the body of one request, which is written into `room` where it has words.
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
    /// Appends the message of one request; `room` is for its body.
    pub(super) fn write(&self, values: &WordValues<'_>, room: &mut Vec<u8>, out: &mut Vec<u8>) {
        self.start.write(values, TARGET_SALT, template::percent_encoded, out);
        self.head.write(values, HEADERS_SALT, template::verbatim, out);
        let body = self.body.bytes(values, room);
        // Writing into a vector cannot fail.
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

/// Returns what the words of a request stand for.
pub(super) fn values(client: u32, sequence: u64, seed: u64, table: &Table) -> WordValues<'_> {
    WordValues { key: 0, sequence, client, seed, row: table.row(sequence) }
}
