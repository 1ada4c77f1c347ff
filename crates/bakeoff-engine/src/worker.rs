//! Runs the measured loop: one thread, its clients' connections, one `epoll`.
//!
//! Every kind of load uses this loop. The schedule and the stop make it closed or open, timed or counted. The link
//! makes it plain or TLS. The session speaks the protocol. The loop reads the clock at each relevant moment and
//! passes the reading on.
//!
//! Not here: connecting before the load (`greeting`), lost connections (`connecting`), one node's due operations in
//! an open load (`lanes`), scheduling (`pacing`), the loop's lateness (`lateness`) and CPU time (`effort`), counting
//! outcomes (`recorder`), the load's end (`ending`), adding up workers (`collector`), operations (`work`).

mod connecting;
mod due;
mod effort;
mod ending;
mod greeting;
mod held_bytes;
mod lanes;
mod lateness;
mod pacing;
mod recorder;
mod round_robin;

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::units::latency_text;
use mio::{Events, Poll, Token};

use super::client::{Client, Connection, Flight, QueuedOperation, Slot};
use super::collector::Slice;
use super::lookup::Lookups;
use super::peer::{Peer, aged, figures_by_node};
use super::tls::refusal;
use super::turns::Turns;
use super::work::{Completion, Failure, NotIssued, OperationTiming, Session as _, Tag, Work};
use super::{Connections, EngineError, Window, clock};
use effort::Effort;
use held_bytes::HeldBytes;
pub(super) use lanes::Lane;
use lateness::Attention;
use pacing::Pacing;
pub(super) use recorder::Outlet;
use recorder::{FailedOperation, Recorder};

/// Longest interval between scans for timeouts and reconnections. A short timeout is scanned four times as it runs.
const SCAN_EVERY: Duration = Duration::from_millis(10);
/// Shortest interval between timeout scans: `epoll_wait` counts in milliseconds.
const SCAN_MIN: Duration = Duration::from_millis(1);
const READ_BUFFER_SIZE: usize = 64 << 10;
/// Bytes that a connection may have ready before others get their turn.
const TURN_BYTES: usize = 512 << 10;
/// Maximum number of times an operation is sent that the server does not process.
const TRIES_MAX: u8 = 8;
const TIMER: Token = Token(usize::MAX);

pub(super) struct SharedState<'a> {
    /// Number of the next operation, which makes keys distinct.
    pub(super) tickets: AtomicU64,
    /// Measured operations begun, in a closed load that stops by count.
    pub(super) begun: AtomicU64,
    /// True if a worker has ended the load.
    pub(super) aborted: AtomicBool,
    /// True if the user has interrupted the load.
    pub(super) interrupted: &'a AtomicBool,
    pub(super) peers: &'a [Peer],
    /// Index of the first peer that is the same server, for each peer.
    pub(super) places: Vec<usize>,
    /// True once a client of any worker has a connection to the server, by that index.
    pub(super) reached: Vec<AtomicBool>,
    pub(super) lookups: Lookups,
}

pub(super) struct Part {
    pub(super) worker: usize,
    /// Number of different operations.
    pub(super) operations: usize,
    pub(super) judges_age: bool,
    pub(super) begins_short: bool,
    /// True if other generators connect to the same servers, which a server may serve first.
    pub(super) is_shared: bool,
    /// Number, node and lane of each client, once per connection of the client.
    pub(super) clients: Vec<(u32, usize, usize)>,
    pub(super) per_client: usize,
    /// Rotation of a closed load over several servers; `None` for one server.
    pub(super) turns: Option<Arc<Turns>>,
    pub(super) in_flight: u32,
    /// Operations in flight, if clients differ by one.
    pub(super) slots: Option<ClientSlots>,
    /// Longest time without any client connecting; `None` for the default.
    pub(super) connect_within: Option<Duration>,
    pub(super) connections: Connections,
    pub(super) spin: Duration,
    pub(super) timeout: Duration,
    /// Maximum number of send times to sample.
    pub(super) sample_sent: usize,
    /// Number of measured operations that all workers of a closed load begin together.
    pub(super) budget: Option<u64>,
    /// Maximum bytes of incomplete answers that its clients hold together.
    pub(super) held_max: usize,
}

/// Deals a number of operations in flight to clients as evenly as possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientSlots {
    pub(super) all: u32,
    pub(super) clients: u32,
}

impl ClientSlots {
    /// Returns the operations in flight of one client.
    pub(super) fn of_client(self, client: u32) -> u32 {
        let (each, more) = (self.all / self.clients, self.all % self.clients);
        each + u32::from(client < more)
    }
}

impl Part {
    /// Returns the operations in flight of one client, at most `in_flight`.
    fn slots_of(&self, client: u32) -> usize {
        self.slots.map_or(self.in_flight, |slots| slots.of_client(client).min(self.in_flight))
            as usize
    }
}

pub(super) struct Worker<'a, W: Work> {
    work: W,
    part: Part,
    shared: &'a SharedState<'a>,
    poll: Poll,
    clients: Vec<Client<W>>,
    pacing: Pacing<'a>,
    recorder: Recorder,
    /// Reason why the load cannot go on.
    wants: Option<EngineError>,
    /// True if the TLS handshake failed for good, so that a retry would not help.
    refused_tls: bool,
    has_succeeded: bool,
    /// Time at which the worker noticed the end of the load.
    over_since: Option<Instant>,
    /// True once the load has begun. Clients that connect earlier wait for it.
    begun_load: bool,
    buffer: Vec<u8>,
    /// Buffer for the next bytes to send, shared by the clients.
    spare: Vec<u8>,
    done: Vec<Completion>,
    /// Connections that have more to read but gave others their turn. No event announces the rest. True if the peer
    /// has closed.
    unread: Vec<(usize, bool)>,
    held: HeldBytes,
}

impl<'a, W: Work> Worker<'a, W> {
    pub(super) fn new(
        work: W,
        part: Part,
        lanes: Vec<Lane>,
        shared: &'a SharedState<'a>,
        outlet: Outlet,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let now = clock::now();
        let clients = part
            .clients
            .iter()
            .map(|&(number, node, lane)| Client::new(number, node, lane, part.in_flight, now));
        let targets = figures_by_node(shared.peers).len();
        let aged = if part.judges_age { aged(shared.peers).len() } else { 0 };
        let slice = Box::new(Slice::new(part.worker, part.operations, targets, aged));
        Ok(Self {
            clients: clients.collect(),
            pacing: Pacing::new(&part, lanes, shared, poll.registry(), now)?,
            recorder: Recorder::new(part.worker, shared.lookups.copy(), slice, outlet, now),
            work,
            held: HeldBytes::new(part.held_max),
            part,
            shared,
            poll,
            wants: None,
            refused_tls: false,
            has_succeeded: false,
            over_since: None,
            begun_load: false,
            buffer: vec![0; READ_BUFFER_SIZE],
            spare: Vec::new(),
            done: Vec::new(),
            unread: Vec::new(),
        })
    }

    /// Runs until the load is over and no operation is in flight.
    pub(super) fn run(mut self, window: Window) -> Result<(), EngineError> {
        self.wait_for_start(window);
        let mut effort = Effort::begin();
        self.begin_operations();
        let scan_every = (self.part.timeout / 4).clamp(SCAN_MIN, SCAN_EVERY);
        let mut events = Events::with_capacity(1024);
        let mut interrupted_at = None;
        let mut now = clock::now();
        let mut scan_at = now + scan_every;
        self.pacing.attention = Attention::new(now);
        loop {
            now = self.wait_and_serve(&mut events, now, scan_every, &mut effort)?;
            if now < scan_at {
                continue;
            }
            scan_at = now + scan_every;
            self.scan(now);
            if self.is_over(now) {
                if effort.busy.is_none() {
                    effort.end(now);
                }
                self.release_idle(now);
            }
            if self.has_ended(now, &mut interrupted_at) {
                break;
            }
            now = clock::now();
        }
        let ended = self.wants.take().map_or(Ok(()), Err);
        self.finish(interrupted_at.is_some(), effort.busy.unwrap_or_default());
        ended
    }

    fn wait_for_start(&mut self, window: Window) {
        self.recorder.begin(window, !self.pacing.is_open());
        (0..self.pacing.lanes.len())
            .for_each(|lane| self.pacing.advance(lane, false, window.start));
        self.work.begin(window.start, window.measure);
        self.begin_clients(window.start);
        let wait = window.start.saturating_duration_since(clock::now());
        std::thread::sleep(wait);
        self.begun_load = true;
    }

    /// Gives each client its first operation if one is due.
    fn begin_operations(&mut self) {
        for index in 0..self.clients.len() {
            let now = clock::now();
            if !self.pacing.is_open() && self.begins_turns(index) {
                // A closed client's first operation is due when the loop reaches it.
                let slots = self.part.slots_of(self.clients[index].number);
                (0..slots).for_each(|tag| self.free(index, tag, now));
            }
            self.refill(index, now);
            self.flush(index);
        }
    }

    /// Waits for the next event, due operation or scan, and serves all events. Returns the time after that.
    #[inline]
    fn wait_and_serve(
        &mut self,
        events: &mut Events,
        now: Instant,
        scan_every: Duration,
        effort: &mut Effort,
    ) -> io::Result<Instant> {
        let spins = self.pacing.set_timer(now)?;
        let waits = !spins && self.unread.is_empty();
        let wait = if waits { scan_every } else { Duration::ZERO };
        let polled = self.poll.poll(events, Some(wait));
        let interrupted = polled.is_err();
        polled.or_else(ignore_interrupt)?;
        // A closed load that only waits for answers has no timer to be late for.
        if self.pacing.is_open() || self.pacing.attention.wake_at.is_some() {
            let woke = clock::now();
            self.pacing.note_wake(woke, &mut self.recorder);
            if spins && events.is_empty() {
                effort.spun += woke - now;
            }
        }
        self.serve_events(events);
        if self.pacing.is_open() {
            self.serve_due();
        } else {
            self.wake_resting();
        }
        let now = clock::now();
        self.pacing.attention.note_end_of_loop(now, interrupted, &mut self.recorder);
        Ok(now)
    }

    #[inline]
    fn serve_events(&mut self, events: &Events) {
        let unread = std::mem::take(&mut self.unread);
        for event in events.iter() {
            if event.token() != TIMER {
                self.on_event(event.token(), event.is_read_closed());
            }
        }
        for (index, ended) in unread {
            self.on_event(Token(index), ended);
        }
    }

    /// Handles conditions without events: lost connections, timeouts, the end of a second, an aborted load.
    fn scan(&mut self, now: Instant) {
        self.check_connections(now);
        self.check_timeouts(now);
        self.recorder.roll_over(now);
        self.work.tick(now);
        self.pacing.exhausted |= self.shared.aborted.load(Ordering::Relaxed);
    }

    fn on_event(&mut self, Token(index): Token, ended: bool) {
        if !self.clients[index].is_up() && !self.has_connected(index) {
            return;
        }
        self.flush(index);
        let read_at = self.read(index, ended);
        if !self.clients[index].is_up() {
            self.come_up_if_open(index);
        }
        self.refill(index, read_at.unwrap_or_else(clock::now));
        self.flush(index);
    }

    #[inline]
    fn flush(&mut self, index: usize) {
        if let Some((link, _)) = self.clients[index].link()
            && link.wants_flush()
        {
            let flushed = link.flush();
            self.recorder.slice.bytes_sent += std::mem::take(&mut link.handed_on);
            link.return_memory(&mut self.spare);
            if let Err(error) = flushed {
                self.lose_unless_answered(index, &error);
            }
        }
    }

    /// Reads until the socket is empty, or others get their turn, and returns the time of the last read. `ended`: the peer has closed; no
    /// further event reports it.
    fn read(&mut self, index: usize, ended: bool) -> Option<Instant> {
        let (mut read_from, mut read_at, mut is_noted) = (None, None, false);
        let mut taken = 0;
        loop {
            let client = &mut self.clients[index];
            let pendings = &mut client.pendings;
            let (Connection::Greeting { link, session, .. } | Connection::Up { link, session }) =
                &mut client.connection
            else {
                return read_at;
            };
            let read = link.read(&mut self.buffer);
            if let Some(agreed) = link.agreed.take() {
                self.recorder.slice.count_handshake(agreed);
            }
            let count = match read {
                Ok(Some(count)) => count,
                Ok(None) => return read_at,
                Err(error) => {
                    self.refused_tls |= refusal::of_io(&error).is_some();
                    self.end_connection(index, refusal::io_text(&error));
                    return read_at;
                }
            };
            let now = clock::now();
            self.pacing.attention.note_read(now);
            let read_from = *read_from.get_or_insert(now);
            read_at = Some(now);
            self.recorder.slice.bytes_received += count as u64;
            let received = if count == 0 {
                self.work.receive_end(session, pendings, &mut self.done)
            } else {
                let input = &self.buffer[..count];
                link.borrow_memory(&mut self.spare);
                self.work.receive(session, input, &mut link.out, pendings, &mut self.done)
            };
            if link.awaits_greeting() && session.begins_tls() {
                link.begin_tls();
            }
            if !self.done.is_empty() && !is_noted {
                is_noted = true;
                let Recorder { window, slice, .. } = &mut self.recorder;
                self.pacing.attention.note_answer(read_from, window.measure, slice);
                self.recorder.unread_for = self.pacing.attention.unread_for(read_from);
            }
            // A read that did not fill the buffer has emptied the socket, and later bytes cause a new event. If the
            // peer's close was announced, read until it shows.
            let last = count < self.buffer.len() && link.short_read_is_last() && !ended;
            // An operation's own connection ends with the operation.
            let ending = session.is_ending() || self.part.connections == Connections::OneEach;
            let kept = if session.drops_bodies() { 0 } else { count };
            let client = &mut self.clients[index];
            client.has_answered |= !self.done.is_empty();
            if count > 0
                && let Some(pause) = client.note_received(now)
                && !self.done.is_empty()
            {
                self.recorder.count_paused_end(pause, now);
            }
            if !self.held.count(&mut client.held, kept, !self.done.is_empty()) {
                self.give_up(EngineError::HoldsTooMuch);
            }
            self.record_done(index, now);
            if let Err(error) = received {
                // A server that dies in the middle of an answer does not violate the protocol.
                let kind = if count == 0 { ErrorKind::Reset } else { ErrorKind::Protocol };
                self.lose(index, kind, error.to_string());
                return read_at;
            }
            if ending && self.clients[index].is_idle() {
                self.reconnect(index);
                return read_at;
            }
            if count == 0 {
                self.end_connection(index, "the server closed the connection".into());
                return read_at;
            }
            if last {
                return read_at;
            }
            taken += count;
            if taken >= TURN_BYTES {
                self.unread.push((index, ended));
                return read_at;
            }
        }
    }

    fn record_done(&mut self, index: usize, now: Instant) {
        if self.done.len() <= 1 {
            if let Some(done) = self.done.pop() {
                self.record_one(index, done, now);
            }
            return;
        }
        let mut done = std::mem::take(&mut self.done);
        done.drain(..).for_each(|done| self.record_one(index, done, now));
        self.done = done;
    }

    #[inline]
    fn record_one(&mut self, index: usize, Completion { tag, result }: Completion, now: Instant) {
        let client = &mut self.clients[index];
        let Slot::Busy(flight) = client.slots[tag as usize] else { return };
        let Flight { operation, due, sent, .. } = flight;
        if let Err(failure) = &result
            && failure.is_unprocessed
            && flight.tries < TRIES_MAX
        {
            return self.reissue(index, tag as usize, flight, now);
        }
        if !result.as_ref().is_err_and(|failure| failure.is_unprocessed) {
            self.work.answered(&OperationTiming { due, sent, done: now });
        }
        self.free(index, tag as usize, now);
        let late = now.saturating_duration_since(sent);
        match result {
            Ok(success) if late > self.part.timeout => {
                let node = self.clients[index].node;
                if due >= self.recorder.window.measure {
                    self.recorder.count_age(node, success.seen);
                }
                let what =
                    &|| format!("answered after {}, later than the timeout", latency_text(late));
                self.count_timeout(index, &flight, now, what);
            }
            Ok(success) => {
                let client = &mut self.clients[index];
                let begins_more = !self.pacing.exhausted;
                let node = client.node;
                let in_window =
                    self.recorder.count_success(&flight, now, node, &success, begins_more);
                client.seen.success_in_window |= in_window;
                client.seen.success |= now >= self.recorder.window.measure;
                self.has_succeeded = true;
            }
            Err(Failure { kind, what, seen, refuses_plain_text, .. }) => {
                let node = self.clients[index].node;
                if refuses_plain_text && !self.has_succeeded {
                    let address = self.recorder.addresses.at(node).clone();
                    self.give_up(EngineError::SpeaksTls { address, what: what.clone() });
                }
                self.note_failure(index, due, now);
                if due >= self.recorder.window.measure {
                    self.recorder.count_age(node, seen);
                }
                let failed = FailedOperation { operation, due, node, kind };
                self.recorder.count_failed_answer(failed, sent, now, &|| what.clone());
            }
        }
    }

    /// Ends the load on all workers, for a reason that no further operation changes.
    #[cold]
    fn give_up(&mut self, why: EngineError) {
        self.shared.aborted.store(true, Ordering::Relaxed);
        self.wants = Some(why);
    }

    /// Counts a client's failed operation, if it is part of the measurement.
    fn note_failure(&mut self, index: usize, due: Instant, now: Instant) {
        if self.recorder.measures(due, now) {
            self.clients[index].seen.count_failure(now.saturating_duration_since(due));
        }
    }

    /// Frees a slot. In a closed load its next operation is due at once, or after a rest.
    fn free(&mut self, index: usize, tag: usize, now: Instant) {
        let client = &mut self.clients[index];
        let mut since = now;
        if self.pacing.lanes.is_empty() {
            let pause = self.work.pause(client.number, now);
            if !pause.is_zero() {
                since += pause;
                self.pacing.resting.push(Reverse((since, index)));
            }
        }
        client.slots[tag] = Slot::Free { since };
    }

    /// Fills the free slots of a connected client with due operations.
    fn refill(&mut self, index: usize, now: Instant) {
        let client = &self.clients[index];
        let (rests, is_up) = (matches!(client.connection, Connection::Resting), client.is_up());
        let lane = self.pacing.is_open().then_some(client.lane);
        let takes = self.begun_load && (rests || is_up || self.passes_on());
        if !takes || (is_up && !self.send_waiting(index)) {
            return;
        }
        let mut now = now;
        for tag in 0..self.clients[index].slots.len() {
            let Slot::Free { since } = self.clients[index].slots[tag] else { continue };
            let due = match lane.map(|lane| &mut self.pacing.lanes[lane]) {
                None if since <= now => since,
                None => continue, // it rests
                Some(lane) => match lane.next_due {
                    Some(due) if due <= now => due,
                    _ => {
                        lane.wait();
                        if !self.clients[index].idle {
                            self.clients[index].idle = true;
                            lane.idle.push_back(index);
                        }
                        return;
                    }
                },
            };
            if !self.may_begin(lane, due, now) || !self.begin(index, tag as Tag, lane, due, now) {
                return;
            }
            if rests {
                return self.begin_to_connect(index);
            }
            if lane.is_some() {
                now = clock::now();
            }
        }
    }

    /// Sends operations that waited for the client's connection. Returns false if the connection accepts no more now.
    #[inline]
    fn send_waiting(&mut self, index: usize) -> bool {
        for tag in 0..self.clients[index].slots.len() {
            if let Slot::Waiting(waiting) = self.clients[index].slots[tag]
                && !self.send(index, tag as Tag, waiting)
            {
                return false;
            }
        }
        true
    }

    /// Starts a due operation: sends it, or makes it wait for its own connection. Returns false if there is none to
    /// start.
    fn begin(
        &mut self,
        index: usize,
        tag: Tag,
        lane: Option<usize>,
        due: Instant,
        now: Instant,
    ) -> bool {
        let measured = due >= self.recorder.window.measure;
        let left = !measured
            || match lane {
                Some(lane) => self.pacing.has_left(lane),
                // A number that was drawn but not used is still available.
                None => self.pacing.spare_ticket.is_some() || self.pacing.draw_on_budget(),
            };
        if !left {
            return false;
        }
        let lag = lane
            .filter(|_| measured)
            .and_then(|lane| self.pacing.lanes[lane].schedule_lag(due, now));
        let waiting =
            QueuedOperation { due, sent: now, again: None, tries: 0, lag: lag.unwrap_or_default() };
        if self.part.turns.is_some() {
            self.take_turn(index, tag, waiting);
        } else if matches!(self.clients[index].connection, Connection::Resting) {
            self.clients[index].slots[tag as usize] = Slot::Waiting(waiting);
        } else if !self.send(index, tag, waiting) {
            return false;
        }
        if let Some(lane) = lane {
            if let Some(lag) = lag {
                self.recorder.slice.schedule_lag.record(lag);
            }
            if measured && self.part.sample_sent > 0 {
                self.sample_sent(lane, now);
            }
            self.pacing.advance(lane, measured, self.recorder.window.start);
        }
        true
    }

    /// Sends an operation. Returns false if it was not sent.
    fn send(&mut self, index: usize, tag: Tag, waiting: QueuedOperation) -> bool {
        let QueuedOperation { due, sent, again, tries, lag } = waiting;
        let ticket = again.unwrap_or_else(|| self.pacing.take_ticket(&mut self.work));
        let client = &mut self.clients[index];
        let Connection::Up { link, session } = &mut client.connection else { return false };
        link.borrow_memory(&mut self.spare);
        match self.work.issue(session, client.number, tag, ticket, &mut link.out) {
            Ok(issued) => {
                client.pendings[tag as usize] = Some(issued.pending);
                let (operation, tries) = (issued.operation, tries + 1);
                let flight = Flight { operation, tries, ticket, due, sent, lag };
                client.slots[tag as usize] = Slot::Busy(flight);
                client.last_sent = sent;
                true
            }
            Err(NotIssued::Busy) => {
                if again.is_none() {
                    self.pacing.spare_ticket = Some(ticket);
                }
                false
            }
            Err(NotIssued::Exhausted) => {
                self.pacing.exhausted = true;
                self.recorder.slice.keys_exhausted = true;
                client.slots[tag as usize] = Slot::Free { since: sent };
                false
            }
            Err(NotIssued::Abort) => {
                self.pacing.exhausted = true;
                self.shared.aborted.store(true, Ordering::Relaxed);
                client.slots[tag as usize] = Slot::Free { since: sent };
                false
            }
        }
    }
}

fn ignore_interrupt(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
