//! Node by node: what each used in one trial while the load ran.
//!
//! Not here: several trials and findings (`derive::nodes`), all nodes together (`figures`), applying
//! limits (the binary).

use bakeoff_core::measurement::Measurement;
use bakeoff_core::memory::MemoryOf;
use bakeoff_core::observed::{GENERATOR, Metered};
use bakeoff_core::record::{TrialRecord, Usage};
use bakeoff_core::study::System;
use serde::Serialize;

use crate::model::figures;
use crate::model::throttling;

/// Usage of one node in one trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeFigures {
    pub(crate) node: String,
    /// Which part of the system it is one of; `None` for the system's own nodes.
    pub(crate) role: Option<String>,
    /// In percent of one core.
    pub(crate) cpu_mean_percent: f64,
    /// In milliseconds for each operation that was verified.
    pub(crate) cpu_per_operation_ms: Option<f64>,
    /// Of [`TrialRecord::memory`]'s measure; resident memory if that is not known. `None` if it was not read.
    pub(crate) memory_max_bytes: Option<f64>,
    /// Its CPU limit in the study, in cores.
    pub(crate) cpu_limit: Option<f64>,
    /// In which share of its limit's periods it was held back, 0 to 1.
    pub(crate) throttled_share: Option<f64>,
    /// For how long, the queues of all CPUs added up.
    pub(crate) throttled_seconds: Option<f64>,
    /// Subject of its figures, where its own metrics told them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics_of: Option<Metered>,
}

/// The nodes of a trial. `system`: what the study asked for.
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

/// Whose node this is by its name: the system's own or a part's, with its role.
fn member<'a>(system: &'a System, node: &str) -> (Option<&'a str>, Option<&'a System>) {
    let is_of = |name: &str| node.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    let part = system.parts.iter().find(|(_, part)| is_of(&part.name));
    match part {
        Some((role, part)) => (Some(role), Some(part)),
        None => (None, Some(system).filter(|system| is_of(&system.name))),
    }
}
