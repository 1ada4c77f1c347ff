//! Errors of servers, in the house form: what failed, what was seen, where the
//! evidence is, what to try.
//!
//! Displayed, an error is its first line, indented lines of evidence, and `hint: …` last where
//! there is one. `messages.rs` puts `error: ` before it.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_core::units::SERVER_TEXT_MAX;
use serde::{Deserialize, Serialize};

use super::ending::{Ending, EndingCause, Life};

/// A server could not be run.
#[derive(Debug)]
pub enum HostError {
    /// Its program is not there or cannot be executed.
    Program {
        /// The node's name.
        node: String,
        /// As the system described it.
        program: PathBuf,
        /// In words.
        problem: String,
    },
    /// Its description cannot be followed.
    Spec {
        /// The node's name.
        node: String,
        /// In words.
        problem: String,
    },
    /// It could not be started, though its program is there.
    Launch {
        /// The node's name.
        node: String,
        /// Its program.
        program: PathBuf,
        /// In words.
        problem: String,
    },
    /// A preparatory command did not succeed.
    Before {
        /// The node's name.
        node: String,
        /// The command's program.
        program: PathBuf,
        /// In words: `ended with exit code 1 after 0.2s`.
        how: String,
        /// Where its output is, and its last lines.
        log: LogTail,
    },
    /// It ended by itself.
    Died {
        /// The node's name.
        node: String,
        /// How long bakeoff had been waiting for it.
        after: Duration,
        /// Its end, and the cause of that.
        ending: Box<Ending>,
        /// Its life by then.
        life: Life,
        /// The part of its CPU limit in it, in words; `None` when none.
        limits: Option<String>,
        /// The processes that it left running, each with its id: `nginx (4711)`.
        strays: Vec<String>,
        /// Where its log is, and its last lines.
        log: Box<LogTail>,
    },
    /// It was not ready in time.
    NotReady {
        /// The nodes' names.
        nodes: Vec<String>,
        /// How long bakeoff waited.
        within: Duration,
        /// Whether they had been ready before.
        again: bool,
        /// The last probe's observation.
        seen: Box<str>,
        /// The part of nodes' limits in it, in words.
        limits: Vec<String>,
        /// The nodes' logs.
        logs: Vec<LogTail>,
    },
    /// Nodes run and cannot serve, however long one waits.
    CannotServe {
        /// The last probe's observation.
        seen: String,
        /// The hint, without `hint: `.
        hint: String,
    },
    /// The user wants to stop.
    Interrupted {
        /// The operation.
        during: String,
    },
    /// A port that was asked for is taken.
    PortInUse {
        /// The address at which it was tried.
        address: IpAddr,
        /// Which.
        port: u16,
        /// The kernel's error.
        error: io::Error,
    },
    /// No free port was found at all.
    NoPort {
        /// Where they were sought.
        range: std::ops::RangeInclusive<u16>,
    },
    /// Another machine failed, in its words.
    Elsewhere {
        /// The whole message.
        text: String,
    },
    /// A file or directory failed.
    Io {
        /// `write a node's file`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A log's path and its last lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogTail {
    /// Where the whole of it is.
    pub path: PathBuf,
    /// Made fit for a terminal.
    pub lines: Vec<String>,
}

impl HostError {
    /// Returns whether a server says in its log that somebody else has a port of its.
    pub fn is_of_a_port(&self) -> bool {
        match self {
            Self::Died { log, .. } => log.speaks_of_a_port(),
            Self::NotReady { logs, .. } => logs.iter().any(LogTail::speaks_of_a_port),
            _ => false,
        }
    }

    /// Tells which file operation failed, on which file.
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
                write!(f, "\nhint: `bakeoff doctor` says what is missing and how to get it")
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
                write!(f, "`{node}` {ending} after {after:.1?} and left running: {left}\n{log}")?;
                write!(
                    f,
                    "\nhint: have it stay in the foreground (`--foreground`, `daemon off;`): {DAEMONS}"
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
                write!(f, "port {port} on {address} cannot be had: {error}")?;
                write!(f, "\nhint: another process may hold it; try another `--base-port`")
            }
            Self::NoPort { range } => {
                write!(f, "no free port from {} to {}", range.start(), range.end())?;
                write!(f, "\nhint: say where to look with `--base-port`")
            }
            Self::Elsewhere { text } => f.write_str(text),
            Self::Io { what, path, error } => {
                write!(f, "cannot {what}: `{}`: {error}", path.display())
            }
        }
    }
}

/// Says what to try for a server that ended.
fn died_hint(ending: &Ending, is_held: bool, log: &LogTail) -> &'static str {
    match ending.cause {
        Some(EndingCause::MemoryLimit { .. }) => LIMITS_HINT,
        Some(EndingCause::FullDisk) => {
            "hint: its disk is full; `--out DIR` puts runs somewhere else"
        }
        None if is_held => LIMITS_HINT,
        None if log.speaks_of_a_port() => PORT_HINT,
        None => "hint: the end of its log often says why",
    }
}

const LIMITS_HINT: &str = "hint: give it more in its `limits`";
const DAEMONS: &str = "of a daemon bakeoff sees neither CPU time nor memory";
const PORT_HINT: &str = "hint: another process may hold a port; try `--base-port`";

impl LogTail {
    /// How many lines an error shows.
    pub const LINES: usize = 10;

    /// Reads the last `lines` lines after byte `from`; a log that cannot be read has none.
    pub fn read(path: &Path, from: u64, lines: usize) -> Self {
        let lines = last_lines(path, from, lines).unwrap_or_default();
        Self { path: path.to_owned(), lines }
    }

    fn speaks_of_a_port(&self) -> bool {
        // That Istio's agent cannot have its status port is as it is meant to be.
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
    // A server's log may hold escape codes; an error message must not play them.
    let clean = |line: &&str| {
        let shown = line.chars().map(|c| if c.is_control() { ' ' } else { c });
        shown.take(SERVER_TEXT_MAX).collect::<String>().trim_end().to_owned()
    };
    Ok(last.iter().map(clean).collect())
}
