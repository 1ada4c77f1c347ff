//! Computes the SHA-256 of files, and remembers it until a file changes.
//!
//! Each run hashes its programs, and each bakeoff hashes itself. About 100 MB cost a tenth of a second of CPU time,
//! mostly for unchanged bytes. `CACHE/hashes/` therefore has a small file per hashed inode. It holds the inode's size,
//! the times of the last change of its bytes (`mtime`) and of the inode (`ctime`), and the hash. The kernel sets
//! `ctime` at each change, and no call sets it back.
//!
//! Some hashes are not remembered:
//! - of files smaller than 1 MiB, because reading the remembered hash takes as long
//! - of files that changed within the last two seconds. The kernel's clock ticks every few milliseconds, and two
//!   changes within one tick get the same time
//! - if the cache is missing, not writable, or writable by another user
//!
//! Not here: the files to hash, and their required hashes (`cache`, `find`).

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bakeoff_files::foreign;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::place;

/// Smallest age of a file's last change at which a further change would show in its times.
const SETTLED: Duration = Duration::from_secs(2);
/// Smallest size of a file whose hash is remembered.
const LEAST_BYTES: u64 = 1 << 20;

/// Returns the SHA-256 of a file, in hexadecimal. Uses the remembered hash if the file has not changed.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let cache = place::of_environment();
    // Another user who can write to the cache could forge a hash.
    let ours = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|found| foreign(&found).is_none());
    match cache.filter(ours) {
        Some(cache) => {
            let folder = cache.join("hashes");
            Memory { folder, settled: SETTLED, least_bytes: LEAST_BYTES }.sha256_of(path)
        }
        None => hash(path),
    }
}

/// Hashes a file's current bytes. Returns the SHA-256 in hexadecimal.
pub(super) fn hash(path: &Path) -> io::Result<String> {
    let mut file = bakeoff_files::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// Returns the SHA-256 of a text, in hexadecimal.
pub(super) fn sha256_of_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Formats bytes in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Memory {
    folder: PathBuf,
    settled: Duration,
    least_bytes: u64,
}

/// Identity, size and times of a file. They differ once the file has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    device: u64,
    inode: u64,
    size: u64,
    /// `mtime`, in nanoseconds since 1970.
    bytes_changed: i128,
    /// `ctime`, in nanoseconds since 1970.
    inode_changed: i128,
}

#[derive(Serialize, Deserialize)]
struct KnownHash {
    state: State,
    sha256: String,
}

impl Memory {
    fn sha256_of(&self, path: &Path) -> io::Result<String> {
        let state = State::read(&fs::metadata(path)?);
        if state.size < self.least_bytes {
            return hash(path);
        }
        let place = self.folder.join(format!("{:x}-{:x}", state.device, state.inode));
        let known = fs::read(&place).ok();
        let known = known.and_then(|bytes| serde_json::from_slice::<KnownHash>(&bytes).ok());
        if let Some(known) = known.filter(|known| known.state == state) {
            return Ok(known.sha256);
        }
        // The note is created before the file is read. From the note's time on, the file must not change.
        let noted = self.note();
        let sha256 = hash(path)?;
        if let Ok((note, now)) = noted
            && now - state.inode_changed >= self.settled.as_nanos() as i128
            && State::read(&fs::metadata(path)?) == state
        {
            let known = KnownHash { state, sha256: sha256.clone() };
            // If this fails, the file is hashed again next time.
            let _ = keep(note, &known, &place);
        }
        Ok(sha256)
    }

    /// Creates a file to store a hash in. Returns it with its creation time, in nanoseconds since 1970.
    fn note(&self) -> io::Result<(NamedTempFile, i128)> {
        if !self.folder.is_dir() {
            DirBuilder::new().mode(0o700).create(&self.folder)?;
        }
        let note = NamedTempFile::new_in(&self.folder)?;
        let now = State::read(&note.as_file().metadata()?).inode_changed;
        Ok((note, now))
    }
}

impl State {
    pub(super) fn read(file: &Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            bytes_changed: nanoseconds(file.mtime(), file.mtime_nsec()),
            inode_changed: nanoseconds(file.ctime(), file.ctime_nsec()),
        }
    }
}

fn keep(mut note: NamedTempFile, known: &KnownHash, place: &Path) -> io::Result<()> {
    note.write_all(&serde_json::to_vec(known)?)?;
    note.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const OF_ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

    fn memory(folder: &Path, settled: Duration) -> Memory {
        Memory { folder: folder.join("hashes"), settled, least_bytes: 3 }
    }

    /// Replaces the remembered hash and returns the former one; `None` if none is remembered.
    fn replaced(memory: &Memory, sha256: &str) -> Option<String> {
        let place = fs::read_dir(&memory.folder).ok()?.flatten().next()?.path();
        let known: KnownHash = serde_json::from_slice(&fs::read(&place).ok()?).unwrap();
        let stands_for = KnownHash { sha256: sha256.to_owned(), ..known };
        fs::write(place, serde_json::to_vec(&stands_for).unwrap()).unwrap();
        Some(known.sha256)
    }

    #[test]
    fn changed_file_is_hashed_again() {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(dir.path(), Duration::ZERO);
        let file = dir.path().join("program");
        fs::write(&file, "one").unwrap();
        let known = |sha256: &str| {
            let first = memory.sha256_of(&file).unwrap();
            (first, replaced(&memory, sha256), memory.sha256_of(&file).unwrap())
        };
        // A forged remembered hash is returned unchanged, so the test can distinguish remembered from computed hashes.
        let of_one = || OF_ONE.to_owned();
        assert_eq!(known("remembered"), (of_one(), Some(of_one()), "remembered".to_owned()));
        // Other bytes of the same length, in another tick of the clock.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&file, "two").unwrap();
        let changed = memory.sha256_of(&file).unwrap();
        assert_eq!(changed, hash(&file).unwrap());
        // The same bytes and `mtime`, but another `ctime`.
        let before = file.metadata().unwrap().modified().unwrap();
        replaced(&memory, "remembered").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let written = File::options().write(true).open(&file).unwrap();
        written.set_modified(before).unwrap();
        assert_eq!(memory.sha256_of(&file).unwrap(), changed);
        // Another file at the same path.
        fs::write(dir.path().join("new"), "one").unwrap();
        fs::rename(dir.path().join("new"), &file).unwrap();
        assert_eq!(memory.sha256_of(&file).unwrap(), OF_ONE);
    }

    #[test]
    fn recently_changed_file_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory(dir.path(), Duration::from_secs(3600));
        let file = dir.path().join("program");
        fs::write(&file, "one").unwrap();
        assert_eq!(memory.sha256_of(&file).unwrap(), OF_ONE);
        assert_eq!(replaced(&memory, "remembered"), None);
        assert_eq!(fs::read_dir(&memory.folder).unwrap().count(), 0);
    }

    #[test]
    fn small_file_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory { least_bytes: 4, ..memory(dir.path(), Duration::ZERO) };
        let file = dir.path().join("program");
        fs::write(&file, "one").unwrap();
        assert_eq!(memory.sha256_of(&file).unwrap(), OF_ONE);
        assert!(!memory.folder.exists());
    }

    #[test]
    fn file_is_hashed_if_nothing_can_be_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "one").unwrap();
        let memory = memory(&file, Duration::ZERO);
        assert_eq!(memory.sha256_of(&file).unwrap(), OF_ONE);
        assert!(memory.sha256_of(&dir.path().join("none")).is_err());
        // A remembered hash that is invalid.
        let memory = Memory { folder: dir.path().to_owned(), ..memory };
        let state = State::read(&file.metadata().unwrap());
        let place = dir.path().join(format!("{:x}-{:x}", state.device, state.inode));
        fs::write(&place, b"\xff{").unwrap();
        assert_eq!(memory.sha256_of(&file).unwrap(), OF_ONE);
    }
}
