//! Keeps the key that marks this user's records, in `~/.local/state/bakeoff/origin-key`.
//!
//! The first run makes it. Without a folder for it, or if another user could read or change it, records get no mark,
//! and resuming them needs `--trust`.
//!
//! Not here: the marks (`bakeoff_core::record::OriginKey`).

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bakeoff_core::record::OriginKey;
use bakeoff_files as files;

/// File of the key, in the folder of [`folder`].
const FILE: &str = "origin-key";
/// Length of the key in bytes.
const LENGTH: usize = 32;

/// Returns this user's key, and makes it if there is none. `None` if it cannot be kept.
pub(super) fn own_key() -> Option<OriginKey> {
    let folder = folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    key_in(&folder).or_else(|| make(&folder).ok().and_then(|()| key_in(&folder)))
}

/// Returns this user's key, if it has been made.
pub(super) fn known_key() -> Option<OriginKey> {
    key_in(&folder(|name| std::env::var_os(name).map(PathBuf::from))?)
}

/// Returns the folder of bakeoff's state: `$XDG_STATE_HOME/bakeoff`, else `~/.local/state/bakeoff`.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|path| path.is_absolute());
    let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(base.join("bakeoff"))
}

/// Reads the key; `None` if it is missing, or another user could read or change it.
fn key_in(folder: &Path) -> Option<OriginKey> {
    use std::os::unix::fs::PermissionsExt as _;
    let file = folder.join(FILE);
    let found = fs::symlink_metadata(&file).ok().filter(fs::Metadata::is_file)?;
    let is_private = found.permissions().mode() & 0o077 == 0;
    let bytes = files::read(&file, LENGTH as u64).ok()?;
    let is_ours = is_private && files::foreign_between(folder, &file).is_none();
    bytes.try_into().ok().filter(|_| is_ours).map(OriginKey::new)
}

/// Makes the key. A key that another bakeoff makes at the same time stays.
fn make(folder: &Path) -> io::Result<()> {
    files::make_dirs(folder)?;
    let whole = folder.join(format!(".{FILE}.{}.tmp", std::process::id()));
    files::remove(&whole)?;
    let made = files::create(&whole)
        .and_then(|mut file| file.write_all(&rand::random::<[u8; LENGTH]>()))
        .and_then(|()| fs::hard_link(&whole, folder.join(FILE)));
    files::remove(&whole)?;
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn key_is_made_once_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state/bakeoff");
        assert_eq!(key_in(&folder), None);
        make(&folder).unwrap();
        let key = key_in(&folder).unwrap();
        make(&folder).unwrap();
        assert_eq!(key_in(&folder), Some(key.clone()));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        let file = folder.join(FILE);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&file, 0o640);
        assert_eq!(key_in(&folder), None, "its group can read it");
        set(&file, 0o600);
        set(&folder, 0o777);
        assert_eq!(key_in(&folder), None, "others can replace it");
        set(&folder, 0o700);
        assert_eq!(key_in(&folder), Some(key));
        fs::write(&file, "short").unwrap();
        assert_eq!(key_in(&folder), None);
    }

    #[test]
    fn state_is_in_the_folder_of_the_standard() {
        let at = |set: &[(&str, &str)]| {
            folder(|name| set.iter().find(|(key, _)| *key == name).map(|(_, at)| PathBuf::from(at)))
        };
        let home = ("HOME", "/home-of-user");
        assert_eq!(at(&[home]), Some("/home-of-user/.local/state/bakeoff".into()));
        assert_eq!(at(&[home, ("XDG_STATE_HOME", "/state")]), Some("/state/bakeoff".into()));
        assert_eq!(at(&[("HOME", "relative")]), None);
        assert_eq!(at(&[]), None);
    }
}
