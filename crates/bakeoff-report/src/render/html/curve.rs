//! Throughput against response time, a curve for each system: what a load costs in latency. The percentile is the highest
//! one that all systems have.
//!
//! A workload has a curve if it ran under three loads or more, or under one with as many numbers of clients. It answers
//! sizing questions: how much a system does before its answers become late.
//!
//! Not here: throughput and latency against clients (`sweep`).

use bakeoff_core::stats::Figure;
use bakeoff_core::units::figure_text;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

use super::line_chart::{LineChart, Spot, SystemLine};
use super::page::escape;
use super::scale::Unit;

/// Fewest loads of a curve: two points are a line.
const LOADS: usize = 3;

/// One load on a system's curve.
struct ClientLoad {
    /// `64 clients`, `steady: 1,000/s`.
    load: String,
    /// Verified operations per second.
    rate: f64,
    /// Response time, in milliseconds.
    latency: f64,
}

/// Percentiles of a curve, the best one first.
const POINTS: [Point; 4] = [Point::P99, Point::P95, Point::P90, Point::P50];

/// A system's place in the study, its name, and its loads.
type SystemCurve<'a> = (usize, &'a str, Vec<ClientLoad>);

/// Returns the curves of the deciding workload; empty unless each of its systems has one.
pub(super) fn curve(report: &Report, deciding: &Comparison) -> String {
    let workload = deciding.workload.name.as_str();
    let run: Vec<&Comparison> = report
        .comparisons
        .iter()
        .filter(|one| one.workload.name == workload && one.was_run() && !one.is_split())
        .filter(|one| one.load.find.is_none())
        .collect();
    let of_point = |point: Point| {
        let systems = report.header.study.systems.iter().enumerate();
        let systems: Vec<SystemCurve<'_>> = systems
            .map(|(look, system)| (look, system.name.as_str(), spots(&run, look, point)))
            .filter(|(.., spots)| spots.len() >= LOADS)
            .collect();
        let has_curve = |one: &Contender| systems.iter().any(|(_, name, _)| *name == one.system);
        deciding.contenders.iter().all(has_curve).then_some((point, systems))
    };
    let Some((point, systems)) = POINTS.into_iter().find_map(of_point) else {
        return String::new();
    };
    let name_of_point = point.name();
    let line = |(look, name, spots): SystemCurve<'_>| {
        let latency_text = |of: f64| Quantity::Response(point).text(Figure::Value(of));
        let most = spots.iter().max_by(|a, b| a.rate.total_cmp(&b.rate));
        let summary = most.map_or_else(String::new, |most| {
            let (rate, latency) = (figure_text(most.rate), latency_text(most.latency));
            format!("{name}: most {rate} per second, with {name_of_point} {latency}")
        });
        let spot = |one: ClientLoad| {
            let (rate, latency) = (figure_text(one.rate), latency_text(one.latency));
            Spot {
                x: one.rate,
                y: one.latency,
                says: format!("{name}, {}: {rate}/s, {name_of_point} {latency}", one.load),
                row: vec![name.to_owned(), one.load, rate, latency],
            }
        };
        SystemLine {
            look,
            name: name.to_owned(),
            spots: spots.into_iter().map(spot).collect(),
            summary,
        }
    };
    let lines: Vec<SystemLine> = systems.into_iter().map(line).collect();
    let drawn = LineChart {
        caption: &format!("{name_of_point} response time at each load"),
        title: &format!("{workload}: throughput against {name_of_point} response time"),
        across: ("verified operations per second", Unit::Count),
        up: Unit::Latency,
        how: "A mark is a load: the medians of its valid trials. Right and low is better. Lines join \
              the loads from light to heavy.",
        head: &["system", "load", "operations per second", name_of_point],
        lines: &lines,
    };
    format!(
        "<h2 class=\"place\">{} <span>what each load costs in latency</span></h2><div class=\"curve\">\
         {}</div>",
        escape(workload),
        drawn.html()
    )
}

/// Returns a system's loads with a throughput and this percentile, from light to heavy.
fn spots(run: &[&Comparison], look: usize, point: Point) -> Vec<ClientLoad> {
    let mut found = Vec::new();
    for of in run {
        let Some(one) = of.contenders.iter().find(|one| one.look == look) else { continue };
        let clients = of.load.clients_on(&one.system);
        let is_sweep = clients.len() > 1;
        for (nth, clients) in clients.iter().enumerate() {
            let stage = is_sweep.then_some(nth);
            let value = |quantity| Contender::shown_of(one, quantity, stage).value();
            let at = (value(Quantity::ThroughputMean), value(Quantity::Response(point)));
            let (Some(rate), Some(latency)) = at else { continue };
            let name = &of.load.name;
            let (weight, load) = match of.load.arrivals.rate() {
                Some(offered) => (offered, format!("{name}, {}/s offered", figure_text(offered))),
                None => (
                    f64::from(*clients),
                    format!("{name}, {}", bakeoff_core::units::plural((*clients).into(), "client")),
                ),
            };
            found.push((of.is_open(), weight, ClientLoad { load, rate, latency }));
        }
    }
    // Closed loads by their clients, then open loads by their rates.
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    found.into_iter().map(|(.., spot)| spot).collect()
}
