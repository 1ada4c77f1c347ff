//! HTTP/2 requests as the work of a load: fixed ones, many under way on a connection.
//!
//! Not here: the wire format (`bakeoff_wire::http2`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, HeadersId, Response, Settings};

use super::answers::{Answers, Tally};
use super::fixed::{Order, Requests};
use super::streams::Streams;
use crate::work::{Done, Issued, Moments, NotIssued, Pendings, Success, Tag, Work};

/// One connection: to which node, and the heads of requests that are for it.
type TwoSession = Streams<(usize, Vec<Option<HeadersId>>)>;

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
        let prepared = (node, prepared.collect());
        Streams::new(connection, prepared, self.requests.keep_alive)
    }

    fn issue(
        &mut self,
        session: &mut TwoSession,
        _: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Issued<()>, NotIssued> {
        if !session.is_free() {
            return Err(NotIssued::Busy);
        }
        let place = self.order.next(&self.requests, session.prepared.0, ticket);
        let headers = session.prepared.1[place].ok_or(NotIssued::Exhausted)?;
        session.send((tag, place), headers, &[], &self.requests.all[place].body, out)?;
        Ok(Issued { operation: place, pending: () })
    }

    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        Some(self.requests.operation(node, ticket))
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
        let (requests, tally) = (&self.requests, &mut self.tally);
        session.receive(input, out, &mut |tag, place, became| {
            let (status, bytes, result) = match became {
                Ok(Response { status, body, .. }) => {
                    (*status, body.len(), requests.all[place].expect.judge(*status, body))
                }
                Err(failure) => (0, 0, Err(failure)),
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
