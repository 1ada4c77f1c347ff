//! Creates the cgroups of a cluster: one per node, below one for the cluster. Kubelets create those of pods in them.
//!
//! Supports both versions. Only version 1 was tested; version 2 follows the kernel's documentation.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{ClusterError, Lack};
use super::process::{kill_in_cgroup, wait_until};
use super::run::Run;

const ROOT: &str = "/sys/fs/cgroup";

/// Controllers of version 1 that a kubelet needs to start.
const NEEDED_V1: [&str; 8] =
    ["cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"];

/// Controllers of version 2 that a kubelet needs for limits.
const NEEDED_V2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Longest wait for a cgroup to empty after its processes were killed.
const EMPTY: Duration = Duration::from_secs(10);

/// Version of cgroups, and its mounts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cgroups {
    /// Mounted hierarchies of version 1.
    V1(Vec<PathBuf>),
    /// Unified hierarchy.
    V2(PathBuf),
}

impl Cgroups {
    /// Finds the mounted cgroups.
    ///
    /// # Errors
    /// When controllers that a kubelet needs are missing.
    pub(super) fn find() -> Result<Self, Lack> {
        let unified = Path::new(ROOT).join("cgroup.controllers");
        match fs::read_to_string(unified) {
            Ok(controllers) => Self::v2(&controllers),
            Err(_) => Self::v1(&fs::read_to_string("/proc/self/mounts").unwrap_or_default()),
        }
    }

    fn v1(mounts: &str) -> Result<Self, Lack> {
        let mut hierarchies = Vec::new();
        let mut controllers = BTreeSet::new();
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            if let [_, place, "cgroup", options, ..] = fields[..] {
                hierarchies.push(PathBuf::from(place));
                controllers.extend(options.split(','));
            }
        }
        let lacking: Vec<&str> =
            NEEDED_V1.into_iter().filter(|needed| !controllers.contains(needed)).collect();
        match lacking.is_empty() {
            true => Ok(Self::V1(hierarchies)),
            false => Err(Lack::new(
                format!("no cgroup controllers mounted below {ROOT}: {}", lacking.join(", ")),
                "mount them (`mount -t cgroup -o NAME NAME DIR`), or use a kernel with them",
            )),
        }
    }

    fn v2(controllers: &str) -> Result<Self, Lack> {
        let there: Vec<&str> = controllers.split_whitespace().collect();
        let lacking: Vec<&str> =
            NEEDED_V2.into_iter().filter(|needed| !there.contains(needed)).collect();
        match lacking.is_empty() {
            true => Ok(Self::V2(ROOT.into())),
            false => Err(Lack::new(
                format!(
                    "no cgroup controllers in {ROOT}/cgroup.controllers: {}",
                    lacking.join(", ")
                ),
                "delegate them to this machine (`--privileged --cgroupns=host` of a container)",
            )),
        }
    }

    fn hierarchies(&self) -> &[PathBuf] {
        match self {
            Self::V1(hierarchies) => hierarchies,
            Self::V2(only) => std::slice::from_ref(only),
        }
    }

    /// Creates and removes a test cgroup in each hierarchy.
    pub(super) fn try_out(&self, run: &Run) -> Result<(), Lack> {
        for hierarchy in self.hierarchies() {
            let probe = hierarchy.join(format!("{}-probe", run.name()));
            if let Err(error) = fs::create_dir(&probe)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(Lack::new(
                    format!("cannot create a cgroup in {}: {error}", hierarchy.display()),
                    "run as root on the machine, or in a container with `--privileged`",
                ));
            }
            let _ = fs::remove_dir(&probe);
        }
        Ok(())
    }

    /// Creates a node's cgroup. Returns its name for the kubelet.
    pub(super) fn make(&self, run: &Run, node: &str) -> Result<String, ClusterError> {
        for hierarchy in self.hierarchies() {
            let mut parent = hierarchy.clone();
            for part in [run.name(), node] {
                let folder = parent.join(part);
                fs::create_dir_all(&folder).map_err(ClusterError::file("make", &folder))?;
                match self {
                    Self::V1(_) => inherit_cpus(&parent, &folder)?,
                    Self::V2(_) => delegate(&parent)?,
                }
                parent = folder;
            }
            if matches!(self, Self::V2(_)) {
                delegate(&parent)?;
            }
        }
        Ok(format!("/{}/{node}", run.name()))
    }

    /// Kills the processes in the cluster's cgroups and removes them. Returns those that remain.
    pub(super) fn remove(run: &Run) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places: Vec<PathBuf> =
            mounted(&mounts).into_iter().map(|hierarchy| hierarchy.join(run.name())).collect();
        let gone = || {
            for place in &places {
                remove_below(place);
            }
            Ok(!places.iter().any(|place| place.exists()))
        };
        let late = || ClusterError::Left { what: Vec::new() };
        match wait_until(EMPTY, gone, late) {
            Ok(()) => Vec::new(),
            Err(_) => places
                .iter()
                .filter(|place| place.exists())
                .map(|place| format!("cgroup {}", place.display()))
                .collect(),
        }
    }
}

/// Returns all mounted hierarchies. Besides those of version 1 there may be one of version 2, which runc uses too.
fn mounted(mounts: &str) -> Vec<PathBuf> {
    let place = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, place, "cgroup" | "cgroup2", ..] => Some(PathBuf::from(place)),
        _ => None,
    };
    mounts.lines().filter_map(place).collect()
}

/// Copies CPUs and memory nodes from the parent, because a new cgroup of version 1 has none.
fn inherit_cpus(parent: &Path, folder: &Path) -> Result<(), ClusterError> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let from = parent.join(name);
        if from.exists() {
            let to = folder.join(name);
            let copy = || fs::write(&to, fs::read(&from)?);
            copy().map_err(ClusterError::file("write", &to))?;
        }
    }
    Ok(())
}

/// Enables controllers for the cgroups below this one, in version 2.
fn delegate(folder: &Path) -> Result<(), ClusterError> {
    let there = folder.join("cgroup.controllers");
    let there = fs::read_to_string(&there).map_err(ClusterError::file("read", &there))?;
    let wanted: Vec<String> = there
        .split_whitespace()
        .filter(|name| NEEDED_V2.contains(name) || *name == "io")
        .map(|name| format!("+{name}"))
        .collect();
    let control = folder.join("cgroup.subtree_control");
    fs::write(&control, wanted.join(" ")).map_err(ClusterError::file("write", &control))
}

fn remove_below(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_below(&entry.path());
    }
    let pids = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| line.parse().ok()) {
        kill_in_cgroup(pid, place);
    }
    let _ = fs::remove_dir(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_controllers_are_named() {
        let mounts: String = NEEDED_V1
            .into_iter()
            .filter(|name| !["pids", "memory"].contains(name))
            .map(|name| format!("cgroup {ROOT}/{name} cgroup rw,relatime,{name} 0 0\n"))
            .collect();
        let lack = Cgroups::v1(&mounts).unwrap_err();
        assert!(lack.what.ends_with(": memory, pids"), "{}", lack.what);
        let joined = format!(
            "{mounts}cgroup {ROOT}/both cgroup rw,memory,pids 0 0\nproc /proc proc rw 0 0\n"
        );
        let Ok(Cgroups::V1(found)) = Cgroups::v1(&joined) else { panic!("all are there") };
        assert_eq!(found.len(), 7);
        let both = format!("{joined}cgroup2 {ROOT}/unified cgroup2 rw 0 0\n");
        assert_eq!(mounted(&both).len(), 8);
        assert!(Cgroups::v2("cpu memory io").unwrap_err().what.ends_with(": cpuset, pids"));
        assert!(Cgroups::v2("cpuset cpu io memory pids\n").is_ok());
    }
}
