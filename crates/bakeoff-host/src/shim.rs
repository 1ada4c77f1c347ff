//! `bakeoff __exec`: becomes a server, after arranging that the server dies with bakeoff.
//!
//! What must be set in the new process itself is set here, in an ordinary program, since doing it
//! between `fork` and `exec` would take `unsafe` code: the parent-death signal, CPU affinity,
//! entering a cgroup. The kernel keeps all three over `exec`, though it drops the parent-death
//! signal when the program changes user (`setpriv`, set-user-ID); the warden covers those.
//!
//! Standard input is a pipe to the launching bakeoff. It closes when `exec` succeeds; a reason
//! why not is written to it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

pub(super) const COMMAND: &str = "__exec";

/// What a shell answers for a program that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;

pub(super) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    // Closed by a successful `exec`, which is how the other end learns of it.
    let report = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
    let problem = prepare_and_exec(args);
    if let Ok(report) = report {
        let _ = std::fs::File::from(report).write_all(problem.as_bytes());
    }
    ExitCode::from(CANNOT_EXECUTE)
}

/// Returns only to say what went wrong.
fn prepare_and_exec(mut args: impl Iterator<Item = OsString>) -> String {
    let mut parent = None;
    loop {
        let Some(flag) = args.next() else { return "no program was given".into() };
        if flag == "--" {
            break;
        }
        let Some(value) = args.next() else { return format!("{flag:?} lacks a value") };
        let done = match flag.to_str() {
            Some("--parent") => {
                parent = value.to_str().and_then(|v| v.parse().ok()).and_then(Pid::from_raw);
                Ok(())
            }
            Some("--cpus") => pin(&value.to_string_lossy()),
            Some("--enter") => enter(&PathBuf::from(value)),
            _ => Err(format!("unknown option {flag:?}")),
        };
        if let Err(problem) = done {
            return problem;
        }
    }
    if let Err(e) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return format!("the parent-death signal cannot be set: {e}");
    }
    // Had the parent died before that call, no signal would ever come.
    if rustix::process::getppid() != parent {
        return "bakeoff is gone".into();
    }
    let Some(program) = args.next() else { return "no program was given".into() };
    let error = Command::new(program).args(args).stdin(Stdio::null()).exec();
    format!("it cannot be executed: {error}")
}

fn pin(cpus: &str) -> Result<(), String> {
    let mut set = CpuSet::new();
    for cpu in cpus.split(',') {
        let cpu = cpu.parse().ok().filter(|&cpu| cpu < CpuSet::MAX_CPU);
        set.set(cpu.ok_or_else(|| format!("`{cpus}` is no list of CPUs"))?);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| format!("it cannot be pinned to CPUs {cpus}: {e}"))
}

fn enter(procs: &std::path::Path) -> Result<(), String> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(procs)
        .and_then(|mut file| file.write_all(std::process::id().to_string().as_bytes()))
        .map_err(|e| format!("it cannot enter its limits by `{}`: {e}", procs.display()))
}
