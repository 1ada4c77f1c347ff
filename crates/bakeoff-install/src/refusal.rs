//! Reasons why a program that is there will not do.
//!
//! Each text stands after the place of the program: "`etcd` on PATH names no version when asked for it".
//!
//! Not here: why a source did not deliver (`error`).

use std::env::JoinPathsError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::version::VersionRequest;

/// Reason why a program will not do.
#[derive(Debug)]
pub enum Refusal {
    /// Its path leads nowhere.
    NotFound(io::Error),
    /// There is nothing at its path.
    Missing,
    /// `PATH` has no program of this name.
    NotOnPath,
    /// It is no file that can be executed.
    NotExecutable,
    /// The folder given has no jars.
    NoJars,
    /// A file of it cannot be read: the one of this path, or its only one.
    Unreadable(Option<PathBuf>, io::Error),
    /// It lacks something that it needs; in words of its recipe.
    Lacks(String),
    /// Its jars make no class path.
    ClassPath(JoinPathsError),
    /// It is started by Java, and there is none.
    NeedsJava,
    /// It was asked for its version and did not answer.
    Silent(AskError),
    /// Its `package.json` does not say its version.
    Package(PathBuf, PackageError),
    /// It answered, and there is no version in that; with the flag that it was asked by, where the user has to know.
    NoVersion(Option<&'static str>),
    /// It was built from Go sources, and does not name this module.
    NoBuildInformation(String),
    /// It is another version than the one asked for.
    WrongVersion(String, VersionRequest),
    /// The cache's files are not those that were fetched.
    Damaged(Damage),
}

/// Reason why a `package.json` does not say a version.
#[derive(Debug)]
pub enum PackageError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is no JSON.
    NotJson(serde_json::Error),
    /// It has no version.
    NoVersion,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => write!(to, "cannot be found: {error}"),
            Self::Missing => to.write_str("does not exist"),
            Self::NotOnPath => to.write_str("is not on `PATH`"),
            Self::NotExecutable => to.write_str("is not an executable file"),
            Self::NoJars => to.write_str("holds no jars, nor does a `lib` in it"),
            Self::Unreadable(None, error) => write!(to, "cannot be read: {error}"),
            Self::Unreadable(Some(path), error) => {
                write!(to, "cannot be read: `{}`: {error}", path.display())
            }
            Self::Lacks(what) => to.write_str(what),
            Self::ClassPath(error) => write!(to, "cannot be a class path: {error}"),
            Self::NeedsJava => to.write_str("needs a Java runtime"),
            Self::Silent(error) => write!(to, "does not say its version: {error}"),
            Self::Package(path, error) => {
                write!(to, "does not say its version: `{}`: {error}", path.display())
            }
            Self::NoVersion(None) => to.write_str("names no version when asked for it"),
            Self::NoVersion(Some(flag)) => write!(to, "names no version when asked with `{flag}`"),
            Self::NoBuildInformation(module) => {
                write!(to, "holds no build information with a version of {module}")
            }
            Self::WrongVersion(version, wanted) => {
                write!(to, "says that it is version `{version}`, and `{wanted}` was asked for")
            }
            Self::Damaged(damage) => write!(to, "is not what was fetched: {damage}"),
        }
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotFound(error) | Self::Unreadable(_, error) => Some(error),
            Self::ClassPath(error) => Some(error),
            Self::Silent(error) => Some(error),
            Self::Package(_, error) => Some(error),
            Self::Damaged(damage) => Some(damage),
            _ => None,
        }
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(to),
            Self::NotJson(error) => error.fmt(to),
            Self::NoVersion => to.write_str("names no version"),
        }
    }
}

impl Error for PackageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            Self::NotJson(error) => Some(error),
            Self::NoVersion => None,
        }
    }
}

/// Difference between a file of the cache and the one that was fetched.
#[derive(Debug)]
pub enum Damage {
    /// This file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It has another size, in bytes.
    Size {
        /// The file.
        path: PathBuf,
        /// The size that it has.
        found: u64,
        /// The size that was fetched.
        fetched: u64,
    },
    /// It has another SHA-256.
    Hash {
        /// The file.
        path: PathBuf,
        /// The hash that it has.
        found: String,
        /// The hash of what was fetched.
        fetched: String,
    },
    /// This file was not fetched.
    Extra(PathBuf),
    /// This link is gone, new, or leads elsewhere.
    Link(PathBuf),
    /// This file was replaced or changed since the run began.
    Changed(PathBuf),
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(to, "`{}`: {error}", path.display()),
            Self::Size { path, found, fetched } => {
                write!(to, "`{}` has {found} bytes, not {fetched}", path.display())
            }
            Self::Hash { path, found, fetched } => {
                write!(to, "`{}` has SHA-256 {found}, not {fetched}", path.display())
            }
            Self::Extra(path) => write!(to, "`{}` was not fetched", path.display()),
            Self::Link(path) => write!(to, "the link `{}` is not the one fetched", path.display()),
            Self::Changed(path) => {
                write!(to, "`{}` was changed or replaced since", path.display())
            }
        }
    }
}

impl Error for Damage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable(_, error) => Some(error),
            Self::Size { .. }
            | Self::Hash { .. }
            | Self::Extra(_)
            | Self::Link(_)
            | Self::Changed(_) => None,
        }
    }
}

/// Reason why a program did not answer.
#[derive(Debug)]
pub enum AskError {
    /// There is no temporary file to write its answer to.
    NoFile(io::Error),
    /// This program cannot be started.
    NotStarted(String, io::Error),
    /// This program did not end within so long.
    Silent(String, Duration),
    /// The end of this program cannot be waited for.
    NotWaitedFor(String, io::Error),
    /// It failed.
    Failed {
        /// The command line.
        line: String,
        /// How it ended: `exit status 1`.
        ended: String,
        /// The last line that it wrote; empty where it wrote none.
        last: String,
    },
}

impl fmt::Display for AskError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile(error) => write!(to, "no temporary file: {error}"),
            Self::NotStarted(program, error) => {
                write!(to, "`{program}` cannot be started: {error}")
            }
            Self::Silent(program, limit) => {
                write!(to, "`{program}` did not answer within {}", short(*limit))
            }
            Self::NotWaitedFor(program, error) => {
                write!(to, "cannot wait for `{program}`: {error}")
            }
            Self::Failed { line, ended, last } => write!(to, "`{line}` ended with {ended}: {last}"),
        }
    }
}

impl Error for AskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoFile(error) | Self::NotStarted(_, error) | Self::NotWaitedFor(_, error) => {
                Some(error)
            }
            Self::Silent(..) | Self::Failed { .. } => None,
        }
    }
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
