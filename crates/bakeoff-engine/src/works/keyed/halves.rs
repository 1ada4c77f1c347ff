//! Operations of two requests: a key is read, and then written.
//!
//! A `read-modify-write` (YCSB's workload F) writes whatever came of its read; others may write in between. A
//! `compare-and-set` writes only where nobody has, and otherwise reads again: the optimistic loop of clients that
//! update in place. Both are one operation, with one response time and one timeout.
//!
//! Two acknowledged compare-and-sets that replaced the same write are a lost update, though each key then holds what
//! was acknowledged last: so the writes that were replaced are remembered.
//!
//! Not here: what a read may find (`mod`), the requests themselves (each system's session).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bakeoff_core::ledger::{Write, WriteOutcome};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_core::workload::Stamp;

use super::{Answer, Compare, KvSession, KvWork, Pending, Request};
use crate::work::{Failure, Success, Tag};

/// How often a `compare-and-set` is tried before it fails.
const TRIES_MAX: u32 = 100;
/// How many replaced writes are remembered, of all keys together, and in how many places.
const REPLACED_MAX: usize = 1 << 16;
const PLACES: usize = 256;

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halves {
    /// It has one request.
    One,
    /// Its key is being read, for the so-many-th time.
    Reading { tries: u32 },
    /// It is being written; `replaced` is the number of the write that was read, 0 where it is not known.
    Writing { tries: u32, replaced: u32, hit: bool },
}

/// One request of an operation, as the session is asked for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    operation: Operation,
    compare: Compare,
    /// Whether a `put` most likely creates its key.
    creates: bool,
}

impl Half {
    /// Returns the first request of an operation, which is the only one of most.
    pub(super) fn first(operation: Operation, creates: bool) -> Self {
        let operation = match operation {
            Operation::ReadModifyWrite => Operation::Get,
            other => other,
        };
        Self { operation, compare: Compare::Read, creates }
    }

    /// Returns the write of an operation that has read its key, in place of this version if it compares.
    fn write(operation: Operation, version: u64, creates: bool) -> Self {
        match operation {
            Operation::CompareAndSet => {
                Self { operation, compare: Compare::Replace(version), creates }
            }
            _ => Self { operation: Operation::Put, compare: Compare::Read, creates },
        }
    }

    fn writes(self) -> bool {
        match self.operation {
            Operation::CompareAndSet => matches!(self.compare, Compare::Replace(_)),
            other => other.writes(),
        }
    }

    /// Returns whether it reads a single key.
    fn reads(self) -> bool {
        matches!(self.operation, Operation::Get | Operation::CompareAndSet) && !self.writes()
    }

    fn sends_value(self) -> bool {
        match self.operation {
            Operation::Delete => false,
            Operation::Encrypt | Operation::Sign => true,
            _ => self.writes(),
        }
    }
}

/// Consequence of an answer.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it was made")]
pub(super) enum Step {
    Done(Result<Success, Failure>),
    GoesOn(Pending, Half),
}

/// The failure of an operation whose second half found no connection.
pub(super) fn closed() -> Failure {
    Failure::new(ErrorKind::Reset, "the connection took no second half of the operation".to_owned())
}

/// Writes, by the numbers of their keys and their own, oldest first.
type Writes = VecDeque<(u64, u32)>;

/// The writes that were replaced by compare-and-sets lately.
pub(super) struct Replaced(Box<[Mutex<Writes>]>);

impl Default for Replaced {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl Replaced {
    /// Notes that a write of a key was replaced. `false`: it had been already.
    fn note(&self, key: u64, sequence: u32) -> bool {
        let place = &self.0[(key % PLACES as u64) as usize];
        let mut replaced = place.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// Judges an answer, and finds out whether the operation has another request.
    pub(super) fn step(&mut self, mut pending: Pending, answer: Answer<'_>) -> Step {
        match (pending.halves, answer) {
            (_, Answer::Unprocessed(what)) => {
                self.end_write(&pending, WriteOutcome::NotSent);
                Step::Done(Err(Failure::unprocessed(what)))
            }
            (Halves::One, answer) => Step::Done(self.judge(&pending, answer)),
            (_, Answer::Failed(kind, what)) => {
                self.end_write(&pending, WriteOutcome::Unknown);
                Step::Done(Err(Failure::new(kind, what)))
            }
            (Halves::Reading { tries }, answer) => self.after_read(pending, tries, answer),
            (Halves::Writing { tries, .. }, Answer::Conflict)
                if pending.operation == Operation::CompareAndSet =>
            {
                // The system says that it did not happen.
                self.end_write(&pending, WriteOutcome::NotSent);
                pending.sequence = 0;
                if tries >= TRIES_MAX {
                    let what = format!("{tries} tries met a write of somebody else each");
                    return Step::Done(Err(Failure::new(ErrorKind::Status, what)));
                }
                pending.halves = Halves::Reading { tries: tries + 1 };
                let again = Half::first(pending.operation, false);
                Step::GoesOn(pending, again)
            }
            (Halves::Writing { replaced, hit, .. }, Answer::Done) => {
                self.end_write(&pending, WriteOutcome::Acknowledged);
                let compared = pending.operation == Operation::CompareAndSet && replaced != 0;
                if compared && !self.keyed.replaced.note(pending.key, replaced) {
                    let what = format!(
                        "write {replaced} of the key was replaced twice: an update is lost"
                    );
                    let what = self.find(pending.key, true, &what);
                    return Step::Done(Err(Failure::new(ErrorKind::WrongValue, what)));
                }
                Step::Done(Ok(Success::default().of_read(hit)))
            }
            (Halves::Writing { .. }, _) => {
                self.end_write(&pending, WriteOutcome::Unknown);
                let name = pending.operation.name();
                let what = format!("the answer is not one to a `{name}`");
                Step::Done(Err(Failure::new(ErrorKind::Protocol, what)))
            }
        }
    }

    /// Goes on to the write, unless what was read is wrong.
    fn after_read(&mut self, mut pending: Pending, tries: u32, answer: Answer<'_>) -> Step {
        let compares = pending.operation == Operation::CompareAndSet;
        let (version, value) = match answer {
            Answer::Versioned(value, version) if compares => (version, Some(value)),
            Answer::Value(value) if !compares => (0, Some(value)),
            Answer::Missing => (0, None),
            _ => {
                let what = format!("the answer is not one to a `{}`", pending.operation.name());
                return Step::Done(Err(Failure::new(ErrorKind::Protocol, what)));
            }
        };
        let hit = value.is_some();
        let judged = match value {
            None => self
                .judge_read(&pending, |history| history.judge_missing(&pending.began))
                .map(|_| None),
            Some(value) => self.stamp(&pending, value).and_then(|stamp| {
                self.judge_stamp(&pending, stamp)?;
                Ok(Some(stamp))
            }),
        };
        let stamp = match judged {
            Ok(stamp) => stamp,
            Err(failure) => return Step::Done(Err(failure)),
        };
        // Of a key without a history the numbers of writes are those of operations, which do not order them.
        let stamp = stamp.filter(|_| compares && self.keyed.ledger.history(pending.key).is_some());
        let replaced = stamp.map_or(0, |stamp| u32::try_from(stamp.sequence).unwrap_or(0));
        pending.halves = Halves::Writing { tries, replaced, hit };
        let write = Half::write(pending.operation, version, !hit);
        Step::GoesOn(pending, write)
    }

    /// Writes the next request of an operation.
    pub(super) fn go_on(
        &mut self,
        session: &mut dyn KvSession,
        tag: Tag,
        mut pending: Pending,
        half: Half,
        out: &mut Vec<u8>,
    ) -> Result<Pending, Failure> {
        if self.request(session, tag, &mut pending, half, out) {
            return Ok(pending);
        }
        self.end_write(&pending, WriteOutcome::NotSent);
        Err(closed())
    }

    /// Writes one request of an operation. Returns false if the session takes no more at the moment.
    pub(super) fn request(
        &mut self,
        session: &mut dyn KvSession,
        tag: Tag,
        pending: &mut Pending,
        half: Half,
        out: &mut Vec<u8>,
    ) -> bool {
        self.note_begin(pending, half);
        let (space, key) = (&self.keyed.space, pending.key);
        self.key.clear();
        match half.operation {
            Operation::List => space.write_directory(key, &mut self.key),
            _ => space.write_key(key, &mut self.key),
        }
        self.value.clear();
        if half.sends_value() {
            self.keyed.values.write_value(key, pending.stamp(), &mut self.value);
        }
        let request = Request {
            operation: half.operation,
            number: key,
            key: &self.key,
            value: &self.value,
            reads: self.reading.reads,
            creates: half.creates,
            compare: half.compare,
            limit: self.keyed.scan,
        };
        session.request(tag, &request, out)
    }

    /// Notes in the ledger the read or the write that a request begins. Other requests have no history: they would
    /// share the one lock of key 0.
    fn note_begin(&self, pending: &mut Pending, half: Half) {
        let ledger = &self.keyed.ledger;
        if half.writes() {
            let is_put = half.operation != Operation::Delete;
            let write = if is_put { Write::Put } else { Write::Delete };
            let history = ledger.history(pending.key);
            pending.sequence = history.map_or(0, |mut history| history.begin(write));
        } else if half.reads() {
            let history = ledger.history(pending.key);
            let began = history.map(|history| history.begin_read(|| ledger.time()));
            pending.began = began.unwrap_or_default();
        }
    }
}

impl Pending {
    /// Returns the stamp of the value that it sends. A write without a number in its key's history has the
    /// operation's.
    fn stamp(&self) -> Stamp {
        let sequence = match self.sequence {
            0 => (self.ticket + 1) & ((1 << 48) - 1),
            sequence => u64::from(sequence),
        };
        Stamp { writer: self.client, sequence }
    }
}
