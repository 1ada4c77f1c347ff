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

use super::frame::Frame;
use super::page::{escape, figure, grid};
use super::scale::{Axis, Unit};
use super::svg::{legend, stroke, swatch};

const FRAME: Frame = Frame { width: 480.0, left: 70.0, right: 464.0, top: 12.0 };
const BOTTOM: f64 = 210.0;
/// Fewest loads of a curve: two points are a line.
const LOADS: usize = 3;

/// One load on a system's curve.
struct Spot {
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
type SystemCurve<'a> = (usize, &'a str, Vec<Spot>);

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
    let all = || systems.iter().flat_map(|(.., spots)| spots);
    let rates: Vec<f64> = all().map(|spot| spot.rate).collect();
    let latencies: Vec<f64> = all().map(|spot| spot.latency).collect();
    let x = FRAME.across(Axis::fitting(Unit::Count, &rates, 5));
    let y = Axis::fitting(Unit::Latency, &latencies, 5).between(BOTTOM, FRAME.top);
    let log = if x.is_log() { " (logarithmic)" } else { "" };
    let mut svg = FRAME.with_axes(&x, &y, BOTTOM, &format!("verified operations per second{log}"));
    let (mut rows, mut summaries) = (Vec::new(), Vec::new());
    for (look, name, spots) in &systems {
        svg.path(&stroke(*look), spots.iter().map(|spot| (x.at(spot.rate), y.at(spot.latency))));
        for spot in spots {
            let latency = Quantity::Response(point).text(Figure::Value(spot.latency));
            let rate = figure_text(spot.rate);
            let says = format!("{name}, {}: {rate}/s, {name_of_point} {latency}", spot.load);
            svg.mark(*look, "", x.at(spot.rate), y.at(spot.latency), &says);
            rows.push(vec![(*name).to_owned(), spot.load.clone(), rate, latency]);
        }
        if let Some(last) = spots.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)) {
            let latency = Quantity::Response(point).text(Figure::Value(last.latency));
            let most = figure_text(last.rate);
            summaries
                .push(format!("{name}: most {most} per second, with {name_of_point} {latency}"));
        }
    }
    let entries = systems.iter().map(|(look, name, _)| {
        let swatch = swatch(|svg| {
            svg.path(&stroke(*look), [(1.0, 7.0), (29.0, 7.0)].into_iter());
            svg.mark(*look, "", 15.0, 7.0, "");
        });
        (swatch, (*name).to_owned())
    });
    let title = format!("{workload}: throughput against {name_of_point} response time");
    let how = "A mark is a load: the medians of its valid trials. Right and low is better. Lines join \
               the loads from light to heavy.";
    let head = ["system", "load", "operations per second", name_of_point].map(str::to_owned);
    let drawn = figure(
        &format!("{name_of_point} response time at each load"),
        &legend(&entries.collect::<Vec<_>>()),
        &svg.finish(&title, &summaries.join("; ")),
        how,
        &grid(&title, &head, &rows),
    );
    format!(
        "<h2 class=\"place\">{} <span>what each load costs in latency</span></h2><div class=\"curve\">\
         {drawn}</div>",
        escape(workload)
    )
}

/// Returns a system's loads with a throughput and this percentile, from light to heavy.
fn spots(run: &[&Comparison], look: usize, point: Point) -> Vec<Spot> {
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
            found.push((of.is_open(), weight, Spot { load, rate, latency }));
        }
    }
    // Closed loads by their clients, then open loads by their rates.
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    found.into_iter().map(|(.., spot)| spot).collect()
}
