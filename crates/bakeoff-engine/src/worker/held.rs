//! The bytes of incomplete answers that a worker's clients hold, which a peer could otherwise let grow without end.

/// A worker's share of what all clients may hold.
pub(super) struct Held {
    bytes: usize,
    most: usize,
}

impl Held {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: 0, most }
    }

    /// Counts bytes that a client received: nothing is held once they complete an answer. Returns false if there is no
    /// room for them.
    #[inline]
    pub(super) fn count(&mut self, client: &mut usize, received: usize, completes: bool) -> bool {
        if completes {
            self.release(client);
            return true;
        }
        *client += received;
        self.bytes += received;
        self.bytes <= self.most
    }

    /// Forgets what a client held: its answer is complete, or its connection gone.
    #[inline]
    pub(super) fn release(&mut self, client: &mut usize) {
        self.bytes -= std::mem::take(client);
    }
}
