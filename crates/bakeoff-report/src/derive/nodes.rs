//! Usage of each node over a system's trials, and throttling by CPU limits.
//!
//! A system of several parts works in several places, and a limit may affect only one of them. The figures of a
//! throttled node describe its limit, not its program.
//!
//! Not here: one trial's nodes (`model::nodes`), the table of all (`document::nodes`).

use std::collections::BTreeSet;

use bakeoff_core::check::CheckName;
use bakeoff_core::memory::MemoryOf;
use bakeoff_core::stats::{self, Figure};
use bakeoff_core::trial_samples::MetricsSubject;
use bakeoff_core::units::{figure_text, trials_text};

use super::not_comparable::NotComparable;
use crate::model::contender::{Contender, MissingVerdict, not_checked};
use crate::model::nodes::NodeFigures;
use crate::model::quantity::Quantity;
use crate::model::trial::TrialFigures;

/// Smallest share of throttled periods for a finding.
const THROTTLED: f64 = 0.25;
/// Smallest share of the limit in use from which the limit sets the pace. A program that works in bursts uses less.
const USED_UP: f64 = 0.8;

/// Returns the trials behind its figures: the valid ones, or all if none is valid.
pub(crate) fn used(of: &Contender) -> impl Iterator<Item = &TrialFigures> {
    let all = of.valid_count() == 0;
    of.trials.iter().filter(move |trial| all || trial.valid())
}

/// Returns a system's nodes with their roles, in the order of its first trial.
pub(crate) fn names(of: &Contender) -> Vec<(&str, Option<&str>)> {
    let mut names: Vec<(&str, Option<&str>)> = Vec::new();
    for node in used(of).flat_map(|trial| &trial.servers.nodes) {
        if !names.iter().any(|(name, _)| *name == node.node) {
            names.push((&node.node, node.role.as_deref()));
        }
    }
    names
}

/// Returns the median of a node's value over the trials.
pub(crate) fn median(of: &Contender, node: &str, value: fn(&NodeFigures) -> Option<f64>) -> Figure {
    let figures = used(of).map(|trial| {
        let is_it = |one: &&NodeFigures| one.node == node;
        trial.servers.nodes.iter().find(is_it).and_then(value).into()
    });
    stats::summary(figures).median
}

/// Returns findings about nodes whose metrics could not be read, or describe their machine.
pub(crate) fn metrics(of: &Contender, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (what, why, count) in not_checked(&of.trials) {
        if what == MissingVerdict::Check(CheckName::Metrics) {
            let (count, run) = (count, trials_text(of.trials.len()));
            found.push(format!("{why} ({} under {place}, in {count} of {run})", of.system));
        }
    }
    let names: Vec<&str> = of_machines(of).into_iter().collect();
    if !names.is_empty() {
        found.push(format!(
            "CPU and memory of {} under {place} are for the whole machine at {}, from a node exporter",
            of.system,
            names.join(", ")
        ));
    }
    found
}

/// Returns the nodes whose figures describe their machines.
fn of_machines(of: &Contender) -> BTreeSet<&str> {
    let is_machine = |node: &&NodeFigures| node.metrics_of == Some(MetricsSubject::Machine);
    let nodes = used(of).flat_map(|trial| &trial.servers.nodes).filter(is_machine);
    nodes.map(|node| node.node.as_str()).collect()
}

/// Returns the two measures of memory if those of two systems differ; `None` for other figures.
pub(crate) fn other_memory(
    quantity: Quantity,
    a: &Contender,
    b: &Contender,
) -> Option<[MemoryOf; 2]> {
    if !matches!(quantity, Quantity::MemorySum | Quantity::MemoryNodeMax) {
        return None;
    }
    let mut measures = a.valid().chain(b.valid()).filter_map(|trial| trial.servers.memory_of);
    let first = measures.next()?;
    measures.find(|other| *other != first).map(|other| [first, other])
}

/// Returns why CPU and memory of two systems are not comparable: one's figures describe machines.
pub(crate) fn of_other_things(a: &Contender, b: &Contender) -> Option<NotComparable> {
    let (machine, processes) = match (of_machines(a).is_empty(), of_machines(b).is_empty()) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        _ => return None,
    };
    Some(NotComparable::OtherMeters {
        of_machines: machine.system.clone(),
        of_processes: processes.system.clone(),
    })
}

/// Returns a finding for each node that was throttled in more than half of a system's trials.
pub(crate) fn findings(of: &Contender, place: &str) -> Vec<String> {
    let held = |trial: &TrialFigures, node: &str| {
        let is_it = |one: &&NodeFigures| one.node == node;
        let share = trial.servers.nodes.iter().find(is_it)?.throttled_share?;
        (share >= THROTTLED).then_some(share)
    };
    let mut found = Vec::new();
    for (node, _) in names(of) {
        let trials: Vec<f64> = of.trials.iter().filter_map(|trial| held(trial, node)).collect();
        if trials.len() * 2 <= of.trials.len() {
            continue;
        }
        let share = Quantity::Throttled.text(median(of, node, |one| one.throttled_share));
        let cpu = median(of, node, |one| Some(one.cpu_mean_percent)).value().unwrap_or_default();
        let limit = median(of, node, |one| one.cpu_limit).value();
        let name =
            limit.map_or("its CPU limit".to_owned(), |cores| format!("its limit of {cores} CPU"));
        let what = match limit.map(|cores| cpu / 100.0 / cores) {
            Some(used) if used < USED_UP => format!("{name} slowed it at times"),
            _ => format!("{name}, not the program, set the pace"),
        };
        let (count, run) = (trials.len(), trials_text(of.trials.len()));
        found.push(format!(
            "{node} of {} was throttled in {share} of its CPU limit's periods under {place} in {count} \
             of {run}, and used {} of a core: {what}",
            of.system,
            figure_text(cpu / 100.0),
        ));
    }
    found
}
