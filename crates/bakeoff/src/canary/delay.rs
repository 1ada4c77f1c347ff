//! `bakeoff __delay`: relays connections with the latency of a distant service.
//!
//! An emulator on loopback answers in a fraction of a millisecond, the real service in twenty. The relay in front of
//! the emulator holds each client's bytes back by a set time. Answers pass at once, so each request takes that much
//! longer, even with several requests in flight on one connection.
//!
//! It parses nothing, so TLS and any protocol pass. Three threads per connection sleep to within 0.1 ms and do not wait
//! for each other. The held bytes are bounded. Beyond the bound the client's sending blocks, as on a long line.
//!
//! Not here: packet loss, limited bandwidth, slow connection setup.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::units::parse_duration;
use bakeoff_systems::own_servers::DELAY;

/// Bytes per read.
const PIECE: usize = 16 << 10;
/// Maximum held pieces of a connection: 2 MiB.
const PIECES_MAX: usize = 128;
/// Stack bytes of a thread.
const STACK: usize = 128 << 10;
/// Timeout of a connection to the server.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the relay if this process was started as one. A signal ends it.
pub(crate) fn internal_command() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != DELAY {
        return None;
    }
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, files);
    let problem = match parse(&args.collect::<Vec<_>>()) {
        None => format!("{DELAY} LISTEN TO LATENCY"),
        Some((listen, to, latency)) => match TcpListener::bind(listen) {
            Ok(listener) => serve(&listener, to, latency),
            Err(error) => format!("cannot listen on `{listen}`: {error}"),
        },
    };
    let _ = writeln!(io::stderr(), "error: {problem}");
    Some(ExitCode::FAILURE)
}

fn parse(args: &[OsString]) -> Option<(SocketAddr, SocketAddr, Duration)> {
    let [listen, to, latency] = args else { return None };
    let address = |text: &OsString| text.to_str()?.parse::<SocketAddr>().ok();
    Some((address(listen)?, address(to)?, parse_duration(latency.to_str()?).ok()?))
}

/// Relays until the process ends.
fn serve(listener: &TcpListener, to: SocketAddr, latency: Duration) -> String {
    loop {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // If this fails, the client finds its connection closed.
        let _ = spawn(move || drop(relay(client, to, latency)));
    }
}

fn spawn(what: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(what).map(drop)
}

/// Bytes and the time to forward them.
type Piece = (Instant, Vec<u8>);

/// Relays one connection until both sides have ended.
fn relay(client: TcpStream, to: SocketAddr, latency: Duration) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&to, CONNECT_WITHIN)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (hold, held) = mpsc::sync_channel(PIECES_MAX);
    let (from, back) = (client.try_clone()?, client);
    let (forth, answers) = (server.try_clone()?, server);
    spawn(move || hold_back(from, latency, &hold))?;
    spawn(move || pass_on(&held, forth))?;
    pass_at_once(answers, back);
    Ok(())
}

/// Reads the client's bytes and sets the time to forward them.
fn hold_back(mut client: TcpStream, latency: Duration, hold: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        // Read the clock first: `send` may block for room.
        let due = clock::now() + latency;
        if hold.send((due, buffer[..count].to_vec())).is_err() {
            break;
        }
    }
}

/// Forwards pieces when they are due. Closes the sending side once the client has ended and all is sent.
fn pass_on(held: &Receiver<Piece>, mut server: TcpStream) {
    for (due, bytes) in held {
        std::thread::sleep(due.saturating_duration_since(clock::now()));
        if server.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

fn pass_at_once(mut server: TcpStream, mut client: TcpStream) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // A server that closed its side takes no more requests, so neither does the relay.
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(60);

    /// Starts a server that runs `server` for each connection, and a relay before it. Returns the relay's address.
    fn before(server: fn(TcpStream)) -> SocketAddr {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (upstream, relay) = (listen(), listen());
        let (to, at) = (upstream.local_addr().unwrap(), relay.local_addr().unwrap());
        std::thread::spawn(move || {
            for connection in upstream.incoming() {
                std::thread::spawn(move || server(connection.unwrap()));
            }
        });
        std::thread::spawn(move || serve(&relay, to, LATENCY));
        at
    }

    fn echo(connection: TcpStream) {
        let _ = io::copy(&mut &connection, &mut &connection);
    }

    fn connect(at: SocketAddr) -> TcpStream {
        let client = TcpStream::connect(at).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    /// Sends bytes to an echo server and returns the round-trip time.
    fn ask(client: &mut TcpStream, what: &[u8]) -> Duration {
        let began = clock::now();
        client.write_all(what).unwrap();
        let mut back = vec![0; what.len()];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, what);
        began.elapsed()
    }

    #[test]
    fn latency_is_added_once_per_request() {
        let mut client = connect(before(echo));
        let took: Vec<Duration> = (0..5).map(|_| ask(&mut client, b"GET /")).collect();
        assert!(took.iter().all(|took| *took >= LATENCY), "{took:?}");
        // Other processes may take the CPU at times, but not each time.
        let least = took.iter().min().unwrap();
        assert!(*least < LATENCY * 3 / 2, "{took:?}");
    }

    #[test]
    fn concurrent_requests_do_not_wait_for_each_other() {
        const ROUNDS: usize = 200;
        let at = before(echo);
        let mut clients: Vec<TcpStream> = (0..20).map(|_| connect(at)).collect();
        let began = clock::now();
        for _ in 0..ROUNDS {
            clients.iter_mut().for_each(|client| client.write_all(b"four").unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        for client in &mut clients {
            let mut back = [0; 4 * ROUNDS];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, *b"four".repeat(ROUNDS));
        }
        let took = began.elapsed();
        // One after another, a single connection would take this long, and twenty of them twenty times as long. A busy
        // machine takes less than a quarter of it.
        let one_by_one = LATENCY * ROUNDS as u32;
        assert!(took >= LATENCY && took < one_by_one / 4, "{took:?} of {one_by_one:?}");
    }

    #[test]
    fn long_message_arrives_unchanged() {
        let mut message = vec![0; 4 << 20];
        rand::fill(&mut message[..]);
        let mut client = connect(before(echo));
        let mut sender = client.try_clone().unwrap();
        let sent = message.clone();
        let sending = std::thread::spawn(move || {
            sender.write_all(&sent).unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        sending.join().unwrap();
        assert!(back == message, "{} bytes of {}", back.len(), message.len());
    }

    #[test]
    fn delayed_bytes_are_bounded() {
        // A server that never reads and keeps the connection.
        let mut client = connect(before(|connection| {
            std::thread::sleep(Duration::from_secs(20));
            drop(connection);
        }));
        client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut sent = 0;
        while let Ok(count) = client.write(&[7; 64 << 10]) {
            sent += count;
            // The kernel buffers a few megabytes for each of two connections.
            assert!(sent < 64 << 20, "{sent} bytes and no end");
        }
        assert!(sent >= PIECES_MAX * PIECE, "{sent} bytes");
    }

    #[test]
    fn missing_or_ended_server_closes_the_connection() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = relay.local_addr().unwrap();
        std::thread::spawn(move || serve(&relay, nobody, LATENCY));
        assert_eq!(connect(at).read(&mut [0; 1]).unwrap_or(0), 0);
        let mut client = connect(before(|mut connection| {
            let _ = connection.write_all(b"bye");
        }));
        let mut wording = String::new();
        client.read_to_string(&mut wording).unwrap();
        assert_eq!(wording, "bye");
    }
}
