//! Implements a client session with PostgreSQL, protocol version 3, for a few queries: start a session, authenticate
//! by SCRAM-SHA-256, send SQL text, read rows.
//!
//! Source: "Frontend/Backend Protocol" in PostgreSQL's documentation. A message is a type byte, a four-byte length
//! that includes itself, and the body.
//!
//! The messages are our own code because `postgres-protocol` draws the SCRAM nonce itself. Such a session could not
//! be replayed from a transcript.
//!
//! Not here: TLS, prepared statements, COPY, other ways to authenticate.

use std::fmt;

use crate::ProtocolError;
use crate::scram::Scram;

/// Protocol version 3.0.
const PROTOCOL: u32 = 3 << 16;
/// Only supported authentication mechanism.
const MECHANISM: &str = "SCRAM-SHA-256";
/// Maximum size of a received message in bytes.
const MESSAGE_MAX: usize = 16 << 20;

/// Holds one session on one connection.
pub struct Session {
    user: String,
    database: String,
    scram: Scram,
    state: State,
    input: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server has not authenticated us yet.
    Starting,
    /// SCRAM's first message is sent.
    Proving,
    /// SCRAM's last message is sent.
    Proved,
    /// The server has proved its identity.
    Verified,
    /// Authentication succeeded; the server is setting up the session.
    Admitted,
    /// A query may be sent.
    Idle,
    /// A query is running.
    Busy,
    /// The server broke the protocol.
    Broken,
}

/// Holds a message of the server.
#[derive(Debug)]
pub enum Event<'a> {
    /// The session is ready for a query: it has begun, or the last query is complete.
    Ready,
    /// Server setting, such as `server_version` and `15.14`.
    Parameter(&'a str, &'a str),
    /// Row of a result.
    Row(Row<'a>),
    /// The query failed. Before `Ready` this ends the session.
    Failed(ServerError),
}

/// Iterates over the columns of a row; `None` stands for NULL.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Row<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        // The length was checked to fit, and only NULL is negative.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.rest = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(value))
    }
}

/// Holds an error that the server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Five-character SQLSTATE (`28P01`: wrong password).
    pub code: String,
    /// Description in the server's words.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl Session {
    /// Creates a session. `nonce` is printable ASCII without commas and must be new for each session.
    pub fn new(user: &str, password: &str, database: &str, nonce: &str) -> Self {
        Self {
            user: user.to_owned(),
            database: database.to_owned(),
            // The server ignores the name in SCRAM's messages; the startup message has it.
            scram: Scram::new("", password, nonce),
            state: State::Starting,
            input: Vec::new(),
        }
    }

    /// Appends the startup message.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&PROTOCOL.to_be_bytes());
        for (name, value) in [("user", &self.user), ("database", &self.database)] {
            put_text(out, name);
            put_text(out, value);
        }
        out.push(0);
        set_length(out, begin);
    }

    /// Appends SQL with one or more statements. Returns false while another query is running.
    pub fn query(&mut self, sql: &str, out: &mut Vec<u8>) -> bool {
        if self.state != State::Idle {
            return false;
        }
        self.state = State::Busy;
        message(out, b'Q', |out| put_text(out, sql));
        true
    }

    /// Consumes all of `input`, appends responses, and calls `on` with each event.
    pub fn receive(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        if self.state == State::Broken {
            return Err(ProtocolError::new("received after an error"));
        }
        let mut all = std::mem::take(&mut self.input);
        all.extend_from_slice(input);
        let mut rest = &all[..];
        loop {
            match self.take_one(&mut rest, out, on) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.state = State::Broken;
                    return Err(error);
                }
            }
        }
        self.input = rest.to_vec();
        Ok(())
    }

    /// Handles one message. Returns false if it is incomplete.
    fn take_one(
        &mut self,
        rest: &mut &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, ProtocolError> {
        let Some((&[kind, ref length @ ..], _)) = rest.split_first_chunk::<5>() else {
            return Ok(false);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            return Err(ProtocolError::new(format!("a message of {length} bytes")));
        }
        let Some((whole, after)) = rest.split_at_checked(1 + length) else { return Ok(false) };
        *rest = after;
        self.take(kind, &whole[5..], out, on)?;
        Ok(true)
    }

    fn take(
        &mut self,
        kind: u8,
        body: &[u8],
        out: &mut Vec<u8>,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), ProtocolError> {
        match (kind, self.state) {
            (b'R', State::Starting | State::Proving | State::Proved | State::Verified) => {
                self.authenticate(body, out)
            }
            (b'E', _) => {
                on(Event::Failed(server_error(body)));
                Ok(())
            }
            // Notices and changed settings may come at any time.
            (b'N', _) => Ok(()),
            (b'S', _) => {
                let (name, value) = two_texts(body).ok_or_else(|| malformed("setting"))?;
                on(Event::Parameter(name, value));
                Ok(())
            }
            // Ignore the key for cancelling queries.
            (b'K', State::Admitted) => Ok(()),
            (b'Z', State::Admitted | State::Busy) => {
                self.state = State::Idle;
                on(Event::Ready);
                Ok(())
            }
            (b'D', State::Busy) => {
                on(Event::Row(row(body).ok_or_else(|| malformed("row"))?));
                Ok(())
            }
            // Ignore column names, the end of a statement, and an empty statement.
            (b'T' | b'C' | b'I', State::Busy) => Ok(()),
            _ => Err(ProtocolError::new(format!(
                "message `{}` is out of place",
                char::from(kind).escape_default()
            ))),
        }
    }

    fn authenticate(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let (request, rest) = body.split_first_chunk().ok_or_else(|| malformed("request"))?;
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed("request"));
        match (u32::from_be_bytes(*request), self.state) {
            // Admitted after the proof, or without one if the server trusts us.
            (0, State::Starting | State::Verified) => self.state = State::Admitted,
            (10, State::Starting) => {
                let mut offered = rest.split(|&byte| byte == 0);
                if !offered.any(|name| name == MECHANISM.as_bytes()) {
                    return Err(ProtocolError::new(format!("it does not offer {MECHANISM}")));
                }
                let first = self.scram.first();
                message(out, b'p', |out| {
                    put_text(out, MECHANISM);
                    out.extend_from_slice(&(first.len() as u32).to_be_bytes());
                    out.extend_from_slice(first.as_bytes());
                });
                self.state = State::Proving;
            }
            (11, State::Proving) => {
                let answer = self.scram.answer(text(rest)?)?;
                message(out, b'p', |out| out.extend_from_slice(answer.as_bytes()));
                self.state = State::Proved;
            }
            (12, State::Proved) => {
                self.scram.verify(text(rest)?)?;
                self.state = State::Verified;
            }
            (other, _) => {
                return Err(ProtocolError::new(format!(
                    "it requires authentication of kind {other}, which bakeoff does not support"
                )));
            }
        }
        Ok(())
    }
}

fn malformed(what: &str) -> ProtocolError {
    ProtocolError::new(format!("a malformed {what}"))
}

fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    set_length(out, begin);
}

fn set_length(out: &mut [u8], begin: usize) {
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends text up to its first NUL, and the terminating NUL.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = text.split('\0').next().unwrap_or_default();
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn two_texts(body: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(body).ok()?.strip_suffix('\0')?.split_once('\0')?;
    Some((name, value))
}

/// Returns a row after checking that all its columns are complete.
fn row(body: &[u8]) -> Option<Row<'_>> {
    let (count, rest) = body.split_first_chunk()?;
    let row = Row { rest, left: u16::from_be_bytes(*count) };
    (row.clone().count() == usize::from(row.left)).then_some(row)
}

/// Parses error fields, each a byte and a text; `C` is the code, `M` the message.
fn server_error(body: &[u8]) -> ServerError {
    let mut error = ServerError { code: String::new(), message: String::new() };
    for field in body.split(|&byte| byte == 0) {
        match field {
            [b'C', code @ ..] => error.code = String::from_utf8_lossy(code).into_owned(),
            [b'M', text @ ..] => error.message = String::from_utf8_lossy(text).into_owned(),
            _ => {}
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(session: &mut Session, input: &[u8]) -> (Vec<String>, Result<(), ProtocolError>) {
        let (mut seen, mut out) = (Vec::new(), Vec::new());
        let result = session.receive(input, &mut out, &mut |event| {
            seen.push(match event {
                Event::Row(row) => format!("{:?}", row.collect::<Vec<_>>()),
                other => format!("{other:?}"),
            });
        });
        (seen, result)
    }

    fn server(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        message(&mut out, kind, |out| out.extend_from_slice(body));
        out
    }

    /// Returns a session that the server admitted without a password.
    fn admitted() -> Session {
        let mut session = Session::new("u", "p", "d", "nonce");
        let mut out = Vec::new();
        assert!(!session.query("SELECT 1", &mut out), "not before the server is ready");
        session.open(&mut out);
        assert_eq!(out, b"\0\0\0\x1b\0\x03\0\0user\0u\0database\0d\0\0");
        let begin = [server(b'R', &[0; 4]), server(b'K', &[0; 8]), server(b'Z', b"I")].concat();
        assert_eq!(reply(&mut session, &begin), (vec!["Ready".to_owned()], Ok(())));
        session
    }

    #[test]
    fn rows_are_read_whole_or_in_pieces_with_nulls() {
        let answer = [
            server(b'T', b"\0\0"),
            server(b'D', b"\0\x02\0\0\0\x01a\xff\xff\xff\xff"),
            server(b'D', b"\0\0"),
            server(b'C', b"SELECT 2\0"),
            server(b'Z', b"I"),
        ]
        .concat();
        for piece in [answer.len(), 1, 3] {
            let mut session = admitted();
            let mut out = Vec::new();
            assert!(session.query("SELECT 1", &mut out));
            assert_eq!(out, b"Q\0\0\0\x0dSELECT 1\0");
            assert!(!session.query("SELECT 2", &mut out), "one at a time");
            let mut seen = Vec::new();
            for piece in answer.chunks(piece) {
                let (some, result) = reply(&mut session, piece);
                assert_eq!(result, Ok(()));
                seen.extend(some);
            }
            assert_eq!(seen, ["[Some([97]), None]", "[]", "Ready"]);
        }
    }

    #[test]
    fn server_error_is_an_outcome_with_a_code() {
        let mut session = admitted();
        session.query("nonsense", &mut Vec::new());
        let body = b"SERROR\0C42601\0Msyntax error at or near \"nonsense\"\0\0";
        let answer = [server(b'E', body), server(b'Z', b"I")].concat();
        let mut shown = String::new();
        session
            .receive(&answer, &mut Vec::new(), &mut |event| {
                if let Event::Failed(error) = event {
                    shown = error.to_string();
                }
            })
            .unwrap();
        assert_eq!(shown, "syntax error at or near \"nonsense\" (42601)");
        assert!(session.query("SELECT 1", &mut Vec::new()));
    }

    #[test]
    fn unexpected_or_malformed_message_ends_the_session() {
        let breaks = |bytes: &[u8], why: &str| {
            let mut session = admitted();
            session.query("SELECT 1", &mut Vec::new());
            let (_, result) = reply(&mut session, bytes);
            assert!(result.unwrap_err().what.contains(why), "{why}");
            assert!(reply(&mut session, b"").1.is_err(), "nothing is taken after an error");
        };
        breaks(b"D\0\0\0\x03", "a message of 3 bytes");
        breaks(b"D\x7f\0\0\0", "bytes");
        breaks(&server(b'D', b"\0\x01"), "a malformed row");
        breaks(&server(b'D', b"\0\x01\0\0\0\x09a"), "a malformed row");
        breaks(&server(b'S', b"name"), "a malformed setting");
        breaks(&server(b'R', &[0; 4]), "`R` is out of place");
        let begins = |bytes: &[u8], why: &str| {
            let (_, result) = reply(&mut Session::new("u", "p", "d", "n"), bytes);
            assert!(result.unwrap_err().what.contains(why), "{why}");
        };
        begins(&server(b'R', &[0, 0, 0, 5, 1, 2, 3, 4]), "kind 5");
        begins(&server(b'R', b"\0\0\0\x0aPLAIN\0\0"), "does not offer");
        // Accepting admission in the middle would trust a server that did not prove itself.
        let mut session = Session::new("u", "p", "d", "n");
        assert!(reply(&mut session, &server(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")).1.is_ok());
        assert!(reply(&mut session, &server(b'R', &[0; 4])).1.is_err());
        let mut session = Session::new("u", "p", "d", "n");
        assert!(reply(&mut session, &server(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")).1.is_ok());
        let first = server(b'R', b"\0\0\0\x0br=nX,s=c2FsdA==,i=1");
        assert!(reply(&mut session, &first).1.is_ok());
        assert!(reply(&mut session, &server(b'R', &[0; 4])).1.is_err());
    }
}
