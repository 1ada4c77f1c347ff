//! Draws how soon watchers know a write, over their number: a line for each system.
//!
//! A run has a chart if three workloads or more differ in their number of watchers, under one load.
//!
//! Not here: the way of one write (`watches`).

use bakeoff_core::stats::Figure;
use bakeoff_core::units::plural;
use bakeoff_core::watch::WatchRange;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

use super::line_chart::{LineChart, Spot, SystemLine};
use super::page::escape;
use super::scale::Unit;

/// Fewest numbers of watchers of a line: two points are one by chance.
const COUNTS: usize = 3;
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
            let times = times(all, look);
            let (count, time) = times.last().filter(|_| times.len() >= COUNTS)?;
            let name = &system.name;
            let text = |time: f64| KNOWN.text(Figure::Value(time));
            let spot = |(count, time): &(u32, f64)| {
                let (watchers, time_text) = (plural((*count).into(), "watcher"), text(*time));
                Spot {
                    x: f64::from(*count),
                    y: *time,
                    says: format!("{name}, {watchers}: {time_text}"),
                    row: vec![name.clone(), watchers, time_text],
                }
            };
            let watchers = plural((*count).into(), "watcher");
            Some(SystemLine {
                look,
                name: name.clone(),
                spots: times.iter().map(spot).collect(),
                summary: format!("{name}: {} with {watchers}", text(*time)),
            })
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

/// Returns a system's numbers of watchers with a time each, ascending.
fn times(all: &[&Comparison], look: usize) -> Vec<(u32, f64)> {
    let time = |of: &&Comparison| {
        let count = of.workload.watchers.as_deref()?.count;
        let one = of.contenders.iter().find(|one| one.look == look)?;
        let time = one.shown(KNOWN).value().filter(|time| time.is_finite())?;
        (one.valid_count() > 0).then_some((count, time))
    };
    let mut times: Vec<(u32, f64)> = all.iter().filter_map(time).collect();
    times.sort_by_key(|(count, _)| *count);
    times.dedup_by_key(|(count, _)| *count);
    times
}
