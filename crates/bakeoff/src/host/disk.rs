//! What the disk under a directory is, and how long it takes to be sure of a write.
//!
//! The time of a durable append bounds every store that syncs before it acknowledges, so the
//! record keeps it beside the results.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::HostError;
use crate::engine::clock;

/// A directory's disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    /// `ext4`, `tmpfs`; `unknown` when the kernel does not say.
    pub(crate) filesystem: String,
    /// What we may still write.
    pub(crate) free_bytes: u64,
    /// The time of one durable append.
    pub(crate) append: AppendLatency,
}

/// The time to append 1 KiB and `fdatasync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendLatency {
    /// How many were timed.
    pub(crate) count: usize,
    /// Half of them took no longer.
    pub(crate) median: Duration,
    /// 99 of 100 took no longer; the longest of all when there are fewer than a hundred.
    pub(crate) p99: Duration,
}

const APPENDS: usize = 100;
const TIME_MAX: Duration = Duration::from_secs(1);

/// Measures in `dir`, for a second at most, and leaves nothing there.
pub(crate) fn measure(dir: &Path) -> Result<Disk, HostError> {
    let fail = |what| move |error: rustix::io::Errno| HostError::io(what, dir, error.into());
    let space = rustix::fs::statvfs(dir).map_err(fail("ask for free space"))?;
    // Unnamed, so that it goes with us however we end.
    let file = tempfile::tempfile_in(dir)
        .map_err(|error| HostError::io("measure the disk in", dir, error))?;
    let append =
        time_appends(file).map_err(|error| HostError::io("measure the disk in", dir, error))?;
    Ok(Disk {
        filesystem: filesystem(dir).unwrap_or_else(|| "unknown".into()),
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        append,
    })
}

fn time_appends(mut file: File) -> std::io::Result<AppendLatency> {
    let block = [0x5a; 1024];
    let began = clock::now();
    let mut times = Vec::with_capacity(APPENDS);
    while times.len() < APPENDS && (times.is_empty() || began.elapsed() < TIME_MAX) {
        let start = clock::now();
        file.write_all(&block)?;
        rustix::fs::fdatasync(&file)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let count = times.len();
    // Nearest rank: the smallest that a share of all do not exceed.
    let rank = |percent: usize| times[(count * percent).div_ceil(100).max(1) - 1];
    Ok(AppendLatency { count, median: rank(50), p99: rank(99) })
}

fn filesystem(dir: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    find_filesystem(&mounts, &dir.canonicalize().ok()?)
}

/// The type of the mount with the longest path above `dir` (`proc_pid_mountinfo(5)`); of several
/// at one place the last one hides the others.
fn find_filesystem(mounts: &str, dir: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let (before, after) = line.split_once(" - ")?;
        let Some(place) = before.split(' ').nth(4).map(unescape) else { continue };
        let Some(kind) = after.split(' ').next() else { continue };
        if dir.starts_with(&place) && best.is_none_or(|(length, _)| place.len() >= length) {
            best = Some((place.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Blanks in a path stand as octal: `\040`.
fn unescape(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (code, plain)| path.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let disk = measure(dir.path()).unwrap();
        assert!(disk.append.count >= 1 && disk.append.median > Duration::ZERO, "{disk:?}");
        assert!(disk.append.p99 >= disk.append.median);
        assert!(disk.free_bytes > 0 && disk.filesystem != "unknown", "{disk:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(measure(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 0:2 / /srv rw shared:1 - tmpfs tmpfs rw\n\
                      3 1 0:3 / /srv/a\\040b rw - xfs /dev/b rw\n\
                      4 1 0:4 / /srv rw - btrfs /dev/c rw\n";
        let check = |dir: &str, expected: &str| {
            assert_eq!(find_filesystem(mounts, Path::new(dir)).as_deref(), Some(expected), "{dir}");
        };
        check("/", "ext4");
        check("/srvx", "ext4");
        check("/srv/x", "btrfs");
        check("/srv/a b/c", "xfs");
    }
}
