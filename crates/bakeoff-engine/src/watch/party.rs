//! Runs all watchers of a load on one thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bakeoff_core::histogram::Latencies;
use bakeoff_core::study::{SlowReaders, Watchers};
use bakeoff_core::watch::{WatchFigures, WatchRange, WatchStart, Watches};
use mio::{Events, Interest, Poll, Token};

use super::connection::{Connection, WatchConnection};
use super::control::{WatchControl, WatchDisturbance};
use super::drain::{Drain, DrainEnd};
use super::observer::{FollowUp, WatchObserver};
use super::session::{WatchSession, WatcherRequest};
use crate::peer::Peer;
use crate::{EngineError, clock};

/// Longest interval between looks at timers.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum time until all watchers exist.
const SETUP_WITHIN: Duration = Duration::from_secs(60);
/// Idle time of a connection after which the server must show that it lives.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A poll that returned faster than this did not sleep.
const NO_SLEEP: Duration = Duration::from_micros(20);
const READ_BUFFER_SIZE: usize = 256 << 10;
/// Bytes that a connection may have ready before others get their turn.
const TURN_BYTES: usize = 1 << 20;

pub(super) const CLOSED_BY_US: &str = "bakeoff closed it";
/// Maximum number of described interruptions.
const INTERRUPTIONS_MAX: usize = 10;
/// Longest wait for the last events of a study's load while events still come.
const DRAIN_WITHIN: Duration = Duration::from_secs(60);

/// Configures the watchers of a load.
#[derive(Debug, Clone)]
pub struct WatchSettings {
    /// Number of watchers.
    pub watchers: u32,
    /// Number of their connections.
    pub connections: u32,
    /// First events of each watcher.
    pub from: WatchStart,
    /// True if events must hold the value before the write.
    pub previous: bool,
    /// True if a connection requests a watcher once the one before exists; false if it requests all at once.
    pub one_by_one: bool,
    /// Interval between requests for a report of progress; zero for none.
    pub progress: Duration,
    /// Interval at which one connection after another is closed; zero for never.
    pub churn: Duration,
    /// Connections that read slowly.
    pub slow: Option<SlowReaders>,
    /// Longest wait for the last events while events still come.
    pub drain_within: Duration,
}

impl WatchSettings {
    /// Returns the settings of a study's watchers. `watches` is the declaration of the kind.
    pub fn for_study(watchers: &Watchers, watches: &Watches) -> Self {
        Self {
            watchers: watchers.count,
            connections: watchers.connections_to(watches.per_connection_max),
            from: watchers.from,
            previous: watchers.previous,
            one_by_one: false,
            progress: watchers.progress,
            churn: watchers.churn,
            slow: watchers.slow,
            drain_within: DRAIN_WITHIN,
        }
    }
}

/// Holds what watchers took, whatever they observed.
#[derive(Debug)]
pub struct WatchCosts {
    /// Number of watchers.
    pub watchers: u32,
    /// Number of their connections.
    pub connections: u32,
    /// Time from the first connection to the creation of the last watcher.
    pub setup: Duration,
    /// CPU time of the watchers' thread from their creation.
    pub cpu: Duration,
    /// Bytes that watchers received after their creation.
    pub bytes_received: u64,
    /// Time that bytes may have been ready before the watchers' thread read them, for each read.
    pub receive_lag: Latencies,
    /// Lost connections and ended watches, first few in words.
    pub interruptions: Vec<String>,
    /// Last lost or failed connection, in words.
    pub last_loss: Option<String>,
}

impl WatchCosts {
    /// Returns figures with these costs and without any event.
    pub fn figures(self) -> WatchFigures {
        WatchFigures {
            watchers: self.watchers,
            connections: self.connections,
            setup: self.setup,
            cpu: self.cpu,
            bytes_received: self.bytes_received,
            receive_lag: self.receive_lag,
            interruptions: self.interruptions,
            ..WatchFigures::default()
        }
    }
}

/// Creates a watch session for a node.
pub type WatchConnect = Box<dyn FnMut(usize) -> Box<dyn WatchSession> + Send>;

/// Describes what the party does, as its thread reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    Watching = 0,
    Draining = 1,
    Stopped = 2,
}

/// Describes how far the thread has set up the watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetupStep {
    Created,
    CaughtUp,
}

/// Runs the watchers of a load.
pub struct WatchParty<O> {
    stage: Arc<AtomicU8>,
    control: WatchControl,
    thread: JoinHandle<(O, WatchCosts)>,
}

impl<O: WatchObserver> WatchParty<O> {
    /// Creates all watchers, and returns once they exist and have caught up. It waits for old events as long as for the
    /// last ones.
    ///
    /// # Errors
    /// If a server cannot be reached or refuses a watcher, or the user interrupts.
    pub fn start(
        peers: Vec<Peer>,
        settings: WatchSettings,
        observer: O,
        connect: WatchConnect,
        interrupted: &AtomicBool,
    ) -> Result<Self, EngineError> {
        let stage = Arc::new(AtomicU8::new(Stage::Watching as u8));
        let (ready, is_ready) = mpsc::channel();
        let (control, orders) = WatchControl::new();
        let drain_within = settings.drain_within;
        let runner = Runner::new(peers, settings, observer, connect)?;
        let runner = Runner { stage: Arc::clone(&stage), orders: Some(orders), ..runner };
        let thread =
            thread::Builder::new().name("watch".into()).spawn(move || runner.run(&ready))?;
        let party = Self { stage, control, thread };
        let mut until = clock::now() + SETUP_WITHIN;
        loop {
            match is_ready.recv_timeout(LOOK_EVERY) {
                Ok(Ok(SetupStep::Created)) => until = clock::now() + drain_within + SETUP_WITHIN,
                Ok(Ok(SetupStep::CaughtUp)) => return Ok(party),
                Ok(Err(why)) => return Err(why),
                Err(_) if interrupted.load(Ordering::Relaxed) => {
                    party.stop();
                    return Err(EngineError::Interrupted);
                }
                Err(mpsc::RecvTimeoutError::Timeout) if clock::now() < until => {}
                Err(_) => {
                    return Err(EngineError::NoWatchers(party.why_incomplete()));
                }
            }
        }
    }

    /// Returns the control that disturbs the watchers.
    pub fn control(&self) -> WatchControl {
        self.control.clone()
    }

    /// Waits until the last events have come, at most [`WatchSettings::drain_within`], and returns the observer. Stops
    /// at once when the user interrupts.
    pub fn finish(self, interrupted: &AtomicBool) -> (O, WatchCosts) {
        self.stage.store(Stage::Draining as u8, Ordering::Relaxed);
        while !self.thread.is_finished() && !interrupted.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        self.stop()
    }

    fn stop(self) -> (O, WatchCosts) {
        self.stage.store(Stage::Stopped as u8, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Stops, and describes why not all watchers exist.
    fn why_incomplete(self) -> String {
        let (_, costs) = self.stop();
        let why = costs.last_loss.map_or_else(String::new, |loss| format!("; {loss}"));
        format!("not all watchers existed after {} s{why}", SETUP_WITHIN.as_secs())
    }
}

/// Runs the loop of the watchers' thread.
struct Runner<O> {
    poll: Poll,
    peers: Vec<Peer>,
    settings: WatchSettings,
    observer: O,
    connect: WatchConnect,
    stage: Arc<AtomicU8>,
    orders: Option<mpsc::Receiver<(WatchDisturbance, mpsc::Sender<String>)>>,
    connections: Vec<WatchConnection>,
    /// Connections that had more bytes ready than one turn takes, or whose pause has ended.
    unread: Vec<usize>,
    follow_ups: Vec<FollowUp>,
    buffer: Vec<u8>,
    name: Vec<u8>,
    receive_lag: Latencies,
    bytes_received: u64,
    interruptions: Vec<String>,
    last_loss: Option<String>,
    /// Time since which bytes read now may have been ready.
    ready_since: Instant,
    began: Instant,
    progress_at: Instant,
    churn_at: Instant,
    /// Connection to close next.
    churn_next: usize,
    slow_at: Instant,
}

impl<O: WatchObserver> Runner<O> {
    fn new(
        peers: Vec<Peer>,
        settings: WatchSettings,
        observer: O,
        connect: WatchConnect,
    ) -> io::Result<Self> {
        let now = clock::now();
        let (watchers, count) = (settings.watchers, settings.connections.max(1));
        let connection = |at: u32| {
            let watchers = (at..watchers).step_by(count as usize).collect();
            WatchConnection::new(at as usize % peers.len().max(1), watchers, now)
        };
        let connections = (0..count).map(connection).collect();
        Ok(Self {
            poll: Poll::new()?,
            peers,
            observer,
            connect,
            stage: Arc::default(),
            orders: None,
            connections,
            unread: Vec::new(),
            follow_ups: Vec::new(),
            buffer: vec![0; READ_BUFFER_SIZE],
            name: Vec::new(),
            receive_lag: Latencies::default(),
            bytes_received: 0,
            interruptions: Vec::new(),
            last_loss: None,
            ready_since: now,
            began: now,
            progress_at: now,
            churn_at: now,
            churn_next: 0,
            slow_at: now,
            settings,
        })
    }

    fn stage(&self) -> u8 {
        self.stage.load(Ordering::Relaxed)
    }

    /// Watches until it is stopped, or drained. Sends to `ready` once all watchers exist, and once they have caught up.
    fn run(mut self, ready: &mpsc::Sender<Result<SetupStep, EngineError>>) -> (O, WatchCosts) {
        let mut events = Events::with_capacity(1024);
        let (mut setup, mut cpu_before) = (None, clock::thread_cpu());
        let (mut catch_up, mut has_begun): (Option<Drain>, bool) = (None, false);
        let mut drain: Option<Drain> = None;
        loop {
            let now = clock::now();
            if setup.is_none() && self.connections.iter().all(WatchConnection::is_complete) {
                setup = Some(now.saturating_duration_since(self.began));
                catch_up = Some(Drain::new(self.settings.drain_within, now));
                ready.send(Ok(SetupStep::Created)).ok();
            }
            if let Some(waits) = &mut catch_up
                && !has_begun
                && waits.end(&mut self.observer, now, |observer| observer.is_caught_up()).is_some()
            {
                has_begun = true;
                cpu_before = clock::thread_cpu();
                self.receive_lag.clear();
                self.bytes_received = 0;
                self.churn_at = now;
                self.observer.begin(now);
                ready.send(Ok(SetupStep::CaughtUp)).ok();
            }
            if self.stage() == Stage::Stopped as u8 {
                self.observer.cut_off();
                break;
            }
            if self.stage() == Stage::Draining as u8 {
                let drain =
                    drain.get_or_insert_with(|| Drain::new(self.settings.drain_within, now));
                let end = drain.end(&mut self.observer, now, |observer| observer.is_complete());
                if end == Some(DrainEnd::CutOff) {
                    self.observer.cut_off();
                }
                if end.is_some() {
                    break;
                }
            }
            self.look_at_orders(now);
            self.look_at_timers(now);
            if has_begun && self.stage() == Stage::Watching as u8 {
                self.churn(now);
            }
            if let Err(error) = self.turn(&mut events) {
                ready.send(Err(EngineError::Io(error))).ok();
                break;
            }
        }
        self.close();
        let costs = WatchCosts {
            watchers: self.settings.watchers,
            connections: self.connections.len() as u32,
            setup: setup.unwrap_or_default(),
            cpu: clock::thread_cpu().saturating_sub(cpu_before),
            bytes_received: self.bytes_received,
            receive_lag: self.receive_lag,
            interruptions: self.interruptions,
            last_loss: self.last_loss,
        };
        (self.observer, costs)
    }

    /// Waits for events, and handles those that have come.
    fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        let wait = if self.unread.is_empty() { LOOK_EVERY } else { Duration::ZERO };
        let before = clock::now();
        if let Err(error) = self.poll.poll(events, Some(wait))
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error);
        }
        let after = clock::now();
        if after.saturating_duration_since(before) >= NO_SLEEP {
            self.ready_since = after;
        }
        for index in std::mem::take(&mut self.unread) {
            self.handle(index);
        }
        for event in events.iter() {
            self.handle(event.token().0);
        }
        self.ready_since = after.max(self.ready_since);
        Ok(())
    }

    fn handle(&mut self, index: usize) {
        match self.connections[index].advance() {
            Err(error) => return self.lose(index, &error.to_string()),
            Ok(true) => self.create_watchers(index),
            Ok(false) => {}
        }
        if self.connections[index].paused_until.is_none() {
            self.flush(index);
            self.read(index);
        }
    }

    /// Creates the watchers of a connection that has come up: all, or the first.
    fn create_watchers(&mut self, index: usize) {
        let watchers = std::mem::take(&mut self.connections[index].watchers);
        let resumes = self.connections[index].was_up;
        let at_once = if self.settings.one_by_one { 1 } else { watchers.len() };
        for (place, &watcher) in watchers.iter().enumerate() {
            if resumes {
                self.observer.resumed(watcher);
            }
            if place < at_once {
                self.create(index, watcher);
            }
        }
        let connection = &mut self.connections[index];
        (connection.watchers, connection.was_up) = (watchers, true);
    }

    fn create(&mut self, index: usize, watcher: u32) {
        self.name.clear();
        let is_prefix = self.observer.name(watcher, &mut self.name) == WatchRange::Prefix;
        let after = self.observer.known_place(watcher);
        let WatchSettings { from, previous, .. } = self.settings;
        let name = &self.name;
        let request = WatcherRequest { watcher, name, is_prefix, after, from, previous };
        if let Some((link, session)) = self.connections[index].link() {
            session.watch(&request, &mut link.out);
            self.observer.requested(watcher, clock::now());
        }
    }

    /// Notes that a watcher exists, and creates the next one of its connection if it waits.
    fn created(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.missing = connection.missing.saturating_sub(1);
        let next = connection.watchers.len() - connection.missing;
        if self.settings.one_by_one
            && let Some(&watcher) = connection.watchers.get(next)
        {
            self.create(index, watcher);
        }
    }

    fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if let Some((link, _)) = connection.link()
            && link.wants_flush()
            && let Err(error) = link.flush()
        {
            self.lose(index, &error.to_string());
        }
    }

    /// Reads until the socket is empty, or others get their turn.
    fn read(&mut self, index: usize) {
        let mut taken = 0;
        loop {
            let connection = &mut self.connections[index];
            let Some((link, session)) = connection.connection.link() else { return };
            let read = link.read(&mut self.buffer);
            link.agreed.take();
            let count = match read {
                Ok(Some(0)) => return self.lose(index, "the server closed the connection"),
                Ok(Some(count)) => count,
                Ok(None) => return,
                Err(error) => return self.lose(index, &error.to_string()),
            };
            let now = clock::now();
            self.receive_lag.record(now.saturating_duration_since(self.ready_since));
            let (observer, follow_ups) = (&mut self.observer, &mut self.follow_ups);
            self.bytes_received += count as u64;
            let received = session.receive(&self.buffer[..count], &mut link.out, &mut |news| {
                let follow_up = observer.observe(news, &connection.watchers, now);
                if follow_up != FollowUp::None {
                    follow_ups.push(follow_up);
                }
            });
            if link.awaits_greeting() && session.begins_tls() {
                link.begin_tls();
            }
            let ending = session.is_ending().then(|| session.loss_reason());
            let is_last = count < self.buffer.len() && link.short_read_is_last();
            connection.received_at = now;
            if let Err(error) = received {
                return self.lose(index, &error.to_string());
            }
            match self.connections[index].advance() {
                Err(error) => return self.lose(index, &error.to_string()),
                Ok(true) => self.create_watchers(index),
                Ok(false) => {}
            }
            if !self.follow_up(index) {
                return;
            }
            if let Some(why) = ending {
                return self.lose(index, &why.unwrap_or("the server ends the connection".into()));
            }
            self.flush(index);
            if is_last {
                return;
            }
            taken += count;
            if taken >= TURN_BYTES {
                self.unread.push(index);
                return;
            }
        }
    }

    /// Does what the news require. Returns false if the connection is gone.
    fn follow_up(&mut self, index: usize) -> bool {
        let mut follow_ups = std::mem::take(&mut self.follow_ups);
        let mut is_up = true;
        for follow_up in follow_ups.drain(..) {
            match follow_up {
                FollowUp::Created => self.created(index),
                FollowUp::Renew(watcher) => self.create(index, watcher),
                FollowUp::Move(why) if is_up => {
                    is_up = false;
                    self.lose(index, &why);
                }
                FollowUp::Move(_) | FollowUp::None => {}
            }
        }
        self.follow_ups = follow_ups;
        is_up
    }

    fn lose(&mut self, index: usize, why: &str) {
        let nodes = self.peers.len();
        let connection = &mut self.connections[index];
        let address = &self.peers[connection.node].address;
        let what = format!("connection {index} to {address}: {why}");
        if connection.was_up && self.interruptions.len() < INTERRUPTIONS_MAX {
            self.interruptions.push(what.clone());
        }
        self.last_loss = Some(what);
        connection.lose(nodes, clock::now());
    }

    /// Disturbs connections as ordered.
    fn look_at_orders(&mut self, now: Instant) {
        let orders = self.orders.iter().flat_map(|orders| orders.try_iter());
        for (disturbance, proof) in orders.collect::<Vec<_>>() {
            let all = self.connections.len();
            let count = disturbance.affected(all);
            let what = match disturbance.lasts.is_zero() {
                true => "closed",
                false => "neither read nor write",
            };
            for index in 0..count {
                match disturbance.lasts.is_zero() {
                    true => self.lose(index, CLOSED_BY_US),
                    false => {
                        self.connections[index].paused_until = Some(now + disturbance.lasts);
                    }
                }
            }
            proof.send(format!("{count} of {all} connections of watchers {what}")).ok();
        }
    }

    /// Reconnects, requests progress, and pauses slow readers.
    fn look_at_timers(&mut self, now: Instant) {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            match &mut connection.connection {
                Connection::Down { retry_at } if *retry_at <= now => self.connect(index, now),
                Connection::Opening { deadline, .. } if *deadline <= now => {
                    self.lose(index, "no connection in time");
                }
                Connection::Up { link, session } => {
                    // A slow reader would not notice signs of life.
                    if let Some(every) = session.keep_alive_every()
                        && connection.paused_until.is_none()
                        && now >= connection.sent_at + every
                    {
                        session.keep_alive(&mut link.out);
                        connection.sent_at = now;
                        if now > connection.received_at + every.max(SILENCE_MAX) {
                            self.lose(index, "the server is silent");
                        } else {
                            self.flush(index);
                        }
                    }
                }
                _ => {}
            }
            if self.connections[index].paused_until.is_some_and(|until| until <= now) {
                self.connections[index].paused_until = None;
                self.connections[index].received_at = now;
                self.unread.push(index);
            }
        }
        let every = self.settings.progress;
        if !every.is_zero() && now >= self.progress_at + every {
            self.progress_at = now;
            for index in 0..self.connections.len() {
                if let Connection::Up { link, session } = &mut self.connections[index].connection {
                    session.ask_progress(&mut link.out);
                    self.flush(index);
                }
            }
        }
        if let Some(slow) = self.settings.slow
            && now >= self.slow_at + slow.every
        {
            self.slow_at = now;
            let connections = self.connections.iter_mut().take(slow.connections as usize);
            // One that has just paused reads first.
            let reads = |index: &usize| self.unread.contains(index);
            for (_, connection) in (0..).zip(connections).filter(|(index, _)| !reads(index)) {
                connection.paused_until = Some(now + slow.pause);
            }
        }
    }

    /// Closes the connections whose turn has come.
    fn churn(&mut self, now: Instant) {
        let every = self.settings.churn;
        while !every.is_zero() && now >= self.churn_at + every {
            self.churn_at += every;
            let index = self.churn_next;
            self.churn_next = (index + 1) % self.connections.len();
            if matches!(self.connections[index].connection, Connection::Up { .. }) {
                self.lose(index, CLOSED_BY_US);
            }
        }
    }

    fn connect(&mut self, index: usize, now: Instant) {
        let connection = &mut self.connections[index];
        let session = (self.connect)(connection.node);
        let registry = self.poll.registry();
        let began = connection.begin(&self.peers[connection.node], session, now, |link| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            registry.register(&mut link.stream, Token(index), interest)
        });
        connection.received_at = now;
        if let Err(error) = began {
            self.lose(index, &error.to_string());
        }
    }

    /// Ends all connections with the protocol's goodbye.
    fn close(&mut self) {
        for connection in &mut self.connections {
            if let Connection::Up { link, session } = &mut connection.connection {
                session.close(&mut link.out);
                link.flush().ok();
            }
        }
    }
}
