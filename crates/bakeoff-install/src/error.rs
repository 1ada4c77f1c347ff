//! Errors of looking for a program and of fetching it, each with a remedy.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Why a program could not be had.
#[derive(Debug)]
pub enum InstallError {
    /// The program that the study or the command line names will not do.
    OwnProgram {
        /// The system that it was given for.
        system: String,
        /// The path that was given.
        path: PathBuf,
        /// The fault.
        reason: Box<Refusal>,
    },
    /// The program that a study's command begins with will not do.
    Command {
        /// The system that it is.
        system: String,
        /// The command's first word.
        word: String,
        /// The fault.
        reason: Box<Refusal>,
    },
    /// The system needs a Java runtime and there is none that will do.
    Java {
        /// The system that needs it.
        system: String,
        /// The oldest major version that will do.
        needed: u32,
        /// Where it was looked for, and what was there.
        seen: RuntimeMissing,
    },
    /// The system needs Node.js and there is none that will do.
    Node {
        /// The system that needs it.
        system: String,
        /// The oldest major version that will do.
        needed: u32,
        /// The observation.
        seen: RuntimeMissing,
    },
    /// No source could deliver.
    NoSource {
        /// The system wanted.
        system: String,
        /// The version wanted, if one was asked for.
        wanted: Option<String>,
        /// Every source that was tried: its name and why it did not deliver.
        tried: Vec<(String, SourceError)>,
        /// The remedy.
        hints: Vec<String>,
    },
    /// The cache cannot be used.
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The operation on it.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// Somebody else can write to the cache, and what is in it is executed.
    UnsafeCache {
        /// The cache's folder.
        path: PathBuf,
        /// Who can, ready to stand after its name: `can be written by other users`.
        why: String,
    },
    /// There is no place for a cache: neither `BAKEOFF_CACHE`, `XDG_CACHE_HOME` nor `HOME` is set.
    NoCache,
    /// The user has had enough.
    Interrupted,
}

/// Each Java, Node.js or Go that was found and did not qualify, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct RuntimeMissing(pub(super) Vec<String>);

impl RuntimeMissing {
    /// One that was looked at, or that was not there.
    pub(super) fn one(seen: impl Into<String>) -> Self {
        Self(vec![seen.into()])
    }

    /// One that was asked for its version and printed none.
    pub(super) fn without_version(program: &Path, argument: &str) -> Self {
        Self::one(format!("`{} {argument}` named no version", program.display()))
    }
}

/// Why one source did not deliver.
#[derive(Debug)]
pub enum SourceError {
    /// It was not tried, or has no such version.
    PassedOver(String),
    /// It was tried and failed.
    Failed(Failure),
    /// The user has had enough.
    Interrupted,
}

/// An attempt of a source, and its result.
#[derive(Debug, Default)]
pub struct Failure {
    /// One line: what failed.
    pub what: String,
    /// The last lines that the tool wrote.
    pub output: Vec<String>,
    /// The whole of what it wrote.
    pub log: Option<PathBuf>,
}

impl SourceError {
    /// Passes a source over, for this reason.
    pub(super) fn passed_over(reason: impl fmt::Display) -> Self {
        SourceError::PassedOver(reason.to_string())
    }

    /// A failure without a tool's output.
    pub(super) fn failed(what: impl fmt::Display) -> Self {
        SourceError::Failed(Failure { what: what.to_string(), ..Failure::default() })
    }

    /// A failure of a file operation.
    pub(super) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        SourceError::failed(format!("cannot {doing} `{}`: {error}", path.display()))
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::PassedOver(reason) => write!(f, "passed over: {reason}"),
            SourceError::Interrupted => f.write_str("interrupted"),
            SourceError::Failed(failure) => {
                f.write_str(&failure.what)?;
                for line in &failure.output {
                    write!(f, "\n    | {line}")?;
                }
                match &failure.log {
                    Some(log) => write!(f, "\n    log: {} (kept)", log.display()),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallError::OwnProgram { system, path, reason } => {
                write!(f, "the program given for {system}, `{}`, {reason}", path.display())?;
                write!(f, "\nhint: correct `program:`, or leave it out and let bakeoff find one")
            }
            InstallError::Command { system, word, reason } => {
                write!(f, "the command of {system} begins with `{word}`, which {reason}")?;
                write!(f, "\nhint: a path counts from the folder you are in, a name is looked for on `PATH`")
            }
            InstallError::Java { system, needed, seen } => {
                write!(f, "{system} needs a Java runtime, version {needed} or newer, and none was found")?;
                write!(f, "\n  looked: {seen}")?;
                write!(f, "\nhint: set JAVA_HOME, or as root `{JAVA_REMEDY}`")
            }
            InstallError::Node { system, needed, seen } => {
                write!(f, "{system} needs Node.js, version {needed} or newer, and none was found")?;
                write!(f, "\n  looked: {seen}\nhint: put `node` on PATH, or as root `{NODE_REMEDY}`")
            }
            InstallError::NoSource { system, wanted, tried, hints } => {
                write!(f, "no source could deliver {system}")?;
                if let Some(wanted) = wanted {
                    write!(f, " `{wanted}`")?;
                }
                for (title, error) in tried {
                    write!(f, "\n  {title}: {error}")?;
                }
                for hint in hints {
                    write!(f, "\nhint: {hint}")?;
                }
                Ok(())
            }
            InstallError::Cache { path, doing, error } => {
                write!(f, "cannot {doing} `{}` in bakeoff's cache: {error}", path.display())?;
                write!(f, "\nhint: set BAKEOFF_CACHE to a folder that can be written, with space left")
            }
            InstallError::UnsafeCache { path, why } => {
                write!(f, "bakeoff's cache `{}` {why}, and programs in it are executed", path.display())?;
                write!(f, "\nhint: `chmod go-w` it if all in it is yours, or set BAKEOFF_CACHE to a folder of your own")
            }
            InstallError::NoCache => f.write_str(
                "there is no place for bakeoff's cache: none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set\n\
                 hint: set BAKEOFF_CACHE to a folder that can be written",
            ),
            InstallError::Interrupted => f.write_str("interrupted while a program was being fetched"),
        }
    }
}

impl Error for InstallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            InstallError::OwnProgram { reason, .. } | InstallError::Command { reason, .. } => {
                Some(&**reason)
            }
            InstallError::Java { seen, .. } | InstallError::Node { seen, .. } => Some(seen),
            InstallError::Cache { error, .. } => Some(error),
            InstallError::NoSource { .. }
            | InstallError::UnsafeCache { .. }
            | InstallError::NoCache
            | InstallError::Interrupted => None,
        }
    }
}

/// The command that brings Node.js and npm to a Debian machine.
pub(super) const NODE_REMEDY: &str = "apt-get install nodejs npm";
/// The command that brings a Java runtime to a Debian machine.
pub(super) const JAVA_REMEDY: &str = "apt-get install default-jre-headless";
