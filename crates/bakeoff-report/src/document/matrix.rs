//! Tables of a report's first screen: the deciding figure by workload, load and system, and other key figures.
//!
//! Not here: the choice of the best system (`leader`), the tables of a single load (`tables`).

use bakeoff_core::units::share_text;

use super::table::{Cell, Column, Table};
use super::tables::shown;
use crate::derive::comparison::Comparison;
use crate::derive::judgement;
use crate::derive::leader::{Leader, deciding, leader, rankings, rankings_text};
use crate::derive::ranking::Ranking;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

/// Legend of the mark for the best system.
pub(crate) const LEGEND: &str = "* best: proven better than every other ranked system, under equal \
                                 conditions (95 %, corrected for all comparisons of its row's load)";
/// Legend of an order whose first system had favourable conditions.
pub(crate) const UNEQUAL: &str = "fastest under unequal conditions: proven better than every other \
                                  ranked system, but conditions favour it";

/// Returns the deciding figure of each system under each workload and load.
pub(crate) fn matrix(report: &Report) -> Table {
    let rows = &report.comparisons;
    let heading = |of: &Comparison| joined(deciding(of).into_iter().map(name));
    let first = rows.first().map(heading).unwrap_or_default();
    let alike = rows.iter().all(|one| heading(one) == first);
    let decides = (!alike).then(|| Column {
        head: vec!["decided by".to_owned()],
        cells: rows.iter().map(|one| heading(one).into()).collect(),
    });
    // A gate has its own verdict, at another confidence level.
    let is_gate = report.header.gate.is_some();
    let unranked = |cell: Cell| match cell {
        Cell::Best(figure) if is_gate => figure.into(),
        cell => cell,
    };
    let systems = report.header.study.systems.iter().map(|system| Column {
        head: vec![system.name.clone()],
        cells: rows.iter().map(|one| unranked(cell(one, &system.name))).collect(),
    });
    let order = (!is_gate && report.header.study.systems.len() > 1).then(|| Column {
        head: vec!["order".to_owned()],
        cells: rows.iter().map(order).collect(),
    });
    let (title, labels) = labels("deciding figure", &rows.iter().collect::<Vec<_>>());
    Table {
        title: Some(title),
        corner: if alike { first } else { String::new() },
        labels,
        groups: decides
            .into_iter()
            .chain(systems)
            .chain(order)
            .map(|column| vec![column])
            .collect(),
    }
}

/// Returns throughput, a high percentile, CPU time and errors of each system under each workload and load, which the
/// deciding figure alone would hide.
pub(crate) fn key_figures(run: &[&Comparison]) -> Table {
    let rows: Vec<(&Comparison, &Contender)> = run
        .iter()
        .flat_map(|of| of.contenders.iter().map(move |one| (*of, one)))
        .filter(|(_, one)| !one.trials.is_empty())
        .collect();
    let column = |head: &str, cell: &dyn Fn(&Comparison, &Contender) -> Cell| Column {
        head: vec![head.to_owned()],
        cells: rows
            .iter()
            .map(|(of, one)| if one.valid_count() == 0 { Cell::NotValid } else { cell(of, one) })
            .collect(),
    };
    let figure = |one: &Contender, quantity: Quantity| {
        shown(one.shown(quantity), |figure| quantity.short(figure))
    };
    let tails: Vec<Point> = run.iter().map(|of| of.tail(None)).collect();
    let same = tails.first().filter(|first| tails.iter().all(|one| one == *first));
    let (title, places) = labels("key figures", run);
    let label = |(of, one): &(&Comparison, &Contender)| {
        let place = run.iter().position(|other| std::ptr::eq(*other, *of));
        let place = place.and_then(|place| places.get(place)).cloned().unwrap_or_default();
        format!("{place} {}", one.system)
    };
    let columns = [
        column("throughput /s", &|_, one| figure(one, Quantity::ThroughputMean)),
        column(
            &same.map_or("high percentile".to_owned(), |point| point.name().to_owned()),
            &|of, one| {
                let point = of.tail(None);
                match (figure(one, Quantity::Response(point)), same) {
                    (Cell::Text(text), None) => format!("{}: {text}", point.name()).into(),
                    (cell, _) => cell,
                }
            },
        ),
        column("CPU per operation", &|_, one| figure(one, Quantity::CpuPerOperation)),
        column("errors", &|_, one| {
            let share = one.error_share().filter(|&share| share > 0.0);
            share.map_or_else(|| "none".to_owned(), share_text).into()
        }),
    ];
    Table {
        title: Some(title),
        corner: String::new(),
        labels: rows.iter().map(label).collect(),
        groups: columns.map(|column| vec![column]).into(),
    }
}

/// Returns a table's title, with the load if all rows share it, and the label of each row.
fn labels(what: &str, rows: &[&Comparison]) -> (String, Vec<String>) {
    let first = rows.first().map(|one| one.load_text());
    match rows.iter().all(|one| Some(one.load_text()) == first) {
        true => {
            let title = first.map_or_else(|| what.to_owned(), |load| format!("{what}, {load}"));
            (title, rows.iter().map(|one| one.place()).collect())
        }
        false => (what.to_owned(), rows.iter().map(|one| one.place_and_load()).collect()),
    }
}

/// Returns true if any cell of a table is marked as the best.
pub(crate) fn has_best(of: &Table) -> bool {
    of.groups
        .iter()
        .flatten()
        .flat_map(|column| &column.cells)
        .any(|cell| matches!(cell, Cell::Best(_)))
}

/// Returns true if any system is fastest under unequal conditions.
pub(crate) fn has_unequal(report: &Report) -> bool {
    report.comparisons.iter().any(|one| matches!(leader(one), Leader::Unequal(_)))
}

/// Joins the texts of several deciding figures.
fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns the name of a deciding figure.
fn name(quantity: Quantity) -> String {
    match quantity {
        Quantity::Response(_) => judgement::what(quantity),
        Quantity::HighestRate => "highest rate /s".to_owned(),
        other => other.label(),
    }
}

/// Returns the proven order of the systems by each deciding figure.
fn order(of: &Comparison) -> Cell {
    match (leader(of), rankings_text(of)) {
        _ if !of.was_run() => Cell::NotRun,
        (Leader::NotJudged, _) | (_, None) => Cell::NotJudged,
        (Leader::Unequal(_), Some(order)) => format!("{order} (unequal conditions)").into(),
        _ if rankings(of).iter().all(|one| *one == Ranking::NoneShown) => Cell::NotShown,
        (_, Some(order)) => order.into(),
    }
}

/// Returns the cell with a system's deciding figure.
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
    let figures = deciding(of).into_iter().map(|quantity| quantity.short(one.shown(quantity)));
    let figure = joined(figures);
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
