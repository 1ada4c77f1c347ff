//! Handles frames from the peer. Each changes a stream or the connection, and may end a request.

use std::ops::ControlFlow;

use super::frame::*;
use super::{Connection, Event, GoAway, Response, StreamId, code};
use crate::ProtocolError;
use crate::hpack::{HeaderBlock, Headers};

/// Maximum bytes of unsent answers to PING and SETTINGS.
const ANSWERS_WAITING_MAX: usize = 1 << 20;
/// Maximum kept debug data of a GOAWAY, in bytes.
const DEBUG_KEPT: usize = 256;

/// Holds the current input, the bytes to send, and the receiver of events.
struct Exchange<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
    on: &'a mut dyn FnMut(StreamId, Event<'_>),
}

/// Remembers a HEADERS frame until its header block is complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockStart {
    stream: u32,
    /// True if the stream ends with this block.
    ends_stream: bool,
}

impl Connection {
    /// Passes on the response's body in pieces, as [`Event::Piece`], without the limit on bodies. Does nothing for a
    /// request that has ended.
    pub fn in_pieces(&mut self, stream: StreamId) {
        if let Some(at) = self.place(stream.0) {
            self.streams[at].in_pieces = true;
        }
    }

    /// Consumes all of `input`, calls `on` for every request that ends, and writes protocol answers and bodies that
    /// flow control now allows.
    ///
    /// # Errors
    /// Fails if the peer breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(StreamId, Event<'_>),
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
        on: &mut dyn FnMut(StreamId, Event<'_>),
    ) -> Result<(), ProtocolError> {
        let mut at = 0;
        if !self.partial.is_empty() {
            let mut partial = std::mem::take(&mut self.partial);
            if fill(&mut partial, FRAME_HEADER, input, &mut at) {
                let whole = FRAME_HEADER + frame_length(&partial)?;
                if fill(&mut partial, whole, input, &mut at) {
                    let exchange = &mut Exchange { input: &partial, out: &mut *out, on: &mut *on };
                    self.frame(Frame::new(&partial), exchange)?;
                    // Bodies must not stay in `partial`.
                    self.spill(&partial);
                    partial.clear();
                }
            }
            self.partial = partial;
            if at == input.len() {
                return Ok(());
            }
        }
        let exchange = &mut Exchange { input, out, on };
        while let Some(rest) = input.get(at..).filter(|rest| rest.len() >= FRAME_HEADER) {
            let whole = FRAME_HEADER + frame_length(rest)?;
            if rest.len() < whole {
                break;
            }
            let mut frame = Frame::new(rest.get(..whole).unwrap_or_default());
            frame.start += at;
            self.frame(frame, exchange)?;
            at += whole;
        }
        self.partial.extend_from_slice(input.get(at..).unwrap_or_default());
        self.spill(input);
        Ok(())
    }

    /// Copies bodies out of an input that is about to be dropped.
    fn spill(&mut self, input: &[u8]) {
        while let Some(id) = self.borrowers.pop() {
            if let Some(at) = self.place(id) {
                self.streams[at].spill(input, self.settings.kept_body);
            }
        }
    }

    fn frame(
        &mut self,
        frame: Frame<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        if !self.peer_settings_seen {
            if frame.kind != SETTINGS || frame.flags & ACK != 0 {
                return Err(ProtocolError::new("http2: the peer did not begin with SETTINGS"));
            }
            self.peer_settings_seen = true;
            self.peer_max_streams = u32::MAX;
        }
        if let Some(start) = self.continuing {
            if frame.kind != CONTINUATION || frame.stream != start.stream {
                return Err(ProtocolError::new("http2: a header block was interrupted"));
            }
            return self.continuation(frame, start, exchange);
        }
        if !matches!(frame.kind, DATA | HEADERS | RST_STREAM) {
            self.add_overhead(frame)?;
        }
        match frame.kind {
            DATA => self.data(frame, exchange),
            HEADERS => self.headers(frame, exchange),
            RST_STREAM => {
                let code = frame.u32()?;
                if let Some(at) = self.known(frame.stream)? {
                    self.end(at);
                    (exchange.on)(StreamId(frame.stream), Event::Reset { code });
                }
                Ok(())
            }
            SETTINGS => self.settings(frame, exchange.out),
            PING => self.pinged(frame, exchange.out),
            GOAWAY => self.goaway(frame, exchange.on),
            WINDOW_UPDATE => self.window_update(frame, exchange.out),
            PUSH_PROMISE => Err(ProtocolError::new("http2: a push although pushes are disabled")),
            CONTINUATION => Err(ProtocolError::new("http2: a CONTINUATION without a header block")),
            PRIORITY => Ok(()),
            // Unknown frames are extensions and must be ignored (section 5.5).
            _ => Ok(()),
        }
    }

    /// Counts a frame that completes nothing.
    ///
    /// # Errors
    /// Fails for a peer that sends too many of them between two responses.
    fn add_overhead(&mut self, frame: Frame<'_>) -> Result<(), ProtocolError> {
        let bytes = FRAME_HEADER + frame.payload.len();
        let what = match frame.kind {
            PING | SETTINGS => "PING and SETTINGS frames",
            _ => "frames that complete nothing",
        };
        self.overhead.add(bytes, what).map_err(|error| error.within("http2"))
    }

    fn pinged(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let opaque: &[u8; 8] = frame
            .payload
            .try_into()
            .map_err(|_| ProtocolError::new("http2: a PING of the wrong size"))?;
        frame.of_connection()?;
        if frame.flags & ACK != 0 {
            self.pings_answered += 1;
            return Ok(());
        }
        self.answer(8)?;
        put_frame_header(out, 8, PING, ACK, 0);
        out.extend_from_slice(opaque);
        Ok(())
    }

    fn data(&mut self, frame: Frame<'_>, exchange: &mut Exchange<'_>) -> Result<(), ProtocolError> {
        // Flow control counts padding, and frames for streams that have ended (section 6.9). The additions cannot
        // overflow: a frame has less than 2^24 bytes.
        let length = frame.payload.len() as u32;
        self.received += length;
        if self.received > self.receive_window {
            return Err(ProtocolError::new("http2: more data than the connection's window"));
        }
        if self.received >= self.receive_window / 2 {
            put_window_update(exchange.out, 0, self.received);
            self.received = 0;
        }
        let content = frame.unpadded()?;
        let Some(at) = self.known(frame.stream)? else { return Ok(()) };
        let stream = &mut self.streams[at];
        if stream.status == 0 {
            return self.malformed(at, "a body before the headers", exchange);
        }
        stream.received += length;
        if stream.received > self.stream_window {
            return Err(ProtocolError::new("http2: more data than the stream's window"));
        }
        stream.length += content.len();
        if !stream.in_pieces && stream.length > self.settings.max_body {
            return self.malformed(at, "a body larger than the limit", exchange);
        }
        if content.is_empty() {
            self.add_overhead(frame)?;
        } else {
            self.overhead.reset();
            if self.body(at, content, exchange).is_break() {
                return Ok(());
            }
        }
        if frame.flags & END_STREAM != 0 {
            return self.finish(at, exchange);
        }
        let stream = &mut self.streams[at];
        if stream.received >= self.stream_window / 2 {
            put_window_update(exchange.out, frame.stream, stream.received);
            stream.received = 0;
        }
        Ok(())
    }

    /// Passes on a piece of a body, or keeps it. Breaks if the receiver cancelled the request.
    fn body(&mut self, at: usize, content: Span, exchange: &mut Exchange<'_>) -> ControlFlow<()> {
        let (stream, kept) = (&mut self.streams[at], self.settings.kept_body);
        let (id, bytes) = (stream.id, content.bytes(exchange.input));
        if stream.in_pieces {
            let mut stop = false;
            let piece = Event::Piece { status: stream.status, content: bytes, stop: &mut stop };
            (exchange.on)(StreamId(id), piece);
            if stop {
                self.end(at);
                put_rst_stream(exchange.out, id, code::CANCEL);
                return ControlFlow::Break(());
            }
        } else if stream.length == content.len() {
            stream.borrowed = content;
            self.borrowers.push(id);
        } else {
            stream.spill(exchange.input, kept);
            stream.keep(bytes, kept);
        }
        ControlFlow::Continue(())
    }

    fn headers(
        &mut self,
        frame: Frame<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        self.known(frame.stream)?;
        let Span { mut start, end } = frame.unpadded()?;
        if frame.flags & WITH_PRIORITY != 0 {
            start += 5;
        }
        let block = exchange
            .input
            .get(start..end)
            .ok_or_else(|| ProtocolError::new("http2: HEADERS too short for its flags"))?;
        let ends_stream = frame.flags & END_STREAM != 0;
        let start = BlockStart { stream: frame.stream, ends_stream };
        if frame.flags & END_HEADERS != 0 {
            return self.header_block(start, block, exchange);
        }
        self.block.clear();
        self.block.extend_from_slice(block);
        self.continuing = Some(start);
        Ok(())
    }

    fn continuation(
        &mut self,
        frame: Frame<'_>,
        start: BlockStart,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        self.add_overhead(frame)?;
        self.block.extend_from_slice(frame.payload);
        if self.block.len() > self.settings.max_header_list as usize {
            return Err(ProtocolError::new("http2: a header block larger than the limit"));
        }
        if frame.flags & END_HEADERS != 0 {
            self.continuing = None;
            let block = std::mem::take(&mut self.block);
            self.header_block(start, &block, exchange)?;
            self.block = block;
        }
        Ok(())
    }

    /// Handles a complete header block: of an interim response, of the final response, or trailers.
    fn header_block(
        &mut self,
        start: BlockStart,
        block: &[u8],
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        match self.place(start.stream) {
            // The stream has ended, but the table must stay in sync (section 4.3).
            None => self.decoder.decode(block, &mut HeaderBlock::new()),
            Some(at) if self.streams[at].status == 0 => {
                self.response_headers(at, start, block, exchange)
            }
            Some(at) => self.trailers(at, start, block, exchange),
        }
    }

    fn response_headers(
        &mut self,
        at: usize,
        start: BlockStart,
        block: &[u8],
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        let stream = &mut self.streams[at];
        self.decoder.decode(block, &mut stream.headers)?;
        match status(stream.headers.view()) {
            None => self.malformed(at, "no valid status", exchange),
            // Interim responses are ignored (section 8.1).
            Some(..200) if start.ends_stream => {
                self.malformed(at, "an interim response at the end", exchange)
            }
            Some(..200) => {
                stream.headers.clear();
                let length = FRAME_HEADER + block.len();
                let added = self.overhead.add(length, "interim responses");
                added.map_err(|error| error.within("http2"))
            }
            Some(status) => {
                stream.status = status;
                if start.ends_stream { self.finish(at, exchange) } else { Ok(()) }
            }
        }
    }

    fn trailers(
        &mut self,
        at: usize,
        start: BlockStart,
        block: &[u8],
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        let stream = &mut self.streams[at];
        if !stream.trailers.view().is_empty() {
            self.decoder.decode(block, &mut HeaderBlock::new())?;
            return self.malformed(at, "a third header block", exchange);
        }
        self.decoder.decode(block, &mut stream.trailers)?;
        if !start.ends_stream {
            return self.malformed(at, "trailers that do not end the stream", exchange);
        }
        self.finish(at, exchange)
    }

    /// Ends a stream that the peer has completed.
    fn finish(&mut self, at: usize, exchange: &mut Exchange<'_>) -> Result<(), ProtocolError> {
        let stream = &self.streams[at];
        let body: &[u8] = match stream.borrowed.is_empty() {
            true => &stream.body,
            false => stream.borrowed.bytes(exchange.input),
        };
        // Section 8.1.1: a body that differs from its content-length makes the response malformed.
        let bodiless =
            stream.is_head || stream.in_pieces || stream.status == 204 || stream.status == 304;
        if !bodiless && let Some(length) = stream.headers.view().get(b"content-length") {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            if length != Some(stream.length) {
                return self.malformed(at, "a body of another size than content-length", exchange);
            }
        }
        let response = Response {
            status: stream.status,
            headers: stream.headers.view(),
            body,
            length: stream.length,
            trailers: stream.trailers.view(),
        };
        self.overhead.reset();
        let id = stream.id;
        (exchange.on)(StreamId(id), Event::Response(response));
        if stream.unsent_at < stream.unsent.len() || stream.stays_open {
            // The peer answered before it had the whole request, and does not need the rest (section 8.1).
            put_rst_stream(exchange.out, id, code::CANCEL);
        }
        self.end(at);
        Ok(())
    }

    /// Resets a stream with a malformed response. The connection continues.
    fn malformed(
        &mut self,
        at: usize,
        what: &'static str,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProtocolError> {
        let id = self.streams[at].id;
        put_rst_stream(exchange.out, id, code::PROTOCOL_ERROR);
        self.end(at);
        (exchange.on)(StreamId(id), Event::Malformed { what });
        Ok(())
    }

    /// Counts an answer to the peer with `bytes` of payload.
    ///
    /// # Errors
    /// Fails for a peer that keeps requesting answers but reads none (section 10.5, `CVE-2019-9512` and `-9515`).
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

    fn goaway(
        &mut self,
        frame: Frame<'_>,
        on: &mut dyn FnMut(StreamId, Event<'_>),
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

/// Returns the status of a response; `None` if it is not a number from 100 to 999.
fn status(headers: Headers<'_>) -> Option<u16> {
    match headers.get(b":status")? {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
        }
        _ => None,
    }
}
