//! The sending side of a request, the same for agent and coordinator.

use std::io;

use super::message::DialLine;

/// Sends data and notes of one request to the other end.
pub(crate) trait FrameSender: Sync {
    /// Sends bytes.
    fn data(&self, bytes: &[u8]) -> io::Result<()>;
    /// Sends a note.
    fn tell(&self, note: &DialLine) -> io::Result<()>;
    /// Signals that no more bytes follow.
    fn end(&self) -> io::Result<()>;
}
