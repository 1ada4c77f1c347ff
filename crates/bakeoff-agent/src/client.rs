//! The coordinator's end of the pipe: requests, answers, and what goes both ways while one is under way.
//!
//! A thread reads what comes and hands it to whoever waits. Another asks for the time every two seconds: a machine
//! that does not answer is lost, and whoever waits for it hears so. What was lost stays lost.
//!
//! Not here: how an agent is reached (`carrier`), what it does (`workshop`).

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_clock::wall;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::carrier::{self, Carrier, Sent};
use super::clocks::Offset;
use super::error::{AgentError, AgentRefusal};
use super::frame::{self, DATA_MAX, Frame, Kind, read_json};
use super::message::{ClockReading, DialLine, Hello, PROTOCOL, Request};
use super::way::Way;

/// How often an agent is asked whether it is there, and after what silence it is lost.
const ASK_EVERY: Duration = Duration::from_secs(2);
const LOST_AFTER: Duration = Duration::from_secs(15);
/// The longest an agent may take to begin, its executable sent.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);
/// How long an agent may take to end what it started.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Round trips for an offset of clocks.
const TRIPS: usize = 40;
/// Lines of a carrier's complaints that are kept.
const SAID_LINES: usize = 10;

/// A frame of a request, taken apart.
#[derive(Debug)]
pub enum Incoming {
    /// A note, JSON as it came ([`read_json`]).
    Note(Vec<u8>),
    /// Plain bytes.
    Data(Vec<u8>),
    /// No more bytes.
    End,
    /// The answer, JSON as it came: nothing follows. Whoever asked reads it into its type, without a tree in between.
    Answer(Vec<u8>),
    /// The refusal: nothing follows.
    Refusal(AgentRefusal),
}

impl Incoming {
    /// Takes a frame apart.
    ///
    /// # Errors
    /// In words, when it is no message.
    pub(crate) fn read(frame: Frame) -> Result<Self, serde_json::Error> {
        Ok(match frame.kind {
            Kind::Ask | Kind::Note => Self::Note(frame.body),
            Kind::Data => Self::Data(frame.body),
            Kind::End => Self::End,
            Kind::Answer => Self::Answer(frame.body),
            Kind::Refusal => Self::Refusal(read_json(&frame.body)?),
        })
    }
}

struct Shared {
    machine: String,
    to: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u32, Sender<Incoming>>>,
    next: AtomicU32,
    /// Why it was lost.
    lost: OnceLock<AgentError>,
    /// The last lines that its carrier complained with.
    said: Mutex<VecDeque<String>>,
    ended: AtomicBool,
    child: Mutex<Child>,
    /// When a frame came last.
    heard: Mutex<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn send(&self, frame: &Frame) -> Result<(), AgentError> {
        let mut to = locked(&self.to);
        let Some(pipe) = to.as_mut() else { return Err(self.loss()) };
        frame.write(pipe).map_err(|error| self.lose(AgentError::lost_by(&self.machine, &error)))
    }

    fn lose(&self, why: AgentError) -> AgentError {
        let why = self.lost.get_or_init(|| why).clone();
        // Whoever waits hears of it by the end of their channel.
        locked(&self.waiting).clear();
        why
    }

    fn loss(&self) -> AgentError {
        self.lost.get().cloned().unwrap_or_else(|| AgentError::Lost {
            machine: self.machine.clone(),
            why: "the run has ended".to_owned(),
        })
    }

    /// Tells why reading came to an end.
    fn broke_off(&self, error: Option<std::io::Error>) -> AgentError {
        // What a carrier complained of comes over another pipe, a moment later.
        std::thread::sleep(Duration::from_millis(100));
        let said: Vec<String> = locked(&self.said).iter().cloned().collect();
        let mut why = error.map_or("the connection ended".to_owned(), |error| error.to_string());
        for line in said {
            why.push_str("\n    | ");
            why.push_str(&line);
        }
        AgentError::Lost { machine: self.machine.clone(), why }
    }
}

/// An agent on a machine. Dropping it ends all that it started.
pub struct Agent {
    shared: Arc<Shared>,
    hello: Hello,
}

impl Agent {
    /// Reaches a machine and begins its agent.
    ///
    /// # Errors
    /// When it cannot be reached, is of another kind, or speaks another version.
    pub fn begin(machine: &str, carrier: &Carrier, sent: &[Sent]) -> Result<Self, AgentError> {
        let carried = carrier.start(machine, sent)?;
        let (mut child, to, mut from) = (carried.child, carried.to, carried.from);
        let (told, hears) = mpsc::channel();
        let reading = std::thread::spawn(move || {
            let begun = frame::skip_to_preamble(&mut from).and_then(|before| {
                match Frame::read(&mut from) {
                    Ok(Some(frame)) => Ok(frame),
                    Ok(None) => Err((std::io::ErrorKind::UnexpectedEof.into(), before)),
                    Err(error) => Err((error, before)),
                }
            });
            told.send(begun).ok();
            from
        });
        let name = machine.to_owned();
        let frame = match hears.recv_timeout(BEGIN_WITHIN) {
            Ok(Ok(begun)) => begun,
            Ok(Err((error, before))) => {
                drop(to);
                let (how, said) = carrier::last_words(&mut child, &error);
                let said = format!("{}{said}", carrier::shown(&before));
                let error = AgentError::NotBegun { machine: name, how, said, by_hand: None };
                return Err(carrier.not_begun(error));
            }
            Err(_) => {
                carrier::end(&mut child);
                let how = format!("nothing was heard within {BEGIN_WITHIN:?}");
                let said = String::new();
                let error = AgentError::NotBegun { machine: name, how, said, by_hand: None };
                return Err(carrier.not_begun(error));
            }
        };
        let from = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let garbled = |why: String| AgentError::Garbled { machine: name.clone(), why };
        let hello: Value = read_json(&frame.body).map_err(|error| garbled(error.to_string()))?;
        // Looked at first: another version may introduce itself in other words.
        let theirs = hello.get("protocol").and_then(Value::as_u64).unwrap_or(0) as u32;
        if theirs != PROTOCOL {
            drop(to);
            carrier::end_by_pipe(&mut child, END_WITHIN);
            return Err(AgentError::OtherProtocol { machine: name, theirs, ours: PROTOCOL });
        }
        let hello: Hello = read_json(&frame.body).map_err(|error| garbled(error.to_string()))?;
        let stderr = child.stderr.take();
        let shared = Arc::new(Shared {
            machine: name,
            to: Mutex::new(Some(to)),
            waiting: Mutex::default(),
            next: AtomicU32::new(1),
            lost: OnceLock::new(),
            said: Mutex::default(),
            ended: AtomicBool::new(false),
            child: Mutex::new(child),
            heard: Mutex::new(clock::now()),
        });
        if let Some(stderr) = stderr {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || keep_complaints(&shared, BufReader::new(stderr)));
        }
        let reader = Arc::clone(&shared);
        std::thread::spawn(move || read_on(&reader, from));
        for of in [ask_on, watch_silence] {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || of(&shared));
        }
        Ok(Self { shared, hello })
    }

    /// Returns how it introduced itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the machine's name.
    pub fn machine(&self) -> &str {
        &self.shared.machine
    }

    /// Returns why it is lost; `None` while it is there.
    pub fn lost(&self) -> Option<&AgentError> {
        self.shared.lost.get()
    }

    /// Asks, and waits for the answer, passing over notes.
    ///
    /// # Errors
    /// When it refuses, or is lost, or answers what was not asked.
    pub fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, AgentError> {
        self.open(request)?.answer()
    }

    /// Begins a request that is not over with one answer.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn open(&self, request: &Request) -> Result<Exchange, AgentError> {
        open(&self.shared, request)
    }

    /// Returns what makes connections from there. It does not keep the agent: once that is dropped, none is made, and
    /// those that were end.
    pub fn dialer(&self) -> Dialer {
        Dialer { shared: Arc::clone(&self.shared) }
    }

    /// Finds out how its clocks stand to ours, by the best of many round trips.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn offset(&self) -> Result<Offset, AgentError> {
        let mut best: Option<Offset> = None;
        for _ in 0..TRIPS {
            let (asked, wall) = (clock::now(), wall::seconds());
            let theirs: ClockReading = self.ask(&Request::Now)?;
            let trip = Offset::of_trip((asked, wall), theirs, clock::now());
            best = Some(best.map_or(trip, |best| best.or(trip)));
        }
        Ok(best.expect("there was a trip"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // The pipe's end is what an agent ends by.
        locked(&self.shared.to).take();
        let mut child = locked(&self.shared.child);
        carrier::end_by_pipe(&mut child, END_WITHIN);
    }
}

/// Makes connections from an agent's machine, and hands them to this process.
pub struct Dialer {
    shared: Arc<Shared>,
}

impl Dialer {
    /// Makes a request of the agent, while there is one.
    pub(crate) fn open(&self, request: &Request) -> Result<Exchange, AgentError> {
        open(&self.shared, request)
    }
}

fn open(shared: &Arc<Shared>, request: &Request) -> Result<Exchange, AgentError> {
    if let Some(lost) = shared.lost.get() {
        return Err(lost.clone());
    }
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let (tell, told) = mpsc::channel();
    locked(&shared.waiting).insert(number, tell);
    let exchange = Exchange { to: Speaker { shared: Arc::clone(shared), number }, told };
    let body = serde_json::to_vec(request).map_err(|error| AgentError::Garbled {
        machine: shared.machine.clone(),
        why: format!("a request cannot be written: {error}"),
    })?;
    shared.send(&Frame { kind: Kind::Ask, number, body })?;
    Ok(exchange)
}

/// A request under way.
pub struct Exchange {
    to: Speaker,
    told: Receiver<Incoming>,
}

impl Exchange {
    /// Waits for what comes next.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn next(&self) -> Result<Incoming, AgentError> {
        self.told.recv().map_err(|_| self.to.shared.loss())
    }

    /// The same for so long; `None` when nothing came.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn next_within(&self, time: Duration) -> Result<Option<Incoming>, AgentError> {
        match self.told.recv_timeout(time) {
            Ok(incoming) => Ok(Some(incoming)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.to.shared.loss()),
        }
    }

    /// Waits for the answer, passing over notes and data.
    ///
    /// # Errors
    /// When it refuses, or is lost, or answers what was not asked.
    pub fn answer<T: DeserializeOwned>(&self) -> Result<T, AgentError> {
        loop {
            match self.next()? {
                Incoming::Answer(body) => return self.read_answer(&body),
                Incoming::Refusal(refusal) => return Err(self.refused(refusal)),
                Incoming::Note(_) | Incoming::Data(_) | Incoming::End => {}
            }
        }
    }

    /// Reads a note that came.
    ///
    /// # Errors
    /// When it is another one.
    pub fn read<T: DeserializeOwned>(&self, note: &[u8]) -> Result<T, AgentError> {
        read_json(note).map_err(|error| self.garbled("note", &error))
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// When it is another one.
    pub fn read_answer<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AgentError> {
        read_json(body).map_err(|error| self.garbled("answer", &error))
    }

    fn garbled(&self, what: &str, error: &serde_json::Error) -> AgentError {
        let why = format!("its {what} is none: {error}");
        AgentError::Garbled { machine: self.to.shared.machine.clone(), why }
    }

    /// Returns a refusal as an error of the machine.
    pub fn refused(&self, refusal: AgentRefusal) -> AgentError {
        AgentError::Refused { machine: self.to.shared.machine.clone(), refusal }
    }

    /// Sends a note.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn tell(&self, note: &impl serde::Serialize) -> Result<(), AgentError> {
        let body = serde_json::to_vec(note).expect("notes are plain values");
        self.to.send(Kind::Note, body)
    }

    /// Sends plain bytes, in as many frames as they take.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn data(&self, bytes: &[u8]) -> Result<(), AgentError> {
        bytes.chunks(DATA_MAX).try_for_each(|part| self.to.send(Kind::Data, part.to_vec()))
    }

    /// Says that no more bytes follow.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn end(&self) -> Result<(), AgentError> {
        self.to.send(Kind::End, Vec::new())
    }

    /// Returns the way to the agent, for threads that do not listen.
    pub(crate) fn way(&self) -> impl Way + use<> {
        self.to.clone()
    }
}

/// The way of a request to its agent, without the way back.
#[derive(Clone)]
struct Speaker {
    shared: Arc<Shared>,
    number: u32,
}

impl Speaker {
    fn send(&self, kind: Kind, body: Vec<u8>) -> Result<(), AgentError> {
        self.shared.send(&Frame { kind, number: self.number, body })
    }
}

impl Way for Speaker {
    fn data(&self, bytes: &[u8]) -> io::Result<()> {
        self.send(Kind::Data, bytes.to_vec()).map_err(io::Error::other)
    }

    fn tell(&self, note: &DialLine) -> io::Result<()> {
        self.send(Kind::Note, serde_json::to_vec(note)?).map_err(io::Error::other)
    }

    fn end(&self) -> io::Result<()> {
        self.send(Kind::End, Vec::new()).map_err(io::Error::other)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        locked(&self.to.shared.waiting).remove(&self.to.number);
    }
}

/// Hands on what comes until the pipe closes.
fn read_on(shared: &Shared, mut from: impl std::io::Read) {
    let error = loop {
        let frame = match Frame::read(&mut from) {
            Ok(Some(frame)) => frame,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        *locked(&shared.heard) = clock::now();
        let number = frame.number;
        match Incoming::read(frame) {
            // Nobody waits any more for some of it.
            Ok(incoming) => {
                let waiting = locked(&shared.waiting).get(&number).cloned();
                waiting.map(|tell| tell.send(incoming));
            }
            Err(error) => {
                let machine = shared.machine.clone();
                shared.lose(AgentError::Garbled { machine, why: error.to_string() });
                carrier::end(&mut locked(&shared.child));
                return;
            }
        }
    };
    if !shared.ended.load(Ordering::Acquire) {
        let why = shared.broke_off(error);
        shared.lose(why);
    }
    locked(&shared.waiting).clear();
}

/// Asks whether it is there, until it is not.
fn ask_on(shared: &Arc<Shared>) {
    let is_over = || shared.ended.load(Ordering::Acquire) || shared.lost.get().is_some();
    while !is_over() {
        std::thread::sleep(ASK_EVERY);
        let Ok(asked) = open(shared, &Request::Now) else { return };
        if asked.next().is_err() {
            return;
        }
    }
}

/// Gives a machine up that has been silent for long. Whoever was about to write to it is freed by the carrier's end.
fn watch_silence(shared: &Arc<Shared>) {
    while !shared.ended.load(Ordering::Acquire) && shared.lost.get().is_none() {
        std::thread::sleep(ASK_EVERY);
        if locked(&shared.heard).elapsed() > LOST_AFTER {
            shared.lose(AgentError::silent(&shared.machine, LOST_AFTER));
            carrier::end(&mut locked(&shared.child));
        }
    }
}

/// Keeps the last lines that a carrier complains with.
fn keep_complaints(shared: &Shared, from: impl std::io::BufRead) {
    for line in from.split(b'\n').map_while(Result::ok) {
        for line in carrier::shown(&line).lines() {
            let mut said = locked(&shared.said);
            if said.len() == SAID_LINES {
                said.pop_front();
            }
            said.push_back(line.to_owned());
        }
    }
}
