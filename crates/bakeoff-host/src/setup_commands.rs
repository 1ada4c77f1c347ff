//! Runs commands before a node starts: `initdb`, a copy of another node's data.
//!
//! The commands start as servers do, and end with bakeoff as servers do. Each has a time limit. A command that waits
//! for something, such as an answer from another node, is retried until it succeeds.
//!
//! Not here: the choice of commands (`bakeoff_systems`), how they start (`process`).

use std::fmt;
use std::process::Child;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

use super::child::{Exit, end, peek};
use super::{OnFailure, SetupCommand, launcher};

/// Interval between checks whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Pause between a failure and the next attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// How a command failed.
pub(super) struct SetupFailure {
    /// Exit of the last attempt; `None` if it exceeded the time limit and was killed.
    exit: Option<Exit>,
    /// Time of all attempts, or the time limit.
    after: Duration,
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit {
            Some(exit) => write!(to, "{exit} after {:.1?}", self.after),
            None => write!(to, "had not ended after {:?} and was killed", self.after),
        }
    }
}

/// Runs a command, started by `begin`, until it succeeds or its time is over. The outer error is that of `begin`.
pub(super) fn run<E>(
    command: &SetupCommand,
    mut begin: impl FnMut() -> Result<Child, E>,
) -> Result<Result<(), SetupFailure>, E> {
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
        return Ok(Err(SetupFailure { exit, after }));
    }
}

/// Returns how a command ended; `None` after the deadline. Kills what is left of it and its descendants.
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
