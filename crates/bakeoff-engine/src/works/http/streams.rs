//! One HTTP/2 connection of a load, and what each of its streams was asked.
//!
//! Not here: the wire format (`bakeoff_wire::http2`), which requests there are (each work's own).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, Event, HeadersId, Response, StreamId};

use crate::work::{Failure, NotIssued, Session, Tag};

/// A connection with the heads that were prepared for it.
pub struct Streams<P> {
    connection: Connection,
    /// What was prepared for this connection: header fields that are known to it.
    pub prepared: P,
    /// Tag and request of each stream, by [`StreamId::slot`].
    flights: Vec<Option<(StreamId, Tag, usize)>>,
    keep_alive: bool,
    answered: bool,
}

/// Header fields that one request has besides those that were prepared.
type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

impl<P> Streams<P> {
    /// Wraps a connection that is open.
    pub fn new(connection: Connection, prepared: P, keep_alive: bool) -> Self {
        let flights = vec![None; connection.slots()];
        Self { connection, prepared, flights, keep_alive, answered: false }
    }

    /// Whether another request can be sent now.
    pub fn is_free(&self) -> bool {
        self.connection.capacity() > 0 && !self.is_ending()
    }

    /// Sends a request; `place` is what its answer is told by.
    pub fn send(
        &mut self,
        (tag, place): (Tag, usize),
        headers: HeadersId,
        more: Fields<'_>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NotIssued> {
        let body: &[&[u8]] = if body.is_empty() { &[] } else { &[body] };
        let Ok(stream) = self.connection.request_with(headers, more, body, out) else {
            return Err(NotIssued::Busy);
        };
        let slots = self.flights.len();
        self.flights[stream.slot(slots)] = Some((stream, tag, place));
        Ok(())
    }

    /// Takes bytes from the connection and yields what became of requests, by tag and place.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(Tag, usize, Result<&Response<'_>, Failure>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, flights, answered, .. } = self;
        connection.receive(input, out, &mut |stream: StreamId, event| {
            *answered = true;
            let slots = flights.len();
            let Some((_, tag, place)) = flights[stream.slot(slots)].take() else { return };
            let failure = |kind, what: String| Err(Failure::new(kind, what));
            let became = match &event {
                Event::Response(response) => Ok(response),
                Event::Reset { code } => {
                    failure(ErrorKind::Reset, format!("the server reset the stream, code {code}"))
                }
                Event::Malformed { what } => failure(ErrorKind::Protocol, (*what).to_owned()),
            };
            on(tag, place, became);
        })
    }
}

impl<P> Session for Streams<P> {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.connection.open(out);
    }

    fn is_open(&self) -> bool {
        true
    }

    fn is_ending(&self) -> bool {
        self.connection.going_away().is_some() || (self.answered && !self.keep_alive)
    }

    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        let under_way = self.flights.iter_mut().find(|f| f.is_some_and(|(_, of, _)| of == tag));
        if let Some((stream, _, _)) = under_way.and_then(Option::take) {
            self.connection.cancel(stream, out);
        }
        true
    }
}
