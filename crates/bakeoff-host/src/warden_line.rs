//! The line between bakeoff and its warden: how the one names what is left to the other.
//!
//! Not here: writing to it (`launcher`), what the warden does (`warden`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

pub(super) const COMMAND: &str = "__warden";
/// The line that it writes once nothing but its pipe ends it.
pub(super) const READY: &str = "ready\n";
/// The longest that an agent may stay stopped, in seconds.
pub(super) const STOPPED_MAX: u32 = 30;
/// Name of the environment variable that marks what bakeoff started.
pub(super) const MARK: &str = "BAKEOFF_STARTED_BY";
/// The same of the node that a process was started for.
pub(super) const NODE_MARK: &str = "BAKEOFF_NODE";

/// A trace of servers besides their processes, which is left unless somebody removes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leftover {
    /// The folder of a node's data.
    Folder(PathBuf),
    /// A cgroup with groups of nodes in it.
    Group(PathBuf),
}

impl Leftover {
    /// Writes the line by which the warden hears of it. Any bytes but NUL and a slash may be in a file's name.
    pub(super) fn line(&self) -> String {
        let (kind, path) = match self {
            Self::Folder(path) => ("folder", path),
            Self::Group(path) => ("group", path),
        };
        let bytes = path.as_os_str().as_bytes();
        let path: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{kind} {path}\n")
    }

    pub(super) fn read(kind: &str, path: &str) -> Option<Self> {
        let digits = path.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok());
        let bytes: Option<Vec<u8>> = digits.map(|two| u8::from_str_radix(two?, 16).ok()).collect();
        let path = PathBuf::from(OsString::from_vec(bytes?));
        // Another folder could be meant from where the warden is.
        let path = Some(path).filter(|path| path.is_absolute())?;
        Some(if kind == "group" { Self::Group(path) } else { Self::Folder(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_read_as_they_were_written() {
        let odd = PathBuf::from(OsString::from_vec(b"/tmp/a b\n\xff".to_vec()));
        for leftover in [Leftover::Folder(odd.clone()), Leftover::Group(odd)] {
            let line = leftover.line();
            let (kind, path) = line.trim_end().split_once(' ').unwrap();
            assert_eq!(Leftover::read(kind, path), Some(leftover));
        }
        for odd in ["", "2", "zz", "61"] {
            assert_eq!(Leftover::read("folder", odd), None, "{odd}");
        }
    }
}
