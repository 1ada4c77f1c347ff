//! Sentences about what percentiles and means hide: stalls, slow nodes, bimodal latencies, failures of the same
//! duration, delayed acknowledgements, names with new addresses.
//!
//! They appear above the tables. Except for stalls and names, they appear only if more than half of the trials show
//! them.
//!
//! Not here: detection in a single trial (`model::anomalies`), log findings (`log_findings`).

use std::collections::BTreeMap;

use bakeoff_core::measurement::SILENCE_MIN;
use bakeoff_core::stats::and;
use bakeoff_core::units::{count_text, latency_text, share_text, trials_text};

use crate::model::anomalies::{Bimodal, SlowNode};
use crate::model::contender::Contender;
use crate::model::trial::TrialFigures;

/// Most error texts to list.
const TEXTS_SHOWN: usize = 3;

impl Bimodal {
    /// Names the operations with two modes: `` `get` operations with 64 clients ``.
    fn whose(&self, trial: &TrialFigures) -> String {
        let of = if trial.measured.operations.len() > 1 {
            format!("`{}` operations", self.operation)
        } else {
            "operations".to_owned()
        };
        let of = if trial.measured.stages.len() > 1 {
            format!("{of} with {} clients", count_text(self.clients.into()))
        } else {
            of
        };
        if self.with_failures { format!("{of}, including failed ones,") } else { of }
    }

    /// Returns a clause about failures in the modes.
    fn failures(&self) -> String {
        match self.failed {
            _ if !self.with_failures => String::new(),
            [lower, upper] if lower > upper => {
                format!("; {} of the fast ones failed", share_text(lower.min(1.0)))
            }
            [_, upper] => format!("; {} of the slow ones failed", share_text(upper.min(1.0))),
        }
    }
}

/// Returns a sentence about its longest stall. Stalls shorter than [`SILENCE_MIN`] are reported only if more than half
/// of its trials have them.
pub(crate) fn stalls(of: &Contender, place: &str) -> Option<String> {
    let stalls = || of.trials.iter().filter_map(|trial| Some((trial, trial.anomalies.stall?)));
    let (trial, longest) = stalls().max_by_key(|(_, stall)| stall.length)?;
    let (count, run) = (stalls().count(), trials_text(of.trials.len()));
    if longest.length < SILENCE_MIN && count * 2 <= of.trials.len() {
        return None;
    }
    let (name, text, number) = (&of.system, longest.text(), trial.number);
    let longest = if count > 1 { ", the longest" } else { "" };
    Some(format!(
        "{name} stalled in {count} of {run} under {place}: {text} (trial {number}{longest})"
    ))
}

/// Describes the first trial with two modes, if more than half of its trials have them.
pub(crate) fn bimodal_of(of: &Contender, place: &str) -> Option<String> {
    let with =
        || of.trials.iter().filter_map(|trial| Some((trial, trial.anomalies.bimodal.as_ref()?)));
    let (trial, first) = with().next()?;
    let (count, run) = (with().count(), of.trials.len());
    (count * 2 > run).then(|| {
        format!(
            "{}'s {} are bimodal under {place} in {count} of {}: {}{} (trial {})",
            of.system,
            first.whose(trial),
            trials_text(run),
            first.modes.text(),
            first.failures(),
            trial.number
        )
    })
}

/// Describes the first trial with failures of the same duration, if more than half of its trials have them.
pub(crate) fn failures_of(of: &Contender, place: &str) -> Option<String> {
    let with = || of.trials.iter().filter_map(|trial| Some((trial, trial.anomalies.lasted?)));
    let (trial, first) = with().next()?;
    let (count, run) = (with().count(), of.trials.len());
    (count * 2 > run).then(|| {
        let wording = errors_text(trial);
        let wording = if wording.is_empty() { wording } else { format!("; they were {wording}") };
        format!(
            "{} under {place} in {count} of {}: {} (trial {}){wording}",
            of.system,
            trials_text(run),
            first.text(),
            trial.number
        )
    })
}

/// Describes the first trial with delayed acknowledgements, if more than half of its trials have them.
pub(crate) fn delayed_acks_of(of: &Contender, place: &str) -> Option<String> {
    let with = || of.trials.iter().filter_map(|trial| Some((trial, trial.anomalies.delayed_acks?)));
    let (trial, first) = with().next()?;
    let (count, run) = (with().count(), of.trials.len());
    (count * 2 > run).then(|| {
        let (system, number, text) = (&of.system, trial.number, first.text());
        let run = trials_text(run);
        format!("{system} under {place} in {count} of {run}, such as trial {number}: {text}")
    })
}

/// Lists names that resolved to other addresses during its trials.
pub(crate) fn moved_names_of(of: &Contender, place: &str) -> Vec<String> {
    let text = |number: u32, moved: &str| {
        format!(
            "{} under {place}: {moved}, after a connection had failed (trial {number})",
            of.system
        )
    };
    let all = of.trials.iter().flat_map(|trial| {
        trial.anomalies.moved_names.iter().map(move |moved| text(trial.number, moved))
    });
    all.collect()
}

/// Lists the error texts of a trial, the most frequent first: ``1,868 × `status`: 500``.
pub(crate) fn errors_text(trial: &TrialFigures) -> String {
    let mut texts: Vec<_> = trial.errors.error_texts.iter().collect();
    texts.sort_by_key(|(_, text)| std::cmp::Reverse(text.count));
    let shown = texts.iter().take(TEXTS_SHOWN).map(|(kind, wording)| {
        format!("{} × `{}`: {}", count_text(wording.count), kind.name(), wording.text)
    });
    let shown: Vec<String> = shown.collect();
    and(&shown)
}

/// Describes each node that was slow in more than half of its trials, by the first of them.
pub(crate) fn slow_nodes_of(of: &Contender, place: &str) -> Vec<String> {
    let mut nodes: BTreeMap<&str, Vec<(u32, &SlowNode)>> = BTreeMap::new();
    for trial in &of.trials {
        for slow in &trial.anomalies.slow_nodes {
            nodes.entry(&slow.node).or_default().push((trial.number, slow));
        }
    }
    nodes.retain(|_, slow| slow.len() * 2 > of.trials.len());
    let wording = nodes.into_iter().map(|(node, slow)| {
        let (count, run) = (slow.len(), trials_text(of.trials.len()));
        let (number, first) = slow[0];
        let (its, others) = (latency_text(first.its), latency_text(first.others));
        format!(
            "{node} of {} answered {} under {place} in {count} of {run}: service time p50 {its} \
             against {others} (trial {number})",
            of.system,
            first.times_text()
        )
    });
    wording.collect()
}
