//! The protocol between bakeoff and its warden.
//!
//! Not here: sending (`launcher`), the warden itself (`warden`).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

pub(super) const COMMAND: &str = "__warden";
/// Line that the warden prints once it ignores signals and only its pipe ends it.
pub(super) const READY: &str = "ready\n";
/// Longest time that an agent may stay stopped, in seconds.
pub(super) const STOPPED_MAX: u32 = 30;
/// Environment variable that marks every process that bakeoff started.
pub(super) const MARK: &str = "BAKEOFF_STARTED_BY";
/// Environment variable that marks the node a process belongs to.
pub(super) const NODE_MARK: &str = "BAKEOFF_NODE";

/// Something other than a process that a server leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leftover {
    /// The directory of a node, or another folder.
    Folder(PathBuf),
    /// A cgroup with the groups of nodes.
    Group(PathBuf),
}

impl Leftover {
    /// Encodes the line for the warden. The path is in hexadecimal, because a file name may hold any byte but NUL and
    /// `/`.
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
        // The warden's working directory differs, so a relative path could name another folder.
        let path = Some(path).filter(|path| path.is_absolute())?;
        Some(if kind == "group" { Self::Group(path) } else { Self::Folder(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_survive_a_round_trip() {
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
