//! The measured loop: one thread, its clients' connections, one `epoll`.
//!
//! There is one loop for every kind of load. Closed and open, timed and counted differ only in the
//! schedule and the stop that are passed in; plain and TLS only in the link; protocols only in the
//! session. Where a moment matters the clock is read there and the reading handed on.
//!
//! Not here: connections that come and go (`connecting`), what is due at each node in an open load
//! (`lanes`), how late the loop itself is (`lateness`), adding up what workers measured (`collector`), what an operation is (`work`).

mod connecting;
mod lanes;
mod lateness;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use bakeoff_core::ledger::Outcome;
use bakeoff_core::measurement::{ErrorKind, Example, SILENCE_MIN};
use bakeoff_core::staleness::Seen;
use mio::{Events, Poll, Token};

use super::client::{Client, Connection, Flight, Slot};
use super::collector::{Message, Slice};
use super::timer::Timer;
use super::transport::Target;
use super::work::{Done, Failure, Moments, NotIssued, Session as _, Success, Tag, Work};
use super::{Connections, EngineError, Window, aged, clock, told_apart};
pub(super) use lanes::Lane;
use lateness::Attention;

/// How often timeouts and reconnections are looked after.
const SCAN_EVERY: Duration = Duration::from_millis(10);
/// How long all clients together may take to connect before the load begins.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// How long operations under way may take to end once the user has asked for the end.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
const READ_BUFFER_SIZE: usize = 64 << 10;
const TIMER: Token = Token(usize::MAX);

/// What all workers of a load share.
pub(super) struct Shared<'a> {
    /// Counts operations, to tell keys apart.
    pub(super) tickets: AtomicU64,
    /// Counts measured operations of a closed load that stops by count.
    pub(super) begun: AtomicU64,
    /// A worker has asked for the end of the load.
    pub(super) aborted: AtomicBool,
    /// The user has asked for the end.
    pub(super) interrupted: &'a AtomicBool,
    /// Where clients connect to, by node.
    pub(super) targets: &'a [Target],
}

/// One worker's part of a load.
pub(super) struct Part {
    pub(super) worker: usize,
    /// Number, node and lane of each of its clients.
    pub(super) clients: Vec<(u32, usize, usize)>,
    pub(super) in_flight: u32,
    pub(super) connections: Connections,
    pub(super) spin: Duration,
    pub(super) timeout: Duration,
    /// How many moments at which operations are sent are sampled at most.
    pub(super) sample_sent: usize,
    /// How many measured operations all workers of a closed load begin.
    pub(super) budget: Option<u64>,
}

pub(super) struct Worker<'a, W: Work> {
    work: W,
    part: Part,
    shared: &'a Shared<'a>,
    poll: Poll,
    timer: Timer,
    clients: Vec<Client<W>>,
    /// What is due at each node; empty for a closed load.
    lanes: Vec<Lane>,
    /// Clients of a closed load that rest, and until when.
    resting: BinaryHeap<Reverse<(Instant, usize)>>,
    /// What the timer was last set for.
    timer_set_for: Option<Instant>,
    attention: Attention,
    /// Whether the load has begun: clients that connect before that wait for it.
    begun_load: bool,
    exhausted: bool,
    spare_ticket: Option<u64>,
    window: Window,
    /// When the second that is being recorded ends.
    second_ends: Instant,
    /// When an operation last succeeded; at first, when the load began.
    last_success: Instant,
    /// The earliest that one was due which has failed since then.
    failing_since: Option<Instant>,
    /// Time spent waiting without sleeping.
    spun: Duration,
    /// Which share of a CPU was used while the load ran; known once it is over.
    busy: Option<f64>,
    slice: Box<Slice>,
    to_collector: Sender<Message>,
    recycled: Receiver<Box<Slice>>,
    buffer: Vec<u8>,
    done: Vec<Done>,
}

impl<'a, W: Work> Worker<'a, W> {
    pub(super) fn new(
        work: W,
        part: Part,
        lanes: Vec<Lane>,
        shared: &'a Shared<'a>,
        to_collector: Sender<Message>,
        recycled: Receiver<Box<Slice>>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let now = clock::now();
        let clients = part
            .clients
            .iter()
            .map(|&(number, node, lane)| Client::new(number, node, lane, part.in_flight, now));
        let operations = work.operations().len();
        let targets = told_apart(shared.targets).len();
        let aged = if work.judges_age() { aged(shared.targets).len() } else { 0 };
        Ok(Self {
            clients: clients.collect(),
            slice: Box::new(Slice::new(part.worker, operations, targets, aged)),
            work,
            part,
            shared,
            poll,
            timer,
            lanes,
            resting: BinaryHeap::new(),
            timer_set_for: None,
            attention: Attention::new(now),
            begun_load: false,
            exhausted: false,
            spare_ticket: None,
            window: Window { start: now, measure: now, end: None },
            second_ends: now,
            last_success: now,
            failing_since: None,
            spun: Duration::ZERO,
            busy: None,
            to_collector,
            recycled,
            buffer: vec![0; READ_BUFFER_SIZE],
            done: Vec::new(),
        })
    }

    /// Connects all clients that keep a connection. An error names the node that could not be had.
    pub(super) fn connect(&mut self) -> Result<(), EngineError> {
        if self.part.connections == Connections::OneEach {
            for client in &mut self.clients {
                client.connection = Connection::Resting;
            }
            return Ok(());
        }
        let give_up_at = clock::now() + CONNECT_WITHIN;
        let mut events = Events::with_capacity(1024);
        loop {
            let now = clock::now();
            self.look_after_connections(now);
            let waiting = self.clients.iter().find(|client| !client.is_up());
            let Some(waiting) = waiting else { return Ok(()) };
            if self.shared.interrupted.load(Ordering::Relaxed) {
                return Err(EngineError::Interrupted);
            }
            if now > give_up_at {
                let seen = &self.slice.connection_errors.examples;
                let what = seen.first().map_or("no answer", |example| &example.what).to_owned();
                let address = self.shared.targets[waiting.node].address;
                return Err(EngineError::Unreachable { address, what });
            }
            self.poll.poll(&mut events, Some(SCAN_EVERY)).or_else(ignore_interrupt)?;
            for event in &events {
                self.on_event(event.token(), event.is_read_closed());
            }
        }
    }

    /// Works until the load is over and nothing is under way.
    pub(super) fn run(mut self, window: Window) -> Result<(), EngineError> {
        // The connections that the load begins with are its own; all else that came before is not.
        let handshakes = self.slice.handshakes;
        self.slice.clear();
        self.slice.handshakes = handshakes;
        self.window = window;
        self.second_ends = window.measure + Duration::from_secs(1);
        self.last_success = window.start;
        (0..self.lanes.len()).for_each(|lane| self.advance(lane, false));
        self.work.begin(window.start, window.measure);
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            client.lost_at = client.lost_at.map(|_| window.start);
            for slot in &mut client.slots {
                *slot = Slot::Free { since: window.start };
            }
        }
        let wait = window.start.saturating_duration_since(clock::now());
        std::thread::sleep(wait);
        self.begun_load = true;
        let begun = (clock::now(), clock::thread_cpu());
        for index in 0..self.clients.len() {
            let now = clock::now();
            if !self.is_open() {
                // A closed client is due when its turn to begin has come.
                (0..self.part.in_flight as usize).for_each(|tag| self.free(index, tag, now));
            }
            self.refill(index, now);
            self.flush(index);
        }

        let mut events = Events::with_capacity(1024);
        let mut now = clock::now();
        let mut scan_at = now + SCAN_EVERY;
        let mut interrupted_at = None;
        self.attention = Attention::new(now);
        loop {
            let spins = self.set_timer(now)?;
            let wait = if spins { Duration::ZERO } else { SCAN_EVERY };
            self.poll.poll(&mut events, Some(wait)).or_else(ignore_interrupt)?;
            // A closed load that waits for answers alone has no moment to be late at.
            if self.is_open() || self.attention.wake_at.is_some() {
                let woke = clock::now();
                self.note_wake(woke);
                if spins && events.is_empty() {
                    self.spun += woke - now;
                }
            }
            for event in &events {
                if event.token() != TIMER {
                    self.on_event(event.token(), event.is_read_closed());
                }
            }
            if self.is_open() {
                self.serve_due();
            } else {
                self.wake_resting();
            }
            now = clock::now();
            self.note_end_of_loop(now);
            if now < scan_at {
                continue;
            }
            scan_at = now + SCAN_EVERY;
            self.look_after_connections(now);
            self.look_after_timeouts(now);
            self.roll_over(now);
            self.work.tick(now);
            self.exhausted |= self.shared.aborted.load(Ordering::Relaxed);
            if self.busy.is_none() && self.is_over(now) {
                let used = clock::thread_cpu().saturating_sub(begun.1).saturating_sub(self.spun);
                self.busy = Some(used.as_secs_f64() / (now - begun.0).as_secs_f64());
            }
            if self.shared.interrupted.load(Ordering::Relaxed) {
                self.exhausted = true;
                if now > *interrupted_at.get_or_insert(now) + INTERRUPT_GRACE {
                    break;
                }
            }
            if self.is_over(now) && self.clients.iter().all(Client::is_quiet) {
                break;
            }
            now = clock::now();
        }
        let aborted = self.shared.aborted.load(Ordering::Relaxed);
        self.finish(interrupted_at.is_some() || aborted);
        Ok(())
    }

    /// Whether an operation that was due at `due` may still be sent. One of an open load that only
    /// the timer's slack has brought past the end may; one that waited for a free client may not.
    fn may_begin(&self, lane: Option<usize>, due: Instant, now: Instant) -> bool {
        let only_just_late = lane.is_some_and(|lane| !self.lanes[lane].starved);
        !self.is_over(now)
            || (only_just_late && !self.exhausted && self.window.end.is_some_and(|end| due < end))
    }

    fn is_over(&self, now: Instant) -> bool {
        self.exhausted || self.window.end.is_some_and(|end| now >= end)
    }

    fn finish(mut self, interrupted: bool) {
        let now = clock::now();
        if let (Some(end), false) = (self.window.end, interrupted) {
            self.count_unsent(end, now);
            if let Some(since) = self.failing_since {
                self.end_silence(since, end);
            }
        }
        for client in &mut self.clients {
            if let Connection::Up { link, session } = &mut client.connection {
                session.close(&mut link.out);
                link.flush().ok(); // a peer that is gone needs no farewell
            }
            for pending in client.pendings.iter_mut().filter_map(Option::take) {
                self.work.give_up(pending, Outcome::Unknown);
            }
            if let Some(lost_at) = client.lost_at {
                self.slice.disconnected += self.window.overlap(lost_at, now);
            }
        }
        self.slice.interrupted |= interrupted;
        self.send_slice();
        self.work.ended();
        let busy = self.busy.unwrap_or_default();
        self.to_collector.send(Message::Ended { worker: self.part.worker, busy }).ok();
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
            self.slice.bytes_sent += std::mem::take(&mut link.handed_on);
            if let Err(error) = flushed {
                self.lose(index, ErrorKind::Reset, error.to_string());
            }
        }
    }

    /// Reads what is there. `ended`: the peer's end is among it, and no event will tell so again.
    /// Returns when the last of it was there.
    fn read(&mut self, index: usize, ended: bool) -> Option<Instant> {
        let mut read_at = None;
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
                self.slice.count_handshake(agreed);
            }
            let count = match read {
                Ok(Some(count)) => count,
                Ok(None) => return read_at,
                Err(error) => {
                    self.lose(index, ErrorKind::Reset, error.to_string());
                    return read_at;
                }
            };
            let now = clock::now();
            if read_at.is_none() {
                self.attention.note_read(now, self.window.measure, &mut self.slice);
            }
            read_at = Some(now);
            self.slice.bytes_received += count as u64;
            let received = if count == 0 {
                self.work.receive_end(session, pendings, &mut self.done)
            } else {
                let input = &self.buffer[..count];
                self.work.receive(session, input, &mut link.out, pendings, &mut self.done)
            };
            // A read that did not fill the buffer has emptied the socket; what comes later is a new
            // event, and the peer's end is asked for once more only if it was announced.
            let last = count < self.buffer.len() && link.short_read_is_last() && !ended;
            // An operation's own connection ends with it, whatever the peer thinks.
            let ending = session.is_ending() || self.part.connections == Connections::OneEach;
            self.record_done(index, now);
            if let Err(error) = received {
                // A server that dies in the middle of an answer breaks no protocol.
                let kind = if count == 0 { ErrorKind::Reset } else { ErrorKind::Protocol };
                self.lose(index, kind, error.to_string());
                return read_at;
            }
            if ending && self.clients[index].is_quiet() {
                self.reconnect(index);
                return read_at;
            }
            if count == 0 {
                self.lose(index, ErrorKind::Reset, "the server closed the connection".into());
                return read_at;
            }
            if last {
                return read_at;
            }
        }
    }

    /// Records the operations that have just ended on this client.
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
    fn record_one(&mut self, index: usize, Done { tag, result }: Done, now: Instant) {
        let client = &mut self.clients[index];
        let Slot::Busy(Flight { operation, due, sent }) = client.slots[tag as usize] else {
            return;
        };
        self.work.answered(client.number, &Moments { due, sent, done: now });
        self.free(index, tag as usize, now);
        match result {
            Ok(success) => {
                let node = self.clients[index].node;
                self.count_success(&Flight { operation, due, sent }, now, node, &success);
            }
            Err(Failure { kind, what, seen }) => {
                let node = self.clients[index].node;
                if due >= self.window.measure {
                    self.count_age(node, seen);
                }
                self.count_failure(operation, due, now, node, kind, || what);
            }
        }
    }

    /// A slot has become free: a closed load's next operation on it is due at once, or after a rest.
    fn free(&mut self, index: usize, tag: usize, now: Instant) {
        let client = &mut self.clients[index];
        let mut since = now;
        if self.lanes.is_empty() {
            let pause = self.work.pause(client.number, now);
            if !pause.is_zero() {
                since += pause;
                self.resting.push(Reverse((since, index)));
            }
        }
        client.slots[tag] = Slot::Free { since };
    }

    /// Counts how old a read was, where that is judged.
    fn count_age(&mut self, node: usize, seen: Seen) {
        let place = node.min(self.slice.staleness.len().saturating_sub(1));
        if let Some(staleness) = self.slice.staleness.get_mut(place) {
            staleness.count(seen);
        }
    }

    fn count_success(&mut self, flight: &Flight, now: Instant, node: usize, success: &Success) {
        self.roll_over(now);
        self.end_silence(flight.due, now);
        let figures = &mut self.slice.operations[flight.operation];
        figures.verified_in_window += u64::from(self.window.holds(now));
        if flight.due < self.window.measure {
            self.slice.warmup_operations += 1;
            return;
        }
        self.slice.last_end = Some(now);
        self.count_age(node, success.seen);
        let figures = &mut self.slice.operations[flight.operation];
        figures.verified += 1;
        figures.old_reads += u64::from(matches!(success.seen, Seen::Old(_)));
        let waited = now.saturating_duration_since(flight.due);
        let served = if flight.due == flight.sent {
            self.slice.punctual[flight.operation].record(waited);
            waited
        } else {
            let served = now.saturating_duration_since(flight.sent);
            figures.response.record(waited);
            figures.service.record(served);
            served
        };
        if let Some(target) = self.slice.targets.get_mut(node) {
            target.verified += 1;
            target.service.record(served);
        }
    }

    /// An operation that was due at `due` has succeeded, or those that failed are the last: notes how
    /// long nothing had. Once no more operations are begun, the slowest of the last is no silence.
    #[inline]
    fn end_silence(&mut self, due: Instant, now: Instant) {
        let due = self.failing_since.take().map_or(due, |since| since.min(due));
        let since = due.max(self.last_success);
        if now.saturating_duration_since(since) >= SILENCE_MIN && !self.exhausted {
            self.slice.silences.push((since, now));
        }
        self.last_success = now;
    }

    fn count_failure(
        &mut self,
        operation: usize,
        due: Instant,
        now: Instant,
        node: usize,
        kind: ErrorKind,
        what: impl FnOnce() -> String,
    ) {
        if due < self.window.measure {
            self.slice.warmup_operations += 1;
            return;
        }
        self.roll_over(now);
        self.slice.last_end = Some(now);
        self.failing_since = Some(self.failing_since.map_or(due, |since| since.min(due)));
        if let Some(target) = self.slice.targets.get_mut(node)
            && kind != ErrorKind::Unsent
        {
            target.errors += 1;
        }
        let figures = &mut self.slice.operations[operation];
        let waited = now.saturating_duration_since(due);
        match kind {
            // These ended by waiting: they are as slow as they had waited, and more.
            ErrorKind::Timeout | ErrorKind::Refused | ErrorKind::Unsent => {
                figures.unanswered.record(waited);
            }
            _ => figures.failed.record(waited),
        }
        let at_seconds = self.window.seconds_at(now);
        let address = self.shared.targets[node].address;
        figures.count_error(kind, || Example {
            at_seconds,
            node: address.to_string(),
            what: what(),
        });
    }

    /// Gives every free slot of a client that is up an operation, as far as any is due.
    fn refill(&mut self, index: usize, now: Instant) {
        let client = &self.clients[index];
        let rests = matches!(client.connection, Connection::Resting);
        if !self.begun_load || !(rests || client.is_up()) {
            return;
        }
        let lane = self.is_open().then_some(client.lane);
        let mut now = now;
        for tag in 0..client.slots.len() {
            let since = match self.clients[index].slots[tag] {
                Slot::Free { since } => since,
                Slot::Dialing { due, sent } if !rests => {
                    self.send(index, tag as Tag, due, sent);
                    continue;
                }
                _ => continue,
            };
            let due = match lane.map(|lane| &mut self.lanes[lane]) {
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

    /// Begins an operation that is due: sends it, or notes that it waits for its own connection.
    /// `false`: there is none to begin.
    fn begin(
        &mut self,
        index: usize,
        tag: Tag,
        lane: Option<usize>,
        due: Instant,
        now: Instant,
    ) -> bool {
        let measured = due >= self.window.measure;
        let left = !measured
            || match lane {
                Some(lane) => self.has_left(lane),
                // A number that was drawn and not used is there still.
                None => self.spare_ticket.is_some() || self.draw_on_budget(),
            };
        if !left {
            return false;
        }
        if matches!(self.clients[index].connection, Connection::Resting) {
            self.clients[index].slots[tag as usize] = Slot::Dialing { due, sent: now };
        } else if !self.send(index, tag, due, now) {
            return false;
        }
        if let Some(lane) = lane {
            if measured && let Some(slip) = self.lanes[lane].slip(due, now) {
                self.slice.slip.record(slip);
            }
            if measured && self.part.sample_sent > 0 {
                self.sample_sent(lane, now);
            }
            self.advance(lane, measured);
        }
        true
    }

    /// Notes when an operation went out. Once one had to wait for a free client, the gaps are the
    /// system's doing, and no more are sampled.
    fn sample_sent(&mut self, lane: usize, now: Instant) {
        if self.lanes[lane].starved {
            self.part.sample_sent = 0;
            return;
        }
        let since = now.saturating_duration_since(self.window.measure);
        self.slice.sent.push(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        self.part.sample_sent -= 1;
    }

    /// Sends an operation. `false`: none was sent.
    fn send(&mut self, index: usize, tag: Tag, due: Instant, sent: Instant) -> bool {
        let ticket = self.take_ticket();
        let client = &mut self.clients[index];
        let Connection::Up { link, session } = &mut client.connection else { return false };
        match self.work.issue(session, client.number, tag, ticket, &mut link.out) {
            Ok(issued) => {
                client.pendings[tag as usize] = Some(issued.pending);
                let operation = issued.operation;
                client.slots[tag as usize] = Slot::Busy(Flight { operation, due, sent });
                client.last_sent = sent;
                true
            }
            Err(NotIssued::Busy) => {
                self.spare_ticket = Some(ticket);
                false
            }
            Err(NotIssued::Exhausted) => {
                self.exhausted = true;
                self.slice.keys_exhausted = true;
                client.slots[tag as usize] = Slot::Free { since: sent };
                false
            }
            Err(NotIssued::Abort) => {
                self.exhausted = true;
                self.shared.aborted.store(true, Ordering::Relaxed);
                client.slots[tag as usize] = Slot::Free { since: sent };
                false
            }
        }
    }

    /// Takes a measured operation from what is left of a closed load. `false`: nothing is.
    fn draw_on_budget(&mut self) -> bool {
        let Some(budget) = self.part.budget else { return true };
        let drawn = self.shared.begun.fetch_add(1, Ordering::Relaxed) < budget;
        self.exhausted |= !drawn;
        drawn
    }

    fn take_ticket(&mut self) -> u64 {
        let spare = self.spare_ticket.take();
        spare.unwrap_or_else(|| self.shared.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Goes on with clients of a closed load that have rested.
    fn wake_resting(&mut self) {
        while let Some(&Reverse((until, index))) = self.resting.peek() {
            let now = clock::now();
            if until > now {
                return;
            }
            self.resting.pop();
            self.refill(index, now);
            self.flush(index);
        }
    }

    /// Sets the timer for what is due next. Whether that is so soon that sleeping is not wanted.
    fn set_timer(&mut self, now: Instant) -> io::Result<bool> {
        let next_rested = self.resting.peek().map(|Reverse((until, _))| *until);
        let next_due = self.first_due().map(|(_, due)| due);
        let Some(due) = next_due.or(next_rested) else {
            return Ok(false);
        };
        // What is past is not waited for any more.
        self.attention.wake_at = (due > now).then_some(due);
        let wait = due.saturating_duration_since(now);
        if wait <= self.part.spin && !self.part.spin.is_zero() {
            return Ok(true);
        }
        // Setting a timer costs more than most of what is done here, so it is done once for each time.
        if wait < SCAN_EVERY && self.timer_set_for != Some(due) {
            self.timer.set(wait.saturating_sub(self.part.spin))?;
            self.timer_set_for = Some(due);
        }
        Ok(false)
    }

    /// Hands the figures of past seconds over when a new one has begun.
    fn roll_over(&mut self, now: Instant) {
        if now < self.second_ends {
            return;
        }
        let second = self.window.second_of(now);
        self.send_slice();
        self.slice.second = second;
        self.second_ends = self.window.measure + Duration::from_secs(u64::from(second) + 1);
    }

    fn send_slice(&mut self) {
        let (operations, targets) = (self.slice.operations.len(), self.slice.targets.len());
        let aged = self.slice.staleness.len();
        let fresh = self
            .recycled
            .try_recv()
            .unwrap_or_else(|_| Box::new(Slice::new(self.part.worker, operations, targets, aged)));
        let full = std::mem::replace(&mut self.slice, fresh);
        self.to_collector.send(Message::Slice(full)).ok();
    }
}

fn ignore_interrupt(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
