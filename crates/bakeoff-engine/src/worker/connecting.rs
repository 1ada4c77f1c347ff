//! Opens, loses and reopens the connections of a worker's clients.
//!
//! Not here: operations (`worker`), bytes (`transport`).

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bakeoff_core::ledger::WriteOutcome;
use bakeoff_core::measurement::{ErrorKind, Example, SILENCE_MIN};
use bakeoff_core::units::latency_text;
use mio::{Interest, Token};

use super::super::client::{BACKOFF_MAX, BACKOFF_MIN, Connection, Flight, QueuedOperation, Slot};
use super::super::lookup;
use super::super::own_limits::ports_exhausted;
use super::super::tls::refusal;
use super::super::transport::Link;
use super::super::work::{IdleClose, Session as _, Tag, Work};
use super::super::{Connections, EngineError, clock};
use super::Worker;
use super::greeting::silence;
use super::recorder::FailedOperation;

/// Time limit for opening a kept connection, including TLS. A server may have many handshakes to do.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);

/// Describes a connection that was lost or never opened, and why.
struct LostConnection<S: ?Sized> {
    connection: Connection<S>,
    kind: ErrorKind,
    why: String,
}

impl<W: Work> Worker<'_, W> {
    /// Returns true if the peer has accepted, and starts the handshake the first time.
    pub(super) fn has_connected(&mut self, index: usize) -> bool {
        let client = &mut self.clients[index];
        if let Connection::Connecting { link, .. } = &client.connection {
            match link.is_connected() {
                Ok(false) => return false,
                Ok(true) => client.begin_handshake(),
                Err(error) => {
                    self.lose(index, ErrorKind::Reset, error.to_string());
                    return false;
                }
            }
        }
        true
    }

    /// Lets operations begin once the handshakes of TLS and the protocol are done. On a kept connection they are not
    /// part of the first operation.
    pub(super) fn come_up_if_open(&mut self, index: usize) {
        if let Connection::Greeting { link, session, .. } = &self.clients[index].connection
            && session.is_open()
            && link.is_agreed()
        {
            self.come_up(index);
        }
    }

    fn come_up(&mut self, index: usize) {
        let now = clock::now();
        let client = &mut self.clients[index];
        let connection =
            std::mem::replace(&mut client.connection, Connection::Down { retry_at: now });
        if let Connection::Greeting { link, session, .. } = connection {
            client.connection = Connection::Up { link, session };
        }
        client.refused = false;
        client.has_answered = false;
        if client.connected_at.is_none() {
            client.connected_at = Some(now);
            self.shared.reached[self.shared.places[client.node]].store(true, Ordering::Relaxed);
        }
        if let Some(lost_at) = client.lost_at.take() {
            self.recorder.slice.disconnected += self.recorder.window.overlap(lost_at, now);
        }
    }

    pub(super) fn check_connections(&mut self, now: Instant) {
        self.follow_names(now);
        for index in 0..self.clients.len() {
            if self.passes_on() && !self.clients[index].is_up() {
                self.refill(index, now);
            }
            let client = &mut self.clients[index];
            match &mut client.connection {
                Connection::Down { retry_at } if *retry_at <= now => self.begin_to_connect(index),
                // A client whose connection failed is ready for another operation.
                Connection::Resting if !client.idle => self.refill(index, now),
                Connection::Connecting { deadline, .. } if *deadline <= now => {
                    self.lose(index, ErrorKind::Timeout, "no connection in time".into());
                }
                Connection::Greeting { link, deadline, .. } if *deadline <= now => {
                    let what = silence(link);
                    self.lose(index, ErrorKind::Timeout, what.into());
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

    /// Reconnects clients whose node has got a new address.
    fn follow_names(&mut self, now: Instant) {
        let moved = self.recorder.addresses.refresh();
        for &node in &moved {
            let since = self.recorder.window.seconds_at(now);
            let used = lookup::used(self.recorder.addresses.at(node), Some(since));
            self.recorder.slice.addresses.push(used);
        }
        if moved.is_empty() {
            return;
        }
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let tries = matches!(
                client.connection,
                Connection::Down { .. } | Connection::Connecting { .. }
            );
            if tries && moved.contains(&client.node) {
                client.backoff = BACKOFF_MIN;
                self.begin_to_connect(index);
            }
        }
    }

    pub(super) fn begin_to_connect(&mut self, index: usize) {
        if self.over_since.is_some() && self.clients[index].is_quiet() {
            return; // no operation will need the connection
        }
        let client = &mut self.clients[index];
        let session = self.work.session(client.number, client.node);
        let address = self.recorder.addresses.at(client.node);
        let tls = self.shared.peers[client.node].tls.as_ref();
        let link = Link::connect(address, tls).and_then(|mut link| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut link.stream, Token(index), interest)?;
            Ok(link)
        });
        match link {
            Ok(link) => {
                // An operation's timeout covers its own connection.
                let within = match self.part.connections {
                    Connections::Kept => self.part.timeout.max(CONNECT_WITHIN),
                    Connections::OneEach => self.part.timeout,
                };
                let deadline = clock::now() + within;
                client.connection = Connection::Connecting { link, session, deadline };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.may_wait(index) => {
                let retry_at = clock::now() + BACKOFF_MIN;
                self.clients[index].connection = Connection::Down { retry_at };
            }
            Err(error) => {
                if let Some(why) = ports_exhausted(&error) {
                    self.shared.aborted.store(true, Ordering::Relaxed);
                    self.wants = Some(EngineError::NoPorts(why));
                }
                self.lose(index, ErrorKind::Refused, error.to_string());
            }
        }
    }

    /// Returns true if an operation may keep waiting for its own connection because the server's Unix socket is full.
    /// For TCP the kernel does that waiting.
    fn may_wait(&self, index: usize) -> bool {
        let timeout = self.part.timeout;
        let is_in_time = |slot: &Slot| matches!(slot, Slot::Waiting(waiting) if clock::now() < waiting.sent + timeout);
        self.part.connections == Connections::OneEach
            && self.clients[index].slots.iter().any(is_in_time)
    }

    pub(super) fn check_timeouts(&mut self, now: Instant) {
        self.refuse_due(now);
        let timeout = self.part.timeout;
        for index in 0..self.clients.len() {
            for tag in 0..self.clients[index].slots.len() {
                match &self.clients[index].slots[tag] {
                    Slot::Busy(flight) if now > flight.sent + timeout => {
                        self.time_out(index, tag, now);
                    }
                    // An operation's own connection has its own time limit.
                    Slot::Waiting(waiting)
                        if (waiting.tries > 0 || self.passes_on())
                            && now > waiting.sent + timeout =>
                    {
                        self.time_out_waiting(index, tag, now);
                    }
                    // A closed client without a connection still has a due operation.
                    Slot::Free { since }
                        if !self.pacing.is_open()
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

    pub(super) fn time_out(&mut self, index: usize, tag: usize, now: Instant) {
        let client = &mut self.clients[index];
        let slot = &mut client.slots[tag];
        let Slot::Busy(flight) = std::mem::replace(slot, Slot::Free { since: now }) else { return };
        if let Some(pending) = client.pendings[tag].take() {
            self.work.give_up(pending, WriteOutcome::Unknown);
        }
        let usable = match &mut client.connection {
            Connection::Up { link, session } => {
                session.abandon(tag as Tag, &mut link.out)
                    && self.part.connections == Connections::Kept
            }
            _ => false,
        };
        let timeout = self.part.timeout;
        self.count_timeout(index, &flight, now, &|| {
            format!("no answer after {}", latency_text(timeout))
        });
        if usable {
            self.refill(index, now);
            self.flush(index);
        } else {
            self.lose(index, ErrorKind::Timeout, "given up after an operation timed out".into());
        }
    }

    /// Counts an operation that its connection did not accept in time, at the first try or a later one.
    fn time_out_waiting(&mut self, index: usize, tag: usize, now: Instant) {
        let client = &mut self.clients[index];
        let slot = std::mem::replace(&mut client.slots[tag], Slot::Free { since: now });
        let (Slot::Waiting(waiting), node) = (slot, client.node) else { return };
        let kind = if waiting.tries > 0 { ErrorKind::Timeout } else { client.unconnected() };
        self.note_failure(index, waiting.due, now);
        let timeout = self.part.timeout;
        self.count_waiting_lost(waiting, node, kind, now, &|| match waiting.tries {
            0 => format!("no connection for {}", latency_text(timeout)),
            _ => "the server did not accept the repeated operation in time".to_owned(),
        });
    }

    /// Counts an operation that never got a connection.
    fn count_waiting_lost(
        &mut self,
        waiting: QueuedOperation,
        node: usize,
        kind: ErrorKind,
        now: Instant,
        what: &dyn Fn() -> String,
    ) {
        let ticket = match waiting.again {
            Some(ticket) => ticket,
            None => self.pacing.take_ticket(&mut self.work),
        };
        if let Some(operation) = self.work.skip(node, ticket) {
            let failed = FailedOperation { operation, due: waiting.due, node, kind };
            self.recorder.count_failure(failed, now, what);
        }
    }

    /// Counts an operation that was answered too late or not at all.
    pub(super) fn count_timeout(
        &mut self,
        index: usize,
        flight: &Flight,
        now: Instant,
        what: &dyn Fn() -> String,
    ) {
        let (node, &Flight { operation, due, sent, .. }) = (self.clients[index].node, flight);
        self.note_failure(index, due, now);
        let failed = FailedOperation { operation, due, node, kind: ErrorKind::Timeout };
        self.recorder.count_failure(failed, now, what);
        if self.recorder.measures(due, now) {
            let waited = now.saturating_duration_since(sent);
            self.recorder.slice.operations[operation].unanswered_service.record(waited);
            if let Some(target) = self.recorder.slice.targets.get_mut(node) {
                target.service.record(waited);
            }
        }
    }

    pub(super) fn refuse(&mut self, index: usize, tag: usize, since: Instant, now: Instant) {
        if since >= self.recorder.window.measure && !self.pacing.draw_on_budget() {
            return;
        }
        let timeout = self.part.timeout;
        self.count_unconnected(index, tag, since, now, &|| {
            format!("no connection for {}", latency_text(timeout))
        });
    }

    /// Counts an operation that was due at `since` and has waited for its client's connection until now.
    fn count_unconnected(
        &mut self,
        index: usize,
        tag: usize,
        since: Instant,
        now: Instant,
        what: &dyn Fn() -> String,
    ) {
        let ticket = self.pacing.take_ticket(&mut self.work);
        let client = &mut self.clients[index];
        client.slots[tag] = Slot::Free { since: now };
        let (node, kind) = (client.node, client.unconnected());
        self.note_failure(index, since, now);
        if let Some(operation) = self.work.skip(node, ticket) {
            self.recorder.count_failure(
                FailedOperation { operation, due: since, node, kind },
                now,
                what,
            );
        }
    }

    /// Counts due operations of a closed load that could not be sent before the end because their server is gone.
    /// Excludes clients that are just reconnecting.
    pub(super) fn count_waiting(&mut self, end: Instant) {
        if self.pacing.is_open() || self.pacing.exhausted {
            return;
        }
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            let waited = |since: Instant| end.saturating_duration_since(since);
            let long = client.lost_at.is_some_and(|lost| waited(lost) >= SILENCE_MIN);
            if client.is_connected() || !(long || client.refused) {
                continue;
            }
            for tag in 0..self.clients[index].slots.len() {
                let Slot::Free { since } = self.clients[index].slots[tag] else { continue };
                if since < end {
                    let what = &|| {
                        format!("no connection for {}, until the end", latency_text(waited(since)))
                    };
                    self.count_unconnected(index, tag, since, end, what);
                }
            }
        }
    }

    /// Handles a peer that accepts no more bytes. It may already have answered, as servers do that refuse a body.
    #[cold]
    pub(super) fn lose_unless_answered(&mut self, index: usize, error: &io::Error) {
        self.read(index, true);
        if self.clients[index].link().is_some() {
            self.end_connection(index, refusal::io_text(error));
        }
    }

    /// Handles a connection that the peer has closed. This is no failure if it had answered and no operation was in
    /// flight.
    pub(super) fn end_connection(&mut self, index: usize, why: String) {
        let client = &self.clients[index];
        if client.is_up() && client.has_answered && client.is_idle() {
            self.recorder.slice.closed_idle += 1;
            self.reconnect(index);
        } else {
            self.lose(index, ErrorKind::Reset, why);
        }
    }

    /// Handles a connection that is gone or never opened. Operations in flight fail or are sent again. The client
    /// reconnects, with exponential backoff if it was turned away.
    pub(super) fn lose(&mut self, index: usize, kind: ErrorKind, why: String) {
        let now = clock::now();
        let client = &mut self.clients[index];
        self.held.release(&mut client.held);
        let was_up = client.is_up();
        // Back off also from a server that accepts and then hangs up.
        let turned_away = !was_up || (!client.has_answered && client.is_idle());
        client.refused = turned_away && kind != ErrorKind::Timeout;
        let retry_at = if turned_away { now + client.backoff } else { now };
        if turned_away {
            client.turned_away += 1;
            client.backoff = (client.backoff * 2).min(BACKOFF_MAX);
        } else {
            (client.turned_away, client.backoff) = (0, BACKOFF_MIN);
        }
        let next = match self.part.connections {
            Connections::OneEach => Connection::Resting,
            Connections::Kept => {
                client.lost_at.get_or_insert(now);
                Connection::Down { retry_at }
            }
        };
        let connection = std::mem::replace(&mut client.connection, next);
        let slots = client.slots.len();
        let reason = match &connection {
            Connection::Up { session, .. } if kind == ErrorKind::Reset => session.loss_reason(),
            _ => None,
        };
        let why = reason.map_or_else(|| why.clone(), |reason| format!("{why}; {reason}"));
        let lost = LostConnection { connection, kind, why };
        let mut is_closed_idle = false;
        for tag in 0..slots {
            is_closed_idle |= self.lose_slot(index, tag, &lost, now);
        }
        if is_closed_idle {
            self.recorder.slice.closed_idle += 1;
            return self.begin_to_connect(index);
        }
        let node = self.clients[index].node;
        self.recorder.addresses.failed(node, now);
        let errors = &mut self.recorder.slice.connection_errors;
        errors.count += 1;
        if errors.examples.len() < bakeoff_core::measurement::EXAMPLES_MAX {
            let node = self.recorder.addresses.at(node).to_string();
            let at_seconds = self.recorder.window.seconds_at(now);
            let mut example = Example { at_seconds, node, what: lost.why };
            example.cut();
            errors.examples.push(example);
        }
    }

    /// Counts the operation of a client whose connection was lost, or schedules it to be sent again. Returns true if
    /// it is sent again because the server closed an idle connection.
    fn lose_slot(
        &mut self,
        index: usize,
        tag: usize,
        lost: &LostConnection<W::Session>,
        now: Instant,
    ) -> bool {
        let LostConnection { connection, kind, why } = lost;
        let kind = *kind;
        let is_over = self.is_over(now);
        let client = &mut self.clients[index];
        let node = client.node;
        let slot = std::mem::replace(&mut client.slots[tag], Slot::Free { since: now });
        let pending = client.pendings[tag].take();
        match slot {
            Slot::Free { since } => client.slots[tag] = Slot::Free { since },
            Slot::Elsewhere => client.slots[tag] = Slot::Elsewhere,
            // It keeps waiting, as any due operation of a client without a connection does.
            Slot::Waiting(waiting) if waiting.tries > 0 && !is_over => {
                self.clients[index].slots[tag] = Slot::Waiting(waiting);
            }
            Slot::Waiting(waiting) => {
                let kind = if kind == ErrorKind::Timeout { kind } else { ErrorKind::Refused };
                self.note_failure(index, waiting.due, now);
                let waited = now.saturating_duration_since(waiting.due);
                self.count_waiting_lost(waiting, node, kind, now, &|| match waiting.tries {
                    0 => why.to_owned(),
                    _ => format!("no connection for {waited:.2?}: {why}"),
                });
            }
            Slot::Busy(flight) => {
                let unanswered = client.has_answered && client.received_at <= flight.sent;
                let close = match (connection, &pending) {
                    (Connection::Up { session, .. }, Some(pending))
                        if unanswered && kind == ErrorKind::Reset =>
                    {
                        self.work.after_idle_close(session, pending)
                    }
                    _ => IdleClose::Broken,
                };
                if let Some(pending) = pending {
                    self.work.give_up(pending, WriteOutcome::Unknown);
                }
                let kind = match (close, kind) {
                    (IdleClose::Reissued, _) => {
                        self.reissue(index, tag, flight, now);
                        return true;
                    }
                    (IdleClose::Failed, _) => ErrorKind::Closed,
                    (IdleClose::Broken, ErrorKind::Protocol) => kind,
                    (IdleClose::Broken, _) => ErrorKind::Reset,
                };
                let Flight { operation, due, .. } = flight;
                self.note_failure(index, due, now);
                let failed = FailedOperation { operation, due, node, kind };
                self.recorder.count_failure(failed, now, &|| why.to_owned());
            }
        }
        false
    }

    /// Schedules an operation that the server did not process to be sent again once a connection accepts it.
    pub(super) fn reissue(&mut self, index: usize, tag: usize, flight: Flight, now: Instant) {
        let Flight { due, sent, ticket, tries, lag, .. } = flight;
        let again = QueuedOperation { due, sent, again: Some(ticket), tries, lag };
        self.clients[index].slots[tag] = Slot::Waiting(again);
        self.recorder.slice.reissued += u64::from(self.recorder.measures(due, now));
    }

    /// Replaces a connection that ended without a failure, at once or with the next operation.
    pub(super) fn reconnect(&mut self, index: usize) {
        self.held.release(&mut self.clients[index].held);
        let waits = !self.clients[index].is_quiet();
        match self.part.connections {
            Connections::OneEach => {
                let sent = self.clients[index].close(Connection::Resting);
                self.recorder.slice.bytes_sent += sent;
                if waits {
                    self.begin_to_connect(index);
                }
            }
            Connections::Kept => {
                self.clients[index].connection = Connection::Down { retry_at: clock::now() };
                self.begin_to_connect(index);
            }
        }
    }
}
