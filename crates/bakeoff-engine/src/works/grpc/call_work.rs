//! Implements `Work` for gRPC calls.
//!
//! Not here: making calls and judging replies (each [`CallSource`]), one connection (`session`).

use std::sync::Arc;
use std::time::Instant;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{CallId, CallReply};

use super::session::{CallSession, Flights};
use super::{Call, CallSlot, CallSource, CallTargets, NextStep};
use crate::Drive;
use crate::turns::Turns;
use crate::work::{
    Completion, Course, Failure, IdleClose, IssuedOperation, NotIssued, OperationTiming, Outline,
    Pendings, Tag, Tickets, Work,
};

/// Makes work from the calls of a [`CallSource`].
pub(super) struct CallWork {
    source: Box<dyn CallSource>,
    targets: Arc<CallTargets>,
    in_flight: u32,
    turns: Option<Arc<Turns>>,
    message: Vec<u8>,
    /// Calls that follow from the replies of one read.
    following: Vec<(Tag, Call, Vec<u8>)>,
    /// Streams whose operation ended before them.
    unfinished: Vec<CallId>,
    /// Operations that ended but were not yet timed, each with whether it succeeded, if the source needs times.
    fresh: Vec<(usize, bool)>,
    timed: usize,
    is_timed: bool,
}

impl CallWork {
    pub(super) fn new(
        mut source: Box<dyn CallSource>,
        targets: Arc<CallTargets>,
        drive: &Drive,
        turns: Option<Arc<Turns>>,
    ) -> Self {
        Self {
            is_timed: source.timed().is_some(),
            source,
            targets,
            in_flight: drive.in_flight,
            turns,
            message: Vec::new(),
            following: Vec::new(),
            unfinished: Vec::new(),
            fresh: Vec::new(),
            timed: 0,
        }
    }
}

impl Tickets for CallWork {
    fn owns(&mut self, _: u64) -> bool {
        true
    }

    fn skip(&mut self, _: usize, _: u64) -> Option<usize> {
        Some(0)
    }
}

impl Course for CallWork {
    fn begin(&mut self, start: Instant, _: Instant) {
        if let Some(timed) = self.source.timed() {
            timed.begin(start);
        }
    }

    #[inline]
    fn answered(&mut self, moments: &OperationTiming) {
        if !self.is_timed {
            return;
        }
        if let Some(&(operation, succeeded)) = self.fresh.get(self.timed) {
            self.timed += 1;
            if let Some(timed) = self.source.timed().filter(|_| succeeded) {
                timed.answered(operation, moments);
            }
        }
    }

    fn ended(&mut self) {
        if let Some(timed) = self.source.timed() {
            timed.ended();
        }
    }
}

impl Work for CallWork {
    type Session = CallSession;
    /// Index of the operation.
    type State = usize;

    fn outline(&self) -> Outline {
        Outline {
            operations: self.source.operations(),
            turns: self.turns.clone(),
            slots: self.targets.slots,
            connect_within: Some(self.targets.connect_within),
            ..Outline::default()
        }
    }

    fn session(&mut self, client: u32, node: usize) -> Box<CallSession> {
        let place = (client, node, self.in_flight);
        Box::new(CallSession::new(&self.targets, self.source.methods(), place))
    }

    #[inline]
    fn issue(
        &mut self,
        session: &mut CallSession,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<IssuedOperation<usize>, NotIssued> {
        if session.client.capacity() == 0 && !session.standing.is_kept_by(tag) {
            return Err(NotIssued::Busy);
        }
        self.message.clear();
        let first = self.source.begin(CallSlot { client, tag }, ticket, &mut self.message)?;
        session.send(tag, first.call, &self.message, out).map_err(|_| NotIssued::Busy)?;
        Ok(IssuedOperation { operation: first.operation, pending: first.operation })
    }

    #[inline]
    fn receive(
        &mut self,
        session: &mut CallSession,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<usize>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        let Self { source, message, following, unfinished, fresh, timed, is_timed, .. } = self;
        fresh.clear();
        *timed = 0;
        let mut end = |tag, result: Result<_, Failure>, pendings: &mut dyn Pendings<usize>| {
            let Some(operation) = pendings.take(tag) else { return };
            let is_unprocessed = result.as_ref().is_err_and(|failure| failure.is_unprocessed);
            if *is_timed && !is_unprocessed {
                fresh.push((operation, result.is_ok()));
            }
            done.push(Completion { tag, result });
        };
        let CallSession { client, number, flights, standing, .. } = session;
        let received = client.receive_replies(input, out, &mut |call, reply| {
            let Some(tag) = flights.tag(call) else { return };
            let is_last = !matches!(reply, CallReply::Message(_));
            if is_last {
                flights.remove(call);
                standing.forget(call);
            }
            let stays = !is_last && standing.has(call);
            if let CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)) = &reply
                && status.is_unprocessed
            {
                return end(tag, Err(Failure::unprocessed(status.to_string())), pendings);
            }
            message.clear();
            match source.reply(CallSlot { client: *number, tag }, reply, message) {
                NextStep::Await if is_last => {
                    let what = "the call ended before its operation".to_owned();
                    end(tag, Err(Failure::new(ErrorKind::Protocol, what)), pendings);
                }
                NextStep::Await => {}
                NextStep::Call(next) => {
                    following.push((tag, next, std::mem::take(message)));
                    leave(flights, unfinished, call, is_last, stays);
                }
                NextStep::End(result) => {
                    leave(flights, unfinished, call, is_last, stays);
                    end(tag, result, pendings);
                }
            }
        });
        for call in unfinished.drain(..) {
            session.client.cancel(call, out);
        }
        for (tag, call, request) in following.drain(..) {
            if received.is_ok() && session.send(tag, call, &request, out).is_err() {
                let what = "the connection accepted no further call of the operation".to_owned();
                end(tag, Err(Failure::new(ErrorKind::Reset, what)), pendings);
            }
        }
        received
    }

    fn receive_end(
        &mut self,
        _: &mut CallSession,
        _: &mut impl Pendings<usize>,
        _: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn after_idle_close(&self, _: &CallSession, _: &usize) -> IdleClose {
        IdleClose::Broken
    }
}

/// Detaches an operation from a call whose further messages do not concern it: one that stays for the slot's next
/// operation, or one that is cancelled.
fn leave(
    flights: &mut Flights,
    unfinished: &mut Vec<CallId>,
    call: CallId,
    is_last: bool,
    stays: bool,
) {
    if !is_last {
        flights.remove(call);
        if !stays {
            unfinished.push(call);
        }
    }
}
