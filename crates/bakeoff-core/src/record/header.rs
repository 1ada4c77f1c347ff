//! Defines the first line of a record: the study, the machine, the gate.
//!
//! Not here: the systems that it lists (`system`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::SystemRecord;
use crate::plan::Trial;
use crate::study::{Study, StudySource, shipped};
use crate::units::ByteCount;

/// Describes a run: its study, systems, machine and order of trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunHeader {
    /// Version of the format ([`super::FORMAT`]).
    pub format: u32,
    /// Version of that program.
    pub bakeoff: String,
    /// SHA-256 of that program's executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bakeoff_sha256: Option<String>,
    /// Start of the run, in UTC: `2026-11-21T20:24:50Z`.
    pub started: String,
    /// Study with all defaults filled in.
    pub study: Study,
    /// Text that the study comes from; `None` for a load that no study describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<StudySource>,
    /// Seed of the order, the keys, the values and the arrivals.
    pub seed: u64,
    /// Trials in the order in which they run. After reading, includes those of extensions.
    pub order: Vec<Trial>,
    /// Machine of the run.
    pub environment: Environment,
    /// Systems as resolved, in the study's order.
    pub systems: Vec<SystemRecord>,
    /// Rule by which the number of rounds was chosen.
    #[serde(default, skip_serializing_if = "RoundCount::is_fixed")]
    pub rounds: RoundCount,
    /// Terms of a gate, for a run of two builds of one system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

impl RunHeader {
    /// Returns the command that repeats the run. One that did not come from a shipped study is repeated from its
    /// record.
    pub fn repeat_command(&self) -> String {
        let Study { name, trials, faults, repeat, .. } = &self.study;
        if !shipped::shipped().iter().any(|(shipped, _)| shipped == name) {
            return "bakeoff reproduce record.jsonl".to_owned();
        }
        let mut command = format!("bakeoff run {name}");
        if self.study.is_quick {
            command += " --quick";
        }
        if let Some(scale) = self.study.scale_text() {
            command += &format!(" --scale {scale}");
        }
        if self.rounds.is_fixed() {
            command += &format!(" --trials {trials}");
        }
        let chosen: Vec<&str> =
            faults.iter().filter(|fault| fault.alone).map(|fault| fault.name.as_str()).collect();
        if !chosen.is_empty() {
            command += &format!(" --faults {} --repeat {repeat}", chosen.join(","));
        }
        format!("{command} --seed {}", self.seed)
    }
}

#[cfg(test)]
impl RunHeader {
    /// Describes a run of a study on an unknown machine.
    pub(crate) fn of_study(study: Study, seed: u64) -> Self {
        Self {
            format: super::FORMAT,
            bakeoff: String::new(),
            bakeoff_sha256: None,
            started: String::new(),
            order: crate::plan::plan(&study, seed),
            study,
            source: None,
            seed,
            environment: Environment::default(),
            systems: Vec::new(),
            rounds: RoundCount::Fixed,
            gate: None,
        }
    }
}

/// Rule by which a run chooses its number of rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RoundCount {
    /// As many as the study or `--trials` says.
    #[default]
    Fixed,
    /// Until all leading questions are answered, at most as many as the study says ([`crate::stats::sequential`]).
    Adaptive,
}

impl RoundCount {
    fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// Holds the terms of `bakeoff gate`. With the trials they suffice to judge the run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// Study's name of the system whose builds are `base` and `new`.
    pub system: String,
    /// Conditions as given; empty for the default conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_if: Vec<String>,
    /// Loss that must be detected, as a share of the base's figure.
    pub detect: f64,
    /// Maximum trials of each build if the scatter demands more than planned; `None` if their number is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials_max: Option<u32>,
}

/// Describes the machine of a run.
///
/// Each field is one property of the machine. A record stays flat, so that old ones load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Kernel, such as `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// Host name; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// First 16 digits of the SHA-256 of `/etc/machine-id`; `None` without that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// CPU model, such as `Intel(R) Xeon(R) Processor`.
    pub cpu_model: String,
    /// Number of CPUs that bakeoff may run on.
    pub cpus: u32,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// Type of the file system with the servers' data, such as `ext4`.
    pub file_system: String,
    /// Free bytes on it when the run began.
    pub disk_free_bytes: u64,
    /// Shortest time of a durable 1 KiB append on it before the run, in microseconds; `None` if it
    /// was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_least_us: Option<f64>,
    /// Median time of a durable 1 KiB append on it before the run, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_median_us: Option<f64>,
    /// The 99th percentile of the durable 1 KiB appends, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_sync_p99_us: Option<f64>,
    /// Maximum open files of bakeoff, including sockets.
    pub open_files_max: u64,
    /// Number of threads of the load generator.
    pub generator_threads: u32,
    /// True if generator and servers share the machine and its CPUs.
    pub shared_with_servers: bool,
    /// True if the user declared the machine as shared, so neither neighbours nor steal are checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_machine: bool,
    /// Properties of hardware and kernel that affect figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// Machine baseline, measured before the first trial. If the run has places, each machine has its own, and this
    /// one has the appends of the fastest disk among the machines with servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_baseline: Option<MachineBaseline>,
    /// Machines of the run, if it has places. The fields above then describe the coordinator's machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<RunMachine>,
    /// Network from each generator's machine to each server's, and among servers' machines, measured idle before the
    /// first trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkPath>,
}

/// Describes the network between two machines of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkPath {
    /// Machine that sent.
    pub from: String,
    /// Machine that answered.
    pub to: String,
    /// Median round trip of 64 bytes over TCP, in microseconds.
    pub median_us: f64,
    /// Shortest round trip, in microseconds.
    pub shortest_us: f64,
    /// Throughput of 64 KiB blocks there and back, in bytes per second, each byte counted once.
    pub bytes_per_second: f64,
}

impl Environment {
    /// Returns true if each node had a network of its own on this machine, or a relay, so that paths could be cut.
    pub fn has_own_networks(&self) -> bool {
        self.is_relayed() || self.machines.iter().any(|machine| machine.namespace)
    }

    /// Returns true if relays carried the load and all connections between nodes.
    pub fn is_relayed(&self) -> bool {
        self.machines.iter().any(|machine| machine.relayed_to.is_some())
    }

    /// Returns true if a places file named the machines of the run.
    pub fn has_places(&self) -> bool {
        !self.machines.is_empty() && !self.has_own_networks()
    }
}

/// Describes one of the machines of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunMachine {
    /// Name in the places file.
    pub name: String,
    /// Address by which the other machines reach it.
    pub address: String,
    /// True if it takes servers.
    pub servers: bool,
    /// True if it generates load.
    pub generator: bool,
    /// CPUs for servers and the generator, ascending; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Folder below which servers keep their data; `None` for a network namespace, whose data is in the run's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Half of the shortest round trip from the coordinator, in microseconds.
    pub clock_error_us: f64,
    /// True if the coordinator connected to its servers through the agent, for set-up and probes, not for load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tunnel: bool,
    /// First machine of the run with the same running kernel, if another has it. Both are then one machine, in
    /// separate namespaces, containers or pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_kernel_as: Option<String>,
    /// True if it is a network namespace that bakeoff made on the coordinator's machine, to cut paths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub namespace: bool,
    /// Address that its servers listen on, if a relay at `address` passed connections on to it, to cut paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed_to: Option<String>,
    /// Properties of the machine.
    pub environment: Box<Environment>,
    /// Node and limits, if it is a Kubernetes pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<RunPod>,
}

/// Describes a pod that takes servers or generates load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunPod {
    /// Node of the cluster that it runs on.
    pub node: String,
    /// Limits that the places file requests.
    pub asked: PodLimits,
    /// Limits in effect, read inside the pod before the first trial.
    pub read: PodLimits,
}

/// Holds limits of a pod; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodLimits {
    /// CPU limit in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Memory limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl PodLimits {
    /// Returns true if the limits agree after kernel rounding: memory in pages of `page` bytes, CPU within 1 %.
    pub fn is_same_as(&self, other: &Self, page: u64) -> bool {
        let pages = |limits: &Self| limits.memory_bytes.map(|bytes| bytes / page);
        let cpu = match (self.cpu, other.cpu) {
            (Some(one), Some(other)) => (one - other).abs() <= one * CPU_SAME,
            (one, other) => one.is_none() && other.is_none(),
        };
        cpu && pages(self) == pages(other)
    }
}

/// Largest relative difference of equal CPU limits: a quota is a whole number.
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

/// Holds properties of hardware and kernel that affect figures. `None` if the kernel does not report them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// Frequency governors of the CPUs, such as `performance`; several are separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// True if two CPUs share a core (simultaneous multithreading).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Number of NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// Kernel's text on each processor vulnerability: `spectre_v2` is `Mitigation: …`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// Virtual machine as its firmware names it, or `yes`; `none` on bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Container that bakeoff runs in, such as `docker`; `none` outside of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Model of the disk that holds the servers' data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_model: Option<String>,
    /// Write cache of that disk as the kernel treats it: `write back` or `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_write_cache: Option<String>,
    /// Source of the kernel's clock, such as `tsc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Version of the cgroups used for limits and sampling: 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_version: Option<u32>,
}

/// Holds the machine's own limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineBaseline {
    /// Bytes of each append.
    pub append_bytes: u64,
    /// Durable appends to the disk with the servers' data, for each number of clients whose appends share one sync.
    pub appends: Vec<BaselineAppends>,
    /// Round trips over loopback to a server that does nothing, for each number of clients.
    pub round_trips: Vec<BaselineRoundTrips>,
}

/// Describes durable appends if `clients` appends share each sync (group commit).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineAppends {
    /// Appends that share one sync.
    pub clients: u32,
    /// Durable appends per second, by the median time of a write and its sync.
    pub per_second: f64,
    /// Durable appends per second by the mean time, which includes slow ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second_mean: Option<f64>,
    /// Shortest time of one write and its sync, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quickest_us: Option<f64>,
}

/// Describes round trips over loopback to a server that does nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineRoundTrips {
    /// Clients, each with one request in flight.
    pub clients: u32,
    /// Round trips per second.
    pub per_second: f64,
    /// CPU time of the generator per round trip, in microseconds.
    pub generator_cpu_us: f64,
    /// CPU time of the server per round trip, in microseconds.
    pub server_cpu_us: f64,
}
