//! Watches keys over one connection: a persistent watch, and a read after each event.
//!
//! An event names the changed node, but holds neither its value nor its version. So the session reads the node on the
//! same connection, where no answer comes before the events of what it shows. An event that comes while its node is
//! being read causes one more read, unless the answer shows its change already.
//!
//! The place of a value is the zxid in the header of its reply, which is the last one that the server had applied. It
//! never falls within a session. The zxids of the nodes themselves would: a node that is read first may have changed
//! last.
//!
//! A watch ends with its connection, and the next one does not report what was missed. So a resumed watcher reads the
//! state once. A `sync` comes first, because the next server may lag behind the one before.
//!
//! Not here: the wire format (`bakeoff_wire::zookeeper`), what events prove (`bakeoff_core::watch`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bakeoff_engine::watch::{WatchNews, WatchSession, WatcherRequest};
use bakeoff_engine::work::Session;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::zookeeper::{self, Change, ErrorCode, Event, Reply, WatchMode};

use super::session::{SESSION_TIMEOUT_MS, session};
use super::tree::MADE_BY;
use crate::Access;

/// Maximum requests in flight, as for the clients of a load.
const IN_FLIGHT_MAX: usize = 100;
/// Maximum bytes of all paths that a server may name.
const PATHS_MAX: usize = 64 << 20;

/// One connection with one watcher.
pub(super) struct ZooKeeperWatchSession {
    session: zookeeper::Session,
    watcher: Watcher,
}

/// State of a watcher.
struct Watcher {
    number: u32,
    /// Path of the watched node.
    path: String,
    /// True if it watches the nodes below its own.
    is_prefix: bool,
    /// False until the server has caught up with what an earlier connection showed.
    is_current: bool,
    /// Timeout that the server granted.
    timeout_ms: u32,
    /// True if the server has ended the session.
    is_over: bool,
    nodes: Nodes,
    /// Requests to send, oldest first.
    waiting: VecDeque<Step>,
    /// Requests in flight, oldest first. Replies come in order.
    in_flight: VecDeque<Step>,
}

/// A request of the session. Nodes are numbered by [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    AddWatch,
    Sync,
    Read(usize),
    /// Lists the children of a node.
    List(usize),
}

/// Nodes that the server named.
#[derive(Default)]
struct Nodes {
    all: Vec<Node>,
    numbers: HashMap<Arc<str>, usize>,
    /// Bytes of all paths.
    bytes: usize,
}

struct Node {
    path: Arc<str>,
    reading: Reading,
    /// True if a missing node was deleted while there was no watch. Otherwise its deletion has an event.
    reports_absence: bool,
}

/// Progress of a node's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// No read is wanted.
    Idle,
    Waiting,
    InFlight,
    /// In flight, and an event came meanwhile. A value of this zxid or a later one shows its change.
    Outdated(i64),
}

impl Nodes {
    /// Returns the number of a path.
    fn number(&mut self, path: &str) -> Result<usize, ProtocolError> {
        if let Some(&number) = self.numbers.get(path) {
            return Ok(number);
        }
        if !path.starts_with('/') {
            return Err(ProtocolError::new("an event of a path that does not begin with `/`"));
        }
        self.bytes += path.len();
        if self.bytes > PATHS_MAX {
            return Err(ProtocolError::new("more than 64 MiB of paths of watched nodes"));
        }
        let (path, number): (Arc<str>, usize) = (path.into(), self.all.len());
        self.numbers.insert(Arc::clone(&path), number);
        self.all.push(Node { path, reading: Reading::Idle, reports_absence: false });
        Ok(number)
    }
}

impl Node {
    /// Returns the name of the key.
    fn key(&self) -> &[u8] {
        &self.path.as_bytes()[1..]
    }
}

impl ZooKeeperWatchSession {
    pub(super) fn new(node: &Access) -> Self {
        let watcher = Watcher {
            number: 0,
            path: String::new(),
            is_prefix: false,
            is_current: true,
            timeout_ms: SESSION_TIMEOUT_MS,
            is_over: false,
            nodes: Nodes::default(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
        };
        Self { session: session(node), watcher }
    }
}

impl Session for ZooKeeperWatchSession {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.session.open(out);
    }

    fn is_open(&self) -> bool {
        self.session.capacity() > 0
    }

    fn is_ending(&self) -> bool {
        self.watcher.is_over
    }

    fn keep_alive_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(u64::from(self.watcher.timeout_ms) / 10))
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        self.session.ping(out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.session.request(zookeeper::Request::Close, out).ok();
    }
}

impl WatchSession for ZooKeeperWatchSession {
    fn watch(&mut self, request: &WatcherRequest<'_>, out: &mut Vec<u8>) {
        let Self { session, watcher } = self;
        // bakeoff's keys are ASCII. The path of a directory has no `/` at its end.
        let name = std::str::from_utf8(request.name).unwrap_or_default().trim_end_matches('/');
        watcher.number = request.watcher;
        watcher.path = format!("/{name}");
        watcher.is_prefix = request.is_prefix;
        watcher.is_current = request.after == 0;
        watcher.waiting.push_back(Step::AddWatch);
        if !watcher.is_current {
            watcher.waiting.push_back(Step::Sync);
        }
        watcher.send(session, out, &mut |_| {});
    }

    fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let Self { session, watcher } = self;
        let mut handled = Ok(());
        session.receive(input, out, &mut |event| {
            if handled.is_ok() {
                handled = watcher.handle(event, on);
            }
        })?;
        handled?;
        watcher.send(session, out, on);
        Ok(())
    }
}

impl Watcher {
    /// Sends waiting requests, as many as may be in flight.
    fn send(
        &mut self,
        session: &mut zookeeper::Session,
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) {
        use zookeeper::Request as Ask;
        while self.in_flight.len() < IN_FLIGHT_MAX
            && let Some(&step) = self.waiting.front()
        {
            let path = &*self.path;
            let sent = match step {
                Step::AddWatch => {
                    let mode = match self.is_prefix {
                        true => WatchMode::PersistentRecursive,
                        false => WatchMode::Persistent,
                    };
                    session.request(Ask::AddWatch { path, mode }, out)
                }
                Step::Sync => session.request(Ask::Sync { path }, out),
                Step::List(node) => {
                    session.request(Ask::GetChildren { path: &self.nodes.all[node].path }, out)
                }
                Step::Read(node) => {
                    let node = &mut self.nodes.all[node];
                    node.reading = Reading::InFlight;
                    session.request(Ask::GetData { path: &node.path }, out)
                }
            };
            if sent.is_err() {
                self.is_over = true;
                return;
            }
            self.waiting.pop_front();
            self.in_flight.push_back(step);
            on(WatchNews::Asked);
        }
    }

    fn handle(
        &mut self,
        event: Event<'_>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        match event {
            Event::Connected { timeout_ms, .. } => self.timeout_ms = timeout_ms,
            Event::Expired => self.is_over = true,
            Event::Pong => {}
            Event::Watched { change, path, zxid, .. } => self.changed(change, path, zxid, on)?,
            Event::Reply { result, zxid, .. } => {
                if let Some(step) = self.in_flight.pop_front() {
                    self.answered(step, result, zxid, on)?;
                }
            }
        }
        Ok(())
    }

    /// Handles an event of the watch.
    fn changed(
        &mut self,
        change: Change,
        path: &str,
        zxid: Option<i64>,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        let is_deleted = match change {
            Change::Created | Change::Data => false,
            Change::Deleted => true,
            Change::Children | Change::Other(_) => return Ok(()),
        };
        // A recursive watch includes the parent of the keys.
        if self.is_prefix && path == self.path {
            return Ok(());
        }
        let number = self.nodes.number(path)?;
        let node = &mut self.nodes.all[number];
        // A server that lags behind may report a deletion that the watcher knows.
        if is_deleted && self.is_current {
            node.reports_absence = false;
            let (watcher, place) = (self.number, zxid.and_then(place));
            on(WatchNews::Event { watcher, place, key: node.key(), value: None });
            return Ok(());
        }
        node.reports_absence |= is_deleted;
        self.read(number, zxid);
        Ok(())
    }

    /// Reads a node, or once more if it is being read. `zxid` is that of the change to read.
    fn read(&mut self, number: usize, zxid: Option<i64>) {
        let node = &mut self.nodes.all[number];
        let zxid = zxid.unwrap_or(i64::MAX);
        match node.reading {
            Reading::Idle => {
                node.reading = Reading::Waiting;
                self.waiting.push_back(Step::Read(number));
            }
            Reading::Waiting => {}
            Reading::InFlight => node.reading = Reading::Outdated(zxid),
            Reading::Outdated(earlier) => node.reading = Reading::Outdated(earlier.max(zxid)),
        }
    }

    fn answered(
        &mut self,
        step: Step,
        result: Result<Reply<'_>, ErrorCode>,
        zxid: i64,
        on: &mut dyn FnMut(WatchNews<'_>),
    ) -> Result<(), ProtocolError> {
        self.is_over |= result == Err(ErrorCode::SESSION_EXPIRED);
        let watcher = self.number;
        match (step, result) {
            (Step::AddWatch, Ok(_)) => on(WatchNews::Created { watcher, place: place(zxid) }),
            (Step::Sync, Ok(_)) => {
                on(WatchNews::Asked); // it was sent before there was anything to report to
                self.is_current = true;
                self.read_state()?;
            }
            (Step::Read(number), Ok(Reply::Data { data, .. })) if data == MADE_BY.as_bytes() => {
                self.end_read(number, None);
                self.waiting.push_back(Step::List(number));
            }
            (Step::Read(number), Ok(Reply::Data { data, stat })) => {
                self.end_read(number, Some(stat.mzxid));
                let key = self.nodes.all[number].key();
                on(WatchNews::Event { watcher, place: place(zxid), key, value: Some(data) });
            }
            (Step::Read(number), Err(ErrorCode::NO_NODE)) => {
                if self.end_read(number, None) {
                    let key = self.nodes.all[number].key();
                    on(WatchNews::Event { watcher, place: place(zxid), key, value: None });
                }
            }
            (Step::List(number), Ok(Reply::Children(names))) => {
                let parent = Arc::clone(&self.nodes.all[number].path);
                for name in names {
                    let child = self.nodes.number(&format!("{parent}/{name}"))?;
                    self.read(child, None);
                }
            }
            (Step::List(_), Err(ErrorCode::NO_NODE)) => {}
            (step, Err(code)) => {
                let why = self.failure(step, code);
                on(WatchNews::Ended { watcher, why });
            }
            (_, Ok(_)) => {}
        }
        Ok(())
    }

    /// Reads the state that the watcher missed.
    fn read_state(&mut self) -> Result<(), ProtocolError> {
        let number = self.nodes.number(&self.path)?;
        if self.is_prefix {
            self.waiting.push_back(Step::List(number));
        } else {
            self.nodes.all[number].reports_absence = true;
            self.read(number, None);
        }
        Ok(())
    }

    /// Ends a read that showed a value of this zxid, or no node. Reads once more if an event has outdated it. Returns
    /// true if the absence of the node is news.
    fn end_read(&mut self, number: usize, zxid: Option<i64>) -> bool {
        let node = &mut self.nodes.all[number];
        let reports_absence = std::mem::take(&mut node.reports_absence);
        let reading = std::mem::replace(&mut node.reading, Reading::Idle);
        if let Reading::Outdated(changed) = reading
            && zxid.is_none_or(|shown| shown < changed)
        {
            self.read(number, None);
        }
        reports_absence
    }

    /// Returns why a request failed, in words.
    fn failure(&self, step: Step, code: ErrorCode) -> String {
        let path = |node: usize| &self.nodes.all[node].path;
        match step {
            Step::AddWatch if code == ErrorCode::UNIMPLEMENTED => {
                format!("adding a watch: {code}, watchers need ZooKeeper 3.6 or newer")
            }
            Step::AddWatch => format!("adding a watch: {code}"),
            Step::Sync => format!("sync: {code}"),
            Step::Read(node) => format!("reading `{}`: {code}", path(node)),
            Step::List(node) => format!("listing `{}`: {code}", path(node)),
        }
    }
}

/// Returns a zxid as a place.
fn place(zxid: i64) -> Option<u64> {
    (zxid > 0).then(|| zxid.cast_unsigned())
}

#[cfg(test)]
mod tests;
