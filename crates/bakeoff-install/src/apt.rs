//! Runs Debian's apt with package lists and a cache in bakeoff's own folder.
//!
//! apt then needs no root and does not change the machine. It uses the machine's sources and keys, so it verifies
//! signatures and hashes as usual.
//!
//! If root calls apt, it downloads as the user `_apt`, its sandbox. That user cannot enter root's folders. bakeoff
//! therefore gives root's apt a temporary folder that other users can enter but not list.
//!
//! Not here: the packages and time limits (`debian`).

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use bakeoff_files as files;
use tempfile::TempDir;

/// User for apt's downloads if root calls it.
const SANDBOX_USER: &str = "_apt";
const PREFIX: &str = "bakeoff-apt-";

/// Folder for apt's lists, cache and downloads.
#[derive(Debug)]
pub(super) struct Folder(Place);

#[derive(Debug)]
enum Place {
    /// Subfolder of the source's scratch folder, which its owner removes.
    Within(PathBuf),
    /// Temporary folder that the sandbox can enter, removed when dropped.
    Apart(TempDir),
}

impl Folder {
    /// Creates the folder in `scratch`. For root it is in the system's temporary folder, so that apt's sandbox can
    /// enter.
    pub(super) fn make(scratch: &Path) -> io::Result<Self> {
        let sandbox = sandbox_uid().filter(|_| rustix::process::geteuid().is_root());
        let place = match sandbox {
            None => Place::Within(scratch.join("apt")),
            Some(_) => {
                remove_stale(&std::env::temp_dir());
                let prefix = format!("{PREFIX}{}-", std::process::id());
                let folder = tempfile::Builder::new().prefix(&prefix).tempdir()?;
                fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
                Place::Apart(folder)
            }
        };
        let folder = Self(place);
        let downloads = folder.downloads();
        fs::create_dir_all(&downloads)?;
        if let Some(uid) = sandbox {
            chown(&downloads, Some(uid), None)?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        match &self.0 {
            Place::Within(path) => path,
            Place::Apart(folder) => folder.path(),
        }
    }

    /// Returns the folder for downloaded packages.
    pub(super) fn downloads(&self) -> PathBuf {
        self.path().join("downloads")
    }
}

/// Removes the folders that killed bakeoffs left in `folder`.
fn remove_stale(folder: &Path) {
    let ours = rustix::process::geteuid().as_raw();
    for item in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = item.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let is_gone = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_gone && item.metadata().is_ok_and(|found| found.is_dir() && found.uid() == ours) {
            let _ = files::remove(&item.path());
        }
    }
}

fn sandbox_uid() -> Option<u32> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut found = users.lines().map(|line| line.split(':'));
    let mut fields = found.find(|fields| fields.clone().next() == Some(SANDBOX_USER))?;
    fields.nth(2)?.parse().ok()
}

/// Returns true if any user can enter the folder.
fn can_be_entered(folder: &Path) -> bool {
    let real = folder.canonicalize();
    real.is_ok_and(|real| {
        real.ancestors().all(|one| one.metadata().is_ok_and(|found| found.mode() & 0o001 != 0))
    })
}

/// Makes a call of `apt-get` or `apt-cache` use the folder `dir`, and creates the folder.
///
/// # Errors
/// If the folder cannot be created.
pub fn apart(command: &mut Command, dir: &Path) -> io::Result<()> {
    for folder in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(dir.join(folder))?;
    }
    let mut option = |name: &str, value: &str| {
        command.arg("-o").arg(format!("{name}={value}"));
    };
    let is_closed = rustix::process::geteuid().is_root() && !can_be_entered(dir);
    let dir = dir.display().to_string();
    option("Dir::State::Lists", &format!("{dir}/lists"));
    option("Dir::Cache", &dir);
    // Keep the parsed lists for the next call. Docker images disable this.
    option("Dir::Cache::pkgcache", "pkgcache.bin");
    option("Dir::Cache::srcpkgcache", "srcpkgcache.bin");
    option("Acquire::Languages", "none");
    // Skip indexes that only software centres need.
    for index in
        ["DEP-11", "DEP-11-icons-small", "DEP-11-icons", "DEP-11-icons-hidpi", "Contents-deb"]
    {
        option(&format!("Acquire::IndexTargets::deb::{index}::DefaultEnabled"), "false");
    }
    option("Acquire::Retries", "1");
    option("Acquire::http::Timeout", "15");
    option("Acquire::https::Timeout", "15");
    if is_closed {
        option("APT::Sandbox::User", "root");
    }
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_folders_of_ended_processes() {
        let dir = tempfile::tempdir().unwrap();
        // No process has the ID 4999999: Linux has none above 4,194,304.
        let names = [format!("{PREFIX}4999999-x"), format!("{PREFIX}{}-x", std::process::id())];
        for name in names.iter().map(String::as_str).chain(["other-4999999"]) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        remove_stale(dir.path());
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().flatten().map(|item| item.file_name()).collect();
        left.sort();
        assert_eq!(left, [names[1].as_str(), "other-4999999"]);
    }

    #[test]
    fn sandbox_is_disabled_only_if_it_cannot_enter() {
        let dir = tempfile::tempdir().unwrap();
        let disabled = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let mut command = Command::new("apt-get");
            apart(&mut command, dir.path()).unwrap();
            command.get_args().any(|word| word == "APT::Sandbox::User=root")
        };
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!((disabled(0o700), disabled(0o711)), (is_root, false));
    }
}
