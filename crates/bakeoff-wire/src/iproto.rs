//! Implements a client session with Tarantool over IPROTO, its binary protocol.
//!
//! The server sends a greeting with a salt. A named user proves knowledge of the password with it. Then each request
//! carries a number, and so does its answer. Many can be in flight, and answers come in any order. No memory is
//! reserved for a claimed length.
//!
//! Sources: "Binary protocol" in Tarantool's documentation, and `iproto_constants.h` and `scramble.h` in
//! <https://github.com/tarantool/tarantool> for the numbers and the proof.
//!
//! Not here: streams, transactions, prepared statements and SQL, replication, `update` and `upsert`, TLS, the purpose
//! of a space or a function.

mod error;
mod packet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

pub use self::error::{ErrorCode, ServerError};
use self::packet::{framed, put_list, put_number, put_text};
use crate::msgpack::{self, Array, Map, Value};
use crate::overhead::Overhead;
use crate::{Busy, ProtocolError};

/// Size of the server's greeting: two lines of 64 bytes.
pub const GREETING_SIZE: usize = 128;
/// Size of the salt for the proof (`SCRAMBLE_SIZE`).
const SALT_SIZE: usize = 20;
/// Maximum kept length of an error text, in bytes.
const MESSAGE_MAX: usize = 1024;

// Types of requests, `enum iproto_type`.
const SELECT: u64 = 0x01;
const INSERT: u64 = 0x02;
const REPLACE: u64 = 0x03;
const DELETE: u64 = 0x05;
const AUTH: u64 = 0x07;
const EVAL: u64 = 0x08;
const CALL: u64 = 0x0a;
const PING: u64 = 0x40;

// Types of answers: success, chunk before the answer, first error code.
const OK: u64 = 0x00;
const CHUNK: u64 = 0x80;
const ERROR: u64 = 0x8000;

// Keys of headers and bodies, `enum iproto_key`. All are below 128, so each takes one byte.
const KEY_TYPE: u64 = 0x00;
const KEY_SYNC: u64 = 0x01;
const KEY_SPACE: u64 = 0x10;
const KEY_INDEX: u64 = 0x11;
const KEY_LIMIT: u64 = 0x12;
const KEY_OFFSET: u64 = 0x13;
const KEY_ITERATOR: u64 = 0x14;
const KEY_KEY: u64 = 0x20;
const KEY_TUPLE: u64 = 0x21;
const KEY_FUNCTION: u64 = 0x22;
const KEY_USER: u64 = 0x23;
const KEY_EXPRESSION: u64 = 0x27;
const KEY_DATA: u64 = 0x30;
const KEY_ERROR: u64 = 0x31;

/// Sets the limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum requests in flight, including abandoned ones without an answer.
    pub max_in_flight: usize,
    /// Maximum size of an answer in bytes.
    pub max_packet: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_in_flight: 1000, max_packet: 16 << 20 }
    }
}

/// Describes a request to Tarantool. Spaces and indexes are numbers; keys and tuples are lists of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Request<'a> {
    /// Pings the server; answered without data.
    Ping,
    /// Calls a stored function; answered by its results.
    Call {
        /// Name of the function.
        function: &'a str,
        /// Arguments of the call.
        arguments: &'a [Value<'a>],
    },
    /// Executes Lua code; answered by its results.
    Eval {
        /// Lua source code.
        expression: &'a str,
        /// Values of its `...`.
        arguments: &'a [Value<'a>],
    },
    /// Reads tuples.
    Select {
        /// Number of the space.
        space: u32,
        /// Number of the index.
        index: u32,
        /// Range of tuples, relative to the key.
        iterator: IteratorType,
        /// Number of tuples to skip.
        offset: u32,
        /// Maximum number of tuples.
        limit: u32,
        /// Key at which the range starts.
        key: &'a [Value<'a>],
    },
    /// Stores a new tuple; answered by the tuple, or [`ErrorCode::TUPLE_FOUND`] if its key exists.
    Insert {
        /// Number of the space.
        space: u32,
        /// Tuple to store.
        tuple: &'a [Value<'a>],
    },
    /// Stores a tuple, replacing one with the same key; answered by the tuple.
    Replace {
        /// Number of the space.
        space: u32,
        /// Tuple to store.
        tuple: &'a [Value<'a>],
    },
    /// Removes a tuple; answered by it, or by nothing if there was none.
    Delete {
        /// Number of the space.
        space: u32,
        /// Number of the index.
        index: u32,
        /// Key of the tuple.
        key: &'a [Value<'a>],
    },
}

/// Selects the tuples of a `select`, relative to its key (`enum iterator_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IteratorType {
    /// Tuples with the key.
    Equal = 0,
    /// All tuples, in order.
    All = 2,
    /// Tuples before the key, backwards.
    Less = 3,
    /// The key's tuples and earlier ones, backwards.
    LessOrEqual = 4,
    /// The key's tuples and later ones.
    GreaterOrEqual = 5,
    /// Tuples after the key.
    Greater = 6,
}

/// Identifies a request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncId(u64);

impl SyncId {
    /// Returns the number in the protocol.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns a place that is unique among the requests in flight, below [`Limits::max_in_flight`].
    pub fn place(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// Returns the number of the `serial`-th request, which occupies `place`.
    fn new(serial: u32, place: usize) -> Self {
        Self(u64::from(serial) << 32 | place as u64)
    }

    fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Holds a message of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// Authentication succeeded; requests can be sent.
    Ready {
        /// Server version, such as `2.6.0`.
        version: &'a str,
    },
    /// Authentication failed. The connection is unusable.
    Refused(ServerError),
    /// Answer to a request.
    Answer {
        /// Request that it answers.
        sync: SyncId,
        /// List of tuples, or of a function's results.
        result: Result<Array<'a>, ServerError>,
    },
}

/// Identifies the user of a session.
#[derive(Clone)]
struct User {
    name: String,
    password: String,
}

/// Holds one session on one connection. It has no `Debug` because it holds a password.
pub struct Session {
    limits: Limits,
    user: Option<User>,
    state: State,
    version: String,
    /// Requests in flight and free places.
    places: Vec<Place>,
    free: Vec<usize>,
    /// Number of requests sent, wrapping.
    serial: u32,
    /// Start of an incomplete answer.
    partial: Vec<u8>,
    /// Pushed packets since the last answer.
    overhead: Overhead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The greeting has not arrived yet.
    Waiting,
    /// The proof is sent.
    Proving,
    Ready,
    /// Authentication failed.
    Over,
    /// The server broke the protocol.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    InFlight(u32),
    /// Abandoned: the caller no longer waits for the answer.
    GivenUp(u32),
}

impl Session {
    /// Creates a session of the user `guest`, which has no password.
    pub fn guest() -> Self {
        Self::with_limits(None, Limits::default())
    }

    /// Creates a session of a user.
    pub fn new(user: &str, password: &str) -> Self {
        Self::with_limits(Some((user, password)), Limits::default())
    }

    /// Creates a session of a user, or of the guest, with other limits.
    pub fn with_limits(user: Option<(&str, &str)>, limits: Limits) -> Self {
        let user = user
            .map(|(name, password)| User { name: name.to_owned(), password: password.to_owned() });
        Self {
            limits,
            user,
            state: State::Waiting,
            version: String::new(),
            places: Vec::new(),
            free: Vec::new(),
            serial: 0,
            partial: Vec::new(),
            overhead: Overhead::default(),
        }
    }

    /// Returns how many more requests can be sent now; 0 until [`Event::Ready`].
    pub fn capacity(&self) -> usize {
        match self.state {
            State::Ready => self.limits.max_in_flight.saturating_sub(self.in_flight()),
            State::Waiting | State::Proving | State::Over | State::Failed => 0,
        }
    }

    /// Returns the number of requests in flight, including abandoned ones without an answer.
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Writes a request.
    ///
    /// # Errors
    /// Returns [`Busy`] if [`Session::capacity`] is 0; nothing is written then.
    pub fn request(&mut self, request: Request<'_>, out: &mut Vec<u8>) -> Result<SyncId, Busy> {
        if self.capacity() == 0 {
            return Err(Busy);
        }
        let sync = self.next_sync();
        let (kind, entries) = match request {
            Request::Ping => (PING, 0),
            Request::Call { .. } => (CALL, 2),
            Request::Eval { .. } => (EVAL, 2),
            Request::Select { .. } => (SELECT, 6),
            Request::Insert { .. } => (INSERT, 2),
            Request::Replace { .. } => (REPLACE, 2),
            Request::Delete { .. } => (DELETE, 3),
        };
        framed(kind, sync, out, |out| {
            msgpack::put_map(entries, out);
            match request {
                Request::Ping => {}
                Request::Call { function, arguments } => {
                    put_text(KEY_FUNCTION, function, out);
                    put_list(KEY_TUPLE, arguments, out);
                }
                Request::Eval { expression, arguments } => {
                    put_text(KEY_EXPRESSION, expression, out);
                    put_list(KEY_TUPLE, arguments, out);
                }
                Request::Select { space, index, iterator, offset, limit, key } => {
                    put_number(KEY_SPACE, space, out);
                    put_number(KEY_INDEX, index, out);
                    put_number(KEY_LIMIT, limit, out);
                    put_number(KEY_OFFSET, offset, out);
                    put_number(KEY_ITERATOR, iterator as u32, out);
                    put_list(KEY_KEY, key, out);
                }
                Request::Insert { space, tuple } | Request::Replace { space, tuple } => {
                    put_number(KEY_SPACE, space, out);
                    put_list(KEY_TUPLE, tuple, out);
                }
                Request::Delete { space, index, key } => {
                    put_number(KEY_SPACE, space, out);
                    put_number(KEY_INDEX, index, out);
                    put_list(KEY_KEY, key, out);
                }
            }
        });
        Ok(sync)
    }

    /// Abandons a request. Its answer is not reported, but it stays in flight until the answer arrives.
    pub fn give_up(&mut self, sync: SyncId) {
        if let Some(place) = self.places.get_mut(sync.place())
            && *place == Place::InFlight(sync.serial())
        {
            *place = Place::GivenUp(sync.serial());
        }
    }

    fn next_sync(&mut self) -> SyncId {
        // Serial numbers wrap. Only an answer that is 2^32 requests late could be mistaken for another.
        self.serial = self.serial.wrapping_add(1);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::Free);
            self.places.len() - 1
        });
        if let Some(taken) = self.places.get_mut(place) {
            *taken = Place::InFlight(self.serial);
        }
        SyncId::new(self.serial, place)
    }

    /// Consumes all of `input`, writes the proof after the greeting, and calls `on` with each event.
    ///
    /// # Errors
    /// Fails if the server breaks the protocol. The connection is then unusable, and all further calls fail.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        let result = match self.state {
            State::Failed => Err(ProtocolError::new("received after an error")),
            _ => self.receive_packets(input, out, on),
        };
        if result.is_err() {
            self.state = State::Failed;
        }
        result.map_err(|error| error.within("tarantool"))
    }

    fn receive_packets(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        // A started packet is completed first. Complete packets are read in place.
        while !self.partial.is_empty() && !input.is_empty() {
            let mut partial = std::mem::take(&mut self.partial);
            let wanted = self.wanted(&partial)?.unwrap_or(partial.len() + 1);
            let missing = wanted.saturating_sub(partial.len());
            let (taken, rest) = input.split_at(missing.min(input.len()));
            partial.extend_from_slice(taken);
            input = rest;
            if self.wanted(&partial)?.is_some_and(|wanted| wanted <= partial.len()) {
                self.packet(&partial, out, on)?;
                partial.clear();
                if partial.capacity() > 64 << 10 {
                    partial = Vec::new();
                }
            }
            self.partial = partial;
        }
        while let Some(wanted) = self.wanted(input)?
            && let Some((packet, rest)) = input.split_at_checked(wanted)
        {
            self.packet(packet, out, on)?;
            input = rest;
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }

    /// Returns the length of the first packet, including its length field; `None` if it is not known yet.
    fn wanted(&self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if self.state == State::Waiting {
            return Ok(Some(GREETING_SIZE));
        }
        let Some(first) = input.first() else { return Ok(None) };
        if !matches!(first, 0x00..=0x7f | 0xcc..=0xcf) {
            return Err(ProtocolError::new("a packet that does not begin with its length"));
        }
        // An incomplete number means that more bytes are needed.
        let Ok((Value::Unsigned(length), rest)) = msgpack::read(input) else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|&it| it <= self.limits.max_packet);
        let length = length.ok_or("a packet larger than the limit")?;
        Ok(Some(input.len() - rest.len() + length))
    }

    /// Handles one complete packet, or the greeting.
    fn packet(
        &mut self,
        packet: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        if self.state == State::Waiting {
            return self.greeted(packet, out, on);
        }
        let malformed = |why: msgpack::DecodeError| why.to_string();
        let (_, packet) = msgpack::read(packet).map_err(malformed)?; // its length
        let (header, body) = msgpack::read(packet).map_err(malformed)?;
        let Value::Map(header) = header else {
            return Err(ProtocolError::new("a packet without a header"));
        };
        let kind = number(&header, KEY_TYPE).ok_or("a header without a type")?;
        let sync = SyncId(number(&header, KEY_SYNC).ok_or("a header without a number")?);
        let body = match body {
            [] => Map::default(),
            body => match msgpack::read(body).map_err(malformed)? {
                (Value::Map(body), []) => body,
                (Value::Map(_), rest) => {
                    return Err(ProtocolError::new(format!(
                        "a packet that is {} bytes too long",
                        rest.len()
                    )));
                }
                _ => return Err(ProtocolError::new("a body that is not a map")),
            },
        };
        let place = self.places.get(sync.place()).copied().unwrap_or(Place::Free);
        let is_awaited = match place {
            Place::InFlight(serial) if serial == sync.serial() => true,
            Place::GivenUp(serial) if serial == sync.serial() => false,
            _ => {
                return Err(ProtocolError::new(format!(
                    "an answer to {}, which is not in flight",
                    sync.number()
                )));
            }
        };
        let result = match kind {
            CHUNK => return self.overhead.add(packet.len(), "pushed packets"),
            OK => Ok(data(&body)?),
            ERROR.. => Err(server_error(kind - ERROR, &body)),
            _ => return Err(ProtocolError::new(format!("a packet of type {kind}"))),
        };
        self.overhead.reset();
        self.free(sync);
        if self.state == State::Proving {
            self.proved(result.map(drop), on);
        } else if is_awaited {
            on(Event::Answer { sync, result });
        }
        Ok(())
    }

    fn free(&mut self, sync: SyncId) {
        if let Some(place) = self.places.get_mut(sync.place()) {
            *place = Place::Free;
            self.free.push(sync.place());
        }
    }

    /// Handles the greeting: `Tarantool 2.6.0 (Binary) UUID`, and the salt in Base64.
    fn greeted(
        &mut self,
        greeting: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        let (first, second) = greeting.split_at(GREETING_SIZE / 2);
        let line = |bytes| std::str::from_utf8(bytes).map(str::trim_end).ok();
        let mut words = line(first).unwrap_or_default().split(' ');
        let (name, version, protocol) = (words.next(), words.next(), words.next());
        let (Some("Tarantool"), Some(version), Some("(Binary)")) = (name, version, protocol) else {
            return Err(ProtocolError::new("not a greeting of the binary protocol"));
        };
        version.clone_into(&mut self.version);
        let Some(user) = self.user.clone() else {
            self.state = State::Ready;
            on(Event::Ready { version });
            return Ok(());
        };
        let salt = line(second).and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.as_deref().and_then(|salt| salt.first_chunk::<SALT_SIZE>());
        let proof = proof(&user.password, salt.ok_or("a greeting without a salt")?);
        self.state = State::Proving;
        let sync = self.next_sync();
        framed(AUTH, sync, out, |out| {
            msgpack::put_map(2, out);
            put_text(KEY_USER, &user.name, out);
            put_list(KEY_TUPLE, &[Value::Text(b"chap-sha1"), Value::Bytes(&proof)], out);
        });
        Ok(())
    }

    fn proved(&mut self, result: Result<(), ServerError>, on: &mut dyn FnMut(Event<'_>)) {
        match result {
            Ok(()) => {
                self.state = State::Ready;
                on(Event::Ready { version: &self.version });
            }
            Err(error) => {
                self.state = State::Over;
                on(Event::Refused(error));
            }
        }
    }
}

/// Computes the `chap-sha1` proof of a password.
fn proof(password: &str, salt: &[u8; SALT_SIZE]) -> [u8; SALT_SIZE] {
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mut salted = Sha1::new();
    salted.update(salt);
    salted.update(twice);
    let mut proof: [u8; SALT_SIZE] = once.into();
    proof.iter_mut().zip(salted.finalize()).for_each(|(byte, other)| *byte ^= other);
    proof
}

/// Returns the value of a protocol key.
fn entry<'a>(map: &Map<'a>, key: u64) -> Option<Value<'a>> {
    map.clone().find_map(|(name, value)| (name == Value::Unsigned(key)).then_some(value))
}

fn number(map: &Map<'_>, key: u64) -> Option<u64> {
    entry(map, key)?.unsigned()
}

/// Returns the answer in a body; a ping's has none.
fn data<'a>(body: &Map<'a>) -> Result<Array<'a>, ProtocolError> {
    match entry(body, KEY_DATA) {
        None => Ok(Array::default()),
        Some(Value::Array(data)) => Ok(data),
        Some(_) => Err(ProtocolError::new("an answer that is not a list")),
    }
}

fn server_error(code: u64, body: &Map<'_>) -> ServerError {
    let text = entry(body, KEY_ERROR).and_then(|text| text.bytes()).unwrap_or_default();
    let text = &text[..text.len().min(MESSAGE_MAX)];
    ServerError {
        code: ErrorCode(u32::try_from(code).unwrap_or(u32::MAX)),
        message: String::from_utf8_lossy(text).trim_end_matches('\u{fffd}').to_owned(),
    }
}

#[cfg(test)]
mod tests;
