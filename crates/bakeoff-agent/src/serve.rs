//! The agent: reads requests, serves each in a thread of its own, ends with its pipe.
//!
//! Requests are few and long, so a thread each is the plainest way; the time is told at once, by the thread that
//! reads. When the pipe closes, or nothing came over it for long, what was started ends and the folder goes; should
//! the agent itself be killed, its host's warden sees to both.
//!
//! Not here: what requests do (`workshop`), how loads are driven (the binary).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use serde_json::Value;

use super::client::Incoming;
use super::error::AgentRefusal;
use super::frame::{DATA_MAX, Frame, Kind, PREAMBLE};
use super::message::{Hello, Request};
use super::workshop::Workshop;

/// After this silence of the coordinator, which asks every two seconds, it is gone.
const GONE_AFTER: Duration = Duration::from_secs(30);

/// The part of an agent beyond its host.
pub trait Duties: Send + Sync + 'static {
    /// Does what is asked; `workshop` is the host that serves with it, `line` carries notes.
    ///
    /// # Errors
    /// A refusal, in words.
    fn perform(&self, what: Value, workshop: &Workshop, line: &Line)
    -> Result<Value, AgentRefusal>;
}

type Outlet = Arc<Mutex<dyn Write + Send>>;

/// The line to whoever made a request, while it is under way.
pub struct Line {
    /// The way back.
    pub back: Back,
    told: Receiver<Incoming>,
}

/// The way back to whoever made a request.
#[derive(Clone)]
pub struct Back {
    number: u32,
    to: Outlet,
}

impl Line {
    /// Waits for what comes next of this request; `None` when the coordinator is gone.
    pub fn next(&self) -> Option<Incoming> {
        self.told.recv().ok()
    }

    /// The same for so long; `None` when nothing came.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn next_within(&self, time: Duration) -> Result<Option<Incoming>, AgentRefusal> {
        match self.told.recv_timeout(time) {
            Ok(incoming) => Ok(Some(incoming)),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(AgentRefusal::new("the coordinator is gone"))
            }
        }
    }
}

impl Back {
    /// Sends a note; nobody hears it when the coordinator is gone.
    pub fn tell(&self, note: &impl serde::Serialize) {
        let body = serde_json::to_vec(note).expect("notes are plain values");
        self.send(Kind::Note, body).ok();
    }

    /// Sends plain bytes.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn data(&self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(DATA_MAX).try_for_each(|part| self.send(Kind::Data, part.to_vec()))
    }

    /// Says that no more bytes follow.
    ///
    /// # Errors
    /// When the coordinator is gone.
    pub fn end(&self) -> io::Result<()> {
        self.send(Kind::End, Vec::new())
    }

    fn send(&self, kind: Kind, body: Vec<u8>) -> io::Result<()> {
        send(&self.to, &Frame { kind, number: self.number, body })
    }
}

fn send(to: &Outlet, frame: &Frame) -> io::Result<()> {
    frame.write(&mut *to.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Serves until the pipe closes, and ends what it started.
///
/// # Errors
/// When the coordinator cannot be told of it, or sent what is no frame.
pub fn serve(
    hello: &Hello,
    duties: Arc<dyn Duties>,
    from: impl Read,
    to: impl Write + Send + 'static,
) -> io::Result<()> {
    let to: Outlet = Arc::new(Mutex::new(to));
    to.lock().unwrap_or_else(PoisonError::into_inner).write_all(PREAMBLE)?;
    send(&to, &Frame { kind: Kind::Note, number: 0, body: serde_json::to_vec(hello)? })?;
    let workshop = Arc::new(Workshop::default());
    let heard = Arc::new(Mutex::new(clock::now()));
    let (watched, silent) = (Arc::clone(&workshop), Arc::clone(&heard));
    std::thread::spawn(move || end_when_silent(&watched, &silent));
    let served = read_on(from, &to, &workshop, &duties, &heard);
    workshop.end_all();
    served
}

/// Ends the process once nothing has been heard for long: the connection may be gone without a sign.
fn end_when_silent(workshop: &Workshop, heard: &Mutex<Instant>) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > GONE_AFTER {
            workshop.end_all();
            std::process::exit(1);
        }
    }
}

/// Whom to hand the frames of each request that is under way.
type Told = Arc<Mutex<HashMap<u32, mpsc::Sender<Incoming>>>>;

fn read_on(
    mut from: impl Read,
    to: &Outlet,
    workshop: &Arc<Workshop>,
    duties: &Arc<dyn Duties>,
    heard: &Mutex<Instant>,
) -> io::Result<()> {
    let told: Told = Arc::default();
    while let Some(frame) = Frame::read(&mut from)? {
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
        let number = frame.number;
        if frame.kind != Kind::Ask {
            let hears = told.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
            // What comes for a request that is over is of no use to anybody.
            if let Some(hears) = hears {
                hears.send(Incoming::read(frame)?).ok();
            }
            continue;
        }
        let request = match serde_json::from_slice(&frame.body) {
            Ok(request) => request,
            Err(error) => {
                answer(to, number, Err(AgentRefusal::new(format!("this is no request: {error}"))))?;
                continue;
            }
        };
        if request == Request::Now {
            answer(to, number, Ok(Value::from(workshop.now())))?;
            continue;
        }
        let (tells, hears) = mpsc::channel();
        told.lock().unwrap_or_else(PoisonError::into_inner).insert(number, tells);
        let back = Back { number, to: Arc::clone(to) };
        let line = Line { back, told: hears };
        let (workshop, duties) = (Arc::clone(workshop), Arc::clone(duties));
        let told = Arc::clone(&told);
        std::thread::Builder::new().name(format!("request-{number}")).spawn(move || {
            let done = match request {
                Request::Duty { what } => duties.perform(what, &workshop, &line),
                request => workshop.perform(request, &line),
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            answer(&line.back.to, number, done).ok();
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
