//! A client session with Tarantool: IPROTO, its binary protocol.
//!
//! The server greets first, with a salt; whoever has a name proves by it to know the password.
//! From then on each request carries a number, and so does its answer: many can be in flight, and
//! they are answered in any order. Nothing is set aside for what a length only claims.
//!
//! Sources: "Binary protocol" in Tarantool's documentation, and `iproto_constants.h` and
//! `scramble.h` in <https://github.com/tarantool/tarantool> for the numbers and the proof.
//!
//! Not here: streams, transactions, prepared statements and SQL, replication, `update` and
//! `upsert`, TLS, and what a space or a function is for.

mod error;
mod packet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

pub use self::error::{ErrorCode, ServerError};
use self::packet::{framed, put_list, put_number, put_text};
use crate::msgpack::{self, Array, Map, Value};
use crate::{Busy, ProtocolError};

/// The server's greeting is two lines of 64 bytes each.
pub const GREETING_SIZE: usize = 128;
/// The salt that a proof is made with (`SCRAMBLE_SIZE`).
const SALT_SIZE: usize = 20;
/// The longest text of an error that is kept.
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

// Types of answers: done, something sent before the answer, and from here on errors.
const OK: u64 = 0x00;
const CHUNK: u64 = 0x80;
const ERROR: u64 = 0x8000;

// Keys of headers and bodies, `enum iproto_key`. All are below 128, and so one byte each.
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

/// The limits of a session.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests in flight at once at most, those given up and not yet answered among them.
    pub max_in_flight: usize,
    /// The largest answer taken, in bytes.
    pub max_packet: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_in_flight: 1000, max_packet: 16 << 20 }
    }
}

/// A request to Tarantool. Spaces and indexes go by their numbers; keys and tuples are lists of
/// values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Request<'a> {
    /// Asks for a sign of life; answered by nothing.
    Ping,
    /// Calls a function that is stored; answered by what it returns.
    Call {
        /// Its name.
        function: &'a str,
        /// Its arguments.
        arguments: &'a [Value<'a>],
    },
    /// Has Lua executed; answered by what it returns.
    Eval {
        /// The Lua.
        expression: &'a str,
        /// The values of its `...`.
        arguments: &'a [Value<'a>],
    },
    /// Asks for tuples; answered by them.
    Select {
        /// Of which space.
        space: u32,
        /// By which index.
        index: u32,
        /// Which of them, seen from the key.
        iterator: IteratorType,
        /// How many to leave out.
        offset: u32,
        /// How many at most.
        limit: u32,
        /// The key.
        key: &'a [Value<'a>],
    },
    /// Stores a tuple whose key is not there yet; answered by the tuple, or
    /// [`ErrorCode::TUPLE_FOUND`].
    Insert {
        /// In which space.
        space: u32,
        /// The tuple.
        tuple: &'a [Value<'a>],
    },
    /// Stores a tuple in place of one with its key, if there is one; answered by the tuple.
    Replace {
        /// In which space.
        space: u32,
        /// The tuple.
        tuple: &'a [Value<'a>],
    },
    /// Removes a tuple; answered by it, or by nothing if there was none.
    Delete {
        /// Of which space.
        space: u32,
        /// By which index.
        index: u32,
        /// Its key.
        key: &'a [Value<'a>],
    },
}

/// Which tuples a `select` is for, seen from its key (`enum iterator_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IteratorType {
    /// Those with the key.
    Equal = 0,
    /// All, in order.
    All = 2,
    /// Those before the key, backwards.
    Less = 3,
    /// The key's and those before, backwards.
    LessOrEqual = 4,
    /// The key's and those after.
    GreaterOrEqual = 5,
    /// Those after the key.
    Greater = 6,
}

/// Which request of a session is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyncId(u64);

impl SyncId {
    /// The number in the protocol.
    pub fn number(self) -> u64 {
        self.0
    }

    /// A place that no other request in flight has, below [`Limits::max_in_flight`].
    pub fn place(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    /// The number of the `serial`-th request that has a place.
    fn new(serial: u32, place: usize) -> Self {
        Self(u64::from(serial) << 32 | place as u64)
    }

    fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A message of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// It let us in: requests can be sent.
    Ready {
        /// Its version: `2.6.0`.
        version: &'a str,
    },
    /// It did not let us in. The connection is over.
    Refused(ServerError),
    /// The answer to a request.
    Answer {
        /// Which request.
        sync: SyncId,
        /// Its answer: a list of tuples, or of a function's results.
        result: Result<Array<'a>, ServerError>,
    },
}

/// The user of a session.
#[derive(Clone)]
struct User {
    name: String,
    password: String,
}

/// One session on one connection. It has no `Debug`, for it knows a password.
pub struct Session {
    limits: Limits,
    user: Option<User>,
    state: State,
    version: String,
    /// The content of each place: requests in flight, and places that are free.
    places: Vec<Place>,
    /// The places that are free.
    free: Vec<usize>,
    /// How many requests were sent.
    serial: u32,
    /// The beginning of an answer whose end has not arrived.
    partial: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No greeting yet.
    Waiting,
    /// The proof is out.
    Proving,
    Ready,
    /// It was refused.
    Over,
    /// The server broke the protocol.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    InFlight(u32),
    /// Nobody waits for the answer any more.
    GivenUp(u32),
}

impl Session {
    /// A session of whoever is nobody: the user `guest`, who has no password.
    pub fn guest() -> Self {
        Self::with_limits(None, Limits::default())
    }

    /// A session of a user.
    pub fn new(user: &str, password: &str) -> Self {
        Self::with_limits(Some((user, password)), Limits::default())
    }

    /// A session of a user with a password, or of the guest, with other limits.
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
        }
    }

    /// Returns how many more requests can be sent now; 0 until [`Event::Ready`].
    pub fn capacity(&self) -> usize {
        match self.state {
            State::Ready => self.limits.max_in_flight.saturating_sub(self.in_flight()),
            State::Waiting | State::Proving | State::Over | State::Failed => 0,
        }
    }

    /// Returns how many requests are in flight, those given up and not yet answered among them.
    pub fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Writes a request.
    ///
    /// # Errors
    /// [`Busy`] when [`Session::capacity`] is 0; nothing is written then.
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

    /// Gives a request up: its answer, should it come, is not told of. It stays in flight until then.
    pub fn give_up(&mut self, sync: SyncId) {
        if let Some(place) = self.places.get_mut(sync.place())
            && *place == Place::InFlight(sync.serial())
        {
            *place = Place::GivenUp(sync.serial());
        }
    }

    fn next_sync(&mut self) -> SyncId {
        // Serial numbers wrap; an answer would have to be that late to be taken for another.
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

    /// Takes everything received, writes what has to be answered (the proof, after the greeting),
    /// and calls `on` for all that the server says.
    ///
    /// # Errors
    /// When the server breaks the protocol. The connection can then not be used any more, and all
    /// further calls fail.
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
        // What has begun is put together first; what is whole is read where it lies.
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

    /// Returns how long the first packet is, its length among it; `None` when it cannot be told yet.
    fn wanted(&self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if self.state == State::Waiting {
            return Ok(Some(GREETING_SIZE));
        }
        let Some(first) = input.first() else { return Ok(None) };
        if !matches!(first, 0x00..=0x7f | 0xcc..=0xcf) {
            return Err(ProtocolError::new("a packet that does not begin with its length"));
        }
        // What is no whole number yet becomes one.
        let Ok((Value::Unsigned(length), rest)) = msgpack::read(input) else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|&it| it <= self.limits.max_packet);
        let length = length.ok_or("a packet of more bytes than are taken")?;
        Ok(Some(input.len() - rest.len() + length))
    }

    /// Takes one whole packet, or the greeting.
    fn packet(
        &mut self,
        packet: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        if self.state == State::Waiting {
            return self.greeted(packet, out, on);
        }
        let malformed = |why: msgpack::Malformed| why.to_string();
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
                _ => return Err(ProtocolError::new("a body that is no map")),
            },
        };
        let place = self.places.get(sync.place()).copied().unwrap_or(Place::Free);
        let is_awaited = match place {
            Place::InFlight(serial) if serial == sync.serial() => true,
            Place::GivenUp(serial) if serial == sync.serial() => false,
            _ => {
                return Err(ProtocolError::new(format!(
                    "an answer to {}, which was not asked",
                    sync.number()
                )));
            }
        };
        let result = match kind {
            CHUNK => return Ok(()),
            OK => Ok(data(&body)?),
            ERROR.. => Err(server_error(kind - ERROR, &body)),
            _ => return Err(ProtocolError::new(format!("a packet of type {kind}"))),
        };
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

    /// Takes the greeting: `Tarantool 2.6.0 (Binary) UUID`, and the salt in Base64.
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
            return Err(ProtocolError::new("no greeting of its binary protocol"));
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

/// Proves knowledge of a password without showing it: `chap-sha1`.
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

/// Returns the value under a key of the protocol.
fn entry<'a>(map: &Map<'a>, key: u64) -> Option<Value<'a>> {
    map.clone().find_map(|(name, value)| (name == Value::Unsigned(key)).then_some(value))
}

fn number(map: &Map<'_>, key: u64) -> Option<u64> {
    entry(map, key)?.unsigned()
}

/// The answer in a body; a ping's has none.
fn data<'a>(body: &Map<'a>) -> Result<Array<'a>, ProtocolError> {
    match entry(body, KEY_DATA) {
        None => Ok(Array::default()),
        Some(Value::Array(data)) => Ok(data),
        Some(_) => Err(ProtocolError::new("an answer that is no list")),
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
