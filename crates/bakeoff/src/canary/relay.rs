//! Runs a further node of a canary: forwards requests to the first node, so that all nodes serve one store and any of
//! them can be slow by itself.
//!
//! It has one thread and one connection to the first node per client connection, so no client waits for another.
//! HTTP/1.1 with one request at a time; pipelined requests are answered in order.
//!
//! A node that lags asks the first node for an older state. A connection of watchers is passed on as it is.
//!
//! Not here: the store, and all faults except delays (`service`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_wire::canary;

use super::faults::{Dice, Faults};
use super::http::{self, ParseResult};
use super::server::End;
use super::{Options, say};

/// Stack bytes of a thread.
const STACK: usize = 128 << 10;
/// Timeout of a connection to the first node.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Interval between checks for a stop while no client connects.
const CHECK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Relay {
    listener: TcpListener,
    first: SocketAddr,
    faults: Faults,
    stop: Arc<AtomicBool>,
}

impl Relay {
    /// Listens. [`Relay::run`] serves until `stop` is set.
    pub(super) fn bind(
        options: Options,
        first: SocketAddr,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let listen = options.listen;
        let listener = TcpListener::bind(listen)
            .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on `{listen}`: {e}")))?;
        say(format_args!("listening on {}", listener.local_addr()?));
        Ok(Self { listener, first, faults: options.faults, stop })
    }

    /// Serves until stopped. Connections end with the process.
    pub(super) fn run(self) -> io::Result<End> {
        self.listener.set_nonblocking(true)?;
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let client = match self.listener.accept() {
                Ok((client, _)) => client,
                Err(_) => {
                    std::thread::sleep(CHECK_EVERY);
                    continue;
                }
            };
            number += 1;
            let faults = Faults { seed: self.faults.seed ^ number, ..self.faults.clone() };
            let first = self.first;
            let serve = move || {
                // An error closes both connections, which tells their peers.
                let _ = relay(&client, first, &faults);
            };
            std::thread::Builder::new().stack_size(STACK).spawn(serve)?;
        }
        say(format_args!("stopped"));
        Ok(End::Stopped)
    }
}

/// Forwards a client's requests until either side ends.
fn relay(mut client: &TcpStream, first: SocketAddr, faults: &Faults) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    let mut first = TcpStream::connect_timeout(&first, CONNECT_WITHIN)?;
    first.set_nodelay(true)?;
    let mut dice = Dice::new(faults);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    loop {
        let Some(request) = request(&mut client, &mut asked)? else { return Ok(()) };
        if request.is_watch {
            first.write_all(&asked)?;
            return pass_on(client, &first);
        }
        let query = match request.is_get {
            true if !faults.old.is_zero() => Some(http::OLD),
            _ if !faults.split_after.is_zero() => Some(http::SPLIT),
            _ => None,
        };
        match request.target.zip(query) {
            Some((end, query)) => {
                first.write_all(&asked[..end])?;
                first.write_all(format!("?{query}").as_bytes())?;
                first.write_all(&asked[end..request.length])?;
            }
            None => first.write_all(&asked[..request.length])?,
        }
        asked.drain(..request.length);
        let length = answer(&mut first, &mut answered)?;
        if request.data && dice.delays() {
            std::thread::sleep(faults.delay);
        }
        client.write_all(&answered[..length])?;
        answered.drain(..length);
        if !request.keep_alive {
            return Ok(());
        }
    }
}

/// Passes on all bytes in both directions until either side ends.
fn pass_on(client: &TcpStream, first: &TcpStream) -> io::Result<()> {
    let (events, to_client) = (first.try_clone()?, client.try_clone()?);
    let of_events = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || copy_until_end(&events, &to_client))?;
    copy_until_end(client, first);
    // Its thread never panics, and an error of a connection ends it.
    let _ = of_events.join();
    Ok(())
}

/// Copies until one of the connections ends, and then ends both.
fn copy_until_end(mut from: &TcpStream, mut to: &TcpStream) {
    // A failure ends both connections, which tells their peers.
    let _ = io::copy(&mut from, &mut to);
    for connection in [from, to] {
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// A complete request at the start of a buffer.
struct Request {
    length: usize,
    keep_alive: bool,
    /// True for requests of keys. Readiness and counters have no faults.
    data: bool,
    is_get: bool,
    /// True if the connection becomes one of watchers.
    is_watch: bool,
    /// End of the target of a key; `None` for other requests, and if it has a query.
    target: Option<usize>,
}

/// Reads until the buffer begins with a complete request. `None` if the client closed the connection.
fn request(client: &mut &TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        match http::parse(buffer) {
            ParseResult::Head(head) if buffer.len() >= head.length + head.body_length => {
                let data = head.path.starts_with("/kv/") || head.path.starts_with("/list/");
                let length = head.length + head.body_length;
                let end = head.method.len() + 1 + head.path.len();
                let is_get = head.method == "GET";
                let is_watch = is_get && head.path == canary::PATH && head.upgrades;
                let of_key = head.path.starts_with("/kv/") && buffer.get(end) == Some(&b' ');
                let target = of_key.then_some(end);
                let keep_alive = head.keep_alive;
                return Ok(Some(Request { length, keep_alive, data, is_get, is_watch, target }));
            }
            ParseResult::Head(head) if head.expects_continue && buffer.len() == head.length => {
                client.write_all(http::CONTINUE)?;
            }
            ParseResult::Head(_) | ParseResult::Partial => {}
            ParseResult::Bad(status) => {
                let mut out = Vec::new();
                http::answer(&mut out, status, b"", false);
                client.write_all(&out)?;
                return Ok(None);
            }
        }
        if !more(client, buffer)? {
            return Ok(None);
        }
    }
}

/// Reads until the buffer begins with a complete answer, and returns its length. Fails if the first node cuts it off,
/// which ends the client's connection too.
fn answer(first: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut headers);
        let bad = |_| io::Error::from(ErrorKind::InvalidData);
        if let httparse::Status::Complete(begins) = head.parse(buffer).map_err(bad)? {
            let announced =
                head.headers.iter().find(|one| one.name.eq_ignore_ascii_case("content-length"));
            let announced =
                announced.and_then(|one| std::str::from_utf8(one.value).ok()?.parse().ok());
            let length = begins + announced.unwrap_or(0);
            let interim = head.code == Some(100);
            if interim {
                buffer.drain(..begins);
                continue;
            }
            if buffer.len() >= length {
                return Ok(length);
            }
        }
        if !more(first, buffer)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

fn more(from: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 16 << 10];
    let count = from.read(&mut bytes)?;
    buffer.extend_from_slice(&bytes[..count]);
    Ok(count > 0)
}
