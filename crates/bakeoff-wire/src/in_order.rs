//! Matches replies to requests by order, for protocols that number neither.
//!
//! Not here: the bytes of a request or a reply (each protocol's module).

use crate::{Busy, ProtocolError};

/// Largest partial-reply buffer to keep, in bytes.
const KEPT_MAX: usize = 64 << 10;

/// Parses the replies of a protocol.
pub trait ReadReply: 'static {
    /// Parsed reply, which may borrow from the input.
    type Reply<'a>;
    /// Protocol name that prefixes every error.
    const PROTOCOL: &'static str;

    /// Returns the reply at the start of `bytes` and its length in bytes; `None` if it is incomplete.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol.
    fn read<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Self::Reply<'a>, usize)>, ProtocolError>;

    /// Returns true if the reply answers a request; false if the server sent it on its own.
    fn is_answer(reply: &Self::Reply<'_>) -> bool {
        let _ = reply;
        true
    }
}

/// Counts a connection's requests in flight and holds the incomplete reply.
#[derive(Debug, Default)]
pub struct InOrder {
    in_flight: usize,
    /// Start of an incomplete reply.
    partial: Vec<u8>,
    failed: bool,
}

impl InOrder {
    /// Returns how many more requests can be sent now, with at most `max` in flight.
    pub fn capacity(&self, max: usize) -> usize {
        if self.failed { 0 } else { max.saturating_sub(self.in_flight) }
    }

    /// Counts a request that is about to be written.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Self::capacity`] is 0.
    pub fn begin(&mut self, max: usize) -> Result<(), Busy> {
        if self.capacity(max) == 0 {
            return Err(Busy);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Consumes all of `input` and calls `on` with each reply, in the order of the requests.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive<P: ReadReply>(
        &mut self,
        protocol: &mut P,
        input: &[u8],
        on: &mut dyn FnMut(P::Reply<'_>),
    ) -> Result<(), ProtocolError> {
        let result = match self.failed {
            true => Err(ProtocolError::new("received after an error")),
            false => self.replies(protocol, input, on),
        };
        self.failed = result.is_err();
        result.map_err(|error| error.within(P::PROTOCOL))
    }

    fn replies<P: ReadReply>(
        &mut self,
        protocol: &mut P,
        input: &[u8],
        on: &mut dyn FnMut(P::Reply<'_>),
    ) -> Result<(), ProtocolError> {
        if self.partial.is_empty() {
            let taken = self.whole_replies(protocol, input, on)?;
            self.partial.extend_from_slice(input.get(taken..).unwrap_or_default());
            return Ok(());
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(input);
        let taken = self.whole_replies(protocol, &partial, on)?;
        partial.drain(..taken);
        if partial.is_empty() && partial.capacity() > KEPT_MAX {
            partial = Vec::new();
        }
        self.partial = partial;
        Ok(())
    }

    /// Passes on all complete replies and returns their length in bytes.
    fn whole_replies<P: ReadReply>(
        &mut self,
        protocol: &mut P,
        bytes: &[u8],
        on: &mut dyn FnMut(P::Reply<'_>),
    ) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let Some((reply, length)) = protocol.read(rest)? else { break };
            if P::is_answer(&reply) {
                let left = self.in_flight.checked_sub(1);
                self.in_flight = left.ok_or("a reply without a request")?;
            }
            on(reply);
            taken += length;
        }
        Ok(taken)
    }
}
