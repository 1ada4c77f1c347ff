//! The load over HTTP/2: the workers are streams of one connection.

use std::sync::Arc;
use std::time::Instant;

use bakeoff_engine::work::{Done, Issued, Moments, NotIssued, Pendings, Success, Tag, Work};
use bakeoff_engine::works::http::Streams;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http2::{Connection, HeadersId, Response, Settings};

use super::Plan;
use super::counts::Counts;
use crate::vault_benchmark::request::{Pieces, USER_AGENT};

/// A connection, and what the requests of each test have in common.
type TwoSession = Streams<Vec<HeadersId>>;

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
        let prepared = prepared.collect();
        Streams::new(connection, prepared, self.keep_alive)
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
        let (test, draw) = self.plan.draw(ticket);
        let (path, body) = &self.pieces[test];
        self.path.clear();
        path.write(&draw, &mut self.path);
        self.body.clear();
        body.write(&draw, &mut self.body);
        let more: &[(&[u8], &[u8])] = &[(b":path", &self.path)];
        session.send((tag, test), session.prepared[test], more, &self.body, out)?;
        self.counts.sent(test, self.body.len());
        Ok(Issued { operation: test, pending: () })
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
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
        let Self { plan, counts, fresh, .. } = self;
        session.receive(input, out, &mut |tag, test, became| {
            let result = became.and_then(|Response { status, body, .. }| {
                counts.answer(test, *status, body.len());
                plan.judge(test, *status, body)
            });
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
