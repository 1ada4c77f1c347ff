//! Drives loads of gRPC calls: an operation is one call, or several that follow from each other.
//!
//! A [`CallSource`] makes the calls and judges the replies. As in Go's client, a client has one connection to each
//! server, its operations go to the servers in turn, and its connections are shared by its operations in flight.
//!
//! Not here: the loop (`engine`), the wire format (`bakeoff_wire::grpc`), messages, command lines.

mod call_work;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::schedule::LoadShare;
pub use bakeoff_wire::grpc::{CallReply, Status, code};

use self::call_work::CallWork;
use crate::peer::Peer;
use crate::turns::Turns;
use crate::work::{Failure, NotIssued, Success, Tag};
use crate::{Drive, EngineError, LoadProgress};

pub use super::http::TimingSink;

/// Describes the servers of a load of calls.
#[derive(Debug, Clone)]
pub struct CallTargets {
    /// Address and TLS of each server.
    pub peers: Vec<Peer>,
    /// Host and port of each server as calls name them.
    pub authorities: Vec<String>,
    /// Metadata of each call; names in lower case.
    pub metadata: Vec<(String, String)>,
    /// Longest wait for a connection before the load.
    pub connect_within: Duration,
    /// Operations in flight over all clients, if they are not [`Drive::in_flight`] for each. The first clients have one
    /// more than the last ones if they do not divide evenly.
    pub slots: Option<u32>,
}

/// Identifies an operation in flight: its client, and its number within the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSlot {
    /// Number of the client.
    pub client: u32,
    /// Number of the operation within the client, below [`Drive::in_flight`].
    pub tag: Tag,
}

/// Selects how a call is sent and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// One request, one answer.
    Unary,
    /// One request, and a stream of messages that the server ends.
    ServerStream,
    /// A request on a stream that the operation's slot keeps, with one message as its answer. The slot's first request
    /// opens the stream.
    Standing,
}

/// Describes a call whose request a [`CallSource`] has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Index into [`CallSource::methods`].
    pub method: usize,
    /// How it is answered.
    pub form: CallForm,
}

impl Call {
    /// Returns a unary call.
    pub fn unary(method: usize) -> Self {
        Self { method, form: CallForm::Unary }
    }
}

/// Describes the first call of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCall {
    /// Index into [`CallSource::operations`].
    pub operation: usize,
    /// The call.
    pub call: Call,
}

/// Decides how an operation continues after a reply.
pub enum NextStep {
    /// More replies to the same call will come.
    Await,
    /// The next call follows. Its request has been written.
    Call(Call),
    /// The operation has ended.
    End(Result<Success, Failure>),
}

/// Makes one worker's calls and judges the replies.
///
/// A source that needs state between the calls of an operation keeps it by [`CallSlot`], and drops it when the slot
/// begins another operation: an operation that timed out gets no further reply.
pub trait CallSource: Send {
    /// Returns the operation names; tables have one row each.
    fn operations(&self) -> Vec<String>;

    /// Returns the paths of all methods, such as `/etcdserverpb.KV/Put`.
    fn methods(&self) -> &'static [&'static str];

    /// Writes the request of the first call of operation number `ticket` to `message`, which is empty.
    fn begin(
        &mut self,
        slot: CallSlot,
        ticket: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued>;

    /// Judges a reply. Writes the request of the next call, if there is one, to `message`, which is empty.
    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, message: &mut Vec<u8>) -> NextStep;

    /// Returns the receiver of the times of successes; `None` if the source does not need them.
    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        None
    }
}

/// Drives a load of calls. Also returns the number of the first operation that was not started.
///
/// # Errors
/// Fails if a server accepts no connection in time, or if this machine refuses a resource.
pub fn drive_calls(
    targets: &CallTargets,
    drive: &Drive,
    sources: &mut dyn FnMut(LoadShare) -> Box<dyn CallSource>,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(Measurement, u64), EngineError> {
    let servers: Vec<usize> = (0..targets.peers.len()).collect();
    let turns = Turns::new(servers.clone(), &servers).map(Arc::new);
    let targets = Arc::new(targets.clone());
    let work = |share| CallWork::new(sources(share), targets.clone(), drive, turns.clone());
    crate::drive(&targets.peers, drive, None, work, interrupted, progress)
}
