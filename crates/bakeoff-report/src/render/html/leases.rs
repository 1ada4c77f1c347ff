//! Draws the outage of a fault over the number of leases before it: a line for each system.
//!
//! A run has a chart if three workloads or more differ in their parameter `leases`, under one load and fault.
//!
//! Not here: outages of one workload (`outages`).

use bakeoff_core::study::LEASES;
use bakeoff_core::units::capitalized;

use crate::derive::outages::{FaultOutages, bounded};
use crate::document::report::Report;

use super::line_chart::{LineChart, NumberedFigure, SystemLine};
use super::page::escape;
use super::scale::Unit;

/// Outages of one fault and load, by the number of leases.
struct FaultGroup<'a> {
    load: &'a str,
    of: &'a FaultOutages,
    all: Vec<(u64, &'a FaultOutages)>,
}

/// Returns a chart for each fault and load; empty without any.
pub(super) fn charts(report: &Report) -> String {
    let mut groups: Vec<FaultGroup<'_>> = Vec::new();
    for one in &report.comparisons {
        let (leases, load) = (one.workload.leases(), one.load.name.as_str());
        for of in &one.outages {
            let is_same =
                |group: &&mut FaultGroup<'_>| group.load == load && group.of.fault == of.fault;
            match groups.iter_mut().find(is_same) {
                Some(group) => group.all.push((leases, of)),
                None => groups.push(FaultGroup { load, of, all: vec![(leases, of)] }),
            }
        }
    }
    groups.iter().map(|group| chart(report, group)).collect()
}

fn chart(report: &Report, group: &FaultGroup<'_>) -> String {
    let systems = report.header.study.systems.iter().enumerate();
    let lines: Vec<SystemLine> = systems
        .filter_map(|(look, system)| {
            SystemLine::over_numbers((look, &system.name), "lease", outages(group, look))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let fault = group.of.fault.text();
    let title =
        format!("{}: outage over the number of leases, {}", capitalized(&fault), group.load);
    let drawn = LineChart {
        caption: "Outage over the number of leases before the fault",
        title: &title,
        across: (LEASES, Unit::Count),
        up: Unit::Seconds,
        how: "A mark is a workload: the median over its clusters, in seconds. Lower is better.",
        head: &["system", LEASES, "outage"],
        lines: &lines,
    };
    format!("<h3>{}</h3><div class=\"curve\">{}</div>", escape(&title), drawn.html())
}

/// Returns a system's outages by the number of leases.
fn outages(group: &FaultGroup<'_>, look: usize) -> Vec<NumberedFigure> {
    let outage = |(leases, of): &(u64, &FaultOutages)| {
        let outage = of.systems.iter().find(|one| one.look == look)?.outage()?;
        Some(NumberedFigure { number: *leases, figure: outage.drawn(), text: bounded(outage) })
    };
    group.all.iter().filter_map(outage).collect()
}
