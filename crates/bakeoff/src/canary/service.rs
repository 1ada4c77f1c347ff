//! Answers requests with the store and the faults. Has no sockets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_wire::canary::{self, Frame};
use serde::Serialize;

use super::faults::{Dice, Fate, Faults, Kind, Tally};
use super::greed;
use super::http::{self, Head, Status};
use super::locks::Locks;
use super::store::{KeptStates, LogPresence, Store};
use super::transactions::{self, MoveResult};
use super::truth::{self, DelaySource, RequestTimes, TruthStats};
use super::watch::{EventFaults, RemainingEvents, WatchStream};
use super::{Options, say};

/// Delay of the answer to a client whose lock is taken, which then asks again.
const LOCK_DELAY: Duration = Duration::from_millis(1);
/// Time for which watchers are refused after `--drop-watchers` has ended their connections. They then miss changes.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// Handling of the appended answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Send it.
    Whole,
    /// Send what was appended, if anything, and close the connection.
    CutOff,
    /// Send it after this long.
    Delayed(Duration),
    /// Send it after this long, and [record](Service::note_truth) its true delay.
    Truth(Duration),
    /// Send it. The connection is then one of [watchers](Service::watch_stream).
    Watches,
}

pub(super) struct Service {
    store: Store,
    locks: Locks,
    faults: Faults,
    /// Writes to apply after the next one of their key.
    held_back: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Values that further nodes wrote after the split; `None` for a deleted key.
    other_side: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    /// Time from which further nodes have a copy of their own.
    split_at: Option<Instant>,
    dice: Dice,
    delay_source: Option<DelaySource>,
    /// Answer to other paths.
    fixed: Option<Vec<u8>>,
    /// Time before a due time in which the canary polls instead of sleeping.
    spin: Duration,
    counters: Counters,
    /// Until then, everything but the counters is answered with 503.
    ready_at: Option<Instant>,
    /// Until then, watchers are refused.
    watchers_at: Option<Instant>,
    /// Time of the first delayed request, which starts the warm-up.
    first_asked: Option<Instant>,
    /// Memory taken at the first request.
    held: Vec<u8>,
    names: Vec<u8>,
    /// Time of the last write to the log; used only with `--write-every`.
    committed_at: Instant,
}

/// Answer to `GET /stats`.
#[derive(Debug, Default, Serialize)]
struct Counters {
    connections: u64,
    requests: u64,
    /// Requests with `Connection: close`, or HTTP/1.0 without `keep-alive`.
    closing_requests: u64,
    puts: u64,
    gets: u64,
    deletes: u64,
    lists: u64,
    not_found: u64,
    bad_requests: u64,
    /// Rounds that wrote to the log; each is one sync under `--sync each`.
    commits: u64,
    log_bytes: u64,
    keys: usize,
    faults: Tally,
    #[serde(skip_serializing_if = "Option::is_none")]
    truth: Option<TruthStats>,
}

impl Service {
    pub(super) fn open(options: Options, began: Instant) -> io::Result<Self> {
        let Options { data, durability, faults, truth, answer, history, .. } = options;
        let kept = KeptStates { previous: faults.stale > 0.0, lag: faults.old, history };
        let (store, found) = Store::open(&data, durability, kept)?;
        say(format_args!("{} records replayed, {} keys", found.records, store.len()));
        if found.torn_bytes > 0 {
            say(format_args!(
                "the log ended in an incomplete record: {} bytes removed",
                found.torn_bytes
            ));
        }
        let ready_at = (!faults.slow_start.is_zero()).then(|| began + faults.slow_start);
        let (dice, counters) = (Dice::new(&faults), Counters::default());
        let spin = truth.as_ref().map_or(Duration::ZERO, |truth| truth.spin);
        let delay_source = truth.map(|truth| DelaySource::new(truth, faults.seed));
        Ok(Self {
            store,
            locks: Locks::default(),
            committed_at: began,
            split_at: (!faults.split_after.is_zero()).then(|| began + faults.split_after),
            faults,
            held_back: BTreeMap::new(),
            other_side: BTreeMap::new(),
            dice,
            delay_source,
            fixed: answer.map(filler),
            spin,
            counters,
            ready_at,
            watchers_at: None,
            first_asked: None,
            held: Vec::new(),
            names: Vec::new(),
        })
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(super) fn note_connection(&mut self) {
        self.counters.connections += 1;
    }

    pub(super) fn note_bad_request(&mut self) {
        self.counters.bad_requests += 1;
    }

    pub(super) fn note_stall(&mut self, took: Duration) {
        self.counters.faults.stalls += 1;
        self.counters.faults.stalled_ns += took.as_nanos() as u64;
    }

    /// Returns the place of the last write. After a commit, watchers may receive it.
    pub(super) fn newest(&self) -> u64 {
        self.store.place()
    }

    /// Notes that all watchers' connections were ended, and refuses new ones for a while.
    pub(super) fn note_dropped_watchers(&mut self) {
        self.counters.faults.watchers_dropped += 1;
        self.watchers_at = Some(clock::now() + REFUSED_FOR);
    }

    /// Begins a connection of watchers.
    pub(super) fn watch_stream(&self) -> WatchStream {
        WatchStream::new(self.store.history())
    }

    /// Executes a frame of a watchers' client and appends the answer. Returns false if the frame breaks the protocol.
    pub(super) fn execute(
        &mut self,
        stream: &mut WatchStream,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        self.counters.requests += 1;
        let Self { store, faults, dice, counters, .. } = self;
        let mut faults = EventFaults { faults, dice, tally: &mut counters.faults };
        stream.execute(frame, store.history(), &mut faults, out)
    }

    /// Appends the events that watchers may receive. Call it after a commit.
    pub(super) fn send_events(
        &mut self,
        stream: &mut WatchStream,
        out: &mut Vec<u8>,
    ) -> RemainingEvents {
        let Self { store, faults, dice, counters, .. } = self;
        let mut faults = EventFaults { faults, dice, tally: &mut counters.faults };
        stream.send(store.history(), &mut faults, clock::now(), out)
    }

    pub(super) fn spin(&self) -> Duration {
        self.spin
    }

    /// Records the true delay of an answer of `/truth`.
    pub(super) fn note_truth(&mut self, times: RequestTimes, out: Instant) {
        if let Some(delay_source) = &mut self.delay_source {
            delay_source.note(times, out);
        }
    }

    /// Makes the writes of this round durable. No answer may be sent before. With `--write-every` the writes wait; that
    /// is the fault.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        if !self.faults.write_every.is_zero() {
            let now = clock::now();
            if now.saturating_duration_since(self.committed_at) < self.faults.write_every {
                return Ok(());
            }
            self.committed_at = now;
        }
        let bytes = self.store.commit()?;
        self.counters.commits += u64::from(bytes > 0);
        self.counters.log_bytes += bytes as u64;
        Ok(())
    }

    /// Executes a request and appends its answer to `out`.
    pub(super) fn answer(&mut self, head: &Head<'_>, body: &[u8], out: &mut Vec<u8>) -> Answer {
        self.counters.requests += 1;
        self.counters.closing_requests += u64::from(!head.keep_alive);
        if head.path == "/stats" && head.method == "GET" {
            self.counters.keys = self.store.len();
            self.counters.truth = self.delay_source.as_ref().map(DelaySource::stats);
            let json = serde_json::to_vec(&self.counters).expect("numbers can be written");
            return whole(out, Status::Ok, &json, head);
        }
        if let Some(at) = self.ready_at {
            if clock::now() < at {
                return whole(out, Status::Unavailable, b"", head);
            }
            self.ready_at = None;
        }
        if let Some(delay_source) = &mut self.delay_source
            && let Some(rest) = head.path.strip_prefix("/truth")
            && (rest.is_empty() || rest.starts_with('/'))
        {
            if head.method != "GET" {
                return whole(out, Status::MethodNotAllowed, b"", head);
            }
            http::answer(out, Status::Ok, truth::BODY, head.keep_alive);
            return Answer::Truth(delay_source.delay());
        }
        if head.path == canary::PATH {
            return self.begin_watches(head, out);
        }
        if (head.path, head.method) == ("/compact", "POST") && !self.faults.compact.is_zero() {
            // The only thread sleeps, so nothing else is answered meanwhile.
            std::thread::sleep(self.faults.compact);
            return whole(out, Status::NoContent, b"", head);
        }
        if let Some(answer) = self.lock(head, body, out) {
            return answer;
        }
        if matches!(head.path, "/look" | "/move") {
            return self.transact(head, body, out);
        }
        let (kind, list, key) = match self.key_of(head, out) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if self.held.is_empty() && self.faults.hold > 0 {
            self.held = greed::hold(self.faults.hold as usize);
        }
        let fate = self.dice.fate(kind);
        if let Some(answer) = self.failed(head, &key, fate, out) {
            return answer;
        }
        let answer = match kind {
            Kind::Write => self.write(head, &key, body, fate, out),
            Kind::Read | Kind::Event => self.read(head, &key, list, fate, out),
        };
        if answer == Answer::Whole { self.delayed() } else { answer }
    }

    /// Answers a request for a lock, or to release one; `None` for other requests.
    fn lock(&mut self, head: &Head<'_>, body: &[u8], out: &mut Vec<u8>) -> Option<Answer> {
        let (name, is_release) = match head.path.strip_prefix("/lock/") {
            Some(name) => (name, false),
            None => (head.path.strip_prefix("/unlock/")?, true),
        };
        if head.method != "POST" {
            return Some(whole(out, Status::MethodNotAllowed, b"", head));
        }
        let now = clock::now();
        if is_release {
            let status = match self.locks.release(name.as_bytes(), body, now) {
                true => Status::NoContent,
                false => Status::Conflict,
            };
            return Some(whole(out, status, b"", head));
        }
        let Self { locks, faults, dice, counters, .. } = self;
        let faults = (&*faults, dice, &mut counters.faults);
        Some(match locks.acquire(name.as_bytes(), body, now, faults) {
            Some(token) => whole(out, Status::Ok, token.to_string().as_bytes(), head),
            None => {
                whole(out, Status::Conflict, b"", head);
                Answer::Delayed(LOCK_DELAY)
            }
        })
    }

    /// Answers a transaction.
    fn transact(&mut self, head: &Head<'_>, body: &[u8], out: &mut Vec<u8>) -> Answer {
        let (kind, is_move) = match (head.path, head.method) {
            (_, method) if method != "POST" => {
                return whole(out, Status::MethodNotAllowed, b"", head);
            }
            ("/move", _) => (Kind::Write, true),
            _ => (Kind::Read, false),
        };
        let fate = self.dice.fate(kind);
        if let Some(answer) = self.failed(head, b"", fate, out) {
            return answer;
        }
        let Self { store, faults, dice, counters, .. } = self;
        let mut values = Vec::new();
        let result = match is_move {
            true => {
                counters.puts += 1;
                let faults = (&*faults, dice, &mut counters.faults);
                transactions::write_all(store, body, clock::now(), faults)
            }
            false => {
                counters.gets += 1;
                transactions::look(store, body, &mut values).map(|()| MoveResult::Done)
            }
        };
        let status = match result {
            Some(MoveResult::Done) => Status::Ok,
            Some(MoveResult::Conflict) => Status::Conflict,
            None => Status::BadRequest,
        };
        whole(out, status, &values, head);
        self.delayed()
    }

    /// Answers a request for watches.
    fn begin_watches(&mut self, head: &Head<'_>, out: &mut Vec<u8>) -> Answer {
        let is_refused = self.watchers_at.is_some_and(|at| clock::now() < at);
        let status = match head.method {
            "GET" if !head.upgrades => Status::UpgradeRequired,
            "GET" if is_refused => Status::Unavailable,
            "GET" => {
                http::switch_protocols(out);
                return Answer::Watches;
            }
            _ => Status::MethodNotAllowed,
        };
        whole(out, status, b"", head)
    }

    /// Returns the kind of a request, whether it is a list, and its key. The error is the answer to a request without a
    /// key.
    fn key_of<'h>(
        &mut self,
        head: &Head<'h>,
        out: &mut Vec<u8>,
    ) -> Result<(Kind, bool, Cow<'h, [u8]>), Answer> {
        let (list, name) = if let Some(name) = head.path.strip_prefix("/kv/") {
            (false, name)
        } else if let Some(name) = head.path.strip_prefix("/list/") {
            (true, name)
        } else if let Some(fixed) = self.fixed.as_deref().filter(|_| head.path != "/health") {
            if head.method != "GET" {
                return Err(whole(out, Status::MethodNotAllowed, b"", head));
            }
            http::answer(out, Status::Ok, fixed, head.keep_alive);
            return Err(self.delayed());
        } else {
            let status = match (head.path, head.method) {
                ("/health", "GET") => Status::Ok,
                ("/health" | "/stats", _) => Status::MethodNotAllowed,
                _ => Status::NotFound,
            };
            return Err(whole(out, status, b"", head));
        };
        let kind = match (head.method, list) {
            ("GET", _) => Kind::Read,
            ("PUT" | "DELETE", false) => Kind::Write,
            _ => return Err(whole(out, Status::MethodNotAllowed, b"", head)),
        };
        match http::key(name) {
            Some(key) if list || !key.is_empty() => Ok((kind, list, key)),
            _ => {
                self.counters.bad_requests += 1;
                Err(whole(out, Status::BadRequest, b"", head))
            }
        }
    }

    /// Answers a request whose fate is an error. `None` for other fates.
    fn failed(
        &mut self,
        head: &Head<'_>,
        key: &[u8],
        fate: Fate,
        out: &mut Vec<u8>,
    ) -> Option<Answer> {
        let tally = &mut self.counters.faults;
        match fate {
            Fate::Refuse => {
                tally.refused += 1;
                Some(Answer::CutOff)
            }
            Fate::Garbage => {
                tally.garbage += 1;
                out.extend(b"\x16\x03\x01 these bytes are no HTTP \xff\xfe\r\n\r\n");
                Some(Answer::CutOff)
            }
            Fate::Error => {
                tally.errors += 1;
                let number = tally.errors;
                if self.dice.complains() {
                    let key = String::from_utf8_lossy(key);
                    say(format_args!("[error] request {number} for \"{key}\" failed"));
                }
                let answer = whole(out, Status::InternalError, b"", head);
                let wait = self.faults.error_after;
                Some(if wait.is_zero() { answer } else { Answer::Delayed(wait) })
            }
            _ => None,
        }
    }

    /// Returns how to send a complete answer: at once or delayed.
    fn delayed(&mut self) -> Answer {
        if self.dice.delays() {
            let now = clock::now();
            let since = now.saturating_duration_since(*self.first_asked.get_or_insert(now));
            let delay = self.faults.delay_after(since);
            if !delay.is_zero() {
                self.counters.faults.delayed += 1;
                return Answer::Delayed(delay);
            }
        }
        Answer::Whole
    }

    fn write(
        &mut self,
        head: &Head<'_>,
        key: &[u8],
        body: &[u8],
        fate: Fate,
        out: &mut Vec<u8>,
    ) -> Answer {
        let logged = match fate {
            Fate::LoseOnRestart => LogPresence::No,
            _ => LogPresence::Yes,
        };
        let now = clock::now();
        let put = head.method == "PUT";
        self.counters.puts += u64::from(put);
        self.counters.deletes += u64::from(!put);
        self.counters.faults.lost += u64::from(fate == Fate::Lose);
        self.counters.faults.lost_on_restart += u64::from(fate == Fate::LoseOnRestart);
        if fate == Fate::Deny {
            self.counters.faults.denied += 1;
            return whole(out, Status::Conflict, b"", head);
        }
        if self.is_on_the_other_side(head) {
            self.counters.faults.split += 1;
            self.other_side.insert(key.into(), put.then(|| body.into()));
            return whole(out, Status::NoContent, b"", head);
        }
        let held_back = self.held_back.remove(key);
        match (fate, put) {
            (Fate::Lose, _) => {}
            (Fate::Reorder, true) if held_back.is_none() => {
                self.held_back.insert(key.into(), body.into());
            }
            (_, true) => self.store.put(key, body, logged, now),
            (_, false) => self.store.delete(key, logged, now),
        }
        if let Some(earlier) = held_back {
            self.counters.faults.reordered += 1;
            self.store.put(key, &earlier, logged, now);
        }
        if fate == Fate::Dirty {
            self.counters.faults.dirty += 1;
            return whole(out, Status::Conflict, b"", head);
        }
        match put {
            true => whole(out, Status::NoContent, b"", head),
            false => self.at_place(out, Status::Ok, head),
        }
    }

    /// Answers with the place of the last write.
    fn at_place(&self, out: &mut Vec<u8>, status: Status, head: &Head<'_>) -> Answer {
        whole(out, status, self.store.place().to_string().as_bytes(), head)
    }

    /// Returns true if the request comes from a further node, after the split.
    fn is_on_the_other_side(&self, head: &Head<'_>) -> bool {
        head.split && self.split_at.is_some_and(|at| clock::now() >= at)
    }

    fn read(
        &mut self,
        head: &Head<'_>,
        key: &[u8],
        list: bool,
        fate: Fate,
        out: &mut Vec<u8>,
    ) -> Answer {
        let value = if list {
            self.counters.lists += 1;
            self.names.clear();
            for name in self.store.list(key) {
                self.names.extend(name);
                self.names.push(b'\n');
            }
            Some(&*self.names)
        } else {
            self.counters.gets += 1;
            let split = self.is_on_the_other_side(head);
            match self.store.previous(key) {
                _ if split && self.other_side.contains_key(key) => {
                    self.other_side.get(key).and_then(Option::as_deref)
                }
                _ if head.old && !self.faults.old.is_zero() => {
                    let (value, is_old) = self.store.a_while_ago(key, clock::now());
                    self.counters.faults.old += u64::from(is_old);
                    value
                }
                Some(previous) if fate == Fate::Stale => {
                    self.counters.faults.stale += 1;
                    Some(previous)
                }
                _ => self.store.get(key),
            }
        };
        let Some(value) = value else {
            self.counters.not_found += 1;
            return self.at_place(out, Status::NotFound, head);
        };
        let begins = http::answer(out, Status::Ok, value, head.keep_alive);
        match fate {
            // An empty value cannot be changed.
            _ if value.is_empty() => Answer::Whole,
            Fate::Corrupt => {
                self.counters.faults.corrupted += 1;
                self.dice.corrupt(&mut out[begins..]);
                Answer::Whole
            }
            Fate::Truncate => {
                self.counters.faults.truncated += 1;
                out.truncate(begins + value.len() / 2);
                Answer::CutOff
            }
            _ => Answer::Whole,
        }
    }
}

/// Returns a text of `size` bytes.
fn filler(size: usize) -> Vec<u8> {
    let words = b"bakeoff's test application answers this, whatever it is asked for. ";
    words.iter().copied().cycle().take(size).collect()
}

fn whole(out: &mut Vec<u8>, status: Status, body: &[u8], head: &Head<'_>) -> Answer {
    http::answer(out, status, body, head.keep_alive);
    Answer::Whole
}
