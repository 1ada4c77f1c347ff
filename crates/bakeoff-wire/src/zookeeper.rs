//! Implements a client session with ZooKeeper: its own protocol, in the encoding called jute.
//!
//! Requests are numbered and answered in order, so many can be in flight. The oldest request in flight decides how
//! the next reply is parsed.
//!
//! Sources: `zookeeper.jute` in <https://github.com/apache/zookeeper> for the records, and `ZooDefs.OpCode`,
//! `KeeperException.Code` and `ClientCnxn` there for the numbers.
//!
//! Watches are persistent ones, which servers have since 3.6, or for one event. They end with the connection. An event
//! names the changed node, not its content.
//!
//! Not here: access control beyond "anyone may do anything", transactions other than of creates, sets and reads, the
//! choice of a server, and the clock for pings (due a third of the timeout after the last request).

mod error;
mod jute;

use std::collections::VecDeque;
use std::fmt;

use crate::overhead::Overhead;
use crate::{Busy, ProtocolError};
pub use error::ErrorCode;
pub use jute::{Children, Stat};
use jute::{Reader, framed, put_buffer, put_int, put_long};

/// Length of a session's password in bytes.
const PASSWORD: usize = 16;

// Operation numbers, `ZooDefs.OpCode`.
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const PING: i32 = 11;
const MULTI: i32 = 14;
const MULTI_READ: i32 = 22;
const AUTH: i32 = 100;
const ADD_WATCH: i32 = 106;
/// Type of the last header of a transaction, and of a result that is an error (`OpCode.error`).
const MULTI_END: i32 = -1;
const CLOSE: i32 = -11;

// Numbers that stand for no request, `ClientCnxn`.
const NOTIFICATION_XID: i32 = -1;
const PING_XID: i32 = -2;
const AUTH_XID: i32 = -4;

/// Access list with one entry that allows everything (31) to `world:anyone`.
const OPEN_ACL: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";

/// Identifies a session to resume on another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumption {
    /// Number of the session.
    pub session_id: i64,
    /// Password that the server assigned to the session.
    pub password: [u8; PASSWORD],
    /// Last transaction seen. A server that has not seen it refuses the session.
    pub last_zxid: i64,
}

/// Sets the limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum requests in flight. The server's `globalOutstandingLimit` for all its sessions together is 1000 by
    /// default.
    pub max_in_flight: usize,
    /// Maximum size of a reply in bytes.
    pub max_frame: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_in_flight: 1000, max_frame: 16 << 20 }
    }
}

/// Describes a request to ZooKeeper. Paths are absolute. `version` is the node's required version; `None` accepts
/// any. The server never answers a path or data of 2 GiB or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Creates a node with an open access list; answered by [`Reply::Created`].
    Create {
        /// Path of the new node.
        path: &'a str,
        /// Content of the node.
        data: &'a [u8],
        /// Lifetime and numbering of the node.
        mode: CreateMode,
    },
    /// Deletes a node; answered by [`Reply::Deleted`].
    Delete {
        /// Path of the node.
        path: &'a str,
        /// Required version.
        version: Option<i32>,
    },
    /// Reads a node's metadata; answered by [`Reply::Stat`], or [`ErrorCode::NO_NODE`].
    Exists {
        /// Path of the node.
        path: &'a str,
        /// True for one event when the node changes, is deleted or is created.
        watch: bool,
    },
    /// Reads a node's content; answered by [`Reply::Data`].
    GetData {
        /// Path of the node.
        path: &'a str,
    },
    /// Replaces a node's content; answered by [`Reply::Stat`].
    SetData {
        /// Path of the node.
        path: &'a str,
        /// New content.
        data: &'a [u8],
        /// Required version.
        version: Option<i32>,
    },
    /// Lists the names of a node's children; answered by [`Reply::Children`].
    GetChildren {
        /// Path of the node.
        path: &'a str,
    },
    /// Makes the server catch up with the leader, so that later reads are current; answered by [`Reply::Synced`].
    Sync {
        /// Any path; servers catch up as a whole.
        path: &'a str,
    },
    /// Adds a watch until the connection ends; answered by [`Reply::Watching`]. The node may be missing.
    AddWatch {
        /// Path of the node.
        path: &'a str,
        /// Watched nodes.
        mode: WatchMode,
    },
    /// Creates or sets all of these nodes, or none; answered by [`Reply::Multi`].
    WriteAll {
        /// Nodes to write.
        writes: &'a [NodeWrite<'a>],
    },
    /// Reads the contents of these nodes at one time; answered by [`Reply::Multi`].
    ReadAll {
        /// Paths of the nodes.
        paths: &'a [&'a str],
    },
    /// Ends the session; answered by [`Reply::Closed`]. No request is possible afterwards.
    Close,
}

/// Describes one write of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeWrite<'a> {
    /// Path of the node.
    pub path: &'a str,
    /// New content.
    pub data: &'a [u8],
    /// Required version; `None` to create the node.
    pub version: Option<i32>,
}

/// Selects the nodes of a watch (`AddWatchMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchMode {
    /// The node, and the list of its children.
    Persistent,
    /// The node and all nodes below it, without lists of children.
    PersistentRecursive,
}

/// Describes what happened to a watched node (`Watcher.Event.EventType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// Its content was set.
    Data,
    /// A child was created or deleted.
    Children,
    /// A change with another number.
    Other(i32),
}

impl Change {
    fn new(number: i32) -> Self {
        match number {
            1 => Self::Created,
            2 => Self::Deleted,
            3 => Self::Data,
            4 => Self::Children,
            other => Self::Other(other),
        }
    }
}

/// Selects the lifetime of a node (`CreateMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// Until deleted.
    Persistent,
    /// Until the session ends.
    Ephemeral,
    /// Until deleted; the server appends a number to its name.
    PersistentSequential,
    /// Until the session ends; the server appends a number to its name.
    EphemeralSequential,
}

/// Numbers a request: from 1, in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Xid(i32);

impl Xid {
    /// Returns the number in the protocol.
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Holds a message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// The session exists and requests can be sent.
    Connected {
        /// Number of the session.
        session_id: i64,
        /// Timeout that the server granted, in milliseconds.
        timeout_ms: u32,
    },
    /// The resumed session has expired, and its ephemeral nodes are gone. The connection is unusable.
    Expired,
    /// Answer to the oldest request in flight.
    Reply {
        /// Request that it answers.
        xid: Xid,
        /// Server's last transaction at the time of the answer, or the transaction of the change.
        zxid: i64,
        /// Reply, or the error code.
        result: Result<Reply<'a>, ErrorCode>,
    },
    /// A watched node changed. Arrives before any answer that shows the change.
    Watched {
        /// Change of the node.
        change: Change,
        /// State of the session (`KeeperState`), normally 3 for connected.
        state: i32,
        /// Path of the node.
        path: &'a str,
        /// Transaction of the change; `None` from servers before 3.9.
        zxid: Option<i64>,
    },
    /// Answer to a ping.
    Pong,
}

/// Holds a successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Path of the new node, with its number if sequential.
    Created(&'a str),
    /// The node is deleted.
    Deleted,
    /// Metadata of the node.
    Stat(Stat),
    /// Content of the node.
    Data {
        /// Bytes of the content.
        data: &'a [u8],
        /// Metadata of the node.
        stat: Stat,
    },
    /// Names of the children, without the path, unordered.
    Children(Children<'a>),
    /// Results of a transaction, in its order.
    Multi(Results<'a>),
    /// The server has caught up.
    Synced,
    /// The watch exists, so all later changes have events.
    Watching,
    /// The session has ended.
    Closed,
}

/// Result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeResult<'a> {
    /// The node was written.
    Written,
    /// Content of the node.
    Data {
        /// Bytes of the content.
        data: &'a [u8],
        /// Metadata of the node.
        stat: Stat,
    },
}

/// Iterates over the results of a transaction. If it was refused, every result is an error; that of the operation that
/// caused it has its own code, and others have 0 or [`ErrorCode::RUNTIME_INCONSISTENCY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Results<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<NodeResult<'a>, ErrorCode>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.result().ok().flatten()
    }
}

/// Holds one session on one connection.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    timeout_ms: u32,
    identity: Option<Identity>,
    resumption: Option<Resumption>,
    last_zxid: i64,
    state: State,
    /// Operations in flight, oldest first. The first one has the number `oldest`.
    in_flight: VecDeque<i32>,
    oldest: Xid,
    next: Xid,
    /// Start of an incomplete reply.
    partial: Vec<u8>,
    /// Unrequested events and answers to pings since the last reply.
    overhead: Overhead,
    /// True once a watch was requested. Any number of events may then arrive without a reply.
    watches: bool,
}

/// Holds a client's credentials (`AuthPacket`). Its own `Debug` hides the secret.
struct Identity {
    scheme: String,
    secret: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Identity({}, …)", self.scheme)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The answer to the ConnectRequest has not arrived yet.
    Connecting,
    Connected,
    /// Closing or expired: no request is possible.
    Over,
    /// The server broke the protocol.
    Failed,
}

impl Session {
    /// Creates a session that the server may end after `timeout_ms` without a message. The server limits the timeout,
    /// by default to between 2 and 20 of its ticks.
    pub fn new(timeout_ms: u32) -> Self {
        Self::with_limits(timeout_ms, None, Limits::default())
    }

    /// Resumes a session from another connection.
    pub fn resume(timeout_ms: u32, resumption: Resumption) -> Self {
        Self::with_limits(timeout_ms, Some(resumption), Limits::default())
    }

    /// Creates or resumes a session with other limits.
    pub fn with_limits(timeout_ms: u32, resumption: Option<Resumption>, limits: Limits) -> Self {
        Self {
            limits,
            timeout_ms,
            identity: None,
            resumption,
            last_zxid: resumption.map_or(0, |resumption| resumption.last_zxid),
            state: State::Connecting,
            in_flight: VecDeque::new(),
            oldest: Xid(1),
            next: Xid(1),
            partial: Vec::new(),
            overhead: Overhead::default(),
            watches: false,
        }
    }

    /// Sets the credentials to send on opening, such as `digest` and `user:password`. A server that rejects them ends
    /// the session. Scheme `digest` is never rejected; an unknown user only lacks permissions.
    pub fn authenticate(&mut self, scheme: &str, secret: &[u8]) {
        self.identity = Some(Identity { scheme: scheme.to_owned(), secret: secret.to_vec() });
    }

    /// Writes the ConnectRequest, and the credentials if there are any.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let (session_id, password) =
            self.resumption.map_or((0, [0; PASSWORD]), |r| (r.session_id, r.password));
        framed(out, |out| {
            put_int(out, 0); // protocol version
            put_long(out, self.last_zxid);
            put_int(out, i32::try_from(self.timeout_ms).unwrap_or(i32::MAX));
            put_long(out, session_id);
            put_buffer(out, &password);
            out.push(0); // refuse a read-only server
        });
        if let Some(Identity { scheme, secret }) = &self.identity {
            framed(out, |out| {
                put_int(out, AUTH_XID);
                put_int(out, AUTH);
                put_int(out, 0); // its type, which servers ignore
                put_buffer(out, scheme.as_bytes());
                put_buffer(out, secret);
            });
        }
    }

    /// Returns how many more requests can be sent now; 0 until connected.
    pub fn capacity(&self) -> usize {
        match self.state {
            State::Connected => self.limits.max_in_flight.saturating_sub(self.in_flight.len()),
            State::Connecting | State::Over | State::Failed => 0,
        }
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the data to resume this session on another connection, once connected.
    pub fn resumption(&self) -> Option<Resumption> {
        self.resumption.map(|resumption| Resumption { last_zxid: self.last_zxid, ..resumption })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Session::capacity`] is 0; nothing is written then.
    pub fn request(&mut self, request: Request<'_>, out: &mut Vec<u8>) -> Result<Xid, Busy> {
        if self.capacity() == 0 {
            return Err(Busy);
        }
        let xid = self.next;
        self.next = after(xid);
        let operation = match request {
            Request::Create { .. } => CREATE,
            Request::Delete { .. } => DELETE,
            Request::Exists { .. } => EXISTS,
            Request::GetData { .. } => GET_DATA,
            Request::SetData { .. } => SET_DATA,
            Request::GetChildren { .. } => GET_CHILDREN,
            Request::Sync { .. } => SYNC,
            Request::AddWatch { .. } => ADD_WATCH,
            Request::WriteAll { .. } => MULTI,
            Request::ReadAll { .. } => MULTI_READ,
            Request::Close => CLOSE,
        };
        self.in_flight.push_back(operation);
        if operation == CLOSE {
            self.state = State::Over;
        }
        self.watches |=
            matches!(request, Request::AddWatch { .. } | Request::Exists { watch: true, .. });
        framed(out, |out| {
            put_int(out, xid.0);
            put_int(out, operation);
            match request {
                Request::Create { path, data, mode } => {
                    put_buffer(out, path.as_bytes());
                    put_buffer(out, data);
                    out.extend_from_slice(OPEN_ACL);
                    put_int(out, mode as i32);
                }
                Request::Delete { path, version } => {
                    put_buffer(out, path.as_bytes());
                    put_int(out, version.unwrap_or(-1));
                }
                Request::Exists { path, watch } => {
                    put_buffer(out, path.as_bytes());
                    out.push(watch.into());
                }
                Request::GetData { path } | Request::GetChildren { path } => {
                    put_buffer(out, path.as_bytes());
                    out.push(0); // no watch
                }
                Request::SetData { path, data, version } => {
                    put_buffer(out, path.as_bytes());
                    put_buffer(out, data);
                    put_int(out, version.unwrap_or(-1));
                }
                Request::Sync { path } => put_buffer(out, path.as_bytes()),
                Request::AddWatch { path, mode } => {
                    put_buffer(out, path.as_bytes());
                    put_int(out, mode as i32);
                }
                Request::WriteAll { writes } => {
                    for &NodeWrite { path, data, version } in writes {
                        let operation = version.map_or(CREATE, |_| SET_DATA);
                        put_multi_header(out, operation);
                        put_buffer(out, path.as_bytes());
                        put_buffer(out, data);
                        match version {
                            Some(version) => put_int(out, version),
                            None => {
                                out.extend_from_slice(OPEN_ACL);
                                put_int(out, CreateMode::Persistent as i32);
                            }
                        }
                    }
                    put_multi_header(out, MULTI_END);
                }
                Request::ReadAll { paths } => {
                    for path in paths {
                        put_multi_header(out, GET_DATA);
                        put_buffer(out, path.as_bytes());
                        out.push(0); // no watch
                    }
                    put_multi_header(out, MULTI_END);
                }
                Request::Close => {}
            }
        });
        Ok(xid)
    }

    /// Writes a ping, answered by [`Event::Pong`]. Writes nothing before the session is connected.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Connected {
            framed(out, |out| {
                put_int(out, PING_XID);
                put_int(out, PING);
            });
        }
    }

    /// Consumes all of `input` and calls `on` with each event. Never writes to the output, which all sessions have.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail. The
    /// session may still be resumed on another connection.
    pub fn receive(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        let result = match self.state {
            State::Failed => Err(ProtocolError::new("received after an error")),
            _ => self.receive_frames(input, on),
        };
        if result.is_err() {
            self.state = State::Failed;
        }
        result.map_err(|error| error.within("zookeeper"))
    }

    fn receive_frames(
        &mut self,
        mut input: &[u8],
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        if !self.partial.is_empty() {
            let mut partial = std::mem::take(&mut self.partial);
            if fill(&mut partial, 4, &mut input) {
                let length = self.frame_length(&partial)?;
                if fill(&mut partial, 4 + length, &mut input) {
                    self.frame(partial.get(4..).unwrap_or_default(), on)?;
                    partial.clear();
                    if partial.capacity() > 64 * 1024 {
                        partial = Vec::new();
                    }
                }
            }
            self.partial = partial;
            if input.is_empty() {
                return Ok(());
            }
        }
        while input.len() >= 4 {
            let length = self.frame_length(input)?;
            let Some((frame, rest)) = input.get(4..).and_then(|rest| rest.split_at_checked(length))
            else {
                break;
            };
            self.frame(frame, on)?;
            input = rest;
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }

    fn frame_length(&self, header: &[u8]) -> Result<usize, ProtocolError> {
        let length = header.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.limits.max_frame)
            .ok_or_else(|| format!("a reply of {length} bytes").into())
    }

    fn frame(&mut self, frame: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<(), ProtocolError> {
        let mut reader = Reader(frame);
        if self.state == State::Connecting {
            let event = self.connected(&mut reader)?;
            on(event);
            return Ok(());
        }
        let number = reader.int()?;
        let zxid = reader.long()?;
        let error = reader.int()?;
        match number {
            NOTIFICATION_XID => {
                let event = reader.watched(zxid)?;
                reader.end()?;
                if !self.watches {
                    self.overhead.add(frame.len(), "notifications")?;
                }
                on(event);
                return Ok(());
            }
            PING_XID => {
                reader.end()?;
                self.overhead.add(frame.len(), "answers to pings")?;
                on(Event::Pong);
                return Ok(());
            }
            AUTH_XID if error == 0 => {
                return self.overhead.add(frame.len(), "answers to credentials");
            }
            AUTH_XID => {
                let why = format!("the client's credentials were refused: {}", ErrorCode(error));
                return Err(ProtocolError::new(why));
            }
            _ => {}
        }
        let xid = self.oldest;
        let Some(&operation) = self.in_flight.front() else {
            return Err(ProtocolError::new(format!("a reply to {number} without a request")));
        };
        if number != xid.0 {
            return Err(ProtocolError::new(format!("a reply to {number} instead of {}", xid.0)));
        }
        let result = if error == 0 {
            let reply = reader.reply(operation)?;
            reader.end()?;
            Ok(reply)
        } else {
            Err(ErrorCode(error))
        };
        self.in_flight.pop_front();
        self.overhead.reset();
        self.oldest = after(xid);
        if zxid > 0 {
            self.last_zxid = zxid;
        }
        on(Event::Reply { xid, zxid, result });
        Ok(())
    }

    fn connected(&mut self, reader: &mut Reader<'_>) -> Result<Event<'static>, ProtocolError> {
        let _version = reader.int()?;
        let timeout_ms = reader.int()?;
        let session_id = reader.long()?;
        let password = reader.buffer()?;
        // Servers before 3.4 do not report whether they are read-only.
        if !reader.0.is_empty() && reader.bool()? {
            return Err(ProtocolError::new("a read-only server, which was not requested"));
        }
        reader.end()?;
        let timeout_ms = u32::try_from(timeout_ms).unwrap_or(0);
        if timeout_ms == 0 {
            self.state = State::Over;
            self.resumption = None;
            return Ok(Event::Expired);
        }
        let password =
            password.try_into().map_err(|_| format!("a password of {} bytes", password.len()))?;
        self.state = State::Connected;
        self.resumption = Some(Resumption { session_id, password, last_zxid: self.last_zxid });
        Ok(Event::Connected { session_id, timeout_ms })
    }
}

/// Appends a `MultiHeader`: type, done, error.
fn put_multi_header(out: &mut Vec<u8>, operation: i32) {
    put_int(out, operation);
    out.push((operation == MULTI_END).into());
    put_int(out, -1);
}

/// Returns the number after `xid`. Negative numbers are reserved, so it wraps to 1.
fn after(xid: Xid) -> Xid {
    Xid(xid.0.checked_add(1).unwrap_or(1))
}

/// Appends input to `partial` until it has `wanted` bytes. Returns true once it has.
fn fill(partial: &mut Vec<u8>, wanted: usize, input: &mut &[u8]) -> bool {
    let missing = wanted.saturating_sub(partial.len());
    let (taken, rest) = input.split_at(missing.min(input.len()));
    partial.extend_from_slice(taken);
    *input = rest;
    partial.len() >= wanted
}

impl<'a> Reader<'a> {
    fn reply(&mut self, operation: i32) -> Result<Reply<'a>, ProtocolError> {
        Ok(match operation {
            CREATE => Reply::Created(self.string()?),
            DELETE => Reply::Deleted,
            EXISTS | SET_DATA => Reply::Stat(self.stat()?),
            GET_DATA => Reply::Data { data: self.buffer()?, stat: self.stat()? },
            GET_CHILDREN => Reply::Children(self.children()?),
            MULTI | MULTI_READ => Reply::Multi(self.results()?),
            SYNC => {
                self.string()?;
                Reply::Synced
            }
            ADD_WATCH => match self.int()? {
                0 => Reply::Watching,
                error => return Err(format!("a watch was added with {}", ErrorCode(error)).into()),
            },
            _ => Reply::Closed,
        })
    }

    /// Checks all results now, so that iterating cannot fail.
    fn results(&mut self) -> Result<Results<'a>, ProtocolError> {
        let results = Results { rest: self.clone() };
        while self.result()?.is_some() {}
        Ok(results)
    }

    /// Reads one result of a transaction: a `MultiHeader` (type, done, error), and the answer; `None` after the last.
    #[allow(clippy::type_complexity, reason = "it is private, and has one reader")]
    fn result(&mut self) -> Result<Option<Result<NodeResult<'a>, ErrorCode>>, ProtocolError> {
        let (operation, is_end) = (self.int()?, self.bool()?);
        self.int()?; // its error, which the answer repeats
        Ok(match operation {
            _ if is_end => None,
            MULTI_END => Some(Err(ErrorCode(self.int()?))),
            CREATE | SET_DATA | GET_DATA => Some(Ok(match self.reply(operation)? {
                Reply::Data { data, stat } => NodeResult::Data { data, stat },
                _ => NodeResult::Written,
            })),
            other => return Err(format!("a result of operation {other} in a transaction").into()),
        })
    }

    /// Reads a `WatcherEvent`. `zxid` is that of its header.
    fn watched(&mut self, zxid: i64) -> Result<Event<'a>, ProtocolError> {
        let change = Change::new(self.int()?);
        let (state, path) = (self.int()?, self.string()?);
        Ok(Event::Watched { change, state, path, zxid: (zxid > 0).then_some(zxid) })
    }
}

#[cfg(test)]
mod tests;
