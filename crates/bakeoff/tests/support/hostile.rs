//! Runs HTTP servers that misbehave on every connection, which a load tool must survive and count.
//!
//! Plain threads and blocking sockets, so that they share no code or cause of failure with the tested engine. Not here:
//! seeded wrong answers to single requests (the canary).

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Misbehaviour at each request, or at each connection if so described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Bytes that are not HTTP.
    Garbage,
    /// Half of the announced body, then the end.
    TruncatedBody,
    /// 10 MB of headers, and no end of them.
    EndlessHeaders,
    /// The connection is closed at once.
    ClosesAtOnce,
    /// The connection is closed after a request.
    ClosesUnanswered,
    /// The connection is reset after a request: closed with the request unread.
    Resets,
    /// The request is read and never answered.
    NeverAnswers,
    /// 400, like NGINX answers plain text at a TLS port.
    SpeaksTls,
    /// 302 to itself.
    Redirects,
    /// 302 without a location.
    RedirectsNowhere,
    /// 500.
    Errors,
    /// A correct answer, one byte every 50 ms, 4 s in total.
    Drips,
    /// A length that is not a number.
    BadLength,
    /// Chunks whose sizes are not numbers.
    BadChunks,
    /// A correct answer, followed by an unrequested one.
    AnswersTwice,
    /// A correct answer to the first request of a connection, and a close at the second, like a server that closed an
    /// idle connection while the request was on its way.
    ClosesKept,
    /// 413 and a close after the head; the body is not read.
    RefusesBodies,
    /// 429 at once, and a close.
    TurnsAway,
    /// A correct answer with head and body in two writes and Nagle's algorithm on: the body waits until the head is
    /// acknowledged.
    WritesTwice,
    /// A correct answer, to test these tests.
    Honest,
}

pub(crate) struct Hostile {
    address: SocketAddr,
    stop: Arc<Stop>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    asked: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Hostile {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
        let address = listener.local_addr().expect("it is bound");
        let stop = Arc::new(Stop::default());
        let shared = Arc::clone(&stop);
        let acceptor = std::thread::spawn(move || {
            let mut threads = Vec::new();
            for socket in listener.incoming().flatten() {
                let Ok(other) = socket.try_clone() else { continue };
                let mut open = shared.open.lock().expect("nobody panics");
                // Checked under the lock, so that a stop sees every open connection.
                if shared.asked.load(Ordering::SeqCst) {
                    break;
                }
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                open.insert(number, other);
                drop(open);
                let shared = Arc::clone(&shared);
                threads.push(std::thread::spawn(move || {
                    // Broken connections are expected.
                    let _ = serve(&socket, behaviour, address, &shared);
                    // Closes when both are dropped. With an unread request that is a reset.
                    shared.open.lock().expect("nobody panics").remove(&number);
                }));
                threads.retain(|thread| !thread.is_finished());
            }
            for thread in threads {
                let _ = thread.join();
            }
        });
        Self { address, stop, acceptor: Some(acceptor) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT/`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.stop.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of complete requests read so far.
    pub(crate) fn requests(&self) -> u64 {
        self.stop.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::SeqCst);
        // The acceptor checks for a stop at each connection.
        let _ = TcpStream::connect(self.address);
        for socket in self.stop.open.lock().expect("nobody panics").values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn serve(
    mut socket: &TcpStream,
    behaviour: Behaviour,
    address: SocketAddr,
    stop: &Stop,
) -> std::io::Result<()> {
    socket.set_nodelay(behaviour != Behaviour::WritesTwice)?;
    if behaviour == Behaviour::ClosesAtOnce {
        return Ok(());
    }
    if behaviour == Behaviour::TurnsAway {
        return socket.write_all(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
    }
    let mut requests = 0;
    let mut input = Vec::new();
    loop {
        if behaviour == Behaviour::Resets {
            socket.peek(&mut [0])?;
            return Ok(());
        }
        if !read_request(socket, &mut input)? {
            return Ok(());
        }
        stop.requests.fetch_add(1, Ordering::SeqCst);
        requests += 1;
        match behaviour {
            Behaviour::ClosesKept if requests > 1 => return Ok(()),
            Behaviour::RefusesBodies => {
                let refused = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                return socket.write_all(refused);
            }
            Behaviour::ClosesAtOnce | Behaviour::ClosesUnanswered | Behaviour::Resets => {
                return Ok(());
            }
            Behaviour::Garbage => {
                return socket.write_all(b"\x16\x03\x01 no HTTP at all \xff\xfe\r\n\r\n");
            }
            Behaviour::TruncatedBody => {
                return socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            }
            Behaviour::EndlessHeaders => {
                socket.write_all(b"HTTP/1.1 200 OK\r\n")?;
                let line = format!("X-Filler: {}\r\n", "x".repeat(88));
                let lines = line.repeat(1000);
                for _ in 0..100 {
                    socket.write_all(lines.as_bytes())?;
                }
                return Ok(());
            }
            Behaviour::NeverAnswers => {}
            Behaviour::Redirects => {
                let answer = format!(
                    "HTTP/1.1 302 Found\r\nLocation: http://{address}/\r\nContent-Length: 0\r\n\r\n"
                );
                socket.write_all(answer.as_bytes())?;
            }
            Behaviour::RedirectsNowhere => {
                socket.write_all(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n")?;
            }
            Behaviour::Errors => {
                socket.write_all(
                    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nsorry",
                )?;
            }
            Behaviour::SpeaksTls => {
                socket.write_all(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 48\r\n\r\n\
                      The plain HTTP request was sent to HTTPS port.\r\n",
                )?;
            }
            Behaviour::Drips => {
                let body = "d".repeat(40);
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{body}");
                for byte in answer.bytes() {
                    socket.write_all(&[byte])?;
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            Behaviour::BadLength => {
                return socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello");
            }
            Behaviour::BadChunks => {
                return socket.write_all(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
                );
            }
            Behaviour::AnswersTwice => {
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".repeat(2);
                socket.write_all(answer.as_bytes())?;
            }
            Behaviour::WritesTwice => {
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")?;
                socket.write_all(b"hello")?;
            }
            Behaviour::Honest | Behaviour::ClosesKept | Behaviour::TurnsAway => {
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")?;
            }
        }
    }
}

/// Reads one request without a body. Returns false if the connection ended.
fn read_request(mut socket: &TcpStream, input: &mut Vec<u8>) -> std::io::Result<bool> {
    const END: &[u8] = b"\r\n\r\n";
    loop {
        if let Some(at) = input.windows(END.len()).position(|window| window == END) {
            input.drain(..at + END.len());
            return Ok(true);
        }
        let mut bytes = [0; 4096];
        match socket.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(n) => input.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
