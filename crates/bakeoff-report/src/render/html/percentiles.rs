//! Latency percentiles on logarithmic scales: response and service time.
//!
//! The axis is that of HdrHistogram's plots, 1 / (1 - quantile): each decade is another nine. Each trial has its own
//! curve. The chart shows the median of the valid trials' curves at each quantile, and the band between the lowest and
//! the highest.
//!
//! Not here: the curves (`curves`).

use bakeoff_core::stats::{self, Figure};
use bakeoff_core::units::share_text;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::curves::quantiles;
use crate::model::quantity::{Point, Quantity};
use crate::model::trial::TrialFigures;

use super::frame::Frame;
use super::page::{figure, grid, paragraph};
use super::scale::{Axis, Unit};
use super::svg::{Svg, legend, stroke, swatch};
use super::{how, place};

const FRAME: Frame = Frame { width: 480.0, left: 62.0, right: 460.0, top: 10.0 };
const BOTTOM: f64 = 270.0;
/// Largest relative difference between curves that count as equal.
const SAME: f64 = 0.02;
/// Percentiles that publications usually give.
const POINTS: [(Point, f64); 5] = [
    (Point::P50, 2.0),
    (Point::P90, 10.0),
    (Point::P95, 20.0),
    (Point::P99, 100.0),
    (Point::P999, 1000.0),
];

/// Meaning of all charts.
const MEANING: &str = "Response: from due to answered. Service: from sent to answered. Medians of each trial's \
    percentiles, as long as each trial has ten operations above.";

/// A system's curve over its valid trials.
struct Curve {
    /// Lowest, median and highest value in ms at each of the [`quantiles`], as far as every trial reaches.
    points: Vec<[f64; 3]>,
}

impl Curve {
    fn new(one: &Contender, curve: fn(&TrialFigures) -> &Vec<f64>) -> Self {
        let trials: Vec<&Vec<f64>> = one.valid().map(curve).collect();
        let length = trials.iter().map(|curve| curve.len()).min().unwrap_or(0);
        let point = |place: usize| {
            let summary = stats::summary(trials.iter().map(|curve| Figure::Value(curve[place])));
            let value = |figure: Figure| figure.value().unwrap_or(f64::NAN);
            [value(summary.min), value(summary.median), value(summary.max)]
        };
        Self { points: (0..length).map(point).collect() }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.points.len() == other.points.len()
            && self
                .points
                .iter()
                .zip(&other.points)
                .all(|(one, other)| (one[1] / other[1] - 1.0).abs() < SAME)
    }
}

pub(super) fn section(report: &Report) -> String {
    let mut html = key(report);
    html.push_str(&paragraph("how", MEANING));
    html.push_str("<div class=\"charts\">");
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        html.push_str(&chart(comparison));
    }
    html.push_str("</div>");
    html
}

fn key(report: &Report) -> String {
    let systems = report.header.study.systems.iter().enumerate().map(|(look, system)| {
        let swatch = swatch(|svg| {
            svg.path(&stroke(look), [(1.0, 7.0), (29.0, 7.0)].into_iter());
            svg.mark(look, "", 15.0, 7.0, "");
        });
        (swatch, format!("{}, response time", system.name))
    });
    let mut entries: Vec<(Svg, String)> = systems.collect();
    entries.push((
        swatch(|svg| svg.path("line service", [(1.0, 7.0), (29.0, 7.0)].into_iter())),
        "service time, in the system's colour".to_owned(),
    ));
    entries.push((
        swatch(|svg| svg.rect("band", 1.0, 1.0, 28.0, 12.0)),
        "lowest to highest valid trial".to_owned(),
    ));
    if !report.header.study.published.is_empty() {
        let drawing = swatch(|svg| svg.published(15.0, 7.0, ""));
        entries.push((drawing, "published".to_owned()));
    }
    legend(&entries)
}

fn chart(of: &Comparison) -> String {
    let title = format!("Latency percentiles, {}", place(of));
    let curves: Vec<(Curve, Curve)> = of
        .contenders
        .iter()
        .map(|one| (Curve::new(one, |t| &t.drawn.response), Curve::new(one, |t| &t.drawn.service)))
        .collect();
    let all = || curves.iter().flat_map(|(response, service)| [response, service]);
    let values = || all().flat_map(|curve| curve.points.iter().flatten().copied());
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if values().next().is_none() {
        return figure(&title, "", "", "No valid trial has a latency.", "");
    }
    let published: Vec<(&str, Point, f64, f64)> = of
        .contenders
        .iter()
        .flat_map(|one| {
            POINTS.iter().filter_map(move |(point, x)| {
                Some((
                    one.system.as_str(),
                    *point,
                    *x,
                    *one.published.get(&Quantity::Response(*point))?,
                ))
            })
        })
        .collect();
    let reference = |f: fn(f64, f64) -> f64, start: f64| {
        published.iter().map(|(.., value)| *value).filter(|value| *value > 0.0).fold(start, f)
    };
    let (least, most) = (reference(f64::min, least), reference(f64::max, most));
    let steps = all().map(|curve| curve.points.len()).max().unwrap_or(0);
    let places: Vec<f64> = quantiles().map(|quantile| 1.0 / (1.0 - quantile)).collect();
    let farthest = places[steps.clamp(1, places.len()) - 1].max(100.0);
    let x = FRAME.across(Axis::log(Unit::Percentile, 1.0, farthest));
    let y = Axis::log(Unit::Latency, least, most).between(BOTTOM, FRAME.top);
    let mut svg = FRAME.with_axes(&x, &y, BOTTOM, "share of operations answered within");
    for (one, (response, _)) in of.contenders.iter().zip(&curves) {
        let look = one.look;
        let edge = |which: usize| {
            let points: Vec<(f64, f64)> = response
                .points
                .iter()
                .zip(&places)
                .map(|(point, place)| (x.at(*place), y.at(point[which])))
                .collect();
            points
        };
        let there = edge(0).into_iter();
        svg.area(&format!("band s{}", look % 8), there.chain(edge(2).into_iter().rev()));
    }
    let mut alike = true;
    let mut summaries = Vec::new();
    for (one, (response, service)) in of.contenders.iter().zip(&curves) {
        let look = one.look;
        let line = |curve: &Curve| {
            let points = curve.points.iter().zip(&places);
            points.map(|(point, place)| (x.at(*place), y.at(point[1]))).collect::<Vec<_>>()
        };
        if !service.is_like(response) && !service.points.is_empty() {
            alike = false;
            svg.path(&format!("line service s{}", look % 8), line(service).into_iter());
        }
        svg.path(&stroke(look), line(response).into_iter());
        for (place, at) in line(response).into_iter().enumerate().filter(|(p, _)| p % 10 == 0) {
            let share = Unit::Percentile.text(places[place]);
            let text = Unit::Latency.text(response.points[place][1]);
            svg.mark(look, "", at.0, at.1, &format!("{}, {share}: {text}", one.system));
        }
        summaries.push(format!("{}: p99 {}", one.system, P99.text(one.shown(P99))));
    }
    for (system, point, at, value) in published {
        let quantity = Quantity::Response(point);
        let text = quantity.text(Figure::Value(value));
        let says = format!("published for {system}, {}: {text}", quantity.label());
        svg.published(x.at(at), y.at(value), &says);
    }
    let service = match alike {
        true => "Service times are equal within 2 % and not drawn. ",
        false => "",
    };
    let failing = of.contenders.iter().filter_map(|one| {
        let shares = one.valid().map(|trial| Figure::Value(trial.drawn.failed_share));
        let share = stats::summary(shares).max.value().filter(|share| *share > 0.0)?;
        Some(format!("{} (up to {} of a trial)", one.system, share_text(share)))
    });
    let failing: Vec<String> = failing.collect();
    let ends = match failing.is_empty() {
        true => String::new(),
        false => format!("A curve ends where failures begin: {}. ", failing.join(", ")),
    };
    let how = format!("{service}{ends}{}.", how(of));
    figure(&title, "", &svg.finish(&title, &summaries.join("; ")), &how, &table(of, &title))
}

const P99: Quantity = Quantity::Response(Point::P99);

fn table(of: &Comparison, caption: &str) -> String {
    let head: Vec<String> =
        std::iter::once(String::new())
            .chain(of.contenders.iter().flat_map(|one| {
                ["response", "service"].map(|what| format!("{} {what}", one.system))
            }))
            .collect();
    let rows: Vec<Vec<String>> = Point::ALL
        .into_iter()
        .map(|point| {
            let (response, service) = (Quantity::Response(point), Quantity::Service(point));
            let label = response.label().replace("response time ", "");
            let cells = of.contenders.iter().flat_map(|one| {
                [response, service].map(|quantity| quantity.text(one.shown(quantity)))
            });
            std::iter::once(label).chain(cells).collect()
        })
        .collect();
    grid(caption, &head, &rows)
}
