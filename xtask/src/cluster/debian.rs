//! Fetches Debian packages and unpacks them into trees in bakeoff's cache.
//!
//! The machine's apt fetches them with its own lists and state folder, so signatures and hashes are verified as in any
//! installation, but nothing is installed. One tree has the programs of a node. Another has the contents of an image.
//!
//! Not here: the image made of a tree (`images`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bakeoff_install::apt;
use sha2::{Digest as _, Sha256};

use super::error::ClusterError;
use super::process::finish;

/// Prefix of temporary folders. A process that holds the lock may remove all others, because they were abandoned.
pub(super) const WORK: &str = ".work-";

const LISTS: Duration = Duration::from_secs(180);
const PACKAGES: Duration = Duration::from_secs(900);
const BRIEF: Duration = Duration::from_secs(120);

/// Layout of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Same as in the packages.
    AsPacked,
    /// A root folder, in which `/bin` and similar are links into `/usr`.
    Root,
}

/// Folders that become links into `/usr`. Older packages have files in them, newer ones only below `/usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

struct Tree {
    name: &'static str,
    packages: &'static [&'static str],
    /// Packages that apt treats as installed, so that they and their dependencies are left out.
    left_out: &'static [&'static str],
    shape: Shape,
    /// Files that a complete tree must have.
    needs: &'static [&'static str],
}

/// Programs of a node. They use the machine's C library.
const TOOLS: Tree = Tree {
    name: "debian-tools",
    packages: &[
        "containerd",
        "runc",
        "containernetworking-plugins",
        "nftables",
        "iproute2",
        "conntrack",
        "busybox-static",
    ],
    left_out: &["libc6", "debconf", "netbase", "libcap2-bin"],
    shape: Shape::AsPacked,
    needs: &[
        "usr/bin/containerd",
        "usr/bin/containerd-shim-runc-v2",
        "usr/bin/ctr",
        "usr/sbin/runc",
        "usr/sbin/nft",
        "usr/lib/cni/bridge",
        "usr/lib/cni/host-local",
    ],
};

/// A small root folder for ordinary programs: C library, shell, tools, Java.
const ROOT: Tree = Tree {
    name: "debian-root",
    packages: &[
        "libc6",
        "libc-bin",
        "dash",
        "bash",
        "coreutils",
        "grep",
        "sed",
        "tar",
        "openjdk-17-jre-headless",
    ],
    // Leave out packages with installation scripts, and those for screens, printers and fonts.
    left_out: &[
        "base-files",
        "ca-certificates-java",
        "debconf",
        "debianutils",
        "dpkg",
        "fontconfig-config",
        "libcups2",
        "libglib2.0-0",
        "libharfbuzz0b",
        "util-linux",
        "util-linux-extra",
    ],
    shape: Shape::Root,
    needs: &["usr/bin/dash", "usr/bin/cat", "usr/bin/sha256sum"],
};

/// Returns the tree of a node's programs, fetched if it is missing.
pub(super) fn tools(place: &Path) -> Result<PathBuf, ClusterError> {
    TOOLS.have(place)
}

/// Returns true if the tree of a node's programs is in the cache.
pub(super) fn has_tools(place: &Path) -> bool {
    TOOLS.is_whole(&TOOLS.place(place))
}

/// Returns the tree of a root folder for pods, fetched if it is missing.
pub(super) fn root(place: &Path) -> Result<PathBuf, ClusterError> {
    ROOT.have(place)
}

/// Returns the folders of a tree's shared libraries, as a search path.
pub(super) fn library_path(tree: &Path) -> OsString {
    let mut folders = Vec::new();
    for lib in ["usr/lib", "lib"] {
        let entries = fs::read_dir(tree.join(lib)).into_iter().flatten().flatten();
        let triplets =
            entries.filter(|entry| entry.file_name().to_string_lossy().contains("-linux-gnu"));
        folders.extend(triplets.map(|entry| entry.path()));
    }
    // Paths with a colon cannot be joined. The machine's libraries then have to do.
    std::env::join_paths(folders).unwrap_or_default()
}

impl Tree {
    /// Returns the folder of the tree. A different list of packages gives a different folder.
    fn place(&self, cluster: &Path) -> PathBuf {
        let list = format!("{:?} {:?}", self.packages, self.left_out);
        let hash = Sha256::digest(list);
        let short: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        cluster.join(format!("{}-{}-{short}", self.name, std::env::consts::ARCH))
    }

    fn is_whole(&self, tree: &Path) -> bool {
        self.needs.iter().all(|file| exists(tree, file))
    }

    fn have(&self, place: &Path) -> Result<PathBuf, ClusterError> {
        let tree = self.place(place);
        if self.is_whole(&tree) {
            return Ok(tree);
        }
        eprintln!("fetching {} and dependencies from Debian", self.packages.join(", "));
        let work = tempfile::Builder::new().prefix(WORK).tempdir_in(place);
        let work = work.map_err(ClusterError::file("make a folder in", place))?;
        let root = work.path().join("root");
        self.fetch(work.path(), &root)?;
        let lacking: Vec<&str> =
            self.needs.iter().filter(|file| !exists(&root, file)).copied().collect();
        if !lacking.is_empty() {
            return Err(ClusterError::Ended {
                program: "dpkg -x".to_owned(),
                how: "files missing that these packages have in Debian 12".to_owned(),
                last: lacking.join("\n"),
            });
        }
        let _ = fs::remove_dir_all(&tree);
        fs::rename(&root, &tree).map_err(ClusterError::file("keep packages in", &tree))?;
        Ok(tree)
    }

    fn fetch(&self, work: &Path, root: &Path) -> Result<(), ClusterError> {
        fs::create_dir(root).map_err(ClusterError::file("make", root))?;
        let architecture = finish(Command::new("dpkg").arg("--print-architecture"), BRIEF)?;
        let status = work.join("status");
        let installed = self.left_out.iter().map(|package| {
            // A version higher than any dependency.
            format!(
                "Package: {package}\nStatus: install ok installed\nArchitecture: {}\nVersion: 99:0\n\n",
                architecture.trim()
            )
        });
        fs::write(&status, installed.collect::<String>())
            .map_err(ClusterError::file("write", &status))?;
        let apt_get = || -> Result<Command, ClusterError> {
            let mut command = Command::new("apt-get");
            apt::apart(&mut command, work).map_err(ClusterError::file("make", work))?;
            for (option, path) in [("Dir::State", work), ("Dir::State::status", &status)] {
                command.arg("-o").arg(format!("{option}={}", path.display()));
            }
            command.arg("-qq");
            Ok(command)
        };
        // Some of the machine's sources may be unreachable. Only the install step counts.
        let updated = finish(apt_get()?.arg("update"), LISTS);
        let mut install = apt_get()?;
        install.args(["--yes", "--no-install-recommends", "--download-only", "install"]);
        finish(install.args(self.packages), PACKAGES)
            .map_err(|why| updated.err().unwrap_or(why))?;
        let archives = work.join("archives");
        let items = fs::read_dir(&archives).map_err(ClusterError::file("read", &archives))?;
        for package in items.flatten().map(|item| item.path()) {
            if package.extension().is_some_and(|extension| extension == "deb") {
                finish(Command::new("dpkg").arg("-x").arg(package).arg(root), BRIEF)?;
            }
        }
        match self.shape {
            Shape::AsPacked => Ok(()),
            Shape::Root => MERGED.iter().try_for_each(|name| {
                lead_into_usr(root, name).map_err(ClusterError::file("arrange", &root.join(name)))
            }),
        }
    }
}

/// Moves the contents of a folder to the same folder in `usr`, and replaces it by a link.
fn lead_into_usr(root: &Path, name: &str) -> io::Result<()> {
    let (folder, target) = (root.join(name), Path::new("usr").join(name));
    fs::create_dir_all(root.join(&target))?;
    if folder.is_symlink() {
        return Ok(());
    }
    if folder.is_dir() {
        merge(&folder, &root.join(&target))?;
    }
    symlink(target, folder)
}

/// Moves the contents of a folder into another one, and removes the folder.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() && target.is_dir() {
            true => merge(&entry.path(), &target)?,
            false => fs::rename(entry.path(), &target)?,
        }
    }
    fs::remove_dir(from)
}

fn exists(tree: &Path, file: &str) -> bool {
    tree.join(file).symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_old_and_new_packages_move_into_usr() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for file in ["lib/x/old.so", "usr/lib/x/new.so", "bin/cat"] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        for name in MERGED {
            lead_into_usr(root, name).unwrap();
            lead_into_usr(root, name).unwrap();
            assert!(root.join(name).is_symlink(), "{name}");
        }
        for file in ["usr/lib/x/old.so", "usr/lib/x/new.so", "lib/x/new.so", "usr/bin/cat"] {
            assert!(root.join(file).is_file(), "{file}");
        }
    }
}
