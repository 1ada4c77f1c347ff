//! Samples of a trial: of each node, of the generator, of the machine.
//!
//! A [`Series`] holds one column for each thing that the kernel shows, all read at the same times.
//! Counters stand as they were read, from the process's first start on, so that any stretch of time
//! can be asked for later; gauges are what they were at that moment. A thing that could not be seen
//! has no column.
//!
//! Not here: who samples (the binary's `host::observe`), what a load's summary says (`record`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;

/// One trial, watched. All times are seconds since the trial began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Time between two looks.
    #[serde(with = "units::duration")]
    pub interval: Duration,
    /// CPU time that looking took.
    #[serde(with = "units::duration")]
    pub cost: Duration,
    /// Phases of the trial, in order.
    pub phases: Vec<Phase>,
    /// Every node, and bakeoff itself as `generator`.
    pub nodes: Vec<Series>,
    /// [`Column::Proportional`] of each node, at the moments at which it was read. In records before format 3
    /// it is among the columns of [`Self::nodes`], with the last reading repeated in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Series>,
    /// Nodes of a system that runs already, as their metrics tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MeteredSeries>,
    /// The machine.
    pub machine: Series,
    /// Source of the machine's [`Column::Busy`]; `None` in records of format 1, where it is [`BusyBy::Ticks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_by: Option<BusyBy>,
    /// Others' use of the CPUs, for each measured window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Strangers>,
    /// Connections and processes that began in each measured window, as far as they were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turnover: Vec<Turnover>,
}

/// Samples that a node's own metrics told: [`Column::Cpu`] and [`Column::Resident`] alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeteredSeries {
    /// Subject of the figures.
    pub of: Metered,
    /// The samples, at times of their own.
    #[serde(flatten)]
    pub series: Series,
}

/// Subject of a node's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metered {
    /// The process that tells them.
    Process,
    /// The machine that it runs on, with all that runs there.
    Machine,
}

/// Connections and processes that were new at some look in a measured window. What began and ended
/// between two looks is in the machine's counters alone: these say whose such are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turnover {
    /// When it was begun to look.
    pub from: f64,
    /// When it was ended.
    pub to: f64,
    /// New processes by node, as many as were seen.
    pub processes: BTreeMap<String, u64>,
    /// New processes of nobody's.
    pub other_processes: u64,
    /// New connections to nodes, as many as were seen.
    pub connections: Vec<Opened>,
    /// New connections to anybody else.
    pub other_connections: u64,
}

/// Connections from one to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The process that opened them; `None` where they were too short to see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The process that they were opened to.
    pub to: String,
    /// Number that was seen.
    pub seen: u64,
}

/// Source of a machine's running time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusyBy {
    /// The root cgroup's `cpuacct.usage`: exact.
    Cgroup,
    /// `/proc/schedstat`: exact.
    SchedStat,
    /// `/proc/stat`, which counts ticks and misses most of what runs for less than one.
    Ticks,
}

/// Usage of processes that are neither nodes nor bakeoff's, from just before a measured window to just after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Strangers {
    /// When the first scan was.
    pub from: f64,
    /// When the second was.
    pub to: f64,
    /// Seconds of CPU of the kernel's own threads, which work for whoever asked.
    pub kernel_seconds: f64,
    /// Whether they cannot be seen, as in a container; what they used is then the strangers'.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_unseen: bool,
    /// The commands that used most, most first.
    pub commands: Vec<Command>,
}

/// Usage of all processes of a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The first fifteen bytes of the program's name.
    pub name: String,
    /// Seconds of CPU.
    pub seconds: f64,
}

/// The load generator's name among the sampled processes.
pub const GENERATOR: &str = "generator";

/// The parts that a trial may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseName {
    /// Servers start and become ready.
    Starting,
    /// Keys are written before the load.
    Filling,
    /// The load, its warm-up included.
    Load,
    /// Syncs are counted while a few writes are made.
    CountingSyncs,
    /// The audit reads written keys.
    ReadingBack,
    /// Nodes are killed while a load goes on.
    KillingUnderLoad,
    /// Nodes are killed after the load, and started again.
    KillingAndRestarting,
    /// Servers end.
    Stopping,
}

impl PhaseName {
    const ALL: [Self; 8] = [
        Self::Starting,
        Self::Filling,
        Self::Load,
        Self::CountingSyncs,
        Self::ReadingBack,
        Self::KillingUnderLoad,
        Self::KillingAndRestarting,
        Self::Stopping,
    ];

    /// Returns the name in records and reports.
    pub fn text(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Filling => "filling",
            Self::Load => "load",
            Self::CountingSyncs => "counting syncs",
            Self::ReadingBack => "reading back",
            Self::KillingUnderLoad => "killing under load",
            Self::KillingAndRestarting => "killing and restarting",
            Self::Stopping => "stopping",
        }
    }

    /// Reads a record's name; `None` for one that this version does not know.
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.text() == text)
    }
}

/// A part of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// One of [`PhaseName`]'s texts.
    pub name: String,
    /// When it began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
}

/// Columns read at the same times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The node's name, `generator`, or `machine`.
    pub name: String,
    /// When each look was, ascending.
    pub at: Vec<f64>,
    /// Samples by column; each as long as `at`.
    pub columns: BTreeMap<Column, Vec<f64>>,
}

/// A thing that is sampled. Counters count from a node's first start (over restarts), or from the
/// machine's; gauges say what is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Counter, seconds of CPU in user space and in the kernel, where only their sum is told.
    Cpu,
    /// Counter, seconds of CPU in user space.
    CpuUser,
    /// Counter, seconds of CPU in the kernel.
    CpuSystem,
    /// Counter, seconds that threads were ready to run and had no CPU.
    CpuWait,
    /// Counter, seconds that a cgroup's CPU limit held its threads back.
    CpuThrottled,
    /// Counter: periods of a cgroup's CPU limit in which it ran.
    CpuPeriods,
    /// Counter: those of them in which the limit held it back.
    CpuPeriodsThrottled,
    /// Gauge, bytes of resident memory.
    Resident,
    /// Gauge, bytes of resident memory in which a page that several processes share counts once in all.
    Proportional,
    /// Gauge, bytes that the node's cgroup is charged with, page cache among them.
    CgroupMemory,
    /// Gauge.
    Processes,
    /// Gauge.
    Threads,
    /// Gauge, file descriptors.
    OpenFiles,
    /// Counter: a thread waited for something.
    SwitchesVoluntary,
    /// Counter: a thread's time was up.
    SwitchesInvoluntary,
    /// Counter: page faults that took no disk access.
    FaultsMinor,
    /// Counter: page faults that did.
    FaultsMajor,
    /// Counter, bytes fetched from storage.
    DiskRead,
    /// Counter, bytes sent to storage.
    DiskWritten,
    /// Counter: read operations.
    DiskReads,
    /// Counter: write operations.
    DiskWrites,
    /// Counter, bytes sent over TCP.
    SocketSent,
    /// Counter, bytes received over TCP.
    SocketReceived,
    /// Gauge, bytes of disk space that the node's directory takes.
    DataDirectory,
    /// Machine, counter: seconds of all CPUs that ran something; from what [`Observed::busy_by`] says.
    Busy,
    /// Machine, counter: seconds of CPU of what bakeoff has started besides the nodes.
    Helpers,
    /// Machine, counter: seconds in which at least one task waited for a CPU.
    PressureCpu,
    /// Machine, counter: the same, for storage.
    PressureIo,
    /// Machine, counter: the same, for memory.
    PressureMemory,
    /// Machine, counter: processes and threads that began.
    TasksBegun,
    /// Machine, counter: TCP connections that were asked for, by whomever.
    ConnectionsOpened,
    /// Machine, counter: seconds of all CPUs that the hypervisor gave to somebody else.
    Steal,
    /// Machine, gauge: threads that run or are ready to.
    RunQueue,
    /// Machine, counter: seconds in which the disk that holds the data had something to do.
    DiskBusy,
    /// Machine, gauge: bytes free on the disk that holds the data.
    DiskFree,
}

impl Column {
    /// Returns whether it only ever grows, so that differences mean something and single values do not.
    pub fn is_counter(self) -> bool {
        !matches!(
            self,
            Self::Resident
                | Self::Proportional
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
    /// The looks from `from` to `to` as places in [`Series::at`]; with the last one before `from`,
    /// as a counter's growth begins there.
    fn places(&self, from: f64, to: f64) -> std::ops::Range<usize> {
        let begin = self.at.partition_point(|&at| at <= from).saturating_sub(1);
        let end = self.at.partition_point(|&at| at <= to);
        begin..end.max(begin)
    }

    /// Returns the first look at or after a moment.
    pub fn next_look(&self, moment: f64) -> Option<f64> {
        self.at.get(self.at.partition_point(|&at| at < moment)).copied()
    }

    /// By how much a counter grew from the last look at or before `from` to the last at or before
    /// `to`; `None` with fewer than two looks.
    pub fn growth(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        let values = self.columns.get(&column)?.get(self.places(from, to))?;
        match values {
            [first, .., last] => Some(last - first),
            _ => None,
        }
    }

    /// By how much a counter grew from exactly `from` to exactly `to`. Between two looks it is taken
    /// to have grown evenly; `None` unless there are looks before, or at, and after both.
    pub fn growth_between(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        Some(self.value_at(column, to)? - self.value_at(column, from)?)
    }

    /// The same over several times, added up; `None` where one of them is not known.
    pub fn growth_over(&self, column: Column, times: &[(f64, f64)]) -> Option<f64> {
        times.iter().map(|&(from, to)| self.growth_between(column, from, to)).sum()
    }

    /// A counter at a moment.
    fn value_at(&self, column: Column, moment: f64) -> Option<f64> {
        let values = self.columns.get(&column)?;
        let after = self.at.partition_point(|&at| at < moment);
        let (value, at) = (values.get(after)?, self.at.get(after)?);
        let Some(before) = after.checked_sub(1) else { return (*at == moment).then_some(*value) };
        let share = (moment - self.at[before]) / (at - self.at[before]);
        let first = values.get(before)?;
        Some(first + (value - first) * share)
    }

    /// Returns the most of a gauge among the looks from `from` to `to`; `None` without a look there.
    pub fn most(&self, column: Column, from: f64, to: f64) -> Option<f64> {
        let begin = self.at.partition_point(|&at| at < from);
        let end = self.at.partition_point(|&at| at <= to);
        let values = self.columns.get(&column)?.get(begin..end)?;
        values.iter().copied().reduce(f64::max)
    }

    /// Returns the points of a chart: a gauge as it is, a counter as its growth per second since the sample before,
    /// at the later of the two times.
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
    fn counters_grow_from_the_last_look_before() {
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
    fn growth_over_an_exact_time_is_even_between_looks() {
        let between = |from, to| series().growth_between(Column::CpuUser, from, to);
        assert_eq!(between(0.0, 4.0), Some(3.5));
        assert_eq!(between(0.5, 3.0), Some(2.75), "from 5.25 to 8");
        assert_eq!(between(-0.1, 3.0), None, "nothing is known of before");
        assert_eq!(between(1.0, 4.1), None, "nor of after");
        assert_eq!(series().growth_between(Column::Steal, 0.0, 4.0), None, "no column");
    }

    #[test]
    fn charts_show_counters_as_rates() {
        let series = series();
        assert_eq!(series.shown(Column::CpuUser), [(1.0, 0.5), (2.0, 2.0), (4.0, 0.5)]);
        assert_eq!(series.shown(Column::Resident)[1], (1.0, 9.0));
    }
}
