//! `bakeoff __exec`: replaces itself with a server, after arranging that the server dies with bakeoff.
//!
//! Makes the settings that belong to the new process: parent-death signal, CPU affinity, cgroup. An ordinary program
//! can make them without the `unsafe` code that is needed between `fork` and `exec`. The kernel keeps all three over
//! `exec`, but drops the parent-death signal when the program changes user (`setpriv`, set-user-ID). The warden covers
//! those.
//!
//! Standard input is a pipe to the launching bakeoff. It closes when `exec` succeeds; otherwise the reason is written
//! to it.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, setns};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

pub(super) const COMMAND: &str = "__exec";

/// Exit code of a shell for a program that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;

/// The reason why the program was not executed.
enum ShimError {
    LacksValue(OsString),
    UnknownOption(OsString),
    NoProgram,
    NotCpus(String),
    NotPinned(String, Errno),
    NotEntered(PathBuf, io::Error),
    NotWithin(OsString, io::Error),
    NoDeathSignal(Errno),
    ParentGone,
    NotExecuted(io::Error),
}

impl fmt::Display for ShimError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LacksValue(flag) => write!(to, "{flag:?} needs a value"),
            Self::UnknownOption(flag) => write!(to, "unknown option {flag:?}"),
            Self::NoProgram => to.write_str("no program given"),
            Self::NotCpus(cpus) => write!(to, "`{cpus}` is not a list of CPUs"),
            Self::NotPinned(cpus, error) => {
                write!(to, "cannot pin it to CPUs {cpus}: {error}")
            }
            Self::NotEntered(procs, error) => {
                write!(to, "cannot put it under its limits through `{}`: {error}", procs.display())
            }
            Self::NotWithin(pid, error) => {
                write!(to, "cannot enter the mount namespace of process {pid:?}: {error}")
            }
            Self::NoDeathSignal(error) => {
                write!(to, "cannot set the parent-death signal: {error}")
            }
            Self::ParentGone => to.write_str("bakeoff has ended"),
            Self::NotExecuted(error) => write!(to, "cannot execute it: {error}"),
        }
    }
}

pub(super) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    // A successful `exec` closes this descriptor, which signals success to the other end.
    let report = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3);
    let problem = prepare_and_exec(args);
    if let Ok(report) = report {
        let _ = std::fs::File::from(report).write_all(problem.to_string().as_bytes());
    }
    ExitCode::from(CANNOT_EXECUTE)
}

/// Prepares the process and executes the program. Returns only on failure.
fn prepare_and_exec(mut args: impl Iterator<Item = OsString>) -> ShimError {
    let mut parent = None;
    loop {
        let Some(flag) = args.next() else { return ShimError::NoProgram };
        if flag == "--" {
            break;
        }
        let Some(value) = args.next() else { return ShimError::LacksValue(flag) };
        let done = match flag.to_str() {
            Some("--parent") => {
                parent = value.to_str().and_then(|v| v.parse().ok()).and_then(Pid::from_raw);
                Ok(())
            }
            Some("--cpus") => pin(&value.to_string_lossy()),
            Some("--enter") => enter(&PathBuf::from(value)),
            Some("--within") => {
                within(&value).map_err(|error| ShimError::NotWithin(value.clone(), error))
            }
            _ => Err(ShimError::UnknownOption(flag)),
        };
        if let Err(problem) = done {
            return problem;
        }
    }
    if let Err(e) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return ShimError::NoDeathSignal(e);
    }
    // If the parent died before that call, the signal would never come.
    if rustix::process::getppid() != parent {
        return ShimError::ParentGone;
    }
    let Some(program) = args.next() else { return ShimError::NoProgram };
    let error = Command::new(program).args(args).stdin(Stdio::null()).exec();
    ShimError::NotExecuted(error)
}

fn pin(cpus: &str) -> Result<(), ShimError> {
    let mut set = CpuSet::new();
    for cpu in cpus.split(',') {
        let cpu = cpu.parse().ok().filter(|&cpu| cpu < CpuSet::MAX_CPU);
        set.set(cpu.ok_or_else(|| ShimError::NotCpus(cpus.to_owned()))?);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| ShimError::NotPinned(cpus.to_owned(), error))
}

/// Enters the mount namespace of a process, and its user namespace, which an ordinary user needs for that. Returns to
/// the same directory there.
pub(super) fn within(pid: &std::ffi::OsStr) -> io::Result<()> {
    let dir = std::env::current_dir()?;
    let namespaces = std::path::Path::new("/proc").join(pid).join("ns");
    let theirs = |name: &str| std::fs::File::open(namespaces.join(name));
    let (user, mount) = (theirs("user")?, theirs("mnt")?);
    let is_ours =
        std::fs::read_link(namespaces.join("user"))? == std::fs::read_link("/proc/self/ns/user")?;
    if !is_ours {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(mount, CloneFlags::CLONE_NEWNS)?;
    std::env::set_current_dir(dir)
}

fn enter(procs: &std::path::Path) -> Result<(), ShimError> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(procs)
        .and_then(|mut file| file.write_all(std::process::id().to_string().as_bytes()))
        .map_err(|error| ShimError::NotEntered(procs.to_owned(), error))
}
