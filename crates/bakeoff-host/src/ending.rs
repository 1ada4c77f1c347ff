//! Why a server ended: by itself, by a signal, by its memory limit, for want of disk space.
//!
//! Who ends a server under a limit is the kernel, with the SIGKILL that anybody may send. Its cgroup counts such
//! kills, so that the limit can be named.
//!
//! Not here: looking at a process (`child`), the text of errors (`error`).

use std::fmt;

use bakeoff_core::units::ByteCount;
use serde::{Deserialize, Serialize};

use super::child::Exit;

/// The end of a server, with its cause where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How it ended.
    pub exit: Exit,
    /// Why, if that was seen.
    pub cause: Option<EndingCause>,
}

/// A cause that the kernel or the server's log tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndingCause {
    /// The kernel killed it, or a process of it, at its memory limit.
    MemoryLimit {
        /// The study's limit.
        limit: ByteCount,
        /// How many processes of it were killed.
        kills: u64,
    },
    /// Its log speaks of a full disk, or that of its data is: then the log may have had no room for it.
    FullDisk,
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exit, cause } = self;
        match (exit, cause) {
            (Exit::Signal(9), Some(EndingCause::MemoryLimit { limit, kills })) => {
                write!(to, "was killed by its memory limit of {limit} (oom_kill {kills})")
            }
            (exit, Some(EndingCause::MemoryLimit { limit, kills })) => {
                write!(
                    to,
                    "{exit}: a process of it was killed by its memory limit of {limit} (oom_kill {kills})"
                )
            }
            (exit, Some(EndingCause::FullDisk)) => write!(to, "{exit}: no space left on device"),
            (exit, None) => exit.fmt(to),
        }
    }
}

/// The life of a server so far, for the words about its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Life {
    /// It was started, and has not been ready.
    #[default]
    Starting,
    /// It was started again and has not been ready since.
    StartedAgain,
    /// It has been ready.
    Serving,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_names_the_limit_or_the_disk_behind_it() {
        let text = |exit, cause| Ending { exit, cause }.to_string();
        let memory = Some(EndingCause::MemoryLimit { limit: ByteCount(64 << 20), kills: 1 });
        assert_eq!(
            text(Exit::Signal(9), memory),
            "was killed by its memory limit of 64 MiB (oom_kill 1)"
        );
        assert_eq!(
            text(Exit::Code(3), memory),
            "ended with exit code 3: a process of it was killed by its memory limit of 64 MiB (oom_kill 1)"
        );
        assert_eq!(
            text(Exit::Code(1), Some(EndingCause::FullDisk)),
            "ended with exit code 1: no space left on device"
        );
        assert_eq!(text(Exit::Signal(9), None), "was killed by SIGKILL");
    }
}
