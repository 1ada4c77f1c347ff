//! Serves pages on loopback: a minimal HTTP/1.1 server for a browser or a scraper on this machine.
//!
//! It answers GET alone, a request per connection, and only if the request names this machine: a website that resolves
//! its own name to 127.0.0.1 gets nothing. It waits in the kernel, and no connection holds up another or the run.
//!
//! Not here: the contents (`live`, `prometheus`).

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bakeoff_clock as clock;

use super::feed::{Feed, News};
use crate::failure::Failure;

/// Maximum connections at a time; more are answered with 503.
const CONNECTIONS_MAX: usize = 16;
/// Maximum connections of other users at a time, so that they cannot take all places of this user's browser.
const OTHERS_MAX: usize = 4;
/// Maximum bytes of a request.
const REQUEST_MAX: usize = 16 << 10;
/// Maximum headers of a request.
const HEADERS_MAX: usize = 64;
/// Time in which a request must arrive, and for which a write may block.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time for the request of a browser that is refused.
const ONE_READ: Duration = Duration::from_millis(200);
/// Interval between signs of life to a browser, which show whether it is still there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// Time that open connections have to read the last messages.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// An answer to a request.
pub(super) enum Answer {
    /// A text of this media type.
    Text(&'static str, String),
    /// Server-sent events for as long as the feed goes on.
    Events(Arc<Feed>),
    /// There is nothing at this path.
    Absent,
}

/// A server on a port of 127.0.0.1.
pub(super) struct LoopbackServer {
    address: SocketAddr,
    connections: Arc<Places>,
}

impl LoopbackServer {
    /// Listens on this port, or on a free one for 0, and answers requests by their path. `option` asked for it; its
    /// threads have the name `thread`.
    ///
    /// # Errors
    /// Fails if the port is in use.
    pub(super) fn start(
        (option, port): (&str, u16),
        thread: &'static str,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(at).map_err(|error| {
            Failure::machine(format!(
                "cannot listen on {at} for `{option}={port}`: {error}\nhint: use another port, or `{option}` for a \
                 free one"
            ))
        })?;
        let fail = |error: io::Error| Failure::machine(format!("cannot serve `{option}`: {error}"));
        let address = listener.local_addr().map_err(fail)?;
        let connections = Arc::<Places>::default();
        let (open, answer) = (Arc::clone(&connections), Arc::new(answer));
        let own = rustix::process::geteuid().as_raw();
        let serve = move || {
            for socket in listener.incoming().flatten() {
                let held = ConnectionSlot::take(&open, || peer_uid(&socket) != Some(own));
                let answer = Arc::clone(&answer);
                let exchange = move || {
                    exchange(&socket, held.is_some(), &*answer).ok();
                    drop((socket, held));
                };
                thread::Builder::new().name(thread.to_owned()).spawn(exchange).ok();
            }
        };
        thread::Builder::new().name(thread.to_owned()).spawn(serve).map_err(fail)?;
        Ok(Self { address, connections })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits a moment until all connections have ended.
    pub(super) fn drain(&self) {
        let until = clock::now() + CLOSES_WITHIN;
        while self.connections.all.load(Ordering::Acquire) > 0 && clock::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The number of open connections.
#[derive(Default)]
struct Places {
    all: AtomicUsize,
    /// Those of other users.
    others: AtomicUsize,
}

/// A place among the connections.
struct ConnectionSlot {
    places: Arc<Places>,
    is_other: bool,
}

impl ConnectionSlot {
    fn take(places: &Arc<Places>, is_other: impl FnOnce() -> bool) -> Option<Self> {
        let all = places.all.fetch_add(1, Ordering::AcqRel);
        // The user is looked up only once places get scarce.
        let is_other = (OTHERS_MAX..CONNECTIONS_MAX).contains(&all) && is_other();
        let others = places.others.fetch_add(usize::from(is_other), Ordering::AcqRel);
        let held = Self { places: Arc::clone(places), is_other };
        let limit = if is_other { OTHERS_MAX } else { CONNECTIONS_MAX };
        (all < CONNECTIONS_MAX && others < limit).then_some(held)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.all.fetch_sub(1, Ordering::AcqRel);
        self.places.others.fetch_sub(usize::from(self.is_other), Ordering::AcqRel);
    }
}

/// Returns the user of a connection's other end, on this machine; `None` if it is gone.
fn peer_uid(socket: &TcpStream) -> Option<u32> {
    let (theirs, ours) = (socket.peer_addr().ok()?, socket.local_addr().ok()?);
    bakeoff_host::socket_owner(theirs, ours).map(|owner| owner.uid)
}

/// Reads a request and answers it. `room`: false if there are too many connections.
fn exchange(mut socket: &TcpStream, room: bool, answer: &dyn Fn(&str) -> Answer) -> io::Result<()> {
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    if !room {
        // An answer before the request is read would reach the browser as a reset.
        socket.set_read_timeout(Some(ONE_READ))?;
        let _ = socket.read(&mut [0; 4096]);
        return refuse(socket, Refusal::Busy);
    }
    let request = read_head(socket)?;
    let path = match path_of(&request) {
        Ok(path) => path,
        Err(refusal) => return refuse(socket, refusal),
    };
    match answer(path) {
        Answer::Text(kind, body) => {
            let head = head("200 OK", kind, &format!("Content-Length: {}\r\n", body.len()));
            socket.write_all(head.as_bytes())?;
            socket.write_all(body.as_bytes())
        }
        Answer::Events(feed) => {
            socket.write_all(head("200 OK", "text/event-stream", "").as_bytes())?;
            stream(socket, &feed)
        }
        Answer::Absent => refuse(socket, Refusal::Absent),
    }
}

fn read_head(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    let until = clock::now() + PATIENCE;
    let mut request = Vec::new();
    let mut bytes = [0; 4096];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        let left = until.saturating_duration_since(clock::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => request.extend_from_slice(&bytes[..read]),
        }
    }
    Ok(request)
}

/// Writes the messages of a feed as they come, until it ends or the browser goes away.
fn stream(mut socket: &TcpStream, feed: &Feed) -> io::Result<()> {
    let mut next = None;
    loop {
        match feed.read(next, SIGN_OF_LIFE) {
            News::Messages(messages, end) => {
                next = Some(end);
                socket.write_all(messages.concat().as_bytes())?;
            }
            News::Nothing => socket.write_all(b":\n\n")?,
            News::Closed => return Ok(()),
        }
    }
}

/// The reason why a request gets no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Bad,
    Method,
    Foreign,
    Absent,
    Busy,
}

impl Refusal {
    /// Returns the status line and its explanation.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Bad => ("400 Bad Request", "this is not an HTTP request"),
            Self::Method => ("405 Method Not Allowed", "only GET is served"),
            Self::Foreign => ("403 Forbidden", "only this machine is served: use 127.0.0.1"),
            Self::Absent => ("404 Not Found", "there is nothing at this path"),
            Self::Busy => ("503 Service Unavailable", "too many connections: close a browser"),
        }
    }
}

fn refuse(mut socket: &TcpStream, refusal: Refusal) -> io::Result<()> {
    let (status, why) = refusal.texts();
    let allow = if refusal == Refusal::Method { "Allow: GET\r\n" } else { "" };
    let length = why.len() + 1;
    let head = head(status, "text/plain", &format!("{allow}Content-Length: {length}\r\n"));
    writeln!(socket, "{head}{why}")
}

fn head(status: &str, kind: &str, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n{more}\r\n"
    )
}

/// Returns the path that a request asks for.
fn path_of(request: &[u8]) -> Result<&str, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    if !matches!(parsed.parse(request), Ok(httparse::Status::Complete(_))) {
        return Err(Refusal::Bad);
    }
    let values = |name: &str| -> Vec<&[u8]> {
        let named = parsed.headers.iter().filter(|one| one.name.eq_ignore_ascii_case(name));
        named.map(|one| one.value).collect()
    };
    // Browsers say so if a page of another site sends the request, other than by a link that a user follows.
    let cross_site = values("sec-fetch-site").contains(&&b"cross-site"[..])
        && !values("sec-fetch-mode").contains(&&b"navigate"[..]);
    let [host] = values("host")[..] else { return Err(Refusal::Foreign) };
    if !is_loopback(host) || cross_site {
        return Err(Refusal::Foreign);
    }
    match (parsed.method, parsed.path) {
        (Some("GET"), Some(path)) => Ok(path.split(['?', '#']).next().unwrap_or_default()),
        _ => Err(Refusal::Method),
    }
}

/// Returns true if a `Host` field names this machine.
fn is_loopback(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host).to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => &host,
    };
    ["127.0.0.1", "localhost"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_leave_places_to_this_one() {
        let places = Arc::default();
        let take = |is_other: bool| ConnectionSlot::take(&places, || is_other);
        let others: Vec<ConnectionSlot> = (0..99).filter_map(|_| take(true)).collect();
        // Nobody looks at the first ones.
        assert_eq!(others.len(), 2 * OTHERS_MAX);
        let ours: Vec<ConnectionSlot> = (0..99).filter_map(|_| take(false)).collect();
        assert_eq!(ours.len(), CONNECTIONS_MAX - 2 * OTHERS_MAX);
        drop((others, ours));
        assert_eq!(places.all.load(Ordering::Acquire), 0);
        assert_eq!((0..99).filter_map(|_| take(false)).collect::<Vec<_>>().len(), CONNECTIONS_MAX);
    }

    #[test]
    fn peer_of_a_connection_is_known_by_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(peer_uid(&server), Some(rustix::process::geteuid().as_raw()));
        drop((client, listener));
    }

    #[test]
    fn only_gets_that_name_this_machine_are_served() {
        let of = |request: &str| path_of(request.as_bytes()).map(str::to_owned);
        let get = |headers: &str| of(&format!("GET /events?x=1 HTTP/1.1\r\n{headers}\r\n"));
        let served = || Ok("/events".to_owned());
        for host in ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST"] {
            assert_eq!(get(&format!("Host: {host}\r\n")), served(), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost:x", ""] {
            assert_eq!(get(&format!("Host: {host}\r\n")), Err(Refusal::Foreign), "{host}");
        }
        let ours = "Host: localhost\r\n";
        assert_eq!(get(""), Err(Refusal::Foreign));
        assert_eq!(get(&format!("{ours}{ours}")), Err(Refusal::Foreign));
        assert_eq!(get(&format!("{ours}Sec-Fetch-Site: cross-site\r\n")), Err(Refusal::Foreign));
        assert_eq!(get(&format!("{ours}Sec-Fetch-Site: same-origin\r\n")), served());
        let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
        assert_eq!(get(&format!("{ours}{link}")), served());
        assert_eq!(of(&format!("POST / HTTP/1.1\r\n{ours}\r\n")), Err(Refusal::Method));
        assert_eq!(of("nonsense\r\n\r\n"), Err(Refusal::Bad));
    }
}
