//! Runs one short exchange with a node: connect, send, and receive until the answer is complete.
//!
//! For requests outside the measured loop, such as leader, version, preparation and clean-up. Blocks, with one
//! deadline for the whole exchange.
//!
//! Not here: requests over HTTP (`http_session`, `bakeoff_engine::blocking_http`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::study;
use bakeoff_engine::tls::refusal::{self, Wording};
use bakeoff_engine::transport::{TlsBegins, TlsTarget};
use bakeoff_engine::{blocking_http, routes, tls};
use bakeoff_wire::ProtocolError;
use rustls::pki_types::ServerName;

use super::{Access, NotReady, SystemError};

/// Longest wait before a node counts as not answering.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Longest time between two checks whether an exchange goes on.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Limits an exchange by a time and a condition.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// Longest wait for the answer.
    pub within: Duration,
    /// Returns false to end the wait early. Called at least every 100 ms.
    pub go_on: &'a dyn Fn() -> bool,
}

impl From<Duration> for Patience<'_> {
    fn from(within: Duration) -> Self {
        Self { within, go_on: &|| true }
    }
}

impl Patience<'_> {
    /// Returns the longest wait for a connection.
    pub(crate) fn connects_within(&self) -> Duration {
        self.within.min(PATIENCE)
    }
}

/// Client side of an exchange, which reacts to received bytes.
pub(crate) trait Receiver {
    /// Processes received bytes and appends bytes to send. Returns true to end the exchange.
    fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError>;

    /// Returns true if TLS may begin, for servers that greet in plain text first.
    fn begins_tls(&self) -> bool {
        false
    }

    /// Called when the peer closes the connection. `Ok` if that ends the exchange normally.
    fn hung_up(&mut self) -> Result<(), ProtocolError> {
        Err(ProtocolError::new("the server closed the connection without an answer"))
    }
}

/// Sends `first` to a node and continues until `listener` is done. The error describes the fault, to be placed after
/// the node's name.
pub(crate) fn exchange<'a>(
    node: &Access,
    patience: impl Into<Patience<'a>>,
    first: Vec<u8>,
    listener: &mut impl Receiver,
) -> Result<(), SystemError> {
    let talked = converse(node, patience.into(), first, listener);
    talked.map_err(|error| SystemError::unreachable(node, error))
}

fn converse(
    node: &Access,
    patience: Patience<'_>,
    first: Vec<u8>,
    listener: &mut impl Receiver,
) -> io::Result<()> {
    let deadline = clock::now() + patience.within;
    let left = || {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() || !(patience.go_on)() { Err(no_answer()) } else { Ok(left) }
    };
    let mut socket = routes::connect(node.target.address, patience.connects_within())?;
    socket.set_nodelay(true)?;
    let mut tls = match &node.target.tls {
        None => None,
        Some(tls) => Some(
            rustls::ClientConnection::new(tls.config.clone(), tls.name.clone())
                .map_err(io::Error::other)?,
        ),
    };
    let greets = node.target.tls.as_ref().is_some_and(|tls| tls.begins == TlsBegins::AfterGreeting);
    let mut later = if greets { tls.take() } else { None };
    let mut out = first;
    let mut buffer = vec![0; 64 << 10];
    loop {
        if later.is_some() && listener.begins_tls() {
            tls = later.take();
        }
        let wait = left()?;
        socket.set_write_timeout(Some(wait))?;
        if !out.is_empty() {
            // A handshake reads, too.
            socket.set_read_timeout(Some(wait))?;
            let mut stream = stream(&mut socket, &mut tls);
            stream.write_all(&out).map_err(say_timeout)?;
            stream.flush()?;
            out.clear();
        }
        socket.set_read_timeout(Some(wait.min(CHECK_EVERY)))?;
        let mut stream = stream(&mut socket, &mut tls);
        let count = loop {
            match stream.read(&mut buffer) {
                Err(error) if is_pause(&error) => {
                    left()?;
                }
                count => break count?,
            }
        };
        if count == 0 {
            return listener.hung_up().map_err(io::Error::other);
        }
        if listener.on_bytes(&buffer[..count], &mut out).map_err(io::Error::other)? {
            return Ok(());
        }
    }
}

/// Reason why a handshake with a node failed.
pub enum HandshakeError {
    /// The node accepted no connection, or closed it.
    NotThere(SystemError),
    /// The TLS handshake failed for good: the error, and a hint.
    Refused(SystemError, &'static str),
}

impl HandshakeError {
    /// Returns the underlying error.
    pub(crate) fn seen(self) -> SystemError {
        match self {
            Self::NotThere(seen) | Self::Refused(seen, _) => seen,
        }
    }
}

impl From<HandshakeError> for NotReady {
    fn from(why: HandshakeError) -> Self {
        match why {
            HandshakeError::NotThere(seen) => match NotReady::from(seen) {
                NotReady::Odd { seen, .. } => NotReady::Odd { seen, hint: NO_TLS },
                why => why,
            },
            HandshakeError::Refused(seen, hint) => {
                Self::Never { seen: seen.to_string(), hint: hint.to_owned() }
            }
        }
    }
}

const NO_TLS: &str =
    "the port may not use TLS: write the endpoint with `http://`, or check the port";

/// Connects to a node, with a TLS handshake if it uses TLS. Returns the version, as `TLS 1.3`; `None` without TLS. The
/// error text can follow the node's name.
pub fn handshake(node: &Access) -> Result<Option<String>, HandshakeError> {
    // rustls names the versions it supports like `TLSv1_3`.
    let session = shake_hands(node)?;
    let version = session.and_then(|session| session.protocol_version()?.as_str());
    let version = version.and_then(|version| version.strip_prefix("TLSv"));
    Ok(version.map(|version| format!("TLS {}", version.replace('_', "."))))
}

/// Connects to a node as [`handshake`] does. Returns the protocol that TLS negotiated (RFC 7301), if any.
pub(crate) fn agreed_protocol(node: &Access) -> Result<Option<Vec<u8>>, HandshakeError> {
    let session = shake_hands(node)?;
    Ok(session.and_then(|session| session.alpn_protocol().map(<[u8]>::to_vec)))
}

/// Returns true if a node that is used in plain text accepts TLS.
pub fn speaks_tls(node: &Access) -> bool {
    let anybody = study::Tls { insecure: true, ..study::Tls::default() };
    let Ok(config) = tls::client_config(Some(&anybody), tls::Trust::Nobody, &[]) else {
        return false;
    };
    let name = ServerName::IpAddress(node.target.address.ip().into());
    let Ok(mut socket) = routes::connect(node.target.address, PATIENCE) else {
        return false;
    };
    match blocking_http::shake_hands(&mut socket, &TlsTarget::new(name, config), PATIENCE) {
        Ok(_) => true,
        // Only a TLS server sends an alert.
        Err(error) => {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            matches!(inner, Some(rustls::Error::AlertReceived(_)))
        }
    }
}

/// Connects to a node. Returns the TLS session, or `None` for plain text.
fn shake_hands(node: &Access) -> Result<Option<rustls::ClientConnection>, HandshakeError> {
    let at = |error: io::Error| SystemError::unreachable(node, error);
    let not_there = |error| HandshakeError::NotThere(at(say_timeout(error)));
    let mut socket = routes::connect(node.target.address, PATIENCE).map_err(not_there)?;
    let Some(tls) = &node.target.tls else { return Ok(None) };
    if tls.begins == TlsBegins::AfterGreeting {
        read_greeting(&mut socket).map_err(not_there)?;
    }
    // rustls reports these for non-TLS data, untrusted certificates and alerts.
    let session = blocking_http::shake_hands(&mut socket, tls, PATIENCE);
    session.map(Some).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            let hint = refusal::hint(refusal::of_io(&error), Wording::Study);
            HandshakeError::Refused(at(error), hint)
        }
        _ => not_there(error),
    })
}

/// Reads the greeting line of a server that precedes TLS, and nothing after it.
fn read_greeting(socket: &mut TcpStream) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut byte = [0];
    for _ in 0..GREETING_MAX {
        socket.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(());
        }
    }
    Err(io::Error::other("it sends no greeting"))
}

/// Longest greeting line, in bytes.
const GREETING_MAX: usize = 64 << 10;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn stream<'a>(
    socket: &'a mut TcpStream,
    tls: &'a mut Option<rustls::ClientConnection>,
) -> Box<dyn Stream + 'a> {
    match tls {
        None => Box::new(socket),
        Some(tls) => Box::new(rustls::Stream::new(tls, socket)),
    }
}

/// Returns true if the error only means that nothing has arrived yet.
fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn say_timeout(error: io::Error) -> io::Error {
    if is_pause(&error) { no_answer() } else { error }
}

/// Returns the error of a node that sent nothing in time.
pub(super) fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}
