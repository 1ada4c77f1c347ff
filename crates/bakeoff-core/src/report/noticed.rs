//! What a measurement itself shows and no row of a table names: a stall, a slow node.
//!
//! Neither makes a trial invalid: both are the system's own doing. They are said above the tables,
//! since a percentile of a closed load hides the one and a mean over all nodes the other.
//!
//! Not here: what checks found (`check`), how often it happened in a system's trials (`comparison`).

use std::time::Duration;

use crate::measurement::{Measurement, SILENCE_MIN, Silence, TargetFigures};
use crate::record::{StageRecord, TrialRecord};
use crate::units::{figure_text, latency_text};

/// A silence is a stall from this many times the median service time on: where an operation takes a
/// second, a second without a success is nothing.
const STALL_TIMES: u32 = 10;
/// So many times the others' median service time makes a node a slow one,
const SLOW_TIMES: f64 = 3.0;
/// and at least so much more: below it a second hop or a sleepy CPU explains it.
const SLOW_BY: Duration = Duration::from_millis(1);
/// From so few answers follows nothing.
const ANSWERS_MIN: u64 = 20;

/// A time in which nothing succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stall {
    /// Since the measuring of the first stage began; stages follow on one another.
    pub(super) from: Duration,
    pub(super) length: Duration,
}

impl Stall {
    /// `nothing succeeded for 1.02 s, from 2.00 s on`.
    pub(super) fn text(&self) -> String {
        let (length, from) = (latency_text(self.length), latency_text(self.from));
        format!("nothing succeeded for {length}, from {from} on")
    }
}

/// A node that answered later than the others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlowNode {
    pub(super) node: String,
    /// Its median service time.
    pub(super) its: Duration,
    /// The median of the other nodes' median service times, the later of the two middle ones.
    pub(super) others: Duration,
}

impl SlowNode {
    pub(super) fn times(&self) -> f64 {
        self.its.as_secs_f64() / self.others.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// `9.1 times slower than the other nodes`.
    pub(super) fn times_text(&self) -> String {
        format!("{} times slower than the other nodes", figure_text(self.times()))
    }
}

/// The longest stall of a trial.
pub(super) fn stall(trial: &TrialRecord) -> Option<Stall> {
    let mut before = 0.0;
    let mut longest: Option<Stall> = None;
    for stage in &trial.stages {
        let least = stall_min(stage);
        for Silence { from, seconds } in &stage.measurement.silences {
            let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let stall = Stall { from: span(before + from), length: span(*seconds) };
            if stall.length >= longest.map_or(least, |longest| longest.length.max(least)) {
                longest = Some(stall);
            }
        }
        before += stage.measurement.window.as_secs_f64();
    }
    longest
}

fn stall_min(stage: &StageRecord) -> Duration {
    let median = stage.measurement.total().service.quantile(0.5).unwrap_or_default();
    SILENCE_MIN.max(median * STALL_TIMES)
}

/// The nodes of a trial that answered much later than the others; `whole` is its measurement with
/// all stages as one.
pub(super) fn slow_nodes(trial: &TrialRecord, whole: &Measurement) -> Vec<SlowNode> {
    let median =
        |of: &TargetFigures| of.service.quantile(0.5).filter(|_| of.service.count() >= ANSWERS_MIN);
    let medians: Option<Vec<Duration>> = whole.targets.iter().map(median).collect();
    let Some(medians) = medians.filter(|medians| medians.len() > 1) else { return Vec::new() };
    let slow = |(place, &its): (usize, &Duration)| {
        let mut others = medians.clone();
        others.remove(place);
        others.sort_unstable();
        let others = others[others.len() / 2];
        // The record names nodes in the order in which clients connect to them.
        let address = &whole.targets[place].node;
        let node = trial.targets.get(place).unwrap_or(address).clone();
        let slow = SlowNode { node, its, others };
        (slow.times() >= SLOW_TIMES && its.saturating_sub(others) >= SLOW_BY).then_some(slow)
    };
    medians.iter().enumerate().filter_map(slow).collect()
}
