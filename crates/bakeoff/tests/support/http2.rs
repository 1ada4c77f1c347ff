//! Runs a minimal HTTP/2 server without TLS that answers each request with `hello`.
//!
//! It shares no code with the tested engine, and decodes no headers, since every answer is the same.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The first bytes of a client (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames (section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Error code of an unprocessed stream (section 7).
const REFUSED_STREAM: u32 = 7;
/// Setting of the maximum open streams (section 6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Flags of frames.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Http2Behaviour of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http2Behaviour {
    /// Requests that a connection must have before they are answered.
    pub(crate) together: usize,
    /// Maximum open streams. It refuses further ones.
    pub(crate) streams_max: Option<u32>,
    /// Refuses every stream whose number is a multiple of this.
    pub(crate) refuses_each: Option<u64>,
    /// Requests of a connection after which it sends GOAWAY and processes no more.
    pub(crate) goes_away_after: Option<u64>,
    /// Answers as gRPC does, with a status of 200.
    pub(crate) grpc: Option<GrpcAnswer>,
}

/// Answer to a gRPC call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrpcAnswer {
    /// A message, and this `grpc-status` in the trailers.
    Status(&'static str),
    /// This `grpc-status` and a message for people in the headers, and nothing else.
    TrailersOnly(&'static str),
    /// A message without a `grpc-status`.
    NoStatus,
}

impl Default for Http2Behaviour {
    fn default() -> Self {
        Self {
            together: 1,
            streams_max: None,
            refuses_each: None,
            goes_away_after: None,
            grpc: None,
        }
    }
}

pub(crate) struct Http2 {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

impl Http2 {
    /// Starts a server that waits for `together` requests on a connection before it answers them.
    pub(crate) fn answering_together(together: usize) -> Self {
        Self::start(Http2Behaviour { together, ..Http2Behaviour::default() })
    }

    /// Starts a server.
    pub(crate) fn start(ways: Http2Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("it is bound");
        let (connections, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (opened, seen) = (connections.clone(), requests.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (opened, seen) = (opened.clone(), seen.clone());
                std::thread::spawn(move || serve(socket, ways, &opened, &seen));
            }
        });
        Self { address, connections, requests }
    }

    /// Starts a server that floods clients with PING and reads nothing.
    pub(crate) fn flooding() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            let pings = frame(PING, 0, 0, &[0; 8]).repeat(1024);
            for mut socket in listener.incoming().flatten() {
                let pings = pings.clone();
                std::thread::spawn(move || {
                    let settings = socket.write_all(&frame(SETTINGS, 0, 0, &[]));
                    while settings.is_ok() && socket.write_all(&pings).is_ok() {}
                });
            }
        });
        Self { address, connections: Arc::default(), requests: Arc::default() }
    }

    /// Returns the number of HTTP/2 connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of requests read so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn serve(
    mut socket: TcpStream,
    ways: Http2Behaviour,
    opened: &AtomicU64,
    seen: &AtomicU64,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut preface = [0; PREFACE.len()];
    socket.read_exact(&mut preface)?;
    if preface != PREFACE {
        return Ok(());
    }
    opened.fetch_add(1, Ordering::SeqCst);
    let mut settings = Vec::new();
    if let Some(most) = ways.streams_max {
        settings.extend(MAX_CONCURRENT_STREAMS.to_be_bytes());
        settings.extend(most.to_be_bytes());
    }
    // Clients that do not wait for SETTINGS have sent by then.
    std::thread::sleep(Duration::from_millis(20));
    socket.write_all(&frame(SETTINGS, 0, 0, &settings))?;
    let mut waiting = Vec::new();
    let (mut taken, mut is_going) = (0, false);
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        socket.read_exact(&mut payload)?;
        let (kind, flags) = (head[3], head[4]);
        match kind {
            SETTINGS if flags & ACK == 0 => socket.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if flags & ACK == 0 => socket.write_all(&frame(PING, ACK, 0, &payload))?,
            HEADERS | DATA if flags & END_STREAM > 0 && !is_going => {
                let number = seen.fetch_add(1, Ordering::SeqCst) + 1;
                let full = ways.streams_max.is_some_and(|most| waiting.len() >= most as usize);
                if full || ways.refuses_each.is_some_and(|each| number.is_multiple_of(each)) {
                    let refused = REFUSED_STREAM.to_be_bytes();
                    socket.write_all(&frame(RST_STREAM, 0, stream, &refused))?;
                    continue;
                }
                taken += 1;
                waiting.push(stream);
                if ways.goes_away_after == Some(taken) {
                    is_going = true;
                    let last = [stream.to_be_bytes(), [0; 4]].concat();
                    socket.write_all(&frame(GOAWAY, 0, 0, &last))?;
                }
            }
            _ => {}
        }
        if waiting.len() >= ways.together || (is_going && !waiting.is_empty()) {
            let mut out = Vec::new();
            for stream in waiting.drain(..) {
                if let Some(answer) = ways.grpc {
                    out.extend(grpc_answer(answer, stream));
                    continue;
                }
                // `:status: 200` is entry 8 of HPACK's static table, and the name `content-type` entry 31.
                let head = [&[0x88, 0x0f, 0x10, 10][..], b"text/plain"].concat();
                out.extend(frame(HEADERS, END_HEADERS, stream, &head));
                out.extend(frame(DATA, END_STREAM, stream, b"hello"));
            }
            socket.write_all(&out)?;
        }
    }
}

/// Returns the frames of an answer to a gRPC call.
fn grpc_answer(answer: GrpcAnswer, stream: u32) -> Vec<u8> {
    let field = |name: &str, value: &str| {
        let length = |text: &str| u8::try_from(text.len()).expect("a short text");
        [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
    };
    // `:status: 200` is entry 8 of HPACK's static table.
    let head = [vec![0x88], field("content-type", "application/grpc")].concat();
    let ended =
        |status| [field("grpc-status", status), field("grpc-message", "in%20words")].concat();
    let message = [0; 5];
    match answer {
        GrpcAnswer::TrailersOnly(status) => {
            let all = [head, ended(status)].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &all)
        }
        GrpcAnswer::Status(status) => [
            frame(HEADERS, END_HEADERS, stream, &head),
            frame(DATA, 0, stream, &message),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &ended(status)),
        ]
        .concat(),
        GrpcAnswer::NoStatus => {
            [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END_STREAM, stream, &message)]
                .concat()
        }
    }
}
