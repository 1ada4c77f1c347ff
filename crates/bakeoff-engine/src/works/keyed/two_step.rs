//! Runs operations of a read and a write.
//!
//! A `read-modify-write` (YCSB's workload F) writes after its read, no matter what others wrote in between. A
//! `compare-and-set` writes only if the key is unchanged and otherwise reads again, like clients with optimistic
//! updates. A `move` does the same with a group of keys in one transaction. Each is one operation with one response
//! time and one timeout.
//!
//! If two acknowledged compare-and-sets replaced the same write, an update was lost, although the key holds the last
//! acknowledged value. To detect that, replaced writes are remembered.
//!
//! Not here: judging reads (`mod`), locks around a read and a write (`locks`), the requests (each system's session).

use std::collections::VecDeque;

use bakeoff_core::ledger::{Write, WriteOutcome};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_core::workload::Stamp;

use super::places::{PLACES, Places};
use super::{Answer, Compare, KvSession, KvWork, LockStep, PendingOperation, Request};
use crate::work::{Failure, Success, Tag, Work as _};

/// Maximum tries of a `compare-and-set` before it fails.
const TRIES_MAX: u32 = 100;
/// Number of remembered replaced writes, over all keys.
const REPLACED_MAX: usize = 1 << 16;

/// Tracks the progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halves {
    /// It has one request.
    One,
    /// Its key is being read, for the `tries`-th time.
    Reading { tries: u32 },
    /// It is being written. `replaced` is the number of the write that was read, 0 if unknown.
    Writing { tries: u32, replaced: u32, hit: bool },
    /// The lock of its key is being acquired.
    Acquiring,
    /// The lock of its key is being released.
    Releasing,
}

impl Halves {
    /// Returns the state of an operation before its first request.
    pub(super) fn first(operation: Operation) -> Self {
        match operation {
            Operation::Lock => Self::Acquiring,
            operation if operation.reads_first() => Self::Reading { tries: 1 },
            _ => Self::One,
        }
    }
}

/// Describes one request of an operation to the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHalf {
    operation: Operation,
    compare: Compare,
    lock: LockStep,
    /// True if a write probably creates its key.
    creates: bool,
}

impl RequestHalf {
    /// Returns the first request of an operation. Most operations have only this one.
    pub(super) fn first(operation: Operation, creates: bool) -> Self {
        let operation = match operation {
            Operation::ReadModifyWrite => Operation::Get,
            other => other,
        };
        Self { operation, compare: Compare::Read, lock: LockStep::Acquire, creates }
    }

    /// Returns a read of the key.
    pub(super) fn read() -> Self {
        Self::first(Operation::Get, false)
    }

    /// Returns a request for the lock of the key.
    pub(super) fn lock(step: LockStep) -> Self {
        Self { lock: step, ..Self::first(Operation::Lock, false) }
    }

    /// Returns the write of an operation that has read its key. A compare-and-set replaces `version`.
    fn write(operation: Operation, version: u64, creates: bool) -> Self {
        match operation {
            operation if operation.compares() => {
                Self { compare: Compare::Replace(version), ..Self::first(operation, creates) }
            }
            Operation::Lock => Self { creates, ..Self::lock(LockStep::Write) },
            _ => Self::first(Operation::Put, creates),
        }
    }

    fn writes(self) -> bool {
        match self.operation {
            Operation::Lock => self.lock == LockStep::Write,
            other if other.compares() => matches!(self.compare, Compare::Replace(_)),
            other => other.writes(),
        }
    }

    /// Returns true if it reads a single key or group.
    fn reads(self) -> bool {
        let reads = matches!(self.operation, Operation::Get | Operation::Look);
        (reads || self.operation.compares()) && !self.writes()
    }

    /// Returns true if it releases a lock.
    fn releases(self) -> bool {
        self.operation == Operation::Lock && self.lock == LockStep::Release
    }

    fn sends_value(self) -> bool {
        match self.operation {
            Operation::Delete => false,
            Operation::Encrypt | Operation::Sign => true,
            _ => self.writes(),
        }
    }
}

/// Names the next step after an answer.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it was made")]
pub(super) enum Step {
    Done(Result<Success, Failure>),
    GoesOn(PendingOperation, RequestHalf),
}

/// Returns the failure of an operation whose second request could not be sent.
pub(super) fn closed() -> Failure {
    Failure::new(
        ErrorKind::Reset,
        "the connection did not accept the operation's second request".to_owned(),
    )
}

/// Lists writes by key number and write number, oldest first.
type Writes = VecDeque<(u64, u32)>;

/// Remembers the writes that compare-and-sets and holders of locks replaced recently.
#[derive(Default)]
pub(super) struct ReplacedWrites(Places<Writes>);

impl ReplacedWrites {
    /// Records that a write of a key was replaced. Returns false if it had been replaced before.
    fn note(&self, key: u64, sequence: u32) -> bool {
        let mut replaced = self.0.lock(key);
        if replaced.contains(&(key, sequence)) {
            return false;
        }
        if replaced.len() == REPLACED_MAX / PLACES {
            replaced.pop_front();
        }
        replaced.push_back((key, sequence));
        true
    }
}

impl KvWork {
    /// Judges an answer, and decides if the operation has another request.
    pub(super) fn step(&mut self, mut pending: PendingOperation, answer: Answer<'_>) -> Step {
        if let Some(history) = &mut self.history {
            history.answered(&answer);
        }
        let answer = match (answer, &mut pending.halves) {
            (Answer::DoneAt(_), _) => Answer::Done,
            (Answer::MissingAt(_), _) => Answer::Missing,
            (Answer::Recreated, Halves::Writing { replaced, .. }) => {
                // It replaced another write than the one that it had read.
                *replaced = 0;
                Answer::Done
            }
            (answer, _) => answer,
        };
        if pending.operation == Operation::Lock {
            return self.step_of_lock(pending, answer);
        }
        match (pending.halves, answer) {
            (_, Answer::Unprocessed(what)) => {
                self.end_write(&pending, WriteOutcome::Refused);
                Step::Done(Err(Failure::unprocessed(what)))
            }
            (Halves::One, answer) => Step::Done(self.judge(&pending, answer)),
            (_, Answer::Refused(kind, what)) => {
                self.end_write(&pending, WriteOutcome::Refused);
                Step::Done(Err(Failure::new(kind, what)))
            }
            (_, Answer::Failed(kind, what)) => {
                self.end_write(&pending, WriteOutcome::Unknown);
                Step::Done(Err(Failure::new(kind, what)))
            }
            (Halves::Reading { tries }, answer) => match self.after_read(&pending, tries, answer) {
                Ok((halves, write)) => {
                    pending.halves = halves;
                    Step::GoesOn(pending, write)
                }
                Err(failure) => Step::Done(Err(failure)),
            },
            (Halves::Writing { tries, .. }, Answer::Conflict) if pending.operation.compares() => {
                // The system reports that the write did not happen.
                self.end_write(&pending, WriteOutcome::Refused);
                pending.sequence = 0;
                if tries >= TRIES_MAX {
                    let what = format!("gave up after {tries} conflicts with concurrent writes");
                    return Step::Done(Err(Failure::new(ErrorKind::Status, what)));
                }
                pending.halves = Halves::Reading { tries: tries + 1 };
                let again = RequestHalf::first(pending.operation, false);
                Step::GoesOn(pending, again)
            }
            (Halves::Writing { replaced, hit, .. }, Answer::Done) => {
                Step::Done(self.after_write(&mut pending, replaced, hit))
            }
            (Halves::Writing { .. } | Halves::Acquiring | Halves::Releasing, _) => {
                self.end_write(&pending, WriteOutcome::Unknown);
                let name = pending.operation.name();
                let what = format!("unexpected answer to a `{name}`");
                Step::Done(Err(Failure::new(ErrorKind::Protocol, what)))
            }
        }
    }

    /// Judges the read, and returns the write that follows.
    pub(super) fn after_read(
        &mut self,
        pending: &PendingOperation,
        tries: u32,
        answer: Answer<'_>,
    ) -> Result<(Halves, RequestHalf), Failure> {
        let compares = pending.operation == Operation::CompareAndSet;
        let (version, stamp) = match answer {
            Answer::Group(values, version) if pending.operation == Operation::Move => {
                (version, self.stamp_of_group(pending, values)?)
            }
            Answer::Versioned(value, version) if compares => {
                (version, Some(self.stamp(pending, value)?))
            }
            Answer::Value(value) if !compares => (0, Some(self.stamp(pending, value)?)),
            Answer::Missing => (0, None),
            _ => {
                let what = format!("unexpected answer to a `{}`", pending.operation.name());
                return Err(Failure::new(ErrorKind::Protocol, what));
            }
        };
        let hit = stamp.is_some();
        self.judge_seen(pending, stamp)?;
        // If a key has no history, its writes are numbered by operation, which gives no order.
        let replaces = pending.operation != Operation::ReadModifyWrite;
        let stamp = stamp.filter(|_| replaces && self.keyed.ledger.history(pending.key).is_some());
        let replaced = stamp.map_or(0, |stamp| u32::try_from(stamp.sequence).unwrap_or(0));
        let write = RequestHalf::write(pending.operation, version, !hit);
        Ok((Halves::Writing { tries, replaced, hit }, write))
    }

    /// Notes an acknowledged write. Fails if it `replaced` a write that another one had replaced.
    pub(super) fn after_write(
        &mut self,
        pending: &mut PendingOperation,
        replaced: u32,
        hit: bool,
    ) -> Result<Success, Failure> {
        self.end_write(pending, WriteOutcome::Acknowledged);
        pending.sequence = 0; // it is ended, and a lock still has to be released
        let compared = pending.operation != Operation::ReadModifyWrite && replaced != 0;
        if compared && !self.keyed.replaced.note(pending.key, replaced) {
            let what = format!("write {replaced} of the key was replaced twice: an update is lost");
            let what = self.find(pending.key, true, &what);
            return Err(Failure::new(ErrorKind::WrongValue, what));
        }
        Ok(Success::default().of_read(hit))
    }

    /// Writes the next request of an operation.
    pub(super) fn go_on(
        &mut self,
        session: &mut dyn KvSession,
        tag: Tag,
        mut pending: PendingOperation,
        half: RequestHalf,
        out: &mut Vec<u8>,
    ) -> Result<PendingOperation, Failure> {
        if self.request(session, tag, &mut pending, half, out) {
            return Ok(pending);
        }
        self.give_up(pending, WriteOutcome::NotSent);
        Err(closed())
    }

    /// Writes one request of an operation. Returns false if the session accepts no more at the moment.
    pub(super) fn request(
        &mut self,
        session: &mut dyn KvSession,
        tag: Tag,
        pending: &mut PendingOperation,
        half: RequestHalf,
        out: &mut Vec<u8>,
    ) -> bool {
        self.note_begin(pending, half);
        if half.releases() {
            self.stop_holding(pending);
        }
        let (space, key) = (&self.keyed.space, pending.key);
        self.key.clear();
        match half.operation {
            Operation::List => space.write_directory(key, &mut self.key),
            _ => space.write_key(key, &mut self.key),
        }
        let of_groups = half.operation.is_of_groups();
        if of_groups {
            self.write_group(pending, half.sends_value());
        }
        self.value.clear();
        if half.sends_value() && !of_groups {
            self.keyed.values.write_value(key, pending.stamp(), &mut self.value);
        }
        self.lease.clear();
        if half.operation == Operation::KeepLease {
            pending.sequence = self.keyed.leases.name(key, &mut self.lease);
        }
        let request = Request {
            operation: half.operation,
            number: key,
            key: &self.key,
            value: &self.value,
            reads: self.reading.reads.of_request(),
            creates: half.creates,
            compare: half.compare,
            lock: half.lock,
            lease: &self.lease,
            limit: self.keyed.scan,
            group: if of_groups { &self.group } else { &[] },
        };
        session.request(tag, &request, out)
    }

    /// Records the start of a read or a write in the ledger, and its time for a history. Other requests have no
    /// history, and would only contend for the lock of key 0.
    fn note_begin(&self, pending: &mut PendingOperation, half: RequestHalf) {
        let ledger = &self.keyed.ledger;
        if half.writes() {
            let is_put = half.operation != Operation::Delete;
            let write = if is_put { Write::Put } else { Write::Delete };
            pending.sequence = 0;
            if let Some(mut history) = ledger.history(pending.key) {
                pending.sequence = history.begin(write);
                if let Some(versions) = &self.versions {
                    versions.begin(pending.key, pending.sequence, write);
                }
            }
        } else if half.reads() {
            let history = ledger.history(pending.key);
            let began = history.map(|history| history.begin_read(|| ledger.time()));
            pending.began = began.unwrap_or_default();
        } else {
            return;
        }
        if let Some(history) = &self.history {
            pending.started = if ledger.tracks(pending.key) { history.now() } else { 0 };
        }
    }
}

impl PendingOperation {
    /// Returns the stamp of the value to send. A write without a number in its key's history uses the operation's
    /// number.
    pub(super) fn stamp(&self) -> Stamp {
        let sequence = match self.sequence {
            0 => (self.ticket + 1) & ((1 << 48) - 1),
            sequence => u64::from(sequence),
        };
        Stamp { writer: self.client, sequence }
    }
}
