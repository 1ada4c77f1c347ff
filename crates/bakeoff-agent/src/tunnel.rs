//! Carries a TCP connection over a request. Both ends of the tunnel run the same code.
//!
//! Each end has a connection and the pipe. Bytes read from the connection become data frames. Data frames are written
//! to the connection, and a note reports how many bytes were written. At most [`WINDOW`] bytes per direction are
//! unacknowledged. A connection that stops reading therefore neither fills memory nor delays other requests. If one
//! end's connection closes, the bytes read before still arrive, then the tunnel ends.
//!
//! Not here: when to use a tunnel (the binary's `machines`), the request (`message`).

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bakeoff_clock as clock;
use serde_json::Value;

use super::client::{Dialer, Exchange, IncomingFrame};
use super::error::{AgentError, AgentRefusal};
use super::frame::read_json;
use super::frame_sender::FrameSender;
use super::line::Line;
use super::message::{DialLine, Request};

/// Most bytes per direction that are sent but not yet written on the other side.
const WINDOW: usize = 256 << 10;
/// Most bytes per read of a connection.
const READ: usize = 64 << 10;
/// Time limit to write the remaining bytes after the other end closed.
const LAST_WITHIN: Duration = Duration::from_secs(5);
/// Connections from other processes to skip while waiting for our own.
const STRANGERS_MAX: usize = 16;

/// Send window: the bytes that may still be sent.
struct Window {
    left: Mutex<OutgoingBytes>,
    changed: Condvar,
}

struct OutgoingBytes {
    bytes: usize,
    over: bool,
}

impl Window {
    fn new() -> Self {
        Self {
            left: Mutex::new(OutgoingBytes { bytes: WINDOW, over: false }),
            changed: Condvar::new(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, OutgoingBytes> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the window is open and returns its size. Returns `None` once the tunnel is over.
    fn open(&self) -> Option<usize> {
        let shut = |left: &mut OutgoingBytes| left.bytes == 0 && !left.over;
        let left = self.changed.wait_while(self.locked(), shut);
        let left = left.unwrap_or_else(PoisonError::into_inner);
        (!left.over).then_some(left.bytes)
    }

    fn spend(&self, bytes: usize) {
        self.locked().bytes -= bytes;
    }

    /// Returns acknowledged bytes to the window, up to its full size.
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

/// Bytes received but not yet written.
struct UnwrittenBytes(Mutex<usize>);

impl UnwrittenBytes {
    fn add(&self, bytes: usize) -> usize {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting += bytes;
        *waiting
    }

    fn remove(&self, bytes: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
    }
}

/// Carries a connection until either end closes. `next` returns the next frame from the pipe; `None` if the pipe is
/// lost.
///
/// # Errors
/// When the other end exceeds the window.
pub(crate) fn carry(
    stream: &TcpStream,
    way: &impl FrameSender,
    mut next: impl FnMut() -> Option<IncomingFrame>,
) -> Result<(), AgentRefusal> {
    let (window, waiting) = (Window::new(), UnwrittenBytes(Mutex::new(0)));
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
                Some(IncomingFrame::Data(bytes)) => {
                    if waiting.add(bytes.len()) > WINDOW {
                        let incoming = "the other end exceeded the tunnel's window";
                        break Err(AgentRefusal::new(incoming));
                    }
                    // The writer may have ended with its connection; the bytes are dropped then.
                    come.send(bytes).ok();
                }
                Some(IncomingFrame::Note(note)) => {
                    if let Ok(DialLine::Taken(bytes)) = read_json(&note) {
                        window.give(bytes);
                    }
                }
                Some(IncomingFrame::End | IncomingFrame::Answer(_) | IncomingFrame::Refusal(_)) => {
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

/// Sends the bytes read from the connection.
fn hand_over(mut stream: &TcpStream, way: &impl FrameSender, window: &Window) {
    let mut part = vec![0; READ];
    while let Some(most) = window.open() {
        let most = most.min(part.len());
        match stream.read(&mut part[..most]) {
            Ok(read @ 1..) => {
                // Spend before sending: the other end may acknowledge before this thread continues.
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

/// Writes received bytes to the connection and acknowledges them.
fn take(
    mut stream: &TcpStream,
    way: &impl FrameSender,
    comes: &Receiver<Vec<u8>>,
    waiting: &UnwrittenBytes,
) {
    while let Ok(bytes) = comes.recv() {
        if stream.write_all(&bytes).is_err() {
            // Also wakes the thread that reads from the connection.
            stream.shutdown(Shutdown::Both).ok();
            return;
        }
        waiting.remove(bytes.len());
        if way.tell(&DialLine::Taken(bytes.len() as u64)).is_err() {
            return;
        }
    }
}

/// Serves the agent's end: connects to an address and tunnels the connection.
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
    /// Connects to an address from the agent's machine. Returns one end of a local connection; a thread tunnels the
    /// other end.
    ///
    /// # Errors
    /// The remote connect error, or `ConnectionAborted` if the machine is lost.
    pub fn connect(&self, address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let within_ms = within.as_millis().max(1) as u64;
        let exchange = self.open(&Request::Dial { address, within_ms });
        let lost = |error: AgentError| io::Error::new(io::ErrorKind::ConnectionAborted, error);
        dialled(exchange.map_err(lost)?, within)
    }
}

/// Waits until the remote end is connected, then returns one end of a local connection.
fn dialled(exchange: Exchange, within: Duration) -> io::Result<TcpStream> {
    let pair = await_connected(&exchange, within).and_then(|()| pair());
    let (ours, carried) = pair.inspect_err(|_| {
        // The agent may still connect; tell it to stop.
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
            Some(IncomingFrame::Note(note)) => match read_json(&note) {
                Ok(DialLine::Connected) => return Ok(()),
                Ok(DialLine::Failed(Some(number))) => {
                    return Err(io::Error::from_raw_os_error(number));
                }
                Ok(DialLine::Failed(None)) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(DialLine::Taken(_)) | Err(_) => {}
            },
            Some(IncomingFrame::Refusal(refusal)) => return Err(io::Error::other(refusal.text)),
            Some(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

/// Connects this process to itself. No port stays open for others.
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
    Err(io::Error::other("other processes connected to the tunnel's local port before bakeoff did"))
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Frame, Kind};
    use super::*;

    /// Test double of the other end: records what was sent and whether it ended.
    #[derive(Default)]
    struct RecordingEnd {
        bytes: Mutex<usize>,
        taken: Mutex<u64>,
        ended: Mutex<bool>,
    }

    impl FrameSender for RecordingEnd {
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

    /// Waits until a number stops changing, and returns it.
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
    fn sending_stops_when_the_window_is_full() {
        let (mut far, carried) = pair().unwrap();
        let (tell, incoming) = mpsc::channel();
        let way = RecordingEnd::default();
        std::thread::scope(|scope| {
            let tell = tell; // dropped with this thread, so a panic ends the others
            let way = &way;
            scope.spawn(move || carry(&carried, way, || incoming.recv().ok()).unwrap());
            scope.spawn(move || {
                let bytes = vec![0; 4 * WINDOW];
                far.write_all(&bytes).ok();
                far
            });
            assert_eq!(settled(&way.bytes), WINDOW);
            // Neither an inflated nor a partial acknowledgement opens more than the window.
            tell.send(IncomingFrame::Note(br#"{"taken": 5}"#.to_vec())).unwrap();
            assert_eq!(settled(&way.bytes), WINDOW + 5);
            tell.send(IncomingFrame::Note(format!("{{\"taken\": {}}}", u64::MAX).into_bytes()))
                .unwrap();
            assert_eq!(settled(&way.bytes), 2 * WINDOW + 5);
            tell.send(IncomingFrame::End).unwrap();
        });
        assert!(*way.ended.lock().unwrap());
    }

    #[test]
    fn exceeding_the_window_closes_the_tunnel() {
        let (far, carried) = pair().unwrap();
        let way = RecordingEnd::default();
        // Nothing reads at the far end, so the kernel's buffers fill, then the window.
        let incoming =
            carry(&carried, &way, || Some(IncomingFrame::Data(vec![0; READ]))).unwrap_err();
        assert!(incoming.text.starts_with("the other end exceeded"), "{}", incoming.text);
        drop(far);
    }

    #[test]
    fn last_bytes_arrive_before_the_end() {
        let (mut far, carried) = pair().unwrap();
        let way = RecordingEnd::default();
        let mut come = vec![IncomingFrame::End, IncomingFrame::Data(vec![7; 100_000])];
        carry(&carried, &way, || come.pop()).unwrap();
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!((all.len(), *way.taken.lock().unwrap()), (100_000, 100_000));
    }

    #[test]
    fn arbitrary_frames_are_carried_or_end_the_tunnel() {
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
            let (way, mut from) = (RecordingEnd::default(), bytes);
            let mut next = || IncomingFrame::read(Frame::read(&mut from).ok()??).ok();
            carry(&carried, &way, &mut next).ok();
            assert!(*way.taken.lock().unwrap() <= bytes.len() as u64);
            assert!(*way.ended.lock().unwrap());
        });
    }
}
