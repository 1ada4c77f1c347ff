//! The load over HTTP/2: the workers are streams of one connection.

use std::sync::Arc;
use std::time::Instant;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, Event, HeadersId, Settings, StreamId};

use super::Plan;
use super::counts::Counts;
use crate::compat::vault_benchmark::request::{Pieces, USER_AGENT};
use crate::engine::work::{
    Done, Failure, Issued, Moments, NotIssued, Pendings, Session, Success, Tag, Work,
};

/// A connection.
pub(super) struct TwoSession {
    connection: Connection,
    /// By test: what its requests have in common.
    prepared: Vec<HeadersId>,
    /// Tag and test of each stream, by [`StreamId::slot`].
    flights: Vec<Option<(StreamId, Tag, usize)>>,
    keep_alive: bool,
    answered: bool,
}

/// The requests of all tests, as work.
pub(super) struct TwoWork {
    plan: Arc<Plan>,
    authority: String,
    /// Path and body of each test.
    pieces: Vec<(Pieces, Pieces)>,
    in_flight: u32,
    keep_alive: bool,
    counts: Counts,
    /// The tests of answers that were received and not timed yet.
    fresh: Vec<usize>,
    timed: usize,
    path: Vec<u8>,
    body: Vec<u8>,
}

impl TwoWork {
    pub(super) fn new(
        plan: &Arc<Plan>,
        authority: &str,
        in_flight: u32,
        keep_alive: bool,
        counts: Counts,
    ) -> Self {
        let pieces = plan
            .tests
            .iter()
            .map(|test| (Pieces::new(&test.template.path), Pieces::new(&test.template.body)));
        Self {
            pieces: pieces.collect(),
            plan: plan.clone(),
            authority: authority.to_owned(),
            in_flight,
            keep_alive,
            counts,
            fresh: Vec::new(),
            timed: 0,
            path: Vec::new(),
            body: Vec::new(),
        }
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
        self.plan.tests.iter().map(|test| test.name.clone()).collect()
    }

    fn session(&mut self, _: u32, _: usize) -> TwoSession {
        let settings = Settings { max_streams: self.in_flight, ..Settings::default() };
        let mut connection = Connection::new(settings);
        let prepared = self.plan.tests.iter().map(|test| {
            let template = &test.template;
            let lower: Vec<(String, &str)> = template
                .headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), &**value))
                .collect();
            let mut list = vec![
                (":method", template.method),
                (":scheme", "https"),
                (":authority", &*self.authority),
                ("user-agent", USER_AGENT),
            ];
            list.extend(lower.iter().map(|(name, value)| (&**name, *value)));
            connection.prepare(&list)
        });
        TwoSession {
            prepared: prepared.collect(),
            flights: vec![None; connection.slots()],
            connection,
            keep_alive: self.keep_alive,
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
        let (test, draw) = self.plan.draw(ticket);
        let (path, body) = &self.pieces[test];
        self.path.clear();
        path.write(&draw, &mut self.path);
        self.body.clear();
        body.write(&draw, &mut self.body);
        let more: &[(&[u8], &[u8])] = &[(b":path", &self.path)];
        let body: &[&[u8]] = if self.body.is_empty() { &[] } else { &[&self.body] };
        let prepared = session.prepared[test];
        let Ok(stream) = session.connection.request_with(prepared, more, body, out) else {
            return Err(NotIssued::Busy);
        };
        self.counts.sent(test, self.body.len());
        let slots = session.flights.len();
        session.flights[stream.slot(slots)] = Some((stream, tag, test));
        Ok(Issued { operation: test, pending: () })
    }

    fn skip(&mut self, ticket: u64) -> Option<usize> {
        Some(self.plan.test_of(ticket))
    }

    fn receive(
        &mut self,
        session: &mut TwoSession,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<()>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        self.fresh.clear();
        self.timed = 0;
        let TwoSession { connection, flights, answered, .. } = session;
        let Self { plan, counts, fresh, .. } = self;
        connection.receive(input, out, &mut |stream: StreamId, event| {
            *answered = true;
            let slots = flights.len();
            let Some((_, tag, test)) = flights[stream.slot(slots)].take() else { return };
            let result = match event {
                Event::Response(response) => {
                    counts.answer(test, response.status, response.body.len());
                    plan.judge(test, response.status, response.body)
                }
                Event::Reset { code } => {
                    let what = format!("the server reset the stream, code {code}");
                    Err(Failure::new(ErrorKind::Reset, what))
                }
                Event::Malformed { what } => {
                    Err(Failure::new(ErrorKind::Protocol, what.to_owned()))
                }
            };
            if pendings.take(tag).is_some() {
                fresh.push(test);
                done.push(Done { tag, result: result.map(|()| Success::default()) });
            }
        })
    }

    fn begin(&mut self, start: Instant, _: Instant) {
        self.counts.begin(start);
    }

    fn answered(&mut self, _: u32, moments: &Moments) {
        if let Some(&test) = self.fresh.get(self.timed) {
            self.timed += 1;
            self.counts.answered(test, moments);
        }
    }

    fn ended(&mut self) {
        self.counts.ended();
    }
}
