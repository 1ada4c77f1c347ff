//! `bakeoff agent`: serves a coordinator over a pipe, on another machine.
//!
//! It does not catch signals. A signal ends it like a closed pipe does, and the warden stops the processes that it
//! started.
//!
//! Not here: the protocol and its host (`bakeoff_agent`), driving loads (`bakeoff_fleet::generators::serve`).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_agent::{Hello, PROTOCOL};
use bakeoff_clock as clock;
use bakeoff_engine::open_files;
use bakeoff_host::machine;
use bakeoff_install::place;
use bakeoff_trial::this_machine;
use rustix::process::WaitOptions;

use crate::failure::Failure;
use bakeoff_fleet::generators::serve;

/// Time that a pod waits for its first agent.
const WAITS_FIRST: Duration = Duration::from_secs(90);
/// Time that a pod waits for another agent after the last one.
const WAITS_AGAIN: Duration = Duration::from_secs(60);
/// Interval between checks for agents.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Serves until standard input closes.
///
/// # Errors
/// Fails if a message is no valid request, or if the answer cannot be written.
pub(crate) fn serve() -> Result<(), Failure> {
    let cache = place::of_environment();
    let cache = cache.or_else(|| Some(std::env::temp_dir().join("bakeoff")));
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: this_machine::own_sha256().unwrap_or_default(),
        program: std::env::current_exe().unwrap_or_else(|_| "bakeoff".into()),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        machine: bakeoff_agent::own_machine(),
        cache: cache.unwrap_or_default(),
        root: rustix::process::geteuid().is_root(),
        cpus: open_files::cpus(),
        kernel: machine::running_kernel(),
    };
    let served = serve::serve(&hello, io::stdin(), io::stdout());
    served.map_err(|error| Failure::machine(format!("cannot serve the coordinator: {error}")))
}

/// Runs as the first process of a pod. Returns on a signal, or if no agent has run for a while.
pub(crate) fn first(interrupted: &AtomicBool) {
    let mut until = clock::now() + WAITS_FIRST;
    while clock::now() < until && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(CHECK_EVERY);
        // The first process inherits orphans and must reap them.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if has_agents() {
            until = clock::now() + WAITS_AGAIN;
        }
    }
}

/// Returns true if another bakeoff runs on this machine.
fn has_agents() -> bool {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut others = entries.filter(|entry| {
        let pid = entry.file_name().to_string_lossy().parse::<u32>();
        pid.is_ok_and(|pid| pid != own)
    });
    others.any(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        name.starts_with("bakeoff")
    })
}

/// Copies this executable to `path`, where the containers of a pod find it.
///
/// # Errors
/// Fails if the executable cannot be read, or `path` cannot be written.
pub(crate) fn install(path: &Path) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::machine(format!("cannot find bakeoff's own executable: {error}"))
    })?;
    fs::copy(&own, path).map(drop).map_err(|error| Failure::file("write", path, &error))
}
