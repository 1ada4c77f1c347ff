//! Tests the rules of both versions against a simulated kernel, and the real kernel if it permits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bakeoff_clock as clock;
use bakeoff_core::study::Limits;
use bakeoff_core::trial_samples::{Column, Series, TrialSamples};
use bakeoff_core::units::ByteCount;
use tempfile::TempDir;

use super::super::observe::{INTERVAL_MIN, Sampler};
use super::super::tests::sh;
use super::super::{Host, Process, usage};
use super::*;

/// A simulated kernel with the limits that `cgroups(7)` describes.
#[derive(Default)]
struct Kernel {
    groups: Mutex<BTreeMap<PathBuf, Fake>>,
    /// Mount, version, controllers.
    mounts: Vec<(PathBuf, Version, BTreeSet<String>)>,
    /// No group below this path may be created or written to.
    locked: Option<PathBuf>,
    /// Largest memory limit that any group is granted.
    memory_max: Option<u64>,
}

#[derive(Default, Clone)]
struct Fake {
    procs: String,
    divided: BTreeSet<String>,
    files: BTreeMap<String, String>,
}

impl Kernel {
    fn new(mounts: &[(&str, Version, &[&str])]) -> Self {
        let mut kernel = Self::default();
        for &(place, version, controllers) in mounts {
            let controllers = controllers.iter().map(|&name| name.to_owned()).collect();
            kernel.mounts.push((place.into(), version, controllers));
            kernel.all_groups().insert(place.into(), Fake::default());
        }
        kernel
    }

    /// Adds an existing group with processes.
    fn with(self, path: &str, procs: &str, divided: &[&str]) -> Self {
        let divided = divided.iter().map(|&name| name.to_owned()).collect();
        let fake = Fake { procs: procs.into(), divided, files: BTreeMap::new() };
        self.all_groups().insert(path.into(), fake);
        self
    }

    fn all_groups(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Fake>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<String> {
        self.all_groups().keys().map(|path| path.display().to_string()).collect()
    }

    fn file(&self, path: &str) -> String {
        self.read(Path::new(path)).unwrap()
    }

    fn mount(&self, path: &Path) -> io::Result<&(PathBuf, Version, BTreeSet<String>)> {
        let found = self.mounts.iter().find(|(place, ..)| path.starts_with(place));
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn controllers(&self, group: &Path) -> io::Result<BTreeSet<String>> {
        let (place, version, all) = self.mount(group)?;
        if *version == Version::One || group == place {
            return Ok(all.clone());
        }
        let parent = self.all_groups().get(group.parent().unwrap()).cloned().unwrap_or_default();
        Ok(parent.divided)
    }

    fn check_lock(&self, path: &Path) -> io::Result<()> {
        match &self.locked {
            Some(locked) if path.starts_with(locked) => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }
}

fn words(set: &BTreeSet<String>) -> String {
    set.iter().cloned().collect::<Vec<_>>().join(" ")
}

impl Tree for Kernel {
    fn read(&self, path: &Path) -> io::Result<String> {
        let (group, file) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let (place, version, _) = self.mount(path)?;
        let controllers = self.controllers(group)?;
        let fake = self.all_groups().get(group).cloned().ok_or(io::ErrorKind::NotFound)?;
        if let Some(text) = fake.files.get(file) {
            return Ok(format!("{text}\n"));
        }
        let cpu = controllers.contains("cpu") && group != place;
        let memory = controllers.contains("memory") && group != place;
        match (version, file) {
            (Version::Two, "cgroup.type") if group != place => Ok("domain\n".into()),
            (Version::Two, "cgroup.controllers") => Ok(words(&controllers)),
            (Version::Two, "cgroup.subtree_control") => Ok(words(&fake.divided)),
            (_, "cgroup.procs") => Ok(fake.procs),
            (Version::Two, "cpu.max") if cpu => Ok("max 100000\n".into()),
            (Version::Two, "memory.max" | "memory.swap.max") if memory => Ok("max\n".into()),
            (Version::One, "cpu.cfs_quota_us") if cpu => Ok("-1\n".into()),
            (Version::One, "cpu.cfs_period_us") if cpu => Ok("100000\n".into()),
            (Version::One, "memory.limit_in_bytes") if memory => Ok("9223372036854771712\n".into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let (group, file) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        self.read(path)?;
        self.check_lock(path)?;
        let (place, ..) = self.mount(path)?;
        let controllers = self.controllers(group)?;
        let mut groups = self.all_groups();
        let fake = groups.get_mut(group).unwrap();
        if file == "cgroup.subtree_control" {
            let name = text.strip_prefix('+').unwrap();
            if !controllers.contains(name) {
                return Err(io::ErrorKind::NotFound.into());
            }
            if group != place && !fake.procs.is_empty() {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            fake.divided.insert(name.into());
            return Ok(());
        }
        let granted = match (self.memory_max, text.parse::<u64>()) {
            (Some(most), Ok(bytes)) if file.starts_with("memory.") => bytes.min(most).to_string(),
            _ => text.to_owned(),
        };
        fake.files.insert(file.to_owned(), granted);
        Ok(())
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        if self.all_groups().contains_key(path) {
            return Ok(());
        }
        self.check_lock(path)?;
        self.mount(path)?;
        let parent = path.parent().unwrap();
        self.make(parent)?;
        self.all_groups().insert(path.to_owned(), Fake::default());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let busy = !Tree::groups(self, path).is_empty()
            || !self.all_groups().get(path).ok_or(io::ErrorKind::NotFound)?.procs.is_empty();
        if busy {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.all_groups().remove(path);
        Ok(())
    }

    fn groups(&self, path: &Path) -> Vec<String> {
        let all = self.all_groups();
        let below = all.keys().filter(|group| group.parent() == Some(path));
        below.map(|group| group.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }
}

fn node(name: &str, cpu: Option<f64>, memory: Option<u64>) -> NodeSpec {
    let dir = TempDir::new().unwrap();
    let limits = Some(Limits { cpu, memory: memory.map(ByteCount), cpus: Vec::new() });
    NodeSpec { name: name.into(), limits, ..sh(&dir, "") }
}

fn us() -> u32 {
    std::process::id()
}

const V2_MOUNT: &str = "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw,nsdelegate\n";
const V1_MOUNTS: &str = "32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                         35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n\
                         41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n";

/// Applies limits in a simulated kernel and returns the outcome.
fn confine(kernel: Kernel, own: &str, mounts: &str, spec: &NodeSpec) -> (Arc<Kernel>, Confinement) {
    let kernel = Arc::new(kernel);
    let cgroups = Cgroups::read(Arc::<Kernel>::clone(&kernel), own.into(), mounts.into());
    let confinement = cgroups.confine(spec);
    // Its cleanup at the end has tests of its own.
    std::mem::forget(cgroups);
    (kernel, confinement)
}

fn why(confinement: Confinement) -> String {
    assert!(confinement.enter.is_empty() && confinement.group.is_none());
    match confinement.limits {
        LimitsApplied::NotApplied { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn in_v2_nodes_go_next_to_a_group_that_holds_processes() {
    let kernel = Kernel::new(&[("/cg", Version::Two, &["cpu", "io", "memory"])])
        .with("/cg/app", "", &["memory"])
        .with("/cg/app/term", "1\n2\n", &[]);
    kernel.all_groups().get_mut(Path::new("/cg")).unwrap().divided =
        ["cpu", "memory"].map(str::to_owned).into();
    let spec = node("etcd-1", Some(0.5), Some(1 << 30));
    let (kernel, confinement) = confine(kernel, "0::/app/term\n", V2_MOUNT, &spec);
    let group = format!("/cg/app/bakeoff-{}/etcd-1", us());
    assert_eq!(confinement.limits, LimitsApplied::Applied { by: group.clone() });
    assert_eq!(confinement.enter, [PathBuf::from(format!("{group}/cgroup.procs"))]);
    assert_eq!(kernel.file(&format!("{group}/cpu.max")), "50000 100000\n");
    assert_eq!(kernel.file(&format!("{group}/memory.max")), "1073741824\n");
    assert_eq!(kernel.file(&format!("{group}/memory.swap.max")), "0\n");
    assert_eq!(kernel.file("/cg/app/cgroup.subtree_control"), "cpu memory");
    assert!(!kernel.all().contains(&format!("/cg/app/term/bakeoff-{}", us())));
}

#[test]
fn in_v2_nodes_go_below_an_empty_group_and_below_the_root() {
    let controllers: &[&str] = &["cpu", "memory"];
    let kernel = Kernel::new(&[("/cg", Version::Two, controllers)]).with("/cg", "1\n", &[]);
    let spec = node("a-1", Some(0.004), None);
    let (kernel, confinement) = confine(kernel, "0::/\n", V2_MOUNT, &spec);
    assert!(matches!(confinement.limits, LimitsApplied::Applied { .. }), "{confinement:?}");
    let file = format!("/cg/bakeoff-{}/a-1/cpu.max", us());
    assert_eq!(kernel.file(&file), "4000 1000000\n", "a longer period where a share is small");

    let kernel = Kernel::new(&[("/cg", Version::Two, controllers)]).with("/cg", "1\n", controllers);
    let kernel = kernel.with("/cg/own", "", &[]);
    let (kernel, confinement) = confine(kernel, "0::/own\n", V2_MOUNT, &spec);
    assert!(matches!(confinement.limits, LimitsApplied::Applied { .. }), "{confinement:?}");
    assert!(kernel.all().contains(&format!("/cg/own/bakeoff-{}/a-1", us())));
}

#[test]
fn in_v1_each_controller_has_its_own_hierarchy() {
    let mounts: &[(&str, Version, &[&str])] = &[
        ("/cg/cpu,cpuacct", Version::One, &["cpu"]),
        ("/cg/memory", Version::One, &["memory"]),
        ("/cg/unified", Version::Two, &[]),
    ];
    let own = "4:memory:/session/x\n1:cpu,cpuacct:/\n0::/\n";
    let kernel = Kernel::new(mounts).with("/cg/memory/session", "", &[]);
    let kernel = kernel.with("/cg/memory/session/x", "7\n", &[]);
    let spec = node("zk-1", Some(1.5), Some((64 << 20) + 5));
    let (kernel, confinement) = confine(kernel, own, V1_MOUNTS, &spec);
    let cpu = format!("/cg/cpu,cpuacct/bakeoff-{}/zk-1", us());
    let memory = format!("/cg/memory/session/x/bakeoff-{}/zk-1", us());
    assert_eq!(confinement.limits, LimitsApplied::Applied { by: format!("{cpu}, {memory}") });
    assert_eq!(confinement.enter.len(), 2);
    assert_eq!(kernel.file(&format!("{cpu}/cpu.cfs_quota_us")), "150000\n");
    assert_eq!(kernel.file(&format!("{cpu}/cpu.cfs_period_us")), "100000\n");
    let limit = kernel.file(&format!("{memory}/memory.limit_in_bytes"));
    assert_eq!(limit, "67108864\n", "whole pages");
}

#[test]
fn failed_limits_are_reported_and_leave_nothing() {
    let v2: &[(&str, Version, &[&str])] = &[("/cg", Version::Two, &["memory"])];
    let both = node("n-1", Some(0.5), Some(1 << 20));
    let check = |kernel, own: &str, mounts: &str, spec: &NodeSpec, expected: &str| {
        let before = Kernel::all(&kernel);
        let (kernel, confinement) = confine(kernel, own, mounts, spec);
        let why = why(confinement);
        assert!(why.contains(expected), "{why}");
        let made = kernel.all().into_iter().filter(|group| !before.contains(group));
        let made = made.filter(|group| group.ends_with("/n-1")).collect::<Vec<_>>();
        assert!(made.is_empty(), "{made:?}");
    };
    check(Kernel::new(v2), "0::/\n", V2_MOUNT, &both, "`/cg` has no `cpu` controller");
    check(Kernel::new(&[]), "", "", &both, "no cgroup hierarchy with the `cpu` controller");
    check(Kernel::new(&[]), "3:cpu:/\n", "", &both, "is not mounted");

    let kernel = Kernel { locked: Some("/cg".into()), ..Kernel::new(v2) };
    let memory = node("n-1", None, Some(1 << 20));
    check(kernel, "0::/\n", V2_MOUNT, &memory, "permission denied");
    let kernel = Kernel::new(v2).with("/cg", "", &["memory"]).with("/cg/own", "9\n", &[]);
    let locked = format!("/cg/bakeoff-{}", us());
    let kernel = Kernel { locked: Some(locked.clone().into()), ..kernel };
    check(kernel, "0::/own\n", V2_MOUNT, &memory, &format!("cannot create the cgroup `{locked}`"));
    // A container's own group holds processes, and its parents are invisible.
    let kernel = Kernel::new(v2).with("/cg", "", &["memory"]).with("/cg/own", "9\n", &[]);
    let part = "30 23 0:26 /own /cg/own rw - cgroup2 cgroup2 rw\n";
    check(kernel, "0::/own\n", part, &memory, "holds processes");

    let v1: &[(&str, Version, &[&str])] = &[("/cg/cpu,cpuacct", Version::One, &["cpu"])];
    let little = node("n-1", Some(0.0001), None);
    check(Kernel::new(v1), "1:cpu,cpuacct:/\n", V1_MOUNTS, &little, "below the kernel's minimum");
    // The CPU could be limited but not the memory, so neither is.
    check(Kernel::new(v1), "1:cpu,cpuacct:/\n", V1_MOUNTS, &both, "`memory` controller");
}

#[test]
fn equal_container_limits_suffice_for_a_server() {
    let controllers: &[&str] = &["cpu", "memory"];
    // A container sees only its own group and may write to none.
    let v2 = (V2_MOUNT, "0::/\n", vec![("/cg", Version::Two, controllers)]);
    let v1_mounts: &[(&str, Version, &[&str])] =
        &[("/cg/cpu,cpuacct", Version::One, &["cpu"]), ("/cg/memory", Version::One, &["memory"])];
    let v1 = (V1_MOUNTS, "4:memory:/\n1:cpu,cpuacct:/\n", v1_mounts.to_vec());
    for (mounts, own, hierarchies) in [v2, v1] {
        let check = |cpu: f64, memory: u64| {
            let kernel = Kernel { locked: Some("/cg".into()), ..Kernel::new(&hierarchies) };
            for (group, file, value) in [
                ("/cg", "cpu.max", "50000 100000"),
                ("/cg", "memory.max", "104857600"),
                ("/cg/cpu,cpuacct", "cpu.cfs_quota_us", "50000"),
                ("/cg/cpu,cpuacct", "cpu.cfs_period_us", "100000"),
                ("/cg/memory", "memory.limit_in_bytes", "104857600"),
            ] {
                if let Some(group) = kernel.all_groups().get_mut(Path::new(group)) {
                    group.files.insert(file.to_owned(), value.to_owned());
                }
            }
            confine(kernel, own, mounts, &node("a-1", Some(cpu), Some(memory))).1.limits
        };
        let limits = "0.5 CPU and 100 MiB of memory".to_owned();
        assert_eq!(check(0.5, 100 << 20), LimitsApplied::ByContainer { limits });
        for (cpu, memory) in [(0.25, 100 << 20), (0.5, 200 << 20)] {
            let LimitsApplied::NotApplied { why } = check(cpu, memory) else { panic!("{cpu}") };
            assert!(
                why.starts_with("its container is limited to 0.5 CPU and 100 MiB of memory; "),
                "{why}"
            );
        }
    }
}

#[test]
fn limit_that_reads_back_differently_is_reported() {
    let v2: &[(&str, Version, &[&str])] = &[("/cg", Version::Two, &["memory"])];
    let kernel = Kernel { memory_max: Some(4096), ..Kernel::new(v2) };
    let spec = node("n-1", None, Some(1 << 20));
    let (kernel, confinement) = confine(kernel, "0::/\n", V2_MOUNT, &spec);
    let LimitsApplied::Differs { why } = confinement.limits else { panic!("{confinement:?}") };
    assert!(why.contains("was set to `1048576` but reads `4096`"), "{why}");
    assert!(confinement.enter.is_empty() && !kernel.all().iter().any(|one| one.ends_with("n-1")));
}

#[test]
fn a_node_without_limits_has_no_group() {
    let (kernel, confinement) = confine(Kernel::new(&[]), "", "", &node("n-1", None, None));
    assert_eq!(confinement.limits, LimitsApplied::NotAsked);
    assert!(confinement.enter.is_empty() && kernel.all().is_empty());
}

#[test]
fn groups_are_removed_with_their_nodes_and_stale_ones_at_the_next_start() {
    let v1: &[(&str, Version, &[&str])] = &[("/cg/cpu,cpuacct", Version::One, &["cpu"])];
    let at = |path: &str| format!("/cg/cpu,cpuacct/{path}");
    // No process has the first ID, process 1 always runs, and the third group is not ours.
    let dead = i32::MAX;
    let kernel = Kernel::new(v1)
        .with(&at(&format!("bakeoff-{dead}")), "", &[])
        .with(&at(&format!("bakeoff-{dead}/etcd-1")), "", &[])
        .with(&at("bakeoff-1"), "", &[])
        .with(&at("bakeoff-x"), "", &[])
        .with(&at(&format!("bakeoff-{}", dead - 1)), "5\n", &[]);
    let kernel = Arc::new(kernel);
    let tree = Arc::<Kernel>::clone(&kernel);
    let cgroups = Cgroups::read(tree, "1:cpu,cpuacct:/\n".into(), V1_MOUNTS.into());
    let spec = node("n-1", Some(0.5), None);
    cgroups.confine(&spec);
    let own = at(&format!("bakeoff-{}", us()));
    let mut left = [at("bakeoff-1"), at("bakeoff-x"), at(&format!("bakeoff-{}", dead - 1))];
    left.sort();
    let is_ours = |group: &String| group.starts_with(&own);
    let (ours, others): (Vec<_>, Vec<_>) = kernel.all().into_iter().skip(1).partition(is_ours);
    assert_eq!(others, left, "a dead run's group with processes stays");
    assert_eq!(ours, [own.clone(), format!("{own}/n-1")]);
    cgroups.release(&spec);
    cgroups.release(&spec);
    drop(cgroups);
    assert!(!kernel.all().iter().any(is_ours));
}

#[test]
fn throttling_is_read_in_both_cgroup_versions() {
    let dir = TempDir::new().unwrap();
    let of = |version, stat: &str, memory: (&str, &str)| {
        std::fs::write(dir.path().join("cpu.stat"), stat).unwrap();
        std::fs::write(dir.path().join(memory.0), memory.1).unwrap();
        let at = || Some((version, dir.path().to_owned()));
        Group { cpu: at(), memory: at() }
    };
    // In the kernels' format (cgroup-v1/memory.txt, cgroup-v2.rst).
    let one = of(
        Version::One,
        "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\n",
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
    );
    assert_eq!(one.share_throttled(), Some(0.75));
    assert_eq!(one.memory_kills(), 1);
    let two = of(
        Version::Two,
        "usage_usec 9\nnr_periods 10\nnr_throttled 1\nthrottled_usec 5\n",
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n"),
    );
    assert_eq!(two.share_throttled(), Some(0.1));
    assert_eq!(two.memory_kills(), 0);
    let idle = of(Version::Two, "nr_periods 0\nnr_throttled 0\n", ("memory.events", ""));
    assert_eq!((idle.share_throttled(), idle.memory_kills()), (None, 0));
    let unlimited = Group { cpu: None, memory: None };
    assert_eq!((unlimited.share_throttled(), unlimited.memory_kills()), (None, 0));
}

/// Returns the CPU seconds per second that a node used between two samples at least `seconds` apart.
fn share(process: &Process, dir: &TempDir, seconds: u64) -> (f64, Series) {
    let sampler = Sampler::start(dir.path(), INTERVAL_MIN, clock::now());
    sampler.watch(process.watched());
    std::thread::sleep(Duration::from_secs(seconds));
    let observed = sampler.stop();
    let node = observed.nodes.into_iter().find(|node| node.name == process.name()).unwrap();
    let growth = |column| node.growth(column, node.at[0], f64::MAX).unwrap();
    let cpu = growth(Column::CpuUser) + growth(Column::CpuSystem);
    (cpu / (node.at.last().unwrap() - node.at[0]), node)
}

#[test]
fn cpu_limit_holds_in_samples() {
    let dir = TempDir::new().unwrap();
    let limits = Some(Limits { cpu: Some(0.2), memory: None, cpus: Vec::new() });
    let burn = "while :; do :; done";
    let spec = NodeSpec { name: "limited-1".into(), limits, ..sh(&dir, burn) };
    let process = Host::new(dir.path()).unwrap().launch(spec.clone()).unwrap();
    let by = match process.limits() {
        LimitsApplied::Applied { by } => by,
        LimitsApplied::NotApplied { why } => return skipped("a_cpu_limit_holds", &why),
        other => panic!("{other:?}"),
    };
    // It wants five times its limit. Samples of a busy machine are late, and the machine may give less than the limit.
    let mut seen = Vec::new();
    let node = loop {
        let (share, node) = share(&process, &dir, 3);
        seen.push(share);
        assert!(share < 0.25, "{seen:?}");
        if node.growth(Column::CpuThrottled, node.at[0], f64::MAX) > Some(0.5) {
            break node;
        }
        assert!(seen.len() < 20, "{seen:?}");
    };
    let observed = TrialSamples { nodes: vec![node], ..TrialSamples::default() };
    let usage = usage::summarize(&observed, &[], (0.0, 1e9));
    let [Some(all), Some(held)] = [usage[0].periods, usage[0].periods_throttled] else {
        panic!("{usage:?}");
    };
    assert!(held <= all && held > 0, "of {all} periods {held} were cut short");
    process.restart().unwrap();
    assert!(matches!(process.limits(), LimitsApplied::Applied { .. }), "after a restart too");
    drop(process);
    assert!(!Path::new(&by).exists(), "{by} is left");

    let spec = NodeSpec { name: "unlimited-1".into(), limits: None, ..spec };
    let process = Host::new(dir.path()).unwrap().launch(spec).unwrap();
    let mut seen = (0..60).map(|_| share(&process, &dir, 1).0);
    assert!(seen.any(|share| share > 0.3), "without the limit it gets more");
}

fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
