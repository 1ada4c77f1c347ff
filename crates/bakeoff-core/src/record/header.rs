//! The first line of a record: the study, the machine, the gate.
//!
//! Not here: the systems that it lists (`system`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::SystemRecord;
use crate::plan::Trial;
use crate::study::Study;
use crate::units::ByteCount;

/// Description of a run: its study, systems, machine and order of trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// [`super::FORMAT`] of the program that wrote it.
    pub format: u32,
    /// That program's version.
    pub bakeoff: String,
    /// The SHA-256 of that program's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bakeoff_sha256: Option<String>,
    /// When the run began, in UTC: `2026-11-21T20:24:50Z`.
    pub started: String,
    /// The study, with all defaults filled in.
    pub study: Study,
    /// Seed of the order, the keys, the values and the arrivals.
    pub seed: u64,
    /// The trials in the order in which they run. Read back, a gate's that was extended holds all of them.
    pub order: Vec<Trial>,
    /// The machine.
    pub environment: Environment,
    /// The contenders as they really are, in the study's order.
    pub systems: Vec<SystemRecord>,
    /// Terms of a gate, in a run of two builds of one system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

/// Terms of `bakeoff gate`: with the trials, all that it takes to judge the run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The study's name for the system of which `base` and `new` are builds.
    pub system: String,
    /// The conditions, as they were given; none asks for what stops a merge by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_if: Vec<String>,
    /// The loss that must not pass unnoticed, as a part of the base's figure.
    pub detect: f64,
    /// Most trials of each build, where the scatter asks for more than were planned; without it their number
    /// is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials_max: Option<u32>,
}

/// The machine that a run took place on.
///
/// Each field is one property of the machine; a record stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// `Intel(R) Xeon(R) Processor`.
    pub cpu_model: String,
    /// CPUs that bakeoff may run on.
    pub cpus: u32,
    /// All memory.
    pub memory_bytes: u64,
    /// Type of the file system that holds the servers' data: `ext4`.
    pub file_system: String,
    /// Free space there when the run began.
    pub disk_free_bytes: u64,
    /// A 1 KiB append made durable there, before the run: median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_median_us: Option<f64>,
    /// The same, 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_p99_us: Option<f64>,
    /// Most files, sockets among them, that bakeoff may have open.
    pub open_files_max: u64,
    /// Threads of the load generator.
    pub generator_threads: u32,
    /// Whether generator and servers share the machine, and its CPUs.
    pub shared_with_servers: bool,
    /// Whether bakeoff was told that others work on the machine, so that neither neighbours nor steal are checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_machine: bool,
    /// Properties of hardware and kernel that change figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The machine's own limits, measured before the first trial. Where the run has places, each machine has its own,
    /// and here are the appends of the quickest disk of those that take servers.
    #[serde(
        rename = "floor",
        alias = "machine_baseline",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub machine_baseline: Option<MachineBaseline>,
    /// The machines of the run, where it has places; then the fields above are of the coordinator's own machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<RunMachine>,
    /// The network from each generator's machine to each server's, and among servers', measured before the first
    /// trial with nothing else on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkPath>,
}

/// The network between two machines of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkPath {
    /// The machine that sent.
    pub from: String,
    /// The machine that answered.
    pub to: String,
    /// Median round trip of 64 bytes over TCP, in microseconds.
    pub median_us: f64,
    /// The shortest.
    pub shortest_us: f64,
    /// Bytes of 64 KiB blocks there and back in a second, each byte counted once.
    pub bytes_per_second: f64,
}

/// One of the machines of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunMachine {
    /// Its name in the places file.
    pub name: String,
    /// The address by which the others reach it.
    pub address: String,
    /// Whether it takes servers.
    pub servers: bool,
    /// Whether it generates load.
    pub generator: bool,
    /// The CPUs that servers and the generator keep to, in order; empty: all that may be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Half of the shortest round trip between the coordinator and it, in microseconds.
    pub clock_error_us: f64,
    /// Whether the coordinator connected to its servers through its agent: to ask and to set up, not to load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tunnel: bool,
    /// The first machine of the run with the same running kernel, where another has it: both are one machine, in
    /// namespaces, containers or pods of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_kernel_as: Option<String>,
    /// The machine itself.
    pub environment: Box<Environment>,
    /// Its node and limits, where it is a pod of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<RunPod>,
}

/// A pod that takes servers or generates load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPod {
    /// The node of the cluster that it is on.
    pub node: String,
    /// The limits that the places file asks for.
    pub asked: PodLimits,
    /// Those that it has, read inside of it before the first trial.
    pub read: PodLimits,
}

/// Limits of a pod; `None` where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PodLimits {
    /// In cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl PodLimits {
    /// Returns whether both are the same, as a kernel counts whose pages have so many bytes: in pages, and in whole
    /// microseconds of CPU time.
    pub fn is_same_as(&self, other: &Self, page: u64) -> bool {
        let pages = |limits: &Self| limits.memory_bytes.map(|bytes| bytes / page);
        let cpu = match (self.cpu, other.cpu) {
            (Some(one), Some(other)) => (one - other).abs() <= one * CPU_SAME,
            (one, other) => one.is_none() && other.is_none(),
        };
        cpu && pages(self) == pages(other)
    }
}

/// Limits of CPU that differ by no more than this share are the same: a quota is a whole number.
const CPU_SAME: f64 = 0.01;

impl fmt::Display for PodLimits {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpu {
            Some(cores) => write!(to, "{cores} CPU and ")?,
            None => write!(to, "no limit of CPU and ")?,
        }
        match self.memory_bytes {
            Some(bytes) => write!(to, "{} of memory", ByteCount(bytes)),
            None => write!(to, "none of memory"),
        }
    }
}

/// Properties of hardware and kernel that change figures. What the kernel does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// The CPUs' frequency governors: `performance`; several with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether two CPUs share a core (simultaneous multithreading).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Number of NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// The kernel's words on each weakness of the processor that it has: `spectre_v2` is `Mitigation: …`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// The virtual machine, as its firmware names it, or `yes`; `none` on bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The container that bakeoff runs in: `docker`; `none` outside of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Model of the disk that holds the servers' data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_model: Option<String>,
    /// Its write cache, as the kernel takes it: `write back` or `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_write_cache: Option<String>,
    /// Source of the kernel's clock: `tsc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Version of the cgroups that limits and sampling use: 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_version: Option<u32>,
}

/// The machine's own limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineBaseline {
    /// Bytes of each append.
    pub append_bytes: u64,
    /// Durable appends to the disk that holds the servers' data, for each number of clients whose
    /// appends share one sync.
    pub appends: Vec<BaselineAppends>,
    /// Round trips over loopback to a server that does nothing, for each number of clients.
    pub round_trips: Vec<BaselineRoundTrips>,
}

/// Durable appends when so many wait for each sync (group commit).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineAppends {
    /// Appends that share one sync.
    pub clients: u32,
    /// Appends made durable per second, by the median time of a write and its sync.
    pub per_second: f64,
    /// The same by the mean time, in which the slow ones are too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second_mean: Option<f64>,
    /// The least time that one write and its sync took, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quickest_us: Option<f64>,
}

/// Round trips over loopback to a server that does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineRoundTrips {
    /// Clients, each with one request under way.
    pub clients: u32,
    /// Round trips per second.
    pub per_second: f64,
    /// CPU time of the generator for each, in microseconds.
    pub generator_cpu_us: f64,
    /// CPU time of the server for each, in microseconds.
    pub server_cpu_us: f64,
}
