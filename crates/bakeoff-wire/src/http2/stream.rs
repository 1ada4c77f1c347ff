//! One stream's state: what is left to send, what has come.

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
    /// The body lies here in the input instead, as start and end; (0, 0) if it does not.
    pub(super) borrowed: (usize, usize),
    /// Bytes of DATA since the stream's window was last replenished.
    pub(super) received: u32,
}

impl Stream {
    pub(super) fn body_len(&self) -> usize {
        self.body.len() + self.borrowed.1 - self.borrowed.0
    }

    pub(super) fn spill(&mut self, input: &[u8]) {
        let (start, end) = std::mem::take(&mut self.borrowed);
        self.body.extend_from_slice(input.get(start..end).unwrap_or_default());
    }

    pub(super) fn reuse(&mut self, id: u32, send_window: u32, is_head: bool) {
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

    pub(super) fn free(&mut self) {
        self.id = 0;
        for buffer in [&mut self.unsent, &mut self.body] {
            if buffer.capacity() > KEPT_BUFFER {
                *buffer = Vec::new();
            }
        }
    }
}
