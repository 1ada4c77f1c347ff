//! Releases the page cache of files, which counts as a container's memory.
//!
//! Kubernetes cannot lower a pod's memory limit below its current use, including the page cache. A program that was
//! just sent and hashed there could alone prevent a small limit.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Writes all files below a folder to disk and drops them from the page cache. Mapped pages, and files that cannot be
/// opened, stay cached.
pub fn release(folder: &Path) {
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => release_file(&entry.path()),
                _ => {}
            }
        }
    }
}

fn release_file(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    // Dirty pages cannot be dropped.
    file.sync_data().ok();
    fadvise(&file, 0, None, Advice::DontNeed).ok();
}

#[cfg(test)]
mod tests {
    use std::io::{IoSliceMut, Write as _};

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::*;

    /// Reads a file's first byte from the page cache alone.
    fn read_cached(path: &Path) -> Result<usize, Errno> {
        let file = File::open(path).unwrap();
        preadv2(&file, &mut [IoSliceMut::new(&mut [0; 1])], 0, ReadWriteFlags::NOWAIT)
    }

    #[test]
    fn release_drops_files_below_a_folder_from_the_page_cache() {
        // Not `/tmp`, which may be a tmpfs.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let inner = dir.path().join("bin");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("program");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        match read_cached(&path) {
            Ok(read) => assert_eq!(read, 1),
            Err(Errno::OPNOTSUPP) => {
                // `eprintln!` would be captured.
                return writeln!(
                    std::io::stderr(),
                    "skipped: this file system does not support the test"
                )
                .unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        release(dir.path());
        assert_eq!(read_cached(&path), Err(Errno::AGAIN));
        assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20], "it is whole");
    }
}
