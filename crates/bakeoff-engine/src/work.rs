//! The loop's two traits: the work that a worker does and the sessions it does it on.
//!
//! The loop knows due times, sockets and histograms; it does not know what an operation is. Work
//! does, and judges the answers, so that a key-value load, a plain HTTP load and an audit share
//! every line of the loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::ledger::WriteOutcome;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::staleness::Seen;
use bakeoff_wire::ProtocolError;

use crate::turns::Turns;

/// Which of a client's operations under way; below the load's `in_flight`.
pub type Tag = u32;

/// One connection's conversation. It never sees a socket.
pub trait Session {
    /// Appends what a new connection says first.
    fn open(&mut self, out: &mut Vec<u8>);

    /// Returns whether operations may be sent: greetings are done.
    fn is_open(&self) -> bool;

    /// Returns whether TLS may begin, for a protocol whose server greets in plain text before it does.
    fn begins_tls(&self) -> bool {
        false
    }

    /// Returns whether the peer has announced that it takes nothing more on this connection.
    fn is_ending(&self) -> bool {
        false
    }

    /// Gives up an operation that had no answer in time. `false`: the connection cannot be used
    /// any more, because a late answer could not be told from the next one.
    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        let _ = (tag, out);
        false
    }

    /// Appends what a client says before it hangs up for good.
    fn close(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Returns how long a connection may be silent before [`Self::keep_alive`] is due.
    fn keep_alive_every(&self) -> Option<Duration> {
        None
    }

    /// Appends what keeps a silent connection alive.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Returns true if it drops bodies as they come, so that an incomplete answer holds no memory.
    fn drops_bodies(&self) -> bool {
        false
    }
}

/// The fate of an operation whose kept connection the server closed before any byte of an answer came.
///
/// Servers close connections that were idle for a while, or that have served many requests. A request may be on its
/// way at that moment (RFC 9112 section 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleClose {
    /// The protocol knows no such closing: the connection broke.
    Broken,
    /// It failed. Doing it twice might change something.
    Failed,
    /// It is sent again on the next connection.
    Reissued,
}

impl IdleClose {
    /// Returns what becomes of a request with this method: idempotent ones are sent again (RFC 9110 section 9.2.2).
    pub fn of_method(method: &str) -> Self {
        match method {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE" => Self::Reissued,
            _ => Self::Failed,
        }
    }
}

/// An operation that was sent.
pub(crate) struct Issued<P> {
    /// Which of [`Outline::operations`].
    pub(crate) operation: usize,
    /// State that the work keeps until the answer.
    pub(crate) pending: P,
}

/// Why nothing was sent.
pub enum NotIssued {
    /// The session takes no more at the moment.
    Busy,
    /// There is nothing more to do, ever.
    Exhausted,
    /// The whole load is to end, on every worker. The work keeps why.
    Abort,
}

/// The moments of an operation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct OperationTiming {
    /// When it was due.
    pub due: Instant,
    /// When it was sent, or a connection for it was begun.
    pub sent: Instant,
    /// When its end was seen.
    pub done: Instant,
}

/// An operation that ended with an answer.
pub(crate) struct Done {
    /// The operation that was answered.
    pub(crate) tag: Tag,
    /// The answer.
    pub(crate) result: Result<Success, Failure>,
}

/// A verified success.
#[derive(Default)]
pub struct Success {
    /// How old what was read is, where it is allowed to be old.
    pub seen: Seen,
    /// Whether a read of a key found a value; `None` for all that reads no single key.
    pub hit: Option<bool>,
}

impl Success {
    /// The same, of a read of a key that found a value or found none.
    pub fn of_read(self, hit: bool) -> Self {
        Self { hit: Some(hit), ..self }
    }
}

/// An answer that is no success.
pub struct Failure {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The observation, in words.
    pub what: String,
    /// How old what was read is, where it was not allowed to be.
    pub seen: Seen,
    /// True if the server has certainly not processed the operation.
    pub is_unprocessed: bool,
    /// True if the server answered plain text by saying that it speaks TLS.
    pub refuses_plain_text: bool,
}

impl Failure {
    /// Makes a failure of a kind, with what was seen in words.
    pub fn new(kind: ErrorKind, what: String) -> Self {
        let seen = Seen::default();
        Self { kind, what, seen, is_unprocessed: false, refuses_plain_text: false }
    }

    /// Makes a failure of an operation that the server has certainly not processed.
    pub fn unprocessed(what: String) -> Self {
        Self { is_unprocessed: true, ..Self::new(ErrorKind::Reset, what) }
    }
}

/// Operations in flight of each client, by tag.
pub(crate) trait Pendings<P> {
    /// Returns the operation sent with this tag; `None` when nothing is in flight there.
    fn take(&mut self, tag: Tag) -> Option<P>;

    /// Keeps an operation that was taken and goes on with another request, under the same tag.
    fn put_back(&mut self, tag: Tag, pending: P);
}

/// Facts about work that the loop needs before the load begins.
#[derive(Default)]
pub(crate) struct Outline {
    /// Names of its operations; tables have one row each.
    pub(crate) operations: Vec<String>,
    /// True if reads report how old their values are.
    pub(crate) judges_age: bool,
    /// True if a load may begin though the server turns some of its clients away. They count as unserved.
    pub(crate) begins_short: bool,
    /// Servers that each client of a closed load asks in turn, if they are several.
    pub(crate) turns: Option<Arc<Turns>>,
}

/// A worker thread's work: makes operations and judges their answers.
///
/// [`Tickets`] says which operations are its own, [`Course`] follows the time of the load.
pub(crate) trait Work: Tickets + Course + Send {
    /// One client connection.
    type Session: Session + Send + ?Sized;
    /// State of an operation in flight.
    type Pending: Send;

    /// Returns what the loop needs to know before the load begins.
    fn outline(&self) -> Outline;

    /// Makes a session for a fresh connection of `client` to node `node`.
    fn session(&mut self, client: u32, node: usize) -> Box<Self::Session>;

    /// Makes the next operation and appends its bytes. `ticket` counts all operations of the load.
    fn issue(
        &mut self,
        session: &mut Self::Session,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Issued<Self::Pending>, NotIssued>;

    /// Takes bytes from the connection, all of them, and judges the answers they complete.
    fn receive(
        &mut self,
        session: &mut Self::Session,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<Self::Pending>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError>;

    /// Takes note that the peer closed the connection; some protocols end an answer that way.
    fn receive_end(
        &mut self,
        session: &mut Self::Session,
        pendings: &mut impl Pendings<Self::Pending>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError>;

    /// Returns what becomes of an operation whose kept connection the server closed before it answered.
    fn after_idle_close(&self, session: &Self::Session, pending: &Self::Pending) -> IdleClose;

    /// Takes back an operation that ended without an answer.
    fn give_up(&mut self, pending: Self::Pending, outcome: WriteOutcome) {
        let _ = (pending, outcome);
    }
}

/// Says by their numbers which operations are this generator's, and what they are.
pub(crate) trait Tickets {
    /// Returns whether the operation of a number is this generator's to make. Another one makes it otherwise.
    fn owns(&mut self, ticket: u64) -> bool;

    /// Returns which operation `ticket` would have been at `node`, for one that is counted and never sent. `None`:
    /// no operations are left.
    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize>;
}

/// Follows the time of a load. Keyed work needs none of it.
pub(crate) trait Course {
    /// Begins the load: operations are due from `start` on and measured from `measure` on.
    fn begin(&mut self, start: Instant, measure: Instant) {
        let _ = (start, measure);
    }

    /// Returns how long `client`, of a closed load, rests before its next operation.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        let _ = (client, now);
        Duration::ZERO
    }

    /// Takes the moments of an answered operation, in the order of what [`Work::receive`] put into `done`.
    fn answered(&mut self, moments: &OperationTiming) {
        let _ = moments;
    }

    /// Takes the time, every few milliseconds once the load has begun.
    fn tick(&mut self, now: Instant) {
        let _ = now;
    }

    /// Ends the worker's load.
    fn ended(&mut self) {}
}
