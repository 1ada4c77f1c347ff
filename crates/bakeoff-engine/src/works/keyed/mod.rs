//! Makes the operations of a keyed workload and judges every answer.
//!
//! The value of a `put` carries a checksum and a stamp. A `get` is verified byte for byte, and against the ledger of
//! writes acknowledged before it began. The same code fills a cluster before a trial and audits it afterwards; only
//! the source of keys differs.
//!
//! Some operations of a secret store have no stored key. There the key selects the user that logs in or the text to
//! encrypt. Decrypted text is verified like a stored value.
//!
//! Not here: bytes on the wire (each system's session), time and sockets (the engine).

mod groups;
mod history;
mod leases;
mod locks;
mod places;
mod scan;
mod shared;
mod source;
#[cfg(test)]
mod tests;
mod two_step;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::ledger::{KeyHistory, ReadBegan, Violation, WriteOutcome};
use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::staleness::ReadAge;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_core::workload::Stamp;
use bakeoff_wire::ProtocolError;
use serde::{Deserialize, Serialize};

pub use self::groups::GroupKey;
pub use self::history::HistoryCollector;
use self::history::HistoryRecorder;
use self::locks::HeldLocks;
pub use self::shared::{KeyedState, Ledger, StalenessTracking};
use self::source::FINDINGS_EXAMPLES_MAX;
pub use self::source::{Findings, Source};
use self::two_step::{Halves, RequestHalf, Step};
use crate::peer::Peer;
use crate::shared_versions::VersionRecorder;
use crate::start_barrier::StartBarrier;
use crate::work::{
    Completion, Course, Failure, IdleClose, IssuedOperation, NotIssued, OperationTiming, Outline,
    Pendings, Session, Success, Tag, Tickets, Work,
};
use crate::{Drive, EngineError, LoadProgress};

/// Describes one operation for a system's session.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Kind of operation.
    pub operation: Operation,
    /// Number of the key; for a `list`, of the directory.
    pub number: u64,
    /// Name of the key; for a `list` the directory, which ends in `/`.
    pub key: &'a [u8],
    /// Value to `put`, `watch`, `insert`, `encrypt` or `sign`; empty otherwise.
    pub value: &'a [u8],
    /// Required freshness of a `get` or `list`.
    pub reads: ReadConsistency,
    /// True if a `put` probably creates its key, for protocols that distinguish create from update.
    pub creates: bool,
    /// Requested half of a `compare-and-set` or `move`.
    pub compare: Compare,
    /// Requested step of a `lock`.
    pub lock: LockStep,
    /// Name of the lease to renew; empty if one has to be granted.
    pub lease: &'a str,
    /// Maximum number of keys of a `scan`.
    pub limit: u32,
    /// Keys of a `look` or `move`; empty otherwise. Their names begin with `key`.
    pub group: &'a [GroupKey],
}

impl<'a> Request<'a> {
    /// Returns a request for an operation on a key, without a value. It reads with the system's default freshness.
    pub fn new(operation: Operation, key: &'a [u8]) -> Self {
        Self {
            operation,
            number: 0,
            key,
            value: b"",
            reads: ReadConsistency::Default,
            creates: false,
            compare: Compare::default(),
            lock: LockStep::default(),
            lease: "",
            limit: 0,
            group: &[],
        }
    }
}

/// Selects the half of a `compare-and-set` or `move`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compare {
    /// Read the key's value and version, or those of the group.
    #[default]
    Read,
    /// Write the new value if the key has this version; 0 stands for a missing key. Each key of a group must have it.
    Replace(u64),
}

/// Selects the step of a `lock`. The read between acquiring and writing is a `get`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LockStep {
    /// Acquire the lock, however long that takes. Ends in [`Answer::Held`].
    #[default]
    Acquire,
    /// Write the key.
    Write,
    /// Release the lock.
    Release,
}

/// Holds a system's answer.
pub enum Answer<'a> {
    /// Success of an operation that returns no data. For a `watch`, its event was seen, too.
    Done,
    /// Value of a `get` or a `decrypt`.
    Value(&'a [u8]),
    /// Value read by a `compare-and-set`, and its version, never 0.
    Versioned(&'a [u8], u64),
    /// Values of a `look` or `move` in the order of the group, `None` for a missing key; and their version, 0 if all are
    /// missing or if the connection remembers what was read.
    Group(&'a mut dyn Iterator<Item = Option<&'a [u8]>>, u64),
    /// [`Self::Done`] of a `delete`, `compare-and-set` or `move`, with its place in the system's own order of writes,
    /// such as etcd's revision.
    DoneAt(u64),
    /// The write of a `compare-and-set` or `move` found another version and changed nothing.
    Conflict,
    /// The write of a `compare-and-set` succeeded, but on a key that was deleted and created again since its read. The
    /// system's versions do not tell the two apart.
    Recreated,
    /// Keys and values of a `scan`, in order.
    Pairs(&'a mut dyn Iterator<Item = (&'a [u8], &'a [u8])>),
    /// The key does not exist. This is a success for a `delete`.
    Missing,
    /// [`Self::Missing`], with the last write in the system's own order that it had applied. That may be taken after
    /// the read and before the answer.
    MissingAt(u64),
    /// Names of a `list`, with or without their directory.
    Names(&'a mut dyn Iterator<Item = &'a [u8]>),
    /// The system certainly did not process it, so it may be sent again.
    Unprocessed(String),
    /// Refusal that proves that nothing was changed. An error that does not prove it is [`Self::Failed`].
    Refused(ErrorKind, String),
    /// Name of a lease that was granted. A renewal may answer it, too.
    Granted(&'a str),
    /// The lease, which lasts for this time after each renewal, is gone.
    LeaseExpired(Duration),
    /// Acquiring a lock needs another request. The session knows which one, if it is asked again for the step.
    Again,
    /// The client holds the lock.
    Held {
        /// Number that rises with each grant of the lock, for the store to refuse writes of earlier holders; 0 if the
        /// system has none.
        token: u64,
        /// Earliest end of the client's lease.
        until: Instant,
    },
    /// The client does not hold the lock, so nothing was written or released.
    NotHeld {
        /// True if it did not hold the lock when this was granted.
        at_grant: bool,
    },
    /// Failure, refusal or wrong answer.
    Failed(ErrorKind, String),
}

/// Speaks key-value operations over one connection.
pub trait KvSession: Session + Send {
    /// Marks the connection as used for one operation. Informs the peer if the protocol supports that.
    fn only_one(&mut self) {}

    /// Returns true if servers may close connections between two operations, as in HTTP.
    fn may_close_idle(&self) -> bool {
        false
    }

    /// Appends the bytes of an operation. Returns false if the session accepts no more at the moment.
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool;

    /// Consumes bytes from the connection and passes the answers that they complete to `on`.
    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError>;

    /// Handles the peer's close. Some protocols end an answer that way.
    fn receive_end(&mut self, on: &mut dyn FnMut(Tag, Answer<'_>)) -> Result<(), ProtocolError> {
        let _ = on;
        Ok(())
    }
}

/// Configures the freshness and the judgement of reads.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Reading {
    /// Required freshness.
    pub reads: ReadConsistency,
    /// True if the system may return old values for such reads.
    pub may_be_stale: bool,
    /// True if every key was written and none is deleted, so a `list` must be complete.
    pub lists_are_complete: bool,
}

/// Creates the session for a client number and a node index.
pub type Connect = Box<dyn FnMut(u32, usize) -> Box<dyn KvSession> + Send>;

/// Makes one worker's key-value work over the sessions of `connect`.
pub struct KvWork {
    keyed: Arc<KeyedState>,
    source: Source,
    reading: Reading,
    connect: Connect,
    /// Numbers of this worker's clients within the generator, for operations on a client's own key.
    numbers: ClientNumbers,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Keys of the current group.
    group: Vec<GroupKey>,
    /// Operations whose next request must be written.
    goes_on: Vec<(Tag, PendingOperation, RequestHalf)>,
    /// Records operations for the linearizability check; `None` without that check.
    history: Option<HistoryRecorder>,
    /// Name of the lease that is renewed next.
    lease: String,
    /// Locks that its clients hold.
    held: HeldLocks,
    /// Logs its writes for watchers; `None` without watchers.
    versions: Option<VersionRecorder>,
}

/// Drives keyed work. All loads of `barrier` begin at the same time. `works` makes each worker's work. Returns the
/// measurement and the number of the first operation that was not started.
///
/// The loop is compiled in this crate for all systems, with this crate's optimization.
pub fn drive(
    peers: &[Peer],
    drive: &Drive,
    barrier: Option<&StartBarrier>,
    works: &mut dyn FnMut(LoadShare) -> KvWork,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<(Measurement, u64), EngineError> {
    crate::drive(peers, drive, barrier, works, interrupted, progress)
}

/// Holds the state of an operation until its answer.
pub(crate) struct PendingOperation {
    operation: Operation,
    /// Number of the key; for a `list`, of the directory.
    key: u64,
    /// Ledger state that the read is judged by.
    began: ReadBegan,
    /// Number of the write in its key's history; 0 without a history. For a renewal the generation of the key's lease.
    sequence: u32,
    /// Client that the value names.
    client: u32,
    /// Number within the load.
    ticket: u64,
    /// Time of the call of its current request, on the history's clock; 0 if it is not recorded.
    started: u64,
    /// Time of a renewal of the key's lease; `None` for other operations.
    renewed: Option<Instant>,
    halves: Halves,
}

impl KvWork {
    /// Makes the operations of one worker. `worker` is its share among the workers of all generators.
    pub fn new(
        keyed: Arc<KeyedState>,
        source: Source,
        reading: Reading,
        worker: LoadShare,
        connect: Connect,
    ) -> Self {
        let numbers = ClientNumbers::new(worker, keyed.share());
        let (key, value, goes_on) = (Vec::new(), Vec::new(), Vec::new());
        let (history, lease, held) = (None, String::new(), HeldLocks::new());
        let versions = keyed.versions().map(VersionRecorder::new);
        Self {
            keyed,
            source,
            reading,
            connect,
            numbers,
            key,
            value,
            group: Vec::new(),
            goes_on,
            history,
            lease,
            held,
            versions,
        }
    }

    /// Also records its operations, if the trial records a history. `nodes`: names of the nodes that it connects to.
    pub fn recording(mut self, nodes: impl Iterator<Item = String>) -> Self {
        self.history = self.keyed.history.as_ref().and_then(|history| history.recorder(nodes));
        self
    }
}

impl Tickets for KvWork {
    #[inline]
    fn owns(&mut self, ticket: u64) -> bool {
        let share = self.keyed.share();
        share.of == 1 || self.source.owns(ticket, share)
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
        let (count, share) = (self.keyed.space.count(), self.keyed.share());
        self.source.choose(ticket, count, share).map(|(place, _)| place)
    }
}

impl Course for KvWork {
    fn begin(&mut self, start: Instant, _: Instant) {
        if let (Source::Mix { .. }, Some(history)) = (&self.source, &self.history) {
            history.begins(start);
        }
    }

    #[inline]
    fn answered(&mut self, timing: &OperationTiming) {
        if let Some(versions) = &mut self.versions {
            versions.answered(timing);
        }
    }
}

impl Work for KvWork {
    type Session = dyn KvSession;
    type State = PendingOperation;

    fn outline(&self) -> Outline {
        let operations = self.operations();
        let measures = self.keyed.ledger.staleness == StalenessTracking::Measured;
        Outline {
            operations: operations.iter().map(|one| one.name().to_owned()).collect(),
            judges_age: measures
                && operations.iter().any(|one| matches!(one, Operation::Get | Operation::Look)),
            ..Outline::default()
        }
    }

    fn session(&mut self, client: u32, node: usize) -> Box<dyn KvSession> {
        // Some loads reconnect for each operation. Only those with watches should pay for numbering.
        if self.operations().contains(&Operation::Watch) {
            self.numbers.add(client);
        }
        if let Some(history) = &mut self.history {
            history.connects(client, node);
        }
        (self.connect)(client, node)
    }

    fn issue(
        &mut self,
        session: &mut Self::Session,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<IssuedOperation<PendingOperation>, NotIssued> {
        let space = &self.keyed.space;
        let Some((place, mut key)) = self.source.choose(ticket, space.count(), self.keyed.share())
        else {
            return Err(NotIssued::Exhausted);
        };
        let operation = self.operations()[place];
        if operation == Operation::List {
            key /= space.per_directory().max(1);
        }
        if operation == Operation::Watch {
            // If several clients watched one key, each would get an event for every write. A generator's clients keep
            // to its own keys.
            let share = self.keyed.share();
            let own_keys = share.count(space.count()).max(1);
            key = share.nth(self.numbers.number(client) % own_keys);
        }
        if operation == Operation::KeepLease {
            let share = self.keyed.share();
            key = share.nth(self.keyed.leases.next(share.count(space.count())));
        }
        let halves = Halves::first(operation);
        let (began, sequence, started) = (ReadBegan::default(), 0, 0);
        let renewed = (operation == Operation::KeepLease).then(clock::now);
        let mut pending = PendingOperation {
            operation,
            key,
            began,
            sequence,
            client,
            ticket,
            started,
            renewed,
            halves,
        };
        let first = RequestHalf::first(operation, self.source.creates());
        if self.request(session, tag, &mut pending, first, out) {
            Ok(IssuedOperation { operation: place, pending })
        } else {
            self.give_up(pending, WriteOutcome::NotSent);
            Err(NotIssued::Busy)
        }
    }

    fn receive(
        &mut self,
        session: &mut Self::Session,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<PendingOperation>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        let mut goes_on = std::mem::take(&mut self.goes_on);
        let received = session.receive(input, out, &mut |tag, answer| {
            if let Some(pending) = pendings.take(tag) {
                let write = (pending.sequence > 0).then_some((pending.key, pending.sequence));
                match self.step(pending, answer) {
                    Step::Done(result) => {
                        if let Some(versions) = &mut self.versions
                            && !result.as_ref().is_err_and(|failure| failure.is_unprocessed)
                        {
                            versions.ended(write);
                        }
                        done.push(Completion { tag, result });
                    }
                    Step::GoesOn(pending, half) => goes_on.push((tag, pending, half)),
                }
            }
        });
        // Few reads have any, and draining an empty list still costs a call.
        if !goes_on.is_empty() {
            for (tag, pending, half) in goes_on.drain(..) {
                match self.go_on(session, tag, pending, half, out) {
                    Ok(pending) => pendings.put_back(tag, pending),
                    Err(failure) => {
                        if let Some(versions) = &mut self.versions {
                            versions.ended(None);
                        }
                        done.push(Completion { tag, result: Err(failure) });
                    }
                }
            }
        }
        self.goes_on = goes_on;
        received
    }

    fn receive_end(
        &mut self,
        session: &mut Self::Session,
        pendings: &mut impl Pendings<PendingOperation>,
        done: &mut Vec<Completion>,
    ) -> Result<(), ProtocolError> {
        session.receive_end(&mut |tag, answer| {
            if let Some(pending) = pendings.take(tag) {
                let result = match self.step(pending, answer) {
                    Step::Done(result) => result,
                    Step::GoesOn(pending, _) => {
                        self.give_up(pending, WriteOutcome::NotSent);
                        Err(two_step::closed())
                    }
                };
                if let Some(versions) = &mut self.versions {
                    versions.ended(None);
                }
                done.push(Completion { tag, result });
            }
        })
    }

    fn after_idle_close(&self, session: &dyn KvSession, pending: &PendingOperation) -> IdleClose {
        match pending.operation {
            _ if !session.may_close_idle() => IdleClose::Broken,
            Operation::Get
            | Operation::List
            | Operation::Scan
            | Operation::Look
            | Operation::Decrypt => IdleClose::Reissued,
            _ => IdleClose::Failed,
        }
    }

    fn give_up(&mut self, pending: PendingOperation, outcome: WriteOutcome) {
        self.end_write(&pending, outcome);
        if pending.operation == Operation::Lock {
            self.give_up_lock(&pending);
        }
    }
}

/// Numbers the clients of one worker in the order of their first connection. Numbers interleave across workers, so
/// they are unique within the generator.
struct ClientNumbers {
    /// Index of the worker within its generator.
    worker: u64,
    /// Number of workers of the generator.
    workers: u64,
    known: HashMap<u32, u64>,
}

impl ClientNumbers {
    /// Starts numbering. `worker` is this worker's share of all workers, `generator` the generator's share.
    fn new(worker: LoadShare, generator: LoadShare) -> Self {
        Self {
            worker: u64::from(worker.index / generator.of),
            workers: generator.count(worker.of.into()).max(1),
            known: HashMap::new(),
        }
    }

    fn add(&mut self, client: u32) {
        let next = self.known.len() as u64 * self.workers + self.worker;
        self.known.entry(client).or_insert(next);
    }

    /// Returns a client's number; the first number for a client that never connected.
    fn number(&self, client: u32) -> u64 {
        self.known.get(&client).copied().unwrap_or(self.worker)
    }
}

impl KvWork {
    /// Returns the operations that it makes. Groups are filled and audited by transactions.
    fn operations(&self) -> &[Operation] {
        match (&self.source, self.keyed.group) {
            (Source::Fill, Some(_)) => &[Operation::Move],
            (Source::Audit(..), Some(_)) => &[Operation::Look],
            (source, _) => source.operations(),
        }
    }

    fn judge(
        &mut self,
        pending: &PendingOperation,
        answer: Answer<'_>,
    ) -> Result<Success, Failure> {
        let failure = |kind, what| Err(Failure::new(kind, what));
        let is_refused = matches!(answer, Answer::Refused(..));
        let is_void = matches!((pending.operation, &answer), (Operation::Delete, Answer::Missing));
        let result = match (pending.operation, answer) {
            (_, Answer::Failed(kind, what) | Answer::Refused(kind, what)) => failure(kind, what),
            (Operation::KeepLease, Answer::Granted(name)) => {
                self.keyed.leases.granted(pending.key, name, pending.renewed);
                Ok(Success::default())
            }
            (Operation::KeepLease, Answer::Done) => {
                self.keyed.leases.renewed(pending.key, pending.sequence, pending.renewed);
                Ok(Success::default())
            }
            (Operation::KeepLease, Answer::LeaseExpired(lasts)) => {
                let (key, generation) = (pending.key, pending.sequence);
                Err(self.keyed.leases.expired(key, generation, clock::now(), lasts))
            }
            (Operation::GrantLease, Answer::Granted(_)) => Ok(Success::default()),
            (Operation::Put | Operation::Insert, Answer::Done)
            | (Operation::Delete, Answer::Done | Answer::Missing) => Ok(Success::default()),
            (Operation::Get, Answer::Value(value)) => {
                self.judge_value(pending, value).map(|of| of.of_read(true))
            }
            (Operation::Look, Answer::Group(values, _)) => {
                self.stamp_of_group(pending, values).and_then(|stamp| {
                    self.judge_seen(pending, stamp).map(|of| of.of_read(stamp.is_some()))
                })
            }
            (Operation::Decrypt, Answer::Value(value)) => {
                self.stamp(pending, value).map(|_| Success::default())
            }
            (Operation::Scan, Answer::Pairs(pairs)) => self.judge_pairs(pending.key, pairs),
            (Operation::Scan, Answer::Missing) => {
                self.judge_pairs(pending.key, &mut std::iter::empty())
            }
            (
                Operation::Get
                | Operation::List
                | Operation::Decrypt
                | Operation::Scan
                | Operation::Look,
                Answer::Done,
            ) => {
                let name = pending.operation.name();
                failure(ErrorKind::Protocol, format!("unexpected answer to a `{name}`"))
            }
            (_, Answer::Done) => Ok(Success::default()),
            (Operation::Get | Operation::Look, Answer::Missing) => {
                self.judge_missing(pending).map(|of| of.of_read(false))
            }
            (Operation::List, Answer::Names(names)) => self.judge_names(pending.key, names),
            (Operation::List, Answer::Missing) => {
                self.judge_names(pending.key, &mut std::iter::empty())
            }
            (operation, _) => {
                let name = operation.name();
                failure(ErrorKind::Protocol, format!("unexpected answer to a `{name}`"))
            }
        };
        let outcome = match &result {
            Ok(_) => WriteOutcome::Acknowledged,
            Err(_) if is_refused => WriteOutcome::Refused,
            // The write may have happened despite an error answer.
            Err(_) => WriteOutcome::Unknown,
        };
        self.end_write_as(pending, outcome, is_void);
        result
    }

    /// Records the outcome of a write in the ledger; does nothing for a read.
    fn end_write(&mut self, pending: &PendingOperation, outcome: WriteOutcome) {
        self.end_write_as(pending, outcome, false);
    }

    /// Records the outcome of a write. `is_void`: it changed nothing.
    fn end_write_as(&mut self, pending: &PendingOperation, outcome: WriteOutcome, is_void: bool) {
        if !pending.operation.writes() {
            return;
        }
        if let Some(versions) = &self.versions {
            versions.end(pending.key, pending.sequence, outcome, is_void);
        }
        if let Some(history) = &mut self.history {
            history.write(pending, outcome);
        }
        if let Some(mut history) = self.keyed.ledger.history(pending.key) {
            history.end(pending.sequence, outcome, || self.keyed.ledger.time());
            if outcome == WriteOutcome::Acknowledged {
                history.acknowledged_at(self.keyed.ledger.time_ms());
            }
        }
    }

    fn judge_value(
        &mut self,
        pending: &PendingOperation,
        value: &[u8],
    ) -> Result<Success, Failure> {
        let stamp = self.stamp(pending, value)?;
        self.judge_stamp(pending, stamp)
    }

    /// Returns the stamp of a value of the operation's key.
    fn stamp(&self, pending: &PendingOperation, value: &[u8]) -> Result<Stamp, Failure> {
        self.verify(pending, pending.key, value)
    }

    /// Returns the stamp of a value of the key with this number.
    fn verify(
        &self,
        pending: &PendingOperation,
        number: u64,
        value: &[u8],
    ) -> Result<Stamp, Failure> {
        self.keyed.values.verify(number, value).map_err(|corruption| {
            let what = self.find(pending.key, false, &corruption.to_string());
            Failure::new(ErrorKind::WrongValue, what)
        })
    }

    fn judge_stamp(
        &mut self,
        pending: &PendingOperation,
        stamp: Stamp,
    ) -> Result<Success, Failure> {
        if let Some(history) = &mut self.history {
            history.read(pending, Some(stamp.sequence));
        }
        self.judge_read(pending, |history| history.judge_value(stamp.sequence, &pending.began))
    }

    /// Judges what was read: a value, or that there is none.
    fn judge_seen(
        &mut self,
        pending: &PendingOperation,
        stamp: Option<Stamp>,
    ) -> Result<Success, Failure> {
        match stamp {
            Some(stamp) => self.judge_stamp(pending, stamp),
            None => self.judge_missing(pending),
        }
    }

    fn judge_missing(&mut self, pending: &PendingOperation) -> Result<Success, Failure> {
        if let Some(history) = &mut self.history {
            history.read(pending, None);
        }
        self.judge_read(pending, |history| history.judge_missing(&pending.began))
    }

    fn judge_read(
        &self,
        pending: &PendingOperation,
        judge: impl FnOnce(&KeyHistory) -> Result<(), Violation>,
    ) -> Result<Success, Failure> {
        let Some(history) = self.keyed.ledger.history(pending.key) else {
            // An untracked key is only verified by its bytes.
            return self.conclude(pending, Ok(ReadAge::Unjudged));
        };
        let judged = match judge(&history) {
            Ok(()) => Ok(ReadAge::Fresh),
            Err(found @ (Violation::Stale(..) | Violation::Lost)) => {
                let stale = ReadAge::Stale(history.stale_by(found, &pending.began));
                if self.reading.may_be_stale { Ok(stale) } else { Err((found, stale)) }
            }
            Err(found) => Err((found, ReadAge::Unjudged)),
        };
        drop(history);
        self.conclude(pending, judged)
    }

    fn conclude(
        &self,
        pending: &PendingOperation,
        judged: Result<ReadAge, (Violation, ReadAge)>,
    ) -> Result<Success, Failure> {
        let (found, stale) = match judged {
            Ok(seen) => {
                if let Source::Audit(_, findings) = &self.source {
                    lock(findings).count(pending.key);
                }
                return Ok(Success { seen, hit: None });
            }
            Err(found) => found,
        };
        let failure = match found {
            Violation::Stale(seen, oldest_allowed) => {
                let what = format!(
                    "write {seen} of the key was read after write {oldest_allowed} was acknowledged"
                );
                let what = self.find(pending.key, false, &what);
                if let Source::Audit(_, findings) = &self.source {
                    lock(findings).older += 1;
                }
                Failure::new(ErrorKind::StaleValue, what)
            }
            Violation::Lost => {
                let what = self.find(
                    pending.key,
                    true,
                    "missing, although a write of it was acknowledged",
                );
                Failure::new(ErrorKind::WrongValue, what)
            }
            Violation::FromTheFuture(seen) => {
                let what =
                    format!("the read returned write {seen} of the key, which was never begun");
                let what = self.find(pending.key, false, &what);
                Failure::new(ErrorKind::WrongValue, what)
            }
        };
        Err(Failure { seen: stale, ..failure })
    }

    fn judge_names(
        &self,
        directory: u64,
        names: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<Success, Failure> {
        let space = &self.keyed.space;
        let first = directory * space.per_directory();
        let expected = space.per_directory().min(space.count().saturating_sub(first));
        let mut found = 0;
        for name in names {
            let ours =
                space.index_of(name).is_some_and(|key| key / space.per_directory() == directory);
            if !ours {
                let what =
                    format!("`{}` is not a key of directory {directory}", name.escape_ascii());
                return Err(Failure::new(ErrorKind::WrongValue, what));
            }
            found += 1;
        }
        let incomplete =
            self.reading.lists_are_complete && !self.reading.may_be_stale && found < expected;
        if found > expected || incomplete {
            let what = format!("{found} names listed instead of {expected} written keys");
            return Err(Failure::new(ErrorKind::WrongValue, what));
        }
        let stale = found < expected && self.reading.lists_are_complete;
        Ok(Success {
            seen: if stale { ReadAge::Stale(None) } else { ReadAge::Unjudged },
            hit: None,
        })
    }

    /// Describes a wrong key, and adds it to the findings of an audit.
    fn find(&self, key: u64, lost: bool, what: &str) -> String {
        let text = format!("key `{}`: {what}", self.keyed.space.short_name(key));
        if let Source::Audit(_, findings) = &self.source {
            let mut findings = lock(findings);
            findings.count(key);
            findings.lost += u64::from(lost);
            findings.wrong += u64::from(!lost);
            if findings.examples.len() < FINDINGS_EXAMPLES_MAX {
                findings.examples.push(text.clone());
            }
        }
        text
    }
}

fn lock(findings: &Mutex<Findings>) -> MutexGuard<'_, Findings> {
    findings.lock().unwrap_or_else(PoisonError::into_inner)
}
