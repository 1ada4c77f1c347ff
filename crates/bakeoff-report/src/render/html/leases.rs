//! Draws the outage of a fault over the number of leases before it: a line for each system.
//!
//! A run has a chart if three workloads or more differ in their parameter `leases`, under one load and fault.
//!
//! Not here: outages of one workload (`outages`).

use bakeoff_core::stats::clusters::BoundedFigure;
use bakeoff_core::study::LEASES;
use bakeoff_core::units::{capitalized, plural};

use crate::derive::comparison::Comparison;
use crate::derive::outages::{FaultOutages, SystemOutages, bounded};
use crate::document::report::Report;

use super::line_chart::{LineChart, Spot, SystemLine};
use super::page::escape;
use super::scale::Unit;

/// Fewest numbers of leases of a line: two points are one by chance.
const COUNTS: usize = 3;

/// Outages of one fault and load, by the number of leases.
struct FaultGroup<'a> {
    load: &'a str,
    of: &'a FaultOutages,
    all: Vec<(u64, &'a FaultOutages)>,
}

/// Returns a chart for each fault and load; empty without any.
pub(super) fn charts(report: &Report) -> String {
    let leases =
        |of: &Comparison| of.workload.with.get(LEASES).map_or(Some(0), |count| count.parse().ok());
    let mut groups: Vec<FaultGroup<'_>> = Vec::new();
    for one in &report.comparisons {
        let (Some(leases), load) = (leases(one), one.load.name.as_str()) else { continue };
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
            let outages = outages(group, look);
            let (leases, last) = outages.last().filter(|_| outages.len() >= COUNTS)?;
            let name = &system.name;
            let text = |of: &SystemOutages| of.outage().map_or_else(String::new, bounded);
            let spot = |(leases, of): &(u64, &SystemOutages)| {
                let (count, outage) = (plural(*leases, "lease"), text(of));
                Spot {
                    x: *leases as f64,
                    y: of.outage().map_or(0.0, BoundedFigure::drawn),
                    says: format!("{name}, {count}: {outage}"),
                    row: vec![name.clone(), count, outage],
                }
            };
            Some(SystemLine {
                look,
                name: name.clone(),
                spots: outages.iter().map(spot).collect(),
                summary: format!("{name}: {} with {}", text(last), plural(*leases, "lease")),
            })
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

/// Returns a system's outages by the number of leases, ascending.
fn outages<'a>(group: &FaultGroup<'a>, look: usize) -> Vec<(u64, &'a SystemOutages)> {
    let outage = |(leases, of): &(u64, &'a FaultOutages)| {
        let one = of.systems.iter().find(|one| one.look == look)?;
        one.outage().map(|_| (*leases, one))
    };
    let mut outages: Vec<_> = group.all.iter().filter_map(outage).collect();
    outages.sort_by_key(|(leases, _)| *leases);
    outages.dedup_by_key(|(leases, _)| *leases);
    outages
}
