//! The figures of a trial: each a quantity with a name, a unit and a value.
//!
//! Tables, Markdown and JSON all show these and compute nothing of their own. Each figure is
//! computed within one trial, from its merged histograms; trials are combined later, and only by
//! what [`Quantity::combined`] says.
//!
//! Not here: combining (`comparison`), showing (`tables`).

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::measurement::{ErrorKind, Measurement, OperationFigures};
use bakeoff_core::observed::Column;
use bakeoff_core::ranked::{Percentile, Ranked, sample_min, too_few_text};
use bakeoff_core::record::{StageRecord, TrialRecord, Usage};
use bakeoff_core::search::Found;
use bakeoff_core::staleness::{Age, Staleness};
use bakeoff_core::stats::Figure;
use bakeoff_core::study::Metric;
use bakeoff_core::units::{ByteCount, count_text, figure_text, latency_text, share_text};

use crate::model::throttling;

/// What the record calls the load generator among the processes that were watched.
pub(crate) const GENERATOR: &str = "generator";

/// The part of the measured time that whole seconds must hold for their extremes to be shown.
const WHOLE_SECONDS: f64 = 0.8;

/// A place in a distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    Fastest,
    Mean,
    Slowest,
    P10,
    P25,
    P50,
    P75,
    P90,
    P95,
    P99,
    P999,
}

impl Point {
    pub(crate) const ALL: [Self; 11] = [
        Self::Fastest,
        Self::Mean,
        Self::Slowest,
        Self::P10,
        Self::P25,
        Self::P50,
        Self::P75,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
    ];

    /// What is told of successes alone.
    pub(crate) const OF_SUCCESSES: [Self; 4] = [Self::Mean, Self::Slowest, Self::P50, Self::P99];

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Fastest => ("fastest", "min"),
            Self::Mean => ("mean", "mean"),
            Self::Slowest => ("slowest", "max"),
            Self::P10 => ("p10", "p10"),
            Self::P25 => ("p25", "p25"),
            Self::P50 => ("p50", "p50"),
            Self::P75 => ("p75", "p75"),
            Self::P90 => ("p90", "p90"),
            Self::P95 => ("p95", "p95"),
            Self::P99 => ("p99", "p99"),
            Self::P999 => ("p99.9", "p99_9"),
        }
    }

    /// Its name: `p99.9`.
    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    /// Its place among these operations.
    pub(crate) fn read(self, operations: &Ranked<'_>) -> Figure {
        let place = match self {
            Self::Fastest => operations.min(),
            Self::Mean => operations.mean(),
            Self::Slowest => operations.max(),
            Self::P10 => operations.percentile(0.10),
            Self::P25 => operations.percentile(0.25),
            Self::P50 => operations.percentile(0.50),
            Self::P75 => operations.percentile(0.75),
            Self::P90 => operations.percentile(0.90),
            Self::P95 => operations.percentile(0.95),
            Self::P99 => operations.percentile(0.99),
            Self::P999 => operations.percentile(0.999),
        };
        let ms = |latency: Duration| latency.as_nanos() as f64 / 1e6;
        match place {
            Percentile::Nothing => Figure::Absent,
            Percentile::TooFew { had, needed } => Figure::TooFew { had, needed },
            Percentile::At(latency) => Figure::Value(ms(latency)),
            Percentile::Beyond => Figure::Beyond,
            Percentile::AtLeast(least) => Figure::AtLeast(ms(least)),
            Percentile::Failed(failed) => {
                Figure::Failed { share: failed.share, after: failed.after.map(ms) }
            }
        }
    }
}

/// What is measured. The order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quantity {
    /// The highest rate that kept the objective of a search; 0 where none did, and the highest that
    /// was tried where all did.
    HighestRate,
    /// From the first launch to a cluster that could be loaded.
    ReadyAfter,
    /// The measured windows of all stages together.
    Seconds,
    /// Verified successes.
    Verified,
    /// Successes and failures.
    Requests,
    /// Most verified successes in a whole second of any stage.
    ThroughputMax,
    /// Verified successes within the windows by the windows' length.
    ThroughputMean,
    /// Fewest verified successes in a whole second of any stage.
    ThroughputMin,
    /// From due to done, of all operations that were due: those that failed rank last.
    Response(Point),
    /// From due to done, of verified successes alone.
    OfSuccesses(Point),
    /// From sent to done, of all operations that were sent, likewise.
    Service(Point),
    /// From due to sent, where nothing but the generator was in the way.
    ScheduleLag(Point),
    /// How long answers that were ready waited behind others in the generator.
    ReceiveLag(Point),
    /// Response times of more than an hour.
    Beyond,
    /// All failures.
    Errors,
    /// Failures by all operations, 0 to 1.
    ErrorShare,
    /// Failures of one kind.
    ErrorsOf(ErrorKind),
    /// Reads that were allowed to be old and were.
    StaleReads,
    /// Of reads that may be old and are judged, which share was, 0 to 1.
    StaleShare,
    /// For how long what stale reads returned had been superseded, as far as that is known exactly.
    StaleAge(Point),
    /// Connections that were lost or could not be had again.
    ConnectionErrors,
    /// Time without a connection, all clients added up.
    Disconnected,
    /// The busiest node's most CPU in one sampling interval.
    CpuNodeMax,
    /// The nodes' own maxima added up: at least what all used at any one time.
    CpuSum,
    /// The nodes' mean CPU added up.
    CpuMeanSum,
    /// What the literature calls the server's CPU.
    CpuPublished,
    /// CPU time of all nodes for each verified operation: the nodes' mean CPU by the throughput.
    CpuPerOperation,
    /// The largest node's most resident memory.
    MemoryNodeMax,
    /// The nodes' own maxima added up, without counting twice what a node's processes share; absent where
    /// a node has several processes and that could not be seen.
    MemorySum,
    /// The same of resident memory, which counts what processes share for each of them.
    MemoryResident,
    /// What the literature calls the server's memory.
    MemoryPublished,
    /// What all nodes wrote to disk.
    WrittenSum,
    /// The generator's mean CPU.
    GeneratorCpu,
    /// In which share of its CPU limit's periods a node was held back, 0 to 1; of several nodes that
    /// which was held back most.
    Throttled,
    /// In which share of the measured time a task of the machine waited for a CPU, 0 to 1.
    PressureCpu,
    /// The same, for storage.
    PressureIo,
    /// The same, for memory.
    PressureMemory,
    /// Full TLS handshakes of the clients.
    HandshakesFull,
    /// TLS handshakes that took up an earlier connection's session.
    HandshakesResumed,
}

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Count,
    PerSecond,
    Milliseconds,
    Percent,
    Bytes,
}

/// How the figures of several trials become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combined {
    /// The median of the valid trials' own figures.
    Median,
    /// The sum over the valid trials: what went wrong must not vanish in a median.
    Sum,
}

impl Quantity {
    /// The label of its row.
    pub(crate) fn label(self) -> String {
        let fixed = match self {
            Self::HighestRate => "highest rate that keeps the objective /s",
            Self::ReadyAfter => "seconds to be ready",
            Self::Seconds => "total seconds",
            Self::Verified => "requests verified",
            Self::Requests => "requests",
            Self::ThroughputMax => "throughput max /s",
            Self::ThroughputMean => "throughput mean /s",
            Self::ThroughputMin => "throughput min /s",
            Self::Response(point) => return format!("response time {}", point.words().0),
            Self::OfSuccesses(point) => {
                return format!("response time {} of successes", point.words().0);
            }
            Self::Service(point) => return format!("service time {}", point.words().0),
            Self::ScheduleLag(point) => return format!("schedule lag {}", point.words().0),
            Self::ReceiveLag(point) => {
                return format!("generator's receive lag {}", point.words().0);
            }
            Self::Beyond => "responses beyond 1 h",
            Self::Errors => "errors",
            Self::ErrorShare => "errors, of all",
            Self::ErrorsOf(kind) => return format!("errors: {}", kind.name()),
            Self::StaleReads => "stale reads (allowed)",
            Self::StaleShare => "stale reads (allowed), share",
            Self::StaleAge(point) => return format!("staleness of reads {}", point.words().0),
            Self::ConnectionErrors => "connections lost",
            Self::Disconnected => "client time disconnected",
            Self::CpuNodeMax => "server CPU max, one node",
            Self::CpuSum => "server CPU max, nodes' sum",
            Self::CpuMeanSum => "server CPU mean, nodes' sum",
            Self::CpuPublished => "server CPU max, as published",
            Self::CpuPerOperation => "server CPU per operation",
            Self::MemoryNodeMax => "memory max, one node",
            Self::MemorySum => "memory max, nodes' sum",
            Self::MemoryResident => "resident memory max, nodes' sum",
            Self::MemoryPublished => "memory max, as published",
            Self::WrittenSum => "written to disk, nodes' sum",
            Self::GeneratorCpu => "generator CPU mean",
            Self::Throttled => "throttled, of periods, one node",
            Self::PressureCpu => "some task waited for a CPU",
            Self::PressureIo => "some task waited for storage",
            Self::PressureMemory => "some task waited for memory",
            Self::HandshakesFull => "TLS handshakes, full",
            Self::HandshakesResumed => "TLS handshakes, resumed",
        };
        fixed.to_owned()
    }

    /// Its name in JSON, which carries the unit.
    pub(crate) fn name(self) -> String {
        let fixed = match self {
            Self::HighestRate => "highest_rate_per_second",
            Self::ReadyAfter => "ready_after_seconds",
            Self::Seconds => "seconds",
            Self::Verified => "requests_verified",
            Self::Requests => "requests",
            Self::ThroughputMax => "throughput_max_per_second",
            Self::ThroughputMean => "throughput_mean_per_second",
            Self::ThroughputMin => "throughput_min_per_second",
            Self::Response(point) => return format!("response_{}_ms", point.words().1),
            Self::OfSuccesses(point) => {
                return format!("response_of_successes_{}_ms", point.words().1);
            }
            Self::Service(point) => return format!("service_{}_ms", point.words().1),
            Self::ScheduleLag(point) => return format!("slip_{}_ms", point.words().1),
            Self::ReceiveLag(point) => return format!("receive_lag_{}_ms", point.words().1),
            Self::Beyond => "responses_beyond_one_hour",
            Self::Errors => "errors",
            Self::ErrorShare => "error_share",
            Self::ErrorsOf(kind) => return format!("errors_{}", kind.key().replace(' ', "_")),
            Self::StaleReads => "old_reads",
            Self::StaleShare => "stale_share",
            Self::StaleAge(point) => return format!("stale_age_{}_ms", point.words().1),
            Self::ConnectionErrors => "connections_lost",
            Self::Disconnected => "disconnected_seconds",
            Self::CpuNodeMax => "server_cpu_max_of_one_node_percent",
            Self::CpuSum => "server_cpu_max_sum_of_nodes_percent",
            Self::CpuMeanSum => "server_cpu_mean_sum_of_nodes_percent",
            Self::CpuPublished => "server_cpu_max_as_published_percent",
            Self::CpuPerOperation => "server_cpu_per_operation_ms",
            Self::MemoryNodeMax => "server_memory_max_of_one_node_bytes",
            Self::MemorySum => "server_memory_max_sum_of_nodes_bytes",
            Self::MemoryResident => "server_memory_resident_max_sum_of_nodes_bytes",
            Self::MemoryPublished => "server_memory_max_as_published_bytes",
            Self::WrittenSum => "server_written_sum_of_nodes_bytes",
            Self::GeneratorCpu => "generator_cpu_mean_percent",
            Self::Throttled => "server_throttled_share_of_one_node",
            Self::PressureCpu => "pressure_cpu_share",
            Self::PressureIo => "pressure_io_share",
            Self::PressureMemory => "pressure_memory_share",
            Self::HandshakesFull => "tls_handshakes_full",
            Self::HandshakesResumed => "tls_handshakes_resumed",
        };
        fixed.to_owned()
    }

    /// Returns how trials are combined.
    pub(crate) fn combined(self) -> Combined {
        match self {
            Self::Errors
            | Self::ErrorsOf(_)
            | Self::StaleReads
            | Self::ConnectionErrors
            | Self::Disconnected
            | Self::Beyond => Combined::Sum,
            _ => Combined::Median,
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::ReadyAfter | Self::Seconds | Self::Disconnected => Unit::Seconds,
            Self::HighestRate
            | Self::ThroughputMax
            | Self::ThroughputMean
            | Self::ThroughputMin => Unit::PerSecond,
            Self::Response(_)
            | Self::OfSuccesses(_)
            | Self::Service(_)
            | Self::ScheduleLag(_)
            | Self::ReceiveLag(_)
            | Self::StaleAge(_)
            | Self::CpuPerOperation => Unit::Milliseconds,
            Self::CpuNodeMax
            | Self::CpuSum
            | Self::CpuMeanSum
            | Self::CpuPublished
            | Self::GeneratorCpu => Unit::Percent,
            Self::MemoryNodeMax
            | Self::MemorySum
            | Self::MemoryResident
            | Self::MemoryPublished
            | Self::WrittenSum => Unit::Bytes,
            _ => Unit::Count,
        }
    }

    /// Returns whether its values are shares, 0 to 1.
    fn is_share(self) -> bool {
        matches!(
            self,
            Self::ErrorShare
                | Self::StaleShare
                | Self::Throttled
                | Self::PressureCpu
                | Self::PressureIo
                | Self::PressureMemory
        )
    }

    /// Returns whether its values are whole numbers, of one trial or added up.
    pub(crate) fn is_count(self) -> bool {
        matches!(self.unit(), Unit::Count | Unit::Bytes)
    }

    /// Its value for reading; `–` where there is none, and why it is none where that is known.
    pub(crate) fn text(self, figure: Figure) -> String {
        match figure {
            Figure::Failed { after: Some(after), .. } => {
                let after = self.text(Figure::Value(after));
                format!("{}; those after {after}", self.short(figure))
            }
            Figure::TooFew { had, needed } => too_few_text(had, needed),
            _ => self.short(figure),
        }
    }

    /// The same where there is little room.
    pub(crate) fn short(self, figure: Figure) -> String {
        let value = match figure {
            Figure::Absent => return "–".to_owned(),
            Figure::Beyond => return "> 1 h".to_owned(),
            Figure::AtLeast(least) => return format!("≥ {}", self.short(Figure::Value(least))),
            Figure::Failed { share, .. } => return format!("none: {} failed", share_text(share)),
            Figure::TooFew { .. } => return "too few".to_owned(),
            Figure::Value(value) => value,
        };
        let whole = value.fract() == 0.0;
        match self.unit() {
            _ if self == Self::HighestRate && value == 0.0 => "none".to_owned(),
            Unit::Milliseconds => match Duration::try_from_secs_f64(value / 1e3) {
                Ok(latency) => latency_text(latency),
                Err(_) => "–".to_owned(),
            },
            Unit::Bytes => ByteCount(value as u64).to_string(),
            _ if self == Self::Disconnected && value > 0.0 => {
                Quantity::Response(Point::Mean).text(Figure::Value(value * 1e3))
            }
            _ if self == Self::Disconnected => "0 s".to_owned(),
            _ if self.is_share() => share_text(value),
            Unit::Percent => format!("{} %", count_text(value.round() as u64)),
            Unit::Count | Unit::PerSecond if whole => count_text(value as u64),
            Unit::Seconds if value >= 99.95 => format!("{value:.1}"),
            Unit::Count | Unit::PerSecond | Unit::Seconds => figure_text(value),
        }
    }

    /// Returns where a published figure stands.
    pub(crate) fn of_metric(metric: Metric) -> Self {
        match metric {
            Metric::Seconds => Self::Seconds,
            Metric::Requests => Self::Requests,
            Metric::ThroughputMax => Self::ThroughputMax,
            Metric::ThroughputMean => Self::ThroughputMean,
            Metric::ThroughputMin => Self::ThroughputMin,
            Metric::LatencyMinMs => Self::Response(Point::Fastest),
            Metric::LatencyMeanMs => Self::Response(Point::Mean),
            Metric::LatencyMaxMs => Self::Response(Point::Slowest),
            Metric::LatencyP10Ms => Self::Response(Point::P10),
            Metric::LatencyP25Ms => Self::Response(Point::P25),
            Metric::LatencyP50Ms => Self::Response(Point::P50),
            Metric::LatencyP75Ms => Self::Response(Point::P75),
            Metric::LatencyP90Ms => Self::Response(Point::P90),
            Metric::LatencyP95Ms => Self::Response(Point::P95),
            Metric::LatencyP99Ms => Self::Response(Point::P99),
            Metric::LatencyP999Ms => Self::Response(Point::P999),
            Metric::Errors => Self::Errors,
            Metric::ServerCpuMaxPercent => Self::CpuPublished,
            Metric::ServerMemoryMaxBytes => Self::MemoryPublished,
        }
    }
}

/// The figures of one trial, of one of its operations, or of one of its stages.
pub(crate) type Figures = BTreeMap<Quantity, Figure>;

/// A count as a figure. Counts up to 2^53 are exact.
fn count(count: u64) -> Figure {
    Figure::Value(count as f64)
}

/// What one operation's, or all operations', histograms and counts say.
pub(crate) fn of_operation(operation: &OperationFigures) -> Figures {
    let errors = operation.error_count();
    let mut figures = Figures::from([
        (Quantity::Verified, count(operation.verified)),
        (Quantity::Requests, count(operation.verified + errors)),
        (Quantity::Errors, count(errors)),
        (Quantity::StaleReads, count(operation.stale_reads)),
        (Quantity::Beyond, count(operation.response.saturated())),
    ]);
    for kind in ErrorKind::ALL {
        let errors = operation.errors.get(&kind).map_or(0, |errors| errors.count);
        figures.insert(Quantity::ErrorsOf(kind), count(errors));
    }
    let (responses, services) = (operation.responses(), operation.services());
    let successes = Ranked::of_values(responses.successes());
    for point in Point::ALL {
        figures.insert(Quantity::Response(point), point.read(&responses));
        figures.insert(Quantity::Service(point), point.read(&services));
    }
    for point in Point::OF_SUCCESSES {
        figures.insert(Quantity::OfSuccesses(point), point.read(&successes));
    }
    figures
}

/// One stage's figures.
pub(crate) fn of_stage(stage: &StageRecord) -> Figures {
    let mut figures = of_operation(&stage.measurement.total());
    figures.insert(Quantity::ThroughputMean, stage.measurement.throughput().into());
    figures.insert(Quantity::Seconds, count_seconds(&stage.measurement));
    figures
}

fn count_seconds(measurement: &Measurement) -> Figure {
    Figure::Value(measurement.window.as_secs_f64())
}

/// Returns how old reads were, all nodes together; nothing where that was not measured.
fn stale(nodes: &[Staleness]) -> Figures {
    let mut whole = Staleness::default();
    nodes.iter().for_each(|node| whole.merge(node));
    if whole.reads == 0 {
        return Figures::new();
    }
    let age = |(quantile, point)| {
        let needed = if quantile < 1.0 { sample_min(quantile) } else { 1 };
        let known = match whole.age(quantile) {
            _ if (1..needed).contains(&whole.stale) => Figure::TooFew { had: whole.stale, needed },
            Some(Age::Exactly(age)) => Figure::Value(age.as_secs_f64() * 1e3),
            Some(Age::AtLeast(_)) => Figure::Absent,
            None if whole.stale > 0 => Figure::Beyond,
            None => Figure::Absent,
        };
        (Quantity::StaleAge(point), known)
    };
    let points = [(0.5, Point::P50), (0.99, Point::P99), (1.0, Point::Slowest)];
    let share = (Quantity::StaleShare, whole.share().into());
    points.into_iter().map(age).chain([share]).collect()
}

/// The fewest and the most verified successes in any whole second of any stage.
///
/// By stage, since each may end within a second, and what is left of that one is no second. `None`
/// when whole seconds hold less than [`WHOLE_SECONDS`] of the measured time, as of stages shorter
/// than a second: they would not be the extremes of what was measured.
fn range(trial: &TrialRecord) -> Option<(f64, f64)> {
    let measured = || trial.figured().iter().map(|stage| &stage.measurement);
    let all: f64 = measured().map(|of| of.window.as_secs_f64()).sum();
    let whole: f64 = measured().map(|of| of.window.as_secs_f64().floor()).sum();
    if whole < all * WHOLE_SECONDS {
        return None;
    }
    measured()
        .filter_map(Measurement::throughput_range)
        .map(|(min, max)| (min as f64, max as f64))
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// The highest rate that a trial's search found; nothing where it did not search, or found none that
/// holds.
fn highest_rate(trial: &TrialRecord) -> Option<f64> {
    match trial.found? {
        Found::Rate(rate) | Found::NoLimit(rate) => Some(rate),
        Found::Nothing(_) => Some(0.0),
        Found::Unsteady(_) | Found::OutOfTime(_) => None,
    }
}

/// A trial's figures over all its stages; `whole` is its measurement with all stages as one.
pub(crate) fn of_trial(trial: &TrialRecord, whole: &Measurement) -> Figures {
    let mut figures = of_operation(&whole.total());
    let (min, max) = range(trial).unzip();
    let (errors, verified) = (whole.error_count() as f64, whole.verified() as f64);
    let share = (errors + verified > 0.0).then(|| errors / (errors + verified));
    figures.extend([
        (Quantity::ReadyAfter, Figure::Value(trial.ready_after.as_secs_f64())),
        (Quantity::ErrorShare, share.into()),
        (Quantity::Seconds, count_seconds(whole)),
        (Quantity::ThroughputMax, max.into()),
        (Quantity::ThroughputMean, whole.throughput().into()),
        (Quantity::ThroughputMin, min.into()),
        (Quantity::ConnectionErrors, count(whole.connection_errors.count)),
        (Quantity::Disconnected, Figure::Value(whole.disconnected.as_secs_f64())),
    ]);
    let schedule_lag = Ranked::of_values(&whole.schedule_lag);
    for point in Point::ALL {
        figures.insert(Quantity::ScheduleLag(point), point.read(&schedule_lag));
    }
    if !whole.receive_lag.is_empty() {
        let receive_lag = Ranked::of_values(&whole.receive_lag);
        for point in [Point::P50, Point::P99, Point::Slowest] {
            figures.insert(Quantity::ReceiveLag(point), point.read(&receive_lag));
        }
    }
    figures.extend(highest_rate(trial).map(|rate| (Quantity::HighestRate, Figure::Value(rate))));
    figures.extend(stale(&whole.staleness));
    let nodes: Vec<&Usage> = trial.usage.iter().filter(|usage| usage.name != GENERATOR).collect();
    let over_nodes = |value: fn(&Usage) -> f64, join: fn(f64, f64) -> f64| {
        Figure::from(nodes.iter().map(|usage| value(usage)).reduce(join))
    };
    let (cpu, memory) =
        (|usage: &Usage| usage.cpu_max_percent, |usage: &Usage| usage.rss_max_bytes as f64);
    let add = |a, b| a + b;
    let generator = trial.usage.iter().find(|usage| usage.name == GENERATOR);
    let cpu_mean = over_nodes(|usage| usage.cpu_mean_percent, add).value();
    let per_operation = |rate: f64| Some(cpu_ms(cpu_mean?, rate));
    let rate = whole.throughput().filter(|&rate| rate > 0.0);
    figures.extend([
        (Quantity::CpuNodeMax, over_nodes(cpu, f64::max)),
        (Quantity::CpuSum, over_nodes(cpu, add)),
        (Quantity::CpuPerOperation, rate.and_then(per_operation).into()),
        (Quantity::CpuMeanSum, over_nodes(|usage| usage.cpu_mean_percent, add)),
        (Quantity::WrittenSum, over_nodes(|usage| usage.written_bytes as f64, add)),
        (Quantity::MemoryNodeMax, over_nodes(memory, f64::max)),
        (Quantity::MemorySum, memory_sum(&nodes)),
        (Quantity::GeneratorCpu, generator.map(|usage| usage.cpu_mean_percent).into()),
    ]);
    let throttled = nodes.iter().filter_map(|usage| throttling::throttled(usage)).reduce(f64::max);
    figures.extend(throttled.map(|share| (Quantity::Throttled, Figure::Value(share))));
    if over_nodes(memory, add) != memory_sum(&nodes) {
        figures.insert(Quantity::MemoryResident, over_nodes(memory, add));
    }
    figures.extend(pressure(trial));
    if whole.handshakes.all() > 0 {
        figures.extend([
            (Quantity::HandshakesFull, count(whole.handshakes.full)),
            (Quantity::HandshakesResumed, count(whole.handshakes.resumed)),
        ]);
    }
    figures
}

/// The nodes' memory, added up. A single process's resident memory counts nothing twice, as far as is
/// known: records of format 1 do not tell the number of processes.
fn memory_sum(nodes: &[&Usage]) -> Figure {
    let of_node = |node: &&Usage| match node.pss_max_bytes {
        Some(bytes) => Some(bytes as f64),
        None => (node.processes_max <= 1).then_some(node.rss_max_bytes as f64),
    };
    let all: Option<f64> = nodes.iter().map(of_node).sum();
    all.filter(|_| !nodes.is_empty()).into()
}

/// In which share of the measured time tasks of the machine waited; nothing where that was not seen.
fn pressure(trial: &TrialRecord) -> Figures {
    let Some(observed) = &trial.observed else { return Figures::new() };
    let windows = measured(trial);
    let time: f64 = windows.iter().map(|(from, to)| to - from).sum();
    let share = |(quantity, column)| {
        let waited = observed.machine.growth_over(column, &windows)?;
        (time > 0.0).then(|| (quantity, Figure::Value((waited / time).clamp(0.0, 1.0))))
    };
    let all = [
        (Quantity::PressureCpu, Column::PressureCpu),
        (Quantity::PressureIo, Column::PressureIo),
        (Quantity::PressureMemory, Column::PressureMemory),
    ];
    all.into_iter().filter_map(share).collect()
}

/// From when to when was measured what a trial's figures are of, in seconds since it began; nothing for
/// records of format 1, which do not tell it exactly.
pub(crate) fn measured(trial: &TrialRecord) -> Vec<(f64, f64)> {
    let stages = trial.figured().iter().filter(|stage| stage.measured_from.is_some());
    stages.map(|stage| stage.window(Duration::ZERO)).collect()
}

/// Milliseconds of CPU for each operation. Percent of a core by operations per second are hundredths
/// of a second for each.
pub(crate) fn cpu_ms(cpu_percent: f64, per_second: f64) -> f64 {
    cpu_percent * 10.0 / per_second
}
