//! Creates folders and files that only the user can read (0700 and 0600), and never writes through a link.
//!
//! A run's folder may come from another user, with links in place of files. New content is written to a new file that
//! then replaces the old one: `rename` replaces a link and never follows it.
//!
//! Not here: reading (`read`), removing (`remove`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

/// Mode of files that only their owner may read.
pub const PRIVATE: u32 = 0o600;
/// Mode of files that a user requested by name, before the umask.
pub const SHARED: u32 = 0o666;

/// Creates one folder with mode 0700.
///
/// # Errors
/// Those of `mkdir`, including an existing folder.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates a folder and its missing parents, all with mode 0700.
///
/// # Errors
/// Those of `mkdir`.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Creates a file with mode 0600, open for appending.
///
/// # Errors
/// Those of `open`, including an existing file or link.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).mode(PRIVATE).open(path)
}

/// Opens a file to read and append. `or_make`: creates a missing file with mode 0600.
///
/// # Errors
/// Those of `open`, including a link of this name.
pub fn append(path: &Path, or_make: bool) -> io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(or_make)
        .mode(PRIVATE)
        .custom_flags(no_link)
        .open(path)
}

/// Replaces the file at `path` atomically.
///
/// # Errors
/// Write errors of the new file, and those of `rename`. The old file then stays unchanged.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut adjacent = std::ffi::OsString::from(".");
    adjacent.push(name);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    adjacent.push(format!(".{}-{number}.tmp", std::process::id()));
    let adjacent = path.with_file_name(adjacent);
    // A file of this name can only come from a process that is gone.
    fs::remove_file(&adjacent).ok();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&adjacent)
        .and_then(|mut file| file.write_all(contents))
        .and_then(|()| fs::rename(&adjacent, path));
    if written.is_err() {
        fs::remove_file(&adjacent).ok();
    }
    written
}

/// Returns a link in a folder or its subfolders, down to `depth` levels; `None` if there is none. Ignores folders named
/// `skipped`.
///
/// # Errors
/// When a folder cannot be read.
pub fn link_in(dir: &Path, depth: u32, skipped: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            return Ok(Some(entry.path()));
        }
        if kind.is_dir() && depth > 1 && entry.file_name() != skipped {
            let found = link_in(&entry.path(), depth - 1, skipped)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_readable_by_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        make_dirs(&deep).unwrap();
        assert_eq!((mode(&deep), mode(&dir.path().join("a"))), (0o700, 0o700));
        let file = deep.join("f");
        create(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert!(create(&file).is_err(), "it is there");
        replace(&file, b"new", PRIVATE).unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o600, b"new".to_vec()));
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn links_are_replaced_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (dear, link) = (dir.path().join("dear"), dir.path().join("link"));
        fs::write(&dear, "dear").unwrap();
        symlink(&dear, &link).unwrap();
        assert!(append(&link, true).is_err());
        assert!(create(&link).is_err());
        replace(&link, b"report", PRIVATE).unwrap();
        assert_eq!(fs::read_to_string(&dear).unwrap(), "dear");
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&link).unwrap(), "report");
    }

    #[test]
    fn a_failed_replacement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("inside")).unwrap();
        assert!(replace(&folder, b"x", PRIVATE).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_found_down_to_the_given_depth() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("trials/01/nodes");
        fs::create_dir_all(&inside).unwrap();
        symlink("/", inside.join("link")).unwrap();
        assert_eq!(link_in(dir.path(), 9, "nodes").unwrap(), None);
        assert_eq!(link_in(dir.path(), 2, "").unwrap(), None);
        assert_eq!(link_in(dir.path(), 9, "").unwrap(), Some(inside.join("link")));
    }
}
