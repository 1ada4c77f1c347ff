//! Defines the errors of `cargo xtask cluster`.
//!
//! Each message gives the failure, the observed state, the location of the evidence, and a hint.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_install::InstallError;

use crate::oci::ImageError;

#[derive(Debug)]
pub(super) enum ClusterError {
    /// The command line is invalid.
    Usage(String),
    /// The machine lacks something that a cluster needs.
    Machine(Vec<Lack>),
    /// An operation on a file or folder failed.
    File { doing: &'static str, path: PathBuf, error: io::Error },
    /// A program cannot be started.
    Start { program: String, error: io::Error },
    /// A program failed.
    Ended { program: String, how: String, last: String },
    /// A program exceeded its time limit.
    TooLong { program: String, within: Duration },
    /// A condition was not met in time.
    NotReady { what: String, within: Duration, log: PathBuf, last: String },
    /// A server of the cluster exited.
    ServerEnded { name: String, log: PathBuf, last: String },
    /// Another process holds the lock.
    Locked { lock: PathBuf, within: Duration },
    /// No cluster is up.
    NotUp { run: PathBuf },
    /// Something of the cluster remains after the clean-up.
    Left { what: Vec<String> },
    /// A certificate could not be created.
    Certificates(rcgen::Error),
    /// An image could not be created.
    Image(ImageError),
    /// A recipe could not install a program.
    Install(InstallError),
    /// There is no folder for the cache.
    NoCache,
}

/// Something that the machine lacks, with a hint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) what: String,
    pub(super) hint: String,
}

impl Lack {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    /// Returns the lack of a program that is not on `PATH`.
    pub(super) fn of_tool(tool: &str, hint: &str) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
        (!is_there).then(|| Self::new(format!("`{tool}` not found on PATH"), hint))
    }
}

impl ClusterError {
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { doing, path, error }
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => write!(f, "{why}\nhint: `cargo xtask` prints the usage"),
            Self::Machine(lacks) => {
                f.write_str("no Kubernetes cluster can be started here")?;
                for Lack { what, hint } in lacks {
                    write!(f, "\n  {what}\n    hint: {hint}")?;
                }
                Ok(())
            }
            Self::File { doing, path, error } => {
                write!(f, "cannot {doing} `{}`: {error}", path.display())
            }
            Self::Start { program, error } => write!(f, "cannot run `{program}`: {error}"),
            Self::Ended { program, how, last } => {
                write!(f, "`{program}` ended with {how}{}", indented(last))
            }
            Self::TooLong { program, within } => {
                write!(f, "`{program}` did not finish within {within:?}")
            }
            Self::NotReady { what, within, log, last } => write!(
                f,
                "{what} was not ready within {within:?}\n  log: {} (kept){}\n\
                 hint: a busy machine needs longer; try again",
                log.display(),
                indented(last)
            ),
            Self::ServerEnded { name, log, last } => write!(
                f,
                "{name} exited unexpectedly\n  log: {} (kept){}",
                log.display(),
                indented(last)
            ),
            Self::Locked { lock, within } => write!(
                f,
                "another `cargo xtask cluster` has held `{}` for {within:?}\n\
                 hint: wait for it, or end it",
                lock.display()
            ),
            Self::NotUp { run } => write!(
                f,
                "no cluster is up in `{}`\nhint: `cargo xtask cluster up`",
                run.display()
            ),
            Self::Left { what } => write!(
                f,
                "the cluster was ended, but something remains{}\nhint: `cargo xtask cluster down` again",
                indented(&what.join("\n"))
            ),
            Self::Certificates(error) => write!(f, "cannot create certificates: {error}"),
            Self::Image(error) => error.fmt(f),
            Self::Install(error) => error.fmt(f),
            Self::NoCache => f.write_str(
                "no folder for bakeoff's cache: none of BAKEOFF_CACHE, XDG_CACHE_HOME and HOME is set\n\
                 hint: set BAKEOFF_CACHE to a writable folder",
            ),
        }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n  {line}")).collect()
}

impl From<ImageError> for ClusterError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<InstallError> for ClusterError {
    fn from(error: InstallError) -> Self {
        Self::Install(error)
    }
}

impl From<rcgen::Error> for ClusterError {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificates(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_a_missing_program() {
        let lack = Lack::of_tool("no-such-program-at-all", "install it").unwrap();
        assert_eq!(lack.what, "`no-such-program-at-all` not found on PATH");
        assert_eq!(Lack::of_tool("sh", ""), None);
    }
}
