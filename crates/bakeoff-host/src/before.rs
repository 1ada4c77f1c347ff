//! Runs what a node needs done before it starts: `initdb`, a copy of another node's data.
//!
//! These commands are started as servers are, and so end with bakeoff as servers do. Each has a
//! time within which it must succeed; one that waits for something (another node that answers) is
//! run again until it does.
//!
//! Not here: what to run (`systems`), how it is started (`process`).

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;

use super::error::LogTail;
use super::process::{Exit, Process, end, peek};
use super::{Before, HostError, OnFailure, launcher};

/// How often it is looked whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Between a failure and the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a node's commands one after the other; the first that fails is the error.
pub(super) fn run(node: &Process, enter: &[PathBuf], log: &File) -> Result<(), HostError> {
    node.before().iter().try_for_each(|command| run_one(node, command, enter, log))
}

fn run_one(
    node: &Process,
    command: &Before,
    enter: &[PathBuf],
    log: &File,
) -> Result<(), HostError> {
    let began = clock::now();
    let deadline = began + command.within;
    loop {
        let child = node.fork(&command.program, &command.args, enter, log)?;
        let exit = wait(child, deadline);
        if exit == Some(Exit::Code(0)) {
            return Ok(());
        }
        let in_time = clock::now() + PAUSE < deadline;
        if exit.is_some() && command.failure == OnFailure::TryAgain && in_time {
            std::thread::sleep(PAUSE);
            continue;
        }
        let how = match exit {
            Some(exit) => format!("{exit} after {:.1?}", began.elapsed()),
            None => format!("had not ended after {:?} and was killed", command.within),
        };
        return Err(HostError::Before {
            node: node.name().to_owned(),
            program: command.program.clone(),
            how,
            log: node.log_tail(LogTail::LINES),
        });
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
