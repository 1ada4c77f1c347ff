//! Runs `bakeoff etcd-benchmark`: the command line and the report of etcd's own `benchmark`.
//!
//! The load is that of etcd's benchmark: clients share connections, and each connection sends to all endpoints in turn.
//! Standard output has its layout. Standard error adds what it hides: failures, the wait before a late request was sent,
//! and answers that were wrong. `docs/etcd-benchmark.md` lists every difference.
//!
//! Not here: the loop (`bakeoff_engine`), the messages of etcd (`bakeoff_wire::etcd`).

mod calls;
mod control;
mod event_observer;
mod keys;
mod leases;
mod load;
mod options;
mod password;
pub mod perfdash;
pub mod report;
mod run;
mod seconds;
mod stm;
mod supervision;
mod watched_puts;
mod watches;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_engine::LoadError;

use self::options::Invocation;
pub use self::watches::WatchSessions;
use crate::Console;

/// Runs etcd's benchmark with these arguments. `sessions` makes the sessions of watchers.
///
/// # Errors
/// Fails for an invalid command line, a server that does not answer, and a machine that refuses a resource.
pub fn run(
    args: &[OsString],
    sessions: WatchSessions,
    messages: &mut dyn Console,
    interrupted: &AtomicBool,
) -> Result<ExitCode, LoadError> {
    let args = crate::utf8_arguments(args)?;
    match options::read(&args) {
        Ok(Invocation::Help(usage)) => {
            messages.output(&usage);
            Ok(ExitCode::SUCCESS)
        }
        Ok(Invocation::Load(options)) => run::run(&options, sessions, messages, interrupted),
        Err(error) => Err(LoadError::Input(error.to_string(), None)),
    }
}

/// Returns true if etcd's benchmark accepts this command line.
#[cfg(test)]
pub(crate) fn reads(words: &[String]) -> bool {
    options::read(words).is_ok()
}
