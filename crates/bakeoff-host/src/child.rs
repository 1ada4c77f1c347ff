//! Reads how a child process ended, and kills it with its descendants.
//!
//! Not here: the launching of children (`process`, `before`).

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use bakeoff_clock as clock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};

use super::procfs;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// Exited by itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Unknown: the machine is unreachable. Its processes end with the connection.
    OutOfReach,
}

/// Pause between a child's death and reaping it. Its threads still release their `/proc` entries then, and the kernel
/// makes the reaper wait for them in a busy loop.
const THREADS_GO: Duration = Duration::from_millis(2);

/// Returns how a child ended, without reaping it.
pub(super) fn peek(child: &Child) -> Option<Exit> {
    let pid = Pid::from_raw(child.id() as i32)?;
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), how).ok()??;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    })
}

/// Kills a child, its process group and its descendants, reaps the child, and waits until all are gone.
pub(super) fn end(child: &mut Child) -> Exit {
    let group = child.id() as i32;
    // Descendants are known only while their parents live.
    let family = procfs::family(group);
    if let Some(pid) = Pid::from_raw(group) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let others = family.iter().filter(|stat| stat.pid != group).collect::<Vec<_>>();
    others.iter().for_each(|stat| procfs::kill(stat));
    let died = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    if let Some(pid) = Pid::from_raw(group)
        && rustix::process::waitid(WaitId::Pid(pid), died).is_ok()
    {
        std::thread::sleep(THREADS_GO);
    }
    let exit = child.wait().map_or(Exit::Signal(Signal::KILL.as_raw()), Exit::from);
    // Orphans can only be polled, not waited for. A killed process is gone at once unless the kernel holds it, and then
    // nothing helps.
    let gone_by = clock::now() + Duration::from_secs(2);
    let runs = |stat: &&&procfs::Stat| {
        procfs::stat(stat.pid).is_some_and(|s| s.start_ticks == stat.start_ticks && s.lives())
    };
    while others.iter().find(runs).is_some() && clock::now() < gone_by {
        std::thread::sleep(Duration::from_millis(1));
    }
    exit
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::OutOfReach => write!(f, "was lost with its machine"),
            Self::Signal(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}
