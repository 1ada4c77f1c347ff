//! Limits the CPU and memory of nodes through cgroups, v1 and v2, and reads their effect.
//!
//! A node with limits gets the group `bakeoff-PID/NODE` below bakeoff's own group. A node without limits gets none,
//! because a group changes how the scheduler shares a CPU. Either all limits of a node are applied, or none is. Each
//! limit is read back and compared: the kernel may round, cap or ignore it. The two controllers may be in different
//! hierarchies, one in v1 and one in v2 (`hybrid`).
//!
//! In v2, a group that holds processes cannot enable controllers for groups below it, unless it is the root
//! (`cgroups(7)`, "no internal processes"). bakeoff's own group nearly always holds processes. Nodes then get groups
//! next to it, below its parent.
//!
//! The warden removes the groups of a killed bakeoff. If the warden was killed too, the next bakeoff that needs groups
//! removes them.
//!
//! Not here: how a process enters its group (`shim`), when figures are read (`observe`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bakeoff_core::record::PodLimits;
use bakeoff_core::study::Limits;
use serde::{Deserialize, Serialize};

use super::launcher;
use super::{Confine, Confinement, LimitsApplied, NodeSpec};

mod place;
#[cfg(test)]
mod tests;

use place::{Controller, Hierarchy, PlaceError, Version};

/// Access to the files of cgroup hierarchies. Tests replace it, because few machines have both versions.
pub(super) trait Tree: Send + Sync {
    /// Reads a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes to an existing file.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Creates a group and its missing parents. Succeeds if it exists.
    fn make(&self, path: &Path) -> io::Result<()>;
    /// Removes a group that holds neither processes nor groups.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns the names of the groups directly below one.
    fn groups(&self, path: &Path) -> Vec<String>;
}

/// The mounted hierarchies of the kernel.
struct MountedHierarchies;

impl Tree for MountedHierarchies {
    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        use std::io::Write;
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        let is_of_run = |name: &str| name.starts_with(PREFIX);
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_run) {
            launcher::remove_group(path)?;
        }
        std::fs::create_dir_all(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn groups(&self, path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        groups.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// Applies limits through cgroups, if this machine allows it.
pub(crate) struct Cgroups {
    tree: Arc<dyn Tree>,
    cpu: OnceLock<Result<Hierarchy, PlaceError>>,
    memory: OnceLock<Result<Hierarchy, PlaceError>>,
    /// Text of `/proc/self/cgroup`; `mounts` holds that of `/proc/self/mountinfo`.
    own: String,
    mounts: String,
}

/// The cgroup of a node, a source of its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    cpu: Option<(Version, PathBuf)>,
    memory: Option<(Version, PathBuf)>,
}

/// Default period of a CPU limit, in microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Longest period, for limits whose quota per default period would be below [`QUOTA_MIN_US`].
const PERIOD_MAX_US: u64 = 1_000_000;
/// Smallest quota that the kernel accepts, in microseconds.
const QUOTA_MIN_US: u64 = 1_000;

/// The reason why a limit was not applied.
enum LimitRefusal {
    /// Setting the limit failed.
    No(String),
    /// The limit was set, but another value was read back.
    Other(String),
}

impl Cgroups {
    /// Uses the hierarchies of this machine.
    pub(crate) fn mounted() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::read(
            Arc::new(MountedHierarchies),
            read("/proc/self/cgroup"),
            read("/proc/self/mountinfo"),
        )
    }

    fn read(tree: Arc<dyn Tree>, own: String, mounts: String) -> Self {
        Self { tree, cpu: OnceLock::new(), memory: OnceLock::new(), own, mounts }
    }

    fn hierarchy(&self, controller: Controller) -> Result<&Hierarchy, LimitRefusal> {
        let cell = match controller {
            Controller::Cpu => &self.cpu,
            Controller::Memory => &self.memory,
        };
        let found = cell.get_or_init(|| {
            let found = place::find(&*self.tree, controller, &self.own, &self.mounts)?;
            clear_stale(&*self.tree, found.below());
            Ok(found)
        });
        found.as_ref().map_err(|why| LimitRefusal::No(why.to_string()))
    }

    /// Creates the node's group in one hierarchy.
    fn group(
        &self,
        controller: Controller,
        node: &str,
    ) -> Result<(Version, PathBuf), LimitRefusal> {
        let hierarchy = self.hierarchy(controller)?;
        let dir = hierarchy.make_group(&*self.tree, controller, &run_group(), node);
        Ok((hierarchy.version(), dir.map_err(|error| LimitRefusal::No(error.to_string()))?))
    }

    fn limit_cpu(&self, node: &str, cores: f64) -> Result<(Version, PathBuf), LimitRefusal> {
        let (quota, period) = quota(cores).ok_or_else(|| {
            LimitRefusal::No(format!("a limit of {cores} CPUs is below the kernel's minimum"))
        })?;
        let (version, dir) = self.group(Controller::Cpu, node)?;
        match version {
            Version::Two => self.set(&dir, "cpu.max", &format!("{quota} {period}"))?,
            Version::One => {
                self.set(&dir, "cpu.cfs_period_us", &period.to_string())?;
                self.set(&dir, "cpu.cfs_quota_us", &quota.to_string())?;
            }
        }
        Ok((version, dir))
    }

    fn limit_memory(&self, node: &str, bytes: u64) -> Result<(Version, PathBuf), LimitRefusal> {
        let (version, dir) = self.group(Controller::Memory, node)?;
        // The kernel counts in pages and rounds down.
        let page = rustix::param::page_size() as u64;
        let whole = (bytes / page * page).to_string();
        let (limit, swap, swap_limit) = match version {
            Version::Two => ("memory.max", "memory.swap.max", "0"),
            // The v1 value includes memory and swap.
            Version::One => {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", whole.as_str())
            }
        };
        self.set(&dir, limit, &whole)?;
        // A kernel without swap accounting has no such file.
        if self.tree.read(&dir.join(swap)).is_ok() {
            self.set(&dir, swap, swap_limit)?;
        }
        Ok((version, dir))
    }

    /// Writes a limit and reads it back.
    fn set(&self, dir: &Path, file: &str, value: &str) -> Result<(), LimitRefusal> {
        let path = dir.join(file);
        let no = |error| LimitRefusal::No(format!("cannot set `{}`: {error}", path.display()));
        self.tree.write(&path, value).map_err(no)?;
        let seen = self.tree.read(&path).map_err(no)?;
        if seen.trim() == value {
            return Ok(());
        }
        Err(LimitRefusal::Other(format!(
            "`{}` was set to `{value}` but reads `{}`",
            path.display(),
            seen.trim()
        )))
    }

    fn apply(&self, spec: &NodeSpec) -> Result<Group, LimitRefusal> {
        let asked = spec.limits.as_ref();
        let cpu = asked.and_then(|limits| limits.cpu);
        let cpu = cpu.map(|cores| self.limit_cpu(&spec.name, cores)).transpose()?;
        let memory = asked.and_then(|limits| limits.memory);
        let memory = memory.map(|bytes| self.limit_memory(&spec.name, bytes.0)).transpose()?;
        Ok(Group { cpu, memory })
    }

    /// Returns the hierarchies found so far.
    fn found(&self) -> impl Iterator<Item = &Hierarchy> {
        [&self.cpu, &self.memory].into_iter().filter_map(|cell| cell.get()?.as_ref().ok())
    }
}

/// Limits from this size on count as unlimited. Kubernetes cannot remove a limit, so users set a huge one instead.
const CPUS_NO_LIMIT: f64 = 1000.0;
const MEMORY_NO_LIMIT: u64 = 1 << 50;

/// Reads the limits of this process's own group: those of its container.
pub fn own_limits() -> PodLimits {
    Cgroups::mounted().own_limits()
}

impl Cgroups {
    fn own_limits(&self) -> PodLimits {
        let number =
            |dir: &Path, file: &str| self.tree.read(&dir.join(file)).ok()?.trim().parse().ok();
        let dir = |controller| place::own_dir(controller, &self.own, &self.mounts);
        let cpu = dir(Controller::Cpu).and_then(|(version, dir)| {
            let (quota, period): (f64, f64) = match version {
                Version::One => {
                    (number(&dir, "cpu.cfs_quota_us")?, number(&dir, "cpu.cfs_period_us")?)
                }
                Version::Two => {
                    let text = self.tree.read(&dir.join("cpu.max")).ok()?;
                    let (quota, period) = text.trim().split_once(' ')?;
                    (quota.parse().ok()?, period.parse().ok()?)
                }
            };
            (quota > 0.0 && period > 0.0).then(|| quota / period)
        });
        let memory = dir(Controller::Memory).and_then(|(version, dir)| {
            let file = match version {
                Version::One => "memory.limit_in_bytes",
                Version::Two => "memory.max",
            };
            self.tree.read(&dir.join(file)).ok()?.trim().parse::<u64>().ok()
        });
        PodLimits {
            cpu: cpu.filter(|cores| *cores < CPUS_NO_LIMIT),
            memory_bytes: memory.filter(|bytes| *bytes < MEMORY_NO_LIMIT),
        }
    }
}

/// Returns true if two limits are the same after this machine's rounding.
pub fn are_same(one: &PodLimits, other: &PodLimits) -> bool {
    one.is_same_as(other, rustix::param::page_size() as u64)
}

/// Returns true if a container's limits are exactly those requested, so that the server needs no group.
fn suffice(own: &PodLimits, asked: &Limits) -> bool {
    let wanted = PodLimits {
        cpu: asked.cpu.or(own.cpu),
        memory_bytes: asked.memory.map(|bytes| bytes.0).or(own.memory_bytes),
    };
    are_same(own, &wanted)
}

/// Support for one kind of limit on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSupport {
    /// `cpu`, `memory`.
    pub limit: String,
    /// Reason why it cannot be applied; `None` if it can.
    pub refused: Option<String>,
}

/// Tests which limits this machine supports, each with a group that is removed at once.
pub fn limit_support() -> Vec<LimitSupport> {
    let groups = Cgroups::mounted();
    let tried = |controller: Controller| {
        let name = format!("trial-{}", controller.name());
        let dir = match controller {
            Controller::Cpu => groups.limit_cpu(&name, 1.0),
            Controller::Memory => groups.limit_memory(&name, 64 << 20),
        };
        let refused = match dir {
            Ok(_) => None,
            Err(LimitRefusal::No(why) | LimitRefusal::Other(why)) => Some(why),
        };
        for hierarchy in groups.found() {
            let run = hierarchy.below().join(run_group());
            groups.tree.remove(&run.join(&name)).ok();
            groups.tree.remove(&run).ok();
        }
        LimitSupport { limit: controller.name().to_owned(), refused }
    };
    [Controller::Cpu, Controller::Memory].map(tried).into()
}

impl Confine for Cgroups {
    fn confine(&self, spec: &NodeSpec) -> Confinement {
        let asked = spec.limits.as_ref().is_some_and(|l| l.cpu.is_some() || l.memory.is_some());
        if !asked {
            // `shim` pins the node, or its start fails.
            let pinned = spec.limits.as_ref().is_some_and(|limits| !limits.cpus.is_empty());
            let limits = match pinned {
                true => LimitsApplied::Applied { by: "CPU affinity".to_owned() },
                false => LimitsApplied::NotAsked,
            };
            return Confinement { enter: Vec::new(), limits, group: None };
        }
        match self.apply(spec) {
            Ok(group) => {
                let mut dirs = group.dirs();
                dirs.dedup();
                let by = dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>();
                let limits = LimitsApplied::Applied { by: by.join(", ") };
                let enter = dirs.iter().map(|dir| dir.join("cgroup.procs")).collect();
                Confinement { enter, limits, group: Some(group) }
            }
            Err(refused) => {
                self.release(spec);
                let own = self.own_limits();
                let is_confined = own != PodLimits::default();
                let limits = match refused {
                    LimitRefusal::No(_)
                        if spec.limits.as_ref().is_some_and(|asked| suffice(&own, asked)) =>
                    {
                        LimitsApplied::ByContainer { limits: own.to_string() }
                    }
                    LimitRefusal::No(why) if is_confined => LimitsApplied::NotApplied {
                        why: format!("its container is limited to {own}; {why}"),
                    },
                    LimitRefusal::No(why) => LimitsApplied::NotApplied { why },
                    LimitRefusal::Other(why) => LimitsApplied::Differs { why },
                };
                Confinement { enter: Vec::new(), limits, group: None }
            }
        }
    }

    fn release(&self, spec: &NodeSpec) {
        for hierarchy in self.found() {
            let group = hierarchy.below().join(run_group()).join(&spec.name);
            // Killed processes leave their group with a delay.
            for _ in 0..20 {
                match self.tree.remove(&group) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for hierarchy in self.found() {
            // Fails while another host of this process has groups in it.
            let _ = self.tree.remove(&hierarchy.below().join(run_group()));
        }
    }
}

impl Group {
    fn dirs(&self) -> Vec<&Path> {
        [&self.cpu, &self.memory].into_iter().flatten().map(|(_, dir)| dir.as_path()).collect()
    }

    /// Returns the effect of the CPU limit since the group was created: throttled seconds, periods in which the group
    /// ran, and throttled periods. Each CPU's run queue counts its own time, so the seconds may exceed the elapsed
    /// time.
    pub(super) fn throttled(&self) -> Option<[f64; 3]> {
        let (version, dir) = self.cpu.as_ref()?;
        let text = std::fs::read_to_string(dir.join("cpu.stat")).ok()?;
        let of = |name| word_after(&text, name).map(|number| number as f64);
        let seconds = match version {
            Version::One => of("throttled_time").map(|ns| ns / 1e9),
            Version::Two => of("throttled_usec").map(|us| us / 1e6),
        };
        Some([seconds?, of("nr_periods")?, of("nr_throttled")?])
    }

    /// Returns the share of throttled periods since the group was created, 0 to 1.
    pub(super) fn share_throttled(&self) -> Option<f64> {
        let (_, dir) = self.cpu.as_ref()?;
        let text = std::fs::read_to_string(dir.join("cpu.stat")).ok()?;
        let of = |name| word_after(&text, name).map(|number| number as f64);
        let (all, held) = (of("nr_periods")?, of("nr_throttled")?);
        (all > 0.0).then(|| held / all)
    }

    /// Returns the number of its processes that the kernel killed for memory.
    pub(super) fn memory_kills(&self) -> u64 {
        let Some((version, dir)) = &self.memory else { return 0 };
        let file = match version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        word_after(&text, "oom_kill").unwrap_or(0)
    }

    /// Returns the memory charged to the group now, in bytes, including page cache.
    pub(super) fn memory(&self) -> Option<f64> {
        let (version, dir) = self.memory.as_ref()?;
        let file = match version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        };
        std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
    }
}

fn word_after(text: &str, name: &str) -> Option<u64> {
    let words = |line: &str| line.split_once(' ').filter(|(word, _)| *word == name)?.1.parse().ok();
    text.lines().find_map(words)
}

/// Returns the name of the group above this process's nodes' groups.
fn run_group() -> String {
    format!("{PREFIX}{}", std::process::id())
}

const PREFIX: &str = "bakeoff-";

/// Converts a CPU limit to a quota and a period, both in microseconds. Returns `None` if it is too low.
fn quota(cores: f64) -> Option<(u64, u64)> {
    let of = |period: u64| ((cores * period as f64).round() as u64, period);
    [of(PERIOD_US), of(PERIOD_MAX_US)].into_iter().find(|&(quota, _)| quota >= QUOTA_MIN_US)
}

/// Removes the empty groups of bakeoffs that are gone.
fn clear_stale(tree: &dyn Tree, below: &Path) {
    for name in tree.groups(below) {
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<i32>().ok()) else {
            continue;
        };
        if pid == std::process::id() as i32 || super::procfs::stat(pid).is_some() {
            continue;
        }
        let _ = remove_run(tree, &below.join(name));
    }
}

/// Removes the group of a run with those of its nodes, if they are empty.
fn remove_run(tree: &dyn Tree, group: &Path) -> io::Result<()> {
    for node in tree.groups(group) {
        let _ = tree.remove(&group.join(node));
    }
    tree.remove(group)
}

/// Removes the group of a run whose processes were killed. Retries, because they leave it with a delay.
pub(super) fn remove_when_left(group: &Path) {
    for _ in 0..50 {
        match remove_run(&MountedHierarchies, group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => break,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
