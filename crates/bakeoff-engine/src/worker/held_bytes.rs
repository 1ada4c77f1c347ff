//! Limits the bytes of incomplete answers that a worker's clients hold. Otherwise a peer could make them grow without
//! end.

/// Counts held bytes against the worker's share of the limit.
pub(super) struct HeldBytes {
    bytes: usize,
    most: usize,
}

impl HeldBytes {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: 0, most }
    }

    /// Counts bytes that a client received. Complete answers release the client's bytes. Returns false if the limit
    /// is exceeded.
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

    /// Releases a client's bytes after its answer is complete or its connection is gone.
    #[inline]
    pub(super) fn release(&mut self, client: &mut usize) {
        self.bytes -= std::mem::take(client);
    }
}
