//! Reads the busy time of the machine's CPUs from the most exact source available.
//!
//! `/proc/stat` samples at clock ticks: the task that runs at a tick counts as having run since the last one. It mostly
//! misses work that begins and ends between two ticks, as a server's work under moderate load does. In one case it
//! missed 0.41 of 0.44 cores. The scheduler's own sums are exact. They are in the root of the cgroup v1 hierarchy
//! (`cpuacct.usage`) and in `/proc/schedstat`. `cpu.stat` of the v2 root does not help: the kernel fills it from the
//! ticks of `/proc/stat`.
//!
//! Not here: the processes that used the time (`census`, `foreign_processes`).

use std::path::{Path, PathBuf};

use bakeoff_core::trial_samples::BusyBy;

/// Source of the machine's busy time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BusyTimeSource {
    /// The file `cpuacct.usage` of the v1 root group.
    Cgroup(PathBuf),
    /// `/proc/schedstat`.
    SchedStat,
    /// `/proc/stat` only.
    Ticks,
}

impl BusyTimeSource {
    /// Returns this machine's most exact source.
    pub(super) fn find() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // A container may see its own group as the root; only the real root has this file.
        let is_root = |place: &Path| place.join("release_agent").exists();
        let group = accounts(&mounts).find(|place| is_root(place));
        let sources = group.map(|place| Self::Cgroup(place.join("cpuacct.usage")));
        let mut sources = sources.into_iter().chain([Self::SchedStat]);
        sources.find(|source| source.seconds().is_some()).unwrap_or(Self::Ticks)
    }

    /// Returns the source's name in records.
    pub(super) fn name(&self) -> BusyBy {
        match self {
            Self::Cgroup(_) => BusyBy::Cgroup,
            Self::SchedStat => BusyBy::SchedStat,
            Self::Ticks => BusyBy::Ticks,
        }
    }

    /// Returns the busy seconds of all CPUs since boot; `None` for [`Self::Ticks`], or if reading fails.
    pub(super) fn seconds(&self) -> Option<f64> {
        match self {
            Self::Cgroup(file) => {
                let text = std::fs::read_to_string(file).ok()?;
                Some(text.trim().parse::<u64>().ok()? as f64 / 1e9)
            }
            Self::SchedStat => run_time(&std::fs::read_to_string("/proc/schedstat").ok()?),
            Self::Ticks => None,
        }
    }
}

/// Returns the mount points of v1 hierarchies with CPU accounting; `proc_pid_mountinfo(5)`.
fn accounts(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
        let place = before.split(' ').nth(4)?;
        let accounts = kind == "cgroup" && options.split(',').any(|one| one == "cpuacct");
        accounts.then(|| place.into())
    })
}

/// Returns the run time of all CPUs in seconds: the sum of each CPU's seventh field, in nanoseconds
/// (`Documentation/scheduler/sched-stats.rst`, since version 15).
fn run_time(text: &str) -> Option<f64> {
    let version = text.lines().find_map(|line| line.strip_prefix("version "))?;
    if version.trim().parse::<u32>().ok()? < 15 {
        return None;
    }
    let cpus = text.lines().filter(|line| line.starts_with("cpu"));
    let ns: Option<u64> =
        cpus.map(|line| line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok()).sum();
    ns.filter(|&ns| ns > 0).map(|ns| ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_time_is_the_seventh_figure_of_each_cpu() {
        let text = "version 15\ntimestamp 4294\n\
                    cpu0 0 0 9 9 9 9 1500000000 7 3\ndomain0 3 1 2\n\
                    cpu1 0 0 9 9 9 9 500000000 7 3\n";
        assert_eq!(run_time(text), Some(2.0));
        assert_eq!(run_time(&text.replace("version 15", "version 14")), None, "other figures");
        assert_eq!(run_time("version 15\n"), None);
    }

    #[test]
    fn an_accounting_hierarchy_is_found_among_mounts() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
        let found = accounts(mounts).collect::<Vec<_>>();
        assert_eq!(found, [PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")]);
    }

    #[test]
    fn own_cpu_time_is_in_the_machines_running_time() {
        let source = BusyTimeSource::find();
        let Some(before) = source.seconds() else { return };
        let cpu = bakeoff_clock::process_cpu();
        while bakeoff_clock::process_cpu() - cpu < std::time::Duration::from_millis(50) {}
        assert!(source.seconds().unwrap() - before >= 0.049, "{source:?}");
    }
}
