//! Runs what a node needs done before it starts: `initdb`, a copy of another node's data.
//!
//! These commands are started as servers are, and so end with bakeoff as servers do. Each has a
//! time within which it must succeed; one that waits for something (another node that answers) is
//! run again until it does.
//!
//! Not here: what to run (`bakeoff_systems`), how it is started (`process`).

use std::fmt;
use std::process::Child;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

use super::child::{Exit, end, peek};
use super::{Before, OnFailure, launcher};

/// How often it is looked whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Between a failure and the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// The end of a command that did not succeed.
pub(super) struct Unprepared {
    /// How it ended; `None`: it had not in time, and was killed.
    exit: Option<Exit>,
    /// How long its tries took, or the time that it was given.
    after: Duration,
}

impl fmt::Display for Unprepared {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit {
            Some(exit) => write!(to, "{exit} after {:.1?}", self.after),
            None => write!(to, "had not ended after {:?} and was killed", self.after),
        }
    }
}

/// Runs a command, which `begin` starts, until it succeeds or its time is over. The outer error is that of
/// `begin`.
pub(super) fn run<E>(
    command: &Before,
    mut begin: impl FnMut() -> Result<Child, E>,
) -> Result<Result<(), Unprepared>, E> {
    let began = clock::now();
    let deadline = began + command.within;
    loop {
        let exit = wait(begin()?, deadline);
        if exit == Some(Exit::Code(0)) {
            return Ok(Ok(()));
        }
        let in_time = clock::now() + PAUSE < deadline;
        if exit.is_some() && command.failure == OnFailure::TryAgain && in_time {
            std::thread::sleep(PAUSE);
            continue;
        }
        let after = if exit.is_some() { began.elapsed() } else { command.within };
        return Ok(Err(Unprepared { exit, after }));
    }
}

/// Returns how it ended; `None` when it had not by the deadline. Neither it nor what it started is left.
fn wait(mut child: Child, deadline: Instant) -> Option<Exit> {
    let exit = loop {
        let exit = peek(&child);
        if exit.is_some() || clock::now() >= deadline {
            break exit;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    end(&mut child);
    launcher::forget(child.id() as i32);
    exit
}
