//! Runs the canary's loop: one thread, epoll, answers in rounds.
//!
//! A round reads from all connections, executes the requests, commits the log once, and then sends the answers. Writes
//! that arrive together share one sync. No answer, not even to a read, shows a write before it is as durable as
//! configured. Watchers receive events after the commit, too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_engine::timer::Timer;
use bakeoff_wire::canary;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::greed;
use super::http::{self, ParseResult};
use super::service::{Answer, Service};
use super::truth::RequestTimes;
use super::watch::{RemainingEvents, WatchStream};
use super::{Options, say};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const TIMER: Token = Token(usize::MAX - 2);
/// Maximum connections that wait to be accepted. The kernel's limit is mostly the same.
const WAITING_MAX: i32 = 4096;
/// Maximum bytes of unread answers of a client. Beyond that its requests wait.
const OUTPUT_MAX: usize = 1 << 20;
/// Maximum bytes read from a connection per round, so that none starves the others.
const ROUND_MAX: usize = 256 << 10;
/// Bytes that an empty buffer keeps allocated.
const BUFFER_KEPT: usize = 64 << 10;
/// Time that a refused client may go on sending before it is cut off.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) struct Canary {
    poll: Poll,
    timer: Timer,
    /// Time that the timer was last set to.
    timer_at: Option<Instant>,
    listener: TcpListener,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    service: Service,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    next_generation: u64,
    /// Times to serve a connection on which nothing arrives.
    timers: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// Connections to work on in this round.
    round: Vec<usize>,
    /// Connections whose work did not fit in this round.
    again: Vec<usize>,
    /// Connections of watchers.
    watching: Vec<usize>,
    /// Place of the last write when watchers were last woken.
    woken_at: u64,
    scratch: Box<[u8]>,
    began: Instant,
    /// Last error of `accept`, to log it once instead of every 10 ms.
    accept_error: Option<ErrorKind>,
}

/// Reason of an end without error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Stopped by a signal.
    Stopped,
    /// Ended by `--die-after`.
    Died,
}

struct Connection {
    socket: TcpStream,
    /// Distinguishes this connection from the next one in its slot.
    generation: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Answer to send later. Until then nothing is read.
    delayed: Option<DelayedAnswer>,
    /// Times of an answer of `/truth` that is being sent.
    times: Option<RequestTimes>,
    /// True while the socket may hold bytes: edge-triggered epoll does not report them twice.
    readable: bool,
    /// True while complete requests may wait in `input`.
    unparsed: bool,
    /// True if the client will send no more.
    ended: bool,
    continued: bool,
    in_round: bool,
    after: CloseMode,
    /// Its watchers; `None` for a connection of requests.
    watch: Option<Box<WatchStream>>,
    /// Time of its timer for late events.
    events_due: Option<Instant>,
}

struct DelayedAnswer {
    due: Instant,
    bytes: Vec<u8>,
    after: CloseMode,
    /// Times of the request, for `/truth`.
    times: Option<RequestTimes>,
}

/// Handling of a connection once its output is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseMode {
    Keep,
    /// Close it at once.
    Close,
    /// Close the sending side, and discard input for a while. A close with unread bytes would reset the connection, and
    /// the client might miss the answer.
    Linger,
    /// Discarding input until this time.
    Lingering(Instant),
}

impl Canary {
    /// Replays the log and listens. [`Canary::run`] serves until `stop` is set and the waker is used.
    pub(crate) fn bind(options: Options, stop: Arc<AtomicBool>) -> io::Result<Self> {
        options.check().map_err(io::Error::other)?;
        let began = clock::now();
        let (listen, service) = (options.listen, Service::open(options, began)?);
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(listen)
            .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on `{listen}`: {e}")))?;
        // Listening again makes the queue longer. A client that finds it full waits a second before it retries.
        rustix::net::listen(&listener, WAITING_MAX)?;
        let address = listener.local_addr()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let timer = Timer::new(poll.registry(), TIMER)?;
        say(format_args!("listening on {address}"));
        Ok(Self {
            poll,
            timer,
            timer_at: None,
            listener,
            waker,
            stop,
            service,
            connections: Vec::new(),
            free: Vec::new(),
            next_generation: 0,
            timers: BinaryHeap::new(),
            round: Vec::new(),
            again: Vec::new(),
            watching: Vec::new(),
            woken_at: 0,
            scratch: vec![0; ROUND_MAX].into(),
            began,
            accept_error: None,
        })
    }

    /// Returns the waker, which makes the loop check `stop`.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Serves until it is stopped, `--die-after` ends it, or it cannot write its log.
    pub(crate) fn run(mut self) -> io::Result<End> {
        let mut events = Events::with_capacity(1024);
        let faults = self.service.faults().clone();
        let die_at = faults.die_after.map(|after| self.began + after);
        let mut stall_at = (!faults.stall.is_zero()).then(|| self.began + faults.stall_after);
        let drop_every = faults.drop_watchers;
        let mut drop_at = (!drop_every.is_zero()).then(|| self.began + drop_every);
        let every = faults.burn_every;
        let every = if every.is_zero() { Duration::from_secs(1) } else { every };
        greed::burn(self.began, faults.burn, every);
        let mut accepting = true;
        loop {
            let mut next = [die_at, stall_at, drop_at].into_iter().flatten().min();
            if let Some(Reverse((due, ..))) = self.timers.peek() {
                next = Some(next.map_or(*due, |n| n.min(*due)));
            }
            let mut timeout = accepting.then_some(Duration::from_millis(10));
            if !self.again.is_empty() || self.is_near(next)? {
                timeout = Some(Duration::ZERO);
            }
            match self.poll.poll(&mut events, timeout) {
                Err(e) if e.kind() != ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                self.service.commit()?;
                say(format_args!("stopped"));
                return Ok(End::Stopped);
            }
            if die_at.is_some_and(|at| clock::now() >= at) {
                say(format_args!("dying after `--die-after`"));
                return Ok(End::Died);
            }
            if stall_at.is_some_and(|at| clock::now() >= at) {
                stall_at = None;
                let from = clock::now();
                let until = from + faults.stall;
                while clock::now() < until && !self.stop.load(Ordering::Relaxed) {
                    let left = until.saturating_duration_since(clock::now());
                    std::thread::sleep(left.min(Duration::from_millis(20)));
                }
                self.service.note_stall(clock::now().saturating_duration_since(from));
            }
            if drop_at.is_some_and(|at| clock::now() >= at) {
                drop_at = Some(clock::now() + drop_every);
                self.drop_watchers();
            }

            let mut round = std::mem::take(&mut self.round);
            round.append(&mut self.again);
            for event in &events {
                match event.token() {
                    LISTENER => accepting = true,
                    WAKER | TIMER => {}
                    Token(slot) => {
                        if let Some(Some(connection)) = self.connections.get_mut(slot) {
                            connection.readable |= event.is_readable() || event.is_read_closed();
                            // After a short read with an end, the socket may still hold bytes.
                            connection.ended |= event.is_read_closed();
                            round.push(slot);
                        }
                    }
                }
            }
            self.wake_due(&mut round);
            round.retain(|&slot| match &mut self.connections[slot] {
                Some(connection) => !std::mem::replace(&mut connection.in_round, true),
                None => false,
            });
            for &slot in &round {
                self.work(slot);
            }
            self.service.commit()?;
            self.wake_watchers(&mut round);
            for slot in round.drain(..) {
                self.send(slot);
            }
            self.round = round;
            if accepting {
                accepting = self.accept();
            }
        }
    }

    /// Returns true if sleeping would miss the next due time; otherwise sets the timer. `epoll_wait` itself counts in
    /// milliseconds.
    fn is_near(&mut self, next: Option<Instant>) -> io::Result<bool> {
        let Some(next) = next else { return Ok(false) };
        let left = next.saturating_duration_since(clock::now());
        let sleep = left.saturating_sub(self.service.spin());
        if sleep.is_zero() {
            return Ok(true);
        }
        if self.timer_at != Some(next) {
            self.timer.set(sleep)?;
            self.timer_at = Some(next);
        }
        Ok(false)
    }

    fn wake_due(&mut self, round: &mut Vec<usize>) {
        if self.timers.is_empty() {
            return;
        }
        let now = clock::now();
        while let Some(Reverse((due, slot, generation))) = self.timers.peek().copied() {
            if due > now {
                return;
            }
            self.timers.pop();
            if let Some(Some(connection)) = self.connections.get(slot)
                && connection.generation == generation
            {
                round.push(slot);
            }
        }
    }

    /// Adds the connections of watchers to a round that has written.
    fn wake_watchers(&mut self, round: &mut Vec<usize>) {
        let newest = self.service.newest();
        if std::mem::replace(&mut self.woken_at, newest) == newest {
            return;
        }
        for &slot in &self.watching {
            if let Some(connection) = &mut self.connections[slot]
                && !std::mem::replace(&mut connection.in_round, true)
            {
                round.push(slot);
            }
        }
    }

    /// Ends all connections of watchers, without notice.
    fn drop_watchers(&mut self) {
        if self.watching.is_empty() {
            return;
        }
        for slot in std::mem::take(&mut self.watching) {
            self.connections[slot] = None;
            self.free.push(slot);
        }
        self.service.note_dropped_watchers();
    }

    /// Accepts all waiting connections. Returns true to retry soon: file descriptors may run out, and the kernel
    /// reports waiting clients only once.
    fn accept(&mut self) -> bool {
        loop {
            let mut socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => continue,
                Err(e) => {
                    if self.accept_error.replace(e.kind()) != Some(e.kind()) {
                        say(format_args!("cannot accept connections: {e}"));
                    }
                    return true;
                }
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let _ = socket.set_nodelay(true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut socket, Token(slot), interest).is_err() {
                self.free.push(slot);
                continue;
            }
            self.service.note_connection();
            self.next_generation += 1;
            self.connections[slot] = Some(Box::new(Connection {
                socket,
                generation: self.next_generation,
                input: Vec::new(),
                output: Vec::new(),
                written: 0,
                delayed: None,
                times: None,
                readable: false,
                unparsed: false,
                ended: false,
                continued: false,
                in_round: false,
                after: CloseMode::Keep,
                watch: None,
                events_due: None,
            }));
        }
    }

    /// Reads requests and writes answers to buffers.
    fn work(&mut self, slot: usize) {
        let Some(mut connection) = self.connections[slot].take() else { return };
        if let Some(delayed) = connection.delayed.take_if(|delayed| delayed.due <= clock::now()) {
            connection.output.extend(delayed.bytes);
            connection.after = delayed.after;
            connection.times = delayed.times;
            connection.unparsed = true;
        }
        if connection.may_work() {
            connection.read(&mut self.scratch);
        }
        if connection.unparsed && connection.may_work() {
            let was_watching = connection.watch.is_some();
            let due = connection.answer(&mut self.service);
            if let Some(due) = due {
                self.timers.push(Reverse((due, slot, connection.generation)));
            }
            if connection.watch.is_some() && !was_watching {
                self.watching.push(slot);
            }
        }
        self.connections[slot] = Some(connection);
    }

    /// Sends answers, and closes finished connections.
    fn send(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else { return };
        connection.in_round = false;
        let remaining = connection.add_events(&mut self.service);
        if let RemainingEvents::DueAt(due) = remaining
            && connection.events_due.replace(due) != Some(due)
        {
            self.timers.push(Reverse((due, slot, connection.generation)));
        }
        // Read the clock first: after sending, the client may see the answer earlier.
        let out = connection.times.is_some().then(clock::now);
        let open = connection.flush();
        let flushed = connection.output.is_empty();
        if open
            && flushed
            && let (Some(times), Some(out)) = (connection.times.take(), out)
        {
            self.service.note_truth(times, out);
        }
        if open && flushed && connection.after == CloseMode::Linger {
            let until = clock::now() + LINGER;
            connection.after = CloseMode::Lingering(until);
            let _ = connection.socket.shutdown(Shutdown::Write);
            self.timers.push(Reverse((until, slot, connection.generation)));
        }
        let close = match connection.after {
            CloseMode::Keep => {
                // Close after the client's end only once all its requests are answered.
                flushed
                    && connection.ended
                    && !connection.readable
                    && !connection.unparsed
                    && connection.delayed.is_none()
            }
            CloseMode::Close => flushed,
            CloseMode::Linger => false,
            CloseMode::Lingering(until) => {
                (connection.ended && !connection.readable) || clock::now() >= until
            }
        };
        if !open || close {
            // Dropping the socket closes it and removes it from epoll.
            if connection.watch.is_some() {
                self.watching.retain(|watching| *watching != slot);
            }
            self.connections[slot] = None;
            self.free.push(slot);
        } else if flushed && connection.has_work(remaining) {
            self.again.push(slot);
        }
    }
}

impl Connection {
    /// Returns true if this round may read or answer more.
    fn may_work(&self) -> bool {
        let lingers = matches!(self.after, CloseMode::Lingering(_));
        (self.after == CloseMode::Keep || lingers)
            && self.delayed.is_none()
            && self.output.len() < OUTPUT_MAX
    }

    /// Returns true if it must be in the next round, too.
    fn has_work(&self, remaining: RemainingEvents) -> bool {
        self.may_work() && (self.readable || self.unparsed || remaining == RemainingEvents::NoRoom)
    }

    /// Appends events for its watchers.
    fn add_events(&mut self, service: &mut Service) -> RemainingEvents {
        match &mut self.watch {
            Some(watch) if self.after == CloseMode::Keep => {
                service.send_events(watch, &mut self.output)
            }
            _ => RemainingEvents::Nothing,
        }
    }

    fn read(&mut self, scratch: &mut [u8]) {
        let mut room = ROUND_MAX;
        while self.readable && room > 0 {
            let room_now = room.min(scratch.len());
            match self.socket.read(&mut scratch[..room_now]) {
                Ok(0) => {
                    self.ended = true;
                    self.readable = false;
                }
                Ok(n) => {
                    if self.after == CloseMode::Keep {
                        self.input.extend_from_slice(&scratch[..n]);
                        self.unparsed = true;
                    }
                    // A short read emptied the socket, and epoll reports new bytes (epoll(7)). It reports the end of
                    // the stream only once, though.
                    self.readable = n == room_now || self.ended;
                    room -= n;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.ended = true;
                    self.readable = false;
                    self.after = CloseMode::Close;
                    self.output.clear();
                    self.written = 0;
                }
            }
        }
    }

    /// Answers the complete requests in `input` while there is room for answers. Returns the due time of a delayed
    /// answer, which the other requests wait for.
    fn answer(&mut self, service: &mut Service) -> Option<Instant> {
        let mut at = 0;
        let mut due = None;
        self.unparsed = false;
        while due.is_none() && self.after == CloseMode::Keep && at < self.input.len() {
            if self.output.len() >= OUTPUT_MAX {
                self.unparsed = true;
                break;
            }
            let bytes = &self.input[at..];
            if let Some(watch) = &mut self.watch {
                match canary::read(bytes) {
                    Ok(None) => break,
                    Ok(Some((frame, length)))
                        if service.execute(watch, &frame, &mut self.output) =>
                    {
                        at += length;
                    }
                    Ok(Some(_)) | Err(_) => {
                        service.note_bad_request();
                        self.after = CloseMode::Close;
                    }
                }
                continue;
            }
            let head = match http::parse(bytes) {
                ParseResult::Partial => break,
                ParseResult::Bad(status) => {
                    service.note_bad_request();
                    http::answer(&mut self.output, status, b"", false);
                    self.after = CloseMode::Linger;
                    break;
                }
                ParseResult::Head(head) => head,
            };
            let end = head.length + head.body_length;
            let Some(body) = bytes.get(head.length..end) else {
                if head.expects_continue && !std::mem::replace(&mut self.continued, true) {
                    self.output.extend(http::CONTINUE);
                }
                break;
            };
            self.continued = false;
            let start = self.output.len();
            match service.answer(&head, body, &mut self.output) {
                Answer::Whole if head.keep_alive => {}
                Answer::Whole => self.after = CloseMode::Linger,
                Answer::CutOff => self.after = CloseMode::Close,
                Answer::Watches => self.watch = Some(Box::new(service.watch_stream())),
                kept @ (Answer::Delayed(by) | Answer::Truth(by)) => {
                    let at = clock::now();
                    let due_at = at + by;
                    let times = matches!(kept, Answer::Truth(_))
                        .then_some(RequestTimes { at, due: due_at });
                    let after = if head.keep_alive { CloseMode::Keep } else { CloseMode::Linger };
                    let bytes = self.output.split_off(start);
                    self.delayed = Some(DelayedAnswer { due: due_at, bytes, after, times });
                    due = Some(due_at);
                }
            }
            at += end;
        }
        self.input.drain(..at);
        if self.input.is_empty() {
            self.input.shrink_to(BUFFER_KEPT);
        }
        due
    }

    /// Writes as much as possible. Returns false if the connection is broken.
    fn flush(&mut self) -> bool {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.output.shrink_to(BUFFER_KEPT);
        self.written = 0;
        true
    }
}
