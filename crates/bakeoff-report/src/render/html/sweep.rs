//! Charts of throughput and latency against the number of clients.
//!
//! A load with several stages has its own charts. A workload's closed loads with a single stage share charts. The axis
//! of clients is logarithmic. Throughput of writes is shown with the disk's limit at each number of clients.
//!
//! Not here: combining trials (`comparison`).

use bakeoff_core::stats::{self, Figure};

use crate::derive::comparison::Comparison;
use crate::derive::machine_baseline::Limits;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

use super::frame::Frame;
use super::how;
use super::page::{escape, figure, grid};
use super::scale::{Axis, Unit};
use super::svg::{Svg, legend, stroke, swatch};

const FRAME: Frame = Frame { width: 480.0, left: 70.0, right: 464.0, top: 10.0 };
const BOTTOM: f64 = 250.0;

/// One number of clients, and the source of its figures.
struct Stage<'a> {
    comparison: &'a Comparison,
    /// Index of the stage; `None` for a load with one stage.
    nth: Option<usize>,
}

/// Data of one chart.
struct Sweep<'a> {
    title: String,
    stages: Vec<Stage<'a>>,
}

/// One system's figure at a number of clients.
struct Spot {
    clients: u32,
    median: Figure,
    min: Figure,
    max: Figure,
}

pub(super) fn section(report: &Report) -> String {
    let sweeps = sweeps(report);
    let mut html = String::new();
    for sweep in sweeps {
        html.push_str(&format!("<article><h3>{}</h3>", escape(&sweep.title)));
        html.push_str(&key(report, &sweep));
        html.push_str("<div class=\"charts\">");
        html.push_str(&chart(report, &sweep, Quantity::ThroughputMean));
        html.push_str(&chart(report, &sweep, Quantity::Response(Point::P99)));
        html.push_str("</div></article>");
    }
    html
}

fn sweeps(report: &Report) -> Vec<Sweep<'_>> {
    let mut sweeps = Vec::new();
    let closed = || report.comparisons.iter().filter(|one| !one.is_open() && one.was_run());
    for comparison in closed().filter(|one| stages_of(one) > 1) {
        let stages = (0..stages_of(comparison)).map(|nth| Stage { comparison, nth: Some(nth) });
        sweeps.push(Sweep { title: super::place(comparison), stages: stages.collect() });
    }
    for workload in &report.header.study.workloads {
        let single: Vec<&Comparison> = closed()
            .filter(|one| one.workload.name == workload.name && stages_of(one) == 1)
            .collect();
        let mut clients: Vec<u32> =
            single.iter().filter_map(|one| one.load.clients.first().copied()).collect();
        clients.sort_unstable();
        clients.dedup();
        if clients.len() > 1 {
            let mut stages: Vec<Stage<'_>> =
                single.into_iter().map(|comparison| Stage { comparison, nth: None }).collect();
            stages.sort_by_key(|stage| stage.comparison.load.clients.first().copied());
            let title = format!("{} under each load", workload.name);
            sweeps.push(Sweep { title, stages });
        }
    }
    sweeps
}

/// Returns the largest number of stages of any system.
fn stages_of(of: &Comparison) -> usize {
    of.contenders.iter().map(|one| of.load.clients_on(&one.system).len()).max().unwrap_or(0)
}

impl Sweep<'_> {
    /// Returns a system's figures at each number of clients.
    fn spots(&self, system: usize, quantity: Quantity) -> Vec<Spot> {
        let spot = |stage: &Stage<'_>| {
            let one: &Contender =
                stage.comparison.contenders.iter().find(|one| one.look == system)?;
            let clients = stage.comparison.load.clients_on(&one.system);
            let clients = *clients.get(stage.nth.unwrap_or(0))?;
            let figure = |trial: &crate::model::trial::TrialFigures| match stage.nth {
                None => trial.get(quantity),
                Some(nth) => {
                    let of = trial
                        .measured
                        .stages
                        .get(nth)
                        .and_then(|(_, figures)| figures.get(&quantity));
                    of.copied().unwrap_or(Figure::Absent)
                }
            };
            let summary = stats::summary(one.valid().map(figure));
            Some(Spot { clients, median: summary.median, min: summary.min, max: summary.max })
        };
        self.stages.iter().filter_map(spot).collect()
    }
}

/// The machine baseline against the number of clients.
struct Limit {
    what: &'static str,
    points: Vec<LimitPoint>,
}

/// The limit at one number of clients.
#[derive(Clone, Copy)]
struct LimitPoint {
    clients: f64,
    rate: f64,
    /// Smallest and largest limit of the rounds, if it was measured in several.
    range: Option<(f64, f64)>,
}

/// Returns the machine's limit: the disk's if a system waits for it, else loopback's.
fn limit(of: &Sweep<'_>) -> Option<Limit> {
    type LimitedPoint = (f64, Option<(f64, f64)>);
    let points = |limited: fn(&Comparison, &Limits, u32) -> Option<LimitedPoint>| {
        let point = |stage: &Stage<'_>| {
            let load = &stage.comparison.load;
            let clients = *load.clients.get(stage.nth.unwrap_or(0))?;
            let under_way = clients.saturating_mul(load.in_flight);
            let limits = stage.comparison.limits.as_ref()?;
            let (rate, range) = limited(stage.comparison, limits, under_way)?;
            Some(LimitPoint { clients: f64::from(clients), rate, range })
        };
        let points: Vec<LimitPoint> = of.stages.iter().filter_map(point).collect();
        (!points.is_empty()).then_some(points)
    };
    let disk = points(|comparison, limits, under_way| {
        let mut systems = comparison.contenders.iter().map(|one| one.system.as_str());
        let rate = limits.disk(under_way).filter(|_| limits.any_waits_for_disk(&mut systems))?;
        Some((rate, limits.disk_range(under_way)))
    });
    let loopback = || points(|_, limits, under_way| Some((limits.loopback(under_way)?, None)));
    let limit = |what, points| Limit { what, points };
    disk.map(|points| limit("durable appends to this disk", points))
        .or_else(|| Some(limit("loopback round trips to a server that does nothing", loopback()?)))
}

fn key(report: &Report, of: &Sweep<'_>) -> String {
    let systems = report.header.study.systems.iter().enumerate().map(|(look, system)| {
        let swatch = swatch(|svg| {
            svg.path(&stroke(look), [(1.0, 7.0), (29.0, 7.0)].into_iter());
            svg.mark(look, "", 15.0, 7.0, "");
        });
        (swatch, system.name.clone())
    });
    let mut entries: Vec<(Svg, String)> = systems.collect();
    if let Some(limit) = limit(of) {
        entries
            .push((swatch(|svg| svg.line("baseline", 1.0, 7.0, 29.0, 7.0)), limit.what.to_owned()));
    }
    legend(&entries)
}

fn chart(report: &Report, of: &Sweep<'_>, quantity: Quantity) -> String {
    let rate = quantity == Quantity::ThroughputMean;
    let (what, unit) = match rate {
        true => ("Throughput against clients", Unit::Count),
        false => ("Response time p99 against clients", Unit::Latency),
    };
    let systems = &report.header.study.systems;
    let spots: Vec<Vec<Spot>> =
        (0..systems.len()).map(|system| of.spots(system, quantity)).collect();
    let all = || spots.iter().flatten();
    let clients = || all().map(|spot| f64::from(spot.clients));
    let (least, most) = (clients().fold(f64::INFINITY, f64::min), clients().fold(1.0, f64::max));
    let limit = limit(of).filter(|_| rate);
    let near = |point: &&LimitPoint| point.clients >= least && point.clients <= most;
    let limit_points = || limit.iter().flat_map(|limit| &limit.points);
    let mut values: Vec<f64> = all()
        .flat_map(|spot| [spot.min, spot.median, spot.max])
        .filter_map(Figure::value)
        .collect();
    for LimitPoint { rate, range, .. } in limit_points().filter(near) {
        values.push(*rate);
        values.extend(range.iter().flat_map(|&(least, most)| [least, most]));
    }
    let x = FRAME.across(Axis::log(Unit::Count, least, most));
    let y = Axis::fitting(unit, &values, 5).between(BOTTOM, FRAME.top);
    let mut svg = FRAME.with_axes(&x, &y, BOTTOM, "clients");
    svg.path(
        "baseline",
        limit_points().filter(near).map(|point| (x.at(point.clients), y.at(point.rate))),
    );
    for point in limit_points().filter(near) {
        if let Some((least, most)) = point.range {
            svg.line("baseline", x.at(point.clients), y.at(least), x.at(point.clients), y.at(most));
        }
    }
    let mut summaries = Vec::new();
    let mut rows = Vec::new();
    for (look, (system, spots)) in systems.iter().zip(&spots).enumerate() {
        for spot in spots {
            if let (Some(min), Some(max)) = (spot.min.value(), spot.max.value())
                && min < max
            {
                let at = x.at(f64::from(spot.clients));
                svg.line(&format!("whisker s{}", look % 8), at, y.at(min), at, y.at(max));
            }
        }
        let known = || spots.iter().filter_map(|spot| Some((spot.clients, spot.median.value()?)));
        let places = || known().map(|(clients, value)| (x.at(f64::from(clients)), y.at(value)));
        svg.path(&stroke(look), places());
        for ((at, height), (clients, value)) in places().zip(known()) {
            let text = quantity.text(Figure::Value(value));
            let says = format!("{}, {clients} clients: {text}", system.name);
            svg.mark(look, "", at, height, &says);
        }
        if let Some((clients, value)) = known().max_by(|a, b| a.1.total_cmp(&b.1)) {
            let text = quantity.text(Figure::Value(value));
            summaries.push(format!("{}: most {text} at {clients} clients", system.name));
        }
        rows.extend(spots.iter().map(|spot| {
            let text = |figure| quantity.text(figure);
            vec![
                system.name.clone(),
                spot.clients.to_string(),
                text(spot.median),
                format!("{} to {}", text(spot.min), text(spot.max)),
            ]
        }));
    }
    if let Some(Limit { what, points }) = &limit {
        rows.extend(points.iter().map(|point| {
            let text = |rate| quantity.text(Figure::Value(rate));
            let range =
                point.range.map(|(least, most)| format!("{} to {}", text(least), text(most)));
            let range = range.unwrap_or_else(|| "–".to_owned());
            vec![(*what).to_owned(), point.clients.to_string(), text(point.rate), range]
        }));
    }
    let head = ["system", "clients", &quantity.label(), "range of valid trials"].map(str::to_owned);
    let title = format!("{what}, {}", of.title);
    let how = of.stages.first().map_or(String::new(), |stage| how(stage.comparison));
    let reached = |spot: &Spot| matches!(spot.median, Figure::Failed { .. });
    let ends = match all().any(reached) {
        true => " A line has no mark where failures reach the percentile.",
        false => "",
    };
    let how = format!("Medians; thin bars: lowest to highest valid trial.{ends} {how}.");
    figure(what, "", &svg.finish(&title, &summaries.join("; ")), &how, &grid(&title, &head, &rows))
}
