//! `bakeoff agent`: what a coordinator starts on other machines, and speaks to over a pipe.
//!
//! Signals are not caught: one ends it as the closing of its pipe does, and the warden sees to what it started.
//!
//! Not here: the protocol and the host behind it (`bakeoff_agent`), how loads are driven (`bakeoff_fleet::generators::serve`).

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

/// How long a pod waits for its first agent, and for another one after its last.
const WAITS_FIRST: Duration = Duration::from_secs(90);
const WAITS_AGAIN: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Serves until standard input closes.
///
/// # Errors
/// When what comes is no request, or the user's cache cannot be found.
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
    served.map_err(|error| Failure::machine(format!("the coordinator cannot be served: {error}")))
}

/// Is the first process of a pod: ends when no agent has come for long, or when it is told to.
pub(crate) fn first(interrupted: &AtomicBool) {
    let mut until = clock::now() + WAITS_FIRST;
    while clock::now() < until && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        // What lost its parent is the first process's, and nobody else takes note of its end.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if has_agents() {
            until = clock::now() + WAITS_AGAIN;
        }
    }
}

/// Returns whether another bakeoff runs here.
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

/// Puts this executable to a path, where the containers of a pod find it.
///
/// # Errors
/// When it cannot be read or written.
pub(crate) fn install(path: &Path) -> Result<(), Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::machine(format!("bakeoff cannot find itself: {error}")))?;
    fs::copy(&own, path).map(drop).map_err(|error| Failure::file("write", path, &error))
}
