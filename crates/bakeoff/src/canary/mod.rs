//! Runs the canary: a key-value server inside bakeoff, honest by default, and wrong in a chosen way on request.
//!
//! It proves that checks work: a check that has never failed may be unable to. Each kind of wrong answer of a real
//! system can be injected by name, in a chosen share, from a seed. Honest, it serves as a system for demonstrations,
//! with nothing to fetch.
//!
//! HTTP/1.1 on one address, one thread:
//!
//! | request | answer |
//! | --- | --- |
//! | `PUT /kv/KEY`, value as body | 204 |
//! | `GET /kv/KEY` | 200 and the value, or 404 and the place of the last write among all writes |
//! | `DELETE /kv/KEY` | 200 and its place among all writes, even if the key was absent |
//! | `GET /list/PREFIX` | 200 and the names of keys, sorted, one per line |
//! | `GET /health` | 200 once ready, 503 before |
//! | `GET /stats` | 200 and counters as JSON, including injected faults |
//! | `GET /watch` with `Upgrade: bakeoff-watch` | 101, then frames: changes of keys to watchers (`bakeoff_wire::canary`) |
//! | `GET /truth`, `GET /truth/…` | 200 after a delay of a known distribution (`--truth`), else 404 |
//!
//! With `--answer SIZE` it answers any other path with 200 and SIZE bytes. It then serves as the application behind
//! gateways, and `--delay` makes it slow.
//!
//! Keys are percent-decoded and hold no control characters. Faults affect only `/kv`, `/list` and events, so that
//! readiness and counters stay correct; a stall stops everything.
//!
//! With `--first ADDRESS` it is a further node of the canary at that address. It has no store, forwards requests and
//! events, and can be slow by itself.
//!
//! Not here: TLS, replication, compaction of the log.

pub(crate) mod delay;
mod faults;
mod greed;
mod history;
mod http;
mod locks;
mod log;
mod options;
mod relay;
mod server;
mod service;
mod store;
mod transactions;
mod truth;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_systems::own_servers::CANARY;
pub(crate) use faults::Faults;
pub(crate) use options::{Durability, Options};
use relay::Relay;
pub(crate) use server::{Canary, End};

/// Exit code of a canary after `--die-after`.
pub(crate) const DIED: u8 = 86;

/// Runs the canary if this process was started as one.
pub(crate) fn internal_command() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != CANARY {
        return None;
    }
    Some(match Options::parse(args) {
        Ok(options) => serve(options),
        Err(problem) => {
            say(format_args!("error: {problem}"));
            ExitCode::from(2)
        }
    })
}

fn serve(options: Options) -> ExitCode {
    // Raise the soft limit for thousands of clients: its default of 1024 is for programs that use `select`.
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current = files.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, files);

    match serve_until_signalled(options) {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        Ok(End::Died) => ExitCode::from(DIED),
        Err(error) => {
            say(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn serve_until_signalled(options: Options) -> std::io::Result<End> {
    // Install this before the `listening` line: its reader may send a signal at once.
    let signals = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];
    let mut signals = signal_hook::iterator::Signals::new(signals)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (serve, waker) = match options.first {
        None => {
            let canary = Canary::bind(options, Arc::clone(&stop))?;
            let waker = canary.waker();
            let serve: Box<dyn FnOnce() -> _> = Box::new(|| canary.run());
            (serve, Some(waker))
        }
        Some(first) => {
            let relay = Relay::bind(options, first, Arc::clone(&stop))?;
            let serve: Box<dyn FnOnce() -> _> = Box::new(|| relay.run());
            (serve, None)
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            stop.store(true, Ordering::Relaxed);
            if let Some(waker) = &waker {
                let _ = waker.wake();
            }
        }
    })?;
    serve()
}

/// Writes a line to the canary's log. Ignores errors, so that a full log does not stop the server.
fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "canary: {what}");
}
