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
//!
//! Long because it is one state machine: frames, flow control and streams change each
//! other's state.

use std::collections::VecDeque;

pub use crate::hpack::Headers;
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder, HeaderBlock};
use crate::{Busy, ProtocolError};

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

// Frame types, RFC 9113 section 6.
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const PRIORITY: u8 = 0x2;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PUSH_PROMISE: u8 = 0x5;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;
const CONTINUATION: u8 = 0x9;

// Flags, RFC 9113 section 6.
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

/// Frames begin with length, type, flags and stream: 9 bytes (section 4.1).
const FRAME_HEADER: usize = 9;
/// Windows begin at 65,535 bytes (section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;
/// Windows, increments and stream numbers end here (sections 6.9.1 and 5.1.1).
const MAX_31_BIT: u32 = (1 << 31) - 1;
/// The least and the first SETTINGS_MAX_FRAME_SIZE (section 6.5.2).
const LEAST_FRAME_SIZE: u32 = 16_384;
/// Streams assumed to be allowed until the peer's SETTINGS are there (section 6.5.2 asks
/// servers not to allow fewer).
const STREAMS_BEFORE_SETTINGS: u32 = 100;
/// Bytes of answers to PING and SETTINGS that may wait to be sent.
const ANSWERS_WAITING_MAX: usize = 1 << 20;
/// The client's connection preface (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Debug data of a GOAWAY that is kept, in bytes.
const DEBUG_KEPT: usize = 256;
/// Buffers above this many bytes are given back when their stream ends.
const KEPT_BUFFER: usize = 64 * 1024;

/// The limits that this side sets for its peer and itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Streams open at once at most, from 1 to 65,536, whatever the peer allows. Memory is
    /// set aside for each; no more than can be in flight is best.
    pub max_streams: u32,
    /// The largest response body taken, in bytes.
    pub max_body: usize,
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
    /// The body; empty where it was handed out in pieces.
    pub body: &'a [u8],
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
    /// A header block whose end has not arrived, its stream, and whether it ends that.
    block: Vec<u8>,
    continuing: Option<(u32, bool)>,
    /// Streams whose body lies in the input being received.
    borrowers: Vec<u32>,
    pings_answered: u64,
    /// Bytes of answers to PING and SETTINGS since nothing was left to send.
    answers_waiting: usize,
    failed: bool,
}

#[derive(Debug)]
struct Prepared {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    is_head: bool,
    /// The rendered block, good as long as the encoder has this version.
    block: Vec<u8>,
    version: Option<u64>,
}

#[derive(Debug, Default)]
struct Stream {
    /// 0 when free.
    id: u32,
    is_head: bool,
    /// The body is handed out as it comes.
    in_pieces: bool,
    send_window: i64,
    /// The request's body as far as it could not be sent at once, and what of it has been sent.
    unsent: Vec<u8>,
    unsent_at: usize,

    /// 0 until the final header block.
    status: u16,
    headers: HeaderBlock,
    trailers: HeaderBlock,
    body: Vec<u8>,
    /// The body lies here in the input instead, as start and end; (0, 0) if it does not.
    borrowed: (usize, usize),
    /// Bytes of DATA since the stream's window was last replenished.
    received: u32,
}

impl Stream {
    fn body_len(&self) -> usize {
        self.body.len() + self.borrowed.1 - self.borrowed.0
    }

    fn spill(&mut self, input: &[u8]) {
        let (start, end) = std::mem::take(&mut self.borrowed);
        self.body.extend_from_slice(input.get(start..end).unwrap_or_default());
    }

    fn reuse(&mut self, id: u32, send_window: u32, is_head: bool) {
        self.id = id;
        self.is_head = is_head;
        self.in_pieces = false;
        self.send_window = i64::from(send_window);
        self.status = 0;
        self.received = 0;
        self.borrowed = (0, 0);
        self.unsent_at = 0;
        self.unsent.clear();
        self.headers.clear();
        self.trailers.clear();
        self.body.clear();
    }

    fn free(&mut self) {
        self.id = 0;
        for buffer in [&mut self.unsent, &mut self.body] {
            if buffer.capacity() > KEPT_BUFFER {
                *buffer = Vec::new();
            }
        }
    }
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

    /// Prepares headers for many requests. Pseudo-headers (`:method`, `:scheme`, `:path`,
    /// `:authority`) come first and names are in lower case, as RFC 9113 section 8.2 wants;
    /// neither is checked.
    pub fn prepare(&mut self, headers: &[(&str, &str)]) -> HeadersId {
        let fields = headers.iter().map(|(n, v)| (n.as_bytes().into(), v.as_bytes().into()));
        self.prepared.push(Prepared {
            fields: fields.collect(),
            is_head: headers.contains(&(":method", "HEAD")),
            block: Vec::new(),
            version: None,
        });
        HeadersId(self.prepared.len() as u32 - 1)
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

    /// Returns how many streams are open.
    pub fn in_flight(&self) -> usize {
        self.active as usize
    }

    /// Returns how many different values [`StreamId::slot`] has.
    pub fn slots(&self) -> usize {
        self.streams.len()
    }

    /// Writes a request with prepared headers and `body`, the concatenation of its slices. What
    /// flow control does not let go at once is kept and follows in [`Connection::receive`].
    ///
    /// # Errors
    /// [`Busy`] when [`Connection::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// When `headers` are not of this connection.
    pub fn request(
        &mut self,
        headers: HeadersId,
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        self.request_with(headers, &[], body, out)
    }

    /// Like [`Connection::request`], with further header fields that differ from request to
    /// request and so are kept out of the compression table: pseudo-headers among them (a
    /// `:path`, say) go before the prepared fields and others after.
    ///
    /// # Errors
    /// [`Busy`] when [`Connection::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// When `headers` are not of this connection.
    pub fn request_with(
        &mut self,
        headers: HeadersId,
        more: &[(&[u8], &[u8])],
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        if self.capacity() == 0 {
            return Err(Busy);
        }
        let mask = self.streams.len() - 1;
        // Fewer streams are active than there are places, so one is free.
        while self.streams[(self.next_id >> 1) as usize & mask].id != 0 {
            self.next_id += 2;
        }
        let id = self.next_id;
        self.next_id += 2;
        self.active += 1;
        let at = (id >> 1) as usize & mask;

        let length: usize = body.iter().map(|slice| slice.len()).sum();
        let prepared = &mut self.prepared[headers.0 as usize];
        self.streams[at].reuse(id, self.peer_first_window, prepared.is_head);
        let flags = if length == 0 { END_STREAM } else { 0 };
        out.reserve(64 + prepared.block.len() + length);
        if more.is_empty() && prepared.version == Some(self.encoder.version()) {
            put_header_block(out, &prepared.block, flags, id, self.peer_frame_size);
        } else {
            prepared.render(&mut self.encoder, more, &mut self.rendered);
            put_header_block(out, &self.rendered, flags, id, self.peer_frame_size);
        }

        if length == 0 {
            return Ok(StreamId(id));
        }
        let stream = &mut self.streams[at];
        let window = if self.blocked.is_empty() { self.send_window } else { 0 };
        let window = window.min(stream.send_window);
        if length as i64 <= window && length <= self.peer_frame_size as usize {
            put_frame_header(out, length, DATA, END_STREAM, id);
            for slice in body {
                out.extend_from_slice(slice);
            }
            self.send_window -= length as i64;
            stream.send_window -= length as i64;
        } else {
            for slice in body {
                stream.unsent.extend_from_slice(slice);
            }
            if self.blocked.is_empty() {
                self.send_unsent(at, out);
            } else {
                if self.blocked.len() > 2 * self.streams.len() {
                    let streams = &self.streams;
                    self.blocked.retain(|&id| streams[(id >> 1) as usize & mask].id == id);
                }
                self.blocked.push_back(id);
            }
        }
        Ok(StreamId(id))
    }

    /// Has the body of a request's response handed out in pieces, as [`Event::Piece`]. The limit of
    /// bodies does not hold for it. Does nothing for a request that is over.
    pub fn in_pieces(&mut self, stream: StreamId) {
        if let Some(at) = self.place(stream.0) {
            self.streams[at].in_pieces = true;
        }
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

    /// Takes everything received, calls `on` for every request that ends, and writes what the
    /// protocol wants answered, and bodies that flow control now lets go.
    ///
    /// # Errors
    /// When the peer breaks the protocol. The connection can then not be used any more, and all
    /// further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        if self.failed {
            return Err(ProtocolError::new("http2: received after an error"));
        }
        if out.is_empty() {
            self.answers_waiting = 0;
        }
        let result = self.receive_frames(input, out, on);
        self.failed = result.is_err();
        result
    }

    fn receive_frames(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        let mut at = 0;
        if !self.partial.is_empty() {
            let mut partial = std::mem::take(&mut self.partial);
            if fill(&mut partial, FRAME_HEADER, input, &mut at) {
                let whole = FRAME_HEADER + frame_length(&partial)?;
                if fill(&mut partial, whole, input, &mut at) {
                    self.frame(Frame::new(&partial), &partial, out, on)?;
                    // Bodies in `partial` do not stay there.
                    self.spill(&partial);
                    partial.clear();
                }
            }
            self.partial = partial;
            if at == input.len() {
                return Ok(());
            }
        }
        while let Some(rest) = input.get(at..).filter(|rest| rest.len() >= FRAME_HEADER) {
            let whole = FRAME_HEADER + frame_length(rest)?;
            if rest.len() < whole {
                break;
            }
            let mut frame = Frame::new(rest.get(..whole).unwrap_or_default());
            frame.start += at;
            self.frame(frame, input, out, on)?;
            at += whole;
        }
        self.partial.extend_from_slice(input.get(at..).unwrap_or_default());
        self.spill(input);
        Ok(())
    }

    /// Copies bodies out of an input that is about to go away.
    fn spill(&mut self, input: &[u8]) {
        while let Some(id) = self.borrowers.pop() {
            if let Some(at) = self.place(id) {
                self.streams[at].spill(input);
            }
        }
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

    fn frame(
        &mut self,
        frame: Frame<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        if !self.peer_settings_seen {
            if frame.kind != SETTINGS || frame.flags & ACK != 0 {
                return Err(ProtocolError::new("http2: the peer did not begin with SETTINGS"));
            }
            self.peer_settings_seen = true;
            self.peer_max_streams = u32::MAX;
        }
        if let Some((id, ends)) = self.continuing {
            if frame.kind != CONTINUATION || frame.stream != id {
                return Err(ProtocolError::new("http2: a header block was interrupted"));
            }
            return self.continuation(frame, id, ends, input, out, on);
        }
        match frame.kind {
            DATA => self.data(frame, input, out, on),
            HEADERS => self.headers(frame, input, out, on),
            RST_STREAM => {
                let code = frame.u32()?;
                if let Some(at) = self.known(frame.stream)? {
                    self.end(at);
                    on(StreamId(frame.stream), Event::Reset { code });
                }
                Ok(())
            }
            SETTINGS => self.settings(frame, out),
            PING => {
                let opaque: &[u8; 8] = frame
                    .payload
                    .try_into()
                    .map_err(|_| ProtocolError::new("http2: a PING of the wrong size"))?;
                frame.of_connection()?;
                if frame.flags & ACK == 0 {
                    self.answer(8)?;
                    put_frame_header(out, 8, PING, ACK, 0);
                    out.extend_from_slice(opaque);
                } else {
                    self.pings_answered += 1;
                }
                Ok(())
            }
            GOAWAY => self.goaway(frame, on),
            WINDOW_UPDATE => self.window_update(frame, out),
            PUSH_PROMISE => Err(ProtocolError::new("http2: a push though pushes are off")),
            CONTINUATION => Err(ProtocolError::new("http2: a CONTINUATION of nothing")),
            PRIORITY => Ok(()),
            // Unknown frames are extensions and to be ignored (section 5.5).
            _ => Ok(()),
        }
    }

    fn data(
        &mut self,
        frame: Frame<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        // Padding counts in flow control, and so does what comes for streams that are over
        // (section 6.9). The addition cannot overflow: a frame has less than 2^24 bytes.
        let length = frame.payload.len() as u32;
        self.received += length;
        if self.received > self.receive_window {
            return Err(ProtocolError::new("http2: more data than the connection's window"));
        }
        if self.received >= self.receive_window / 2 {
            put_window_update(out, 0, self.received);
            self.received = 0;
        }
        let content = frame.unpadded()?;
        let Some(at) = self.known(frame.stream)? else { return Ok(()) };
        let stream = &mut self.streams[at];
        if stream.status == 0 {
            return self.malformed(at, "a body before the headers", out, on);
        }
        stream.received += length;
        if stream.received > self.stream_window {
            return Err(ProtocolError::new("http2: more data than the stream's window"));
        }
        let (start, end) = content;
        if !stream.in_pieces && stream.body_len() + (end - start) > self.settings.max_body {
            return self.malformed(at, "a body larger than the limit", out, on);
        }
        if start < end {
            if stream.in_pieces {
                let content = input.get(start..end).unwrap_or_default();
                let mut stop = false;
                let piece = Event::Piece { status: stream.status, content, stop: &mut stop };
                on(StreamId(frame.stream), piece);
                if stop {
                    self.end(at);
                    put_rst_stream(out, frame.stream, code::CANCEL);
                    return Ok(());
                }
            } else if stream.body_len() == 0 {
                stream.borrowed = content;
                self.borrowers.push(frame.stream);
            } else {
                stream.spill(input);
                stream.body.extend_from_slice(input.get(start..end).unwrap_or_default());
            }
        }
        if frame.flags & END_STREAM != 0 {
            return self.finish(at, input, out, on);
        }
        if stream.received >= self.stream_window / 2 {
            put_window_update(out, frame.stream, stream.received);
            stream.received = 0;
        }
        Ok(())
    }

    fn headers(
        &mut self,
        frame: Frame<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        self.known(frame.stream)?;
        let (mut start, end) = frame.unpadded()?;
        if frame.flags & WITH_PRIORITY != 0 {
            start += 5;
        }
        let block = input
            .get(start..end)
            .ok_or_else(|| ProtocolError::new("http2: HEADERS too short for its flags"))?;
        let ends = frame.flags & END_STREAM != 0;
        if frame.flags & END_HEADERS != 0 {
            self.header_block(frame.stream, ends, block, input, out, on)
        } else {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.continuing = Some((frame.stream, ends));
            Ok(())
        }
    }

    fn continuation(
        &mut self,
        frame: Frame<'_>,
        id: u32,
        ends: bool,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        self.block.extend_from_slice(frame.payload);
        if self.block.len() > self.settings.max_header_list as usize {
            return Err(ProtocolError::new("http2: a header block larger than the limit"));
        }
        if frame.flags & END_HEADERS != 0 {
            self.continuing = None;
            let block = std::mem::take(&mut self.block);
            self.header_block(id, ends, &block, input, out, on)?;
            self.block = block;
        }
        Ok(())
    }

    fn header_block(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        let Some(at) = self.place(id) else {
            // The stream is over, but the table must stay in step (section 4.3).
            return self.decoder.decode(block, &mut HeaderBlock::new());
        };
        let stream = &mut self.streams[at];
        if stream.status != 0 {
            if !stream.trailers.view().is_empty() {
                self.decoder.decode(block, &mut HeaderBlock::new())?;
                return self.malformed(at, "a third header block", out, on);
            }
            self.decoder.decode(block, &mut stream.trailers)?;
            if !ends {
                return self.malformed(at, "trailers that do not end the stream", out, on);
            }
            return self.finish(at, input, out, on);
        }
        self.decoder.decode(block, &mut stream.headers)?;
        let status = stream.headers.view().get(b":status").and_then(|digits| match digits {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
            }
            _ => None,
        });
        match status {
            None => self.malformed(at, "no valid status", out, on),
            // Interim responses are not for us (section 8.1).
            Some(..200) if ends => self.malformed(at, "an interim response at the end", out, on),
            Some(..200) => {
                stream.headers.clear();
                Ok(())
            }
            Some(status) => {
                stream.status = status;
                if ends { self.finish(at, input, out, on) } else { Ok(()) }
            }
        }
    }

    /// The peer has ended a stream in good order.
    fn finish(
        &mut self,
        at: usize,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        let stream = &self.streams[at];
        let (start, end) = stream.borrowed;
        let body =
            if start < end { input.get(start..end).unwrap_or_default() } else { &stream.body };
        // Section 8.1.1: a body that differs from its content-length makes the response malformed.
        let bodiless =
            stream.is_head || stream.in_pieces || stream.status == 204 || stream.status == 304;
        if !bodiless && let Some(length) = stream.headers.view().get(b"content-length") {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            if length != Some(body.len()) {
                return self.malformed(at, "a body of another size than content-length", out, on);
            }
        }
        let response = Response {
            status: stream.status,
            headers: stream.headers.view(),
            body,
            trailers: stream.trailers.view(),
        };
        let id = stream.id;
        on(StreamId(id), Event::Response(response));
        if stream.unsent_at < stream.unsent.len() {
            // Answered before it was asked in full: the rest is not wanted (section 8.1).
            put_rst_stream(out, id, code::CANCEL);
        }
        self.end(at);
        Ok(())
    }

    /// Resets a stream whose response is no good. That is no error of the connection.
    fn malformed(
        &mut self,
        at: usize,
        what: &'static str,
        out: &mut Vec<u8>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        let id = self.streams[at].id;
        put_rst_stream(out, id, code::PROTOCOL_ERROR);
        self.end(at);
        on(StreamId(id), Event::Malformed { what });
        Ok(())
    }

    /// Counts an answer that the peer is due, of so many bytes besides its header.
    ///
    /// # Errors
    /// A peer that asks for more and more and takes nothing (section 10.5, `CVE-2019-9512` and `-9515`).
    fn answer(&mut self, bytes: usize) -> Result<(), ProtocolError> {
        self.answers_waiting += FRAME_HEADER + bytes;
        if self.answers_waiting > ANSWERS_WAITING_MAX {
            return Err(ProtocolError::new(
                "http2: more than 1 MiB of answers to PING and SETTINGS wait for a peer that reads none",
            ));
        }
        Ok(())
    }

    fn settings(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        frame.of_connection()?;
        if frame.flags & ACK != 0 {
            return match frame.payload {
                [] => Ok(()),
                _ => Err(ProtocolError::new("http2: an acknowledgement with content")),
            };
        }
        let (settings, rest) = frame.payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ProtocolError::new("http2: SETTINGS of a wrong size"));
        }
        for &[a, b, c, d, e, f] in settings {
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                0x1 => self.encoder.peer_allows(value as usize),
                0x3 => self.peer_max_streams = value,
                0x4 => {
                    if value > MAX_31_BIT {
                        return Err(ProtocolError::new("http2: a window of more than 31 bits"));
                    }
                    let change = i64::from(value) - i64::from(self.peer_first_window);
                    self.peer_first_window = value;
                    self.change_windows(change)?;
                }
                0x5 => {
                    if !(LEAST_FRAME_SIZE..1 << 24).contains(&value) {
                        return Err(ProtocolError::new("http2: a frame size out of range"));
                    }
                    self.peer_frame_size = value;
                }
                _ => {}
            }
        }
        self.answer(0)?;
        put_frame_header(out, 0, SETTINGS, ACK, 0);
        self.send_blocked(out);
        Ok(())
    }

    /// A new first window changes the windows of open streams, even below zero (section 6.9.2).
    fn change_windows(&mut self, change: i64) -> Result<(), ProtocolError> {
        for stream in self.streams.iter_mut().filter(|stream| stream.id != 0) {
            let stopped = stream.send_window <= 0 && stream.unsent_at < stream.unsent.len();
            stream.send_window += change;
            if stream.send_window > i64::from(MAX_31_BIT) {
                return Err(ProtocolError::new("http2: a window of more than 31 bits"));
            }
            if stopped && stream.send_window > 0 && !self.blocked.contains(&stream.id) {
                self.blocked.push_back(stream.id);
            }
        }
        Ok(())
    }

    fn window_update(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let increment = i64::from(frame.u32()? & MAX_31_BIT);
        if increment == 0 {
            return Err(ProtocolError::new("http2: a window update of 0"));
        }
        let window = if frame.stream == 0 {
            self.send_window += increment;
            self.send_window
        } else {
            let Some(at) = self.known(frame.stream)? else { return Ok(()) };
            let stream = &mut self.streams[at];
            let stopped = stream.send_window <= 0 && stream.unsent_at < stream.unsent.len();
            stream.send_window += increment;
            let window = stream.send_window;
            if stopped && window > 0 && !self.blocked.contains(&frame.stream) {
                self.blocked.push_back(frame.stream);
            }
            window
        };
        if window > i64::from(MAX_31_BIT) {
            return Err(ProtocolError::new("http2: a window of more than 31 bits"));
        }
        self.send_blocked(out);
        Ok(())
    }

    /// Sends what the connection's window held back, oldest first.
    fn send_blocked(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.blocked.len() {
            if self.send_window <= 0 {
                return;
            }
            let Some(id) = self.blocked.pop_front() else { return };
            if let Some(at) = self.place(id) {
                self.send_unsent(at, out);
            }
        }
    }

    /// Sends of a body what the windows let go. If the connection's window ends first the stream
    /// waits in `blocked`; if its own does, for an update of that.
    fn send_unsent(&mut self, at: usize, out: &mut Vec<u8>) {
        let stream = &mut self.streams[at];
        while let Some(rest) = stream.unsent.get(stream.unsent_at..).filter(|r| !r.is_empty()) {
            let window = stream.send_window.min(self.send_window);
            if window <= 0 {
                if stream.send_window > 0 {
                    // In front: it was the oldest, and others keep their order.
                    self.blocked.push_front(stream.id);
                }
                return;
            }
            let length = rest.len().min(window as usize).min(self.peer_frame_size as usize);
            let flags = if length == rest.len() { END_STREAM } else { 0 };
            put_frame_header(out, length, DATA, flags, stream.id);
            out.extend_from_slice(rest.get(..length).unwrap_or_default());
            stream.unsent_at += length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
        }
    }

    fn goaway(
        &mut self,
        frame: Frame<'_>,
        on: &mut impl FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        frame.of_connection()?;
        let Some((&[a, b, c, d, e, f, g, h], debug)) = frame.payload.split_first_chunk::<8>()
        else {
            return Err(ProtocolError::new("http2: a GOAWAY of a wrong size"));
        };
        let last_stream = u32::from_be_bytes([a, b, c, d]) & MAX_31_BIT;
        self.going_away = Some(GoAway {
            last_stream,
            code: u32::from_be_bytes([e, f, g, h]),
            debug: debug.get(..DEBUG_KEPT).unwrap_or(debug).to_vec(),
        });
        for at in 0..self.streams.len() {
            let id = self.streams[at].id;
            if id > last_stream {
                self.end(at);
                on(StreamId(id), Event::Reset { code: code::REFUSED_STREAM });
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Renders the block anew and keeps it if the encoder's table knew all of it already.
    fn render(&mut self, encoder: &mut Encoder, more: &[(&[u8], &[u8])], block: &mut Vec<u8>) {
        block.clear();
        encoder.begin(block);
        for (name, value) in more.iter().filter(|(name, _)| name.starts_with(b":")) {
            encoder.encode_once(name, value, block);
        }
        let version = encoder.version();
        if self.version == Some(version) {
            block.extend_from_slice(&self.block);
        } else {
            let start = block.len();
            for (name, value) in &self.fields {
                encoder.encode(name, value, block);
            }
            if encoder.version() == version {
                self.version = Some(version);
                self.block.clear();
                self.block.extend_from_slice(block.get(start..).unwrap_or_default());
            }
        }
        for (name, value) in more.iter().filter(|(name, _)| !name.starts_with(b":")) {
            encoder.encode_once(name, value, block);
        }
    }
}

/// A whole frame.
#[derive(Clone, Copy)]
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
    /// Where the payload begins in the input.
    start: usize,
}

impl<'a> Frame<'a> {
    fn new(whole: &'a [u8]) -> Self {
        let (header, payload) = whole.split_at_checked(FRAME_HEADER).unwrap_or_default();
        let &[_, _, _, kind, flags, a, b, c, d] = header else {
            return Self { kind: u8::MAX, flags: 0, stream: 0, payload, start: 0 };
        };
        let stream = u32::from_be_bytes([a, b, c, d]) & MAX_31_BIT;
        Self { kind, flags, stream, payload, start: FRAME_HEADER }
    }

    fn of_connection(&self) -> Result<(), ProtocolError> {
        if self.stream == 0 {
            return Ok(());
        }
        Err(ProtocolError::new(format!("http2: frame type {} on a stream", self.kind)))
    }

    fn u32(&self) -> Result<u32, ProtocolError> {
        let bytes = self.payload.try_into().map_err(|_| {
            ProtocolError::new(format!("http2: frame type {} of a wrong size", self.kind))
        })?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Returns where the payload without padding lies in the input (section 6.1).
    fn unpadded(&self) -> Result<(usize, usize), ProtocolError> {
        let end = self.start + self.payload.len();
        if self.flags & PADDED == 0 {
            return Ok((self.start, end));
        }
        match self.payload.first() {
            Some(&padding) if usize::from(padding) < self.payload.len() => {
                Ok((self.start + 1, end - usize::from(padding)))
            }
            _ => Err(ProtocolError::new("http2: more padding than frame")),
        }
    }
}

/// The payload's length, at the beginning of a frame.
fn frame_length(header: &[u8]) -> Result<usize, ProtocolError> {
    if header.starts_with(b"HTTP/1.") {
        return Err(ProtocolError::new("http2: the peer speaks HTTP/1"));
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

/// Appends input to `partial` until that has `wanted` bytes; says whether it has.
fn fill(partial: &mut Vec<u8>, wanted: usize, input: &[u8], at: &mut usize) -> bool {
    let rest = input.get(*at..).unwrap_or_default();
    let missing = wanted.saturating_sub(partial.len());
    let taken = rest.get(..missing).unwrap_or(rest);
    partial.extend_from_slice(taken);
    *at += taken.len();
    partial.len() >= wanted
}

fn put_frame_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Writes a header block as HEADERS and, if it is long, CONTINUATION frames.
fn put_header_block(out: &mut Vec<u8>, block: &[u8], flags: u8, stream: u32, frame_size: u32) {
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

fn put_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    put_frame_header(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

fn put_rst_stream(out: &mut Vec<u8>, stream: u32, code: u32) {
    put_frame_header(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&code.to_be_bytes());
}

#[cfg(test)]
mod tests;
