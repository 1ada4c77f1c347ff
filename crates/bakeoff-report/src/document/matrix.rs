//! Tables of a report's first screen: the deciding figure by workload, load and system, and other key figures.
//!
//! Not here: the choice of the best system (`leader`), the tables of a single load (`tables`).

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::Figure;
use bakeoff_core::units::share_text;

use super::outages;
use super::table::{Cell, Column, Table};
use super::tables::shown;
use crate::derive::comparison::Comparison;
use crate::derive::headline::counted;
use crate::derive::judgement;
use crate::derive::leader::{Leader, deciding, leader, rankings, rankings_text};
use crate::derive::ranking::Ranking;
use crate::document::picture::Picture;
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
        cells: rows.iter().map(|one| unranked(cell(one, &system.name, &deciding(one)))).collect(),
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

/// Returns the key figures of each system under one workload and load, in the order of its picture.
pub(crate) fn key_figures(of: &Comparison, picture: &Picture) -> Table {
    if !of.outages.is_empty() {
        return outages::key_figures(of);
    }
    let rows: Vec<&Contender> = picture
        .panels
        .first()
        .into_iter()
        .flat_map(|panel| &panel.rows)
        .filter_map(|row| of.contenders.iter().find(|one| one.system == row.system))
        .collect();
    let column = |head: String, cell: &dyn Fn(&Contender) -> Cell| {
        let cell = |one: &&Contender| match (one.trials.is_empty(), one.valid_count()) {
            (true, _) | (false, 0) => Cell::Missing,
            _ => cell(one),
        };
        vec![Column { head: vec![head], cells: rows.iter().map(cell).collect() }]
    };
    let figure = |quantity: Quantity| {
        move |one: &Contender| shown(one.shown(quantity), |figure| quantity.short(figure))
    };
    let mut shown_figures = deciding(of);
    if of.is_split() {
        let each = |side| [Quantity::ThroughputOf(side), Quantity::ResponseOf(side, Point::P99)];
        shown_figures.extend(Side::BOTH.into_iter().flat_map(each));
    } else {
        shown_figures.push(Quantity::ThroughputMean);
        // Percentiles over all stages would mix waits of few and of many clients.
        let points = [Point::P50, Point::P99, Point::P999].map(Quantity::Response);
        shown_figures.extend(points.into_iter().filter(|_| of.load.clients.len() == 1));
    }
    shown_figures.extend([Quantity::CpuPerOperation, Quantity::MemorySum]);
    let mut seen = Vec::new();
    shown_figures.retain(|quantity| {
        let is_known = rows.iter().any(|one| one.shown(*quantity) != Figure::Absent);
        let is_new = is_known && !seen.contains(quantity);
        seen.push(*quantity);
        is_new
    });
    let deciding = deciding(of);
    let mut groups: Vec<Vec<Column>> = Vec::new();
    for quantity in shown_figures {
        groups.push(match deciding.contains(&quantity) {
            true => {
                column(short_name(of, quantity), &|one| match cell(of, &one.system, &[quantity]) {
                    Cell::Best(text) if picture.is_gate => text.into(),
                    cell => cell,
                })
            }
            false => column(short_name(of, quantity), &figure(quantity)),
        });
    }
    groups.push(column("errors".to_owned(), &|one| {
        let share = one.error_share().filter(|&share| share > 0.0);
        share.map_or_else(|| "none".to_owned(), share_text).into()
    }));
    let trials = |one: &&Contender| super::tables::trials(one).into();
    groups.push(vec![Column {
        head: vec!["trials".to_owned()],
        cells: rows.iter().map(trials).collect(),
    }]);
    if let Some(first) = groups.first_mut().and_then(|group| group.first_mut()) {
        for (cell, one) in
            first.cells.iter_mut().zip(&rows).filter(|(_, one)| one.valid_count() == 0)
        {
            *cell = if one.trials.is_empty() { Cell::NotRun } else { Cell::NotValid };
        }
    }
    Table {
        title: Some(of.place_and_load()),
        corner: "system".to_owned(),
        labels: rows.iter().map(|one| one.system.clone()).collect(),
        groups,
    }
}

/// Returns the heading of a key figure.
fn short_name(of: &Comparison, quantity: Quantity) -> String {
    match quantity {
        Quantity::ThroughputMean => format!("{}/s", counted(of, quantity)),
        Quantity::ThroughputOf(side) => format!("{}/s", side.name()),
        Quantity::HighestRate => "highest rate /s".to_owned(),
        Quantity::Response(point) => point.name().to_owned(),
        Quantity::ResponseOf(side, point) => format!("{} {}", side.name(), point.name()),
        Quantity::CpuPerOperation => "CPU per operation".to_owned(),
        Quantity::MemorySum => "memory".to_owned(),
        other => other.label(),
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

/// Returns the cell with these figures of a system, marked if it is the best by the deciding ones.
fn cell(of: &Comparison, system: &str, figures: &[Quantity]) -> Cell {
    let Some(one) = of.contenders.iter().find(|one| one.system == system) else {
        return Cell::NotMeasured;
    };
    if one.trials.is_empty() {
        return Cell::NotRun;
    }
    if one.valid_count() == 0 {
        return Cell::NotValid;
    }
    let figures = figures.iter().map(|quantity| quantity.short(one.shown(*quantity)));
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
