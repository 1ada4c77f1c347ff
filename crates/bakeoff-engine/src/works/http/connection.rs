//! Runs one HTTP/1.1 connection of a load.
//!
//! Not here: the wire format (`bakeoff_wire::http1`), the requests (`source`).

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::http1::{Connection, Limits, Response};

use super::answers::Tally;
use super::body_limits;
use super::source::{RedirectError, ResponseVerdict, Source};
use crate::work::{
    Completion, Failure, IdleClose, IssuedOperation, NotIssued, Pendings, Success, Tag,
};

/// Maximum redirects followed for one request, as in Go's client and browsers.
const HOPS_MAX: u8 = 10;
/// Holds one connection and its request or pipelined requests in flight.
pub(super) struct OneConnection {
    pub(super) connection: Connection,
    operation: usize,
    /// Operations of an appended batch that the engine has not begun yet.
    unissued: u32,
    /// Tag of the next response.
    next_tag: Tag,
    hops: u8,
    pub(super) ending: bool,
}

impl OneConnection {
    /// Creates a connection. `reads_bodies`: bodies are kept.
    pub(super) fn new(reads_bodies: bool) -> Self {
        let (max_body, kept_body) = body_limits(reads_bodies);
        Self {
            connection: Connection::new(Limits { max_body, kept_body, ..Limits::default() }),
            operation: 0,
            unissued: 0,
            next_tag: 0,
            hops: 0,
            ending: false,
        }
    }

    /// Appends the next request of a client that is connected to `node`.
    #[inline]
    pub(super) fn issue(
        &mut self,
        source: &mut dyn Source,
        client: u32,
        node: usize,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<IssuedOperation<IdleClose>, NotIssued> {
        if self.unissued > 0 {
            self.unissued -= 1;
            return Ok(IssuedOperation { operation: self.operation, pending: IdleClose::Broken });
        }
        if !self.connection.is_ready() || self.ending {
            return Err(NotIssued::Busy);
        }
        let batch = source.request(client, node, ticket, out)?;
        if self.connection.expect(batch.is_head, batch.responses).is_err() {
            return Err(NotIssued::Busy);
        }
        self.operation = batch.operation;
        self.unissued = batch.responses - 1;
        self.next_tag = tag;
        let pending = if batch.responses == 1 { batch.idle_close } else { IdleClose::Broken };
        Ok(IssuedOperation { operation: batch.operation, pending })
    }

    /// Returns the connection and the receiver of its responses.
    pub(super) fn delivery<'a, P>(
        &'a mut self,
        to: ResponseReceiver<'a>,
        pendings: &'a mut P,
        done: &'a mut Vec<Completion>,
    ) -> (&'a mut Connection, Delivery<'a, P>) {
        let delivery = Delivery {
            to,
            pendings,
            done,
            operation: self.operation,
            next_tag: &mut self.next_tag,
            hops: &mut self.hops,
            ending: &mut self.ending,
            followed: None,
        };
        (&mut self.connection, delivery)
    }
}

/// Receives the responses of all connections of a worker.
pub(super) struct ResponseReceiver<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) keep_alive: bool,
    /// Next request of a redirect.
    pub(super) follow: &'a mut Vec<u8>,
    pub(super) tally: &'a mut Tally,
    /// True if the source needs the times of its answers.
    pub(super) is_timed: bool,
    /// Operations of answers that are not timed yet, if the source needs times.
    pub(super) fresh: &'a mut Vec<usize>,
}

/// Receives the responses of one connection.
pub(super) struct Delivery<'a, P> {
    to: ResponseReceiver<'a>,
    pendings: &'a mut P,
    done: &'a mut Vec<Completion>,
    operation: usize,
    next_tag: &'a mut Tag,
    hops: &'a mut u8,
    ending: &'a mut bool,
    /// Whether a redirect must be followed, and if so, by a HEAD request.
    pub(super) followed: Option<bool>,
}

impl<P: Pendings<IdleClose>> Delivery<'_, P> {
    #[inline]
    pub(super) fn take(&mut self, response: &Response<'_>) {
        *self.ending |= !response.keep_alive || !self.to.keep_alive;
        let result = match self.to.source.response(self.operation, response) {
            ResponseVerdict::Success => Ok(Success::default()),
            ResponseVerdict::Failure(failure) => Err(failure),
            ResponseVerdict::Redirect => match self.follow(response) {
                Ok(()) => return,
                Err(failure) => Err(failure),
            },
        };
        *self.hops = 0;
        self.to.tally.answer(response.status, response.length);
        self.to.tally.met(response.oddities);
        let tag = *self.next_tag;
        *self.next_tag += 1;
        if self.pendings.take(tag).is_some() {
            if self.to.is_timed {
                self.to.fresh.push(self.operation);
            }
            self.done.push(Completion { tag, result });
        }
    }

    #[cold]
    fn follow(&mut self, response: &Response<'_>) -> Result<(), Failure> {
        let next = if *self.hops == HOPS_MAX {
            Err(RedirectError::TooMany(HOPS_MAX))
        } else if *self.ending {
            Err(RedirectError::ConnectionEnds)
        } else {
            self.to.follow.clear();
            self.to.source.follow(self.operation, response, self.to.follow)
        };
        let is_head = next.map_err(|what| {
            Failure::new(ErrorKind::Status, format!("status {}: {what}", response.status))
        })?;
        *self.hops += 1;
        self.followed = Some(is_head);
        Ok(())
    }
}
