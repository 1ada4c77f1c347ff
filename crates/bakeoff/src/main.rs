//! Parses the command line, runs the command, prints and exits.
//!
//! Not here: the commands (`commands`). `docs/architecture.md` shows the crates.

mod canary;
mod cli;
mod commands;
mod failure;
mod messages;
mod watchers;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use bakeoff_clock as clock;
use bakeoff_trial::run::folder;
use bakeoff_trial::this_machine;
use clap::{CommandFactory as _, Parser as _};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

use crate::messages::Messages;
use crate::watchers::{Audience, Watchers};

/// Signals within this time count as one request to end.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Replaces musl's allocator in the portable binary, which serves all threads under one lock.
#[cfg(feature = "portable")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // bakeoff starts itself for these, so they come before user arguments.
    if let Some(code) = internal_command() {
        return code;
    }
    let arguments = bakeoff_compat::arguments(std::env::args_os());
    let mut cli = Cli::parse_from(&arguments);
    bakeoff_fleet::warnings::print_by(messages::warn);
    bakeoff_agent::transfer::report_by(messages::transfer);
    let mut messages = Messages::new();
    if let Command::Agent { first, install } = &cli.command {
        let done = match (first, install) {
            (true, _) => catch_signals().map(|interrupted| commands::agent::first(&interrupted)),
            (false, Some(path)) => commands::agent::install(path),
            (false, None) => commands::agent::serve(),
        };
        return ended(done.map(|()| ExitCode::SUCCESS));
    }
    let exposed = cli::exposed_secrets::warnings(&cli.command, &arguments);
    exposed.iter().for_each(|warning| messages::warn(warning));
    let interrupted = match cli.command.only_reads() {
        // A signal ends these at once: they start nothing that would need an end.
        true => Ok(Arc::default()),
        false => catch_signals(),
    };
    let done =
        interrupted.and_then(|interrupted| obey(&mut cli.command, &mut messages, &interrupted));
    messages.finish();
    ended(done)
}

/// Prints the failure of a command and returns the exit code.
fn ended(done: Result<ExitCode, Failure>) -> ExitCode {
    let done = match messages::output_failed() {
        Some(why) if done.is_ok() => {
            Err(Failure::machine(format!("cannot write to standard output: {why}")))
        }
        _ => done,
    };
    done.unwrap_or_else(|failure| {
        messages::failure(&failure.to_string());
        ExitCode::from(failure.exit_code())
    })
}

/// Runs a command that bakeoff starts itself with. `None` if this process is not one of them.
fn internal_command() -> Option<ExitCode> {
    bakeoff_host::internal_command()
        .or_else(canary::internal_command)
        .or_else(canary::delay::internal_command)
}

fn obey(
    command: &mut Command,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    for run in command.runs() {
        *run = folder::named(run)?;
    }
    if command.measures() && this_machine::is_another_bakeoff_here() {
        messages.complain("another bakeoff is running on this machine; both report worse figures");
    }
    if command.starts_servers() {
        this_machine::refuse_bare_root()?;
    }
    let mut watchers = Watchers::open(&command.watch(), messages)?;
    let mut audience = Audience { messages, watchers: &mut watchers };
    let code = watched(command, &mut audience, interrupted);
    watchers.close(messages);
    code
}

/// Runs a command. The audience receives the events of a run.
fn watched(
    command: &Command,
    audience: &mut Audience<'_>,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => return commands::run::run(args, audience, interrupted),
        Command::Load(args) => return commands::load::run(args, audience, interrupted),
        Command::Gate(args) => return commands::gate::run(args, audience, interrupted),
        Command::Reproduce(args) => return commands::reproduce::run(args, audience, interrupted),
        Command::Dbtester(command) => {
            return commands::dbtester::run(command, audience, interrupted);
        }
        Command::Start(args) => {
            return commands::start::run(args, audience.messages, interrupted);
        }
        Command::Report(args) => commands::report::report(args)?,
        Command::Verify(args) => return commands::verify::run(args),
        Command::Judge(args) => return commands::judge::run(args),
        Command::History(args) => commands::history::history(args)?,
        Command::Site(args) => commands::site::write(args)?,
        Command::Compare(args) => return commands::compare::run(args),
        Command::Studies { name } => commands::catalogue::studies(name.as_deref())?,
        Command::Systems { name } => commands::catalogue::systems(name.as_deref())?,
        Command::Manifests(args) => commands::manifests::write(args)?,
        Command::Install { systems } => {
            commands::catalogue::install(systems, audience.messages, interrupted)?
        }
        Command::Hey { args } => {
            return Ok(bakeoff_compat::hey::run(args, audience.messages, interrupted)?);
        }
        Command::Wrk { args } => {
            return Ok(bakeoff_compat::wrk::run(args, audience.messages, interrupted)?);
        }
        Command::VaultBenchmark { args } => {
            return Ok(bakeoff_compat::vault_benchmark::run(args, audience.messages, interrupted)?);
        }
        Command::EtcdBenchmark { args } => {
            let sessions = bakeoff_systems::etcd_watch_session;
            let messages = &mut *audience.messages;
            return Ok(bakeoff_compat::etcd_benchmark::run(args, sessions, messages, interrupted)?);
        }
        Command::Doctor { studies, on: None, json } => {
            return commands::catalogue::doctor(studies, *json);
        }
        Command::Doctor { studies, on: Some(places), json } => {
            return commands::doctor::machines(studies, places, *json, interrupted);
        }
        Command::ClearCache { on } => return commands::clear_cache::run(on),
        Command::Agent { .. } => unreachable!("`main` serves it before it catches signals"),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "bakeoff", &mut script);
            messages::output(&String::from_utf8_lossy(&script));
        }
        Command::Manual { folder } => clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| Failure::file("write manual pages into", folder, &error))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Catches signals. The first one requests the end; a later one exits at once, and the kernel and the warden stop the
/// servers.
///
/// `timeout` signals both the process and its group, so signals within a second count as one.
fn catch_signals() -> Result<Arc<AtomicBool>, Failure> {
    let fail = |error: io::Error| Failure::machine(format!("cannot catch signals: {error}"));
    let interrupted = Arc::new(AtomicBool::new(false));
    let asked = interrupted.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(fail)?;
    let listen = move || {
        let mut last = None;
        for _ in signals.forever() {
            let now = clock::now();
            if last.is_some_and(|last| now < last + ONE_REQUEST) {
                continue;
            }
            last = Some(now);
            // A command that handles the request clears the flag, and a further signal counts as the first.
            if asked.swap(true, Ordering::Relaxed) {
                low_level::exit(130);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(fail)?;
    Ok(interrupted)
}
