//! HTTP/2 requests as the work of a load: fixed ones, many under way on a connection.
//!
//! Not here: the wire format (`bakeoff_wire::http2`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, Event, HeadersId, Settings, StreamId};

use super::answers::{Answers, Tally};
use super::fixed::{Order, Requests};
use crate::engine::work::{
    Done, Failure, Issued, Moments, NotIssued, Pendings, Session, Success, Tag, Work,
};

/// One connection.
pub(super) struct TwoSession {
    connection: Connection,
    node: usize,
    /// By request; empty for those of other servers.
    prepared: Vec<Option<HeadersId>>,
    /// Tag and request of each stream, by [`StreamId::slot`].
    flights: Vec<Option<(StreamId, Tag, usize)>>,
    keep_alive: bool,
    answered: bool,
}

/// Fixed requests, as work.
pub(super) struct TwoWork {
    requests: Arc<Requests>,
    order: Order,
    in_flight: u32,
    tally: Tally,
}

impl TwoWork {
    pub(super) fn new(
        requests: Arc<Requests>,
        worker: u32,
        in_flight: u32,
        capture: u64,
        answers: Arc<Mutex<Answers>>,
    ) -> Self {
        let order = Order::new(&requests, worker);
        Self { requests, order, in_flight, tally: Tally::new(capture, answers) }
    }
}

impl Session for TwoSession {
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

impl Work for TwoWork {
    type Session = TwoSession;
    type Pending = ();

    fn operations(&self) -> Vec<String> {
        self.requests.all.iter().map(|request| request.name.clone()).collect()
    }

    fn session(&mut self, _: u32, node: usize) -> TwoSession {
        let settings = Settings { max_streams: self.in_flight, ..Settings::default() };
        let mut connection = Connection::new(settings);
        let order = &self.requests.orders[self.requests.server_of[node]];
        let prepared = self.requests.all.iter().enumerate().map(|(place, request)| {
            order.contains(&place).then(|| {
                let list = request.http2_headers();
                let list: Vec<_> = list.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                connection.prepare(&list)
            })
        });
        TwoSession {
            prepared: prepared.collect(),
            flights: vec![None; connection.slots()],
            connection,
            node,
            keep_alive: self.requests.keep_alive,
            answered: false,
        }
    }

    fn issue(
        &mut self,
        session: &mut TwoSession,
        _: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Issued<()>, NotIssued> {
        if session.connection.capacity() == 0 || session.is_ending() {
            return Err(NotIssued::Busy);
        }
        let place = self.order.next(&self.requests, session.node, ticket);
        let headers = session.prepared[place].ok_or(NotIssued::Exhausted)?;
        let body: &[u8] = &self.requests.all[place].body;
        let body: &[&[u8]] = if body.is_empty() { &[] } else { &[body] };
        let Ok(stream) = session.connection.request(headers, body, out) else {
            return Err(NotIssued::Busy);
        };
        let slots = session.flights.len();
        session.flights[stream.slot(slots)] = Some((stream, tag, place));
        Ok(Issued { operation: place, pending: () })
    }

    fn skip(&mut self, ticket: u64) -> Option<usize> {
        Some(self.requests.operation(ticket))
    }

    fn receive(
        &mut self,
        session: &mut TwoSession,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<()>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        self.tally.received(input.len());
        let TwoSession { connection, flights, answered, .. } = session;
        let (requests, tally) = (&self.requests, &mut self.tally);
        connection.receive(input, out, &mut |stream: StreamId, event| {
            *answered = true;
            let slots = flights.len();
            let Some((_, tag, place)) = flights[stream.slot(slots)].take() else { return };
            let failure = |kind, what: String| (0, 0, Err(Failure::new(kind, what)));
            let (status, bytes, result) = match event {
                Event::Response(response) => (
                    response.status,
                    response.body.len(),
                    requests.all[place].expect.judge(response.status, response.body),
                ),
                Event::Reset { code } => {
                    failure(ErrorKind::Reset, format!("the server reset the stream, code {code}"))
                }
                Event::Malformed { what } => failure(ErrorKind::Protocol, what.to_owned()),
            };
            tally.answer(status, bytes);
            if pendings.take(tag).is_some() {
                done.push(Done { tag, result: result.map(|()| Success::default()) });
            }
        })
    }

    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        self.requests.pause(client, now)
    }

    fn begin(&mut self, start: Instant, measure: Instant) {
        self.tally.begin(start, measure);
    }

    fn answered(&mut self, _: u32, moments: &Moments) {
        self.tally.answered(moments);
    }

    fn tick(&mut self, now: Instant) {
        self.tally.tick(now);
    }

    fn ended(&mut self) {
        self.tally.ended();
    }
}
