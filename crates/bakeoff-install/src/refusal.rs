//! Reasons why a program that is there will not do.
//!
//! Each text stands after the place of the program: "`etcd` on PATH names no version when asked for it".
//!
//! Not here: why a source did not deliver (`error`).

use std::env::JoinPathsError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::version::VersionRequest;

/// Reason why a program will not do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its path leads nowhere.
    #[error("cannot be found: {0}")]
    NotFound(#[source] io::Error),
    /// There is nothing at its path.
    #[error("does not exist")]
    Missing,
    /// `PATH` has no program of this name.
    #[error("is not on `PATH`")]
    NotOnPath,
    /// It is no file that can be executed.
    #[error("is not an executable file")]
    NotExecutable,
    /// The folder given has no jars.
    #[error("holds no jars, nor does a `lib` in it")]
    NoJars,
    /// A file of it cannot be read: the one of this path, or its only one.
    #[error(fmt = unreadable)]
    Unreadable(Option<PathBuf>, #[source] io::Error),
    /// It lacks something that it needs; in words of its recipe.
    #[error("{0}")]
    Lacks(String),
    /// Its jars make no class path.
    #[error("cannot be a class path: {0}")]
    ClassPath(#[source] JoinPathsError),
    /// It is started by Java, and there is none.
    #[error("needs a Java runtime")]
    NeedsJava,
    /// It was asked for its version and did not answer.
    #[error("does not say its version: {0}")]
    Silent(#[source] AskError),
    /// Its `package.json` does not say its version.
    #[error("does not say its version: `{0}`: {1}")]
    Package(PathBuf, #[source] PackageError),
    /// It answered, and there is no version in that; with the flag that it was asked by, where the user has to know.
    #[error(fmt = no_version)]
    NoVersion(Option<&'static str>),
    /// It was built from Go sources, and does not name this module.
    #[error("holds no build information with a version of {0}")]
    NoBuildInformation(String),
    /// It is another version than the one asked for.
    #[error("says that it is version `{0}`, and `{1}` was asked for")]
    WrongVersion(String, VersionRequest),
    /// The cache's files are not those that were fetched.
    #[error("is not what was fetched: {0}")]
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
        None => to.write_str("names no version when asked for it"),
        Some(flag) => write!(to, "names no version when asked with `{flag}`"),
    }
}

/// Reason why a `package.json` does not say a version.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// It is no JSON.
    #[error("{0}")]
    NotJson(#[source] serde_json::Error),
    /// It has no version.
    #[error("names no version")]
    NoVersion,
}

/// Difference between a file of the cache and the one that was fetched.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// This file cannot be read.
    #[error("`{0}`: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// It has another size, in bytes.
    #[error("`{path}` has {found} bytes, not {fetched}")]
    Size {
        /// The file.
        path: PathBuf,
        /// The size that it has.
        found: u64,
        /// The size that was fetched.
        fetched: u64,
    },
    /// It has another SHA-256.
    #[error("`{path}` has SHA-256 {found}, not {fetched}")]
    Hash {
        /// The file.
        path: PathBuf,
        /// The hash that it has.
        found: String,
        /// The hash of what was fetched.
        fetched: String,
    },
    /// This file was not fetched.
    #[error("`{0}` was not fetched")]
    Extra(PathBuf),
    /// This link is gone, new, or leads elsewhere.
    #[error("the link `{0}` is not the one fetched")]
    Link(PathBuf),
    /// This file was replaced or changed since the run began.
    #[error("`{0}` was changed or replaced since")]
    Changed(PathBuf),
}

/// Reason why a program did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no temporary file to write its answer to.
    #[error("no temporary file: {0}")]
    NoFile(#[source] io::Error),
    /// This program cannot be started.
    #[error("`{0}` cannot be started: {1}")]
    NotStarted(String, #[source] io::Error),
    /// This program did not end within so long.
    #[error("`{0}` did not answer within {limit}", limit = short(*.1))]
    Silent(String, Duration),
    /// The end of this program cannot be waited for.
    #[error("cannot wait for `{0}`: {1}")]
    NotWaitedFor(String, #[source] io::Error),
    /// It failed.
    #[error("`{line}` ended with {ended}: {last}")]
    Failed {
        /// The command line.
        line: String,
        /// How it ended: `exit status 1`.
        ended: String,
        /// The last line that it wrote; empty where it wrote none.
        last: String,
    },
}

/// A duration as a reader wants it: `45s`, `2m 05s`.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    }
}
