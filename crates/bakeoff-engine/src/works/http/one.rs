//! HTTP/1.1 requests as the work of a load.
//!
//! Where requests come from and what their responses must be is a [`Source`]'s affair, so that fixed
//! requests and those that a script makes on the way share all the rest.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), requests that are always the same (`fixed`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http1::{Connection, Limits, Response};

use super::answers::{Answers, Tally};
use crate::work::{
    Done, Failure, Issued, Moments, NotIssued, Pendings, Session, Success, Tag, Work,
};

/// Redirects that are followed for one request: what Go's client and browsers settle on.
const HOPS_MAX: u8 = 10;
/// Bytes of a response's body that are taken at most.
const BODY_MAX: usize = 1 << 30;

/// Requests that were appended: whole HTTP/1.1 messages.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// Which of the load's operations.
    pub operation: usize,
    /// How many responses are due: more than one for pipelined requests, never 0.
    pub responses: u32,
    /// Whether the responses have no bodies.
    pub is_head: bool,
}

/// The whole load is to end; the source keeps why.
#[derive(Debug)]
pub struct Abort;

/// What a response was found to be.
pub enum Judged {
    /// It is what was expected.
    Success,
    /// It is not.
    Failure(Failure),
    /// It says where to go, and is to be followed.
    Redirect,
}

/// Where one worker's requests come from, and where its responses go.
pub trait Source: Send {
    /// Appends the next request of `client`, which is connected to `node`, or several at once.
    fn request(
        &mut self,
        client: u32,
        node: usize,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Batch, Abort>;

    /// Judges a response.
    fn response(&mut self, operation: usize, response: &Response<'_>) -> Judged;

    /// Appends the request that follows a redirect; only called where [`Self::response`] finds one.
    /// Returns whether it is a HEAD request; an error says why the redirect cannot be followed.
    fn follow(
        &mut self,
        operation: usize,
        response: &Response<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, String> {
        let _ = (operation, response, out);
        Err("redirects are not followed".into())
    }

    /// Which operation `ticket` would have been at `node`.
    fn operation(&self, node: usize, ticket: u64) -> usize {
        let _ = (node, ticket);
        0
    }

    /// How long `client` of a closed load waits before its next request.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        let _ = (client, now);
        Duration::ZERO
    }

    /// The load begins: requests are due from `start` on.
    fn begin(&mut self, start: Instant) {
        let _ = start;
    }

    /// The request that `client` had under way was answered, at these moments.
    fn answered(&mut self, client: u32, moments: &Moments) {
        let _ = (client, moments);
    }

    /// The worker has ended.
    fn ended(&mut self) {}
}

/// One connection.
pub(super) struct OneSession {
    connection: Connection,
    node: usize,
    operation: usize,
    /// Of a batch that was appended as a whole: operations that the engine has still to begin.
    unissued: u32,
    /// The tag of the next response.
    next_tag: Tag,
    hops: u8,
    ending: bool,
}

/// Requests of a [`Source`], as work.
pub(super) struct OneWork<S> {
    source: S,
    operations: Vec<String>,
    keep_alive: bool,
    follow: Vec<u8>,
    tally: Tally,
}

impl<S: Source> OneWork<S> {
    pub(super) fn new(
        source: S,
        operations: Vec<String>,
        keep_alive: bool,
        capture: u64,
        answers: Arc<Mutex<Answers>>,
    ) -> Self {
        let tally = Tally::new(capture, answers);
        Self { source, operations, keep_alive, follow: Vec::new(), tally }
    }

    /// A session's connection, and what takes its responses.
    fn delivery<'a, P>(
        &'a mut self,
        session: &'a mut OneSession,
        pendings: &'a mut P,
        done: &'a mut Vec<Done>,
    ) -> (&'a mut Connection, Delivery<'a, S, P>) {
        let delivery = Delivery {
            source: &mut self.source,
            keep_alive: self.keep_alive,
            follow: &mut self.follow,
            tally: &mut self.tally,
            pendings,
            done,
            operation: session.operation,
            next_tag: &mut session.next_tag,
            hops: &mut session.hops,
            ending: &mut session.ending,
            followed: None,
        };
        (&mut session.connection, delivery)
    }
}

/// Takes the responses of one connection, as they complete.
struct Delivery<'a, S, P> {
    source: &'a mut S,
    keep_alive: bool,
    follow: &'a mut Vec<u8>,
    tally: &'a mut Tally,
    pendings: &'a mut P,
    done: &'a mut Vec<Done>,
    operation: usize,
    next_tag: &'a mut Tag,
    hops: &'a mut u8,
    ending: &'a mut bool,
    /// Whether a redirect is to be followed, and if so by a HEAD request.
    followed: Option<bool>,
}

impl<S: Source, P: Pendings<()>> Delivery<'_, S, P> {
    #[inline]
    fn take(&mut self, response: &Response<'_>) {
        *self.ending |= !response.keep_alive || !self.keep_alive;
        let result = match self.source.response(self.operation, response) {
            Judged::Success => Ok(Success::default()),
            Judged::Failure(failure) => Err(failure),
            Judged::Redirect => match self.follow(response) {
                Ok(()) => return,
                Err(failure) => Err(failure),
            },
        };
        *self.hops = 0;
        self.tally.answer(response.status, response.body.len());
        let tag = *self.next_tag;
        *self.next_tag += 1;
        if self.pendings.take(tag).is_some() {
            self.done.push(Done { tag, result });
        }
    }

    #[cold]
    fn follow(&mut self, response: &Response<'_>) -> Result<(), Failure> {
        let next = if *self.hops == HOPS_MAX {
            Err(format!("more than {HOPS_MAX} redirects"))
        } else if *self.ending {
            Err("a redirect on a connection that ends".into())
        } else {
            self.follow.clear();
            self.source.follow(self.operation, response, self.follow)
        };
        let is_head = next.map_err(|what| {
            Failure::new(ErrorKind::Status, format!("status {}: {what}", response.status))
        })?;
        *self.hops += 1;
        self.followed = Some(is_head);
        Ok(())
    }
}

impl Session for OneSession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }

    fn is_ending(&self) -> bool {
        self.ending
    }
}

impl<S: Source> Work for OneWork<S> {
    type Session = OneSession;
    type Pending = ();

    fn operations(&self) -> Vec<String> {
        self.operations.clone()
    }

    fn session(&mut self, _: u32, node: usize) -> OneSession {
        OneSession {
            connection: Connection::new(Limits { max_body: BODY_MAX, ..Limits::default() }),
            node,
            operation: 0,
            unissued: 0,
            next_tag: 0,
            hops: 0,
            ending: false,
        }
    }

    fn issue(
        &mut self,
        session: &mut OneSession,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Issued<()>, NotIssued> {
        if session.unissued > 0 {
            session.unissued -= 1;
            return Ok(Issued { operation: session.operation, pending: () });
        }
        if !session.connection.is_ready() || session.ending {
            return Err(NotIssued::Busy);
        }
        let Ok(batch) = self.source.request(client, session.node, ticket, out) else {
            return Err(NotIssued::Abort);
        };
        if session.connection.expect(batch.is_head, batch.responses).is_err() {
            return Err(NotIssued::Busy);
        }
        session.operation = batch.operation;
        session.unissued = batch.responses - 1;
        session.next_tag = tag;
        Ok(Issued { operation: batch.operation, pending: () })
    }

    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize> {
        Some(self.source.operation(node, ticket))
    }

    fn receive(
        &mut self,
        session: &mut OneSession,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<()>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        self.tally.received(input.len());
        let (connection, mut delivery) = self.delivery(session, pendings, done);
        connection.receive(input, out, &mut |response| delivery.take(&response))?;
        if let Some(is_head) = delivery.followed
            && session.connection.expect(is_head, 1).is_ok()
        {
            out.extend_from_slice(&self.follow);
        }
        Ok(())
    }

    fn receive_end(
        &mut self,
        session: &mut OneSession,
        pendings: &mut impl Pendings<()>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        self.tally.received(0);
        let (connection, mut delivery) = self.delivery(session, pendings, done);
        connection.closed(&mut |response| delivery.take(&response))
    }

    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        self.source.pause(client, now)
    }

    fn begin(&mut self, start: Instant, measure: Instant) {
        self.source.begin(start);
        self.tally.begin(start, measure);
    }

    fn answered(&mut self, client: u32, moments: &Moments) {
        self.source.answered(client, moments);
        self.tally.answered(moments);
    }

    fn tick(&mut self, now: Instant) {
        self.tally.tick(now);
    }

    fn ended(&mut self) {
        self.source.ended();
        self.tally.ended();
    }
}
