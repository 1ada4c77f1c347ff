//! The bytes of incomplete answers that a worker's clients hold, which a peer could otherwise let grow without end.

use bakeoff_wire::ProtocolError;

/// A worker's share of what all clients may hold.
pub(super) struct Held {
    bytes: usize,
    most: usize,
}

impl Held {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: 0, most }
    }

    /// Counts bytes that a client received: nothing is held once they complete an answer.
    ///
    /// # Errors
    /// When there is no room for them.
    #[inline]
    pub(super) fn count(
        &mut self,
        client: &mut usize,
        received: usize,
        completes: bool,
    ) -> Result<(), ProtocolError> {
        if completes {
            self.release(client);
            return Ok(());
        }
        *client += received;
        self.bytes += received;
        match self.bytes <= self.most {
            true => Ok(()),
            false => Err(ProtocolError::new(
                "incomplete answers hold more memory than bakeoff gives them",
            )),
        }
    }

    /// Forgets what a client held: its answer is complete, or its connection gone.
    #[inline]
    pub(super) fn release(&mut self, client: &mut usize) {
        self.bytes -= std::mem::take(client);
    }
}
