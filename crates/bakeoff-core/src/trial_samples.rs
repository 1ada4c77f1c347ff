//! Holds the samples of a trial: of each node, of the generator, of the machine.
//!
//! A [`Series`] has one column per kernel figure, all read at the same times. Counters are stored as read, from the
//! first start of the process, so later code can evaluate any interval. Gauges are the values at that moment. A
//! figure that could not be read has no column.
//!
//! Not here: sampling (the binary's `host::observe`), the summary of a load (`record`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

/// Holds the samples of one trial. All times are seconds since the trial began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialSamples {
    /// Time between two samples.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub interval: Duration,
    /// CPU time that sampling took.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub cost: Duration,
    /// Phases of the trial, in order.
    pub phases: Vec<Phase>,
    /// Samples of every node, and of bakeoff itself as `generator`.
    pub nodes: Vec<Series>,
    /// Samples of the columns `proportional` and `private` of each node, at their own times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Series>,
    /// Samples from the metrics of nodes that bakeoff did not start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MeteredSeries>,
    /// Samples of the machine.
    pub machine: Series,
    /// Source of the machine's column `busy`; `None` if the machine was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_by: Option<BusyBy>,
    /// CPU use by other processes, for each measured window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<ForeignCpu>,
    /// New connections and processes in each measured window, as far as they were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turnover: Vec<Turnover>,
}

/// Holds samples from a node's own metrics: only the columns `cpu` and `resident`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeteredSeries {
    /// Subject of the figures.
    pub of: MetricsSubject,
    /// Samples, at their own times.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Flat<Series>"))]
    pub series: Series,
}

/// Selects the subject of a node's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MetricsSubject {
    /// The process that publishes them.
    Process,
    /// The whole machine that it runs on.
    Machine,
}

/// Counts connections and processes that were new in a sample of a measured window. Those that began and ended
/// between two samples are only in the machine's counters; this attributes the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turnover {
    /// Start of the counting.
    pub from: f64,
    /// End of the counting.
    pub to: f64,
    /// New processes by node, as far as they were seen.
    pub processes: BTreeMap<String, u64>,
    /// New processes that belong to no node.
    pub other_processes: u64,
    /// New connections to nodes, as far as they were seen.
    pub connections: Vec<ConnectionCount>,
    /// New connections to other processes.
    pub other_connections: u64,
}

/// Counts connections from one process to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionCount {
    /// Process that opened them; `None` if they were too short to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Process that they were opened to.
    pub to: String,
    /// Number of connections seen.
    pub seen: u64,
}

/// Selects the source of a machine's busy time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BusyBy {
    /// Exact: the root cgroup's `cpuacct.usage`.
    Cgroup,
    /// Exact: `/proc/schedstat`.
    SchedStat,
    /// Approximate: `/proc/stat` counts ticks and misses most activity shorter than one.
    Ticks,
}

/// Holds the CPU use of processes that are neither nodes nor bakeoff's, from just before a measured window to just
/// after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForeignCpu {
    /// Time of the first scan.
    pub from: f64,
    /// Time of the second scan.
    pub to: f64,
    /// CPU seconds of the kernel's own threads, which work for any process.
    pub kernel_seconds: f64,
    /// True if kernel threads are invisible, as in a container. Their use then counts as the strangers'.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_unseen: bool,
    /// Commands with the most CPU use, in descending order.
    pub commands: Vec<Command>,
}

/// Holds the CPU use of all processes with one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Command {
    /// First fifteen bytes of the program's name.
    pub name: String,
    /// CPU seconds.
    pub seconds: f64,
}

/// Name of the load generator among the sampled processes.
pub const GENERATOR: &str = "generator";

/// Names the phases of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseName {
    /// Servers start and become ready.
    Starting,
    /// Keys are written before the load.
    Filling,
    /// The load runs, including its warm-up.
    Load,
    /// The load runs again, with faults.
    Injecting,
    /// The history of the load is judged.
    JudgingHistory,
    /// Syncs are counted during a few writes.
    CountingSyncs,
    /// The audit reads written keys.
    ReadingBack,
    /// Nodes are killed during a load.
    KillingUnderLoad,
    /// Nodes are killed after the load and restarted.
    KillingAndRestarting,
    /// The power of a fresh cluster's nodes is cut amid writes, and keys are read back.
    CuttingPower,
    /// A bit of a stopped node's data is flipped, and keys are read back.
    FlippingBit,
    /// Servers stop.
    Stopping,
}

impl PhaseName {
    const ALL: [Self; 12] = [
        Self::Starting,
        Self::Filling,
        Self::Load,
        Self::Injecting,
        Self::JudgingHistory,
        Self::CountingSyncs,
        Self::ReadingBack,
        Self::KillingUnderLoad,
        Self::KillingAndRestarting,
        Self::CuttingPower,
        Self::FlippingBit,
        Self::Stopping,
    ];

    /// Returns the name in records and reports.
    pub fn text(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Filling => "filling",
            Self::Load => "load",
            Self::Injecting => "injecting faults",
            Self::JudgingHistory => "judging history",
            Self::CountingSyncs => "counting syncs",
            Self::ReadingBack => "reading back",
            Self::KillingUnderLoad => "killing under load",
            Self::KillingAndRestarting => "killing and restarting",
            Self::CuttingPower => "cutting power",
            Self::FlippingBit => "flipping a bit",
            Self::Stopping => "stopping",
        }
    }

    /// Parses a record's name; `None` for an unknown one.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.text() == text)
    }
}

/// Describes a phase of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Name ([`PhaseName`]), such as `filling`, `load` or `reading back`.
    pub name: String,
    /// Start of the phase.
    pub from: f64,
    /// End of the phase.
    pub to: f64,
}

/// Holds columns that were read at the same times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Name of the node, `generator`, or `machine`.
    pub name: String,
    /// Time of each sample, ascending.
    pub at: Vec<f64>,
    /// Values by column; each as long as `at`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::KeyedMap<Column, Vec<f64>>"))]
    pub columns: BTreeMap<Column, Vec<f64>>,
}

/// Holds the last sample of one process, for a display during the trial.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSample {
    /// Name of the node, or `generator`.
    pub name: String,
    /// Time of the sample, in seconds since the trial began.
    pub at: f64,
    /// CPU seconds since the node's first start; `None` if they could not be read.
    pub cpu_seconds: Option<f64>,
    /// CPU use since the sample before, in percent of one core; `None` if it is unknown.
    pub cpu_percent: Option<f64>,
    /// Bytes of memory: the last proportional reading, or resident memory without one; `None` if neither could be read.
    pub memory: Option<f64>,
}

/// Names a sampled figure. Counters count from a node's first start, across restarts, or from the machine's boot.
/// Gauges show the current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Counter: CPU seconds, if user and kernel time are only known as a sum.
    Cpu,
    /// Counter: CPU seconds in user space.
    CpuUser,
    /// Counter: CPU seconds in the kernel.
    CpuSystem,
    /// Counter: seconds that runnable threads waited for a CPU.
    CpuWait,
    /// Counter: seconds that a cgroup's CPU limit throttled its threads.
    CpuThrottled,
    /// Counter: periods of a cgroup's CPU limit in which it ran.
    CpuPeriods,
    /// Counter: periods in which the CPU limit throttled it.
    CpuPeriodsThrottled,
    /// Gauge: bytes of resident memory.
    Resident,
    /// Gauge: bytes of resident memory, counting a page shared by several processes once.
    Proportional,
    /// Gauge: bytes of private memory that was written, read with [`Column::Proportional`].
    Private,
    /// Gauge: bytes charged to the node's cgroup, including page cache.
    CgroupMemory,
    /// Gauge: number of processes.
    Processes,
    /// Gauge: number of threads.
    Threads,
    /// Gauge: open file descriptors.
    OpenFiles,
    /// Counter: context switches because a thread waited.
    SwitchesVoluntary,
    /// Counter: context switches because a thread's time slice ended.
    SwitchesInvoluntary,
    /// Counter: page faults without disk access.
    FaultsMinor,
    /// Counter: page faults with disk access.
    FaultsMajor,
    /// Counter: bytes read from storage.
    DiskRead,
    /// Counter: bytes written to storage.
    DiskWritten,
    /// Counter: read operations.
    DiskReads,
    /// Counter: write operations.
    DiskWrites,
    /// Counter: bytes sent over TCP.
    SocketSent,
    /// Counter: bytes received over TCP.
    SocketReceived,
    /// Gauge: bytes of disk space in the node's directory.
    DataDirectory,
    /// Machine counter: busy seconds of all CPUs, from the source in [`TrialSamples::busy_by`].
    Busy,
    /// Machine counter: CPU seconds of bakeoff's processes other than nodes.
    Helpers,
    /// Machine counter: seconds in which at least one task waited for a CPU.
    PressureCpu,
    /// Machine counter: seconds in which at least one task waited for storage.
    PressureIo,
    /// Machine counter: seconds in which at least one task waited for memory.
    PressureMemory,
    /// Machine counter: started processes and threads.
    TasksBegun,
    /// Machine counter: TCP connections opened by any process.
    ConnectionsOpened,
    /// Machine counter: CPU seconds that the hypervisor gave to other guests.
    Steal,
    /// Machine gauge: running and runnable threads.
    RunQueue,
    /// Machine counter: busy seconds of the disk that holds the data.
    DiskBusy,
    /// Machine gauge: free bytes on the disk that holds the data.
    DiskFree,
}

impl Column {
    /// Returns true for a counter, which only grows: its differences have a meaning, single values do not.
    pub fn is_counter(self) -> bool {
        !matches!(
            self,
            Self::Resident
                | Self::Proportional
                | Self::Private
                | Self::CgroupMemory
                | Self::Processes
                | Self::Threads
                | Self::OpenFiles
                | Self::DataDirectory
                | Self::RunQueue
                | Self::DiskFree
        )
    }
}

impl Series {
    /// Returns the range of samples from `from` to `to`, including the last one before `from`, where a counter's
    /// growth begins.
    fn places(&self, from: f64, to: f64) -> std::ops::Range<usize> {
        let begin = self.at.partition_point(|&at| at <= from).saturating_sub(1);
        let end = self.at.partition_point(|&at| at <= to);
        begin..end.max(begin)
    }

    /// Returns the value of a column, `back` samples before the last; `None` if it could not be read.
    fn value(&self, column: Column, back: usize) -> Option<f64> {
        let values = self.columns.get(&column)?;
        values.get(values.len().checked_sub(1 + back)?).copied().filter(|value| value.is_finite())
    }

    /// Returns the last sample of a node. `memory`: its proportional memory, if it was read. `None` without a sample.
    pub fn last_sample(&self, memory: Option<&Series>) -> Option<NodeSample> {
        let parts =
            |back| Some(self.value(Column::CpuUser, back)? + self.value(Column::CpuSystem, back)?);
        let cpu = |back| self.value(Column::Cpu, back).or_else(|| parts(back));
        let rate = || match self.at[..] {
            [.., before, at] if at > before => Some((cpu(0)? - cpu(1)?) / (at - before)),
            _ => None,
        };
        let proportional = memory.and_then(|series| series.value(Column::Proportional, 0));
        Some(NodeSample {
            name: self.name.clone(),
            at: *self.at.last()?,
            cpu_seconds: cpu(0),
            cpu_percent: rate().map(|rate| rate * 100.0),
            memory: proportional.or_else(|| self.value(Column::Resident, 0)),
        })
    }

    /// Returns the time of the first sample at or after a moment.
    pub fn next_look(&self, moment: f64) -> Option<f64> {
        self.at.get(self.at.partition_point(|&at| at < moment)).copied()
    }

    /// Returns a counter's growth from the last sample at or before `from` to the last at or before `to`; `None` with
    /// fewer than two samples.
    pub fn growth(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        let values = self.columns.get(&column)?.get(self.places(from, to))?;
        match values {
            [first, .., last] => Some(last - first),
            _ => None,
        }
    }

    /// Returns a counter's growth from exactly `from` to exactly `to`, interpolated between samples. Returns `None`
    /// unless samples surround both times.
    pub fn growth_between(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        Some(self.value_at(column, to)? - self.value_at(column, from)?)
    }

    /// Returns a counter's total growth over several intervals; `None` if one is unknown.
    pub fn growth_over(&self, column: Column, times: &[(f64, f64)]) -> Option<f64> {
        times.iter().map(|&(from, to)| self.growth_between(column, from, to)).sum()
    }

    /// Interpolates a counter at a moment.
    fn value_at(&self, column: Column, moment: f64) -> Option<f64> {
        let values = self.columns.get(&column)?;
        let after = self.at.partition_point(|&at| at < moment);
        let (value, at) = (values.get(after)?, self.at.get(after)?);
        let Some(before) = after.checked_sub(1) else { return (*at == moment).then_some(*value) };
        let share = (moment - self.at[before]) / (at - self.at[before]);
        let first = values.get(before)?;
        Some(first + (value - first) * share)
    }

    /// Returns the maximum of a gauge from `from` to `to`; `None` without a sample there.
    pub fn most(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        let begin = self.at.partition_point(|&at| at < from);
        let end = self.at.partition_point(|&at| at <= to);
        let values = self.columns.get(&column)?.get(begin..end)?;
        values.iter().copied().reduce(f64::max)
    }

    /// Returns the points of a chart: a gauge as it is; a counter as its growth per second since the previous sample,
    /// at the later time.
    pub fn shown(&self, column: Column) -> Vec<(f64, f64)> {
        let Some(values) = self.columns.get(&column) else { return Vec::new() };
        let points = || self.at.iter().copied().zip(values.iter().copied());
        if !column.is_counter() {
            return points().collect();
        }
        let pairs = points().zip(points().skip(1));
        let rates = pairs.filter(|((before, _), (at, _))| at > before);
        rates.map(|((before, least), (at, most))| (at, (most - least) / (at - before))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        Series {
            name: "n".into(),
            at: vec![0.0, 1.0, 2.0, 4.0],
            columns: BTreeMap::from([
                (Column::CpuUser, vec![5.0, 5.5, 7.5, 8.5]),
                (Column::Resident, vec![1.0, 9.0, 2.0, 3.0]),
            ]),
        }
    }

    #[test]
    fn counters_grow_from_the_last_sample_before() {
        let series = series();
        assert_eq!(series.growth(Column::CpuUser, 0.0, 4.0), Some(3.5));
        assert_eq!(series.growth(Column::CpuUser, 1.5, 3.0), Some(2.0), "from 1 to 2");
        assert_eq!(series.growth(Column::CpuUser, 4.0, 9.0), None, "one look");
        assert_eq!(series.growth(Column::Steal, 0.0, 4.0), None, "no column");
        assert_eq!(series.most(Column::Resident, 1.0, 4.0), Some(9.0));
        assert_eq!(series.most(Column::Resident, 1.9, 4.0), Some(3.0), "9 was before");
        assert_eq!(series.most(Column::Resident, 2.1, 3.9), None, "no look");
    }

    #[test]
    fn growth_is_interpolated_between_samples() {
        let between = |from, to| series().growth_between(Column::CpuUser, from, to);
        assert_eq!(between(0.0, 4.0), Some(3.5));
        assert_eq!(between(0.5, 3.0), Some(2.75), "from 5.25 to 8");
        assert_eq!(between(-0.1, 3.0), None, "nothing is known of before");
        assert_eq!(between(1.0, 4.1), None, "nor of after");
        assert_eq!(series().growth_between(Column::Steal, 0.0, 4.0), None, "no column");
    }

    #[test]
    fn last_sample_adds_up_cpu_and_prefers_proportional_memory() {
        let mut series = series();
        series.columns.insert(Column::CpuSystem, vec![0.0, 0.5, 0.5, 1.0]);
        let last = series.last_sample(None).unwrap();
        assert_eq!((last.at, last.cpu_seconds, last.memory), (4.0, Some(9.5), Some(3.0)));
        assert_eq!(last.cpu_percent, Some(75.0), "1.5 s in 2 s");
        let columns = BTreeMap::from([(Column::Proportional, vec![2.5])]);
        let memory = Series { name: "n".into(), at: vec![3.0], columns };
        assert_eq!(series.last_sample(Some(&memory)).unwrap().memory, Some(2.5));
        series.columns.get_mut(&Column::CpuUser).unwrap()[3] = f64::NAN;
        assert_eq!(series.last_sample(None).unwrap().cpu_seconds, None, "it could not be read");
        assert_eq!(Series::default().last_sample(None), None);
    }

    #[test]
    fn charts_show_counters_as_rates() {
        let series = series();
        assert_eq!(series.shown(Column::CpuUser), [(1.0, 0.5), (2.0, 2.0), (4.0, 0.5)]);
        assert_eq!(series.shown(Column::Resident)[1], (1.0, 9.0));
    }
}
