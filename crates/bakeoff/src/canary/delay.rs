//! `bakeoff __delay`: a relay that is as far away as a real service would be.
//!
//! An emulator on loopback answers within a fraction of a millisecond what the service that it
//! stands for answers in twenty. The relay stands in front of it and holds back whatever clients send
//! by a set time, so that each request takes so much longer. Answers pass at once: what is added
//! is added once a request, also where several are under way on one connection.
//!
//! The bytes are nobody's but the two ends': nothing is parsed, so TLS and any protocol pass. Three
//! threads a connection, for they sleep to within a tenth of a millisecond and none waits for
//! another. What is held back is bounded; then the client's own sending waits, as on a long line.
//!
//! Not here: lost packets, limited bandwidth, and the time that a connection takes to come about.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::units::parse_duration;
use bakeoff_systems::own_servers::DELAY;

/// Bytes read at once.
const PIECE: usize = 16 << 10;
/// The most pieces of one connection that are held back: 2 MiB.
const PIECES_MAX: usize = 128;
/// Threads hold little but their stacks and a piece.
const STACK: usize = 128 << 10;
/// The longest time in which the server takes a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// After a connection that could not be taken, for want of files as a rule.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the relay when that is what this process was started for. A signal ends it.
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

/// Relays for as long as the process lives; returns only what ended it.
fn serve(listener: &TcpListener, to: SocketAddr, latency: Duration) -> String {
    loop {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // Who cannot be served finds the connection closed.
        let _ = spawn(move || drop(relay(client, to, latency)));
    }
}

fn spawn(what: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(what).map(drop)
}

/// Bytes, and when they are to go on.
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

/// Notes when each piece that the client sends came.
fn hold_back(mut client: TcpStream, latency: Duration, hold: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        // Read before it may have to wait for room.
        let due = clock::now() + latency;
        if hold.send((due, buffer[..count].to_vec())).is_err() {
            break;
        }
    }
}

/// Sends what is due; ends the server's side once the client has ended and all of it was sent.
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
    // A server that has ended its side takes no more requests: nor does the relay.
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(60);

    /// A relay in front of a server that does this with each connection; the relay's address.
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

    /// Returns how long it takes until what was sent is back.
    fn ask(client: &mut TcpStream, what: &[u8]) -> Duration {
        let began = clock::now();
        client.write_all(what).unwrap();
        let mut back = vec![0; what.len()];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, what);
        began.elapsed()
    }

    #[test]
    fn each_request_takes_the_latency_longer_and_no_more() {
        let mut client = connect(before(echo));
        let took: Vec<Duration> = (0..5).map(|_| ask(&mut client, b"GET /")).collect();
        assert!(took.iter().all(|took| *took >= LATENCY), "{took:?}");
        // Others may have the CPU now and then, not each time.
        let least = took.iter().min().unwrap();
        assert!(*least < LATENCY * 3 / 2, "{took:?}");
    }

    #[test]
    fn requests_under_way_at_once_do_not_wait_for_each_other() {
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
        // One connection's alone would take this long one after another, all connections' twenty
        // times as long. A busy machine takes a while, not a quarter of it.
        let one_by_one = LATENCY * ROUNDS as u32;
        assert!(took >= LATENCY && took < one_by_one / 4, "{took:?} of {one_by_one:?}");
    }

    #[test]
    fn a_long_message_arrives_unchanged_and_is_late_only_once() {
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
        // It never reads, and keeps the connection.
        let mut client = connect(before(|connection| {
            std::thread::sleep(Duration::from_secs(20));
            drop(connection);
        }));
        client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut sent = 0;
        while let Ok(count) = client.write(&[7; 64 << 10]) {
            sent += count;
            // The kernel holds some megabytes of its own at each of two connections.
            assert!(sent < 64 << 20, "{sent} bytes and no end");
        }
        assert!(sent >= PIECES_MAX * PIECE, "{sent} bytes");
    }

    #[test]
    fn a_server_that_is_gone_or_ends_is_told_by_a_closed_connection() {
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
