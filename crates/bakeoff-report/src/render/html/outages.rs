//! What happened around each fault: rate, latency and failures of all injections, aligned at the fault, and all figures.
//!
//! Not here: the figures (`derive::outages`), their distribution (`document::outages`, `picture`).

use crate::derive::comparison::Comparison;
use crate::derive::outages::{FaultOutages, InjectionFigures, SystemOutages};
use crate::document::outages;
use crate::document::report::Report;
use bakeoff_core::measurement::STEP;
use bakeoff_core::stats::middle;
use bakeoff_core::units::capitalized;

use super::frame::Frame;
use super::leases;
use super::page::{escape, figure, table};
use super::place;
use super::scale::{Axis, Unit};
use super::svg::{LOOKS, legend, stroke, swatch};

const FRAME: Frame = Frame { width: 480.0, left: 62.0, right: 466.0, top: 10.0 };
const BOTTOM: f64 = 150.0;
/// Longest time before the fault that is shown, in seconds.
const BEFORE: f64 = 3.0;
/// Width of the band of a short fault.
const BAND_MIN: f64 = 1.0;
/// Height of an axis of counts, as a multiple of the most before the fault.
const BURST: f64 = 3.0;

/// A point of a line: seconds since the fault, and a value. NaN is a gap.
type Point = (f64, f64);

/// A chart of all injections.
struct Chart {
    /// `{tail}` is the name of a percentile.
    title: &'static str,
    unit: Unit,
    line: fn(&InjectionFigures) -> Vec<Point>,
}

const CHARTS: [Chart; 3] = [
    Chart { title: "successes per second", unit: Unit::Count, line: successes },
    Chart { title: "{tail} response time", unit: Unit::Latency, line: tail },
    Chart { title: "failures per second", unit: Unit::Count, line: failures },
];

pub(super) fn section(report: &Report) -> String {
    let with_faults = report.comparisons.iter().filter(|one| !one.outages.is_empty());
    let each: String = with_faults.map(load).collect();
    leases::charts(report) + &each
}

fn load(of: &Comparison) -> String {
    let mut html = String::new();
    for fault in &of.outages {
        let heading = capitalized(&fault.fault.text());
        html.push_str(&format!("<h3>{}</h3><div class=\"charts\">", escape(&heading)));
        // One legend serves all charts of a fault.
        html.extend(CHARTS.iter().enumerate().map(|(nth, one)| chart(one, of, fault, nth == 0)));
        html.push_str("</div>");
        let caption = format!("{}, {}", fault.fault.name, place(of));
        html.push_str(&table(&caption, &outages::table(fault)));
    }
    html
}

/// Returns the successes around the first fault, for the first screen; empty without faults.
pub(super) fn time_line(of: &Comparison) -> String {
    of.outages.first().map_or_else(String::new, |fault| {
        format!("<div class=\"curve\">{}</div>", chart(&CHARTS[0], of, fault, true))
    })
}

fn chart(chart: &Chart, comparison: &Comparison, of: &FaultOutages, with_legend: bool) -> String {
    let title = format!("{}: {}", of.fault.name, chart.title.replace("{tail}", of.tail));
    let systems: Vec<(&SystemOutages, Vec<Vec<Point>>)> = of
        .systems
        .iter()
        .map(|one| (one, one.injections.iter().map(chart.line).collect()))
        .collect();
    let points = || systems.iter().flat_map(|(_, lines)| lines.iter().flatten());
    let known: Vec<f64> = points().map(|point| point.1).filter(|value| !value.is_nan()).collect();
    if known.is_empty() {
        return figure(&title, "", "", "No second has enough operations.", "");
    }
    let farthest = points().map(|point| point.0).fold(1.0, f64::max);
    let earliest = points().map(|point| point.0).fold(0.0, f64::min);
    let x = FRAME.across(Axis::stretch(Unit::Seconds, earliest, farthest, 7));
    let usual: Vec<f64> = points().filter(|point| point.0 < 0.0).map(|point| point.1).collect();
    let usual = usual.into_iter().filter(|value| !value.is_nan()).fold(0.0, f64::max);
    let most = known.iter().copied().fold(0.0, f64::max);
    let (y, note) = match chart.unit {
        // What waited is answered in one burst, which would hide all else.
        Unit::Count if usual > 0.0 && most > usual * BURST => {
            (Axis::linear(Unit::Count, usual * BURST, 4), "Peaks beyond the axis are cut.")
        }
        Unit::Count => (Axis::linear(Unit::Count, most, 4), ""),
        unit => (Axis::fitting(unit, &known, 4), ""),
    };
    let y = y.between(BOTTOM, FRAME.top);
    let mut svg = FRAME.with_axes(&x, &y, BOTTOM, "seconds since the fault");
    for (from, to) in bands(of) {
        let (from, to) = (x.at(from), x.at(to));
        svg.rect("band", from, FRAME.top, (to - from).max(BAND_MIN), BOTTOM - FRAME.top);
    }
    let at = |line: &[Point]| -> Vec<(f64, f64)> {
        line.iter().map(|&(time, value)| (x.at(time), y.at_or_gap(value))).collect()
    };
    for (one, lines) in &systems {
        let thin = format!("line thin injection s{}", one.look % LOOKS);
        lines.iter().for_each(|line| svg.path(&thin, at(line).into_iter()));
        svg.path(&stroke(one.look), at(&median(lines)).into_iter());
    }
    let entries = systems.iter().map(|(one, _)| {
        let line = |svg: &mut super::svg::Svg| {
            svg.path(&stroke(one.look), [(1.0, 7.0), (29.0, 7.0)].into_iter());
        };
        (swatch(line), format!("{}, median", one.system))
    });
    let mut entries: Vec<_> = entries.collect();
    entries.push((swatch(|svg| svg.rect("band", 1.0, 1.0, 28.0, 12.0)), "the fault".to_owned()));
    let count: usize = of.systems.iter().map(|one| one.injections.len()).sum();
    let says = format!("{count} injections, aligned at the fault, under {}", comparison.place());
    let legend = if with_legend { legend(&entries) } else { String::new() };
    figure(&title, &legend, &svg.finish(&title, &says), note, "")
}

/// Returns begin and end of each fault, in seconds since the first. The faults of a sequence and the effects of one fault
/// begin at other times in each injection, so those of the first one are shown.
fn bands(of: &FaultOutages) -> Vec<(f64, f64)> {
    let mut all = of.systems.iter().flat_map(|one| &one.injections);
    if let Some(one) = all.clone().find(|one| !one.sequence.is_empty()) {
        let steps = one.sequence.iter();
        return steps
            .filter_map(|step| Some((step.from - one.from, step.healed? - one.from)))
            .collect();
    }
    if let Some(one) = all.clone().find(|one| one.effects.len() > 1) {
        let effects = one.effects.iter();
        return effects.filter_map(|hit| Some((hit.from - one.from, hit.to? - one.from))).collect();
    }
    let lasts = all.by_ref().filter_map(|one| Some(one.healed? - one.from));
    lasts.reduce(f64::max).map(|longest| (0.0, longest)).into_iter().collect()
}

/// Returns the successes per second of each step.
fn successes(of: &InjectionFigures) -> Vec<Point> {
    steps(of, |place| of.steps.at(place).verified)
}

fn failures(of: &InjectionFigures) -> Vec<Point> {
    steps(of, |place| of.steps.at(place).errors)
}

fn steps(of: &InjectionFigures, count: impl Fn(usize) -> u64) -> Vec<Point> {
    let step = STEP.as_secs_f64();
    let shift = (of.from / step).floor();
    let places = (of.window / step) as usize;
    (0..places)
        .map(|place| ((place as f64 - shift) * step, count(place) as f64 / step))
        .filter(|point| point.0 >= -BEFORE)
        .collect()
}

fn tail(of: &InjectionFigures) -> Vec<Point> {
    let second = |(second, tail): &(u32, Option<f64>)| {
        (f64::from(*second) - of.from.floor(), tail.unwrap_or(f64::NAN))
    };
    let mut points: Vec<Point> = of.tail.iter().map(second).collect();
    points.retain(|point| point.0 >= -BEFORE);
    points
}

/// Returns the median of lines whose points have the same times.
fn median(lines: &[Vec<Point>]) -> Vec<Point> {
    let Some(longest) = lines.iter().max_by_key(|line| line.len()) else { return Vec::new() };
    let at = |time: f64| {
        let same = |point: &&Point| (point.0 - time).abs() < 1e-6;
        let mut values: Vec<f64> = lines
            .iter()
            .filter_map(|line| line.iter().find(same))
            .map(|point| point.1)
            .filter(|value| !value.is_nan())
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        if values.len() * 2 < lines.len() { f64::NAN } else { middle(&values) }
    };
    longest.iter().map(|&(time, _)| (time, at(time))).collect()
}
