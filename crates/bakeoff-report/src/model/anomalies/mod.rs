//! Detects anomalies of one trial that no row of a table shows: a stall, a slow node, bimodal latencies, failures of
//! the same duration.
//!
//! None of them makes a trial invalid, because the system causes all of them.
//!
//! Not here: their frequency over trials and their sentences (`derive::anomalies`), checks (`check`), usage of nodes
//! (`nodes`).

mod modes;
mod similar_failures;

use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{Measurement, OperationFigures, Silence, TargetFigures};
use bakeoff_core::record::{StageRecord, TrialRecord};
use bakeoff_core::units::{figure_text, latency_text, share_text};

pub(crate) use modes::Modes;
pub(crate) use similar_failures::{SimilarFailures, similar_failures};

/// Smallest factor by which a slow node's median service time exceeds the others',
const SLOW_TIMES: f64 = 3.0;
/// and smallest difference: a second hop or a sleeping CPU explains less.
const SLOW_BY: Duration = Duration::from_millis(1);
/// Fewest answers for a median.
const ANSWERS_MIN: u64 = 20;
/// A node gave few answers if every other node gave more than this many times as many.
const FEW_ANSWERS: u64 = 10;
/// A time in which nothing succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stall {
    /// Start, since the measuring of the first stage began; stages follow one another.
    pub(crate) from: Duration,
    pub(crate) length: Duration,
    /// Share of all windows in which the system stood still, 0 to 1; `None` below 1 %.
    pub(crate) share: Option<f64>,
}

impl Stall {
    /// Returns `nothing succeeded for 102 ms, from 2.00 s on; it stood still for 10.1 % of the window`.
    pub(crate) fn text(&self) -> String {
        let (length, from) = (latency_text(self.length), latency_text(self.from));
        let share = self.share.map_or_else(String::new, |share| {
            format!("; it stood still for {} of the window", share_text(share))
        });
        format!("nothing succeeded for {length}, from {from} on{share}")
    }
}

/// A node that answered more slowly than the others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlowNode {
    pub(crate) node: String,
    /// Its median service time.
    pub(crate) its: Duration,
    /// Median of the other nodes' median service times; the larger of the two middle ones.
    pub(crate) others: Duration,
}

impl SlowNode {
    pub(crate) fn times(&self) -> f64 {
        self.its.as_secs_f64() / self.others.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns `9.1 times slower than the other nodes`.
    pub(crate) fn times_text(&self) -> String {
        format!("{} times slower than the other nodes", figure_text(self.times()))
    }
}

/// Returns the longest stall of a trial. `whole`: its measurement with all stages combined.
pub(crate) fn stall(trial: &TrialRecord, whole: &Measurement) -> Option<Stall> {
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let share = whole.stood_still();
    let mut before = 0.0;
    let mut longest: Option<Stall> = None;
    for stage in trial.figured() {
        for Silence { from, seconds } in stage.measurement.stalled() {
            let stall = Stall { from: span(before + from), length: span(*seconds), share };
            if longest.is_none_or(|longest| stall.length >= longest.length) {
                longest = Some(stall);
            }
        }
        before += stage.measurement.window.as_secs_f64();
    }
    longest
}

/// Returns the nodes of a trial that answered much more slowly than the others. `whole`: its measurement with all
/// stages combined.
///
/// A median needs [`ANSWERS_MIN`] answers. A node with fewer counts as slow by any answers, if the others gave many.
pub(crate) fn slow_nodes(trial: &TrialRecord, whole: &Measurement) -> Vec<SlowNode> {
    let nodes = &whole.targets;
    let slow = |(place, node): (usize, &TargetFigures)| {
        let others = nodes
            .iter()
            .enumerate()
            .filter(|(at, other)| *at != place && other.service.count() >= ANSWERS_MIN);
        let (answers, mut medians): (Vec<u64>, Vec<Duration>) = others
            .filter_map(|(_, other)| Some((other.service.count(), other.service.quantile(0.5)?)))
            .unzip();
        let few = node.service.count().saturating_mul(FEW_ANSWERS) < *answers.iter().min()?;
        let its = node.service.quantile(0.5)?;
        if node.service.count() < ANSWERS_MIN && !few {
            return None;
        }
        medians.sort_unstable();
        let others = medians[medians.len() / 2];
        // The record names nodes in the order in which clients connect to them.
        let node = trial.targets.get(place).unwrap_or(&node.node).clone();
        let slow = SlowNode { node, its, others };
        (slow.times() >= SLOW_TIMES && its.saturating_sub(others) >= SLOW_BY).then_some(slow)
    };
    nodes.iter().enumerate().filter_map(slow).collect()
}

/// Two modes in the latencies of one operation in one stage of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bimodal {
    pub(crate) modes: Modes,
    pub(crate) operation: String,
    /// Clients of the stage.
    pub(crate) clients: u32,
    /// True if the latencies include answered failures.
    pub(crate) with_failures: bool,
    /// Share of failures in the lower and the upper mode; 0 unless failures are included.
    pub(crate) failed: [f64; 2],
}

/// Returns the two modes of a trial, if it has any; of several, the pair with the most answers in the smaller mode.
/// Operations and stages are examined separately, because they may rightly take different times.
pub(crate) fn bimodal(trial: &TrialRecord) -> Option<Bimodal> {
    let of_stage = |stage: &StageRecord| {
        let clients = stage.clients;
        let found = stage.measurement.operations.iter();
        found.filter_map(move |(name, figures)| of_operation(name, clients, figures)).collect()
    };
    let all = trial.stages.iter().flat_map(|stage| -> Vec<Bimodal> { of_stage(stage) });
    all.max_by_key(|found| found.modes.smaller())
}

/// Examines the response times of all answers first, as clients saw them. If they have one mode, the service times of
/// successes may still have two, which waiting for a free client blurs.
fn of_operation(name: &str, clients: u32, figures: &OperationFigures) -> Option<Bimodal> {
    let found = |modes: Modes, with_failures: bool, failed: [f64; 2]| Bimodal {
        modes,
        operation: name.to_owned(),
        clients,
        with_failures,
        failed,
    };
    if !figures.failed.is_empty() {
        let mut all = figures.response.clone();
        all.merge(&figures.failed);
        if let Some(modes) = modes::modes(&all) {
            let failed = failed_in(&modes, &figures.failed);
            return Some(found(modes, true, failed));
        }
    }
    modes::modes(&figures.service).map(|modes| found(modes, false, [0.0, 0.0]))
}

/// Returns the share of failures in each mode.
fn failed_in(modes: &Modes, failed: &Latencies) -> [f64; 2] {
    let late = |(time, count): (Duration, u64)| if time >= modes.edge { count } else { 0 };
    let upper: u64 = failed.recorded().map(late).sum();
    let early = |(time, count): (Duration, u64)| if time <= modes.near { count } else { 0 };
    let lower: u64 = failed.recorded().map(early).sum();
    [
        lower as f64 / modes.lower.answers.max(1) as f64,
        upper as f64 / modes.upper.answers.max(1) as f64,
    ]
}
