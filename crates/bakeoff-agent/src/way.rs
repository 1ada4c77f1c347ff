//! The way to the other end of a request, whichever end this is.

use std::io;

use super::message::DialLine;

/// The way to the other end.
pub(crate) trait Way: Sync {
    /// Sends bytes.
    fn data(&self, bytes: &[u8]) -> io::Result<()>;
    /// Sends a note.
    fn tell(&self, note: &DialLine) -> io::Result<()>;
    /// Says that no more bytes follow.
    fn end(&self) -> io::Result<()>;
}
