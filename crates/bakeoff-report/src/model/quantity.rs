//! Quantities in reports: names, units, texts, and how trials are combined.
//!
//! Not here: values (`figures`), combining (`comparison`), tables (`tables`).

mod watch;

use std::time::Duration;

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies, too_few_text};
use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::Figure;
use bakeoff_core::study::Metric;
use bakeoff_core::units::{ByteCount, count_text, figure_text, latency_text, share_text};

pub(crate) use watch::{WatchCount, WatchQuantity};

/// A statistic of a distribution of latencies.
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

    /// Percentiles that the generator's delays are bounded for, with their quantiles.
    pub(crate) const DELAYED: [(Self, f64); 5] = [
        (Self::P50, 0.5),
        (Self::P90, 0.9),
        (Self::P95, 0.95),
        (Self::P99, 0.99),
        (Self::P999, 0.999),
    ];

    /// Statistics that are also shown for successes alone.
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

    /// Returns a label and a name with the statistic in place of `{}`.
    fn fills(self, label: &str, name: &str) -> (String, String) {
        let (shown, key) = self.words();
        (label.replace("{}", shown), name.replace("{}", key))
    }

    /// Returns its name: `p99.9`.
    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the statistic's value for these operations.
    pub(crate) fn read(self, operations: &RankedLatencies<'_>) -> Figure {
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

/// A measured quantity. The order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quantity {
    /// Highest rate that kept the objective of a search. 0 if none did; the highest rate tried if all did.
    HighestRate,
    /// Time from the first launch until the cluster was ready for load.
    ReadyAfter,
    /// Length of the measured windows of all stages.
    Seconds,
    /// Verified successes.
    Verified,
    /// Successes and failures.
    Requests,
    /// Most verified successes in a whole second of any stage.
    ThroughputMax,
    /// Verified successes within the windows, divided by the windows' length.
    ThroughputMean,
    /// Fewest verified successes in a whole second of any stage.
    ThroughputMin,
    /// Time from due to done of all operations that were due. Failures rank last.
    Response(Point),
    /// Throughput of the writes or reads of a split load.
    ThroughputOf(Side),
    /// Response time of the writes or reads of a split load, over all that were due.
    ResponseOf(Side, Point),
    /// Successes and failures of the writes or reads of a split load.
    RequestsOf(Side),
    /// Time from due to done of verified successes alone.
    OfSuccesses(Point),
    /// Time from sent to done of all operations that were sent. Failures rank last.
    Service(Point),
    /// Time from due to sent that the generator caused.
    ScheduleLag(Point),
    /// Time that received answers waited behind others in the generator.
    ReceiveLag(Point),
    /// Most that the generator's delays may have added to a response time.
    Added(Point),
    /// Responses that took more than an hour.
    Beyond,
    /// All failures.
    Errors,
    /// Share of failures among all operations, 0 to 1.
    ErrorShare,
    /// Failures of one kind.
    ErrorsOf(ErrorKind),
    /// Share of the window in which nothing succeeded, 0 to 1. Percentiles of a closed load hide most of such a time.
    StoodStill,
    /// Successes within the window of operations that were due in the warm-up.
    CarriedOver,
    /// Successes after the window of operations that were due in it. Throughput does not count them.
    EndedLate,
    /// Verified reads of a key that found a value.
    Hits,
    /// Verified reads of a key that correctly found no value.
    Misses,
    /// Stale reads that the workload allows.
    StaleReads,
    /// Share of stale reads among judged reads that may be stale, 0 to 1.
    StaleShare,
    /// Age of stale values since they were superseded, if known exactly.
    StaleAge(Point),
    /// Clients that got their first connection after the load had begun.
    LateClients,
    /// Clients that never got a connection.
    UnconnectedClients,
    /// Operations that were sent again because the server had not processed them.
    Reissued,
    /// Kept connections that the server closed between two operations.
    ClosedIdle,
    /// Connections that were lost or could not be opened again.
    ConnectionErrors,
    /// Time without a connection, summed over all clients.
    Disconnected,
    /// Highest CPU of any node in one sampling interval.
    CpuNodeMax,
    /// Sum of the nodes' own CPU maxima: an upper bound of what all used at one time.
    CpuSum,
    /// Sum of the nodes' mean CPU.
    CpuMeanSum,
    /// Server CPU as a publication defines it.
    CpuPublished,
    /// CPU time of all nodes per verified operation: the nodes' mean CPU divided by throughput.
    CpuPerOperation,
    /// Largest memory of any node.
    MemoryNodeMax,
    /// Largest memory of all nodes together, without counting shared pages twice. Absent if a node has several
    /// processes and their shared pages are unknown.
    MemorySum,
    /// Largest private memory of all nodes together. Other programs on the machine do not change it.
    MemoryPrivate,
    /// Largest resident memory of all nodes together, which counts shared pages once per process.
    MemoryResident,
    /// Server memory as a publication defines it.
    MemoryPublished,
    /// Bytes that all nodes wrote to disk.
    WrittenSum,
    /// Bytes that all nodes wrote to disk per verified operation.
    WrittenPerOperation,
    /// Mean CPU of the generator.
    GeneratorCpu,
    /// Share of throttled periods of a CPU limit, 0 to 1, for the most throttled node.
    Throttled,
    /// Share of the measured time in which a task of the machine waited for a CPU, 0 to 1.
    PressureCpu,
    /// Share of the measured time in which a task waited for storage, 0 to 1.
    PressureIo,
    /// Share of the measured time in which a task waited for memory, 0 to 1.
    PressureMemory,
    /// Full TLS handshakes of the clients.
    HandshakesFull,
    /// TLS handshakes that resumed an earlier connection's session.
    HandshakesResumed,
    /// A figure of the load's watchers.
    Watch(WatchQuantity),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Count,
    PerSecond,
    Milliseconds,
    Percent,
    Bytes,
}

/// How the figures of several trials are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregation {
    /// Median of the valid trials' figures.
    Median,
    /// Sum over the valid trials, because a median could hide errors.
    Sum,
}

impl Quantity {
    /// Returns the label of its row.
    pub(crate) fn label(self) -> String {
        self.words().0
    }

    /// Returns its name in JSON, which includes the unit.
    pub(crate) fn name(self) -> String {
        self.words().1
    }

    /// Returns its label and its name.
    fn words(self) -> (String, String) {
        let (label, name) = match self {
            Self::HighestRate => {
                ("highest rate that keeps the objective /s", "highest_rate_per_second")
            }
            Self::ReadyAfter => ("seconds until ready", "ready_after_seconds"),
            Self::Seconds => ("total seconds", "seconds"),
            Self::Verified => ("requests verified", "requests_verified"),
            Self::Requests => ("requests", "requests"),
            Self::ThroughputMax => ("throughput max /s", "throughput_max_per_second"),
            Self::ThroughputMean => ("throughput mean /s", "throughput_mean_per_second"),
            Self::ThroughputMin => ("throughput min /s", "throughput_min_per_second"),
            Self::Response(point) => return point.fills("response time {}", "response_{}_ms"),
            Self::ThroughputOf(side) => return Self::ThroughputMean.of_side(side),
            Self::ResponseOf(side, point) => return Self::Response(point).of_side(side),
            Self::RequestsOf(side) => return Self::Requests.of_side(side),
            Self::OfSuccesses(point) => {
                return point.fills("response time {} of successes", "response_of_successes_{}_ms");
            }
            Self::Service(point) => return point.fills("service time {}", "service_{}_ms"),
            Self::ScheduleLag(point) => {
                return point.fills("schedule lag {}", "schedule_lag_{}_ms");
            }
            Self::ReceiveLag(point) => {
                return point.fills("generator's receive lag {}", "receive_lag_{}_ms");
            }
            Self::Added(point) => {
                return point.fills("generator may have added to {}", "generator_added_{}_ms");
            }
            Self::Beyond => ("responses beyond 1 h", "responses_beyond_one_hour"),
            Self::Errors => ("errors", "errors"),
            Self::ErrorShare => ("errors of all", "error_share"),
            Self::ErrorsOf(kind) => {
                return (
                    format!("errors: {}", kind.name()),
                    format!("errors_{}", kind.key().replace(' ', "_")),
                );
            }
            Self::StoodStill => ("stood still (share of time)", "stood_still_share"),
            Self::CarriedOver => ("carried over from warm-up (in throughput)", "carried_over"),
            Self::EndedLate => {
                ("answered after the window (not in throughput)", "verified_after_the_window")
            }
            Self::Hits => ("reads: hits", "read_hits"),
            Self::Misses => ("reads: misses", "read_misses"),
            Self::StaleReads => ("stale reads (allowed)", "stale_reads"),
            Self::StaleShare => ("stale reads (allowed), share", "stale_share"),
            Self::StaleAge(point) => {
                return point.fills("staleness of reads {}", "stale_age_{}_ms");
            }
            Self::LateClients => ("clients connected late", "clients_connected_late"),
            Self::UnconnectedClients => ("clients never connected", "clients_never_connected"),
            Self::Reissued => ("sent again (not processed before)", "requests_reissued"),
            Self::ClosedIdle => ("connections closed while idle", "connections_closed_idle"),
            Self::ConnectionErrors => ("connections lost", "connections_lost"),
            Self::Disconnected => ("client time disconnected", "disconnected_seconds"),
            Self::CpuNodeMax => ("server CPU max, one node", "server_cpu_max_of_one_node_percent"),
            Self::CpuSum => ("server CPU max, nodes' sum", "server_cpu_max_sum_of_nodes_percent"),
            Self::CpuMeanSum => {
                ("server CPU mean, nodes' sum", "server_cpu_mean_sum_of_nodes_percent")
            }
            Self::CpuPublished => {
                ("server CPU max, as published", "server_cpu_max_as_published_percent")
            }
            Self::CpuPerOperation => ("server CPU per operation", "server_cpu_per_operation_ms"),
            Self::MemoryNodeMax => ("memory max, one node", "server_memory_max_of_one_node_bytes"),
            Self::MemorySum => ("memory max, nodes' sum", "server_memory_max_sum_of_nodes_bytes"),
            Self::MemoryPrivate => {
                ("private memory max, nodes' sum", "server_memory_private_max_sum_of_nodes_bytes")
            }
            Self::MemoryResident => {
                ("resident memory max, nodes' sum", "server_memory_resident_max_sum_of_nodes_bytes")
            }
            Self::MemoryPublished => {
                ("memory max, as published", "server_memory_max_as_published_bytes")
            }
            Self::WrittenSum => {
                ("written to disk, nodes' sum", "server_written_sum_of_nodes_bytes")
            }
            Self::WrittenPerOperation => {
                ("written to disk per operation", "server_written_per_operation_bytes")
            }
            Self::GeneratorCpu => ("generator CPU mean", "generator_cpu_mean_percent"),
            Self::Throttled => (
                "CPU throttling, most throttled node (share of periods)",
                "server_throttled_share_of_one_node",
            ),
            Self::PressureCpu => ("CPU pressure (share of time)", "pressure_cpu_share"),
            Self::PressureIo => ("I/O pressure (share of time)", "pressure_io_share"),
            Self::PressureMemory => ("memory pressure (share of time)", "pressure_memory_share"),
            Self::HandshakesFull => ("TLS handshakes, full", "tls_handshakes_full"),
            Self::HandshakesResumed => ("TLS handshakes, resumed", "tls_handshakes_resumed"),
            Self::Watch(of) => return of.words(),
        };
        (label.to_owned(), name.to_owned())
    }

    /// Returns the label and name of this quantity of the writes or reads of a split load.
    fn of_side(self, side: Side) -> (String, String) {
        let (label, name) = self.words();
        (format!("{}: {label}", side.name()), format!("{}_{name}", side.name()))
    }

    /// Returns how trials are combined.
    pub(crate) fn combined(self) -> Aggregation {
        match self {
            Self::Errors
            | Self::ErrorsOf(_)
            | Self::Hits
            | Self::Misses
            | Self::StaleReads
            | Self::LateClients
            | Self::UnconnectedClients
            | Self::Reissued
            | Self::ClosedIdle
            | Self::ConnectionErrors
            | Self::Disconnected
            | Self::Beyond => Aggregation::Sum,
            Self::Watch(of) => of.combined(),
            _ => Aggregation::Median,
        }
    }

    /// Returns true if it adds up or mixes writes and reads of a split load. Each half runs at its own speed, so such a
    /// figure depends on how many of each there happened to be.
    pub(crate) fn mixes_halves(self) -> bool {
        matches!(
            self,
            Self::ThroughputMax
                | Self::ThroughputMean
                | Self::ThroughputMin
                | Self::Response(_)
                | Self::OfSuccesses(_)
                | Self::Service(_)
        )
    }

    fn unit(self) -> Unit {
        match self {
            Self::ReadyAfter | Self::Seconds | Self::Disconnected => Unit::Seconds,
            Self::HighestRate
            | Self::ThroughputMax
            | Self::ThroughputMean
            | Self::ThroughputMin
            | Self::ThroughputOf(_) => Unit::PerSecond,
            Self::Response(_)
            | Self::ResponseOf(..)
            | Self::OfSuccesses(_)
            | Self::Service(_)
            | Self::ScheduleLag(_)
            | Self::ReceiveLag(_)
            | Self::Added(_)
            | Self::StaleAge(_)
            | Self::CpuPerOperation => Unit::Milliseconds,
            Self::CpuNodeMax
            | Self::CpuSum
            | Self::CpuMeanSum
            | Self::CpuPublished
            | Self::GeneratorCpu => Unit::Percent,
            Self::MemoryNodeMax
            | Self::MemorySum
            | Self::MemoryPrivate
            | Self::MemoryResident
            | Self::MemoryPublished
            | Self::WrittenSum
            | Self::WrittenPerOperation => Unit::Bytes,
            Self::Watch(of) => of.unit(),
            _ => Unit::Count,
        }
    }

    /// Returns the unit of its values: `ms`, `/s`; empty for counts and shares.
    pub(crate) fn unit_name(self) -> &'static str {
        match self.unit() {
            Unit::Seconds => "s",
            Unit::Count => "",
            Unit::PerSecond => "/s",
            Unit::Milliseconds => "ms",
            Unit::Percent => "%",
            Unit::Bytes => "bytes",
        }
    }

    /// Returns true if its values are shares, 0 to 1.
    fn is_share(self) -> bool {
        if let Self::Watch(of) = self {
            return of.is_share();
        }
        matches!(
            self,
            Self::ErrorShare
                | Self::StoodStill
                | Self::StaleShare
                | Self::Throttled
                | Self::PressureCpu
                | Self::PressureIo
                | Self::PressureMemory
        )
    }

    /// Returns true if its values are whole numbers.
    pub(crate) fn is_count(self) -> bool {
        matches!(self.unit(), Unit::Count | Unit::Bytes)
    }

    /// Formats a value with details; `–` if there is none, or the reason if it is known.
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

    /// Formats a value briefly.
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

    /// Returns the quantity of a published metric; `None` for an outage, which belongs to a fault.
    pub(crate) fn of_metric(metric: Metric) -> Option<Self> {
        Some(match metric {
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
            Metric::OutageMinS | Metric::OutageMaxS => return None,
        })
    }
}
