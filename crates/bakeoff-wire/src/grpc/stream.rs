//! Splits the body of a streaming call's response into messages.
//!
//! A message follows a prefix: a byte for compression and four for its length. Frame boundaries are irrelevant. A
//! frame may hold several messages, and a message may span several frames.
//!
//! Not here: frames and their windows (`http2`), the end of a call (`super`).

use crate::http2::StreamId;

/// Size of a message's prefix in bytes.
const PREFIX: usize = 5;
/// Largest buffer to keep after its message is complete, in bytes.
const KEPT_BUFFER: usize = 64 * 1024;

/// Collects the messages of one call.
#[derive(Debug)]
pub(super) struct MessageCollector {
    pub(super) stream: StreamId,
    message_max: usize,
    /// Start of an incomplete message, with its prefix.
    partial: Vec<u8>,
}

impl MessageCollector {
    pub(super) fn new(stream: StreamId, message_max: usize) -> Self {
        Self { stream, message_max, partial: Vec::new() }
    }

    /// Returns true if the last message is complete.
    pub(super) fn is_between_messages(&self) -> bool {
        self.partial.is_empty()
    }

    /// Returns the bytes of the incomplete message.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.partial.len()
    }

    /// Consumes a piece of the body and passes on the messages that it completes. A message within one piece is not
    /// copied.
    ///
    /// # Errors
    /// Describes a malformed message. The rest of the stream is then unusable.
    pub(super) fn take(
        &mut self,
        mut piece: &[u8],
        on: &mut dyn FnMut(&[u8]),
    ) -> Result<(), &'static str> {
        while !self.partial.is_empty() && !piece.is_empty() {
            let whole = self.whole(&self.partial)?.unwrap_or(PREFIX);
            let missing = whole - self.partial.len();
            let (taken, rest) = piece.split_at(missing.min(piece.len()));
            self.partial.extend_from_slice(taken);
            piece = rest;
            if self.whole(&self.partial)? == Some(self.partial.len()) {
                on(self.partial.get(PREFIX..).unwrap_or_default());
                self.partial.clear();
                if self.partial.capacity() > KEPT_BUFFER {
                    self.partial = Vec::new();
                }
            }
        }
        while let Some(whole) = self.whole(piece)? {
            let Some((message, rest)) = piece.split_at_checked(whole) else { break };
            on(message.get(PREFIX..).unwrap_or_default());
            piece = rest;
        }
        self.partial.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the length of the message at the start of some bytes, including its prefix; `None` if it is not known
    /// yet.
    fn whole(&self, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        let Some(&[compressed, a, b, c, d]) = bytes.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        match compressed {
            0 if length <= self.message_max => Ok(Some(PREFIX + length)),
            0 => Err("a message larger than the limit"),
            _ => Err("a compressed message, which was not offered"),
        }
    }
}
