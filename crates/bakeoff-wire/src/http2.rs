//! The client's side of one HTTP/2 connection (RFC 9113).
//!
//! Made for many small requests that look alike. Their headers are prepared once; from the second
//! request on a header block is a few bytes copied. Responses are handed out whole, and a body that
//! arrived in one piece is handed out from where it lies in the input. In the steady state nothing
//! is allocated. A body without an end in sight is handed out piece by piece instead, where asked
//! for ([`Connection::in_pieces`]).
//!
//! A stream's place in memory follows from its number: a number whose place is taken is skipped,
//! which the protocol allows (section 5.1.1), so no map is needed.
//!
//! Not here: server push (switched off), priorities (deprecated), requests whose body is not known
//! when they begin, cleartext upgrade from HTTP/1.1 (section 3.3 wants prior knowledge), ALPN
//! (whoever owns the TLS connection asks for `h2`).

mod frame;
mod receiving;
mod sending;
mod stream;

use std::collections::VecDeque;

use crate::ProtocolError;
pub use crate::hpack::Headers;
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use frame::*;
use receiving::BlockStart;
use sending::Prepared;
use stream::Stream;

/// Error codes of RST_STREAM and GOAWAY (RFC 9113 section 7) that mean something to a client.
pub mod code {
    /// Graceful end.
    pub const NO_ERROR: u32 = 0x0;
    /// The peer saw the protocol broken.
    pub const PROTOCOL_ERROR: u32 = 0x1;
    /// The peer failed.
    pub const INTERNAL_ERROR: u32 = 0x2;
    /// The request was not processed at all and may be sent again.
    pub const REFUSED_STREAM: u32 = 0x7;
    /// No longer wanted.
    pub const CANCEL: u32 = 0x8;
    /// The peer finds its load excessive.
    pub const ENHANCE_YOUR_CALM: u32 = 0xb;
    /// TLS is not good enough for the peer.
    pub const INADEQUATE_SECURITY: u32 = 0xc;
}

/// Streams assumed to be allowed until the peer's SETTINGS are there (section 6.5.2 asks
/// servers not to allow fewer).
const STREAMS_BEFORE_SETTINGS: u32 = 100;
/// The client's connection preface (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The limits that this side sets for its peer and itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Streams open at once at most, from 1 to 65,536, whatever the peer allows. Memory is
    /// set aside for each; no more than can be in flight is best.
    pub max_streams: u32,
    /// The largest response body taken, in bytes.
    pub max_body: usize,
    /// Bytes of a body that are kept. Those beyond are counted and dropped.
    pub kept_body: usize,
    /// The largest header list taken, in bytes, counted as in RFC 9113 section 6.5.2.
    pub max_header_list: u32,
    /// Bytes of all responses together that the peer may send ahead.
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

/// Headers prepared by [`Connection::prepare`], valid for that connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadersId(u32);

/// One request of a connection: its stream. Numbers never come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u32);

impl StreamId {
    /// The stream's number in the protocol: odd, and growing from request to request.
    pub fn number(self) -> u32 {
        self.0
    }

    /// A small number that no other open stream of the connection has: an index into a table of
    /// [`Connection::slots`] elements.
    pub fn slot(self, slots: usize) -> usize {
        (self.0 >> 1) as usize & slots.saturating_sub(1)
    }
}

/// The end of a request, or a piece of its response.
#[derive(Debug)]
pub enum Event<'a> {
    /// A piece of the body of a response [in pieces](Connection::in_pieces).
    Piece {
        /// The final status, 200 to 999.
        status: u16,
        /// The piece, as long as the peer liked.
        content: &'a [u8],
        /// Gives the request up at once where it is set, as [`Connection::cancel`] does.
        stop: &'a mut bool,
    },
    /// The response is complete.
    Response(Response<'a>),
    /// The peer ended the stream; see [`code`]. After a GOAWAY requests that the peer did not
    /// process end with [`code::REFUSED_STREAM`].
    Reset {
        /// The error code of RST_STREAM.
        code: u32,
    },
    /// The response was malformed or above a limit; the stream was reset, others go on.
    Malformed {
        /// The reason.
        what: &'static str,
    },
}

/// A complete response.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// The final status, 200 to 999.
    pub status: u16,
    /// The header fields, pseudo-header included.
    pub headers: Headers<'a>,
    /// The body, as far as it is [kept](Settings::kept_body); empty where it was handed out in pieces.
    pub body: &'a [u8],
    /// Bytes of the whole body.
    pub length: usize,
    /// The fields after the body; none if the header fields were the stream's end.
    pub trailers: Headers<'a>,
}

/// The peer's announcement that it will take no further streams (RFC 9113 section 6.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoAway {
    /// Streams with higher numbers were not processed.
    pub last_stream: u32,
    /// Why; see [`code`].
    pub code: u32,
    /// The peer's debug data, cut to 256 bytes.
    pub debug: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    encoder: Encoder,
    decoder: Decoder,
    prepared: Vec<Prepared>,

    /// Its length is a power of two; stream n stands at n / 2 modulo the length.
    streams: Box<[Stream]>,
    active: u32,
    next_id: u32,
    /// Streams that the connection's send window stopped, oldest first; some may be over.
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

    /// The beginning of a frame whose end has not arrived.
    partial: Vec<u8>,
    /// A header block being rendered.
    rendered: Vec<u8>,
    /// The beginning of a header block whose end has not arrived.
    block: Vec<u8>,
    /// The HEADERS frame that began it; `None` if no block is open.
    continuing: Option<BlockStart>,
    /// Streams whose body lies in the input being received.
    borrowers: Vec<u32>,
    pings_answered: u64,
    /// Bytes of answers to PING and SETTINGS since nothing was left to send.
    answers_waiting: usize,
    failed: bool,
}

impl Connection {
    /// A connection that has not said anything yet.
    pub fn new(settings: Settings) -> Self {
        let max_streams = settings.max_streams.clamp(1, 1 << 16);
        let places = max_streams.next_power_of_two() as usize;
        // A whole body fits into a stream's window, so that as a rule none is replenished.
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
            answers_waiting: 0,
            failed: false,
            settings: Settings { max_streams, ..settings },
        }
    }

    /// Writes what a client says first. Requests may follow without waiting for an answer.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        // Setting numbers: RFC 9113 section 6.5.2.
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
        // Numbers may be skipped, so the last few are not counted on.
        let numbers = (MAX_31_BIT - self.next_id) / 2;
        let numbers = numbers.saturating_sub(self.streams.len() as u32);
        let allowed = self.peer_max_streams.min(self.settings.max_streams);
        allowed.saturating_sub(self.active).min(numbers) as usize
    }

    /// Returns true if the peer's SETTINGS have come: how many streams it allows is known.
    pub fn is_settled(&self) -> bool {
        self.peer_settings_seen
    }

    /// Returns how many streams are open.
    pub fn in_flight(&self) -> usize {
        self.active as usize
    }

    /// Returns how many different values [`StreamId::slot`] has.
    pub fn slots(&self) -> usize {
        self.streams.len()
    }

    /// Gives a request up, for instance after a timeout: writes RST_STREAM with
    /// [`code::CANCEL`]. No event will come for it. Does nothing for one that is over.
    pub fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) {
        if let Some(at) = self.place(stream.0) {
            self.end(at);
            put_rst_stream(out, stream.0, code::CANCEL);
        }
    }

    /// Asks the peer for a sign of life; [`Connection::pings_answered`] counts the answers.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        put_frame_header(out, 8, PING, 0, 0);
        out.extend_from_slice(b"bake-off");
    }

    /// Returns how many answers to [`Connection::ping`] have come.
    pub fn pings_answered(&self) -> u64 {
        self.pings_answered
    }

    /// The peer's GOAWAY, if it sent one. Open streams up to its last one may still be answered.
    pub fn going_away(&self) -> Option<&GoAway> {
        self.going_away.as_ref()
    }

    /// Returns where an open stream stands.
    fn place(&self, id: u32) -> Option<usize> {
        let at = (id >> 1) as usize & (self.streams.len() - 1);
        (id != 0 && self.streams[at].id == id).then_some(at)
    }

    /// Like `place`, and an error for streams that were never opened.
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
