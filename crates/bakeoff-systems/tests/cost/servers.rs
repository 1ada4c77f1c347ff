//! Serves HTTP/1.1, etcd, Redis and ZooKeeper from memory, as far as a load of puts and gets needs them.
//!
//! A server has no thread. It answers what has arrived when it is called, so its caller decides when answers come.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bakeoff_wire::hpack::{Decoder, HeaderBlock};
use bakeoff_wire::protobuf::{Fields, put_bytes, put_uint};

use super::generator::VALUE_SIZE;
use super::memory::mark;

/// Protocol of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Etcd,
    Redis,
    ZooKeeper,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Http1, Self::Etcd, Self::Redis, Self::ZooKeeper];

    /// Returns the kind of its system.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Http1 => "http",
            Self::Etcd => "etcd",
            Self::Redis => "redis",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Returns how often a sent value is copied besides the copy into the send buffer.
    pub(crate) fn sent_copies_max(self) -> usize {
        match self {
            Self::Http1 | Self::Redis => 0,
            // A message of protobuf follows its length, so it is written before its frame.
            Self::Etcd => 1,
            // A put keeps its value, for a second try if its node is unexpectedly missing or present.
            Self::ZooKeeper => 1,
        }
    }

    fn speaker(self) -> Box<dyn Speaker> {
        match self {
            Self::Http1 => Box::new(Http1),
            Self::Etcd => Box::<Etcd>::default(),
            Self::Redis => Box::new(Redis),
            Self::ZooKeeper => Box::<ZooKeeper>::default(),
        }
    }
}

/// Values by key.
type Store = HashMap<Vec<u8>, Vec<u8>>;

/// Answers the requests of one connection.
trait Speaker {
    /// Appends the answer to the first request of `input`. Returns the length of the request; `None` while it is
    /// incomplete.
    fn answer(&mut self, input: &[u8], store: &mut Store, out: &mut Vec<u8>) -> Option<usize>;
}

pub(crate) struct Server {
    listener: TcpListener,
    protocol: Protocol,
    connections: Vec<Connection>,
    store: Store,
}

struct Connection {
    socket: TcpStream,
    speaker: Box<dyn Speaker>,
    input: Vec<u8>,
    /// End of the value in the newest answer; `None` if that has none.
    mark: Option<Vec<u8>>,
}

impl Server {
    /// Listens at a free port.
    pub(crate) fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        Self { listener, protocol, connections: Vec::new(), store: Store::new() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Returns the ends of the values in the newest answers of all connections.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.connections.iter().filter_map(|connection| connection.mark.as_ref())
    }

    /// Accepts connections and answers all requests that have arrived.
    pub(crate) fn serve(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true).expect("a socket can be non-blocking");
            socket.set_nodelay(true).expect("a socket can send at once");
            let speaker = self.protocol.speaker();
            self.connections.push(Connection { socket, speaker, input: Vec::new(), mark: None });
        }
        let store = &mut self.store;
        self.connections.retain_mut(|connection| connection.serve(store));
    }
}

impl Connection {
    /// Answers the requests that have arrived. Returns false after the client has closed the connection.
    fn serve(&mut self, store: &mut Store) -> bool {
        let mut buffer = [0; 16 << 10];
        let is_open = loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break false,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(_) => break false,
            }
        };
        let (mut used, mut out) = (0, Vec::new());
        while let Some(length) = self.speaker.answer(&self.input[used..], store, &mut out) {
            used += length;
        }
        self.input.drain(..used);
        if !out.is_empty() {
            self.mark = mark(&out);
        }
        is_open && self.socket.write_all(&out).is_ok()
    }
}

/// Returns the bytes up to `mark`, and the length with it.
fn until<'a>(input: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], usize)> {
    let at = input.windows(mark.len()).position(|window| window == mark)?;
    Some((&input[..at], at + mark.len()))
}

/// Reads a 32-bit number in network order.
fn number(input: &[u8], at: usize) -> Option<usize> {
    let bytes = input.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes) as usize)
}

/// Answers with a different body each time, by its number.
struct Http1;

impl Speaker for Http1 {
    fn answer(&mut self, input: &[u8], store: &mut Store, out: &mut Vec<u8>) -> Option<usize> {
        let (_, length) = until(input, b"\r\n\r\n")?;
        let last = store.entry(Vec::new()).or_insert_with(|| 0_u64.to_be_bytes().to_vec());
        let number = 1 + u64::from_be_bytes(last.as_slice().try_into().expect("it has 8 bytes"));
        *last = number.to_be_bytes().to_vec();
        let body = format!("{number:0>16}").repeat(VALUE_SIZE / 16);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ";
        out.extend_from_slice(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        Some(length)
    }
}

struct Redis;

impl Speaker for Redis {
    fn answer(&mut self, input: &[u8], store: &mut Store, out: &mut Vec<u8>) -> Option<usize> {
        // `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`
        let count = |line: &[u8]| std::str::from_utf8(line.get(1..)?).ok()?.parse::<usize>().ok();
        let (line, mut at) = until(input, b"\r\n")?;
        let mut words = Vec::new();
        for _ in 0..count(line)? {
            let (line, begin) = until(input.get(at..)?, b"\r\n")?;
            let (from, length) = (at + begin, count(line)?);
            words.push(input.get(from..from + length)?);
            at = from + length + 2;
        }
        if at > input.len() {
            return None;
        }
        match *words {
            [b"SET", key, value] => {
                store.insert(key.to_vec(), value.to_vec());
                out.extend_from_slice(b"+OK\r\n");
            }
            [b"GET", key] => match store.get(key) {
                Some(value) => {
                    out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
                None => out.extend_from_slice(b"$-1\r\n"),
            },
            _ => out.extend_from_slice(b"-ERR unknown command\r\n"),
        }
        Some(at)
    }
}

/// Numbers of requests and errors (`ZooDefs.OpCode`, `KeeperException.Code`), and the length of a node's metadata.
const CREATE: usize = 1;
const GET_DATA: usize = 4;
const SET_DATA: usize = 5;
const NO_NODE: i32 = -101;
const STAT: [u8; 68] = [0; 68];

#[derive(Default)]
struct ZooKeeper {
    is_connected: bool,
    transactions: u64,
}

impl Speaker for ZooKeeper {
    fn answer(&mut self, input: &[u8], store: &mut Store, out: &mut Vec<u8>) -> Option<usize> {
        let length = 4 + number(input, 0)?;
        let request = input.get(4..length)?;
        if !self.is_connected {
            self.is_connected = true;
            // Version, a timeout of 30 s, the session's number and password, and not read-only.
            let password = [&16_i32.to_be_bytes()[..], &[7; 16]].concat();
            frame(out, &[&[0; 4], &30_000_i32.to_be_bytes(), &[1; 8], &password, &[0]]);
            return Some(length);
        }
        // Each buffer follows its length.
        let buffer = |at: usize| request.get(at + 4..at + 4 + number(request, at)?);
        let path = buffer(8)?;
        let mut write = |is_new: bool| {
            let known = store.contains_key(path);
            if known || is_new {
                store.insert(path.to_vec(), buffer(12 + path.len())?.to_vec());
            }
            Some(known)
        };
        let (error, body): (i32, Vec<u8>) = match number(request, 4)? {
            CREATE => {
                write(true)?;
                (0, [&(path.len() as u32).to_be_bytes()[..], path].concat())
            }
            SET_DATA if write(false)? => (0, STAT.to_vec()),
            GET_DATA if store.contains_key(path) => {
                let value = &store[path];
                (0, [&(value.len() as u32).to_be_bytes()[..], value, &STAT].concat())
            }
            _ => (NO_NODE, Vec::new()),
        };
        self.transactions += 1;
        let zxid = self.transactions.to_be_bytes();
        frame(out, &[&request[..4], &zxid, &error.to_be_bytes(), &body]);
        Some(length)
    }
}

/// Appends a frame of ZooKeeper: its length and these parts.
fn frame(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&(length as u32).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// First bytes of a client of HTTP/2, and types and flags of frames (RFC 9113 sections 3.4 and 6).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Enough for all requests of a connection.
const WINDOW: u32 = 1 << 30;

struct Etcd {
    is_connected: bool,
    decoder: Decoder,
    headers: HeaderBlock,
    /// True for streams that put.
    puts: HashMap<u32, bool>,
    revision: u64,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            is_connected: false,
            decoder: Decoder::new(4096, 1 << 16),
            headers: HeaderBlock::new(),
            puts: HashMap::new(),
            revision: 1,
        }
    }
}

impl Speaker for Etcd {
    fn answer(&mut self, input: &[u8], store: &mut Store, out: &mut Vec<u8>) -> Option<usize> {
        if !self.is_connected {
            input.get(..PREFACE.len())?;
            self.is_connected = true;
            http2_frame(out, SETTINGS, 0, 0, &[]);
            http2_frame(out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
            return Some(PREFACE.len());
        }
        let header = input.get(..9)?;
        let length = number(header, 0)? >> 8;
        let payload = input.get(9..9 + length)?;
        let (kind, flags, stream) = (header[3], header[4], number(header, 5)? as u32);
        match kind {
            SETTINGS if flags & ACK == 0 => http2_frame(out, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => http2_frame(out, PING, ACK, 0, payload),
            HEADERS => {
                self.headers.clear();
                self.decoder.decode(payload, &mut self.headers).expect("the headers are valid");
                let path = self.headers.view().get(b":path").expect("it has a path");
                self.puts.insert(stream, path.ends_with(b"/Put"));
            }
            DATA if flags & END_STREAM != 0 => {
                let is_put = self.puts.remove(&stream).expect("its headers came before");
                // A message follows a byte for compression and its length.
                let message = self.call(is_put, &payload[5..], store);
                let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
                let mut headers = vec![0x88]; // `:status: 200`
                literal(&mut headers, "content-type", "application/grpc");
                http2_frame(out, HEADERS, END_HEADERS, stream, &headers);
                http2_frame(out, DATA, 0, stream, &framed);
                let mut trailers = Vec::new();
                literal(&mut trailers, "grpc-status", "0");
                http2_frame(out, HEADERS, END_HEADERS | END_STREAM, stream, &trailers);
            }
            _ => {}
        }
        Some(9 + length)
    }
}

impl Etcd {
    /// Returns the answer to a `PutRequest` (key 1, value 2) or a `RangeRequest` (key 1).
    fn call(&mut self, is_put: bool, message: &[u8], store: &mut Store) -> Vec<u8> {
        let (mut key, mut value) = (&[][..], &[][..]);
        for field in Fields::new(message) {
            match field.expect("the message is valid") {
                (1, content) => key = content.as_bytes(),
                (2, content) => value = content.as_bytes(),
                _ => {}
            }
        }
        let (mut header, mut answer) = (Vec::new(), Vec::new());
        if is_put {
            self.revision += 1;
            store.insert(key.to_vec(), value.to_vec());
        }
        put_uint(&mut header, 3, self.revision);
        put_bytes(&mut answer, 1, &header);
        if let Some(value) = store.get(key).filter(|_| !is_put) {
            let mut pair = Vec::new();
            put_bytes(&mut pair, 1, key);
            (2..=4).for_each(|field| put_uint(&mut pair, field, 1));
            put_bytes(&mut pair, 5, value);
            put_bytes(&mut answer, 2, &pair);
            put_uint(&mut answer, 4, 1);
        }
        answer
    }
}

/// Appends a header without compression (RFC 7541 section 6.2.2).
fn literal(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0);
    for text in [name, value] {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
}

fn http2_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
