//! Releases the page cache of files, which a container's memory counts as its own.
//!
//! Kubernetes limits no pod to less memory than it uses, with the files that it has read. A program that was sent and
//! hashed there would alone keep a small limit from it.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Releases what is cached of all files below a folder: written to disk first, and without what a process has mapped.
/// A file that cannot be opened stays cached.
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
    // Pages that wait to be written cannot be released.
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
    fn files_below_a_folder_leave_the_page_cache() {
        // Not `/tmp`, which may be memory itself.
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
                return writeln!(std::io::stderr(), "skipped: this file system cannot tell")
                    .unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        release(dir.path());
        assert_eq!(read_cached(&path), Err(Errno::AGAIN));
        assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20], "it is whole");
    }
}
