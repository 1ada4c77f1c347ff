//! Node by node: what each used while the load ran, and whether its CPU limit held it back.
//!
//! A system of several parts has its work done in several places, and a limit may bind one of them
//! alone. A node that was throttled says what its limit gives, not what its program does.
//!
//! Not here: all nodes together (`figures`), applying limits (the binary).

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{TrialRecord, Usage};
use bakeoff_core::stats::{self, Figure};
use bakeoff_core::study::System;
use bakeoff_core::units::{figure_text, trials_text};
use serde::Serialize;

use crate::document::table::{Cell, Column, Table};
use crate::document::tables::shown;
use crate::model::comparison::{Comparison, Contender, TrialFigures};
use crate::model::figures::{self, GENERATOR, Quantity};

/// A node whose limit held it back in this share of its periods is said to have been throttled,
const THROTTLED: f64 = 0.25;
/// and to have gone at its limit's pace where it used this share of the limit. Less is had by a program
/// that wants much at a time and has little to do in between.
const USED_UP: f64 = 0.8;
/// Fewer periods than this say nothing: less than a second.
const PERIODS_MIN: u64 = 10;

/// What one node used in one trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeFigures {
    pub(crate) node: String,
    /// Which part of the system it is one of; `None` for the system's own nodes.
    pub(crate) role: Option<String>,
    /// In percent of one core.
    pub(crate) cpu_mean_percent: f64,
    /// In milliseconds for each operation that was verified.
    pub(crate) cpu_per_operation_ms: Option<f64>,
    pub(crate) memory_max_bytes: f64,
    /// What the study holds it to, in cores.
    pub(crate) cpu_limit: Option<f64>,
    /// In which share of its limit's periods it was held back, 0 to 1.
    pub(crate) throttled_share: Option<f64>,
    /// For how long, the queues of all CPUs added up.
    pub(crate) throttled_seconds: Option<f64>,
}

/// The nodes of a trial. `system`: what the study asked for.
pub(crate) fn of_trial(
    trial: &TrialRecord,
    whole: Option<&Measurement>,
    system: Option<&System>,
) -> Vec<NodeFigures> {
    let rate = whole.and_then(Measurement::throughput).filter(|&rate| rate > 0.0);
    let one = |usage: &Usage| {
        let (role, member) = system.map_or((None, None), |system| member(system, &usage.name));
        NodeFigures {
            node: usage.name.clone(),
            role: role.map(str::to_owned),
            cpu_mean_percent: usage.cpu_mean_percent,
            cpu_per_operation_ms: rate.map(|rate| figures::cpu_ms(usage.cpu_mean_percent, rate)),
            memory_max_bytes: usage.rss_max_bytes as f64,
            cpu_limit: member.and_then(|member| member.limits.as_ref()?.cpu),
            throttled_share: throttled(usage),
            throttled_seconds: usage.throttled_seconds,
        }
    };
    trial.usage.iter().filter(|usage| usage.name != GENERATOR).map(one).collect()
}

/// In which share of its limit's periods a node was held back.
pub(crate) fn throttled(usage: &Usage) -> Option<f64> {
    let (all, held) = (usage.periods?, usage.periods_throttled?);
    (all >= PERIODS_MIN).then(|| held as f64 / all as f64)
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

/// The trials that its figures are of: the valid ones, or all where none is.
fn used(of: &Contender) -> impl Iterator<Item = &TrialFigures> {
    let all = of.valid_count() == 0;
    of.trials.iter().filter(move |trial| all || trial.valid())
}

/// A contender's nodes in the order of its first trial.
fn names(of: &Contender) -> Vec<(&str, Option<&str>)> {
    let mut names: Vec<(&str, Option<&str>)> = Vec::new();
    for node in used(of).flat_map(|trial| &trial.nodes) {
        if !names.iter().any(|(name, _)| *name == node.node) {
            names.push((&node.node, node.role.as_deref()));
        }
    }
    names
}

/// The median over its trials of what a node has.
fn median(of: &Contender, node: &str, value: fn(&NodeFigures) -> Option<f64>) -> Figure {
    let figures = used(of).map(|trial| {
        let is_it = |one: &&NodeFigures| one.node == node;
        trial.nodes.iter().find(is_it).and_then(value).into()
    });
    stats::summary(figures).median
}

/// A table of all nodes; `None` where no system has a part and nothing limits a node.
pub(crate) fn table(of: &Comparison) -> Option<Table> {
    let nodes = || of.contenders.iter().flat_map(|one| used(one).flat_map(|trial| &trial.nodes));
    let worth = |node: &NodeFigures| {
        node.role.is_some() || node.cpu_limit.is_some() || node.throttled_seconds.is_some()
    };
    if !nodes().any(worth) {
        return None;
    }
    let rows: Vec<(&Contender, &str, Option<&str>)> = of
        .contenders
        .iter()
        .flat_map(|one| names(one).into_iter().map(move |(node, role)| (one, node, role)))
        .collect();
    type Value = fn(&NodeFigures) -> Option<f64>;
    let quantity = |of: Quantity| move |figure: Figure| shown(figure, |figure| of.text(figure));
    let number = |figure: Figure| Cell::or_missing(figure.value().map(figure_text));
    let column = |head: &str, value: Value, text: &dyn Fn(Figure) -> Cell| Column {
        head: head.split('|').map(str::to_owned).collect(),
        cells: rows.iter().map(|(one, node, _)| text(median(one, node, value))).collect(),
    };
    let roles = Column {
        head: vec!["part".to_owned()],
        cells: rows.iter().map(|(_, _, role)| role.unwrap_or("itself").into()).collect(),
    };
    let mut columns = vec![
        column("CPU|mean", |node| Some(node.cpu_mean_percent), &quantity(Quantity::CpuMeanSum)),
        column("CPU limit,|cores", |node| node.cpu_limit, &number),
        column(
            "throttled,|of periods",
            |node| node.throttled_share,
            &quantity(Quantity::Throttled),
        ),
        column("throttled,|seconds", |node| node.throttled_seconds, &number),
        column(
            "CPU per|operation",
            |node| node.cpu_per_operation_ms,
            &quantity(Quantity::CpuPerOperation),
        ),
        column(
            "memory|max",
            |node| Some(node.memory_max_bytes),
            &quantity(Quantity::MemoryNodeMax),
        ),
    ];
    if nodes().any(|node| node.role.is_some()) {
        columns.insert(0, roles);
    }
    columns.retain(|column| column.cells.iter().any(|cell| *cell != Cell::Missing));
    Some(Table {
        title: Some("by node, while the load ran".to_owned()),
        corner: "node".to_owned(),
        labels: rows.iter().map(|(_, node, _)| (*node).to_owned()).collect(),
        groups: columns.into_iter().map(|column| vec![column]).collect(),
    })
}

/// Each node that its limit held back in more than half of a system's trials.
pub(crate) fn findings(of: &Contender, place: &str) -> Vec<String> {
    let held = |trial: &TrialFigures, node: &str| {
        let is_it = |one: &&NodeFigures| one.node == node;
        let share = trial.nodes.iter().find(is_it)?.throttled_share?;
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
            Some(used) if used < USED_UP => format!("{name} held it back at times"),
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
