//! Implements the client's side of one HTTP/2 connection (RFC 9113).
//!
//! Designed for many small, similar requests. Their headers are prepared once, so from the second request on a header
//! block is a copy of a few bytes. Responses are passed on whole, and a body that arrived in one piece is not copied.
//! In the steady state nothing is allocated. On request, an endless body is passed on piece by piece
//! ([`Connection::in_pieces`]).
//!
//! A stream's place in memory follows from its number. A number whose place is taken is skipped, which the protocol
//! allows (section 5.1.1), so no map is needed.
//!
//! Not here: server push (disabled), priorities (deprecated), bodies of requests that end later than they begin
//! (one begun by [`Connection::request_open`] never ends by itself), cleartext upgrade from HTTP/1.1 (section 3.3 requires prior knowledge), ALPN (the owner of the TLS connection
//! offers `h2`).

mod frame;
mod receiving;
mod sending;
mod stream;

use std::collections::VecDeque;

use crate::ProtocolError;
pub use crate::hpack::Headers;
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use crate::overhead::Overhead;
use frame::*;
use receiving::BlockStart;
use sending::PreparedHeaders;
use stream::Stream;

/// Names error codes of RST_STREAM and GOAWAY (RFC 9113 section 7) that matter to a client.
pub mod code {
    /// Graceful shutdown.
    pub const NO_ERROR: u32 = 0x0;
    /// The peer detected a protocol error.
    pub const PROTOCOL_ERROR: u32 = 0x1;
    /// The peer had an internal error.
    pub const INTERNAL_ERROR: u32 = 0x2;
    /// The request was not processed and may be sent again.
    pub const REFUSED_STREAM: u32 = 0x7;
    /// The stream is no longer needed.
    pub const CANCEL: u32 = 0x8;
    /// The peer considers its load excessive.
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
    /// The TLS parameters do not satisfy the peer.
    pub const INADEQUATE_SECURITY: u32 = 0xc;
}

/// Allowed streams until the peer's SETTINGS arrive. Section 6.5.2 recommends that servers allow no fewer.
const STREAMS_BEFORE_SETTINGS: u32 = 100;
/// Client connection preface (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Sets the limits for the peer and for this side.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum open streams, 1 to 65,536, even if the peer allows more. Memory is reserved for each, so match the
    /// number in flight.
    pub max_streams: u32,
    /// Maximum response body in bytes.
    pub max_body: usize,
    /// Bytes of a body that are kept. Later bytes are counted and dropped.
    pub kept_body: usize,
    /// Maximum header list in bytes, counted as in RFC 9113 section 6.5.2.
    pub max_header_list: u32,
    /// Receive window of the connection in bytes, shared by all responses.
    pub connection_window: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_streams: 128,
            max_body: 16 << 20,
            kept_body: 16 << 20,
            max_header_list: 64 << 10,
            connection_window: 32 << 20,
        }
    }
}

/// Identifies headers of [`Connection::prepare`], valid for that connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadersId(u32);

/// Identifies a request of a connection by its stream. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u32);

impl StreamId {
    /// Returns the stream number in the protocol: odd, and increasing with each request.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Returns a small number that is unique among the connection's open streams: an index into a table of
    /// [`Connection::slots`] elements.
    pub fn slot(self, slots: usize) -> usize {
        (self.0 >> 1) as usize & slots.saturating_sub(1)
    }
}

/// Reports the end of a request, or a piece of its response.
#[derive(Debug)]
pub enum Event<'a> {
    /// Piece of the body of a response [in pieces](Connection::in_pieces).
    Piece {
        /// Final status, 200 to 999.
        status: u16,
        /// Bytes of the piece; the peer chooses its length.
        content: &'a [u8],
        /// Cancels the request at once if set, like [`Connection::cancel`].
        stop: &'a mut bool,
    },
    /// The response is complete.
    Response(Response<'a>),
    /// The peer reset the stream; see [`code`]. After a GOAWAY, requests that the peer did not process end with
    /// [`code::REFUSED_STREAM`].
    Reset {
        /// Error code of RST_STREAM.
        code: u32,
    },
    /// The response was malformed or above a limit. This stream was reset; others continue.
    Malformed {
        /// Reason in words.
        what: &'static str,
    },
}

/// Holds a complete response.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Final status, 200 to 999.
    pub status: u16,
    /// Header fields, including the pseudo-header.
    pub headers: Headers<'a>,
    /// Body, as far as it is [kept](Settings::kept_body); empty if it was passed on in pieces.
    pub body: &'a [u8],
    /// Length of the whole body in bytes.
    pub length: usize,
    /// Trailer fields; empty if the header fields ended the stream.
    pub trailers: Headers<'a>,
}

/// Holds the peer's announcement that it accepts no further streams (RFC 9113 section 6.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoAway {
    /// Highest stream number that may have been processed.
    pub last_stream: u32,
    /// Reason; see [`code`].
    pub code: u32,
    /// Debug data of the peer, truncated to 256 bytes.
    pub debug: Vec<u8>,
}

/// Holds the state of one connection.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    encoder: Encoder,
    decoder: Decoder,
    prepared: Vec<PreparedHeaders>,

    /// Streams; the length is a power of two, and stream n is at n / 2 modulo the length.
    streams: Box<[Stream]>,
    active: u32,
    next_id: u32,
    /// Streams blocked by the connection's send window, oldest first; some may have ended.
    blocked: VecDeque<u32>,

    send_window: i64,
    peer_first_window: u32,
    peer_frame_size: u32,
    peer_max_streams: u32,
    peer_settings_seen: bool,
    going_away: Option<GoAway>,

    /// Bytes of DATA since the connection's window was last replenished.
    received: u32,
    receive_window: u32,
    stream_window: u32,

    /// Start of an incomplete frame.
    partial: Vec<u8>,
    /// Buffer for rendering a header block.
    rendered: Vec<u8>,
    /// Start of an incomplete header block.
    block: Vec<u8>,
    /// HEADERS frame of the incomplete header block; `None` if there is none.
    continuing: Option<BlockStart>,
    /// Streams whose body lies in the current input.
    borrowers: Vec<u32>,
    pings_answered: u64,
    /// Frames that completed nothing since the last response.
    overhead: Overhead,
    /// Bytes of unsent answers to PING and SETTINGS.
    answers_waiting: usize,
    failed: bool,
}

impl Connection {
    /// Creates a connection that has not sent anything yet.
    pub fn new(settings: Settings) -> Self {
        let max_streams = settings.max_streams.clamp(1, 1 << 16);
        let places = max_streams.next_power_of_two() as usize;
        // A whole body fits into a stream's window, so windows are rarely replenished.
        let stream_window = u32::try_from(settings.max_body).unwrap_or(MAX_31_BIT);
        Self {
            encoder: Encoder::new(DEFAULT_TABLE_SIZE),
            decoder: Decoder::new(DEFAULT_TABLE_SIZE, settings.max_header_list as usize),
            prepared: Vec::new(),
            streams: (0..places).map(|_| Stream::default()).collect(),
            active: 0,
            next_id: 1,
            blocked: VecDeque::new(),
            send_window: i64::from(FIRST_WINDOW),
            peer_first_window: FIRST_WINDOW,
            peer_frame_size: LEAST_FRAME_SIZE,
            peer_max_streams: STREAMS_BEFORE_SETTINGS,
            peer_settings_seen: false,
            going_away: None,
            received: 0,
            receive_window: settings.connection_window.clamp(FIRST_WINDOW, MAX_31_BIT),
            stream_window: stream_window.clamp(FIRST_WINDOW, MAX_31_BIT),
            partial: Vec::new(),
            rendered: Vec::new(),
            block: Vec::new(),
            continuing: None,
            borrowers: Vec::new(),
            pings_answered: 0,
            overhead: Overhead::default(),
            answers_waiting: 0,
            failed: false,
            settings: Settings { max_streams, ..settings },
        }
    }

    /// Writes the connection preface. Requests may follow without waiting for an answer.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        // Identifiers of settings, from RFC 9113 section 6.5.2.
        let settings: [(u16, u32); 3] = [
            (0x2, 0), // no push
            (0x4, self.stream_window),
            (0x6, self.settings.max_header_list),
        ];
        put_frame_header(out, 6 * settings.len(), SETTINGS, 0, 0);
        for (id, value) in settings {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        if self.receive_window > FIRST_WINDOW {
            put_window_update(out, 0, self.receive_window - FIRST_WINDOW);
        }
    }

    /// Returns how many more requests can be sent now.
    pub fn capacity(&self) -> usize {
        if self.going_away.is_some() || self.failed {
            return 0;
        }
        // Numbers may be skipped, so the last few do not count.
        let numbers = (MAX_31_BIT - self.next_id) / 2;
        let numbers = numbers.saturating_sub(self.streams.len() as u32);
        let allowed = self.peer_max_streams.min(self.settings.max_streams);
        allowed.saturating_sub(self.active).min(numbers) as usize
    }

    /// Returns true once the peer's SETTINGS have arrived with its limit on streams.
    pub fn is_settled(&self) -> bool {
        self.peer_settings_seen
    }

    /// Returns the number of open streams.
    pub fn in_flight(&self) -> usize {
        self.active as usize
    }

    /// Returns the number of different values of [`StreamId::slot`].
    pub fn slots(&self) -> usize {
        self.streams.len()
    }

    /// Cancels a request, for instance after a timeout, with RST_STREAM and [`code::CANCEL`]. No event follows for
    /// it. Does nothing for a request that has ended.
    pub fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        if let Some(at) = self.place(stream.0) {
            self.end(at);
            put_rst_stream(out, stream.0, code::CANCEL);
        }
    }

    /// Sends a PING; [`Connection::pings_answered`] counts the answers.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        put_frame_header(out, 8, PING, 0, 0);
        out.extend_from_slice(b"bake-off");
    }

    /// Returns the number of answers to [`Connection::ping`].
    pub fn pings_answered(&self) -> u64 {
        self.pings_answered
    }

    /// Returns the peer's GOAWAY, if it sent one. Open streams up to its last one may still be answered.
    pub fn going_away(&self) -> Option<&GoAway> {
        self.going_away.as_ref()
    }

    /// Returns the place of an open stream.
    fn place(&self, id: u32) -> Option<usize> {
        let at = (id >> 1) as usize & (self.streams.len() - 1);
        (id != 0 && self.streams[at].id == id).then_some(at)
    }

    /// Returns the place of an open stream, and an error for streams that were never opened.
    fn known(&self, id: u32) -> Result<Option<usize>, ProtocolError> {
        if id.is_multiple_of(2) || id >= self.next_id {
            return Err(ProtocolError::new(format!(
                "http2: a frame for stream {id}, never opened"
            )));
        }
        Ok(self.place(id))
    }

    fn end(&mut self, at: usize) {
        self.streams[at].free();
        self.active -= 1;
    }
}

#[cfg(test)]
mod tests;
