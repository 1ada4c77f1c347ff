//! What watchers observed: the way of a write to its watchers on one time axis, all figures, and the guarantees.
//!
//! Positions across are percentages, so that marks and texts keep their size on a phone.
//!
//! Not here: the figures (`document::watches`).

use std::fmt::Write as _;

use bakeoff_core::stats::Figure;
use bakeoff_core::units::capitalized;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::document::watches;
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity, WatchQuantity};

use super::fan_out;
use super::page::{escape, list, paragraph, table};
use super::place;
use super::scale::{Axis, Unit};
use super::svg::LOOKS;

/// Middle of a row.
const MIDDLE: f64 = 23.0;
/// Height of a row in the style sheet.
const ROW: f64 = 46.0;
/// Width of a digit of a tick on the narrowest row, as a share of the width.
const TICK_DIGIT: f64 = 0.023;
/// Share of the width that the axis takes. The rest keeps marks at its end inside.
const WIDTH: f64 = 0.98;

/// A moment of a write: quantity, name, and outline around the row's middle.
type Moment = (WatchQuantity, &'static str, &'static str);

const MOMENTS: [Moment; 4] = [
    (WatchQuantity::Acknowledged(Point::P50), "acknowledged (p50)", "M0-12V12"),
    (WatchQuantity::First(Point::P50), "first watcher (p50)", "M0-8V8"),
    (WatchQuantity::Last(Point::P50), "last watcher (p50)", "M0-8V8"),
    (WatchQuantity::Last(Point::P99), "last watcher (p99)", "M0-5V5"),
];

/// Returns the section; empty without watchers.
pub(super) fn section(report: &Report) -> String {
    let watched: Vec<&Comparison> =
        report.comparisons.iter().filter(|one| one.is_watched()).collect();
    if watched.is_empty() {
        return String::new();
    }
    let how = "A watcher knows a write once it has an event of that version or of a later one. This time means the same \
               for systems that deliver each version and for those that skip some, so it is compared. The times to the \
               first and the last watcher count only writes that all watchers observed: read them next to the share of \
               versions. All times begin when the write was sent, unless they say otherwise. Each figure is the median \
               of the valid trials; counts are sums.";
    let curves = fan_out::charts(report, &watched);
    let each = watched.into_iter().map(comparison);
    format!("{}{curves}{}", paragraph("how", how), each.collect::<String>())
}

fn comparison(of: &Comparison) -> String {
    let mut html = format!("<article><h3>{}</h3>", escape(&place(of)));
    html.push_str(&chart(of));
    for one in watches::tables(of) {
        let title = one.title.as_deref().unwrap_or_default();
        html.push_str(&table(&format!("{}, {}", capitalized(title), place(of)), &one));
    }
    let lines: Vec<String> = watches::lines(of).into_iter().map(|line| line.text).collect();
    html.push_str(&list("notes", &lines));
    html.push_str("</article>");
    html
}

/// Returns a time of a system in milliseconds; `None` without a number.
fn time(of: &Contender, quantity: WatchQuantity) -> Option<f64> {
    of.shown(Quantity::Watch(quantity)).value().filter(|value| value.is_finite())
}

/// Draws the way of a write to its watchers, a row for each system; empty without figures.
fn chart(of: &Comparison) -> String {
    let rows: Vec<&Contender> = of.contenders.iter().filter(|one| one.valid_count() > 0).collect();
    let all = rows.iter().flat_map(|one| MOMENTS.iter().filter_map(|of| time(one, of.0)));
    let values: Vec<f64> = all.collect();
    if values.is_empty() {
        return String::new();
    }
    let axis = Axis::fitting(Unit::Latency, &values, 4).between(0.0, WIDTH);
    let log = if axis.is_log() { ", logarithmic" } else { "" };
    let mut html = format!(
        "<figure class=\"way\"><figcaption><b>From a write's sending to its watchers</b><span>less is better{log}</span>\
         <span class=\"vh\">last, p99</span></figcaption>"
    );
    html.extend(rows.iter().map(|one| row(one, &axis)));
    let _ = write!(
        html,
        "<div class=\"row ax\"><span class=\"name\"></span><svg class=\"ticks\" aria-hidden=\"true\">{}</svg>\
         <span class=\"value\"></span></div>{}</figure>",
        ticks(&axis),
        legend()
    );
    html
}

/// Formats a position.
fn at(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn row(of: &Contender, axis: &Axis) -> String {
    let mut svg = String::new();
    for (x, _) in axis.ticks() {
        let x = at(x);
        let _ = write!(svg, "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{ROW}\"/>");
    }
    let mut line = |class: &str, from: Option<f64>, to: Option<f64>| {
        let Some((from, to)) = from.zip(to) else { return };
        let (from, to) = (at(axis.at(from)), at(axis.at(to)));
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{from}\" x2=\"{to}\" y1=\"{MIDDLE}\" y2=\"{MIDDLE}\"/>"
        );
    };
    let [_, first, last, tail] = MOMENTS.map(|moment| time(of, moment.0));
    line("way-tail", last, tail);
    line("way-bar", first, last);
    let mut says = Vec::new();
    for (number, (quantity, name, outline)) in MOMENTS.iter().enumerate() {
        let Some(value) = time(of, *quantity) else { continue };
        let text = Quantity::Watch(*quantity).short(Figure::Value(value));
        let class = if number == 0 { "median" } else { "way-mark" };
        let _ = write!(
            svg,
            "<svg x=\"{}\" y=\"{MIDDLE}\" overflow=\"visible\"><path class=\"{class}\" d=\"{outline}\"><title>{}: {name} \
             after {text}</title></path></svg>",
            at(axis.at(value)),
            escape(&of.system)
        );
        says.push(format!("{name} after {text}"));
    }
    let versions = watches::versions_text(of);
    let sub = versions.map_or_else(String::new, |share| format!("{share} of versions"));
    let value = match tail {
        Some(tail) => Quantity::Watch(MOMENTS[3].0).short(Figure::Value(tail)),
        None => Quantity::Watch(MOMENTS[3].0).short(of.shown(Quantity::Watch(MOMENTS[3].0))),
    };
    format!(
        "<div class=\"row s{}\"><span class=\"name\"><b>{}</b><span class=\"sub\">{}</span></span><svg role=\"img\" \
         aria-label=\"{}: {}\">{svg}</svg><span class=\"value\">{}</span></div>",
        of.look % LOOKS,
        escape(&of.system),
        escape(&sub),
        escape(&of.system),
        escape(&says.join(", ")),
        escape(&value)
    )
}

fn ticks(axis: &Axis) -> String {
    let mut svg = format!("<line class=\"zero\" x1=\"0\" x2=\"{}\" y1=\"0\" y2=\"0\"/>", at(WIDTH));
    let anywhere = (f64::NEG_INFINITY, f64::INFINITY);
    for (x, text) in axis.ticks_apart(TICK_DIGIT, TICK_DIGIT, anywhere) {
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{}\" y=\"16\" text-anchor=\"middle\">{}</text>",
            at(x),
            escape(&text)
        );
    }
    svg
}

fn legend() -> String {
    let entries = [
        (
            "<line class=\"median\" x1=\"13\" x2=\"13\" y1=\"0\" y2=\"16\"/>",
            "write acknowledged, p50",
        ),
        (
            "<line class=\"way-bar\" x1=\"3\" x2=\"23\" y1=\"8\" y2=\"8\"/>",
            "from the first to the last watcher, p50",
        ),
        (
            "<line class=\"way-tail\" x1=\"3\" x2=\"23\" y1=\"8\" y2=\"8\"/><path class=\"way-mark\" d=\"M23 3V13\"/>",
            "to the last watcher, p99",
        ),
    ];
    let entry = |(drawing, text): &(&str, &str)| {
        format!("<li><svg viewBox=\"0 0 26 16\" aria-hidden=\"true\">{drawing}</svg>{text}</li>")
    };
    let items: String = entries.iter().map(entry).collect();
    format!("<ul class=\"legend\" aria-label=\"Legend\">{items}</ul>")
}
