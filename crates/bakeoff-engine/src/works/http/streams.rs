//! One HTTP/2 connection of a load, and what each of its streams was asked.
//!
//! Not here: the wire format (`bakeoff_wire::http2`), what is asked on it (`source`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, Event, HeadersId, Response, Settings, StreamId, code};
use smallvec::SmallVec;

use super::body_limits;
use super::source::{HeaderList, Stream};
use crate::work::{Failure, NotIssued, Tag};

/// A connection with the heads that were prepared for it.
pub(super) struct Streams {
    connection: Connection,
    /// The head of each operation.
    heads: Vec<Option<HeadersId>>,
    /// Tag and operation of each stream, by [`StreamId::slot`].
    flights: Vec<Option<(StreamId, Tag, usize)>>,
    keep_alive: bool,
    answered: bool,
}

/// The response to a request, or why there is none.
type Became<'a> = Result<&'a Response<'a>, Failure>;

impl Streams {
    /// Makes a connection for so many requests under way, whose operations have these header lists.
    pub(super) fn new(
        in_flight: u32,
        lists: &[Option<HeaderList>],
        keep_alive: bool,
        reads_bodies: bool,
    ) -> Self {
        let (max_body, kept_body) = body_limits(reads_bodies);
        let settings =
            Settings { max_streams: in_flight, max_body, kept_body, ..Settings::default() };
        let mut connection = Connection::new(settings);
        let mut prepare = |list: &HeaderList| {
            let list: Vec<_> = list.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            connection.prepare(&list)
        };
        let heads = lists.iter().map(|list| list.as_ref().map(&mut prepare)).collect();
        let flights = vec![None; connection.slots()];
        Self { connection, heads, flights, keep_alive, answered: false }
    }

    /// Returns whether another request can be sent now.
    pub(super) fn is_free(&self) -> bool {
        self.connection.capacity() > 0 && !self.is_ending()
    }

    /// Sends a request.
    pub(super) fn send(
        &mut self,
        tag: Tag,
        asked: &Stream<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), NotIssued> {
        let operation = asked.operation;
        let head = self.heads.get(operation).copied().flatten().ok_or(NotIssued::Exhausted)?;
        let path = asked.path.map(|path| (&b":path"[..], path));
        let more: SmallVec<[(&[u8], &[u8]); 4]> =
            path.into_iter().chain(asked.fields.iter()).collect();
        let body: &[&[u8]] = if asked.body.is_empty() { &[] } else { &[asked.body] };
        let Ok(stream) = self.connection.request_with(head, &more, body, out) else {
            return Err(NotIssued::Busy);
        };
        let slots = self.flights.len();
        self.flights[stream.slot(slots)] = Some((stream, tag, operation));
        Ok(())
    }

    /// Takes bytes from the connection and yields what became of requests, by tag and operation.
    pub(super) fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, usize, Became<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, flights, answered, .. } = self;
        connection.receive(input, out, &mut |stream: StreamId, event| {
            *answered = true;
            let slots = flights.len();
            let Some((_, tag, operation)) = flights[stream.slot(slots)].take() else { return };
            let failure = |kind, what: String| Err(Failure::new(kind, what));
            let became = match &event {
                Event::Response(response) => Ok(response),
                Event::Piece { .. } => unreachable!("no response is asked for in pieces"),
                // RFC 9113 sections 6.8 and 8.7: after a GOAWAY, too.
                Event::Reset { code: code::REFUSED_STREAM } => {
                    Err(Failure::unprocessed("the server refused the stream".to_owned()))
                }
                Event::Reset { code } => {
                    failure(ErrorKind::Reset, format!("the server reset the stream, code {code}"))
                }
                Event::Malformed { what } => failure(ErrorKind::Protocol, (*what).to_owned()),
            };
            on(tag, operation, became);
        })
    }

    /// Appends what a client says first.
    pub(super) fn open(&mut self, out: &mut Vec<u8>) {
        self.connection.open(out);
    }

    /// Returns whether the server has said how many requests it takes at once.
    pub(super) fn is_settled(&self) -> bool {
        self.connection.is_settled()
    }

    /// Returns whether no further request can be sent.
    pub(super) fn is_ending(&self) -> bool {
        self.connection.going_away().is_some() || (self.answered && !self.keep_alive)
    }

    /// Gives a request up; the others go on.
    pub(super) fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        let under_way = self.flights.iter_mut().find(|f| f.is_some_and(|(_, of, _)| of == tag));
        if let Some((stream, _, _)) = under_way.and_then(Option::take) {
            self.connection.cancel(stream, out);
        }
        true
    }
}
