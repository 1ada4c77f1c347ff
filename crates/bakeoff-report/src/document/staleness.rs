//! The table of staleness: the age of reads, with a row for each node.
//!
//! Not here: the figures and sentences (`derive::staleness`).

use bakeoff_core::staleness::Staleness;
use bakeoff_core::units::{count_text, figure_text, share_text};

use super::table::{Cell, Column, Table};
use crate::derive::comparison::Comparison;
use crate::derive::staleness::{age_text, behind_text, nodes, whole};

/// A column's heading and text of its cells.
type StalenessColumn = (&'static str, fn(&Staleness) -> Option<String>);

const COLUMNS: [StalenessColumn; 8] = [
    ("reads", |of| Some(count_text(of.reads))),
    ("stale", |of| Some(count_text(of.stale))),
    ("share", |of| of.share().map(share_text)),
    ("age p50", |of| age_text(of, 0.5)),
    ("age p99", |of| age_text(of, 0.99)),
    ("age worst", |of| age_text(of, 1.0)),
    ("versions behind, mean", |of| behind_text(of, of.behind_mean().map(figure_text))),
    ("worst", |of| {
        let worst = (of.stale > 0).then(|| count_text(u64::from(of.behind_max)));
        behind_text(of, worst)
    }),
];

/// Returns the table, with a row for each node of each system; `None` if staleness was not measured.
pub(crate) fn table(of: &Comparison) -> Option<Table> {
    let mut rows = Vec::new();
    for one in &of.contenders {
        let nodes = nodes(one);
        let whole = (nodes.len() > 1).then(|| whole(&one.system, &nodes));
        rows.extend(nodes.into_iter().chain(whole));
    }
    if rows.is_empty() {
        return None;
    }
    let column = |(head, text): &StalenessColumn| Column {
        head: vec![(*head).to_owned()],
        cells: rows.iter().map(|row| Cell::or_missing(text(row))).collect(),
    };
    Some(Table {
        title: Some("staleness of reads".to_owned()),
        corner: "node".to_owned(),
        labels: rows.iter().map(|row| row.node.clone()).collect(),
        groups: vec![COLUMNS.iter().map(column).collect()],
    })
}
