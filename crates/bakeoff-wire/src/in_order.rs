//! Replies that come in the order of their requests, for protocols that number neither.
//!
//! Not here: the bytes of a request or a reply (each protocol's module).

use crate::{Busy, ProtocolError};

/// Memory for a reply in pieces is given back above this size, in bytes.
const KEPT_MAX: usize = 64 << 10;

/// Reads the replies of a protocol.
pub trait ReadReply: 'static {
    /// A reply, which may borrow from what was received.
    type Reply<'a>;
    /// The protocol's name, which begins every error.
    const PROTOCOL: &'static str;

    /// Returns the reply at the beginning of `bytes`, and its length in bytes; `None` until it is whole.
    ///
    /// # Errors
    /// When the server breaks the protocol.
    fn read<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Self::Reply<'a>, usize)>, ProtocolError>;
}

/// The requests in flight of a connection, and the reply that is not whole yet.
#[derive(Debug, Default)]
pub struct InOrder {
    in_flight: usize,
    /// The beginning of a reply whose end has not arrived.
    partial: Vec<u8>,
    failed: bool,
}

impl InOrder {
    /// Returns how many more requests can be sent now, of `max` in flight.
    pub fn capacity(&self, max: usize) -> usize {
        if self.failed { 0 } else { max.saturating_sub(self.in_flight) }
    }

    /// Counts a request that is about to be written.
    ///
    /// # Errors
    /// [`Busy`] when [`Self::capacity`] is 0.
    pub fn begin(&mut self, max: usize) -> Result<(), Busy> {
        if self.capacity(max) == 0 {
            return Err(Busy);
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Takes everything received and calls `on` with each reply, in the order of the requests.
    ///
    /// # Errors
    /// When the server breaks the protocol. The connection can then not be used any more, and all
    /// further calls fail.
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

    /// Hands out the replies that are whole; returns how many bytes they have.
    fn whole_replies<P: ReadReply>(
        &mut self,
        protocol: &mut P,
        bytes: &[u8],
        on: &mut dyn FnMut(P::Reply<'_>),
    ) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let Some((reply, length)) = protocol.read(rest)? else { break };
            let left = self.in_flight.checked_sub(1);
            self.in_flight = left.ok_or("a reply, but nothing was asked")?;
            on(reply);
            taken += length;
        }
        Ok(taken)
    }
}
