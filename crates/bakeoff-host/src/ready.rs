//! Waits until servers are ready.
//!
//! The system defines "ready", such as an elected leader rather than an open port, and passes a probe. The timeout, the
//! pauses between probes and the errors are the same for all systems.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;

use super::ending::Life;
use super::error::LogTail;
use super::{HostError, Process};

/// Result of one probe of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// The cluster accepts load.
    Ready,
    /// Not ready yet. Holds the observation: `GET http://127.0.0.1:23790/health returned 503`.
    NotYet(String),
    /// Waiting will not help.
    Never {
        /// Observation: `` `vault-1` is sealed ``.
        seen: String,
        /// Advice to the user, without `hint: `.
        hint: String,
    },
}

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Restarts of a server that gives up after a kill and restart. A supervisor would also retry, because its peers may
/// not be there yet.
const RESTARTS_MAX: u32 = 3;
/// Pause before such a restart.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Probes until the cluster is ready and returns how long that took.
///
/// Fails at once if a process ends or the probe returns [`Probe::Never`], and within one pause if `stop` is set. A
/// process that was killed and started again may give up `RESTARTS_MAX` times. The probe needs its own timeout, because
/// nothing else is checked while it runs.
pub fn await_ready(
    processes: &[Process],
    within: Duration,
    stop: &AtomicBool,
    mut probe: impl FnMut() -> Probe,
) -> Result<Duration, HostError> {
    let began = clock::now();
    let (mut pause, mut restarts) = (FIRST_PAUSE, 0);
    loop {
        // Probe first, then check the processes: if a server died, the answer may come from another process on its
        // port.
        let answer = probe();
        if let Some((dead, ending)) = processes.iter().find_map(|p| Some((p, p.ending()?))) {
            let may_restart = dead.life() == Life::StartedAgain && restarts < RESTARTS_MAX;
            if may_restart && !stop.load(Ordering::Relaxed) {
                restarts += 1;
                std::thread::sleep(RESTART_PAUSE);
                dead.restart()?;
                continue;
            }
            return Err(HostError::Died {
                node: dead.name().to_owned(),
                after: began.elapsed(),
                ending: Box::new(ending),
                life: dead.life(),
                limits: dead.held_by_limits().filter(|_| ending.cause.is_none()),
                strays: dead.strays(),
                log: Box::new(dead.log_tail(LogTail::LINES)),
            });
        }
        let seen = match answer {
            Probe::Ready => {
                processes.iter().for_each(|process| process.lives_as(Life::Serving));
                return Ok(began.elapsed());
            }
            Probe::NotYet(seen) => seen,
            Probe::Never { seen, hint } => return Err(HostError::CannotServe { seen, hint }),
        };
        if stop.load(Ordering::Relaxed) {
            let mut during = String::from("waiting for");
            for (i, process) in processes.iter().enumerate() {
                let _ = write!(during, "{} `{}`", if i == 0 { "" } else { "," }, process.name());
            }
            return Err(HostError::Interrupted { during });
        }
        let left = within.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(HostError::NotReady {
                nodes: processes.iter().map(|p| p.name().to_owned()).collect(),
                within,
                again: processes.iter().any(|process| process.life() != Life::Starting),
                seen: seen.into(),
                limits: processes.iter().filter_map(|p| p.held_by_limits()).collect(),
                logs: processes.iter().map(|p| p.log_tail(LogTail::LINES)).collect(),
            });
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
