//! Errors of servers: what failed, what was seen, where the evidence is, what to try.
//!
//! An error displays as one line, indented lines of evidence, and `hint: …` last if there is one. `messages.rs` adds
//! `error: ` in front.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_core::units::SERVER_TEXT_MAX;
use serde::{Deserialize, Serialize};

use super::ending::{EndingCause, Life, ServerEnding};

/// The reason why a server could not be run.
#[derive(Debug)]
pub enum HostError {
    /// The program is missing or cannot be executed.
    Program {
        /// Node name.
        node: String,
        /// Program, as the system described it.
        program: PathBuf,
        /// Problem.
        problem: String,
    },
    /// The description is invalid.
    Spec {
        /// Node name.
        node: String,
        /// Problem.
        problem: String,
    },
    /// The program exists but could not be started.
    Launch {
        /// Node name.
        node: String,
        /// Program.
        program: PathBuf,
        /// Problem.
        problem: String,
    },
    /// A command before the node failed.
    Before {
        /// Node name.
        node: String,
        /// Program of the command.
        program: PathBuf,
        /// How it failed: `ended with exit code 1 after 0.2s`.
        how: String,
        /// Path and last lines of its output.
        log: LogTail,
    },
    /// The server exited by itself.
    Died {
        /// Node name.
        node: String,
        /// Time that bakeoff had waited for it.
        after: Duration,
        /// Exit and its cause.
        ending: Box<ServerEnding>,
        /// Stage of its life.
        life: Life,
        /// Effect of its limits; `None` if they hardly mattered.
        limits: Option<String>,
        /// Processes that it left running, each with its ID: `nginx (4711)`.
        strays: Vec<String>,
        /// Path and last lines of its log.
        log: Box<LogTail>,
    },
    /// Nodes were not ready in time.
    NotReady {
        /// Names of the nodes.
        nodes: Vec<String>,
        /// Time that bakeoff waited.
        within: Duration,
        /// True if they had been ready before.
        again: bool,
        /// Observation of the last probe.
        seen: Box<str>,
        /// Effects of the nodes' limits.
        limits: Vec<String>,
        /// The nodes' logs.
        logs: Vec<LogTail>,
    },
    /// Nodes run but can never become ready.
    CannotServe {
        /// Observation of the last probe.
        seen: String,
        /// Advice to the user, without `hint: `.
        hint: String,
    },
    /// The user interrupted the operation.
    Interrupted {
        /// Operation: `waiting for …`.
        during: String,
    },
    /// A requested port is in use.
    PortInUse {
        /// Address at which it was tried.
        address: IpAddr,
        /// Port.
        port: u16,
        /// The kernel's error.
        error: io::Error,
    },
    /// No port is free.
    NoPort {
        /// Range that was searched.
        range: std::ops::RangeInclusive<u16>,
    },
    /// An agent on another machine reported an error.
    Elsewhere {
        /// Whole message.
        text: String,
    },
    /// A file operation failed.
    Io {
        /// Operation: `write a node's file`.
        what: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A log's path and its last lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogTail {
    /// Path of the whole log.
    pub path: PathBuf,
    /// Last lines, without control characters.
    pub lines: Vec<String>,
}

impl HostError {
    /// Returns true if a server's log says that a port of its own is in use.
    pub fn is_of_a_port(&self) -> bool {
        match self {
            Self::Died { log, .. } => log.speaks_of_a_port(),
            Self::NotReady { logs, .. } => logs.iter().any(LogTail::speaks_of_a_port),
            _ => false,
        }
    }

    /// Creates an error about a file operation.
    pub fn io(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), error }
    }
}

impl std::error::Error for HostError {}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { node, program, problem } => {
                write!(f, "cannot run `{node}`: program `{}`: {problem}", program.display())?;
                write!(f, "\nhint: `bakeoff doctor` shows what is missing and how to install it")
            }
            Self::Spec { node, problem } => write!(f, "cannot run `{node}`: {problem}"),
            Self::Launch { node, program, problem } => {
                write!(f, "cannot start `{node}` (`{}`): {problem}", program.display())
            }
            Self::Before { node, program, how, log } => {
                write!(f, "cannot prepare `{node}`: `{}` {how}\n{log}", program.display())
            }
            Self::Died { node, after, ending, strays, log, .. } if !strays.is_empty() => {
                let left = strays.join(", ");
                write!(
                    f,
                    "`{node}` {ending} after {after:.1?} and left these running: {left}\n{log}"
                )?;
                write!(
                    f,
                    "\nhint: run it in the foreground (`--foreground`, `daemon off;`): {DAEMONS}"
                )
            }
            Self::Died { node, after, ending, life, limits, log, .. } => {
                write!(f, "`{node}` {ending}")?;
                match life {
                    Life::Starting => write!(f, " after {after:.1?}, before it was ready")?,
                    Life::StartedAgain => write!(f, ", {after:.1?} after it was started again")?,
                    Life::Serving => write!(f, " after it had served")?,
                }
                let held = limits.as_ref().map(|limits| format!(": {limits}")).unwrap_or_default();
                writeln!(f, "{held}")?;
                write!(f, "{log}\n{}", died_hint(ending, limits.is_some(), log))
            }
            Self::NotReady { nodes, within, again, seen, limits, logs } => {
                let names = nodes.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                let verb = if nodes.len() == 1 { "was" } else { "were" };
                let held = limits.iter().map(|limit| format!(": {limit}")).collect::<String>();
                let ready = if *again { "ready again" } else { "ready" };
                write!(f, "{names} {verb} not {ready} after {within:?}{held}\n  probe: {seen}")?;
                for log in logs {
                    write!(f, "\n{log}")?;
                }
                if logs.iter().any(LogTail::speaks_of_a_port) {
                    return write!(f, "\n{PORT_HINT}");
                }
                if !limits.is_empty() {
                    write!(f, "\n{LIMITS_HINT}")?;
                }
                Ok(())
            }
            Self::CannotServe { seen, hint } => write!(f, "{seen}\nhint: {hint}"),
            Self::Interrupted { during } => write!(f, "interrupted while {during}"),
            Self::PortInUse { address, port, error } => {
                write!(f, "cannot bind port {port} on {address}: {error}")?;
                write!(f, "\nhint: another process may hold it; try another `--base-port`")
            }
            Self::NoPort { range } => {
                write!(f, "no free port from {} to {}", range.start(), range.end())?;
                write!(f, "\nhint: choose another first port with `--base-port`")
            }
            Self::Elsewhere { text } => f.write_str(text),
            Self::Io { what, path, error } => {
                write!(f, "cannot {what}: `{}`: {error}", path.display())
            }
        }
    }
}

/// Returns the hint for a server that exited.
fn died_hint(ending: &ServerEnding, is_held: bool, log: &LogTail) -> &'static str {
    match ending.cause {
        Some(EndingCause::MemoryLimit { .. }) => LIMITS_HINT,
        Some(EndingCause::FullDisk) => {
            "hint: its disk is full; put runs on another disk with `--out DIR`"
        }
        None if is_held => LIMITS_HINT,
        None if log.speaks_of_a_port() => PORT_HINT,
        None => "hint: see the end of its log for the cause",
    }
}

const LIMITS_HINT: &str = "hint: raise its `limits`";
const DAEMONS: &str = "bakeoff cannot measure a daemon's CPU time and memory";
const PORT_HINT: &str = "hint: another process may hold a port; try `--base-port`";

impl LogTail {
    /// Lines shown in an error.
    pub const LINES: usize = 10;

    /// Reads the last `lines` lines after byte `from`. Returns no lines for a log that cannot be read.
    pub fn read(path: &Path, from: u64, lines: usize) -> Self {
        let lines = last_lines(path, from, lines).unwrap_or_default();
        Self { path: path.to_owned(), lines }
    }

    fn speaks_of_a_port(&self) -> bool {
        // Istio's agent normally fails to bind its status port.
        let speaks = |line: &String| {
            let line = line.to_ascii_lowercase();
            line.contains("address already in use") && !line.contains("status port")
        };
        self.lines.iter().any(speaks)
    }
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = if self.lines.is_empty() { "empty" } else { "kept" };
        write!(f, "  log:   {} ({kept})", self.path.display())?;
        self.lines.iter().try_for_each(|line| write!(f, "\n    | {line}"))
    }
}

fn last_lines(path: &Path, from: u64, lines: usize) -> io::Result<Vec<String>> {
    use std::io::{Read, Seek, SeekFrom};
    /// Enough for ten long lines; a log may be gigabytes.
    const TAIL: u64 = 64 << 10;

    let mut file = std::fs::File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL).max(from)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all = text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    let last = &all[all.len().saturating_sub(lines)..];
    // A server's log may hold escape codes; an error message must not print them.
    let clean = |line: &&str| {
        let shown = line.chars().map(|c| if c.is_control() { ' ' } else { c });
        shown.take(SERVER_TEXT_MAX).collect::<String>().trim_end().to_owned()
    };
    Ok(last.iter().map(clean).collect())
}
