//! Usage of each node in one trial during the load.
//!
//! Not here: several trials, and findings (`derive::nodes`), all nodes together (`figures`), applying limits (the
//! binary).

use bakeoff_core::measurement::Measurement;
use bakeoff_core::memory::MemoryOf;
use bakeoff_core::record::{TrialRecord, Usage};
use bakeoff_core::study::System;
use bakeoff_core::trial_samples::{GENERATOR, MetricsSubject};
use serde::Serialize;

use crate::model::figures;
use crate::model::throttling;

/// Usage of a node during the load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NodeFigures {
    /// Name of the node.
    pub(crate) node: String,
    /// Part of the system that the node belongs to; `None` for the system's own nodes.
    pub(crate) role: Option<String>,
    /// Mean CPU during the load, in percent of one core.
    pub(crate) cpu_mean_percent: f64,
    /// CPU time per verified operation, in milliseconds.
    pub(crate) cpu_per_operation_ms: Option<f64>,
    /// Largest memory by the measure of `memory_of`, else resident memory; `None` if it was not read.
    pub(crate) memory_max_bytes: Option<f64>,
    /// CPU limit in the study, in cores.
    pub(crate) cpu_limit: Option<f64>,
    /// Share of throttled periods of its CPU limit, 0 to 1.
    pub(crate) throttled_share: Option<f64>,
    /// Throttled time in seconds, added up over the queues of all CPUs.
    pub(crate) throttled_seconds: Option<f64>,
    /// Subject of the metrics that its figures come from; `None` for sampled figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics_of: Option<MetricsSubject>,
}

/// Returns the nodes of a trial. `system`: the system in the study.
pub(crate) fn of_trial(
    trial: &TrialRecord,
    whole: Option<&Measurement>,
    system: Option<&System>,
) -> Vec<NodeFigures> {
    let rate = whole.and_then(Measurement::throughput).filter(|&rate| rate > 0.0);
    let of = trial.memory.map_or(MemoryOf::Resident, |memory| memory.of);
    let memory = |usage: &Usage| match of {
        MemoryOf::Proportional => usage.pss_max_bytes,
        MemoryOf::Resident => usage.rss_max_bytes,
    };
    let one = |usage: &Usage| {
        let (role, member) = system.map_or((None, None), |system| member(system, &usage.name));
        NodeFigures {
            node: usage.name.clone(),
            role: role.map(str::to_owned),
            cpu_mean_percent: usage.cpu_mean_percent,
            cpu_per_operation_ms: rate.map(|rate| figures::cpu_ms(usage.cpu_mean_percent, rate)),
            memory_max_bytes: memory(usage).map(|bytes| bytes as f64),
            cpu_limit: member.and_then(|member| member.limits.as_ref()?.cpu),
            throttled_share: throttling::throttled(usage),
            throttled_seconds: usage.throttled_seconds,
            metrics_of: usage.metrics_of,
        }
    };
    trial.usage.iter().filter(|usage| usage.name != GENERATOR).map(one).collect()
}

/// Returns the part of the system that a node belongs to, by its name, and its role.
fn member<'a>(system: &'a System, node: &str) -> (Option<&'a str>, Option<&'a System>) {
    let is_of = |name: &str| node.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    let part = system.parts.iter().find(|(_, part)| is_of(&part.name));
    match part {
        Some((role, part)) => (Some(role), Some(part)),
        None => (None, Some(system).filter(|system| is_of(&system.name))),
    }
}
