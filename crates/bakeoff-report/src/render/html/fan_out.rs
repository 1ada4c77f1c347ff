//! Draws how soon watchers know a write, over their number: a line for each system.
//!
//! A run has a chart if three workloads or more differ in their number of watchers, under one load.
//!
//! Not here: the way of one write (`watches`).

use bakeoff_core::stats::Figure;
use bakeoff_core::watch::WatchRange;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

use super::line_chart::{LineChart, NumberedFigure, SystemLine};
use super::page::escape;
use super::scale::Unit;

const KNOWN: Quantity = Quantity::Watch(WatchQuantity::Known(Point::P99));

/// Returns a chart for each load and kind of range; empty without any.
pub(super) fn charts(report: &Report, watched: &[&Comparison]) -> String {
    let mut groups: Vec<(&str, WatchRange, Vec<&Comparison>)> = Vec::new();
    for of in watched {
        let Some(watchers) = of.workload.watchers.as_deref() else { continue };
        let (load, range) = (of.load.name.as_str(), watchers.of);
        match groups.iter_mut().find(|(name, one, _)| *name == load && *one == range) {
            Some((.., all)) => all.push(of),
            None => groups.push((load, range, vec![of])),
        }
    }
    groups.iter().map(|(load, range, all)| chart(report, (load, *range), all)).collect()
}

fn chart(report: &Report, (load, range): (&str, WatchRange), all: &[&Comparison]) -> String {
    let systems = report.header.study.systems.iter().enumerate();
    let lines: Vec<SystemLine> = systems
        .filter_map(|(look, system)| {
            SystemLine::over_numbers((look, &system.name), "watcher", times(all, look))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let keys = match range {
        WatchRange::Key => "one key",
        WatchRange::Prefix => "all keys",
    };
    let title = format!("time until watchers of {keys} know a write, p99, {load}");
    let drawn = LineChart {
        caption: "Time until watchers know a write, over their number",
        title: &title,
        across: ("watchers", Unit::Count),
        up: Unit::Latency,
        how: "A mark is a workload: the median of its valid trials. Lower is better.",
        head: &["system", "watchers", "known p99"],
        lines: &lines,
    };
    format!("<h3>{}</h3><div class=\"curve\">{}</div>", escape(&title), drawn.html())
}

/// Returns a system's times by the number of watchers.
fn times(all: &[&Comparison], look: usize) -> Vec<NumberedFigure> {
    let time = |of: &&Comparison| {
        let number = of.workload.watchers.as_deref()?.count.into();
        let one = of.contenders.iter().find(|one| one.look == look)?;
        let figure = one.shown(KNOWN).value().filter(|time| time.is_finite())?;
        let text = KNOWN.text(Figure::Value(figure));
        (one.valid_count() > 0).then_some(NumberedFigure { number, figure, text })
    };
    all.iter().filter_map(time).collect()
}
