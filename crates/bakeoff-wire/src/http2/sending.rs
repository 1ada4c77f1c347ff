//! Sends requests: prepared headers, and bodies as far as the windows allow.

use super::frame::*;
use super::{Connection, HeadersId, StreamId};
use crate::hpack::Encoder;
use crate::{Busy, ProtocolError};

#[derive(Debug)]
pub(super) struct PreparedHeaders {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    is_head: bool,
    /// Rendered block, valid while the encoder has this version.
    block: Vec<u8>,
    version: Option<u64>,
}

/// Whether the body of a request is known at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestBody {
    Whole,
    Continues,
}

impl PreparedHeaders {
    /// Renders the block again, and keeps it if all its fields were already in the encoder's table.
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

impl Connection {
    /// Prepares headers for many requests. Pseudo-headers (`:method`, `:scheme`, `:path`, `:authority`) must come
    /// first and names must be in lower case (RFC 9113 section 8.2); neither is checked.
    pub fn prepare(&mut self, headers: &[(&str, &str)]) -> HeadersId {
        let fields = headers.iter().map(|(n, v)| (n.as_bytes().into(), v.as_bytes().into()));
        self.prepared.push(PreparedHeaders {
            fields: fields.collect(),
            is_head: headers.contains(&(":method", "HEAD")),
            block: Vec::new(),
            version: None,
        });
        HeadersId(self.prepared.len() as u32 - 1)
    }

    /// Writes a request with prepared headers and a `body`, the concatenation of its slices. Bytes that flow control
    /// blocks are kept and follow in [`Connection::receive`].
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Connection::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `headers` belong to another connection.
    pub fn request(
        &mut self,
        headers: HeadersId,
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        self.request_with(headers, &[], body, out)
    }

    /// Writes a request like [`Connection::request`], with additional header fields that change with each request.
    /// They are not put into the compression table. Pseudo-headers such as `:path` go before the prepared fields,
    /// others after.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Connection::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `headers` belong to another connection.
    pub fn request_with(
        &mut self,
        headers: HeadersId,
        more: &[(&[u8], &[u8])],
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        self.begin(headers, more, body, RequestBody::Whole, out)
    }

    /// Writes a request whose body continues with [`Connection::send_more`]. It ends with the response, or with
    /// [`Connection::cancel`].
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Connection::capacity`] is 0; nothing is written then.
    ///
    /// # Panics
    /// Panics if `headers` belong to another connection.
    pub fn request_open(
        &mut self,
        headers: HeadersId,
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        self.begin(headers, &[], body, RequestBody::Continues, out)
    }

    /// Writes more of the body of a request that was begun by [`Connection::request_open`]. Bytes that flow control
    /// blocks are kept, without a limit: send more only after the peer has answered.
    ///
    /// # Errors
    /// Returns [`Busy`] if the request has ended.
    pub fn send_more(
        &mut self,
        stream: StreamId,
        body: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), Busy> {
        let at = self.place(stream.0).filter(|&at| self.streams[at].stays_open).ok_or(Busy)?;
        let stream = &mut self.streams[at];
        let waits = stream.unsent_at < stream.unsent.len();
        if !waits {
            stream.unsent_at = 0;
            stream.unsent.clear();
        }
        for slice in body {
            stream.unsent.extend_from_slice(slice);
        }
        if waits {
            return Ok(());
        }
        if self.blocked.is_empty() {
            self.send_unsent(at, out);
        } else {
            self.blocked.push_back(stream.id);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        headers: HeadersId,
        more: &[(&[u8], &[u8])],
        body: &[&[u8]],
        kind: RequestBody,
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Busy> {
        if self.capacity() == 0 {
            return Err(Busy);
        }
        let mask = self.streams.len() - 1;
        // There are more places than active streams, so one is free.
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
        self.streams[at].stays_open = kind == RequestBody::Continues;
        let last = if kind == RequestBody::Whole { END_STREAM } else { 0 };
        let flags = if length == 0 { last } else { 0 };
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
            put_frame_header(out, length, DATA, last, id);
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

    /// Applies a new initial window to open streams, whose windows may become negative (section 6.9.2).
    pub(super) fn change_windows(&mut self, change: i64) -> Result<(), ProtocolError> {
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

    pub(super) fn window_update(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
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

    /// Sends bodies that the connection's window blocked, oldest first.
    pub(super) fn send_blocked(&mut self, out: &mut Vec<u8>) {
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

    /// Sends as much of a body as the windows allow. If the connection's window is used up, the stream waits in
    /// `blocked`; otherwise it waits for its own window update.
    fn send_unsent(&mut self, at: usize, out: &mut Vec<u8>) {
        let stream = &mut self.streams[at];
        while let Some(rest) = stream.unsent.get(stream.unsent_at..).filter(|r| !r.is_empty()) {
            let window = stream.send_window.min(self.send_window);
            if window <= 0 {
                if stream.send_window > 0 {
                    // It was the oldest, so it returns to the front.
                    self.blocked.push_front(stream.id);
                }
                return;
            }
            let length = rest.len().min(window as usize).min(self.peer_frame_size as usize);
            let is_last = length == rest.len() && !stream.stays_open;
            let flags = if is_last { END_STREAM } else { 0 };
            self.overhead.reset();
            put_frame_header(out, length, DATA, flags, stream.id);
            out.extend_from_slice(rest.get(..length).unwrap_or_default());
            stream.unsent_at += length;
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
        }
    }
}
