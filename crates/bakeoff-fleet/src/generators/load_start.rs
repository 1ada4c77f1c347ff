//! Starts a generator's work when the coordinator says so, and stops it on request.
//!
//! Not here: the work (`serve`, `http`), the pipe (`bakeoff_agent`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bakeoff_agent::{
    AgentRefusal, AgentState, IncomingFrame, Line, LoadLine, ReplySender, read_json,
};
use bakeoff_clock as clock;
use bakeoff_engine::LoadProgress;
use bakeoff_engine::start_barrier::StartGate;
use serde_json::Value;

/// Interval between checks for a stop request.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Encodes an answer as JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<Value, AgentRefusal> {
    serde_json::to_value(value).map_err(AgentRefusal::new)
}

/// Runs interruptible work. Converts its error to a refusal.
pub(super) fn until_stopped<T: Send, E: fmt::Display + Send>(
    line: &Line,
    work: impl FnOnce(&AtomicBool) -> Result<T, E> + Send,
) -> Result<T, AgentRefusal> {
    let (stop, begin) = (AtomicBool::new(false), mpsc::channel().0);
    let done = hearing(line, &begin, &stop, || work(&stop));
    done.map_err(|error| refusal(&error, stop.load(Ordering::Relaxed)))
}

/// Converts an error to a refusal, without `error: `, which is added when it is printed.
pub(super) fn refusal(error: &impl fmt::Display, interrupted: bool) -> AgentRefusal {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    AgentRefusal { interrupted, ..AgentRefusal::new(text) }
}

/// Runs `work` in a thread while this thread handles the coordinator's messages.
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
                Ok(Some(IncomingFrame::Note(note))) => match read_json(&note) {
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

/// Requested and actual start of a load, in nanoseconds of this machine's clock.
pub(super) struct LoadStart {
    pub(super) asked: u64,
    pub(super) began: u64,
}

/// Drives a load that reports when its clients are connected, starts at the coordinator's time and reports each second.
/// `drive` gets the start gate, the stop flag and the callback for each second.
pub(super) fn start_on_signal<T: Send>(
    line: &Line,
    agent: &AgentState,
    drive: impl FnOnce(StartGate, &AtomicBool, &mut dyn FnMut(&LoadProgress)) -> T + Send,
) -> (T, LoadStart) {
    let (begin, begins) = mpsc::channel();
    let times = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let gate = gate(line, begins, agent, Arc::clone(&times));
    let stop = AtomicBool::new(false);
    let back = &line.back;
    let driven =
        hearing(line, &begin, &stop, || drive(gate, &stop, &mut |live| send_second(back, live)));
    let [asked, began] = [&times.0, &times.1].map(|time| time.load(Ordering::Relaxed));
    (driven, LoadStart { asked, began })
}

/// Reports one second of a load to the coordinator.
pub(super) fn send_second(back: &ReplySender, live: &LoadProgress) {
    if let Ok(live) = serde_json::to_value(live) {
        back.tell(&LoadLine::Live(live));
    }
}

/// Returns a load's start gate: it reports that the clients are connected, then waits for the start time.
fn gate(
    line: &Line,
    begins: mpsc::Receiver<Option<u64>>,
    agent: &AgentState,
    times: Arc<(AtomicU64, AtomicU64)>,
) -> StartGate {
    let back = line.back.clone();
    let begins = Mutex::new(begins);
    let clock = agent.clock();
    Box::new(move || {
        back.tell(&LoadLine::Connected);
        let begins = begins.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begins.recv().ok().flatten()?;
        times.0.store(at, Ordering::Relaxed);
        let moment = clock.instant(at);
        let now = clock::now();
        // If the start time has already passed, the load starts at once and reports the delay.
        let start = moment.max(now);
        times.1.store(clock.nanos(start), Ordering::Relaxed);
        Some(start)
    })
}
