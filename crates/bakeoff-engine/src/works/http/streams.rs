//! Runs one HTTP/2 connection of a load and tracks the request of each stream.
//!
//! Not here: the wire format (`bakeoff_wire::http2`), the requests (`source`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc;
use bakeoff_wire::http2::{Connection, Event, HeadersId, Response, Settings, StreamId, code};
use smallvec::SmallVec;

use super::body_limits;
use super::source::{HeaderList, Stream};
use crate::work::{Failure, NotIssued, Tag};

/// Holds a connection and its prepared request heads.
pub(super) struct Streams {
    connection: Connection,
    heads: Vec<Option<HeadersId>>,
    /// True for each operation that is a gRPC call by its content type.
    calls: Vec<bool>,
    /// Tag and operation of each stream, by [`StreamId::slot`].
    flights: Vec<Option<(StreamId, Tag, usize)>>,
    keep_alive: bool,
    answered: bool,
}

/// Holds the end of a request.
pub(super) enum RequestEnd<'a> {
    /// A whole response. For gRPC, `status` is an error if the call failed.
    Response { response: &'a Response<'a>, status: Result<(), Failure> },
    /// No response came.
    Failed(Failure),
}

impl Streams {
    /// Creates a connection for up to `in_flight` requests, whose operations have these header lists.
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
        let calls = lists.iter().map(|list| list.as_ref().is_some_and(is_call)).collect();
        let flights = vec![None; connection.slots()];
        Self { connection, heads, calls, flights, keep_alive, answered: false }
    }

    pub(super) fn is_free(&self) -> bool {
        self.connection.capacity() > 0 && !self.is_ending()
    }

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

    /// Consumes bytes from the connection and passes each result to `on`, by tag and operation.
    pub(super) fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, usize, RequestEnd<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { connection, calls, flights, answered, .. } = self;
        connection.receive(input, out, &mut |stream: StreamId, event| {
            *answered = true;
            let slots = flights.len();
            let Some((_, tag, operation)) = flights[stream.slot(slots)].take() else { return };
            let failure = |kind, what: String| RequestEnd::Failed(Failure::new(kind, what));
            let ended = match &event {
                Event::Response(response) => RequestEnd::Response {
                    response,
                    status: call_status(calls[operation], response),
                },
                Event::Piece { .. } => unreachable!("no response is requested in pieces"),
                // RFC 9113 sections 6.8 and 8.7: also after a GOAWAY.
                Event::Reset { code: code::REFUSED_STREAM } => RequestEnd::Failed(
                    Failure::unprocessed("the server refused the stream".to_owned()),
                ),
                Event::Reset { code } => {
                    failure(ErrorKind::Reset, format!("the server reset the stream, code {code}"))
                }
                Event::Malformed { what } => failure(ErrorKind::Protocol, (*what).to_owned()),
            };
            on(tag, operation, ended);
        })
    }

    /// Appends the client's connection preface.
    pub(super) fn open(&mut self, out: &mut Vec<u8>) {
        self.connection.open(out);
    }

    /// Returns true once the server has announced its limit on concurrent requests.
    pub(super) fn is_settled(&self) -> bool {
        self.connection.is_settled()
    }

    /// Returns true if no further request can be sent.
    pub(super) fn is_ending(&self) -> bool {
        self.connection.going_away().is_some() || (self.answered && !self.keep_alive)
    }

    /// Cancels one request; the others continue.
    pub(super) fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        let under_way = self.flights.iter_mut().find(|f| f.is_some_and(|(_, of, _)| of == tag));
        if let Some((stream, _, _)) = under_way.and_then(Option::take) {
            self.connection.cancel(stream, out);
        }
        true
    }
}

/// Returns true if a request with these headers is a gRPC call.
fn is_call(list: &HeaderList) -> bool {
    let mut types = list.iter().filter(|(name, _)| name == "content-type");
    types.any(|(_, value)| grpc::is_content_type(value.as_bytes()))
}

/// Judges a response by its gRPC status if it belongs to a call, or says that it does. Other responses have none.
#[inline]
fn call_status(is_call: bool, response: &Response<'_>) -> Result<(), Failure> {
    if is_call || response.headers.get(b"content-type").is_some_and(grpc::is_content_type) {
        let ended = grpc::ended(response);
        return ended.map_err(|status| Failure::new(ErrorKind::Status, status.to_string()));
    }
    Ok(())
}
