//! Implements `Work` for HTTP requests, over HTTP/1.1 or HTTP/2.
//!
//! Not here: making requests and judging answers (each [`Source`]), the bookkeeping of one connection (`connection`,
//! `streams`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_core::schedule::LoadShare;
use bakeoff_wire::ProtocolError;

use super::Protocol;
use super::answers::{AllAnswers, Tally};
use super::connection::{OneConnection, ResponseReceiver};
use super::source::Source;
use super::streams::{RequestEnd, Streams};
use crate::turns::Turns;
use crate::work::{
    Completion, Course, IdleClose, IssuedOperation, NotIssued, OperationTiming, Outline, Pendings,
    Session, Success, Tag, Tickets, Work,
};
use crate::{Connections, Drive};

/// Holds a client's connection to a node.
pub(crate) struct HttpSession {
    node: usize,
    drops_bodies: bool,
    speaks: ProtocolConnection,
}

/// Selects the protocol. The large variant is boxed to keep clients of HTTP/1.1 small.
#[allow(clippy::large_enum_variant, reason = "a box would cost each request of HTTP/1.1 a load")]
enum ProtocolConnection {
    One(OneConnection),
    Two(Box<Streams>),
}

impl Session for HttpSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        if let ProtocolConnection::Two(streams) = &mut self.speaks {
            streams.open(out);
        }
    }

    /// Waits for the server's limit on concurrent requests before the first request.
    fn is_open(&self) -> bool {
        match &self.speaks {
            ProtocolConnection::One(_) => true,
            ProtocolConnection::Two(streams) => streams.is_settled(),
        }
    }

    #[inline]
    fn drops_bodies(&self) -> bool {
        self.drops_bodies
    }

    #[inline]
    fn is_ending(&self) -> bool {
        match &self.speaks {
            ProtocolConnection::One(one) => one.ending,
            ProtocolConnection::Two(streams) => streams.is_ending(),
        }
    }

    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        match &mut self.speaks {
            ProtocolConnection::One(_) => false,
            ProtocolConnection::Two(streams) => streams.abandon(tag, out),
        }
    }
}

/// Makes work from the requests of a [`Source`].
pub(super) struct HttpWork {
    source: Box<dyn Source>,
    /// True if the source needs the times of its answers.
    is_timed: bool,
    protocol: Protocol,
    keep_alive: bool,
    in_flight: u32,
    follow: Vec<u8>,
    tally: Tally,
    /// Operations of answers that were received but not yet timed, if the source needs times.
    fresh: Vec<usize>,
    timed: usize,
    /// This generator's share of the requests, and how many consecutive requests each generator takes.
    share: (LoadShare, u64),
    turns: Option<Arc<Turns>>,
}

impl HttpWork {
    /// Makes one worker's work. It adds its answers to `answers` at the end, and keeps `capture` of them one by one.
    pub(super) fn new(
        mut source: Box<dyn Source>,
        protocol: Protocol,
        drive: &Drive,
        capture: u64,
        answers: Arc<Mutex<AllAnswers>>,
    ) -> Self {
        Self {
            is_timed: source.timed().is_some(),
            source,
            protocol,
            keep_alive: drive.connections == Connections::Kept,
            in_flight: drive.in_flight,
            follow: Vec::new(),
            tally: Tally::new(capture, answers),
            fresh: Vec::new(),
            timed: 0,
            share: (LoadShare::WHOLE, 1),
            turns: None,
        }
    }

    /// Restricts the work to a generator's share. Generators take `cycle` consecutive requests in turn, a full
    /// rotation, so each generator sends every kind of request.
    pub(super) fn owned(self, share: LoadShare, cycle: u64) -> Self {
        Self { share: (share, cycle.max(1)), ..self }
    }

    /// Makes each client of a closed load send to these servers in turn.
    pub(super) fn turning(self, turns: Option<Arc<Turns>>) -> Self {
        Self { turns, ..self }
    }

    #[inline]
    fn receiving(&mut self) -> ResponseReceiver<'_> {
        ResponseReceiver {
            source: &mut *self.source,
            is_timed: self.is_timed,
            keep_alive: self.keep_alive,
            follow: &mut self.follow,
            tally: &mut self.tally,
            fresh: &mut self.fresh,
        }
    }

    #[inline]
    fn received(&mut self, bytes: usize) {
        self.tally.received(bytes);
        if self.is_timed {
            self.fresh.clear();
            self.timed = 0;
        }
    }
}

impl Tickets for HttpWork {
    #[inline]
    fn owns(&mut self, ticket: u64) -> bool {
        let (share, cycle) = self.share;
        share.of == 1 || share.has(ticket / cycle)
    }

    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        self.source.skip(node, ticket)
    }
}

impl Course for HttpWork {
    fn begin(&mut self, start: Instant, measure: Instant) {
        if let Some(timed) = self.source.timed() {
            timed.begin(start);
        }
        self.tally.begin(start, measure);
    }

    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        self.source.pause(client, now)
    }

    #[inline]
    fn answered(&mut self, moments: &OperationTiming) {
        if self.is_timed
            && let Some(&operation) = self.fresh.get(self.timed)
            && let Some(timed) = self.source.timed()
        {
            self.timed += 1;
            timed.answered(operation, moments);
        }
        self.tally.answered(moments);
    }

    fn tick(&mut self, now: Instant) {
        self.tally.tick(now);
    }

    fn ended(&mut self) {
        if let Some(timed) = self.source.timed() {
            timed.ended();
        }
        self.tally.ended();
    }
}

impl Work for HttpWork {
    type Session = HttpSession;
    type State = IdleClose;

    fn outline(&self) -> Outline {
        Outline {
            operations: self.source.operations(),
            judges_age: false,
            begins_short: true,
            turns: self.turns.clone(),
            ..Outline::default()
        }
    }

    fn session(&mut self, _: u32, node: usize) -> Box<HttpSession> {
        let reads = self.source.reads_bodies();
        let speaks = match self.protocol {
            Protocol::One => ProtocolConnection::One(OneConnection::new(reads)),
            Protocol::Two => {
                let lists = self.source.header_lists(node);
                let streams = Streams::new(self.in_flight, &lists, self.keep_alive, reads);
                ProtocolConnection::Two(Box::new(streams))
            }
        };
        Box::new(HttpSession { node, drops_bodies: !reads, speaks })
    }

    #[inline]
    fn issue(
        &mut self,
        session: &mut HttpSession,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<IssuedOperation<IdleClose>, NotIssued> {
        match &mut session.speaks {
            ProtocolConnection::One(one) => {
                one.issue(&mut *self.source, client, session.node, tag, ticket, out)
            }
            ProtocolConnection::Two(streams) if !streams.is_free() => Err(NotIssued::Busy),
            ProtocolConnection::Two(streams) => {
                let stream = self.source.stream(client, session.node, ticket)?;
                let (operation, pending) = (stream.operation, stream.idle_close);
                streams.send(tag, &stream, out)?;
                Ok(IssuedOperation { operation, pending })
            }
        }
    }

    fn after_idle_close(&self, _: &HttpSession, pending: &IdleClose) -> IdleClose {
        *pending
    }

    #[inline]
    fn receive(
        &mut self,
        session: &mut HttpSession,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<IdleClose>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        self.received(input.len());
        match &mut session.speaks {
            ProtocolConnection::One(one) => {
                let to = self.receiving();
                let (connection, mut delivery) = one.delivery(to, pendings, done);
                connection.receive(input, out, &mut |response| delivery.take(&response))?;
                if let Some(is_head) = delivery.followed
                    && one.connection.expect(is_head, 1).is_ok()
                {
                    out.extend_from_slice(&self.follow);
                }
                Ok(())
            }
            ProtocolConnection::Two(streams) => {
                let Self { source, is_timed, tally, fresh, .. } = self;
                streams.receive(input, out, &mut |tag, operation, ended| {
                    let (status, bytes, result) = match ended {
                        RequestEnd::Response { response, status } => {
                            // The source counts responses, so it gets those of failed calls, too.
                            let judged = source.stream_response(operation, response);
                            (response.status, response.length, status.and(judged))
                        }
                        RequestEnd::Failed(failure) => (0, 0, Err(failure)),
                    };
                    // An unprocessed request is sent again.
                    if result.as_ref().is_err_and(|failure| failure.is_unprocessed) {
                        pendings.take(tag);
                        done.push(Completion { tag, result: result.map(|()| Success::default()) });
                        return;
                    }
                    tally.answer(status, bytes);
                    if pendings.take(tag).is_some() {
                        if *is_timed {
                            fresh.push(operation);
                        }
                        done.push(Completion { tag, result: result.map(|()| Success::default()) });
                    }
                })
            }
        }
    }

    fn receive_end(
        &mut self,
        session: &mut HttpSession,
        pendings: &mut impl Pendings<IdleClose>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        self.received(0);
        match &mut session.speaks {
            ProtocolConnection::One(one) => {
                let to = self.receiving();
                let (connection, mut delivery) = one.delivery(to, pendings, done);
                connection.closed(&mut |response| delivery.take(&response))
            }
            ProtocolConnection::Two(_) => Ok(()),
        }
    }
}
