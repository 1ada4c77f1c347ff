//! Cuts the body of a streaming call's response into messages.
//!
//! A message follows a byte that says whether it is compressed, and its length in four. Where
//! frames end says nothing: one may hold several messages, and one message may take several.
//!
//! Not here: frames and their windows (`http2`), how a call ends (`super`).

use crate::http2::StreamId;

/// The size of what stands before a message.
const PREFIX: usize = 5;
/// Buffers above this many bytes are given back when their message is complete.
const KEPT_BUFFER: usize = 64 * 1024;

/// The messages of one call.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) stream: StreamId,
    message_max: usize,
    /// The beginning of a message, with its prefix, whose end has not arrived.
    partial: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(stream: StreamId, message_max: usize) -> Self {
        Self { stream, message_max, partial: Vec::new() }
    }

    /// Returns whether the last message is complete.
    pub(super) fn is_between_messages(&self) -> bool {
        self.partial.is_empty()
    }

    /// Returns how many bytes wait for the end of their message.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.partial.len()
    }

    /// Takes a piece of the body and hands out the messages that it completes: from where they lie,
    /// if they came in one piece.
    ///
    /// # Errors
    /// Says what is wrong with a message. Nothing can be made of what follows then.
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

    /// Returns the length of the message at the beginning of some bytes, prefix included, once they say it.
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
