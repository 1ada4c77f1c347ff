//! Reasons why a program that was found is unsuitable.
//!
//! Each text follows the place of the program: "`etcd` on PATH prints no version".
//!
//! Not here: why a source did not deliver (`error`).

use std::env::JoinPathsError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::version::VersionRequest;

/// Reason why a program is unsuitable.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The path cannot be resolved.
    #[error("cannot be found: {0}")]
    NotFound(#[source] io::Error),
    /// Nothing is at the path.
    #[error("does not exist")]
    Missing,
    /// `PATH` has no program of this name.
    #[error("is not on `PATH`")]
    NotOnPath,
    /// The path is not an executable file.
    #[error("is not an executable file")]
    NotExecutable,
    /// The folder of the user's program has no jars.
    #[error("contains no jars, directly or in `lib`")]
    NoJars,
    /// A file cannot be read. Without a path, it is the program's only file.
    #[error(fmt = unreadable)]
    Unreadable(Option<PathBuf>, #[source] io::Error),
    /// Files that the program needs are missing. The recipe supplies the text.
    #[error("{0}")]
    Lacks(String),
    /// The jars' paths cannot be joined to a class path.
    #[error("cannot be a class path: {0}")]
    ClassPath(#[source] JoinPathsError),
    /// The program needs Java, and the search found none.
    #[error("needs a Java runtime")]
    NeedsJava,
    /// The command that prints the version failed.
    #[error("does not report its version: {0}")]
    Silent(#[source] AskError),
    /// The `package.json` next to the script has no version.
    #[error("does not report its version: `{0}`: {1}")]
    Package(PathBuf, #[source] PackageError),
    /// The output contains no version. Holds the flag that bakeoff used, if the message should name it.
    #[error(fmt = no_version)]
    NoVersion(Option<&'static str>),
    /// The Go build information does not name this module.
    #[error("contains no Go build information with a version of {0}")]
    NoBuildInformation(String),
    /// The version is not the requested one.
    #[error("reports version `{0}`, but `{1}` was requested")]
    WrongVersion(String, VersionRequest),
    /// Files in the cache differ from the fetched ones.
    #[error("has changed since it was fetched: {0}")]
    Damaged(#[source] Damage),
}

fn unreadable(
    path: &Option<PathBuf>,
    error: &io::Error,
    to: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match path {
        None => write!(to, "cannot be read: {error}"),
        Some(path) => write!(to, "cannot be read: `{}`: {error}", path.display()),
    }
}

fn no_version(flag: &Option<&str>, to: &mut fmt::Formatter<'_>) -> fmt::Result {
    match flag {
        None => to.write_str("prints no version"),
        Some(flag) => write!(to, "prints no version for `{flag}`"),
    }
}

/// Reason why a `package.json` gives no version.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The file is not valid JSON.
    #[error("{0}")]
    NotJson(#[source] serde_json::Error),
    /// `version` is missing or invalid.
    #[error("it has no valid `version`")]
    NoVersion,
}

/// Difference between a file and its fetched or sealed state.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file cannot be read.
    #[error("`{0}`: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The sizes differ.
    #[error("`{path}` has {found} bytes, not {fetched}")]
    Size {
        /// Path of the file.
        path: PathBuf,
        /// Current size, in bytes.
        found: u64,
        /// Size when fetched, in bytes.
        fetched: u64,
    },
    /// The SHA-256 hashes differ.
    #[error("`{path}` has SHA-256 {found}, not {fetched}")]
    Hash {
        /// Path of the file.
        path: PathBuf,
        /// Current hash, in hexadecimal.
        found: String,
        /// Hash when fetched, in hexadecimal.
        fetched: String,
    },
    /// The manifest does not list this file.
    #[error("`{0}` was added")]
    Extra(PathBuf),
    /// A link is new or missing, or its target has changed.
    #[error("the link `{0}` was added, removed or changed")]
    Link(PathBuf),
    /// The file was replaced or changed since it was sealed.
    #[error("`{0}` was changed or replaced since")]
    Changed(PathBuf),
}

/// Reason why a program's output could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The temporary file for its output cannot be created.
    #[error("cannot create a temporary file: {0}")]
    NoFile(#[source] io::Error),
    /// The program cannot be started.
    #[error("cannot start `{0}`: {1}")]
    NotStarted(String, #[source] io::Error),
    /// The program did not end within this time.
    #[error("`{0}` did not answer within {limit}", limit = short(*.1))]
    Silent(String, Duration),
    /// The program's exit status cannot be read.
    #[error("cannot wait for `{0}`: {1}")]
    NotWaitedFor(String, #[source] io::Error),
    /// The program failed.
    #[error("`{line}` ended with {ended}: {last}")]
    Failed {
        /// Command line.
        line: String,
        /// Exit code or signal: `exit code 1`.
        ended: String,
        /// Last line of its output; empty without output.
        last: String,
    },
}

/// Formats a duration for readers: `45s`, `2m 05s`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    }
}
