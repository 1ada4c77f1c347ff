//! Writes and replays the canary's log: every write in order, with a checksum.
//!
//! A record is a CRC-32 of the rest, a kind, two lengths (little-endian), the key and the value. Each commit begins with
//! a record of its number. A power cut may keep any part of the last commit, which was never acknowledged under
//! `--sync each`: it is removed from its first bad record on. A bad record with a later commit after it means that the
//! disk or a person changed the file. Such a file is rejected.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::Durability;

const MAGIC: &[u8] = b"bakeoff canary log 2\n";
const FILE: &str = "canary.log";
/// CRC-32, kind, length of key, length of value.
const HEADER: usize = 4 + 1 + 4 + 4;
/// Kind of the record that begins a commit. Its key is the commit's number, and it has no value.
const COMMIT: u8 = b'c';
const COMMIT_SIZE: usize = HEADER + 8;
/// Maximum length of a key or value. It is far above all accepted sizes; more means damage.
const LENGTH_MAX: u32 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        key: &'a [u8],
    },
    /// Puts of one transaction, as frames.
    PutAll {
        frames: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReplayResult {
    pub(super) records: u64,
    /// Bytes of an incomplete record, now removed.
    pub(super) torn_bytes: u64,
}

pub(super) struct Log {
    file: File,
    /// Number of the next commit.
    next: u64,
    pending: Vec<u8>,
    durability: Durability,
}

impl Log {
    /// Opens or creates the log in `dir` and replays it.
    pub(super) fn open(
        dir: &Path,
        durability: Durability,
        apply: impl FnMut(Entry<'_>),
    ) -> io::Result<(Self, ReplayResult)> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(FILE);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        // Two canaries on one log would miss each other's writes.
        if !is_locked(&file) {
            return Err(io::Error::other(format!("`{}` is in use", path.display())));
        }
        let size = file.metadata()?.len();
        let (found, next) = replay(&file, size, apply)
            .map_err(|e| io::Error::new(e.kind(), format!("`{}`: {e}", path.display())))?;
        file.set_len(size - found.torn_bytes)?;
        if size == found.torn_bytes {
            file.write_all(MAGIC)?;
        }
        if durability == Durability::SyncEachWrite {
            file.sync_all()?;
            // The directory holds the file's name and has its own sync.
            File::open(dir)?.sync_all()?;
        }
        Ok((Self { file, next, pending: Vec::new(), durability }, found))
    }

    /// Adds a write to the next commit.
    pub(super) fn append(&mut self, entry: Entry<'_>) {
        let (kind, key, value) = match entry {
            Entry::Put { key, value } => (b'p', key, value),
            Entry::Delete { key } => (b'd', key, &[][..]),
            Entry::PutAll { frames } => (b'm', &[][..], frames),
        };
        if self.pending.is_empty() {
            record(&mut self.pending, COMMIT, &self.next.to_le_bytes(), &[]);
            self.next += 1;
        }
        record(&mut self.pending, kind, key, value);
    }

    /// Writes the appended records, synced if so configured, and returns their bytes. No answer may be sent before.
    /// After an error the log's end is unknown, and the server must stop.
    pub(super) fn commit(&mut self) -> io::Result<usize> {
        self.write_pending().map_err(|e| io::Error::new(e.kind(), format!("`{FILE}`: {e}")))
    }

    fn write_pending(&mut self) -> io::Result<usize> {
        const KEEP: usize = 4 << 20;
        let bytes = self.pending.len();
        if bytes > 0 {
            self.file.write_all(&self.pending)?;
            self.pending.clear();
            self.pending.shrink_to(KEEP);
            if self.durability == Durability::SyncEachWrite {
                rustix::fs::fdatasync(&self.file)?;
            }
        }
        Ok(bytes)
    }
}

/// Locks the log, with retries for half a second: a child that is starting holds a copy of a released lock until it
/// runs its program.
fn is_locked(file: &File) -> bool {
    (0..50).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Adds a record.
fn record(to: &mut Vec<u8>, kind: u8, key: &[u8], value: &[u8]) {
    let start = to.len();
    to.extend([0; 4]);
    to.push(kind);
    to.extend((key.len() as u32).to_le_bytes());
    to.extend((value.len() as u32).to_le_bytes());
    to.extend(key);
    to.extend(value);
    let sum = crc32(&to[start + 4..]);
    to[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Applies all records. Also returns the number of the next commit.
fn replay(
    file: &File,
    size: u64,
    mut apply: impl FnMut(Entry<'_>),
) -> io::Result<(ReplayResult, u64)> {
    let mut found = ReplayResult::default();
    let mut next = 1;
    let mut from = BufReader::with_capacity(1 << 20, file);
    let mut magic = Vec::new();
    from.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != MAGIC {
        if MAGIC.starts_with(&magic) {
            // The process ended before it wrote all of the first bytes.
            return Ok((ReplayResult { torn_bytes: size, ..found }, next));
        }
        return Err(io::Error::other("is not a canary log"));
    }
    let mut good = MAGIC.len() as u64;
    let mut rest = Vec::new();
    while good < size {
        let left = size - good;
        let torn = (ReplayResult { torn_bytes: left, ..found }, next);
        let mut header = [0; HEADER];
        if left < HEADER as u64 {
            return Ok(torn);
        }
        from.read_exact(&mut header)?;
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4"));
        let (sum, kind, key, value) = (number(0), header[4], number(5), number(9));
        let length = HEADER as u64 + u64::from(key) + u64::from(value);
        rest.clear();
        rest.extend(&header[4..]);
        let damaged = || io::Error::other(format!("the record at byte {good} is damaged"));
        if key <= LENGTH_MAX && value <= LENGTH_MAX {
            from.by_ref().take(length - HEADER as u64).read_to_end(&mut rest)?;
        }
        let is_whole = rest.len() as u64 + 4 == length;
        if !is_whole || crc32(&rest) != sum {
            from.read_to_end(&mut rest)?;
            return if has_commit_after(&rest, next) { Err(damaged()) } else { Ok(torn) };
        }
        let (key, value) = rest[HEADER - 4..].split_at(key as usize);
        match kind {
            COMMIT if key.len() == 8 => {
                next = key.try_into().map_or(next, u64::from_le_bytes) + 1;
                good += length;
                continue;
            }
            b'p' => apply(Entry::Put { key, value }),
            b'd' => apply(Entry::Delete { key }),
            b'm' => apply(Entry::PutAll { frames: value }),
            _ => return Err(damaged()),
        }
        found.records += 1;
        good += length;
    }
    Ok((found, next))
}

/// Returns true if the bytes hold the beginning of commit `next` or a later one. All before it was synced then.
fn has_commit_after(bytes: &[u8], next: u64) -> bool {
    bytes.windows(COMMIT_SIZE).any(|window| {
        let (sum, rest) = window.split_at(4);
        let number = &rest[HEADER - 4..];
        rest[0] == COMMIT
            && crc32(rest).to_le_bytes() == sum
            && u64::from_le_bytes(number.try_into().expect("8")) >= next
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path) -> Vec<u8> {
        let (mut log, _) = Log::open(dir, Durability::PageCache, |_| {}).unwrap();
        log.append(Entry::Put { key: b"a", value: b"1" });
        log.append(Entry::Delete { key: b"a" });
        log.commit().unwrap();
        log.append(Entry::Put { key: b"bb", value: b"" });
        log.commit().unwrap();
        std::fs::read(dir.join(FILE)).unwrap()
    }

    fn replayed(dir: &Path) -> io::Result<(Vec<String>, ReplayResult)> {
        let mut seen = Vec::new();
        let (_, found) =
            Log::open(dir, Durability::PageCache, |entry| seen.push(format!("{entry:?}")))?;
        Ok((seen, found))
    }

    #[test]
    fn replay_returns_commits_in_order() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path());
        let (seen, found) = replayed(dir.path()).unwrap();
        assert_eq!(found, ReplayResult { records: 3, torn_bytes: 0 });
        assert_eq!(seen[0], format!("{:?}", Entry::Put { key: b"a", value: b"1" }));
        assert_eq!(seen[1], format!("{:?}", Entry::Delete { key: b"a" }));
    }

    #[test]
    fn truncated_log_keeps_complete_records() {
        let dir = tempfile::tempdir().unwrap();
        let whole = write(dir.path());
        let path = dir.path().join(FILE);
        let first = MAGIC.len() + COMMIT_SIZE;
        let ends = [MAGIC.len(), first + 15, first + 29, whole.len()];
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (seen, _) = replayed(dir.path()).unwrap();
            let expected = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
            assert_eq!(seen.len(), expected, "cut at {cut}");
            // The incomplete record is gone, and the log can be written again.
            let (again, found) = replayed(dir.path()).unwrap();
            assert_eq!((again.len(), found.torn_bytes), (expected, 0), "cut at {cut}");
        }
    }

    #[test]
    fn bad_last_record_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let whole = write(dir.path());
        let mut wrong = whole.clone();
        *wrong.last_mut().unwrap() ^= 1;
        std::fs::write(dir.path().join(FILE), &wrong).unwrap();
        assert_eq!(replayed(dir.path()).unwrap().0.len(), 2);
        let zeros = [&whole[..], &[0; 40_000]].concat();
        std::fs::write(dir.path().join(FILE), zeros).unwrap();
        let found = replayed(dir.path()).unwrap().1;
        assert_eq!(found, ReplayResult { records: 3, torn_bytes: 40_000 });
    }

    #[test]
    fn last_commit_may_be_kept_in_any_part() {
        let dir = tempfile::tempdir().unwrap();
        let before = write(dir.path()).len();
        let path = dir.path().join(FILE);
        let (mut log, _) = Log::open(dir.path(), Durability::PageCache, |_| {}).unwrap();
        for key in [b"x", b"y", b"z"] {
            log.append(Entry::Put { key, value: &[7; 3000] });
        }
        log.commit().unwrap();
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        for (from, to, kept) in [(before, 4096, 3), (4096, 8192, 4), (before, whole.len(), 3)] {
            let mut lost = whole.clone();
            lost[from..to].fill(0);
            std::fs::write(&path, &lost).unwrap();
            let (seen, _) = replayed(dir.path()).unwrap();
            assert_eq!(seen.len(), kept, "without {from} to {to}");
            let (again, found) = replayed(dir.path()).unwrap();
            assert_eq!((again.len(), found.torn_bytes), (kept, 0));
        }
    }

    #[test]
    fn damage_before_the_end_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = write(dir.path());
        bytes[MAGIC.len() + HEADER] ^= 1;
        std::fs::write(dir.path().join(FILE), &bytes).unwrap();
        let error = replayed(dir.path()).unwrap_err().to_string();
        assert!(error.contains("the record at byte 21 is damaged"), "{error}");
        assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), bytes);
    }

    #[test]
    fn rejects_a_file_that_is_not_a_log() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "another file that matters to its owner").unwrap();
        assert!(replayed(dir.path()).unwrap_err().to_string().contains("not a canary log"));
    }

    #[test]
    fn two_canaries_cannot_share_a_log() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Log::open(dir.path(), Durability::PageCache, |_| {}).unwrap();
        assert!(replayed(dir.path()).unwrap_err().to_string().contains("is in use"));
    }
}
