//! The fairness sheet as a table.
//!
//! Not here: its lines in a document (`words`), other tables (`tables`).

use super::table::{Cell, Column, Table};
use crate::derive::fairness::{Fact, Row, Sheet, Weight};

/// Returns rows of the fairness sheet, deciding ones first: a column for each system, and one for the weight of the
/// difference.
pub(crate) fn fairness(sheet: &Sheet, is_in: impl Fn(&Row) -> bool) -> Table {
    let mut rows: Vec<&Row> = sheet.rows.iter().filter(|row| is_in(row)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.weight));
    let weight = |row: &Row| match row.weight {
        Weight::Same => "equal",
        Weight::Unknown => "unknown",
        Weight::Matters => "differs",
        Weight::Decides => "may decide",
    };
    let mut groups: Vec<Vec<Column>> = sheet
        .systems
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let cells = rows.iter().map(|row| fact(row, place)).collect();
            vec![Column { head: vec![name.clone()], cells }]
        })
        .collect();
    if sheet.systems.len() > 1 {
        let cells = rows.iter().map(|row| weight(row).into()).collect();
        groups.push(vec![Column { head: vec!["difference".to_owned()], cells }]);
    }
    Table {
        title: None,
        corner: String::new(),
        labels: rows.iter().map(|row| row.what.clone()).collect(),
        groups,
    }
}

/// Returns the cell of a fact for the system at this index.
fn fact(row: &Row, place: usize) -> Cell {
    match row.cells.get(place) {
        None => Cell::Missing,
        Some(Fact::DoesNotRun) => Cell::NotMeasured,
        Some(fact) => fact.text().into(),
    }
}
