//! Checks who owns a file, and who can write it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Returns the reason why another user can write a file or folder, as text that follows its path. `None` if only this
/// user can. bakeoff checks files that name programs to execute.
pub fn foreign(found: &Metadata) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    match (found.uid(), found.mode()) {
        (owner, _) if owner != us => Some(format!("belongs to the user with ID {owner}")),
        (_, mode) if mode & 0o022 != 0 => Some("can be written by other users".to_owned()),
        _ => None,
    }
}

/// Returns the reason why somebody else could have written a file whose commands bakeoff executes, such as a study.
///
/// Trusts files of root and those that only a group may write, as a shell does. For root, owners say nothing: in a
/// container, most files belong to others.
pub fn foreign_code(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok().filter(Metadata::is_file)?;
    let us = rustix::process::geteuid().as_raw();
    match found.uid() {
        _ if found.mode() & 0o002 != 0 => Some("can be written by every user".to_owned()),
        owner if us != 0 && owner != us && owner != 0 => {
            Some(format!("belongs to the user with ID {owner}"))
        }
        _ => None,
    }
}

/// Returns the first path between `root` and `inside`, both included, that another user can write, with the reason of
/// [`foreign`]. A link below `root` counts too: its target could be anybody's. Ignores missing paths. Below a folder that
/// nobody else can enter, a group may write, as with the umask 002.
pub fn foreign_between(root: &Path, inside: &Path) -> Option<(PathBuf, String)> {
    let below = inside.strip_prefix(root).ok()?;
    let mut path = root.to_owned();
    let mut found = fs::metadata(root).ok()?;
    let mut is_closed = false;
    let mut parts = below.components();
    loop {
        if found.is_symlink() {
            return Some((path, "is a symbolic link".to_owned()));
        }
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        let is_harmless = is_closed && is_ours && found.mode() & 0o002 == 0;
        if let Some(why) = foreign(&found).filter(|_| !is_harmless) {
            return Some((path, why));
        }
        is_closed |= found.mode() & 0o011 == 0;
        path.push(parts.next()?);
        found = fs::symlink_metadata(&path).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn code_that_every_user_can_write_is_foreign() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("study.yaml");
        fs::write(&file, "x").unwrap();
        for (mode, is_foreign) in [(0o644, false), (0o664, false), (0o666, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(foreign_code(&file).is_some(), is_foreign, "{mode:o}");
        }
        assert_eq!(foreign_code(&dir.path().join("none")), None);
    }

    #[test]
    fn each_folder_down_to_the_file_must_be_ours() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let file = root.join("etcd/1/bin/etcd");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in file.ancestors().take_while(|path| path.starts_with(root)) {
            let before = path.metadata().unwrap().permissions().mode();
            set(path, before & !0o022);
        }
        set(root, 0o755);
        assert_eq!(foreign_between(root, &file), None);
        assert_eq!(foreign_between(root, &root.join("etcd/2/none")), None);
        for path in [root, &root.join("etcd"), &root.join("etcd/1"), &file] {
            let before = path.metadata().unwrap().permissions().mode();
            set(path, before | 0o002);
            let (found, why) = foreign_between(root, &file).unwrap();
            assert_eq!((&*found, &*why), (path, "can be written by other users"));
            set(path, before);
        }
        // Nobody else can enter the root.
        set(root, 0o700);
        set(&file, 0o664);
        assert_eq!(foreign_between(root, &file), None);
        set(&file, 0o666);
        assert!(foreign_between(root, &file).is_some());
        symlink(root.join("etcd/1"), root.join("etcd/link")).unwrap();
        let (found, why) = foreign_between(root, &root.join("etcd/link/bin/etcd")).unwrap();
        assert_eq!((found, &*why), (root.join("etcd/link"), "is a symbolic link"));
    }
}
