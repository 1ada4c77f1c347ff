//! The agent: reads requests, serves each in a thread of its own, ends with its pipe.
//!
//! Requests are few and long, so a thread each is the plainest way; the time is told at once, by the thread that
//! reads. When the pipe closes, or nothing came over it for long, what was started ends and the folder goes; should
//! the agent itself be killed, or stay stopped, its host's warden sees to both.
//!
//! Not here: what requests do (`workshop`), how loads are driven (the binary).

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::Incoming;
use super::error::AgentRefusal;
use super::frame::{Frame, Kind, PREAMBLE, read_json};
use super::line::{Back, Line, Outlet, send};
use super::message::{GONE_AFTER, Hello, Request};
use super::workshop::Workshop;

/// The part of an agent beyond its host.
pub trait Duties: Send + Sync + 'static {
    /// The orders that a coordinator gives it.
    type Order: DeserializeOwned;

    /// Carries out an order; `workshop` is the host that serves with it, `line` carries notes.
    ///
    /// # Errors
    /// A refusal, in words.
    fn perform(
        &self,
        order: Self::Order,
        workshop: &Workshop,
        line: &Line,
    ) -> Result<Value, AgentRefusal>;

    /// Does what is to be done when the coordinator is gone, once everything that was started has ended.
    fn coordinator_gone(&self) {}
}

/// Serves until the pipe closes, and ends what it started.
///
/// # Errors
/// When the coordinator cannot be told of it, or sent what is no frame.
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
    let workshop = Arc::new(Workshop::default());
    let heard = Arc::new(Mutex::new(clock::now()));
    let (watched, silent) = (Arc::clone(&workshop), Arc::clone(&heard));
    let last = Arc::clone(&duties);
    std::thread::spawn(move || end_when_silent(&watched, &silent, &*last));
    let served = read_on(from, &to, &workshop, &duties, &heard);
    workshop.end_all();
    duties.coordinator_gone();
    served
}

/// Ends the process once nothing has been heard for long: the connection may be gone without a sign.
fn end_when_silent(workshop: &Workshop, heard: &Mutex<Instant>, duties: &impl Duties) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > GONE_AFTER {
            workshop.end_all();
            duties.coordinator_gone();
            std::process::exit(1);
        }
    }
}

/// Whom to hand the frames of each request that is under way.
type Told = Arc<Mutex<HashMap<u32, mpsc::Sender<Incoming>>>>;

fn read_on<D: Duties>(
    mut from: impl Read,
    to: &Outlet,
    workshop: &Arc<Workshop>,
    duties: &Arc<D>,
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
        let request = match read_json(&frame.body) {
            Ok(request) => request,
            Err(error) => {
                answer(to, number, Err(AgentRefusal::new(format!("this is no request: {error}"))))?;
                continue;
            }
        };
        if request == Request::Now {
            answer(to, number, Ok(json!(workshop.read_clocks())))?;
            continue;
        }
        let (tells, hears) = mpsc::channel();
        told.lock().unwrap_or_else(PoisonError::into_inner).insert(number, tells);
        let line = Line::new(Back::new(number, to), hears);
        let (workshop, duties) = (Arc::clone(workshop), Arc::clone(duties));
        let told = Arc::clone(&told);
        std::thread::Builder::new().name(format!("request-{number}")).spawn(move || {
            let done = match request {
                Request::Duty { order } => serde_json::from_value(order)
                    .map_err(|error| AgentRefusal::new(format!("this is no order: {error}")))
                    .and_then(|order| duties.perform(order, &workshop, &line)),
                request => workshop.perform(request, &line),
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
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
