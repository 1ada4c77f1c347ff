//! The table of a workload and load on a report's first screen: each system's deciding figure, and other key figures.
//!
//! Not here: the choice of the best system (`leader`), the tables of a single load (`tables`).

use bakeoff_core::read_write_split::Side;
use bakeoff_core::stats::Figure;
use bakeoff_core::units::{figure_text, share_text};

use super::outages;
use super::table::{Cell, Column, Table};
use super::tables::shown;
use crate::derive::comparison::Comparison;
use crate::derive::headline::counted;
use crate::derive::judgement::KNOWN;
use crate::derive::leader::{Leader, deciding, leader};
use crate::document::picture::Picture;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

/// Legend of the mark for the best system.
pub(crate) const LEGEND: &str = "* best: proven better than every other ranked system, under equal \
                                 conditions (95 %, corrected for all comparisons of its load)";
/// Legend of an order whose first system had favourable conditions.
pub(crate) const UNEQUAL: &str = "fastest under unequal conditions: proven better than every other \
                                  ranked system, but conditions favour it";

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
    if shown_figures.contains(&KNOWN) {
        shown_figures.push(Quantity::Watch(WatchQuantity::Delivered));
    }
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
    // A narrow terminal leaves out the last columns, so errors and trials come before what is dropped first.
    let is_dropped_first = |quantity: &Quantity| {
        matches!(
            quantity,
            Quantity::Response(Point::P999) | Quantity::CpuPerOperation | Quantity::MemorySum
        )
    };
    let (dropped_first, kept): (Vec<_>, Vec<_>) =
        shown_figures.into_iter().partition(is_dropped_first);
    let group = |quantity: Quantity| match deciding.contains(&quantity) {
        true => column(short_name(of, quantity), &|one| match cell(of, one, quantity) {
            Cell::Best(text) if picture.is_gate => text.into(),
            cell => cell,
        }),
        false => column(short_name(of, quantity), &figure(quantity)),
    };
    let mut groups: Vec<Vec<Column>> = kept.into_iter().map(group).collect();
    if let Some((_, best)) = picture.panels.first().and_then(|panel| panel.leader.as_ref()) {
        let relative = |one: &Contender| {
            let ratio = picture.median(&one.system).map(|median| median / best);
            ratio.map_or(Cell::Missing, |ratio| format!("×{}", figure_text(ratio)).into())
        };
        groups.insert(groups.len().min(1), column("ratio".to_owned(), &relative));
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
    groups.extend(dropped_first.into_iter().map(group));
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
pub(crate) fn short_name(of: &Comparison, quantity: Quantity) -> String {
    match quantity {
        Quantity::ThroughputMean => format!("{}/s", counted(of, quantity)),
        Quantity::ThroughputOf(side) => format!("{}/s", side.name()),
        Quantity::HighestRate => "highest rate /s".to_owned(),
        Quantity::Response(point) => point.name().to_owned(),
        Quantity::ResponseOf(side, point) => format!("{} {}", side.name(), point.name()),
        Quantity::CpuPerOperation => "CPU per operation".to_owned(),
        Quantity::MemorySum => "memory".to_owned(),
        Quantity::ErrorShare => "errors".to_owned(),
        Quantity::Watch(WatchQuantity::Known(point)) => format!("known {}", point.name()),
        Quantity::Watch(WatchQuantity::Delivered) => "versions".to_owned(),
        other => other.label(),
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

/// Returns the cell with a deciding figure of a system, marked if it is the best.
fn cell(of: &Comparison, one: &Contender, quantity: Quantity) -> Cell {
    let figure = quantity.short(one.shown(quantity));
    let figure = match one.errors_worth_saying() {
        Some(share) => format!("{figure} ({} errors)", share_text(share)),
        None => figure,
    };
    let ranked = |one: &Contender| one.left_out(&of.place(), false).is_none();
    match leader(of) {
        _ if !ranked(one) => Cell::NotRanked(figure),
        Leader::Proven(best) if best == one.system => Cell::Best(figure),
        _ => figure.into(),
    }
}
