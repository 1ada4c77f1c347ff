//! Staleness of reads by node, for loads that allow stale reads: figures, sentences and JSON.
//!
//! The histograms of all valid trials are merged into one. A lower bound is never shown as an exact number. A stale
//! read that the system may return is neither a success nor a failure.
//!
//! Not here: the measurement (`bakeoff_core::staleness`), the table (`document::staleness`).

use bakeoff_core::ranked_latencies::sample_min;
use bakeoff_core::staleness::{Age, Staleness};
use bakeoff_core::units::{count_text, latency_text, share_text};
use serde::Serialize;

use crate::derive::comparison::Comparison;
use crate::model::contender::Contender;

/// Returns the staleness of each node with reads, over a system's valid trials.
pub(crate) fn nodes(of: &Contender) -> Vec<Staleness> {
    let mut nodes: Vec<Staleness> = Vec::new();
    for theirs in of.valid().flat_map(|trial| &trial.servers.staleness).filter(|of| of.reads > 0) {
        match nodes.iter_mut().find(|ours| ours.node == theirs.node) {
            Some(ours) => ours.merge(theirs),
            None => nodes.push(theirs.clone()),
        }
    }
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    nodes
}

/// Returns all nodes combined.
pub(crate) fn whole(system: &str, nodes: &[Staleness]) -> Staleness {
    let mut whole = Staleness { node: format!("{system}, all"), ..Staleness::default() };
    nodes.iter().for_each(|node| whole.merge(node));
    whole
}

/// Returns the age that a share `quantile` of the stale reads does not exceed, if there are [`sample_min`] of them. The
/// maximum (1) needs no minimum.
fn age(of: &Staleness, quantile: f64) -> Option<Age> {
    let enough = quantile >= 1.0 || of.stale >= sample_min(quantile);
    enough.then(|| of.age(quantile)).flatten()
}

/// Formats an age, with `at least` for a lower bound.
pub(crate) fn age_text(of: &Staleness, quantile: f64) -> Option<String> {
    match age(of, quantile) {
        Some(Age::Exactly(age)) => Some(latency_text(age)),
        Some(Age::AtLeast(age)) => Some(format!("at least {}", latency_text(age))),
        None if of.stale > 0 && of.age(quantile).is_none() => Some("> 1 h".to_owned()),
        None => None,
    }
}

/// Formats a number of versions, with `at least` for a lower bound.
pub(crate) fn behind_text(of: &Staleness, versions: Option<String>) -> Option<String> {
    versions.map(|versions| match of.at_least.is_empty() {
        true => versions,
        false => format!("at least {versions}"),
    })
}

/// Returns a sentence about the staleness of each system's reads.
pub(crate) fn lines(of: &Comparison) -> Vec<String> {
    let line = |one: &Contender| {
        let nodes = nodes(one);
        let whole = whole(&one.system, &nodes);
        let (system, reads) = (&one.system, count_text(whole.reads));
        if whole.reads == 0 {
            return None;
        }
        if whole.stale == 0 {
            return Some(format!("{system}: none of {reads} reads was found to be stale"));
        }
        let share = share_text(whole.share().unwrap_or_default());
        let ages = [(0.5, "median"), (0.99, "p99"), (1.0, "worst")];
        let ages = ages.map(|(quantile, name)| (age_text(&whole, quantile), name));
        let ages = ages.into_iter().filter_map(|(age, name)| Some(format!("{} ({name})", age?)));
        let ages: Vec<String> = ages.collect();
        Some(format!(
            "{system}: {} of {reads} reads ({share}) returned a value superseded before they \
             began, for {}",
            count_text(whole.stale),
            ages.join(", ")
        ))
    };
    of.contenders.iter().filter_map(line).collect()
}

/// Staleness of the reads of a node, for JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NodeStaleness {
    /// Name of the node.
    node: String,
    /// Verified reads of remembered keys.
    reads: u64,
    /// Reads of a superseded value.
    stale: u64,
    /// Share of stale reads, 0 to 1.
    stale_share: Option<f64>,
    /// Median age of the values of stale reads; `None` if only a bound is known, or too little.
    age_p50_ms: Option<f64>,
    /// 99th percentile of the age.
    age_p99_ms: Option<f64>,
    /// Maximum age.
    age_max_ms: Option<f64>,
    /// Lower bound of the median age, if no more is known.
    age_p50_at_least_ms: Option<f64>,
    /// Lower bound of the 99th percentile.
    age_p99_at_least_ms: Option<f64>,
    /// Lower bound of the maximum.
    age_max_at_least_ms: Option<f64>,
    /// Mean number of versions that stale reads were behind.
    versions_behind_mean: Option<f64>,
    /// Maximum number of versions.
    versions_behind_max: u32,
    /// Stale reads whose age is known as a lower bound only.
    lower_bounds: u64,
}

/// Describes the staleness of each node.
pub(crate) fn summaries(of: &[Staleness]) -> Vec<NodeStaleness> {
    let split = |of: &Staleness, quantile| match age(of, quantile) {
        Some(Age::Exactly(age)) => (Some(age.as_secs_f64() * 1e3), None),
        Some(Age::AtLeast(age)) => (None, Some(age.as_secs_f64() * 1e3)),
        None => (None, None),
    };
    let one = |of: &Staleness| {
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|quantile| split(of, quantile));
        NodeStaleness {
            node: of.node.clone(),
            reads: of.reads,
            stale: of.stale,
            stale_share: of.share(),
            age_p50_ms: p50.0,
            age_p99_ms: p99.0,
            age_max_ms: worst.0,
            age_p50_at_least_ms: p50.1,
            age_p99_at_least_ms: p99.1,
            age_max_at_least_ms: worst.1,
            versions_behind_mean: of.behind_mean(),
            versions_behind_max: of.behind_max,
            lower_bounds: of.at_least.count(),
        }
    };
    of.iter().map(one).collect()
}
