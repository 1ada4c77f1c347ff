//! The table of each node's usage during the load.
//!
//! Not here: the figures and the findings about limits (`derive::nodes`).

use bakeoff_core::stats::Figure;
use bakeoff_core::units::figure_text;

use super::table::{Cell, Column, Table};
use super::tables::shown;
use crate::derive::comparison::Comparison;
use crate::derive::nodes::{median, names, used};
use crate::model::contender::Contender;
use crate::model::nodes::NodeFigures;
use crate::model::quantity::Quantity;

/// Returns the table; `None` if no system has parts and no node is limited or throttled.
pub(crate) fn table(of: &Comparison) -> Option<Table> {
    let nodes =
        || of.contenders.iter().flat_map(|one| used(one).flat_map(|trial| &trial.servers.nodes));
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
        column("memory|max", |node| node.memory_max_bytes, &quantity(Quantity::MemoryNodeMax)),
    ];
    if nodes().any(|node| node.role.is_some()) {
        columns.insert(0, roles);
    }
    columns.retain(|column| column.cells.iter().any(|cell| *cell != Cell::Missing));
    Some(Table {
        title: Some("by node, during the load".to_owned()),
        corner: "node".to_owned(),
        labels: rows.iter().map(|(_, node, _)| (*node).to_owned()).collect(),
        groups: columns.into_iter().map(|column| vec![column]).collect(),
    })
}
