//! Keyed work: makes the operations of a workload and judges every answer.
//!
//! A `put` carries a value that proves itself; a `get` is verified byte for byte and against the
//! ledger of what was acknowledged before it began. The same code fills a cluster before a trial
//! and audits it after: only where the next key comes from differs. Operations of a secret store
//! that store nothing under keys have them all the same: they say which user logs in, or which text
//! is encrypted; what is decrypted is verified like what was stored.
//!
//! Not here: bytes on the wire (each system's session), time and sockets (the engine).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_core::ledger::{KeyHistory, ReadBegan, Violation, Write, WriteOutcome};
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::staleness::Seen;
use bakeoff_core::study::{KeyOrder, Operation, ReadConsistency, Workload};
use bakeoff_core::workload::{Chooser, KeySpace, Stamp, VALUE_SIZE_MIN, Values, mix64};
use bakeoff_wire::ProtocolError;

use crate::clock;
use crate::work::{Done, Failure, Issued, NotIssued, Pendings, Session, Success, Tag, Work};

/// The most keys whose history is kept: of larger key spaces an evenly spaced sample is.
const TRACKED_MAX: u64 = 1 << 18;
/// How many moments are remembered where staleness is measured, all keys together: 16 MiB of them,
const MOMENTS_ALL: u64 = 1 << 20;
/// and how many of each key, at the least and at the most.
const MOMENTS_OF_A_KEY: std::ops::RangeInclusive<u64> = 16..=4096;
/// How many writes of unknown outcome are remembered, all keys together: 16 MiB of them,
const UNKNOWN_ALL: u64 = 1 << 22;
/// and how many of each key, at the least and at the most.
const UNKNOWN_OF_A_KEY: std::ops::RangeInclusive<u64> = 64..=65_536;

/// One operation, for a system's session to put into bytes.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The key's number; a directory's for a `list`.
    pub number: u64,
    /// The key; for a `list` the directory, which ends in `/`.
    pub key: &'a [u8],
    /// The value to `put`, `insert`, `encrypt` or `sign`; empty otherwise.
    pub value: &'a [u8],
    /// How fresh a `get` or `list` must be.
    pub reads: ReadConsistency,
    /// Whether a `put` most likely creates its key: for protocols that tell create from update.
    pub creates: bool,
}

/// A system's answer.
pub enum Answer<'a> {
    /// A `put` or `delete` was acknowledged; any other operation than a read was done, with all
    /// that its answer must hold.
    Done,
    /// The value of a `get` or a `decrypt`.
    Value(&'a [u8]),
    /// There is no such key. A `delete` of it is done all the same.
    Missing,
    /// The names of a `list`, with or without their directory.
    Names(&'a mut dyn Iterator<Item = &'a [u8]>),
    /// The system could not, would not, or answered what it must not.
    Failed(ErrorKind, String),
}

/// A session that speaks key-value operations.
pub trait KvSession: Session + Send {
    /// The connection is for one operation: says so to the peer, where the protocol has a way.
    fn only_one(&mut self) {}

    /// Appends the bytes of an operation. `false`: the session takes no more at the moment.
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool;

    /// Takes bytes from the connection and yields the answers they complete.
    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError>;

    /// The peer closed the connection; some protocols end an answer that way.
    fn receive_end(&mut self, on: &mut impl FnMut(Tag, Answer<'_>)) -> Result<(), ProtocolError> {
        let _ = on;
        Ok(())
    }
}

/// Whether the staleness of reads is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalenessTracking {
    /// It is measured.
    Measured,
    /// It is not, and costs nothing.
    NotMeasured,
}

/// The remembered writes: of all keys, or of every n-th.
pub struct Ledger {
    stride: u64,
    offset: u64,
    histories: Vec<Mutex<KeyHistory>>,
    staleness: StalenessTracking,
    /// The origin of its times.
    since: Instant,
}

impl Ledger {
    /// An empty ledger for `count` keys; `seed` chooses the sample where not all are kept.
    pub fn new(count: u64, seed: u64, staleness: StalenessTracking) -> Self {
        let stride = count.div_ceil(TRACKED_MAX).max(1);
        let offset = mix64(seed) % stride;
        let tracked = (count - offset.min(count)).div_ceil(stride);
        let each = |all: u64, of_a_key: std::ops::RangeInclusive<u64>| {
            (all / tracked.max(1)).clamp(*of_a_key.start(), *of_a_key.end())
        };
        let moments = each(MOMENTS_ALL, MOMENTS_OF_A_KEY) as usize;
        let unknown = each(UNKNOWN_ALL, UNKNOWN_OF_A_KEY) as u32;
        let history = || match staleness {
            StalenessTracking::Measured => KeyHistory::new(unknown).measuring_staleness(moments),
            StalenessTracking::NotMeasured => KeyHistory::new(unknown),
        };
        let histories = (0..tracked).map(|_| Mutex::new(history())).collect();
        Self { stride, offset, histories, staleness, since: clock::now() }
    }

    /// The time, as histories take it. To be read while the key's history is locked, so that what is
    /// seen to come first has the earlier time.
    fn time(&self) -> Duration {
        clock::now() - self.since
    }

    fn history(&self, key: u64) -> Option<MutexGuard<'_, KeyHistory>> {
        let place = key.checked_sub(self.offset)?;
        if !place.is_multiple_of(self.stride) {
            return None;
        }
        let history = self.histories.get((place / self.stride) as usize)?;
        Some(history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keys that must hold what was acknowledged, in order.
    pub fn acknowledged(&self) -> Vec<u64> {
        (0..self.histories.len() as u64)
            .map(|place| place * self.stride + self.offset)
            .filter(|&key| self.history(key).is_some_and(|history| history.has_acknowledged()))
            .collect()
    }

    /// Of these keys, how many would show whatever was lost of them.
    pub fn claiming_fully(&self, keys: &[u64]) -> u64 {
        let fully = |key: u64| self.history(key).is_some_and(|history| history.claims_fully());
        keys.iter().filter(|&&key| fully(key)).count() as u64
    }

    /// One in how many keys is remembered.
    pub fn stride(&self) -> u64 {
        self.stride
    }
}

/// State that all workers of a trial share: names, values, history.
pub struct Keyed {
    /// The keys.
    pub space: KeySpace,
    /// The values that prove themselves.
    pub values: Values,
    /// The values that each key may hold.
    pub ledger: Ledger,
}

impl Keyed {
    /// The keys of a workload, none of them written yet.
    pub fn new(workload: &Workload, seed: u64, staleness: StalenessTracking) -> Self {
        Self {
            space: KeySpace::new(&workload.keys),
            values: Values::new(workload.value_size().unwrap_or(VALUE_SIZE_MIN), seed),
            ledger: Ledger::new(workload.keys.count, seed, staleness),
        }
    }
}

/// Where the next operation comes from.
pub enum Source {
    /// A workload's mix.
    Mix {
        /// Chooses operation and key.
        chooser: Box<Chooser>,
        /// The mix's operations, in its order.
        operations: Vec<Operation>,
        /// Whether puts create their keys.
        creates: bool,
    },
    /// Every key of the space, written once.
    Fill,
    /// These keys, read once.
    Audit(Arc<[u64]>, Arc<Mutex<Findings>>),
}

/// The result of an audit.
#[derive(Debug, Default)]
pub struct Findings {
    /// Keys that were read.
    pub read: u64,
    /// Acknowledged keys that were not there.
    pub lost: u64,
    /// Keys that held something else.
    pub wrong: u64,
    /// Of the wrong ones, how many held an older write: their update is lost.
    pub older: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

const FINDINGS_EXAMPLES_MAX: usize = 5;

impl Source {
    /// The source of operations under a workload, the same for each worker: their numbers decide what they are.
    pub fn mix(workload: &Workload, run_seed: u64, seed: u64) -> Self {
        Self::Mix {
            chooser: Box::new(Chooser::new(&workload.mix, &workload.keys, run_seed, seed)),
            operations: workload.mix.keys().copied().collect(),
            creates: workload.keys.order == KeyOrder::Unique && !workload.fill,
        }
    }

    /// The operations that it chooses from.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Mix { operations, .. } => operations,
            Self::Fill => &[Operation::Put],
            Self::Audit(..) => &[Operation::Get],
        }
    }

    /// The seed of what is drawn for each operation beyond its key.
    pub fn seed(&self) -> u64 {
        if let Self::Mix { chooser, .. } = self { chooser.seed() } else { 0 }
    }

    /// Chooses an operation by its place, and the number of its key; `None`: there is nothing more to do.
    pub fn choose(&mut self, ticket: u64, count: u64) -> Option<(usize, u64)> {
        match self {
            Self::Mix { chooser, .. } => chooser.choose(ticket),
            Self::Fill => (ticket < count).then_some((0, ticket)),
            Self::Audit(keys, _) => keys.get(usize::try_from(ticket).ok()?).map(|&key| (0, key)),
        }
    }

    fn creates(&self) -> bool {
        match self {
            Self::Mix { creates, .. } => *creates,
            Self::Fill => true,
            Self::Audit(..) => false,
        }
    }
}

/// How reads are asked for and judged.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// How fresh reads must be.
    pub reads: ReadConsistency,
    /// Whether the system may answer such reads with something old.
    pub may_be_stale: bool,
    /// Whether every key was written and none is deleted, so that a `list` must be complete.
    pub lists_are_complete: bool,
}

/// One worker's key-value work, over sessions that `connect` makes.
pub struct KvWork<S, C> {
    keyed: Arc<Keyed>,
    source: Source,
    reading: Reading,
    connect: C,
    key: Vec<u8>,
    value: Vec<u8>,
    _session: std::marker::PhantomData<fn() -> S>,
}

/// State of an operation until its answer.
pub struct Pending {
    operation: Operation,
    /// The key's number; a directory's for a `list`.
    key: u64,
    /// The value that a read is judged by.
    began: ReadBegan,
    /// A write's number in its key's history; 0 where that is not kept.
    sequence: u32,
}

impl<S: KvSession, C: FnMut(u32, usize) -> S + Send> KvWork<S, C> {
    /// Makes the operations of one worker; `connect` makes a session for a client and a node.
    pub fn new(keyed: Arc<Keyed>, source: Source, reading: Reading, connect: C) -> Self {
        let (key, value) = (Vec::new(), Vec::new());
        Self { keyed, source, reading, connect, key, value, _session: std::marker::PhantomData }
    }
}

impl<S: KvSession, C: FnMut(u32, usize) -> S + Send> Work for KvWork<S, C> {
    type Session = S;
    type Pending = Pending;

    fn operations(&self) -> Vec<String> {
        self.source.operations().iter().map(|&operation| operation.name().to_owned()).collect()
    }

    fn judges_age(&self) -> bool {
        self.keyed.ledger.staleness == StalenessTracking::Measured
            && self.source.operations().contains(&Operation::Get)
    }

    fn session(&mut self, client: u32, node: usize) -> S {
        (self.connect)(client, node)
    }

    fn skip(&mut self, _: usize, ticket: u64) -> Option<usize> {
        self.source.choose(ticket, self.keyed.space.count()).map(|(place, _)| place)
    }

    fn issue(
        &mut self,
        session: &mut S,
        client: u32,
        tag: Tag,
        ticket: u64,
        out: &mut Vec<u8>,
    ) -> Result<Issued<Pending>, NotIssued> {
        let space = &self.keyed.space;
        let Some((place, mut key)) = self.source.choose(ticket, space.count()) else {
            return Err(NotIssued::Exhausted);
        };
        let operation = self.source.operations()[place];
        self.key.clear();
        self.value.clear();
        let ledger = &self.keyed.ledger;
        // Only what reads or writes a key has a history: requests would share the one lock of key 0.
        let has_history = matches!(
            operation,
            Operation::Put | Operation::Insert | Operation::Delete | Operation::Get
        );
        let mut history = has_history.then(|| ledger.history(key)).flatten();
        let mut began = ReadBegan::default();
        let mut sequence = 0;
        match operation {
            Operation::Put | Operation::Insert | Operation::Delete => {
                let put = operation != Operation::Delete;
                let write = if put { Write::Put } else { Write::Delete };
                sequence = history.as_mut().map_or(0, |history| history.begin(write));
                space.write_key(key, &mut self.key);
                if put {
                    let stamped = match sequence {
                        0 => (ticket + 1) & ((1 << 48) - 1),
                        sequence => u64::from(sequence),
                    };
                    let stamp = Stamp { writer: client, sequence: stamped };
                    self.keyed.values.write_value(key, stamp, &mut self.value);
                }
            }
            Operation::Get => {
                if let Some(history) = &history {
                    began = history.begin_read(|| ledger.time());
                }
                space.write_key(key, &mut self.key);
            }
            Operation::List => {
                key /= space.per_directory().max(1);
                space.write_directory(key, &mut self.key);
            }
            Operation::Encrypt | Operation::Sign => {
                space.write_key(key, &mut self.key);
                let stamp = Stamp { writer: client, sequence: (ticket + 1) & ((1 << 48) - 1) };
                self.keyed.values.write_value(key, stamp, &mut self.value);
            }
            _ => space.write_key(key, &mut self.key),
        }
        drop(history);
        let creates = self.source.creates();
        let reads = self.reading.reads;
        let (number, name, value) = (key, &self.key[..], &self.value[..]);
        let request = Request { operation, number, key: name, value, reads, creates };
        let pending = Pending { operation, key, began, sequence };
        if session.request(tag, &request, out) {
            Ok(Issued { operation: place, pending })
        } else {
            self.give_up(pending, WriteOutcome::NotSent);
            Err(NotIssued::Busy)
        }
    }

    fn receive(
        &mut self,
        session: &mut S,
        input: &[u8],
        out: &mut Vec<u8>,
        pendings: &mut impl Pendings<Pending>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        session.receive(input, out, &mut |tag, answer| {
            if let Some(pending) = pendings.take(tag) {
                done.push(Done { tag, result: self.judge(&pending, answer) });
            }
        })
    }

    fn receive_end(
        &mut self,
        session: &mut S,
        pendings: &mut impl Pendings<Pending>,
        done: &mut Vec<Done>,
    ) -> Result<(), ProtocolError> {
        session.receive_end(&mut |tag, answer| {
            if let Some(pending) = pendings.take(tag) {
                done.push(Done { tag, result: self.judge(&pending, answer) });
            }
        })
    }

    fn give_up(&mut self, pending: Pending, outcome: WriteOutcome) {
        self.end_write(&pending, outcome);
    }
}

impl<S, C> KvWork<S, C> {
    fn judge(&self, pending: &Pending, answer: Answer<'_>) -> Result<Success, Failure> {
        let failure = |kind, what| Err(Failure::new(kind, what));
        let result = match (pending.operation, answer) {
            (_, Answer::Failed(kind, what)) => failure(kind, what),
            (Operation::Put | Operation::Insert, Answer::Done)
            | (Operation::Delete, Answer::Done | Answer::Missing) => Ok(Success::default()),
            (Operation::Get, Answer::Value(value)) => {
                self.judge_value(pending, value).map(|of| of.of_read(true))
            }
            (Operation::Decrypt, Answer::Value(value)) => {
                match self.keyed.values.verify(pending.key, value) {
                    Ok(_) => Ok(Success::default()),
                    Err(corruption) => failure(
                        ErrorKind::WrongValue,
                        self.find(pending.key, false, &corruption.to_string()),
                    ),
                }
            }
            (Operation::Get | Operation::List | Operation::Decrypt, Answer::Done) => {
                let name = pending.operation.name();
                failure(ErrorKind::Protocol, format!("the answer is not one to a `{name}`"))
            }
            (_, Answer::Done) => Ok(Success::default()),
            (Operation::Get, Answer::Missing) => {
                let missing = |history: &KeyHistory| history.judge_missing(&pending.began);
                self.judge_read(pending, missing).map(|of| of.of_read(false))
            }
            (Operation::List, Answer::Names(names)) => self.judge_names(pending.key, names),
            (Operation::List, Answer::Missing) => {
                self.judge_names(pending.key, &mut std::iter::empty())
            }
            (operation, _) => {
                let name = operation.name();
                failure(ErrorKind::Protocol, format!("the answer is not one to a `{name}`"))
            }
        };
        // An error answer does not say that the write did not happen.
        let outcome =
            if result.is_ok() { WriteOutcome::Acknowledged } else { WriteOutcome::Unknown };
        self.end_write(pending, outcome);
        result
    }

    /// Tells the ledger how a write ended; a read ends nothing.
    fn end_write(&self, pending: &Pending, outcome: WriteOutcome) {
        if pending.operation.writes()
            && let Some(mut history) = self.keyed.ledger.history(pending.key)
        {
            history.end(pending.sequence, outcome, || self.keyed.ledger.time());
        }
    }

    fn judge_value(&self, pending: &Pending, value: &[u8]) -> Result<Success, Failure> {
        let stamp = match self.keyed.values.verify(pending.key, value) {
            Ok(stamp) => stamp,
            Err(corruption) => {
                let what = self.find(pending.key, false, &corruption.to_string());
                return Err(Failure::new(ErrorKind::WrongValue, what));
            }
        };
        self.judge_read(pending, |history| history.judge_value(stamp.sequence, &pending.began))
    }

    fn judge_read(
        &self,
        pending: &Pending,
        judge: impl FnOnce(&KeyHistory) -> Result<(), Violation>,
    ) -> Result<Success, Failure> {
        let Some(history) = self.keyed.ledger.history(pending.key) else {
            // Of an untracked key nothing is known but its bytes.
            return self.conclude(pending, Ok(Seen::Unjudged));
        };
        let judged = match judge(&history) {
            Ok(()) => Ok(Seen::Fresh),
            Err(found @ (Violation::Stale(..) | Violation::Lost)) => {
                let stale = Seen::Stale(history.stale_by(found, &pending.began));
                if self.reading.may_be_stale { Ok(stale) } else { Err((found, stale)) }
            }
            Err(found) => Err((found, Seen::Unjudged)),
        };
        drop(history);
        self.conclude(pending, judged)
    }

    fn conclude(
        &self,
        pending: &Pending,
        judged: Result<Seen, (Violation, Seen)>,
    ) -> Result<Success, Failure> {
        let (found, stale) = match judged {
            Ok(seen) => {
                if let Source::Audit(_, findings) = &self.source {
                    lock(findings).read += 1;
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
                let what =
                    self.find(pending.key, true, "missing, though a write of it was acknowledged");
                Failure::new(ErrorKind::WrongValue, what)
            }
            Violation::FromTheFuture(seen) => {
                let what = format!("write {seen} of the key was read and never begun");
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
                let what = format!("`{}` is no key of directory {directory}", name.escape_ascii());
                return Err(Failure::new(ErrorKind::WrongValue, what));
            }
            found += 1;
        }
        let incomplete =
            self.reading.lists_are_complete && !self.reading.may_be_stale && found < expected;
        if found > expected || incomplete {
            let what = format!("{found} names listed where {expected} keys were written");
            return Err(Failure::new(ErrorKind::WrongValue, what));
        }
        let stale = found < expected && self.reading.lists_are_complete;
        Ok(Success { seen: if stale { Seen::Stale(None) } else { Seen::Unjudged }, hit: None })
    }

    /// Describes what is wrong with a key, and notes it if this is an audit.
    fn find(&self, key: u64, lost: bool, what: &str) -> String {
        let mut name = Vec::new();
        self.keyed.space.write_key(key, &mut name);
        name.truncate(48); // what follows is filler
        let text = format!("key `{}`: {what}", name.escape_ascii());
        if let Source::Audit(_, findings) = &self.source {
            let mut findings = lock(findings);
            findings.read += 1;
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
