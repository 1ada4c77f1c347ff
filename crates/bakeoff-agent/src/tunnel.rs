//! Carries a connection over a request: both ends of a tunnel, which are alike.
//!
//! Each end has a connection and the pipe. Bytes that the connection says go over the pipe as data; data that comes is
//! written to the connection, and a note tells the other end how much of it was taken. No more than [`WINDOW`] bytes
//! of a direction are under way, so that a connection that takes nothing fills nobody's memory and holds up no other
//! request. When one end's connection closes, what it said before is handed over, and the tunnel ends.
//!
//! Not here: when a tunnel is needed (the binary's `machines`), the request (`message`).

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_clock as clock;
use serde_json::Value;

use super::client::{Dialer, Exchange, Incoming};
use super::error::{AgentError, AgentRefusal};
use super::frame::read_json;
use super::line::Line;
use super::message::{DialLine, Request};
use super::way::Way;

/// Most bytes of one direction that are under way: sent, and not known to be taken on the other side.
const WINDOW: usize = 256 << 10;
/// Most bytes that are read of a connection at once.
const READ: usize = 64 << 10;
/// How long a connection may take what came before the other end closed.
const LAST_WITHIN: Duration = Duration::from_secs(5);
/// Connections by others that are passed over while this process waits for its own.
const STRANGERS_MAX: usize = 16;

/// The bytes that may still be sent.
struct Window {
    left: Mutex<Left>,
    changed: Condvar,
}

struct Left {
    bytes: usize,
    over: bool,
}

impl Window {
    fn new() -> Self {
        Self { left: Mutex::new(Left { bytes: WINDOW, over: false }), changed: Condvar::new() }
    }

    fn locked(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may be sent, and returns how much; `None` once the tunnel is over.
    fn open(&self) -> Option<usize> {
        let shut = |left: &mut Left| left.bytes == 0 && !left.over;
        let left = self.changed.wait_while(self.locked(), shut);
        let left = left.unwrap_or_else(PoisonError::into_inner);
        (!left.over).then_some(left.bytes)
    }

    fn spend(&self, bytes: usize) {
        self.locked().bytes -= bytes;
    }

    /// Gives back what was taken. The other end cannot take more than it was sent.
    fn give(&self, bytes: u64) {
        let mut left = self.locked();
        let bytes = usize::try_from(bytes).unwrap_or(WINDOW);
        left.bytes = left.bytes.saturating_add(bytes).min(WINDOW);
        self.changed.notify_all();
    }

    fn shut(&self) {
        self.locked().over = true;
        self.changed.notify_all();
    }
}

/// The bytes that came and were not written yet.
struct Waiting(Mutex<usize>);

impl Waiting {
    fn add(&self, bytes: usize) -> usize {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting += bytes;
        *waiting
    }

    fn remove(&self, bytes: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
    }
}

/// Carries a connection until either end closes. `next`: what comes over the pipe; `None` once it is lost.
///
/// # Errors
/// When the other end sent more than was to be under way.
pub(crate) fn carry(
    stream: &TcpStream,
    way: &impl Way,
    mut next: impl FnMut() -> Option<Incoming>,
) -> Result<(), AgentRefusal> {
    let (window, waiting) = (Window::new(), Waiting(Mutex::new(0)));
    let (come, comes) = mpsc::channel();
    let (is_over, over) = mpsc::channel();
    std::thread::scope(|scope| {
        let (window, waiting) = (&window, &waiting);
        scope.spawn(move || hand_over(stream, way, window));
        scope.spawn(move || {
            take(stream, way, &comes, waiting);
            is_over.send(()).ok();
        });
        let carried = loop {
            match next() {
                Some(Incoming::Data(bytes)) => {
                    if waiting.add(bytes.len()) > WINDOW {
                        let told = "more came over a tunnel than was to be under way";
                        break Err(AgentRefusal::new(told));
                    }
                    // Who writes has ended where the connection has: what comes after is nobody's.
                    come.send(bytes).ok();
                }
                Some(Incoming::Note(note)) => {
                    if let Ok(DialLine::Taken(bytes)) = read_json(&note) {
                        window.give(bytes);
                    }
                }
                Some(Incoming::End | Incoming::Answer(_) | Incoming::Refusal(_)) => {
                    drop(come);
                    over.recv_timeout(LAST_WITHIN).ok();
                    break Ok(());
                }
                None => break Ok(()),
            }
        };
        window.shut();
        stream.shutdown(Shutdown::Both).ok();
        carried
    })
}

/// Sends what the connection says.
fn hand_over(mut stream: &TcpStream, way: &impl Way, window: &Window) {
    let mut part = vec![0; READ];
    while let Some(most) = window.open() {
        let most = most.min(part.len());
        match stream.read(&mut part[..most]) {
            Ok(read @ 1..) => {
                // Before it is sent: it may have been taken before this thread goes on.
                window.spend(read);
                if way.data(&part[..read]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    way.end().ok();
}

/// Writes what comes to the connection, and tells how much was written.
fn take(mut stream: &TcpStream, way: &impl Way, comes: &Receiver<Vec<u8>>, waiting: &Waiting) {
    while let Ok(bytes) = comes.recv() {
        if stream.write_all(&bytes).is_err() {
            // Whoever reads of it hears the end too.
            stream.shutdown(Shutdown::Both).ok();
            return;
        }
        waiting.remove(bytes.len());
        if way.tell(&DialLine::Taken(bytes.len() as u64)).is_err() {
            return;
        }
    }
}

/// The agent's end: connects to an address of its machine, and carries that connection.
pub(crate) fn dial(
    address: SocketAddr,
    within: Duration,
    line: &Line,
) -> Result<Value, AgentRefusal> {
    let connected = TcpStream::connect_timeout(&address, within).and_then(|stream| {
        stream.set_nodelay(true)?;
        Ok(stream)
    });
    match connected {
        Ok(stream) => {
            line.back.tell(&DialLine::Connected);
            carry(&stream, &line.back, || line.next())?;
        }
        Err(error) => line.back.tell(&DialLine::Failed(error.raw_os_error())),
    }
    Ok(Value::Null)
}

impl Dialer {
    /// Connects to an address from there. The connection is one of this process with itself, whose other end the agent
    /// carries on.
    ///
    /// # Errors
    /// The error of the connection there, or the loss of the machine.
    pub fn connect(&self, address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let within_ms = within.as_millis().max(1) as u64;
        let exchange = self.open(&Request::Dial { address, within_ms });
        let lost = |error: AgentError| io::Error::new(io::ErrorKind::ConnectionAborted, error);
        dialled(exchange.map_err(lost)?, within)
    }
}

/// The coordinator's end: waits for the connection, and returns one of this process that stands for it.
fn dialled(exchange: Exchange, within: Duration) -> io::Result<TcpStream> {
    let pair = await_connected(&exchange, within).and_then(|()| pair());
    let (ours, carried) = pair.inspect_err(|_| {
        // It may yet be accepted, and is of no use then.
        exchange.end().ok();
    })?;
    std::thread::Builder::new().name("tunnel".to_owned()).spawn(move || {
        carry(&carried, &exchange.way(), || exchange.next().ok()).ok();
    })?;
    Ok(ours)
}

fn await_connected(exchange: &Exchange, within: Duration) -> io::Result<()> {
    let until = clock::now() + within;
    loop {
        let left = until.saturating_duration_since(clock::now());
        let lost = |error| io::Error::new(io::ErrorKind::ConnectionAborted, format!("{error}"));
        match exchange.next_within(left).map_err(lost)? {
            None => return Err(io::ErrorKind::TimedOut.into()),
            Some(Incoming::Note(note)) => match read_json(&note) {
                Ok(DialLine::Connected) => return Ok(()),
                Ok(DialLine::Failed(Some(number))) => {
                    return Err(io::Error::from_raw_os_error(number));
                }
                Ok(DialLine::Failed(None)) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(DialLine::Taken(_)) | Err(_) => {}
            },
            Some(Incoming::Refusal(refusal)) => return Err(io::Error::other(refusal.text)),
            Some(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Makes a connection of this process with itself. No port stays open that others could connect to.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    for _ in 0..STRANGERS_MAX {
        let (carried, from) = listener.accept()?;
        if from == ours.local_addr()? {
            ours.set_nodelay(true)?;
            carried.set_nodelay(true)?;
            return Ok((ours, carried));
        }
    }
    Err(io::Error::other("strangers took a connection that this process made with itself"))
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Frame, Kind};
    use super::*;

    /// A way whose other end is the test: what was sent, and whether it ended.
    #[derive(Default)]
    struct Seen {
        bytes: Mutex<usize>,
        taken: Mutex<u64>,
        ended: Mutex<bool>,
    }

    impl Way for Seen {
        fn data(&self, bytes: &[u8]) -> io::Result<()> {
            *self.bytes.lock().unwrap() += bytes.len();
            Ok(())
        }

        fn tell(&self, note: &DialLine) -> io::Result<()> {
            if let DialLine::Taken(bytes) = note {
                *self.taken.lock().unwrap() += bytes;
            }
            Ok(())
        }

        fn end(&self) -> io::Result<()> {
            *self.ended.lock().unwrap() = true;
            Ok(())
        }
    }

    /// Waits until a number no longer changes, and returns it.
    fn settled(number: &Mutex<usize>) -> usize {
        let read = || *number.lock().unwrap();
        let mut last = read();
        loop {
            std::thread::sleep(Duration::from_millis(30));
            let now = read();
            if now == last && now > 0 {
                return now;
            }
            last = now;
        }
    }

    #[test]
    fn no_more_is_sent_than_the_other_end_took() {
        let (mut far, carried) = pair().unwrap();
        let (tell, told) = mpsc::channel();
        let way = Seen::default();
        std::thread::scope(|scope| {
            let tell = tell; // its end is that of the threads, should this one panic
            let way = &way;
            scope.spawn(move || carry(&carried, way, || told.recv().ok()).unwrap());
            scope.spawn(move || {
                let bytes = vec![0; 4 * WINDOW];
                far.write_all(&bytes).ok();
                far
            });
            assert_eq!(settled(&way.bytes), WINDOW);
            // Neither a lie nor a small part opens more than the window.
            tell.send(Incoming::Note(br#"{"taken": 5}"#.to_vec())).unwrap();
            assert_eq!(settled(&way.bytes), WINDOW + 5);
            tell.send(Incoming::Note(format!("{{\"taken\": {}}}", u64::MAX).into_bytes())).unwrap();
            assert_eq!(settled(&way.bytes), 2 * WINDOW + 5);
            tell.send(Incoming::End).unwrap();
        });
        assert!(*way.ended.lock().unwrap());
    }

    #[test]
    fn more_than_was_to_be_under_way_ends_the_tunnel() {
        let (far, carried) = pair().unwrap();
        let way = Seen::default();
        // Nothing reads at the far end, so that the kernel's buffers fill, and then the window.
        let told = carry(&carried, &way, || Some(Incoming::Data(vec![0; READ]))).unwrap_err();
        assert!(told.text.starts_with("more came over a tunnel"), "{}", told.text);
        drop(far);
    }

    #[test]
    fn last_bytes_arrive_before_the_end() {
        let (mut far, carried) = pair().unwrap();
        let way = Seen::default();
        let mut come = vec![Incoming::End, Incoming::Data(vec![7; 100_000])];
        carry(&carried, &way, || come.pop()).unwrap();
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!((all.len(), *way.taken.lock().unwrap()), (100_000, 100_000));
    }

    #[test]
    fn any_frames_carry_or_end() {
        let mut seed = Vec::new();
        for (kind, body) in [
            (Kind::Data, &b"GET / HTTP/1.1"[..]),
            (Kind::Note, b"{\"taken\":3}"),
            (Kind::Note, b"{\"failed\":111}"),
            (Kind::End, b""),
        ] {
            Frame { kind, number: 1, body: body.to_vec() }.write(&mut seed).unwrap();
        }
        bakeoff_fuzz::run("frames of a tunnel", &[&seed], &["{\"taken\":0}"], |bytes| {
            let (far, carried) = pair().unwrap();
            far.set_nonblocking(true).unwrap();
            let (way, mut from) = (Seen::default(), bytes);
            let mut next = || Incoming::read(Frame::read(&mut from).ok()??).ok();
            carry(&carried, &way, &mut next).ok();
            assert!(*way.taken.lock().unwrap() <= bytes.len() as u64);
            assert!(*way.ended.lock().unwrap());
        });
    }
}
