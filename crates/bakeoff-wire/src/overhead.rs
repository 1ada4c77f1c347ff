//! Limits what a peer sends besides answers.
//!
//! Interim responses, pings, settings and notices are legal at any time and complete nothing. A peer that sends them
//! without end would keep its client busy for good.
//!
//! Not here: limits of one message (each protocol's module).

use crate::ProtocolError;

/// Maximum bytes between two answers. Go's HTTP client allows as much for interim responses.
const OVERHEAD_MAX: usize = 1 << 20;

/// Counts the bytes since the last answer that completed nothing.
#[derive(Debug, Default)]
pub(crate) struct Overhead {
    bytes: usize,
}

impl Overhead {
    /// Counts a message of this many bytes; `what` is its kind, in the plural.
    ///
    /// # Errors
    /// Fails if they exceed [`OVERHEAD_MAX`] since the last answer.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize, what: &str) -> Result<(), ProtocolError> {
        self.bytes += bytes;
        if self.bytes > OVERHEAD_MAX {
            return Err(ProtocolError::new(format!("more than 1 MiB of {what} without an answer")));
        }
        Ok(())
    }

    /// Starts again after an answer, or after the peer let a request proceed.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.bytes = 0;
    }
}
