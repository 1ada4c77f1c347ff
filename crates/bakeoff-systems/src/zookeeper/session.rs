//! Maps key-value operations onto ZooKeeper requests.
//!
//! ZooKeeper distinguishes creating from updating. A `put` tries the likelier one first, then the other, and
//! alternates until one succeeds, because others may create or delete the key meanwhile. All tries count as one
//! operation with one timeout. A linearizable `get` or `list` sends a `sync` and the read together, which the server
//! answers in order.
//!
//! A server that has ended a session answers its pending requests with `SessionExpired` and executes none of them.
//! They are sent again in a new session, on the next connection.
//!
//! The header of a reply has the zxid of the write, or the last one that the server had applied when it read. Servers
//! apply no write while they read (`CommitProcessor`), so a missing key was missing at that zxid.
//!
//! A transaction is a `multi` of creates or sets, and a `multiRead`. Since servers apply no write while they read, it sees
//! no transaction in part.
//!
//! A node that is deleted and created again starts with version 0. So the version of a `compare-and-set` also holds
//! bits of the zxid of its node's creation. They show afterwards if the node was another one.

use std::collections::VecDeque;
use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::{Operation, ReadConsistency};
use bakeoff_engine::work::{Session, Tag};
use bakeoff_engine::works::keyed::{Answer, Compare, GroupKey, KvSession, LockStep, Request};
use bakeoff_wire::ProtocolError;
use bakeoff_wire::zookeeper::{
    self, CreateMode, ErrorCode, Event, NodeResult, NodeWrite, Reply, Results, Stat,
};
use smallvec::SmallVec;

use super::lock::{ClientLock, LockRequest};
use crate::{Access, Login};

/// Timeout that clients request. Servers grant it at their default tick.
pub(super) const SESSION_TIMEOUT_MS: u32 = 30_000;
/// Largest accepted reply: the protocol's own limit. ZooKeeper's clients accept 1 MiB unless `jute.maxbuffer` is
/// larger, but servers send lists of any size.
const REPLY_MAX: usize = i32::MAX as usize;

/// Returns an unopened session, with the study's user if it names one.
pub(super) fn session(node: &Access) -> zookeeper::Session {
    let limits = zookeeper::Limits { max_frame: REPLY_MAX, ..zookeeper::Limits::default() };
    let mut session = zookeeper::Session::with_limits(SESSION_TIMEOUT_MS, None, limits);
    if let Some(login) = node.memory.get::<Login>() {
        let Login { user, password } = &*login;
        session.authenticate("digest", format!("{user}:{password}").as_bytes());
    }
    session
}

/// One session with a node.
pub(crate) struct ZooKeeperSession {
    session: zookeeper::Session,
    /// Timeout that the server granted.
    timeout_ms: u32,
    /// True if the server has ended the session.
    is_over: bool,
    /// Steps in flight, oldest first. Replies come in order.
    steps: VecDeque<(Tag, Step)>,
    /// Path and value of each `put` in flight, for its next try.
    puts: Vec<PendingPut>,
    /// Buffers of past puts, for reuse.
    spare: Vec<PendingPut>,
    path: String,
    /// Lock of this client.
    lock: Box<ClientLock>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// Precedes a read. Its success is not yet an answer.
    Sync,
    Create,
    Update,
    Read(Operation),
    Delete,
    /// Second half of a compare-and-set. Replaces the node with this version, or creates it for `None`.
    /// The number is that of the node's [`creation`].
    Replace(Option<i32>, u32),
    Lock(LockRequest),
    /// Read of a group of keys.
    ReadAll,
    /// Write of a group of keys.
    WriteAll,
    /// The operation was abandoned, or failed in an earlier step.
    Ignored,
}

#[derive(Default)]
struct PendingPut {
    tag: Tag,
    path: String,
    value: Vec<u8>,
}

impl ZooKeeperSession {
    pub(super) fn new(node: &Access) -> Self {
        Self {
            session: session(node),
            timeout_ms: SESSION_TIMEOUT_MS,
            is_over: false,
            steps: VecDeque::new(),
            puts: Vec::new(),
            spare: Vec::new(),
            path: String::new(),
            lock: Box::default(),
        }
    }

    /// Sends a request for a lock.
    fn send_for_lock(&mut self, tag: Tag, request: LockRequest, out: &mut Vec<u8>) -> bool {
        let asked = self.lock.request(request, &mut self.path);
        let sent = self.session.request(asked, out).is_ok();
        if sent {
            self.steps.push_back((tag, Step::Lock(request)));
        }
        sent
    }

    fn send(&mut self, tag: Tag, step: Step, path: &str, value: &[u8], out: &mut Vec<u8>) -> bool {
        use zookeeper::Request as Ask;
        let request = match step {
            Step::Create => Ask::Create { path, data: value, mode: CreateMode::Persistent },
            Step::Update => Ask::SetData { path, data: value, version: None },
            Step::Read(Operation::List) => Ask::GetChildren { path },
            Step::Read(_) => Ask::GetData { path },
            Step::Delete => Ask::Delete { path, version: None },
            Step::Replace(None, _) => {
                Ask::Create { path, data: value, mode: CreateMode::Persistent }
            }
            Step::Replace(version, _) => Ask::SetData { path, data: value, version },
            Step::Sync | Step::Lock(_) | Step::ReadAll | Step::WriteAll | Step::Ignored => {
                Ask::Sync { path }
            }
        };
        let sent = self.session.request(request, out).is_ok();
        if sent {
            self.steps.push_back((tag, step));
        }
        sent
    }

    /// Reads a group of keys, or writes it if all have the version that was read.
    fn transact(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        // bakeoff's keys are ASCII.
        let path = |key: &GroupKey| format!("/{}", String::from_utf8_lossy(&key.name));
        let paths: SmallVec<[String; 8]> = request.group.iter().map(path).collect();
        let (step, sent) = match request.compare {
            Compare::Read => {
                if request.reads == ReadConsistency::Linearizable {
                    self.send(tag, Step::Sync, "/", b"", out);
                }
                let paths: SmallVec<[&str; 8]> = paths.iter().map(String::as_str).collect();
                let asked = zookeeper::Request::ReadAll { paths: &paths };
                (Step::ReadAll, self.session.request(asked, out))
            }
            Compare::Replace(_) => {
                let (version, _) = node_version(request.compare);
                let pairs = paths.iter().zip(request.group);
                let writes: SmallVec<[NodeWrite<'_>; 8]> = pairs
                    .map(|(path, key)| NodeWrite { path, data: &key.value, version })
                    .collect();
                let asked = zookeeper::Request::WriteAll { writes: &writes };
                (Step::WriteAll, self.session.request(asked, out))
            }
        };
        if sent.is_ok() {
            self.steps.push_back((tag, step));
        }
        sent.is_ok()
    }

    /// Sends the next try of puts that found the key unexpectedly present or absent.
    fn try_again(&mut self, retries: &[(Tag, Step)], out: &mut Vec<u8>) {
        for &(tag, step) in retries {
            if let Some(place) = self.puts.iter().position(|put| put.tag == tag) {
                let put = self.puts.swap_remove(place);
                self.send(tag, step, &put.path, &put.value, out);
                self.puts.push(put);
            }
        }
    }
}

impl Session for ZooKeeperSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.session.open(out);
    }

    fn is_open(&self) -> bool {
        self.session.capacity() > 0
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(u64::from(self.timeout_ms) / 10))
    }

    fn is_ending(&self) -> bool {
        self.is_over
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.session.ping(out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.session.request(zookeeper::Request::Close, out).ok();
    }
}

impl KvSession for ZooKeeperSession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        if self.is_over || self.session.capacity() < 2 {
            return false;
        }
        match (request.operation, request.lock) {
            (Operation::Lock, LockStep::Acquire) => {
                let asked = self.lock.acquires(request.number);
                return self.send_for_lock(tag, asked, out);
            }
            (Operation::Lock, LockStep::Release) => {
                return self.send_for_lock(tag, LockRequest::Release, out);
            }
            (Operation::Look | Operation::Move, _) => return self.transact(tag, request, out),
            _ => {}
        }
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        path.push('/');
        // bakeoff's keys are ASCII. The path of a directory has no `/` at its end.
        path.push_str(std::str::from_utf8(request.key).unwrap_or_default().trim_end_matches('/'));
        let step = match request.operation {
            Operation::Put | Operation::Lock => {
                let mut put = self.spare.pop().unwrap_or_default();
                put.tag = tag;
                put.path.clone_from(&path);
                put.value.clear();
                put.value.extend_from_slice(request.value);
                self.puts.push(put);
                if request.creates { Step::Create } else { Step::Update }
            }
            Operation::Delete => Step::Delete,
            Operation::CompareAndSet if request.compare != Compare::Read => {
                let (version, creation) = node_version(request.compare);
                Step::Replace(version, creation)
            }
            Operation::Get | Operation::List | Operation::CompareAndSet => {
                if request.reads == ReadConsistency::Linearizable {
                    self.send(tag, Step::Sync, &path, b"", out);
                }
                Step::Read(request.operation)
            }
            operation => crate::never_planned(operation),
        };
        let sent = self.send(tag, step, &path, request.value, out);
        self.path = path;
        sent
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, timeout_ms, is_over, steps, puts, spare, lock, .. } = self;
        let mut retries = Vec::new();
        let received = session.receive(input, out, &mut |event| {
            let (result, zxid) = match event {
                Event::Reply { result, zxid, .. } => (result, zxid.cast_unsigned()),
                Event::Connected { timeout_ms: granted, .. } => return *timeout_ms = granted,
                Event::Watched { path, .. } => {
                    if let Some(tag) = lock.changed(path) {
                        on(tag, Answer::Again);
                    }
                    return;
                }
                Event::Expired | Event::Pong => return,
            };
            *is_over |= result == Err(ErrorCode::SESSION_EXPIRED);
            let Some((tag, step)) = steps.pop_front() else { return };
            if let Step::Lock(request) = step {
                let timeout = Duration::from_millis((*timeout_ms).into());
                if let Some(answer) = lock.answered(tag, request, result, timeout) {
                    on(tag, answer);
                }
                return;
            }
            match after(step, result, zxid) {
                ReplyAction::Nothing => return,
                ReplyAction::Again(step) => return retries.push((tag, step)),
                ReplyAction::FailedEarly(answer) => {
                    // The read that was sent along is no longer needed.
                    if let Some(read) = steps.iter_mut().find(|(of, _)| *of == tag) {
                        read.1 = Step::Ignored;
                    }
                    on(tag, answer);
                }
                ReplyAction::Answer(answer) => on(tag, answer),
                ReplyAction::Children(names) => {
                    on(tag, Answer::Names(&mut names.map(str::as_bytes)))
                }
                ReplyAction::Group(results) => on_group(tag, results, zxid, on),
            }
            if let Some(place) = puts.iter().position(|put| put.tag == tag) {
                spare.push(puts.swap_remove(place));
            }
        });
        self.try_again(&retries, out);
        received
    }
}

/// Next step after a reply.
enum ReplyAction<'a> {
    Nothing,
    Again(Step),
    FailedEarly(Answer<'a>),
    Answer(Answer<'a>),
    Children(zookeeper::Children<'a>),
    /// Results of reads of a group.
    Group(Results<'a>),
}

fn after(step: Step, result: Result<Reply<'_>, ErrorCode>, zxid: u64) -> ReplyAction<'_> {
    let failed = |code: ErrorCode| match code {
        ErrorCode::SESSION_EXPIRED => Answer::Unprocessed(code.to_string()),
        code => Answer::Failed(ErrorKind::Status, code.to_string()),
    };
    match (step, result) {
        (Step::Ignored | Step::Lock(_), _) | (Step::Sync, Ok(_)) => ReplyAction::Nothing,
        (Step::Sync, Err(code)) => ReplyAction::FailedEarly(failed(code)),
        (Step::Create, Err(ErrorCode::NODE_EXISTS)) => ReplyAction::Again(Step::Update),
        (Step::Update, Err(ErrorCode::NO_NODE)) => ReplyAction::Again(Step::Create),
        (Step::Read(_) | Step::Delete, Err(ErrorCode::NO_NODE)) => {
            ReplyAction::Answer(Answer::MissingAt(zxid))
        }
        // Another client wrote, created or removed it.
        (
            Step::Replace(..),
            Err(ErrorCode::BAD_VERSION | ErrorCode::NODE_EXISTS | ErrorCode::NO_NODE),
        ) => ReplyAction::Answer(Answer::Conflict),
        (_, Err(code)) => ReplyAction::Answer(failed(code)),
        (Step::ReadAll, Ok(Reply::Multi(results))) => ReplyAction::Group(results),
        (Step::WriteAll, Ok(Reply::Multi(results))) => {
            ReplyAction::Answer(match refusal(results) {
                None => Answer::DoneAt(zxid),
                Some(ErrorCode::BAD_VERSION | ErrorCode::NODE_EXISTS) => Answer::Conflict,
                Some(code) => failed(code),
            })
        }
        (Step::Read(Operation::CompareAndSet), Ok(Reply::Data { data, stat })) => {
            ReplyAction::Answer(Answer::Versioned(data, version(&stat)))
        }
        (Step::Read(_), Ok(Reply::Data { data, .. })) => ReplyAction::Answer(Answer::Value(data)),
        (Step::Read(_), Ok(Reply::Children(names))) => ReplyAction::Children(names),
        (Step::Replace(Some(_), read), Ok(Reply::Stat(stat))) if creation(&stat) != read => {
            ReplyAction::Answer(Answer::Recreated)
        }
        (Step::Delete | Step::Replace(..), Ok(_)) => ReplyAction::Answer(Answer::DoneAt(zxid)),
        (_, Ok(_)) => ReplyAction::Answer(Answer::Done),
    }
}

/// Returns why a transaction was refused; `None` if it was not.
fn refusal(results: Results<'_>) -> Option<ErrorCode> {
    let mut codes = results.filter_map(Result::err).collect::<SmallVec<[ErrorCode; 8]>>();
    let is_cause =
        |code: &ErrorCode| !matches!(*code, ErrorCode(0) | ErrorCode::RUNTIME_INCONSISTENCY);
    let cause = codes.iter().copied().find(is_cause);
    cause.or_else(|| codes.pop())
}

/// Passes on the values of a group. `zxid`: last transaction that the server had applied.
fn on_group(tag: Tag, results: Results<'_>, zxid: u64, on: &mut dyn FnMut(Tag, Answer<'_>)) {
    let mut values = Vec::new();
    let mut first = None;
    for result in results {
        values.push(match result {
            Ok(NodeResult::Data { data, stat }) => {
                first.get_or_insert(version(&stat));
                Some(data)
            }
            Err(ErrorCode::NO_NODE) => None,
            Ok(NodeResult::Written) => {
                let what = "a write in answer to a read".to_owned();
                return on(tag, Answer::Failed(ErrorKind::Protocol, what));
            }
            Err(code) => return on(tag, Answer::Failed(ErrorKind::Status, code.to_string())),
        });
    }
    match first {
        Some(version) => on(tag, Answer::Group(&mut values.into_iter(), version)),
        None => on(tag, Answer::MissingAt(zxid)),
    }
}

/// Returns bits that tell a node from others of its path: the count of its creation's zxid, mixed with the epoch.
fn creation(of_node: &Stat) -> u32 {
    let zxid = of_node.czxid.cast_unsigned();
    (zxid as u32) ^ ((zxid >> 32) as u32).rotate_right(8)
}

/// Returns a node's version, with its [`creation`] in the upper half. It is not 0, which stands for a missing node.
fn version(of_node: &Stat) -> u64 {
    let version = of_node.version.cast_unsigned().wrapping_add(1);
    u64::from(creation(of_node)) << 32 | u64::from(version)
}

/// Reverses [`version`]. Returns no version for a missing node.
fn node_version(compare: Compare) -> (Option<i32>, u32) {
    match compare {
        Compare::Read | Compare::Replace(0) => (None, 0),
        Compare::Replace(version) => {
            let creation = (version >> 32) as u32;
            (Some((version as u32).wrapping_sub(1).cast_signed()), creation)
        }
    }
}

#[cfg(test)]
mod tests;
