//! Why a server ended: exit, signal, memory limit, full disk.
//!
//! At a memory limit the kernel sends SIGKILL, which could come from any process. The cgroup counts such kills, so the
//! error can name the limit.
//!
//! Not here: reading a process's exit (`child`), the text of errors (`error`).

use std::fmt;

use bakeoff_core::units::ByteCount;
use serde::{Deserialize, Serialize};

use super::child::Exit;

/// How a server ended, with the cause if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEnding {
    /// Exit code or signal.
    pub exit: Exit,
    /// Cause; `None` if unknown.
    pub cause: Option<EndingCause>,
}

/// A cause found in the kernel's counters or the server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndingCause {
    /// The kernel killed the server or one of its processes at its memory limit.
    MemoryLimit {
        /// The study's limit.
        limit: ByteCount,
        /// Number of processes killed.
        kills: u64,
    },
    /// The log mentions a full disk, or the disk of the data is full, so the log may lack the message.
    FullDisk,
}

impl fmt::Display for ServerEnding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exit, cause } = self;
        match (exit, cause) {
            (Exit::Signal(9), Some(EndingCause::MemoryLimit { limit, kills })) => {
                write!(
                    to,
                    "was killed by the kernel at its memory limit of {limit} (oom_kill {kills})"
                )
            }
            (exit, Some(EndingCause::MemoryLimit { limit, kills })) => {
                write!(
                    to,
                    "{exit}: the kernel killed a process of it at the memory limit of {limit} (oom_kill {kills})"
                )
            }
            (exit, Some(EndingCause::FullDisk)) => write!(to, "{exit}: no space left on device"),
            (exit, None) => exit.fmt(to),
        }
    }
}

/// Stage of a server's life, for the error about its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Life {
    /// Started and not ready yet.
    #[default]
    Starting,
    /// Started again and not ready since.
    StartedAgain,
    /// Ready before.
    Serving,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_names_the_limit_or_the_disk_behind_it() {
        let text = |exit, cause| ServerEnding { exit, cause }.to_string();
        let memory = Some(EndingCause::MemoryLimit { limit: ByteCount(64 << 20), kills: 1 });
        assert_eq!(
            text(Exit::Signal(9), memory),
            "was killed by the kernel at its memory limit of 64 MiB (oom_kill 1)"
        );
        assert_eq!(
            text(Exit::Code(3), memory),
            "ended with exit code 3: the kernel killed a process of it at the memory limit of 64 MiB (oom_kill 1)"
        );
        assert_eq!(
            text(Exit::Code(1), Some(EndingCause::FullDisk)),
            "ended with exit code 1: no space left on device"
        );
        assert_eq!(text(Exit::Signal(9), None), "was killed by SIGKILL");
    }
}
