//! The coordinator's end of the pipe: sends requests and receives answers, notes and data.
//!
//! One thread reads frames and passes each to the caller that waits for it. Another sends a time request every two
//! seconds. A machine that stays silent is lost, and every waiting caller gets that error. A lost machine stays lost.
//!
//! Not here: reaching an agent (`carrier`), the requests an agent serves (`agent_state`).

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

use super::carrier::{self, AgentExecutable, Carrier};
use super::clocks::Offset;
use super::error::{AgentError, AgentRefusal};
use super::frame::{self, DATA_MAX, Frame, Kind, read_json};
use super::frame_sender::FrameSender;
use super::message::{ClockReading, DialLine, Hello, PROTOCOL, Request};

/// Interval between keep-alive requests.
const ASK_EVERY: Duration = Duration::from_secs(2);
const LOST_AFTER: Duration = Duration::from_secs(15);
/// Time limit for an agent to start, including the transfer of its executable.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for an agent to end what it started.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Round trips per measurement of a clock offset.
const TRIPS: usize = 40;
/// Lines of the carrier's standard error to keep.
const SAID_LINES: usize = 10;

/// One decoded frame of a request.
#[derive(Debug)]
pub enum IncomingFrame {
    /// Note, as the JSON bytes received; decode it with [`read_json`].
    Note(Vec<u8>),
    /// Plain bytes.
    Data(Vec<u8>),
    /// End of data.
    End,
    /// Answer, as the JSON bytes received, and the last frame. The caller decodes it directly into its type.
    Answer(Vec<u8>),
    /// Refusal, the last frame.
    Refusal(AgentRefusal),
}

impl IncomingFrame {
    /// Decodes a frame.
    ///
    /// # Errors
    /// When a refusal is not valid JSON of its type.
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

struct ClientState {
    machine: String,
    to: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u32, Sender<IncomingFrame>>>,
    next: AtomicU32,
    /// Cause of the loss; unset while the agent is reachable.
    lost: OnceLock<AgentError>,
    /// Last lines of the carrier's standard error.
    said: Mutex<VecDeque<String>>,
    ended: AtomicBool,
    child: Mutex<Child>,
    /// Time of the last frame.
    heard: Mutex<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientState {
    fn send(&self, frame: &Frame) -> Result<(), AgentError> {
        let mut to = locked(&self.to);
        let Some(pipe) = to.as_mut() else { return Err(self.loss()) };
        frame.write(pipe).map_err(|error| self.lose(AgentError::lost_by(&self.machine, &error)))
    }

    fn lose(&self, why: AgentError) -> AgentError {
        let why = self.lost.get_or_init(|| why).clone();
        // Closing their channels wakes all waiting callers.
        locked(&self.waiting).clear();
        why
    }

    fn loss(&self) -> AgentError {
        self.lost.get().cloned().unwrap_or_else(|| AgentError::Lost {
            machine: self.machine.clone(),
            why: "the run has ended".to_owned(),
        })
    }

    /// Builds the error for a connection that ended.
    fn broke_off(&self, error: Option<std::io::Error>) -> AgentError {
        // The carrier's standard error arrives over another pipe, a moment later.
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

/// An agent on a machine. Dropping it ends everything that the agent started.
pub struct Agent {
    shared: Arc<ClientState>,
    hello: Hello,
}

impl Agent {
    /// Connects to a machine and starts its agent.
    ///
    /// # Errors
    /// When the machine cannot be reached, has another architecture, or its agent uses another protocol version.
    pub fn begin(
        machine: &str,
        carrier: &Carrier,
        sent: &[AgentExecutable],
    ) -> Result<Self, AgentError> {
        let carried = carrier.start(machine, sent)?;
        let (mut child, to, mut from) = (carried.child, carried.to, carried.from);
        let (received, hears) = mpsc::channel();
        let reading = std::thread::spawn(move || {
            let begun = frame::skip_to_preamble(&mut from).and_then(|before| {
                match Frame::read(&mut from) {
                    Ok(Some(frame)) => Ok(frame),
                    Ok(None) => Err((std::io::ErrorKind::UnexpectedEof.into(), before)),
                    Err(error) => Err((error, before)),
                }
            });
            received.send(begun).ok();
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
                let how = format!("no output within {BEGIN_WITHIN:?}");
                let said = String::new();
                let error = AgentError::NotBegun { machine: name, how, said, by_hand: None };
                return Err(carrier.not_begun(error));
            }
        };
        let from = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let garbled = |why: String| AgentError::Garbled { machine: name.clone(), why };
        let hello: Value = read_json(&frame.body).map_err(|error| garbled(error.to_string()))?;
        // Read the version first: the hello of another version may have other fields.
        let theirs = hello.get("protocol").and_then(Value::as_u64).unwrap_or(0) as u32;
        if theirs != PROTOCOL {
            drop(to);
            carrier::end_by_pipe(&mut child, END_WITHIN);
            return Err(AgentError::OtherProtocol { machine: name, theirs, ours: PROTOCOL });
        }
        let hello: Hello = read_json(&frame.body).map_err(|error| garbled(error.to_string()))?;
        let stderr = child.stderr.take();
        let shared = Arc::new(ClientState {
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

    /// Returns the process ID of the carrier, which is the agent itself on this machine. It leads a process group.
    pub fn carrier_pid(&self) -> i32 {
        locked(&self.shared.child).id() as i32
    }

    /// Returns the agent's introduction.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the machine's name in the places file.
    pub fn machine(&self) -> &str {
        &self.shared.machine
    }

    /// Returns the cause of the loss; `None` while the agent is reachable.
    pub fn lost(&self) -> Option<&AgentError> {
        self.shared.lost.get()
    }

    /// Sends a request and waits for the answer. Skips notes and data.
    ///
    /// # Errors
    /// When the agent refuses, is lost, or its answer is not a `T`.
    pub fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, AgentError> {
        self.open(request)?.answer()
    }

    /// Sends a request and returns the open exchange.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn open(&self, request: &Request) -> Result<Exchange, AgentError> {
        open(&self.shared, request)
    }

    /// Returns a dialer that connects from the agent's machine. It does not keep the agent alive. Once the agent is
    /// dropped, dialling fails and open connections close.
    pub fn dialer(&self) -> Dialer {
        Dialer { shared: Arc::clone(&self.shared) }
    }

    /// Measures the offset of the agent's clocks by the shortest of 40 round trips.
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
        // The agent ends if its pipe closes.
        locked(&self.shared.to).take();
        let mut child = locked(&self.shared.child);
        carrier::end_by_pipe(&mut child, END_WITHIN);
    }
}

/// Opens connections from an agent's machine and tunnels them to this process.
pub struct Dialer {
    shared: Arc<ClientState>,
}

impl Dialer {
    /// Sends a request to the agent. Fails once the agent is dropped.
    pub(crate) fn open(&self, request: &Request) -> Result<Exchange, AgentError> {
        open(&self.shared, request)
    }
}

fn open(shared: &Arc<ClientState>, request: &Request) -> Result<Exchange, AgentError> {
    if let Some(lost) = shared.lost.get() {
        return Err(lost.clone());
    }
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let (tell, received) = mpsc::channel();
    locked(&shared.waiting).insert(number, tell);
    let exchange = Exchange { to: Speaker { shared: Arc::clone(shared), number }, received };
    let body = serde_json::to_vec(request).map_err(|error| AgentError::Garbled {
        machine: shared.machine.clone(),
        why: format!("cannot encode a request: {error}"),
    })?;
    shared.send(&Frame { kind: Kind::Ask, number, body })?;
    Ok(exchange)
}

/// A request whose answer has not been read yet. Dropping it discards what still arrives.
pub struct Exchange {
    to: Speaker,
    received: Receiver<IncomingFrame>,
}

impl Exchange {
    /// Waits for the next frame.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn next(&self) -> Result<IncomingFrame, AgentError> {
        self.received.recv().map_err(|_| self.to.shared.loss())
    }

    /// Waits up to `time` for the next frame. Returns `None` if none arrived.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn next_within(&self, time: Duration) -> Result<Option<IncomingFrame>, AgentError> {
        match self.received.recv_timeout(time) {
            Ok(incoming) => Ok(Some(incoming)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.to.shared.loss()),
        }
    }

    /// Waits for the answer. Skips notes and data.
    ///
    /// # Errors
    /// When the agent refuses, is lost, or its answer is not a `T`.
    pub fn answer<T: DeserializeOwned>(&self) -> Result<T, AgentError> {
        loop {
            match self.next()? {
                IncomingFrame::Answer(body) => return self.read_answer(&body),
                IncomingFrame::Refusal(refusal) => return Err(self.refused(refusal)),
                IncomingFrame::Note(_) | IncomingFrame::Data(_) | IncomingFrame::End => {}
            }
        }
    }

    /// Decodes a note.
    ///
    /// # Errors
    /// When the note is not a `T`.
    pub fn read<T: DeserializeOwned>(&self, note: &[u8]) -> Result<T, AgentError> {
        read_json(note).map_err(|error| self.garbled("note", &error))
    }

    /// Decodes the answer.
    ///
    /// # Errors
    /// When the answer is not a `T`.
    pub fn read_answer<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AgentError> {
        read_json(body).map_err(|error| self.garbled("answer", &error))
    }

    fn garbled(&self, what: &str, error: &serde_json::Error) -> AgentError {
        let why = format!("cannot decode its {what}: {error}");
        AgentError::Garbled { machine: self.to.shared.machine.clone(), why }
    }

    /// Converts a refusal to an error that names the machine.
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

    /// Sends plain bytes, in frames of up to 256 KiB.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn data(&self, bytes: &[u8]) -> Result<(), AgentError> {
        bytes.chunks(DATA_MAX).try_for_each(|part| self.to.send(Kind::Data, part.to_vec()))
    }

    /// Signals that no more bytes follow.
    ///
    /// # Errors
    /// When the machine is lost.
    pub fn end(&self) -> Result<(), AgentError> {
        self.to.send(Kind::End, Vec::new())
    }

    /// Returns a handle that only sends, for other threads.
    pub(crate) fn way(&self) -> impl FrameSender + use<> {
        self.to.clone()
    }
}

/// Sends frames of one request.
#[derive(Clone)]
struct Speaker {
    shared: Arc<ClientState>,
    number: u32,
}

impl Speaker {
    fn send(&self, kind: Kind, body: Vec<u8>) -> Result<(), AgentError> {
        self.shared.send(&Frame { kind, number: self.number, body })
    }
}

impl FrameSender for Speaker {
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

/// Delivers frames to the waiting callers until the pipe closes.
fn read_on(shared: &ClientState, mut from: impl std::io::Read) {
    let error = loop {
        let frame = match Frame::read(&mut from) {
            Ok(Some(frame)) => frame,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        *locked(&shared.heard) = clock::now();
        let number = frame.number;
        match IncomingFrame::read(frame) {
            // The caller may have gone; its frame is dropped then.
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

/// Sends keep-alive requests until the agent ends or is lost.
fn ask_on(shared: &Arc<ClientState>) {
    let is_over = || shared.ended.load(Ordering::Acquire) || shared.lost.get().is_some();
    while !is_over() {
        std::thread::sleep(ASK_EVERY);
        let Ok(asked) = open(shared, &Request::Now) else { return };
        if asked.next().is_err() {
            return;
        }
    }
}

/// Declares a silent machine lost and kills the carrier. That also unblocks threads that write to the pipe.
fn watch_silence(shared: &Arc<ClientState>) {
    while !shared.ended.load(Ordering::Acquire) && shared.lost.get().is_none() {
        std::thread::sleep(ASK_EVERY);
        if locked(&shared.heard).elapsed() > LOST_AFTER {
            shared.lose(AgentError::silent(&shared.machine, LOST_AFTER));
            carrier::end(&mut locked(&shared.child));
        }
    }
}

/// Keeps the last lines of the carrier's standard error.
fn keep_complaints(shared: &ClientState, from: impl std::io::BufRead) {
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
