//! The metrics of a run for monitoring systems: one list, from which each export is written.
//!
//! Counters grow over a trial and stay when it ends. Gauges describe the last second of a load, and are absent when no
//! load runs. `docs/live.md` lists them.
//!
//! Not here: the formats (`prometheus`, `otlp`).

use bakeoff_core::ranked_latencies::Percentile;

use super::status::{Status, TrialNow};

/// One metric with a point for each set of labels.
#[derive(Debug, Clone)]
pub(super) struct Metric {
    /// Name without the prefix `bakeoff`, the unit, and the suffix of counters.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: MetricUnit,
    pub(super) kind: MetricKind,
    pub(super) points: Vec<Point>,
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// A current value.
    Gauge,
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricUnit {
    Operations,
    Seconds,
    Bytes,
}

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: f64,
}

/// Returns the metrics of the run so far, without those that have no point.
pub(super) fn metrics(status: &Status) -> Vec<Metric> {
    let operations = status.trials().flat_map(|trial| {
        let point = |outcome: &str, value: u64| Point {
            labels: labels(status, trial, Some(("outcome", outcome.to_owned()))),
            value: value as f64,
        };
        [point("verified", trial.verified), point("failed", trial.failed)]
    });
    let operations = operations.collect();
    let (mut quantiles, mut cpu, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    if let Some((trial, live)) =
        status.trial.as_ref().and_then(|now| Some((now, now.last.as_ref()?)))
    {
        let latency = |(quantile, percentile): (&str, Percentile)| {
            let labels = labels(status, trial, Some(("quantile", quantile.to_owned())));
            Some(Point { labels, value: percentile.latency()?.as_secs_f64() })
        };
        let known = [("0.5", live.p50), ("0.99", live.p99), ("1", live.max)];
        quantiles.extend(known.into_iter().filter_map(latency));
        for node in &trial.nodes {
            let point = |value: f64| Point {
                labels: labels(status, trial, Some(("node", node.name.clone()))),
                value,
            };
            cpu.extend(node.cpu_seconds.map(point));
            memory.extend(node.memory.map(point));
        }
    }
    let all = [
        Metric {
            name: "operations",
            help: "Operations of the measured load, by outcome",
            unit: MetricUnit::Operations,
            kind: MetricKind::Counter,
            points: operations,
        },
        Metric {
            name: "response_time",
            help: "Response time of all operations in the last second of the load",
            unit: MetricUnit::Seconds,
            kind: MetricKind::Gauge,
            points: quantiles,
        },
        Metric {
            name: "node_cpu",
            help: "CPU time of a node since its first start, or of the load generator",
            unit: MetricUnit::Seconds,
            kind: MetricKind::Counter,
            points: cpu,
        },
        Metric {
            name: "node_memory",
            help: "Memory of a node: proportional if it was read, else resident",
            unit: MetricUnit::Bytes,
            kind: MetricKind::Gauge,
            points: memory,
        },
    ];
    all.into_iter().filter(|metric| !metric.points.is_empty()).collect()
}

/// Returns the labels of a trial, and one more.
fn labels(
    status: &Status,
    trial: &TrialNow,
    more: Option<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    let own = [
        ("study", status.study.clone()),
        ("system", trial.system.clone()),
        ("workload", trial.workload.clone()),
        ("load", trial.load.clone()),
        ("trial", trial.number.to_string()),
    ];
    own.into_iter().chain(more).collect()
}
