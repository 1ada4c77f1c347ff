//! Begins a generator's work when the coordinator says so, and ends it when it wants the end.
//!
//! Not here: the work (`serve`, `http`), the pipe (`bakeoff_agent`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_agent::{AgentRefusal, Back, Incoming, Line, LoadLine, Workshop, read_json};
use bakeoff_clock as clock;
use bakeoff_engine::Live;
use bakeoff_engine::together::StartGate;
use serde_json::Value;

/// How often it is looked whether the coordinator wants the end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Puts an answer into words for the pipe.
pub(super) fn told(value: &impl serde::Serialize) -> Result<Value, AgentRefusal> {
    serde_json::to_value(value).map_err(AgentRefusal::new)
}

/// Runs what may be broken off, and refuses what could not be done, in its words.
pub(super) fn until_stopped<T: Send, E: fmt::Display + Send>(
    line: &Line,
    work: impl FnOnce(&AtomicBool) -> Result<T, E> + Send,
) -> Result<T, AgentRefusal> {
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let done = hearing(line, &begin, &stop, || work(&stop));
    done.map_err(|error| refusal(&error, stop.load(Ordering::Relaxed)))
}

/// Puts an error into words for the pipe; whoever prints them says that it is one.
pub(super) fn refusal(error: &impl fmt::Display, interrupted: bool) -> AgentRefusal {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    AgentRefusal { interrupted, ..AgentRefusal::new(text) }
}

/// Runs `work` in a thread while this one hears what the coordinator says meanwhile.
pub(super) fn hearing<T: Send>(
    line: &Line,
    begin: &mpsc::Sender<Option<u64>>,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            match line.next_within(LOOK_EVERY) {
                Ok(None) => {}
                Ok(Some(Incoming::Note(note))) => match read_json(&note) {
                    Ok(LoadLine::Begin(at)) => drop(begin.send(Some(at))),
                    Ok(LoadLine::Stop) => {
                        stop.store(true, Ordering::Relaxed);
                        begin.send(None).ok();
                    }
                    _ => {}
                },
                Ok(Some(_)) => {}
                Err(_) => {
                    stop.store(true, Ordering::Relaxed);
                    begin.send(None).ok();
                    break;
                }
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// When a load was asked to begin, and when it began, by this machine's clock in nanoseconds.
pub(super) struct Begun {
    pub(super) asked: u64,
    pub(super) began: u64,
}

/// Drives a load that says when its clients are connected, begins when the coordinator says so, and tells of each
/// second. `drive` is given its gate, whether to stop, and whom to tell.
pub(super) fn begin_when_told<T: Send>(
    line: &Line,
    workshop: &Workshop,
    drive: impl FnOnce(StartGate, &AtomicBool, &mut dyn FnMut(&Live)) -> T + Send,
) -> (T, Begun) {
    let (begin, begins) = mpsc::channel();
    let times = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let gate = gate(line, begins, workshop, Arc::clone(&times));
    let stop = AtomicBool::new(false);
    let back = &line.back;
    let driven =
        hearing(line, &begin, &stop, || drive(gate, &stop, &mut |live| tell_of_second(back, live)));
    let [asked, began] = [&times.0, &times.1].map(|time| time.load(Ordering::Relaxed));
    (driven, Begun { asked, began })
}

/// Reports a second of a load to the coordinator.
pub(super) fn tell_of_second(back: &Back, live: &Live) {
    if let Ok(live) = serde_json::to_value(live) {
        back.tell(&LoadLine::Live(live));
    }
}

/// Returns the gate of a load: says that its clients are connected, and waits for the moment to begin.
fn gate(
    line: &Line,
    begins: mpsc::Receiver<Option<u64>>,
    workshop: &Workshop,
    times: Arc<(AtomicU64, AtomicU64)>,
) -> StartGate {
    let back = line.back.clone();
    let begins = Mutex::new(begins);
    let clock = workshop.clock();
    Box::new(move || {
        back.tell(&LoadLine::Connected);
        let begins = begins.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begins.recv().ok().flatten()?;
        times.0.store(at, Ordering::Relaxed);
        let moment = clock.instant(at);
        let now = clock::now();
        // A moment that is past when it is heard of cannot be kept: the load begins at once, and says so.
        let start = moment.max(now);
        times.1.store(clock.nanos(start), Ordering::Relaxed);
        Some(start)
    })
}
