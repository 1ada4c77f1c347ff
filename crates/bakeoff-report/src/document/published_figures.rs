//! The published figures of the deciding workload and load, each with the run's own, and the known differences of the
//! conditions.
//!
//! Not here: the order of the systems (`derive::published_figures`), the complete tables (`tables`).

use bakeoff_core::stats::{Figure, ratio_text};
use bakeoff_core::units::plural;

use super::key_figures::short_name;
use super::sentences::scale;
use super::table::{Cell, Column, Table};
use crate::derive::comparison::Comparison;
use crate::derive::published_figures::{self, PublishedFigure, Subject};
use crate::document::report::Report;

/// Returns a row for each published figure with a counterpart, the deciding ones first; `None` without any.
pub(crate) fn table(of: &Comparison) -> Option<Table> {
    let figures = published_figures::figures(of);
    if figures.is_empty() {
        return None;
    }
    let column = |head: &str, cell: &dyn Fn(&PublishedFigure<'_>) -> Cell| {
        vec![Column { head: vec![head.to_owned()], cells: figures.iter().map(cell).collect() }]
    };
    let published =
        |one: &PublishedFigure<'_>| one.subject.quantity.short(Figure::Value(one.published)).into();
    Some(Table {
        title: None,
        corner: "system and figure".to_owned(),
        labels: figures.iter().map(|one| label(of, one.subject, &one.system.system)).collect(),
        groups: vec![
            column("published", &published),
            column("here", &|one| one.subject.quantity.short(one.measured).into()),
            column("ratio", &|one| Cell::or_missing(one.ratio().map(ratio_text))),
        ],
    })
}

fn label(of: &Comparison, subject: Subject, system: &str) -> String {
    let name = short_name(of, subject.quantity);
    match subject.operation {
        Some(operation) if of.workload.mix.len() > 1 => {
            format!("{system}, {} {name}", operation.name())
        }
        _ => format!("{system}, {name}"),
    }
}

/// Returns how the publication's conditions differ from the run's, as far as both are known.
pub(crate) fn conditions(report: &Report, of: &Comparison) -> String {
    let theirs = match &report.header.study.publication {
        None => "conditions that the study does not name".to_owned(),
        Some(from) => {
            let versions =
                from.versions.as_ref().map_or_else(String::new, |versions| format!("; {versions}"));
            format!("{}: {}{versions}", from.title, from.hardware)
        }
    };
    let mut versions: Vec<String> = Vec::new();
    for one in &of.contenders {
        // Systems of one kind may have the same program.
        let version = one.is.version.as_deref().map(|version| format!("{} {version}", one.is.kind));
        versions.extend(version.filter(|version| !versions.contains(version)));
    }
    let environment = &report.header.environment;
    let machines = match environment.machines.len() {
        0 | 1 => format!("all on {}", plural(environment.cpus.into(), "CPU")),
        count => plural(count as u64, "machine"),
    };
    let versions = match versions.is_empty() {
        true => String::new(),
        false => format!(", {}", versions.join(", ")),
    };
    let scale = scale(&report.header.study).map_or_else(String::new, |scale| format!("; {scale}"));
    format!("published: {theirs}. Here: {machines}{versions}; {}{scale}", of.load_text())
}
