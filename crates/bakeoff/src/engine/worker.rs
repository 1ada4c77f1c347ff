//! The measured loop: one thread, its clients' connections, one `epoll`.
//!
//! There is one loop for every kind of load. Closed and open, timed and counted differ only in the
//! schedule and the stop that are passed in; plain and TLS only in the link; protocols only in the
//! session. Where a moment matters the clock is read there and the reading handed on.
//!
//! Not here: adding up what workers measured (`collector`), what an operation is (`work`).

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use bakeoff_core::ledger::Outcome;
use bakeoff_core::measurement::{ErrorKind, Example};
use bakeoff_core::schedule::OpenSchedule;
use mio::{Events, Interest, Poll, Token};

use super::client::{BACKOFF_MAX, BACKOFF_MIN, Client, Connection, Flight, Slot};
use super::collector::{Message, Slice};
use super::timer::Timer;
use super::transport::{Link, Target};
use super::work::{Done, Failure, NotIssued, Session as _, Success, Tag, Work};
use super::{EngineError, Window, clock};

/// How often timeouts and reconnections are looked after.
const SCAN_EVERY: Duration = Duration::from_millis(10);
/// How long all clients together may take to connect before the load begins.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// How long operations under way may take to end once the user has asked for the end.
const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
/// More unsent operations than this are counted by [`UNSENT_PARTS`] of the time they were due in.
const UNSENT_ONE_BY_ONE: u64 = 100_000;
const UNSENT_PARTS: u32 = 10_000;
const READ_BUFFER_SIZE: usize = 64 << 10;
const TIMER: Token = Token(usize::MAX);

/// What all workers of a load share.
pub(super) struct Shared<'a> {
    /// Counts operations, to tell keys apart.
    pub(super) tickets: AtomicU64,
    /// Counts measured operations of a closed load that stops by count.
    pub(super) begun: AtomicU64,
    /// The user has asked for the end.
    pub(super) interrupted: &'a AtomicBool,
    /// Where clients connect to, by node.
    pub(super) targets: &'a [Target],
}

/// One worker's part of a load.
pub(super) struct Part {
    pub(super) worker: usize,
    /// Number and node of each of its clients.
    pub(super) clients: Vec<(u32, usize)>,
    pub(super) in_flight: u32,
    pub(super) timeout: Duration,
    /// `None` for a closed load.
    pub(super) schedule: Option<OpenSchedule>,
    /// How many measured operations: of all workers for a closed load, of this one for an open.
    pub(super) budget: Option<u64>,
}

pub(super) struct Worker<'a, W: Work> {
    work: W,
    part: Part,
    shared: &'a Shared<'a>,
    poll: Poll,
    timer: Timer,
    clients: Vec<Client<W>>,
    /// Clients of an open load with a free slot and nothing due.
    idle: VecDeque<usize>,
    next_due: Option<Instant>,
    /// Whether an operation is due that no client is free for.
    starved: bool,
    /// Whether the load has begun: clients that connect before that wait for it.
    begun_load: bool,
    exhausted: bool,
    spare_ticket: Option<u64>,
    begun: u64,
    window: Window,
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
            .map(|&(number, node)| Client::new(number, node, part.in_flight, now));
        Ok(Self {
            clients: clients.collect(),
            slice: Box::new(Slice::new(part.worker, work.operations().len())),
            work,
            part,
            shared,
            poll,
            timer,
            idle: VecDeque::new(),
            next_due: None,
            starved: false,
            begun_load: false,
            exhausted: false,
            spare_ticket: None,
            begun: 0,
            window: Window { start: now, measure: now, end: None },
            to_collector,
            recycled,
            buffer: vec![0; READ_BUFFER_SIZE],
            done: Vec::new(),
        })
    }

    /// Connects all clients. An error names the node that could not be had.
    pub(super) fn connect(&mut self) -> Result<(), EngineError> {
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
        self.slice.clear();
        self.window = window;
        self.advance_schedule();
        for client in &mut self.clients {
            client.lost_at = client.lost_at.map(|_| window.start);
            for slot in &mut client.slots {
                *slot = Slot::Free { since: window.start };
            }
        }
        let wait = window.start.saturating_duration_since(clock::now());
        std::thread::sleep(wait);
        self.begun_load = true;
        for index in 0..self.clients.len() {
            self.refill(index);
            self.flush(index);
        }

        let mut events = Events::with_capacity(1024);
        let mut scan_at = clock::now() + SCAN_EVERY;
        let mut interrupted_at = None;
        loop {
            self.set_timer()?;
            self.poll.poll(&mut events, Some(SCAN_EVERY)).or_else(ignore_interrupt)?;
            for event in &events {
                if event.token() != TIMER {
                    self.on_event(event.token(), event.is_read_closed());
                }
            }
            self.serve_due();
            let now = clock::now();
            if now < scan_at {
                continue;
            }
            scan_at = now + SCAN_EVERY;
            self.look_after_connections(now);
            self.look_after_timeouts(now);
            self.roll_over(now);
            if self.shared.interrupted.load(Ordering::Relaxed) {
                self.exhausted = true;
                if now > *interrupted_at.get_or_insert(now) + INTERRUPT_GRACE {
                    break;
                }
            }
            if self.is_over(now) && self.clients.iter().all(Client::is_quiet) {
                break;
            }
        }
        self.finish(interrupted_at.is_some());
        Ok(())
    }

    /// Whether an operation that was due at `due` may still be sent. One of an open load that only
    /// the timer's slack has brought past the end may; one that waited for a free client may not.
    fn may_begin(&self, due: Instant, now: Instant) -> bool {
        let only_just_late = self.part.schedule.is_some() && !self.starved;
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
        self.to_collector.send(Message::Ended { worker: self.part.worker }).ok();
    }

    /// What was due and never sent did not vanish: it waited until now. A load far beyond what a
    /// system can do leaves more of it than can be gone through one by one; then equal parts of the
    /// time that was left stand for the operations that were due in them.
    fn count_unsent(&mut self, end: Instant, now: Instant) {
        let node = self.clients[0].node;
        let what = || "no client was free before the load ended".to_owned();
        let rate = self.part.schedule.as_ref().map_or(0.0, OpenSchedule::rate);
        while let Some(due) = self.next_due.filter(|&due| due < end) {
            let left = end.duration_since(due);
            let count = (left.as_secs_f64() * rate) as u64;
            if count > UNSENT_ONE_BY_ONE {
                for part in 0..UNSENT_PARTS {
                    let due = due + left.mul_f64((f64::from(part) + 0.5) / f64::from(UNSENT_PARTS));
                    let ticket = self.take_ticket();
                    let Some(operation) = self.work.skip(ticket) else { return };
                    self.count_failure(operation, due, now, node, ErrorKind::Unsent, what);
                    let more = count / u64::from(UNSENT_PARTS) - 1;
                    let figures = &mut self.slice.operations[operation];
                    figures.response.record_many(now.saturating_duration_since(due), more);
                    figures.errors.entry(ErrorKind::Unsent).or_default().count += more;
                }
                return;
            }
            let ticket = self.take_ticket();
            let Some(operation) = self.work.skip(ticket) else { return };
            self.count_failure(operation, due, now, node, ErrorKind::Unsent, what);
            self.advance_schedule();
        }
    }

    fn on_event(&mut self, Token(index): Token, ended: bool) {
        let client = &mut self.clients[index];
        if let Connection::Connecting { link, .. } = &client.connection {
            match link.is_connected() {
                Ok(false) => return,
                Ok(true) => client.greet(),
                Err(error) => return self.lose(index, ErrorKind::Reset, error.to_string()),
            }
        }
        self.flush(index);
        self.read(index, ended);
        let client = &self.clients[index];
        if matches!(&client.connection, Connection::Greeting { session, .. } if session.is_open()) {
            self.come_up(index);
        }
        self.refill(index);
        self.flush(index);
    }

    fn come_up(&mut self, index: usize) {
        let now = clock::now();
        let client = &mut self.clients[index];
        let connection =
            std::mem::replace(&mut client.connection, Connection::Down { retry_at: now });
        if let Connection::Greeting { link, session, .. } = connection {
            client.connection = Connection::Up { link, session };
        }
        client.backoff = BACKOFF_MIN;
        if let Some(lost_at) = client.lost_at.take() {
            self.slice.disconnected += self.window.overlap(lost_at, now);
        }
    }

    fn flush(&mut self, index: usize) {
        if let Some((link, _)) = self.clients[index].link()
            && let Err(error) = link.flush()
        {
            self.lose(index, ErrorKind::Reset, error.to_string());
        }
    }

    /// Reads what is there. `ended`: the peer's end is among it, and no event will tell so again.
    fn read(&mut self, index: usize, ended: bool) {
        loop {
            let client = &mut self.clients[index];
            let pendings = &mut client.pendings;
            let (Connection::Greeting { link, session, .. } | Connection::Up { link, session }) =
                &mut client.connection
            else {
                return;
            };
            let count = match link.read(&mut self.buffer) {
                Ok(Some(count)) => count,
                Ok(None) => return,
                Err(error) => return self.lose(index, ErrorKind::Reset, error.to_string()),
            };
            let received = if count == 0 {
                self.work.receive_end(session, pendings, &mut self.done)
            } else {
                let input = &self.buffer[..count];
                self.work.receive(session, input, &mut link.out, pendings, &mut self.done)
            };
            let last = count < self.buffer.len() && link.short_read_is_last() && !ended;
            let ending = session.is_ending();
            self.record_done(index);
            if let Err(error) = received {
                // A server that dies in the middle of an answer breaks no protocol.
                let kind = if count == 0 { ErrorKind::Reset } else { ErrorKind::Protocol };
                return self.lose(index, kind, error.to_string());
            }
            let quiet = self.clients[index].is_quiet();
            if ending && quiet {
                return self.reconnect(index);
            }
            if count == 0 {
                return self.lose(
                    index,
                    ErrorKind::Reset,
                    "the server closed the connection".into(),
                );
            }
            if last {
                return;
            }
        }
    }

    /// Records the operations that have just ended on this client.
    fn record_done(&mut self, index: usize) {
        if self.done.is_empty() {
            return;
        }
        let now = clock::now();
        let mut done = std::mem::take(&mut self.done);
        for Done { tag, result } in done.drain(..) {
            let client = &mut self.clients[index];
            let node = client.node;
            let slot = &mut client.slots[tag as usize];
            let Slot::Busy(flight) = std::mem::replace(slot, Slot::Free { since: now }) else {
                continue;
            };
            match result {
                Ok(success) => self.count_success(&flight, now, &success),
                Err(Failure { kind, what }) => {
                    self.count_failure(flight.operation, flight.due, now, node, kind, || what);
                }
            }
        }
        self.done = done;
    }

    fn count_success(&mut self, flight: &Flight, now: Instant, success: &Success) {
        self.roll_over(now);
        let figures = &mut self.slice.operations[flight.operation];
        figures.verified_in_window += u64::from(self.window.holds(now));
        if flight.due < self.window.measure {
            self.slice.warmup_operations += 1;
            return;
        }
        self.slice.last_end = Some(now);
        figures.verified += 1;
        figures.old_reads += u64::from(success.old);
        figures.response.record(now.saturating_duration_since(flight.due));
        figures.service.record(now.saturating_duration_since(flight.sent));
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
        let figures = &mut self.slice.operations[operation];
        let waited = now.saturating_duration_since(due);
        match kind {
            // These ended by waiting: they are as slow as they had waited, and more.
            ErrorKind::Timeout | ErrorKind::Refused | ErrorKind::Unsent => {
                figures.response.record(waited);
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
    fn refill(&mut self, index: usize) {
        if !self.begun_load || !self.clients[index].is_up() {
            return;
        }
        for tag in 0..self.clients[index].slots.len() {
            let Slot::Free { since } = self.clients[index].slots[tag] else { continue };
            let now = clock::now();
            let due = match (&self.part.schedule, self.next_due) {
                (None, _) => since,
                (Some(_), Some(due)) if due <= now => due,
                (Some(_), _) => {
                    self.starved = false;
                    if !self.clients[index].idle {
                        self.clients[index].idle = true;
                        self.idle.push_back(index);
                    }
                    return;
                }
            };
            if !self.may_begin(due, now) || !self.issue(index, tag as Tag, due, now) {
                return;
            }
        }
    }

    /// Sends one operation. `false`: none was sent.
    fn issue(&mut self, index: usize, tag: Tag, due: Instant, now: Instant) -> bool {
        let measured = due >= self.window.measure;
        if measured && self.spare_ticket.is_none() && !self.draw_on_budget() {
            self.exhausted = true;
            return false;
        }
        let ticket = self.take_ticket();
        let client = &mut self.clients[index];
        let Connection::Up { link, session } = &mut client.connection else { return false };
        match self.work.issue(session, client.number, tag, ticket, &mut link.out) {
            Ok(issued) => {
                client.pendings[tag as usize] = Some(issued.pending);
                client.slots[tag as usize] =
                    Slot::Busy(Flight { operation: issued.operation, due, sent: now });
                client.last_sent = now;
                if self.part.schedule.is_some() {
                    if measured && !self.starved {
                        self.slice.slip.record(now.saturating_duration_since(due));
                    }
                    self.advance_schedule();
                }
                true
            }
            Err(NotIssued::Busy) => {
                self.spare_ticket = Some(ticket);
                false
            }
            Err(NotIssued::Exhausted) => {
                self.exhausted = true;
                self.slice.keys_exhausted = true;
                false
            }
        }
    }

    fn draw_on_budget(&mut self) -> bool {
        let Some(budget) = self.part.budget else { return true };
        let begun = if self.part.schedule.is_some() {
            self.begun += 1;
            self.begun - 1
        } else {
            self.shared.begun.fetch_add(1, Ordering::Relaxed)
        };
        begun < budget
    }

    fn take_ticket(&mut self) -> u64 {
        let spare = self.spare_ticket.take();
        spare.unwrap_or_else(|| self.shared.tickets.fetch_add(1, Ordering::Relaxed))
    }

    fn advance_schedule(&mut self) {
        let start = self.window.start;
        self.next_due = self.part.schedule.as_mut().map(|schedule| start + schedule.next_due());
    }

    /// Sends what has become due to clients that were waiting for it.
    fn serve_due(&mut self) {
        if self.part.schedule.is_none() {
            return;
        }
        let mut now = clock::now();
        while self.next_due.is_some_and(|due| due <= now && self.may_begin(due, now)) {
            let Some(index) = self.idle.pop_front() else {
                self.starved = true;
                return;
            };
            self.clients[index].idle = false;
            self.refill(index);
            self.flush(index);
            now = clock::now();
        }
    }

    fn set_timer(&self) -> io::Result<()> {
        if let Some(due) = self.next_due.filter(|_| !self.starved) {
            let wait = due.saturating_duration_since(clock::now());
            if wait < SCAN_EVERY {
                self.timer.set(wait)?;
            }
        }
        Ok(())
    }

    fn look_after_connections(&mut self, now: Instant) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            match &mut client.connection {
                Connection::Down { retry_at } if *retry_at <= now => self.begin_to_connect(index),
                Connection::Connecting { deadline, .. } | Connection::Greeting { deadline, .. }
                    if *deadline <= now =>
                {
                    self.lose(index, ErrorKind::Timeout, "no connection in time".into());
                }
                Connection::Up { link, session }
                    if session
                        .keep_alive_every()
                        .is_some_and(|every| now > client.last_sent + every) =>
                {
                    session.keep_alive(&mut link.out);
                    client.last_sent = now;
                    self.flush(index);
                }
                _ => {}
            }
        }
    }

    fn begin_to_connect(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let session = self.work.session(client.number, client.node);
        let link = Link::connect(&self.shared.targets[client.node]).and_then(|mut link| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut link.stream, Token(index), interest)?;
            Ok(link)
        });
        match link {
            Ok(link) => {
                let deadline = clock::now() + self.part.timeout;
                client.connection = Connection::Connecting { link, session, deadline };
            }
            Err(error) => self.lose(index, ErrorKind::Refused, error.to_string()),
        }
    }

    fn look_after_timeouts(&mut self, now: Instant) {
        let timeout = self.part.timeout;
        for index in 0..self.clients.len() {
            for tag in 0..self.clients[index].slots.len() {
                match &self.clients[index].slots[tag] {
                    Slot::Busy(flight) if now > flight.sent + timeout => {
                        self.time_out(index, tag, now);
                    }
                    // A closed client that has no connection has an operation due all the same.
                    Slot::Free { since }
                        if self.part.schedule.is_none()
                            && now > *since + timeout
                            && !self.clients[index].is_up()
                            && !self.is_over(now) =>
                    {
                        self.refuse(index, tag, *since, now);
                    }
                    _ => {}
                }
            }
        }
    }

    fn time_out(&mut self, index: usize, tag: usize, now: Instant) {
        let client = &mut self.clients[index];
        let node = client.node;
        let slot = &mut client.slots[tag];
        let Slot::Busy(flight) = std::mem::replace(slot, Slot::Free { since: now }) else { return };
        if let Some(pending) = client.pendings[tag].take() {
            self.work.give_up(pending, Outcome::Unknown);
        }
        let usable = match &mut client.connection {
            Connection::Up { link, session } => session.abandon(tag as Tag, &mut link.out),
            _ => false,
        };
        let timeout = self.part.timeout;
        let what = || format!("no answer after {timeout:?}");
        self.count_failure(flight.operation, flight.due, now, node, ErrorKind::Timeout, what);
        if flight.due >= self.window.measure {
            let waited = now.saturating_duration_since(flight.sent);
            self.slice.operations[flight.operation].service.record(waited);
        }
        if usable {
            self.refill(index);
            self.flush(index);
        } else {
            self.lose(index, ErrorKind::Timeout, "given up after an operation timed out".into());
        }
    }

    fn refuse(&mut self, index: usize, tag: usize, since: Instant, now: Instant) {
        if since >= self.window.measure && !self.draw_on_budget() {
            self.exhausted = true;
            return;
        }
        let ticket = self.take_ticket();
        let client = &mut self.clients[index];
        client.slots[tag] = Slot::Free { since: now };
        let node = client.node;
        if let Some(operation) = self.work.skip(ticket) {
            let timeout = self.part.timeout;
            let what = || format!("no connection for {timeout:?}");
            self.count_failure(operation, since, now, node, ErrorKind::Refused, what);
        }
    }

    /// The connection is gone, or never came about: what was under way has failed; connect again,
    /// soon at first and then ever later.
    fn lose(&mut self, index: usize, kind: ErrorKind, why: String) {
        let now = clock::now();
        let client = &mut self.clients[index];
        let was_up = client.is_up();
        let node = client.node;
        let retry_at = if was_up { now } else { now + client.backoff };
        if !was_up {
            client.backoff = (client.backoff * 2).min(BACKOFF_MAX);
        }
        client.connection = Connection::Down { retry_at };
        client.lost_at.get_or_insert(now);
        for tag in 0..client.slots.len() {
            let client = &mut self.clients[index];
            let slot = &mut client.slots[tag];
            if !matches!(slot, Slot::Busy(_)) {
                continue;
            }
            let flight = std::mem::replace(slot, Slot::Free { since: now });
            if let Some(pending) = client.pendings[tag].take() {
                self.work.give_up(pending, Outcome::Unknown);
            }
            if let Slot::Busy(flight) = flight {
                let kind = if kind == ErrorKind::Protocol { kind } else { ErrorKind::Reset };
                self.count_failure(flight.operation, flight.due, now, node, kind, || why.clone());
            }
        }
        let errors = &mut self.slice.connection_errors;
        errors.count += 1;
        if errors.examples.len() < bakeoff_core::measurement::EXAMPLES_MAX {
            let node = self.shared.targets[node].address.to_string();
            let at_seconds = self.window.seconds_at(now);
            errors.examples.push(Example { at_seconds, node, what: why });
        }
    }

    /// The peer ended the connection as announced: nothing failed, connect again at once.
    fn reconnect(&mut self, index: usize) {
        self.clients[index].connection = Connection::Down { retry_at: clock::now() };
        self.begin_to_connect(index);
    }

    /// Hands the figures of past seconds over when a new one has begun.
    fn roll_over(&mut self, now: Instant) {
        let second = self.window.second_of(now);
        if second != self.slice.second {
            self.send_slice();
            self.slice.second = second;
        }
    }

    fn send_slice(&mut self) {
        let operations = self.work.operations().len();
        let fresh = self
            .recycled
            .try_recv()
            .unwrap_or_else(|_| Box::new(Slice::new(self.part.worker, operations)));
        let full = std::mem::replace(&mut self.slice, fresh);
        self.to_collector.send(Message::Slice(full)).ok();
    }
}

fn ignore_interrupt(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}
