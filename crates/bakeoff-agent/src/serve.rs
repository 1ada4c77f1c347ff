//! The agent: reads requests, runs each in a thread, and ends when its pipe closes.
//!
//! Requests are few and long, so each gets a thread. The reading thread answers time requests itself, without delay. If
//! the pipe closes, or stays silent for 30 s, the agent ends everything it started and removes its folder. If the agent
//! itself is killed or stopped, the host's warden does both.
//!
//! Not here: the requests (`agent_state`), driving loads (the binary).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::agent_state::AgentState;
use super::client::IncomingFrame;
use super::error::AgentRefusal;
use super::frame::{Frame, Kind, PREAMBLE, read_json};
use super::line::{Line, Outlet, ReplySender, send};
use super::message::{GONE_AFTER, Hello, Request};

/// Handles the orders that need more than the host.
pub trait Duties: Send + Sync + 'static {
    /// Type of the coordinator's orders.
    type Order: DeserializeOwned;

    /// Carries out an order. `agent` is the state of the agent; `line` connects to the coordinator.
    ///
    /// # Errors
    /// A refusal with the reason.
    fn perform(
        &self,
        order: Self::Order,
        agent: &AgentState,
        line: &Line,
    ) -> Result<Value, AgentRefusal>;

    /// Runs after the coordinator is gone and everything that was started has ended.
    fn coordinator_gone(&self) {}
}

/// Serves requests until the pipe closes, then ends everything that was started.
///
/// # Errors
/// When writing to the coordinator fails, or the coordinator sends an invalid frame.
pub fn serve<D: Duties>(
    hello: &Hello,
    duties: Arc<D>,
    from: impl Read,
    to: impl Write + Send + 'static,
) -> io::Result<()> {
    bakeoff_host::end_if_stopped();
    let to: Outlet = Arc::new(Mutex::new(to));
    to.lock().unwrap_or_else(PoisonError::into_inner).write_all(PREAMBLE)?;
    send(&to, &Frame { kind: Kind::Note, number: 0, body: serde_json::to_vec(hello)? })?;
    let agent = Arc::new(AgentState::default());
    let heard = Arc::new(Mutex::new(clock::now()));
    let (watched, silent) = (Arc::clone(&agent), Arc::clone(&heard));
    let last = Arc::clone(&duties);
    std::thread::spawn(move || end_when_silent(&watched, &silent, &*last));
    let served = read_on(from, &to, &agent, &duties, &heard);
    agent.end_all();
    duties.coordinator_gone();
    served
}

/// Ends the process after a long silence: a connection can die without closing.
fn end_when_silent(agent: &AgentState, heard: &Mutex<Instant>, duties: &impl Duties) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > GONE_AFTER {
            agent.end_all();
            duties.coordinator_gone();
            std::process::exit(1);
        }
    }
}

/// Interval of signs of life while data arrives. Requests for the time wait behind that data, on a slow connection for
/// longer than the coordinator waits.
const SIGN_EVERY: Duration = Duration::from_secs(2);

/// Channels of the open requests, by number.
type OpenRequests = Arc<Mutex<HashMap<u32, mpsc::Sender<IncomingFrame>>>>;

fn read_on<D: Duties>(
    mut from: impl Read,
    to: &Outlet,
    agent: &Arc<AgentState>,
    duties: &Arc<D>,
    heard: &Mutex<Instant>,
) -> io::Result<()> {
    let waiting: OpenRequests = Arc::default();
    let mut signed = clock::now();
    while let Some(frame) = Frame::read(&mut from)? {
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
        let number = frame.number;
        if frame.kind != Kind::Ask {
            if signed.elapsed() >= SIGN_EVERY {
                signed = clock::now();
                send(to, &Frame { kind: Kind::Note, number: 0, body: Vec::new() })?;
            }
            let hears =
                waiting.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
            // A frame for a finished request is dropped.
            if let Some(hears) = hears {
                hears.send(IncomingFrame::read(frame)?).ok();
            }
            continue;
        }
        let request = match read_json(&frame.body) {
            Ok(request) => request,
            Err(error) => {
                answer(to, number, Err(AgentRefusal::new(format!("invalid request: {error}"))))?;
                continue;
            }
        };
        if request == Request::Now {
            answer(to, number, Ok(json!(agent.read_clocks())))?;
            continue;
        }
        let (tells, hears) = mpsc::channel();
        waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, tells);
        let line = Line::new(ReplySender::new(number, to), hears);
        let (agent, duties) = (Arc::clone(agent), Arc::clone(duties));
        let waiting = Arc::clone(&waiting);
        std::thread::Builder::new().name(format!("request-{number}")).spawn(move || {
            let done = match request {
                Request::Duty { order } => serde_json::from_value(order)
                    .map_err(|error| AgentRefusal::new(format!("invalid order: {error}")))
                    .and_then(|order| duties.perform(order, &agent, &line)),
                request => agent.perform(request, &line),
            };
            waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            answer(line.back.outlet(), number, done).ok();
        })?;
    }
    Ok(())
}

fn answer(to: &Outlet, number: u32, done: Result<Value, AgentRefusal>) -> io::Result<()> {
    let (kind, body) = match done {
        Ok(value) => (Kind::Answer, serde_json::to_vec(&value)?),
        Err(refusal) => (Kind::Refusal, serde_json::to_vec(&refusal)?),
    };
    send(to, &Frame { kind, number, body })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::message::PROTOCOL;
    use super::*;

    struct NoDuties;

    impl Duties for NoDuties {
        type Order = Value;

        fn perform(&self, _: Value, _: &AgentState, _: &Line) -> Result<Value, AgentRefusal> {
            Err(AgentRefusal::new("no duties".to_owned()))
        }
    }

    /// Frames of a coordinator, each after a pause.
    struct SlowPipe {
        frames: Vec<(Duration, Frame)>,
        ready: io::Cursor<Vec<u8>>,
    }

    impl Read for SlowPipe {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = self.ready.read(to)?;
            if count > 0 || self.frames.is_empty() {
                return Ok(count);
            }
            let (pause, frame) = self.frames.remove(0);
            std::thread::sleep(pause);
            let mut bytes = Vec::new();
            frame.write(&mut bytes)?;
            self.ready = io::Cursor::new(bytes);
            self.ready.read(to)
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the number of notes of request 0 after the hello.
    fn signs(pause: Duration) -> usize {
        let data = Frame { kind: Kind::Data, number: 7, body: vec![1; 100] };
        let frames = (0..2).map(|_| (pause, data.clone())).collect();
        let written = Written::default();
        let hello = Hello {
            protocol: PROTOCOL,
            version: String::new(),
            sha256: String::new(),
            program: PathBuf::new(),
            host: String::new(),
            machine: String::new(),
            cache: PathBuf::new(),
            root: false,
            cpus: 1,
            kernel: None,
        };
        let pipe = SlowPipe { frames, ready: io::Cursor::default() };
        serve(&hello, Arc::new(NoDuties), pipe, written.clone()).unwrap();
        let bytes = written.0.lock().unwrap();
        let mut rest = &bytes[PREAMBLE.len()..];
        let frames = std::iter::from_fn(|| Frame::read(&mut rest).unwrap());
        frames.filter(|frame| (frame.kind, frame.number) == (Kind::Note, 0)).count() - 1
    }

    #[test]
    fn agent_gives_signs_of_life_while_data_arrives_slowly() {
        assert_eq!(signs(SIGN_EVERY), 2);
        assert_eq!(signs(Duration::ZERO), 0);
    }
}
