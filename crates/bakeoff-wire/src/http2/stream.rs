//! One stream's state: what is left to send, what has come.

use super::frame::Span;
use crate::hpack::HeaderBlock;

/// Buffers above this many bytes are given back when their stream ends.
const KEPT_BUFFER: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// 0 when free.
    pub(super) id: u32,
    pub(super) is_head: bool,
    /// The body is handed out as it comes.
    pub(super) in_pieces: bool,
    pub(super) send_window: i64,
    /// The request's body as far as it could not be sent at once, and what of it has been sent.
    pub(super) unsent: Vec<u8>,
    pub(super) unsent_at: usize,

    /// 0 until the final header block.
    pub(super) status: u16,
    pub(super) headers: HeaderBlock,
    pub(super) trailers: HeaderBlock,
    pub(super) body: Vec<u8>,
    /// Bytes of the body so far, dropped ones included.
    pub(super) length: usize,
    /// The body lies here in the input instead; empty if it does not.
    pub(super) borrowed: Span,
    /// Bytes of DATA since the stream's window was last replenished.
    pub(super) received: u32,
}

impl Stream {
    /// Keeps a body that lies in `input`, which is about to go away. `kept`: bytes of a body that are kept at most.
    pub(super) fn spill(&mut self, input: &[u8], kept: usize) {
        let borrowed = std::mem::take(&mut self.borrowed);
        self.keep(borrowed.bytes(input), kept);
    }

    /// Keeps a piece of the body as far as there is room.
    pub(super) fn keep(&mut self, piece: &[u8], kept: usize) {
        let room = kept.saturating_sub(self.body.len());
        self.body.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    pub(super) fn reuse(&mut self, id: u32, send_window: u32, is_head: bool) {
        self.id = id;
        self.is_head = is_head;
        self.in_pieces = false;
        self.send_window = i64::from(send_window);
        self.status = 0;
        self.received = 0;
        self.length = 0;
        self.borrowed = Span::default();
        self.unsent_at = 0;
        self.unsent.clear();
        self.headers.clear();
        self.trailers.clear();
        self.body.clear();
    }

    pub(super) fn free(&mut self) {
        self.id = 0;
        for buffer in [&mut self.unsent, &mut self.body] {
            if buffer.capacity() > KEPT_BUFFER {
                *buffer = Vec::new();
            }
        }
    }
}
