//! Stops and continues all processes of a server, with proof.
//!
//! A signal that was sent is no proof: a thread in the midst of a disk write stops only after it. So the state of each
//! thread is read until all stand still, or all go on (`proc_pid_stat(5)`, field 3: `T` is stopped).
//!
//! Not here: killing (`server`).

use std::time::Duration;

use bakeoff_clock as clock;
use rustix::process::Signal;

use super::procfs::{self, Stat};

/// Maximum time until all threads have followed the signal.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(200);

/// Stops all processes of a group and their descendants. Returns the number of stopped threads.
///
/// # Errors
/// If a thread still runs after two seconds, or no process is left.
pub(super) fn stop(group: i32) -> Result<usize, String> {
    follow(group, Signal::STOP, "stand still", |state| state == b'T')
}

/// Continues all processes of a group and their descendants. Returns the number of threads.
///
/// # Errors
/// If a thread still stands still after two seconds, or no process is left.
pub(super) fn resume(group: i32) -> Result<usize, String> {
    follow(group, Signal::CONT, "go on", |state| state != b'T')
}

fn follow(
    group: i32,
    signal: Signal,
    verb: &str,
    follows: fn(u8) -> bool,
) -> Result<usize, String> {
    let deadline = clock::now() + FOLLOWED_WITHIN;
    loop {
        // Each time anew: a process may have forked before the signal reached it.
        let family: Vec<Stat> = procfs::family(group).into_iter().filter(Stat::lives).collect();
        if family.is_empty() {
            return Err("no process of it is left".to_owned());
        }
        let threads = || family.iter().flat_map(|process| procfs::thread_states(process.pid));
        let late = threads().filter(|(_, state)| !follows(*state)).collect::<Vec<_>>();
        if late.is_empty() {
            return Ok(threads().count());
        }
        if clock::now() >= deadline {
            let (thread, state) = late[0];
            return Err(format!(
                "{} of its threads did not {verb} within {FOLLOWED_WITHIN:?}: thread {thread} is in state {}",
                late.len(),
                char::from(state)
            ));
        }
        family.iter().for_each(|process| procfs::signal(process, signal));
        std::thread::sleep(PAUSE);
    }
}
