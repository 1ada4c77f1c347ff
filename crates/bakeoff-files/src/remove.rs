//! Removes files and folders, and never what a link leads to.
//!
//! `cargo xtask tidy` sends every other removal of a folder here.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Removes a file, a link, or a folder with everything in it. A link is removed, its target stays. A missing path is no
/// error.
///
/// # Errors
/// If something cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = fs::symlink_metadata(path).and_then(|found| match found.is_dir() {
        // The standard library enters no link, even one that replaces a folder meanwhile.
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the path `inside` of a folder, as [`remove`] does. Refuses if the folder itself, or a folder on the way, is
/// a link: the path would lead out of the folder.
///
/// # Errors
/// If a link is on the way, or something cannot be removed.
pub fn remove_below(folder: &Path, inside: &Path) -> io::Result<()> {
    let mut parts: Vec<Component<'_>> = inside.components().collect();
    let last = parts.pop().ok_or(io::ErrorKind::InvalidInput)?;
    let way = parts.iter().chain([&last]);
    if way.clone().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut open = openat(CWD, folder, flags, Mode::empty());
    for part in &parts {
        open = open.and_then(|at: OwnedFd| openat(&at, part.as_os_str(), flags, Mode::empty()));
    }
    match open.map_err(io::Error::from) {
        // The path of a descriptor leads to the folder that was opened, whatever its name leads to now.
        Ok(at) => remove(&Path::new("/proc/self/fd").join(at.as_raw_fd().to_string()).join(last)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// Returns a folder with a precious file, and a run's folder with links to it.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (dear, run) = (dir.path().join("dear"), dir.path().join("run"));
        fs::create_dir_all(dear.join("nodes/1")).unwrap();
        fs::write(dear.join("nodes/1/file"), "dear").unwrap();
        fs::create_dir_all(run.join("trials/01/nodes")).unwrap();
        symlink(&dear, run.join("trials/01/nodes/link")).unwrap();
        symlink(&dear, run.join("kept")).unwrap();
        symlink(&run, dir.path().join("other")).unwrap();
        (dir, dear, run)
    }

    #[test]
    fn links_are_removed_and_their_targets_stay() {
        let (dir, dear, run) = folders();
        remove(&run.join("trials")).unwrap();
        remove(&run.join("kept")).unwrap();
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
        fs::write(run.join("file"), "x").unwrap();
        remove(&dir.path().join("other")).unwrap();
        assert!(run.join("file").exists());
        remove(&run.join("none")).unwrap();
        remove(&run).unwrap();
        assert!(!run.exists() && dear.join("nodes/1/file").exists());
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let (dir, dear, run) = folders();
        let refused =
            |folder: &Path, inside: &str| remove_below(folder, Path::new(inside)).is_err();
        assert!(refused(&run, "kept/nodes"));
        assert!(refused(&run, "kept/nodes/1"));
        assert!(refused(&dir.path().join("other"), "trials"));
        for inside in ["../dear", "/", "", "trials/../../dear"] {
            assert!(refused(&run, inside), "{inside}");
        }
        assert!(dear.join("nodes/1/file").exists());
        remove_below(&run, Path::new("trials/none/nodes")).unwrap();
        remove_below(&run, Path::new("trials/01/nodes")).unwrap();
        remove_below(&run, Path::new("kept")).unwrap();
        assert!(run.join("trials/01").exists() && !run.join("trials/01/nodes").exists());
        assert!(!run.join("kept").is_symlink() && dear.join("nodes/1/file").exists());
    }
}
