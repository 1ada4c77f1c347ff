//! A client session with ZooKeeper: its own protocol, in the encoding called jute.
//!
//! Requests are numbered and answered in order, so many can be in flight and what the oldest one
//! was says how to read the next reply.
//!
//! Sources: `zookeeper.jute` in <https://github.com/apache/zookeeper> for the records, and
//! `ZooDefs.OpCode`, `KeeperException.Code` and `ClientCnxn` there for the numbers.
//!
//! Not here: watches (none is set, and notifications are skipped), access control beyond
//! "anyone may do anything", transactions, choosing a server, and the clock that
//! says when a ping is due (a third of the timeout after the last request).

mod error;
mod jute;

use std::collections::VecDeque;
use std::fmt;

use crate::{Busy, ProtocolError};
pub use error::ErrorCode;
pub use jute::{Children, Stat};
use jute::{Reader, framed, put_buffer, put_int, put_long};

/// Passwords of sessions have this many bytes.
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
const AUTH: i32 = 100;
const CLOSE: i32 = -11;

// Numbers that stand for no request, `ClientCnxn`.
const NOTIFICATION_XID: i32 = -1;
const PING_XID: i32 = -2;
const AUTH_XID: i32 = -4;

/// A list of one entry that allows all (31) to `world:anyone`.
const OPEN_ACL: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";

/// A session to go on with on another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumption {
    /// The session's number.
    pub session_id: i64,
    /// The proof that it is ours.
    pub password: [u8; PASSWORD],
    /// The last change seen: a server that has not seen it refuses the session.
    pub last_zxid: i64,
}

/// The limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests in flight at once at most. The server's own `globalOutstandingLimit` for
    /// all its sessions together is 1000 by default.
    pub max_in_flight: usize,
    /// The largest reply taken, in bytes.
    pub max_frame: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_in_flight: 1000, max_frame: 16 << 20 }
    }
}

/// A request to ZooKeeper. Paths are absolute. A version is the one the node must have, for
/// which `None` means any. A path or data of 2 GiB or more is answered by nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Creates a node that anyone may do anything with; answered by [`Reply::Created`].
    Create {
        /// Where.
        path: &'a str,
        /// Its content.
        data: &'a [u8],
        /// How long it lives and whether it is numbered.
        mode: CreateMode,
    },
    /// Deletes a node; answered by [`Reply::Deleted`].
    Delete {
        /// Which.
        path: &'a str,
        /// The version it must have.
        version: Option<i32>,
    },
    /// Asks for what is known about a node; answered by [`Reply::Stat`], or
    /// [`ErrorCode::NO_NODE`].
    Exists {
        /// Which.
        path: &'a str,
    },
    /// Asks for the content of a node; answered by [`Reply::Data`].
    GetData {
        /// Which.
        path: &'a str,
    },
    /// Replaces the content of a node; answered by [`Reply::Stat`].
    SetData {
        /// Which.
        path: &'a str,
        /// The new content.
        data: &'a [u8],
        /// The version it must have.
        version: Option<i32>,
    },
    /// Asks for the names of a node's children; answered by [`Reply::Children`].
    GetChildren {
        /// Which.
        path: &'a str,
    },
    /// Lets the server catch up with the leader, so that reads after it are current; answered
    /// by [`Reply::Synced`].
    Sync {
        /// Any path; servers catch up as a whole.
        path: &'a str,
    },
    /// Ends the session; answered by [`Reply::Closed`]. Nothing can be asked after it.
    Close,
}

/// The lifetime of a node (`CreateMode`).
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

/// The number of a request: 1 and up, in the order asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Xid(i32);

impl Xid {
    /// The number in the protocol.
    pub fn number(self) -> i32 {
        self.0
    }
}

/// A message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// The session exists and requests can be sent.
    Connected {
        /// Its number.
        session_id: i64,
        /// The timeout that the server granted, in milliseconds.
        timeout_ms: u32,
    },
    /// The session to be resumed is gone, and its ephemeral nodes with it. The connection is over.
    Expired,
    /// The answer to the oldest open request.
    Reply {
        /// Which request.
        xid: Xid,
        /// The server's last change when it answered, or of the change made.
        zxid: i64,
        /// Its answer.
        result: Result<Reply<'a>, ErrorCode>,
    },
    /// The answer to a ping.
    Pong,
}

/// A successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The path created, with its number if sequential.
    Created(&'a str),
    /// The node is deleted.
    Deleted,
    /// The node's metadata.
    Stat(Stat),
    /// The node's content.
    Data {
        /// The content.
        data: &'a [u8],
        /// The node's metadata.
        stat: Stat,
    },
    /// The names of children, without the path, in no order.
    Children(Children<'a>),
    /// The server has caught up.
    Synced,
    /// The session has ended.
    Closed,
}

/// One session on one connection.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    timeout_ms: u32,
    identity: Option<Identity>,
    resumption: Option<Resumption>,
    last_zxid: i64,
    state: State,
    /// The operations in flight, oldest first; that one has the number `oldest`.
    in_flight: VecDeque<i32>,
    oldest: Xid,
    next: Xid,
    /// The beginning of a reply whose end has not arrived.
    partial: Vec<u8>,
}

/// A client's proof of who it is: `AuthPacket`. It has a `Debug` of its own, which does not tell the secret.
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
    /// No answer to the ConnectRequest yet.
    Connecting,
    Connected,
    /// Closing or expired: nothing more can be asked.
    Over,
    /// The server broke the protocol.
    Failed,
}

impl Session {
    /// A new session that the server may end after `timeout_ms` without a sign of life. The
    /// server grants what it likes, by default 2 to 20 of its ticks.
    pub fn new(timeout_ms: u32) -> Self {
        Self::with_limits(timeout_ms, None, Limits::default())
    }

    /// A session resumed from another connection.
    pub fn resume(timeout_ms: u32, resumption: Resumption) -> Self {
        Self::with_limits(timeout_ms, Some(resumption), Limits::default())
    }

    /// A session new or resumed, with other limits.
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
        }
    }

    /// Shows who the client is when it opens: `digest` and `user:password`. A server that refuses it breaks the
    /// session off; with scheme `digest` none does, and another user is only refused what it asks for.
    pub fn authenticate(&mut self, scheme: &str, secret: &[u8]) {
        self.identity = Some(Identity { scheme: scheme.to_owned(), secret: secret.to_vec() });
    }

    /// Writes the ConnectRequest, and who the client is where that is shown.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let (session_id, password) =
            self.resumption.map_or((0, [0; PASSWORD]), |r| (r.session_id, r.password));
        framed(out, |out| {
            put_int(out, 0); // protocol version
            put_long(out, self.last_zxid);
            put_int(out, i32::try_from(self.timeout_ms).unwrap_or(i32::MAX));
            put_long(out, session_id);
            put_buffer(out, &password);
            out.push(0); // a read-only server will not do
        });
        if let Some(Identity { scheme, secret }) = &self.identity {
            framed(out, |out| {
                put_int(out, AUTH_XID);
                put_int(out, AUTH);
                put_int(out, 0); // its type, which servers do not look at
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

    /// Returns how many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns what resumes this session on another connection, once connected.
    pub fn resumption(&self) -> Option<Resumption> {
        self.resumption.map(|resumption| Resumption { last_zxid: self.last_zxid, ..resumption })
    }

    /// Writes a request.
    ///
    /// # Errors
    /// [`Busy`] when [`Session::capacity`] is 0; nothing is written then.
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
            Request::Close => CLOSE,
        };
        self.in_flight.push_back(operation);
        if operation == CLOSE {
            self.state = State::Over;
        }
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
                Request::Exists { path }
                | Request::GetData { path }
                | Request::GetChildren { path } => {
                    put_buffer(out, path.as_bytes());
                    out.push(0); // no watch
                }
                Request::SetData { path, data, version } => {
                    put_buffer(out, path.as_bytes());
                    put_buffer(out, data);
                    put_int(out, version.unwrap_or(-1));
                }
                Request::Sync { path } => put_buffer(out, path.as_bytes()),
                Request::Close => {}
            }
        });
        Ok(xid)
    }

    /// Writes a sign of life, answered by [`Event::Pong`]. Before the session is connected it
    /// writes nothing.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Connected {
            framed(out, |out| {
                put_int(out, PING_XID);
                put_int(out, PING);
            });
        }
    }

    /// Takes everything received and calls `on` for all that it says. Nothing is ever written;
    /// there is a place for it because all sessions have one.
    ///
    /// # Errors
    /// When the server breaks the protocol. The connection can then not be used any more, and
    /// all further calls fail; the session may still be resumed on another.
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
            NOTIFICATION_XID => return Ok(()),
            PING_XID => {
                reader.end()?;
                on(Event::Pong);
                return Ok(());
            }
            AUTH_XID if error == 0 => return Ok(()),
            AUTH_XID => {
                let why = format!("the client's credentials were refused: {}", ErrorCode(error));
                return Err(ProtocolError::new(why));
            }
            _ => {}
        }
        let xid = self.oldest;
        let Some(&operation) = self.in_flight.front() else {
            return Err(ProtocolError::new(format!("a reply to {number}, but nothing was asked")));
        };
        if number != xid.0 {
            return Err(ProtocolError::new(format!(
                "a reply to {number} where one to {} was due",
                xid.0
            )));
        }
        let result = if error == 0 {
            let reply = reader.reply(operation)?;
            reader.end()?;
            Ok(reply)
        } else {
            Err(ErrorCode(error))
        };
        self.in_flight.pop_front();
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
        // Servers before 3.4 do not say whether they are read-only.
        if !reader.0.is_empty() && reader.bool()? {
            return Err(ProtocolError::new("a read-only server, which was not asked for"));
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

/// The number after `xid`. Negative ones have meanings of their own, so it begins again at 1.
fn after(xid: Xid) -> Xid {
    Xid(xid.0.checked_add(1).unwrap_or(1))
}

/// Appends input to `partial` until that has `wanted` bytes; says whether it has.
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
            SYNC => {
                self.string()?;
                Reply::Synced
            }
            _ => Reply::Closed,
        })
    }
}

#[cfg(test)]
mod tests;
