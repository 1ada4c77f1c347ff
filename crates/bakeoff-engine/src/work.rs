//! Defines the loop's two traits: a worker's work, and the sessions it uses.
//!
//! The loop knows due times, sockets and histograms, but not what an operation is. Work makes operations and judges
//! the answers. So key-value loads, plain HTTP loads and audits share every line of the loop.
//!
//! The loop is generic over `Work`, and is compiled once for each of the three kinds of work. That happens in this crate,
//! which a release build optimizes for speed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::ledger::WriteOutcome;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::staleness::ReadAge;
use bakeoff_wire::ProtocolError;

use crate::turns::Turns;

/// Index of an operation in flight within its client, below the load's `in_flight`.
pub type Tag = u32;

/// Handles the protocol of one connection, without a socket.
pub trait Session {
    /// Appends the first bytes of a new connection.
    fn open(&mut self, out: &mut Vec<u8>);

    /// Returns true if operations may be sent, which is after the protocol's handshake.
    fn is_open(&self) -> bool;

    /// Returns true if TLS may begin, for protocols whose server sends plain text first.
    fn begins_tls(&self) -> bool {
        false
    }

    /// Returns true if the peer has announced that it accepts no more operations on this connection.
    fn is_ending(&self) -> bool {
        false
    }

    /// Gives up an operation that timed out. Returns false if the connection is unusable, because a late answer could
    /// be mistaken for the next one.
    fn abandon(&mut self, tag: Tag, out: &mut Vec<u8>) -> bool {
        let _ = (tag, out);
        false
    }

    /// Appends the protocol's goodbye before the client closes the connection.
    fn close(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Returns a likely reason why the server closed this connection, from the operations in flight.
    fn loss_reason(&self) -> Option<String> {
        None
    }

    /// Returns the idle time after which [`Self::keep_alive`] is due; `None` if the protocol needs none.
    fn keep_alive_every(&self) -> Option<Duration> {
        None
    }

    /// Appends a message that keeps an idle connection open.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Returns true if the session discards bodies as they arrive, so an incomplete answer holds no memory.
    fn drops_bodies(&self) -> bool {
        false
    }
}

/// Decides about an operation whose kept connection the server closed before any byte of the answer.
///
/// Servers close idle connections, or close them after many requests. A request may be in transit at that moment (RFC
/// 9112 section 9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleClose {
    /// Treated as a broken connection: the protocol has no idle close.
    Broken,
    /// Counted as failed, because a repeat might change something.
    Failed,
    /// Sent again on the next connection.
    Reissued,
}

impl IdleClose {
    /// Returns the rule for a request method: idempotent ones are sent again (RFC 9110 section 9.2.2).
    pub fn of_method(method: &str) -> Self {
        match method {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE" => Self::Reissued,
            _ => Self::Failed,
        }
    }
}

pub(crate) struct IssuedOperation<P> {
    /// Index into [`Outline::operations`].
    pub(crate) operation: usize,
    /// State that the work keeps until the answer.
    pub(crate) pending: P,
}

/// Explains why no operation was sent.
pub enum NotIssued {
    /// The session accepts no more at the moment.
    Busy,
    /// No operations are left.
    Exhausted,
    /// The whole load must end, on every worker. The work keeps the reason.
    Abort,
}

/// Holds the times of an operation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct OperationTiming {
    /// Scheduled time.
    pub due: Instant,
    /// Time when it was sent, or when its own connection was started.
    pub sent: Instant,
    /// Time when its end was observed.
    pub done: Instant,
}

pub(crate) struct Completion {
    pub(crate) tag: Tag,
    pub(crate) result: Result<Success, Failure>,
}

/// Describes a verified success.
#[derive(Default)]
pub struct Success {
    /// Staleness of the value, if stale reads are allowed.
    pub seen: ReadAge,
    /// Whether a read found a value; `None` for operations that do not read a single key.
    pub hit: Option<bool>,
}

impl Success {
    /// Adds the result of reading one key: `hit` if it found a value.
    pub fn of_read(self, hit: bool) -> Self {
        Self { hit: Some(hit), ..self }
    }
}

/// Describes an answer that is not a success.
pub struct Failure {
    /// Class that the failure is counted under.
    pub kind: ErrorKind,
    /// Observation in words.
    pub what: String,
    /// Staleness of the value, if stale reads are not allowed.
    pub seen: ReadAge,
    /// True if the server certainly did not process the operation.
    pub is_unprocessed: bool,
    /// True if the server answered plain text by saying that it speaks TLS.
    pub refuses_plain_text: bool,
}

impl Failure {
    /// Creates a failure; `what` is the observation in words.
    pub fn new(kind: ErrorKind, what: String) -> Self {
        let seen = ReadAge::default();
        Self { kind, what, seen, is_unprocessed: false, refuses_plain_text: false }
    }

    /// Creates a failure of an operation that the server certainly did not process.
    pub fn unprocessed(what: String) -> Self {
        Self { is_unprocessed: true, ..Self::new(ErrorKind::Reset, what) }
    }
}

/// Gives access to a client's operations in flight, by tag.
pub(crate) trait Pendings<P> {
    /// Removes and returns the operation with this tag; `None` if none is in flight.
    fn take(&mut self, tag: Tag) -> Option<P>;

    /// Puts back an operation that continues with another request under the same tag.
    fn put_back(&mut self, tag: Tag, pending: P);
}

/// Describes the work to the loop before the load begins.
#[derive(Default)]
pub(crate) struct Outline {
    /// Operation names; tables have one row each.
    pub(crate) operations: Vec<String>,
    /// True if reads report the staleness of their values.
    pub(crate) judges_age: bool,
    /// True if the load may begin although the server refuses some clients, or soon if it accepts some late. Clients
    /// without a connection count as unserved.
    pub(crate) begins_short: bool,
    /// Rotation of a closed load over several servers; `None` for one server.
    pub(crate) turns: Option<Arc<Turns>>,
    /// Operations in flight over all clients, if clients differ by one; `None` if each has the load's `in_flight`.
    pub(crate) slots: Option<u32>,
    /// Longest time without any client connecting, after which the load is given up; `None` for the default.
    pub(crate) connect_within: Option<Duration>,
}

/// Makes the operations of one worker thread and judges their answers.
///
/// [`Tickets`] decides which operations are its own. [`Course`] follows the time of the load.
pub(crate) trait Work: Tickets + Course + Send {
    /// Session of one client connection.
    type Session: Session + Send + ?Sized;
    type State: Send;

    fn outline(&self) -> Outline;

    /// Creates the session for a new connection of `client` to `node`.
    fn session(&mut self, client: u32, node: usize) -> Box<Self::Session>;

    /// Makes the next operation and appends its bytes. `ticket` numbers the operations of the whole load.
    fn issue(
        &mut self,
        session: &mut Self::Session,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<IssuedOperation<Self::State>, NotIssued>;

    /// Consumes all of `input` and judges the answers that it completes.
    fn receive(
        &mut self,
        session: &mut Self::Session,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<Self::State>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError>;

    /// Handles the peer's close. Some protocols end an answer that way.
    fn receive_end(
        &mut self,
        session: &mut Self::Session,
        pendings: &mut impl Pendings<Self::State>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError>;

    /// Decides what to do with an operation whose kept connection the server closed before it answered.
    fn after_idle_close(&self, session: &Self::Session, pending: &Self::State) -> IdleClose;

    /// Takes back an operation that ended without an answer.
    fn give_up(&mut self, pending: Self::State, outcome: WriteOutcome) {
        let _ = (pending, outcome);
    }
}

/// Decides by operation number which operations belong to this generator.
pub(crate) trait Tickets {
    /// Returns true if this generator makes the operation with this number.
    fn owns(&mut self, ticket: u64) -> bool;

    /// Returns which operation `ticket` would have been at `node`, for one that is counted but never sent. Returns
    /// `None` if no operations are left.
    fn skip(&mut self, node: usize, ticket: u64) -> Option<usize>;
}

/// Follows the time of a load. Keyed work ignores it.
pub(crate) trait Course {
    /// Begins the load: operations are due from `start` and measured from `measure`.
    fn begin(&mut self, start: Instant, measure: Instant) {
        let _ = (start, measure);
    }

    /// Returns the pause of `client`, of a closed load, before its next operation.
    fn pause(&mut self, client: u32, now: Instant) -> Duration {
        let _ = (client, now);
        Duration::ZERO
    }

    /// Receives the times of each answered operation, in the order in which [`Work::receive`] pushed them to `done`.
    fn answered(&mut self, moments: &OperationTiming) {
        let _ = moments;
    }

    /// Runs every few milliseconds once the load has begun.
    fn tick(&mut self, now: Instant) {
        let _ = now;
    }

    fn ended(&mut self) {}
}
