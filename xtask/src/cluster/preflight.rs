//! Checks that this machine can run a cluster before anything starts. Reports each lack with a hint.
//!
//! Creates test namespaces, interfaces and file systems instead of reading settings, because a container may forbid
//! features that its kernel has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cgroup::Cgroups;
use super::error::{ClusterError, Lack};
use super::machine::HIDDEN;
use super::node::Snapshots;
use super::process::finish;
use super::programs::{self, Programs};
use super::run::{RUN_VARIABLE, Run};

const BRIEF: Duration = Duration::from_secs(20);

/// Free memory for a cluster of two nodes.
const MEMORY_KIB_MIN: u64 = 1_500_000;
/// Free disk space for programs, images and logs.
const DISK_BYTES_MIN: u64 = 2_000_000_000;
/// Free disk space while programs are built.
const BUILD_BYTES_MIN: u64 = 6_000_000_000;

/// Features of this machine that nodes use.
#[derive(Debug)]
pub(super) struct MachineFeatures {
    pub(super) cgroups: Cgroups,
    pub(super) snapshots: Snapshots,
    pub(super) services: Services,
}

/// Reachability of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Services {
    /// A proxy on each node forwards their addresses to pods.
    Proxied,
    /// The kernel has no nf_tables: names of pods work, addresses of services do not.
    NamesOnly,
}

/// Checks everything that needs no fetched programs.
///
/// # Errors
/// With everything that the machine lacks.
pub(super) fn machine(run: &Run, cache: &Path) -> Result<Cgroups, ClusterError> {
    if !rustix::process::geteuid().is_root() {
        let hint = "run it with `sudo`; root in a user namespace cannot change the host's cgroups";
        let lack = Lack::new("only root can create network namespaces, mounts and cgroups", hint);
        return Err(ClusterError::Machine(vec![lack]));
    }
    let mut lacks: Vec<Lack> = Vec::new();
    if !matches!(std::env::consts::ARCH, "x86_64" | "aarch64") {
        let what = format!(
            "images are built for x86_64 and aarch64, but this machine is {}",
            std::env::consts::ARCH
        );
        lacks.push(Lack::new(what, "use another machine"));
    }
    lacks.extend(hidden(run.folder(), cache));
    for (tool, package) in
        [("unshare", "util-linux"), ("nsenter", "util-linux"), ("mount", "mount")]
    {
        lacks.extend(Lack::of_tool(tool, &format!("install Debian's {package}")));
    }
    lacks.extend(programs::lacking(cache));
    lacks.extend(namespaces());
    lacks.extend(seccomp(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()));
    lacks.extend(memory(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()));
    lacks
        .extend([cache, run.folder()].into_iter().filter_map(|folder| disk(folder, cache)).take(1));
    let cgroups = Cgroups::find().and_then(|found| found.try_out(run).map(|()| found));
    match cgroups {
        Ok(cgroups) if lacks.is_empty() => Ok(cgroups),
        Ok(_) => Err(ClusterError::Machine(lacks)),
        Err(lack) => {
            lacks.push(lack);
            Err(ClusterError::Machine(lacks))
        }
    }
}

/// Checks the features that need programs of the cluster.
///
/// # Errors
/// When the kernel has no bridges or veth pairs.
pub(super) fn kernel(
    run: &Run,
    cgroups: Cgroups,
    programs: &Programs,
) -> Result<MachineFeatures, ClusterError> {
    let in_network = |script: &str, tool: PathBuf| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--", "sh", "-c", script, "sh"]).arg(tool);
        programs.prepare(&mut unshare);
        finish(&mut unshare, BRIEF)
    };
    let interfaces =
        r#""$1" link add name br0 type bridge && "$1" link add name v0 type veth peer name v1"#;
    if let Err(error) = in_network(interfaces, programs.tool("ip")) {
        let lack = Lack::new(
            format!("cannot create a bridge or a veth pair: {error}"),
            "run `modprobe bridge veth`, or use a kernel with both",
        );
        return Err(ClusterError::Machine(vec![lack]));
    }
    let chain = r#""$1" add table ip t && "$1" add chain ip t c '{ type nat hook prerouting priority 0; }'"#;
    let services = match in_network(chain, programs.tool("nft")) {
        Ok(_) => Services::Proxied,
        Err(_) => Services::NamesOnly,
    };
    let snapshots = match overlay(run) {
        Ok(()) => Snapshots::Overlay,
        Err(_) => Snapshots::Copies,
    };
    Ok(MachineFeatures { cgroups, snapshots, services })
}

impl MachineFeatures {
    /// Returns notes on limited features.
    pub(super) fn notes(&self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if matches!(self.cgroups, Cgroups::V2(_)) {
            notes
                .push("this machine has cgroups of version 2, on which clusters were never tested");
        }
        if self.services == Services::NamesOnly {
            notes.push("this kernel has no nf_tables: pods reach each other by name, but addresses of services do not work");
        }
        if self.snapshots == Snapshots::Copies {
            notes.push(
                "cannot mount an overlay in the run folder: images are copied for each container",
            );
        }
        notes
    }
}

fn overlay(run: &Run) -> Result<(), ClusterError> {
    let folder = run.folder();
    let place =
        tempfile::tempdir_in(folder).map_err(ClusterError::file("make a folder in", folder))?;
    for name in ["lower", "upper", "work", "merged"] {
        let dir = place.path().join(name);
        std::fs::create_dir(&dir).map_err(ClusterError::file("make", &dir))?;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--", "mount", "-t", "overlay", "overlay"]);
    unshare.args(["-o", "lowerdir=lower,upperdir=upper,workdir=work", "merged"]);
    finish(unshare.current_dir(place.path()), BRIEF).map(drop)
}

fn namespaces() -> Option<Lack> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc"]);
    let error = finish(unshare.args(["--", "true"]), BRIEF).err()?;
    Some(Lack::new(
        format!("cannot create namespaces: {error}"),
        "run outside of a container, or in one with `--privileged`",
    ))
}

/// Checks that bakeoff's folders are outside of those that are empty on a node.
fn hidden(run: &Path, cache: &Path) -> Vec<Lack> {
    let places = [(run, RUN_VARIABLE), (cache, "BAKEOFF_CACHE")];
    let is_hidden = |path: &Path| HIDDEN.iter().any(|folder| path.starts_with(folder));
    let lack = |(path, variable): (&Path, &str)| {
        Lack::new(
            format!("`{}` is in a folder that is empty on each node", path.display()),
            format!("set {variable} to a folder outside of {}", HIDDEN.join(", ")),
        )
    };
    places.into_iter().filter(|(path, _)| is_hidden(path)).map(lack).collect()
}

fn seccomp(status: &str) -> Option<Lack> {
    let is_there = status.lines().any(|line| line.starts_with("Seccomp:"));
    (!is_there).then(|| {
        Lack::new("this kernel has no seccomp, which restricted pods need", "use another kernel")
    })
}

fn memory(meminfo: &str) -> Option<Lack> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    (kib < MEMORY_KIB_MIN).then(|| {
        Lack::new(
            format!(
                "{} MB of memory are free, but a cluster needs {}",
                kib / 1000,
                MEMORY_KIB_MIN / 1000
            ),
            "end other programs",
        )
    })
}

fn disk(folder: &Path, cache: &Path) -> Option<Lack> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    let free = stat.f_bavail * stat.f_frsize;
    let needed = if programs::are_cached(cache) { DISK_BYTES_MIN } else { BUILD_BYTES_MIN };
    (free < needed).then(|| {
        Lack::new(
            format!(
                "{} MB are free on the disk of {}, but {} are needed",
                free / 1_000_000,
                there.display(),
                needed / 1_000_000
            ),
            format!("set BAKEOFF_CACHE and {RUN_VARIABLE} to folders with space left"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_nodes_hide_are_refused() {
        let lacks = hidden(Path::new("/run/user/0/x"), Path::new("/var/lib/ci/cache"));
        assert_eq!(lacks.len(), 2);
        assert!(lacks[1].hint.starts_with("set BAKEOFF_CACHE to"), "{}", lacks[1].hint);
        assert!(hidden(Path::new("/tmp/run"), Path::new("/srv/cache")).is_empty());
    }

    #[test]
    fn lack_of_memory_and_of_seccomp_is_reported() {
        assert!(memory("MemAvailable:    1000000 kB\n").unwrap().what.starts_with("1000 MB"));
        assert_eq!(memory("MemAvailable:   10000000 kB\n"), None);
        assert!(seccomp("Name:\tx\n").is_some());
        assert_eq!(seccomp("Name:\tx\nSeccomp:\t0\n"), None);
    }
}
