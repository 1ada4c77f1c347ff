//! Detects another bakeoff on this machine with a file lock, without waiting for it.
//!
//! Each measuring bakeoff holds a read lock on one small file while it runs. A query for a write lock (`F_GETLK`, which
//! takes no lock) then reveals another holder. The kernel releases the lock when its process ends.
//!
//! Not here: other use of the CPUs (core's `check::machine`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

/// Path of the lock file: the same for all users, whatever their `TMPDIR`.
const FILE: &str = "/tmp/bakeoff-works-here";

/// Marks this bakeoff as measuring until it is dropped.
#[derive(Debug)]
pub struct Presence {
    /// The locked file; `None` if it cannot be locked, so other bakeoffs are unknown.
    file: Option<File>,
}

impl Presence {
    /// Takes the lock. Use at most one per process.
    pub fn announce() -> Self {
        Self { file: held(Path::new(FILE)).ok() }
    }

    /// Returns true if another process holds the lock; `false` if that cannot be determined.
    pub fn is_another(&self) -> bool {
        let asked = Flock {
            start: 0,
            length: 0,
            pid: None,
            typ: FlockType::WriteLock,
            offset_type: FlockOffsetType::Set,
        };
        let found = self.file.as_ref().map(|file| fcntl_getlk(file, &asked));
        matches!(found, Some(Ok(Some(_))))
    }
}

/// Opens the file, which may belong to another user and is never written, and takes a shared lock.
fn held(path: &Path) -> io::Result<File> {
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let existing = OpenOptions::new().read(true).custom_flags(no_link).open(path);
    let file = existing.or_else(|_| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o644).open(path)
    })?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockShared)?;
    Ok(file)
}
