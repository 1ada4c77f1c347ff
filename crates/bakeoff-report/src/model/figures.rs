//! The figures of a trial by quantity.
//!
//! Tables, Markdown and JSON show these and compute nothing themselves. Each figure comes from one trial's merged
//! histograms. Trials are combined later, and only as [`Quantity::combined`] says.
//!
//! Not here: names and units (`quantity`), combining (`comparison`), tables (`tables`).

use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::check::{CheckName, Verdict};
use bakeoff_core::lateness;
use bakeoff_core::measurement::{ACCOUNTED_FROM, ErrorKind, Measurement, OperationFigures};
use bakeoff_core::ranked_latencies::{RankedLatencies, sample_min};
use bakeoff_core::read_write_split::Side;
use bakeoff_core::record::{StageRecord, TrialRecord, Usage};
use bakeoff_core::search::FoundRate;
use bakeoff_core::staleness::{Age, Staleness};
use bakeoff_core::stats::Figure;
use bakeoff_core::study::Workload;
use bakeoff_core::trial_samples::Column;
use bakeoff_core::trial_samples::GENERATOR;

use crate::model::quantity::{Point, Quantity};
use crate::model::{throttling, watches};

/// Smallest share of the measured time in whole seconds for which their extremes are shown.
const WHOLE_SECONDS: f64 = 0.8;

/// The figures of a trial, of one of its operations, or of one of its stages.
pub(crate) type Figures = BTreeMap<Quantity, Figure>;

/// Converts a count to a figure. Counts up to 2^53 are exact.
fn count(count: u64) -> Figure {
    Figure::Value(count as f64)
}

/// Returns the figures of one operation, or of all, from histograms and counts.
pub(crate) fn of_operation(operation: &OperationFigures) -> Figures {
    let errors = operation.error_count();
    let mut figures = Figures::from([
        (Quantity::Verified, count(operation.verified)),
        (Quantity::Requests, count(operation.verified + errors)),
        (Quantity::Errors, count(errors)),
        (Quantity::StaleReads, count(operation.stale_reads)),
        (Quantity::Beyond, count(operation.response.saturated())),
    ]);
    if operation.hits + operation.misses > 0 {
        figures.insert(Quantity::Hits, count(operation.hits));
        figures.insert(Quantity::Misses, count(operation.misses));
    }
    for kind in ErrorKind::ALL {
        let errors = operation.errors.get(&kind).map_or(0, |errors| errors.count);
        // Few operations have a lease.
        if kind != ErrorKind::LeaseExpired || errors > 0 {
            figures.insert(Quantity::ErrorsOf(kind), count(errors));
        }
    }
    let (responses, services) = (operation.responses(), operation.services());
    let successes = RankedLatencies::of_values(responses.successes());
    for point in Point::ALL {
        figures.insert(Quantity::Response(point), point.read(&responses));
        figures.insert(Quantity::Service(point), point.read(&services));
    }
    for point in Point::OF_SUCCESSES {
        figures.insert(Quantity::OfSuccesses(point), point.read(&successes));
    }
    figures
}

/// Returns the figures of one stage.
pub(crate) fn of_stage(stage: &StageRecord) -> Figures {
    let mut figures = of_operation(&stage.measurement.total());
    figures.insert(Quantity::ThroughputMean, stage.measurement.throughput().into());
    figures.insert(Quantity::Seconds, count_seconds(&stage.measurement));
    figures.extend(watches::figures(&stage.measurement));
    figures
}

/// Returns the figures of the writes and of the reads of a split load.
pub(crate) fn of_halves(workload: &Workload, measured: &Measurement) -> Figures {
    let seconds = measured.window.as_secs_f64();
    let mut figures = Figures::new();
    for side in Side::BOTH {
        let mut half = OperationFigures::default();
        let operations = workload.mix.keys().filter(|&&operation| side.has(operation));
        operations
            .filter_map(|operation| measured.operations.get(operation.name()))
            .for_each(|operation| half.merge(operation));
        let rate = (seconds > 0.0).then(|| half.verified_in_window as f64 / seconds);
        figures.insert(Quantity::ThroughputOf(side), rate.into());
        figures.insert(Quantity::RequestsOf(side), count(half.verified + half.error_count()));
        for point in [Point::P50, Point::P99] {
            figures.insert(Quantity::ResponseOf(side, point), point.read(&half.responses()));
        }
    }
    figures
}

fn count_seconds(measurement: &Measurement) -> Figure {
    Figure::Value(measurement.window.as_secs_f64())
}

/// Returns the staleness of reads over all nodes; empty if it was not measured.
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

/// Returns the fewest and the most verified successes in any whole second of any stage.
///
/// Stages are examined separately, because each may end within a second, and the rest is not a whole second. Returns
/// `None` if whole seconds cover less than [`WHOLE_SECONDS`] of the measured time: they would not show the extremes.
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

/// Returns the highest rate that a trial's search found; `None` without a search or a stable rate.
fn highest_rate(trial: &TrialRecord) -> Option<f64> {
    match trial.found? {
        FoundRate::Rate(rate) | FoundRate::NoLimit(rate) => Some(rate),
        FoundRate::Nothing(_) => Some(0.0),
        FoundRate::Unsteady(_) | FoundRate::OutOfTime(_) => None,
    }
}

/// Returns a trial's figures over all its stages. `whole`: its measurement with all stages combined.
pub(crate) fn of_trial(trial: &TrialRecord, whole: &Measurement) -> Figures {
    let mut figures = of_operation(&whole.total());
    let (min, max) = range(trial).unzip();
    let (errors, verified) = (whole.error_count() as f64, whole.verified() as f64);
    let share = (errors + verified > 0.0).then(|| errors / (errors + verified));
    figures.extend([
        (Quantity::ErrorShare, share.into()),
        (Quantity::StoodStill, Figure::Value(whole.stood_still().unwrap_or(0.0))),
        (Quantity::Seconds, count_seconds(whole)),
        (Quantity::ThroughputMax, max.into()),
        (Quantity::ThroughputMean, whole.throughput().into()),
        (Quantity::ThroughputMin, min.into()),
        (Quantity::ConnectionErrors, count(whole.connection_errors.count)),
        (Quantity::Disconnected, Figure::Value(whole.disconnected.as_secs_f64())),
    ]);
    let apart =
        [(Quantity::CarriedOver, whole.carried_over), (Quantity::EndedLate, whole.ended_late())];
    let met = [
        (Quantity::LateClients, whole.late_clients),
        (Quantity::UnconnectedClients, whole.unconnected_clients),
        (Quantity::Reissued, whole.reissued),
        (Quantity::ClosedIdle, whole.closed_idle),
    ];
    figures.extend(met.into_iter().filter(|(_, of)| *of > 0).map(|(what, of)| (what, count(of))));
    let within = whole.verified_in_window() as f64;
    for (quantity, of) in apart {
        if of as f64 > ACCOUNTED_FROM * within {
            figures.insert(quantity, count(of));
        }
    }
    if !trial.kept {
        figures.insert(Quantity::ReadyAfter, Figure::Value(trial.ready_after.as_secs_f64()));
    }
    let schedule_lag = RankedLatencies::of_values(&whole.schedule_lag);
    for point in Point::ALL {
        figures.insert(Quantity::ScheduleLag(point), point.read(&schedule_lag));
    }
    if !whole.receive_lag.is_empty() {
        let receive_lag = RankedLatencies::of_values(&whole.receive_lag);
        for point in [Point::P50, Point::P99, Point::Slowest] {
            figures.insert(Quantity::ReceiveLag(point), point.read(&receive_lag));
        }
    }
    let added = lateness::added(whole);
    figures.extend(Point::DELAYED.into_iter().filter_map(|(point, quantile)| {
        let added = added(quantile)?;
        Some((Quantity::Added(point), Figure::Value(added.as_secs_f64() * 1e3)))
    }));
    figures.extend(highest_rate(trial).map(|rate| (Quantity::HighestRate, Figure::Value(rate))));
    figures.extend(stale(&whole.staleness));
    let mut nodes: Vec<&Usage> =
        trial.usage.iter().filter(|usage| usage.name != GENERATOR).collect();
    // Figures of only some nodes would be too low.
    if !nodes_are_known(trial) {
        nodes.clear();
    }
    let over_nodes = |value: fn(&Usage) -> f64, join: fn(f64, f64) -> f64| {
        Figure::from(nodes.iter().map(|usage| value(usage)).reduce(join))
    };
    let cpu = |usage: &Usage| usage.cpu_max_percent;
    let add = |a, b| a + b;
    let generator = trial.usage.iter().find(|usage| usage.name == GENERATOR);
    let cpu_mean = over_nodes(|usage| usage.cpu_mean_percent, add).value();
    let per_operation = |rate: f64| Some(cpu_ms(cpu_mean?, rate));
    let memory = trial.memory.filter(|_| !nodes.is_empty());
    let sum = Figure::from(memory.map(|memory| memory.sum_max_bytes as f64));
    let rate = whole.throughput().filter(|&rate| rate > 0.0);
    let written =
        rate.filter(|_| !nodes.is_empty()).and_then(|rate| written_per_operation(trial, rate));
    figures.extend([
        (Quantity::CpuNodeMax, over_nodes(cpu, f64::max)),
        (Quantity::CpuSum, over_nodes(cpu, add)),
        (Quantity::CpuPerOperation, rate.and_then(per_operation).into()),
        (Quantity::CpuMeanSum, over_nodes(|usage| usage.cpu_mean_percent, add)),
        (Quantity::WrittenSum, written_sum(&nodes)),
        (Quantity::WrittenPerOperation, written.into()),
        (Quantity::MemoryNodeMax, memory.map(|memory| memory.node_max_bytes as f64).into()),
        (Quantity::MemorySum, sum),
        (Quantity::GeneratorCpu, generator.map(|usage| usage.cpu_mean_percent).into()),
    ]);
    let throttled = nodes.iter().filter_map(|usage| throttling::throttled(usage)).reduce(f64::max);
    figures.extend(throttled.map(|share| (Quantity::Throttled, Figure::Value(share))));
    let private = memory.and_then(|memory| memory.private_sum_max_bytes);
    let private = private.map(|bytes| (Quantity::MemoryPrivate, Figure::Value(bytes as f64)));
    figures.extend(private);
    let resident = resident(&nodes);
    if resident != sum {
        figures.insert(Quantity::MemoryResident, resident);
    }
    figures.extend(pressure(trial));
    if whole.handshakes.all() > 0 {
        figures.extend([
            (Quantity::HandshakesFull, count(whole.handshakes.full)),
            (Quantity::HandshakesResumed, count(whole.handshakes.resumed)),
        ]);
    }
    figures.extend(watches::figures(whole));
    figures
}

/// Returns the bytes that the nodes wrote to disk; absent if a node's figures come from metrics, which lack them.
fn written_sum(nodes: &[&Usage]) -> Figure {
    let of_node = |node: &&Usage| node.metrics_of.is_none().then_some(node.written_bytes as f64);
    let all: Option<f64> = nodes.iter().map(of_node).sum();
    all.filter(|_| !nodes.is_empty()).into()
}

/// Returns the bytes that all nodes wrote to disk per operation, at `rate` operations a second. `None` if a node's are
/// unknown.
fn written_per_operation(trial: &TrialRecord, rate: f64) -> Option<f64> {
    let (observed, windows) = (trial.observed.as_ref()?, measured(trial));
    let seconds: f64 = windows.iter().map(|(from, to)| to - from).sum();
    let nodes = observed.nodes.iter().filter(|node| node.name != GENERATOR);
    let written: Option<f64> =
        nodes.map(|node| node.growth_over(Column::DiskWritten, &windows)).sum();
    written.filter(|_| seconds > 0.0).map(|bytes| bytes / (rate * seconds))
}

/// Adds up the nodes' largest resident memory; absent if it is unknown for a node.
fn resident(nodes: &[&Usage]) -> Figure {
    let known: Option<f64> =
        nodes.iter().map(|node| node.rss_max_bytes.map(|bytes| bytes as f64)).sum();
    known.filter(|_| !nodes.is_empty()).into()
}

/// Returns the share of the measured time in which tasks waited; empty if it was not sampled.
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

/// Returns the measured windows of a trial's figures, in seconds since it began. Stages that never began have none.
pub(crate) fn measured(trial: &TrialRecord) -> Vec<(f64, f64)> {
    let stages = trial.figured().iter().filter(|stage| stage.measured_from.is_some());
    stages.map(|stage| stage.window(Duration::ZERO)).collect()
}

/// Returns true if the usage of all nodes is known, as far as it was requested.
fn nodes_are_known(trial: &TrialRecord) -> bool {
    let lacks = |verdict: &Verdict| matches!(verdict, Verdict::NotChecked(_));
    !trial.checks.iter().any(|one| one.name == CheckName::Metrics && lacks(&one.verdict))
}

/// Returns milliseconds of CPU per operation. Percent of a core divided by operations per second gives hundredths of a
/// second.
pub(crate) fn cpu_ms(cpu_percent: f64, per_second: f64) -> f64 {
    cpu_percent * 10.0 / per_second
}
