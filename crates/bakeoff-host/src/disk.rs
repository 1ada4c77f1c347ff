//! Describes the disk under a directory and times durable appends to it.
//!
//! A store that syncs before it acknowledges cannot be faster than a durable append. The record therefore holds the
//! time of a single append, and the rate of appends that share a sync (group commit), for the numbers of clients in
//! use.
//!
//! Not here: the choice of numbers of clients, and round trips (the binary's `machines::baseline`).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::BaselineAppends;
use serde::{Deserialize, Serialize};

use super::HostError;

/// File system, free space and append time of a directory's disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// File system type: `ext4`, `tmpfs`; `unknown` if the kernel does not report it.
    pub filesystem: String,
    /// Free space for this user, in bytes.
    pub free_bytes: u64,
    /// Time of one durable append.
    pub append: AppendLatency,
}

/// Times to append 1 KiB and `fdatasync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendLatency {
    /// Number of timed appends.
    pub count: usize,
    /// Shortest time, which other work on the machine hardly changes.
    pub least: Duration,
    /// Median time.
    pub median: Duration,
    /// 99th percentile; the maximum if there are fewer than 100 appends.
    pub p99: Duration,
}

const APPENDS: usize = 100;
const TIME_MAX: Duration = Duration::from_secs(1);

/// Measures the disk below `dir` for at most a second. Leaves no file behind.
pub fn measure(dir: &Path) -> Result<Disk, HostError> {
    let fail = |what| move |error: rustix::io::Errno| HostError::io(what, dir, error.into());
    let space = rustix::fs::statvfs(dir).map_err(fail("ask for free space"))?;
    // Unnamed, so it disappears with this process.
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

fn time_appends(file: File) -> std::io::Result<AppendLatency> {
    let block = [0x5a; 1024];
    let began = clock::now();
    let mut times = Vec::with_capacity(APPENDS);
    while times.len() < APPENDS && (times.is_empty() || began.elapsed() < TIME_MAX) {
        times.push(time_append(&file, &block, times.len() as u64 * block.len() as u64)?);
    }
    times.sort_unstable();
    let count = times.len();
    // Nearest-rank percentile.
    let rank = |percent: usize| times[(count * percent).div_ceil(100).max(1) - 1];
    Ok(AppendLatency { count, least: times[0], median: rank(50), p99: rank(99) })
}

/// Longest measurement for one number of clients.
pub const COMMITS_FOR: Duration = Duration::from_millis(250);
const ALL_COMMITS_FOR: Duration = Duration::from_millis(1600);
/// Turns for each number of clients. Alternating spreads other short disk activity over all of them.
const TURNS: u32 = 3;
/// Largest single write. Bounds the time that one write may take.
const COMMIT_BYTES_MAX: u64 = 32 << 20;
/// Shortest file, so that syncs of neighbours do not hit the same block.
const COMMIT_FILE_MIN: u64 = 8 << 20;

/// Durable appends to measure, by number of clients that share a write and a sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commits {
    /// Directory for the temporary file.
    pub dir: PathBuf,
    /// Size of one append, in bytes.
    pub bytes: u64,
    /// Numbers of clients. Those whose appends together exceed 32 MiB are skipped.
    pub clients: Vec<u32>,
    /// Longest measurement for one number of clients.
    pub each: Duration,
}

impl Commits {
    /// Measures the append rate for each number of clients, twice. The rate at the median sync ignores short spells of
    /// other load, which do not limit the disk. The rate at the mean sync includes slow syncs, which a store must wait
    /// for as well.
    ///
    /// The file is written in advance and then overwritten from start to end, as logs with reserved space are. No sync
    /// has to change the file's length or blocks. A log that grows is slower.
    ///
    /// # Errors
    /// When the file cannot be created, written or synced.
    pub fn measure(&self, stop: &AtomicBool) -> Result<Vec<BaselineAppends>, HostError> {
        let batch = |clients: u32| u64::from(clients).saturating_mul(self.bytes);
        let fits = |clients: &u32| (1..=COMMIT_BYTES_MAX).contains(&batch(*clients));
        let clients: Vec<u32> = self.clients.iter().copied().filter(fits).collect();
        let longest = clients.iter().copied().map(batch).max().unwrap_or(0);
        let fail = |error| HostError::io("measure the disk in", &self.dir, error);
        let file = tempfile::tempfile_in(&self.dir).map_err(fail)?;
        let length = (2 * longest).max(COMMIT_FILE_MIN);
        let zeros = vec![0; 1 << 20];
        for place in (0..length).step_by(zeros.len()) {
            file.write_all_at(&zeros, place).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        let each = (ALL_COMMITS_FOR / clients.len().max(1) as u32).min(self.each) / TURNS;
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); clients.len()];
        for _ in 0..TURNS {
            for (times, &clients) in times.iter_mut().zip(&clients) {
                if stop.load(Ordering::Relaxed) {
                    return Ok(Vec::new());
                }
                time_commits(&file, length, batch(clients), each, times).map_err(fail)?;
            }
        }
        let point = |(mut times, clients): (Vec<Duration>, u32)| {
            times.sort_unstable();
            let quickest = times.first()?.as_secs_f64();
            let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
            let median = times[(times.len() - 1) / 2].as_secs_f64();
            Some(BaselineAppends {
                clients,
                per_second: f64::from(clients) / median,
                per_second_mean: Some(f64::from(clients) / mean),
                quickest_us: Some(quickest * 1e6),
            })
        };
        Ok(times.into_iter().zip(clients).filter_map(point).collect())
    }
}

/// Adds the times of successive durable writes of `batch` bytes, for `time` and at least once.
fn time_commits(
    file: &File,
    length: u64,
    batch: u64,
    time: Duration,
    times: &mut Vec<Duration>,
) -> std::io::Result<()> {
    let block = vec![0x5a; batch as usize];
    let began = clock::now();
    // Continue at the end of the last turn.
    let mut place = times.len() as u64 * batch % (length - length % batch);
    loop {
        if place + batch > length {
            place = 0;
        }
        times.push(time_append(file, &block, place)?);
        place += batch;
        if began.elapsed() >= time {
            return Ok(());
        }
    }
}

/// Returns the time until this block is durable at this position.
fn time_append(file: &File, block: &[u8], place: u64) -> std::io::Result<Duration> {
    let start = clock::now();
    file.write_all_at(block, place)?;
    rustix::fs::fdatasync(file)?;
    Ok(start.elapsed())
}

fn filesystem(dir: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    find_filesystem(&mounts, &dir.canonicalize().ok()?)
}

/// Returns the type of the mount with the longest path above `dir` (`proc_pid_mountinfo(5)`). The last of several
/// mounts at one path hides the others.
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

/// Decodes the octal escapes of blanks in a path: `\040`.
fn unescape(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (code, plain)| path.replace(code, plain))
}

/// Free bytes below which a disk counts as full: some blocks may be unusable.
const FULL_BELOW: u64 = 64 << 10;

/// Returns true if the disk that holds a folder is full.
pub(super) fn is_full(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|space| space.f_bavail * space.f_frsize < FULL_BELOW)
}

/// Returns the disk space below a directory, in bytes. Returns `None` if it holds more than `most` files and folders.
pub fn space(dir: &Path, most: usize) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;

    let mut bytes = 0;
    let mut files = 0;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        // A server may remove files meanwhile.
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            files += 1;
            if files > most {
                return None;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_a_disk_leaves_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let disk = measure(dir.path()).unwrap();
        assert!(disk.append.count >= 1 && disk.append.median > Duration::ZERO, "{disk:?}");
        assert!(disk.append.p99 >= disk.append.median);
        assert!(disk.free_bytes > 0 && disk.filesystem != "unknown", "{disk:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(measure(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn shared_appends_are_measured_for_each_number_of_clients_that_fits() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let commits = |bytes, clients: &[u32]| Commits {
            dir: dir.path().to_owned(),
            bytes,
            clients: clients.to_vec(),
            each: COMMITS_FOR,
        };
        let points = commits(1280, &[1, 64, 1 << 20]).measure(&stop).unwrap();
        let clients: Vec<u32> = points.iter().map(|point| point.clients).collect();
        assert_eq!(clients, [1, 64]);
        for point in &points {
            let quickest = point.quickest_us.unwrap();
            assert!(point.per_second > 0.0 && quickest > 0.0, "{point:?}");
            // No mean is shorter than the shortest.
            let mean = f64::from(point.clients) / point.per_second * 1e6;
            assert!(mean >= quickest, "{point:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(commits(1280, &[1]).measure(&stop).unwrap(), []);
        assert_eq!(commits(0, &[1]).measure(&stop).unwrap(), []);
    }

    #[test]
    fn file_system_is_that_of_the_deepest_mount() {
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
