//! The matrix of a report's first screen: systems against workloads and loads.
//!
//! Not here: which system is best (`leader`), the tables of a single load (`tables`).

use bakeoff_core::units::share_text;

use super::table::{Cell, Column, Table};
use crate::derive::comparison::Comparison;
use crate::derive::leader::{Leader, deciding, leader};
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

/// Explains the mark of the best.
pub(crate) const LEGEND: &str = "* best: proven better than each other system that is ranked (95 %, \
                                 corrected for all comparisons of its row's load)";

/// Returns the deciding figure of each system under each workload and load.
pub(crate) fn matrix(report: &Report) -> Table {
    let rows = &report.comparisons;
    let heading = |of: &Comparison| name(deciding(of));
    let first = rows.first().map(heading).unwrap_or_default();
    let alike = rows.iter().all(|one| heading(one) == first);
    let decides = (!alike).then(|| Column {
        head: vec!["decided by".to_owned()],
        cells: rows.iter().map(|one| heading(one).into()).collect(),
    });
    let systems = report.header.study.systems.iter().map(|system| Column {
        head: vec![system.name.clone()],
        cells: rows.iter().map(|one| cell(one, &system.name)).collect(),
    });
    let best = (report.header.study.systems.len() > 1)
        .then(|| Column { head: vec!["best".to_owned()], cells: rows.iter().map(best).collect() });
    Table {
        title: None,
        corner: if alike { first } else { String::new() },
        labels: rows.iter().map(|one| one.place()).collect(),
        groups: decides.into_iter().chain(systems).chain(best).map(|column| vec![column]).collect(),
    }
}

/// Returns whether any cell of a table is marked as the best.
pub(crate) fn has_best(of: &Table) -> bool {
    of.groups
        .iter()
        .flatten()
        .flat_map(|column| &column.cells)
        .any(|cell| matches!(cell, Cell::Best(_)))
}

/// Returns a deciding figure's name.
fn name(quantity: Quantity) -> String {
    match quantity {
        Quantity::Response(Point::P99) => "p99 response time".to_owned(),
        Quantity::HighestRate => "highest rate /s".to_owned(),
        other => other.label(),
    }
}

/// Returns who is best, as far as that is proven.
fn best(of: &Comparison) -> Cell {
    match leader(of) {
        _ if !of.was_run() => Cell::NotRun,
        Leader::Proven(name) => name.into(),
        Leader::NotShown => Cell::NotShown,
        Leader::NotJudged => Cell::NotJudged,
    }
}

/// Returns the deciding figure of a system.
fn cell(of: &Comparison, system: &str) -> Cell {
    let Some(one) = of.contenders.iter().find(|one| one.system == system) else {
        return Cell::NotMeasured;
    };
    if one.trials.is_empty() {
        return Cell::NotRun;
    }
    if one.valid_count() == 0 {
        return Cell::NotValid;
    }
    let quantity = deciding(of);
    let figure = quantity.short(one.shown(quantity));
    let figure = match one.errors_worth_saying() {
        Some(share) => format!("{figure} ({} errors)", share_text(share)),
        None => figure,
    };
    let ranked = |one: &Contender| one.left_out(&of.place(), false).is_none();
    match leader(of) {
        _ if !ranked(one) => Cell::NotRanked(figure),
        Leader::Proven(best) if best == system => Cell::Best(figure),
        _ => figure.into(),
    }
}
