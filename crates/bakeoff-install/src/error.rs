//! Errors of finding and fetching a program, with hints.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;

/// Reason why a program is not available.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The program in the study or on the command line is unsuitable.
    #[error(
        "the program given for {system}, `{path}`, {reason}\n\
         hint: correct `program:`, or leave it out and let bakeoff find one"
    )]
    OwnProgram {
        /// System that the program is for.
        system: String,
        /// Path of the program.
        path: PathBuf,
        /// Defect of the program.
        #[source]
        reason: Box<Refusal>,
    },
    /// The program of a study's command is unsuitable.
    #[error(
        "the command of {system} begins with `{word}`, which {reason}\n\
         hint: a path is relative to the folder you are in; a name must be on `PATH`"
    )]
    Command {
        /// System that the command starts.
        system: String,
        /// First word of the command.
        word: String,
        /// Defect of the program.
        #[source]
        reason: Box<Refusal>,
    },
    /// The system needs a Java runtime, and no suitable one was found.
    #[error(
        "{system} needs a Java runtime, version {needed} or newer, but none was found\n  \
         searched: {seen}\nhint: set JAVA_HOME, or run `{JAVA_REMEDY}` as root"
    )]
    Java {
        /// System that needs Java.
        system: String,
        /// Oldest suitable major version.
        needed: u32,
        /// Places searched, and their contents.
        #[source]
        seen: RuntimeMissing,
    },
    /// The system needs Node.js, and no suitable one was found.
    #[error(
        "{system} needs Node.js, version {needed} or newer, but none was found\n  \
         searched: {seen}\nhint: put `node` on PATH, or run `{NODE_REMEDY}` as root"
    )]
    Node {
        /// System that needs Node.js.
        system: String,
        /// Oldest suitable major version.
        needed: u32,
        /// Places searched, and their contents.
        #[source]
        seen: RuntimeMissing,
    },
    /// Every source failed.
    #[error(fmt = no_source)]
    NoSource {
        /// System to install.
        system: String,
        /// Requested version, if any.
        wanted: Option<String>,
        /// Title and error of each source, in the order of the attempts.
        tried: Vec<(String, SourceError)>,
        /// Alternatives for the user.
        hints: Vec<String>,
    },
    /// A file operation in the cache failed.
    #[error(
        "cannot {doing} `{path}` in bakeoff's cache: {error}\n\
         hint: set BAKEOFF_CACHE to a writable folder with free space"
    )]
    Cache {
        /// File or folder of the operation.
        path: PathBuf,
        /// Operation that failed: `write`.
        doing: &'static str,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Another user can write to the cache, and bakeoff executes programs in it.
    #[error(
        "bakeoff's cache `{path}` {why}, and bakeoff executes programs in it\n\
         hint: run `chmod go-w` on it if everything in it is yours, or set BAKEOFF_CACHE to a folder of your own"
    )]
    UnsafeCache {
        /// Folder of the cache.
        path: PathBuf,
        /// Text that follows the path: `can be written by other users`.
        why: String,
    },
    /// None of `BAKEOFF_CACHE`, `XDG_CACHE_HOME` and `HOME` is set.
    #[error(
        "bakeoff's cache has no folder: BAKEOFF_CACHE, XDG_CACHE_HOME and HOME are not set\n\
         hint: set BAKEOFF_CACHE to a writable folder"
    )]
    NoCache,
    /// The user interrupted bakeoff.
    #[error("interrupted while fetching a program")]
    Interrupted,
}

fn no_source(
    system: &str,
    wanted: &Option<String>,
    tried: &[(String, SourceError)],
    hints: &[String],
    to: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(to, "cannot fetch {system}")?;
    if let Some(wanted) = wanted {
        write!(to, " `{wanted}`")?;
    }
    to.write_str(" from any source")?;
    for (title, error) in tried {
        write!(to, "\n  {title}: {error}")?;
    }
    for hint in hints {
        write!(to, "\nhint: {hint}")?;
    }
    Ok(())
}

/// Reasons why no Java, Node.js or Go was suitable, one per place searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct RuntimeMissing(pub(super) Vec<String>);

impl RuntimeMissing {
    pub(super) fn one(seen: impl Into<String>) -> Self {
        Self(vec![seen.into()])
    }

    /// Reports a runtime that printed no version.
    pub(super) fn without_version(program: &Path, argument: &str) -> Self {
        Self::one(format!("`{} {argument}` printed no version", program.display()))
    }
}

/// Reason why one source did not deliver.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source cannot work on this machine, or lacks the version.
    #[error("skipped: {0}")]
    PassedOver(String),
    /// The attempt failed.
    #[error(fmt = failed)]
    Failed(Failure),
    /// The user interrupted bakeoff.
    #[error("interrupted")]
    Interrupted,
}

fn failed(failure: &Failure, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    to.write_str(&failure.what)?;
    for line in &failure.output {
        write!(to, "\n    | {line}")?;
    }
    match &failure.log {
        Some(log) => write!(to, "\n    log: {} (kept)", log.display()),
        None => Ok(()),
    }
}

/// A failed attempt of a source.
#[derive(Debug, Default)]
pub struct Failure {
    /// Description of the failure, in one line.
    pub what: String,
    /// Last lines of the tool's output.
    pub output: Vec<String>,
    /// File with the full output of the source's tools.
    pub log: Option<PathBuf>,
}

impl SourceError {
    pub(super) fn passed_over(reason: impl fmt::Display) -> Self {
        SourceError::PassedOver(reason.to_string())
    }

    /// Creates a failure without a tool's output.
    pub(super) fn failed(what: impl fmt::Display) -> Self {
        SourceError::Failed(Failure { what: what.to_string(), ..Failure::default() })
    }

    /// Creates the failure of a file operation.
    pub(super) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        SourceError::failed(format!("cannot {doing} `{}`: {error}", path.display()))
    }
}

/// Command that installs Node.js and npm on Debian.
pub(super) const NODE_REMEDY: &str = "apt-get install nodejs npm";
/// Command that installs a Java runtime on Debian.
pub(super) const JAVA_REMEDY: &str = "apt-get install default-jre-headless";
