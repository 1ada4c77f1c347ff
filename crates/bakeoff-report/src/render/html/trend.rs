//! Renders a trend as a page: a chart for each figure with its runs, levels and changes.
//!
//! Figures that changed or that lead their load come first; the others are folded.
//!
//! Not here: the changes (`compare::trend`).

use bakeoff_core::stats::Figure;

use super::frame::Frame;
use super::page::{self, Section, escape, figure, grid, list, paragraph, table};
use super::scale::{Axis, Unit};
use super::svg::stroke;
use crate::compare::trend::{LeftOut, Series, SeriesChange, Trend, method};
use crate::model::quantity::Quantity;
use crate::render::trend;

const FRAME: Frame = Frame { width: 480.0, left: 70.0, right: 464.0, top: 22.0 };
const BOTTOM: f64 = 210.0;
/// Height of the names of changes.
const NAMES: f64 = 14.0;

/// Renders the trend as one self-contained page.
pub fn trend_page(trend: &Trend) -> String {
    let title = trend.heading();
    let (first, others): (Vec<&Series>, Vec<&Series>) =
        trend.series.iter().partition(|one| one.key.leading || !one.changes.is_empty());
    let mut top = format!(
        "<p class=\"study\"><span>{}</span></p><h1 id=\"verdict\">{}</h1>",
        escape(&title),
        escape(&trend.found())
    );
    let changes = |worse: bool| -> Vec<String> {
        let alarms = |of: &SeriesChange| of.is_worse && !of.is_the_machines;
        let of_them = trend.changes().filter(|(_, change)| alarms(change) == worse);
        of_them.map(|(series, change)| trend::change_text(series, change)).collect()
    };
    let worse = changes(true);
    if !worse.is_empty() {
        top.push_str(&format!("<h2>Worse</h2>{}", list("notes", &worse)));
    }
    top.push_str(&list("notes", &changes(false)));
    top.push_str(&list("notes", &trend.notes()));
    top.push_str(&charts(trend, &first));
    top.push_str(&paragraph("how", &format!("All figures: {}", trend.overlap_text(trend.overlap))));
    let mut sections = Vec::new();
    if !others.is_empty() {
        let body = charts(trend, &others);
        sections.push(Section::plain("others", "Other figures", body));
    }
    let body = table("All figures", &trend::table(trend));
    sections.push(Section::plain("figures", "Figures", body));
    sections.push(Section::plain("runs", "Runs", runs(trend)));
    page::page(&title, &top, &sections, "")
}

fn charts(trend: &Trend, of: &[&Series]) -> String {
    let charts: String = of.iter().map(|one| chart(trend, one)).collect();
    format!("<div class=\"charts\">{charts}</div>")
}

/// Lists the runs of the trend, and those that do not count.
fn runs(trend: &Trend) -> String {
    let head = ["run", "started", "bakeoff"].map(str::to_owned);
    let row = |run: &crate::compare::TrendRun| {
        vec![run.name.clone(), run.header.started.clone(), run.header.bakeoff.clone()]
    };
    let mut html = grid("Runs", &head, &trend.runs.iter().map(row).collect::<Vec<_>>());
    if !trend.left_out.is_empty() {
        let row = |LeftOut { run, why }: &LeftOut| vec![run.clone(), why.clone()];
        let rows: Vec<Vec<String>> = trend.left_out.iter().map(row).collect();
        html.push_str(&grid("Left out", &["run", "why"].map(str::to_owned), &rows));
    }
    html
}

fn unit(of: Quantity) -> Unit {
    match of.unit_name() {
        "ms" => Unit::Latency,
        "%" => Unit::Percent,
        "bytes" => Unit::Bytes,
        "s" => Unit::Seconds,
        _ => Unit::Count,
    }
}

fn chart(trend: &Trend, of: &Series) -> String {
    // Shares are drawn as percentages.
    let percent = if of.key.quantity == Quantity::ErrorShare { 100.0 } else { 1.0 };
    let unit = if percent > 1.0 { Unit::Percent } else { unit(of.key.quantity) };
    let ends = of.points.iter().flat_map(|(_, figure)| [figure.min, figure.max]);
    let (low, high) = ends
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    let margin = ((high - low) * 0.05).max(high.abs() * 0.005);
    let up = Axis::stretch(unit, (low - margin) * percent, (high + margin) * percent, 4);
    let up = up.between(BOTTOM, FRAME.top);
    let count = trend.runs.len() as f64;
    let across = FRAME.across(Axis::stretch(Unit::Count, 0.5, count + 0.5, 6));
    let x = |point: usize| across.at(of.points[point].0 as f64 + 1.0);
    let mut svg = FRAME.with_axes(&across, &up, BOTTOM, &format!("run, {}", trend.dates()));
    for (point, (_, figure)) in of.points.iter().enumerate() {
        let (top, bottom) = (up.at(figure.max * percent), up.at(figure.min * percent));
        svg.line(&format!("whisker s{}", of.key.look % 8), x(point), top, x(point), bottom);
    }
    for (from, to, level) in of.levels() {
        let y = up.at(level * percent);
        svg.path(&stroke(of.key.look), [(x(from) - 2.0, y), (x(to) + 2.0, y)].into_iter());
    }
    for change in &of.changes {
        let between = f64::midpoint(x(change.point.first.saturating_sub(1)), x(change.point.first));
        let class = if change.is_worse { "event unplanned" } else { "event" };
        svg.line(class, between, FRAME.top, between, BOTTOM);
        let new = if change.point.confirmed { "" } else { " new" };
        let name = format!("{}{new}", change.percent());
        let anchor = if between > FRAME.middle() { "end" } else { "start" };
        svg.text("event-name", anchor, between, NAMES, &name);
    }
    for (point, (run, figure)) in of.points.iter().enumerate() {
        let value = of.key.quantity.text(Figure::Value(figure.median));
        let run = &trend.runs[*run];
        let says = format!("{}: {value}, median of {} trials", run.name, figure.trials);
        svg.mark(of.key.look, "", x(point), up.at(figure.median * percent), &says);
    }
    let title = of.key.text();
    let changes: Vec<String> = of.changes.iter().map(|change| change.text()).collect();
    let described = match changes.as_slice() {
        [] => "No change.".to_owned(),
        changes => format!("{}.", changes.join(". ")),
    };
    let how = format!(
        "{described} Marks: medians of runs, with the range of their trials. Lines: levels between changes. {} {}",
        method(of.key.leading),
        trend.overlap_text(of.overlap)
    );
    figure(&title, "", &svg.finish(&title, &described), &how, "")
}
