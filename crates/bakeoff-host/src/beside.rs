//! Whether another bakeoff works on this machine: a lock that is asked about and never waited for.
//!
//! Each bakeoff that measures holds a read lock on one small file for as long as it runs. Asking for a
//! write lock (`F_GETLK`, which takes none) names a process that holds one too. The kernel gives the lock back
//! when its process ends, however it does.
//!
//! Not here: whether others used the CPUs (core's `check::machine`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

/// Where the lock is: the same for all users, whatever their own temporary folder is.
const FILE: &str = "/tmp/bakeoff-works-here";

/// Says to other bakeoffs that this one measures, until it is dropped.
#[derive(Debug)]
pub struct Presence {
    /// `None` where the file cannot be had, so that nothing is known.
    file: Option<File>,
}

impl Presence {
    /// Begins to say so. A process has one of these at most.
    pub fn announce() -> Self {
        Self { file: held(Path::new(FILE)).ok() }
    }

    /// Returns whether another process says the same; `false` where that cannot be known.
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

/// Opens the file, which may be another user's and is never written, and locks it with others.
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
