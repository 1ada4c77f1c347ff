//! Holds the state of one stream: unsent request and received response.

use super::frame::Span;
use crate::hpack::HeaderBlock;

/// Largest buffer to keep after its stream ends, in bytes.
const KEPT_BUFFER: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Stream number; 0 for a free place.
    pub(super) id: u32,
    pub(super) is_head: bool,
    /// True if the body is passed on in pieces.
    pub(super) in_pieces: bool,
    /// True if the request's body may continue.
    pub(super) stays_open: bool,
    pub(super) send_window: i64,
    /// Request body that could not be sent at once, and how much of it has been sent.
    pub(super) unsent: Vec<u8>,
    pub(super) unsent_at: usize,

    /// Final status; 0 until its header block.
    pub(super) status: u16,
    pub(super) headers: HeaderBlock,
    pub(super) trailers: HeaderBlock,
    pub(super) body: Vec<u8>,
    /// Bytes of the body so far, including dropped ones.
    pub(super) length: usize,
    /// Location of the body in the current input; empty if it is not there.
    pub(super) borrowed: Span,
    /// Bytes of DATA since the stream's window was last replenished.
    pub(super) received: u32,
}

impl Stream {
    /// Copies a borrowed body out of `input`, which is about to be dropped. `kept`: maximum bytes of a body to keep.
    pub(super) fn spill(&mut self, input: &[u8], kept: usize) {
        let borrowed = std::mem::take(&mut self.borrowed);
        self.keep(borrowed.bytes(input), kept);
    }

    /// Keeps a piece of the body as far as the limit allows.
    pub(super) fn keep(&mut self, piece: &[u8], kept: usize) {
        let room = kept.saturating_sub(self.body.len());
        self.body.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    pub(super) fn reuse(&mut self, id: u32, send_window: u32, is_head: bool) {
        self.id = id;
        self.is_head = is_head;
        self.in_pieces = false;
        self.stays_open = false;
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
