//! The charts behind the summary: each system's median, with every trial as a mark.
//!
//! For each workload and load they show throughput and p99 response time. An invalid trial is hollow and crossed. A
//! table of all figures follows.
//!
//! Not here: the comparison of trials (`stats`).

use bakeoff_core::stats::Figure;
use bakeoff_core::units::trials_text;

use crate::derive::comparison::Comparison;
use crate::derive::machine_baseline;
use crate::document::report::Report;
use crate::document::{tables, words};
use crate::model::contender::Contender;
use crate::model::quantity::{Point, Quantity};

use super::frame::Frame;
use super::page::{details, escape, figure, grid, list, paragraph, table};
use super::scale::{Axis, Unit};
use super::svg::{Svg, legend, short, swatch};
use super::{how, place};

const FRAME: Frame = Frame::ROWS;
/// Height of one system's row.
const ROW: f64 = 50.0;
/// Ratio to the largest measured value from which a published figure is only mentioned in a note. An axis that reached
/// it would hide the differences.
const BEYOND: f64 = 2.5;

pub(super) fn section(report: &Report) -> String {
    let mut html = key(report);
    for comparison in &report.comparisons {
        html.push_str(&one(report, comparison));
    }
    html
}

/// Returns the legend.
fn key(report: &Report) -> String {
    let systems = report.header.systems.iter().enumerate().map(|(look, system)| {
        (swatch(|svg| svg.mark(look, "", 15.0, 7.0, "")), format!("{}, a trial", system.name))
    });
    let mut entries: Vec<(Svg, String)> = systems.collect();
    entries
        .push((swatch(|svg| crossed(svg, 0, 15.0, 7.0, "")), "an invalid trial, not used".into()));
    entries.push((swatch(|svg| svg.line("median", 15.0, 1.0, 15.0, 13.0)), "median".into()));
    entries.push((
        swatch(|svg| svg.rect("range", 2.0, 4.0, 26.0, 6.0)),
        "lowest to highest valid trial".into(),
    ));
    if !report.header.study.published.is_empty() {
        entries.push((swatch(|svg| published(svg, 15.0, 7.0, "")), "published".into()));
    }
    if report.header.environment.machine_baseline.is_some() {
        entries.push((
            swatch(|svg| svg.line("floor", 15.0, 0.0, 15.0, 14.0)),
            "machine baseline".into(),
        ));
    }
    legend(&entries)
}

fn one(report: &Report, of: &Comparison) -> String {
    let heading = words::heading(&report.header.study, of);
    let mut html = format!("<article><h3>{}</h3>", escape(&heading));
    html.push_str(&paragraph("how", &words::workload(of)));
    if !of.was_run() {
        html.push_str(&paragraph("", "No trial ran."));
        html.push_str("</article>");
        return html;
    }
    html.push_str("<div class=\"charts\">");
    html.push_str(&chart(of, Quantity::ThroughputMean));
    html.push_str(&chart(of, Quantity::Response(Point::P99)));
    html.push_str("</div>");
    let mut all = words::combination(of).map_or(String::new(), |text| paragraph("how", &text));
    all.push_str(&table(&format!("All figures, {heading}"), &tables::main(of, true)));
    for more in
        [tables::tries(of), tables::stages(of), tables::operations(of)].into_iter().flatten()
    {
        let caption = format!("{}, {}", place(of), more.title.as_deref().unwrap_or_default());
        all.push_str(&table(&caption, &more));
    }
    let notes: Vec<String> = machine_baseline::lines(of, of.limits.as_ref())
        .into_iter()
        .chain(words::published(report, of))
        .chain(words::seconds(of))
        .chain(words::latencies(of))
        .chain(words::audits(of).into_iter().map(|line| format!("audit: {}", line.text)))
        .chain(words::unchecked(of))
        .collect();
    all.push_str(&list("notes", &notes));
    html.push_str(&details("All figures", &all));
    html.push_str("</article>");
    html
}

/// A limit of the machine baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitKind {
    Disk,
    Loopback,
}

impl LimitKind {
    fn text(self) -> &'static str {
        match self {
            Self::Disk => "durable appends to this disk",
            Self::Loopback => "loopback round trips to a server that does nothing",
        }
    }
}

/// Returns the machine's limit for a comparison: its kind, and the rate per second.
fn limit(of: &Comparison) -> Option<(LimitKind, f64)> {
    // The chart of a sweep shows a limit for each stage.
    let [clients] = of.load.clients.as_slice() else { return None };
    let (limits, under_way) = (of.limits.as_ref()?, clients.saturating_mul(of.load.in_flight));
    let waits = limits.any_waits_for_disk(of.contenders.iter().map(|one| one.system.as_str()));
    let disk = limits.disk(under_way).filter(|_| waits);
    let disk = disk.map(|rate| (LimitKind::Disk, rate));
    let loopback = limits.loopback(under_way);
    disk.or(loopback.map(|rate| (LimitKind::Loopback, rate)))
}

fn chart(of: &Comparison, quantity: Quantity) -> String {
    let rate = quantity == Quantity::ThroughputMean;
    let what = if rate { "Throughput" } else { "Response time, p99" };
    let unit = if rate { Unit::Count } else { Unit::Latency };
    let machine_baseline = if rate { limit(of) } else { None };
    let measured = of.contenders.iter().flat_map(|one| &one.trials);
    let mut values: Vec<f64> = measured
        .filter_map(|trial| trial.get(quantity).value())
        .filter(|v| v.is_finite())
        .collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let references = of
        .contenders
        .iter()
        .filter_map(|one| one.published.get(&quantity).copied())
        .chain(machine_baseline.as_ref().map(|(_, value)| *value));
    let near: Vec<f64> = references.filter(|&value| value <= most * BEYOND).collect();
    values.extend(near);
    let axis = FRAME.across(Axis::fitting(unit, &values, 5));

    let bottom = 6.0 + ROW * of.contenders.len() as f64;
    let label = match (rate, axis.is_log()) {
        (true, false) => "verified operations per second",
        (true, true) => "verified operations per second (logarithmic)",
        (false, false) => "99 % of operations were answered within",
        (false, true) => "99 % of operations were answered within (logarithmic)",
    };
    let mut svg = FRAME.with_axis_below(&axis, bottom, label);
    if let Some((_, value)) = machine_baseline.as_ref().filter(|(_, value)| *value <= axis.high()) {
        svg.line("floor", axis.at(*value), 0.0, axis.at(*value), bottom);
    }
    // From the slowest round's disk to the fastest's.
    let range =
        machine_baseline.as_ref().filter(|(kind, _)| *kind == LimitKind::Disk).and_then(|_| {
            let [clients] = of.load.clients.as_slice() else { return None };
            of.limits.as_ref()?.disk_range(clients.saturating_mul(of.load.in_flight))
        });
    if let Some((least, most)) = range.filter(|(_, most)| *most <= axis.high()) {
        for end in [least, most] {
            svg.line("floor", axis.at(end), 0.0, axis.at(end), bottom);
        }
        svg.line("floor", axis.at(least), 1.0, axis.at(most), 1.0);
        svg.line("floor", axis.at(least), bottom - 1.0, axis.at(most), bottom - 1.0);
    }
    let mut notes = Vec::new();
    let mut summaries = Vec::new();
    for (place, one) in of.contenders.iter().enumerate() {
        let top = 6.0 + ROW * place as f64;
        summaries.push(row(&mut svg, &axis, one.look, top, one, quantity));
        if let Some(&value) = one.published.get(&quantity) {
            let text = quantity.text(Figure::Value(value));
            if value <= axis.high() {
                let says = format!("published for {}: {text}", one.system);
                published(&mut svg, axis.at(value), top + 34.0, &says);
            } else {
                notes.push(format!("Published for {}, beyond this axis: {text}.", one.system));
            }
        }
    }
    if let Some((kind, value)) = &machine_baseline {
        let what = kind.text();
        let rate = |value: f64| Quantity::ThroughputMean.text(Figure::Value(value));
        let text = match range {
            Some((least, most)) => format!("{} to {}", rate(least), rate(most)),
            None => rate(*value),
        };
        if *value <= axis.high() {
            notes.push(format!("Machine baseline, {what}: {text}/s."));
        } else {
            notes.push(format!("Machine baseline beyond this axis ({what}): {text}/s."));
        }
    }
    let hidden = |what: &str, is_it: fn(Figure) -> bool| {
        let trials = of.contenders.iter().flat_map(|one| &one.trials);
        let count = trials.filter(|trial| is_it(trial.get(quantity))).count();
        let have = if count == 1 { "has" } else { "have" };
        (count > 0)
            .then(|| format!("{} {have} no position on this axis: {what}.", trials_text(count)))
    };
    notes.extend(hidden("more than an hour", |figure| figure == Figure::Beyond));
    notes.extend(hidden("failures reach the percentile", |figure| {
        matches!(figure, Figure::Failed { .. })
    }));
    notes.extend(hidden("too few operations", |figure| matches!(figure, Figure::TooFew { .. })));
    let title = format!("{what}, {}", place(of));
    let caption = format!("{}. {}", how(of), notes.join(" "));
    figure(
        what,
        "",
        &svg.finish(&title, &summaries.join("; ")),
        caption.trim_end(),
        &trials(of, quantity, &title),
    )
}

/// Draws one system: name, median, trials. Returns the same as text.
fn row(
    svg: &mut Svg,
    axis: &Axis,
    look: usize,
    top: f64,
    of: &Contender,
    quantity: Quantity,
) -> String {
    let (base, middle) = (top + 14.0, top + 34.0);
    let per = if quantity == Quantity::ThroughputMean { "/s" } else { "" };
    let shown = of.shown(quantity);
    let value = match (of.trials.is_empty(), of.valid_count()) {
        (true, _) => "not run".to_owned(),
        (false, 0) => "no valid trial".to_owned(),
        (false, _) => format!("{}{per}", quantity.short(shown)),
    };
    let room = ((FRAME.right - FRAME.left) / 7.4) as usize - value.chars().count();
    svg.text("name", "start", FRAME.left, base, &cut(&of.system, room));
    svg.text("value", "end", FRAME.right, base, &value);
    svg.line("base", FRAME.left, middle, FRAME.right, middle);
    let summary = of.summary(quantity);
    if let (Some(min), Some(max)) = (summary.min.value(), summary.max.value()) {
        let (from, to) = (axis.at(min), axis.at(max));
        svg.rect(&format!("range s{}", look % 8), from, middle - 5.0, (to - from).max(1.0), 10.0);
    }
    if let Some(median) = shown.value() {
        svg.line("median", axis.at(median), middle - 13.0, axis.at(median), middle + 13.0);
    }
    let mut taken: Vec<f64> = Vec::new();
    for trial in &of.trials {
        let Some(value) = trial.get(quantity).value() else { continue };
        let x = axis.at(value);
        // Marks that would cover each other are shifted.
        let near = taken.iter().filter(|&&other| (other - x).abs() < 5.0).count();
        taken.push(x);
        let aside = [0.0, -6.0, 6.0, -3.0, 3.0][near % 5];
        let text = quantity.text(Figure::Value(value));
        let says = format!("{}, trial {:02}: {text}{per}", of.system, trial.number);
        if trial.valid() {
            svg.mark(look, "", x, middle + aside, &says);
        } else {
            let why = trial.validity.invalid_because.join("; ");
            crossed(svg, look, x, middle + aside, &format!("{says}; not valid: {why}"));
        }
    }
    format!("{} {value}", of.system)
}

/// Shortens a long name.
fn cut(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// Draws the mark of an invalid trial.
fn crossed(svg: &mut Svg, look: usize, x: f64, y: f64, says: &str) {
    svg.mark(look, "hollow", x, y, says);
    svg.line("cross", x - 6.0, y - 6.0, x + 6.0, y + 6.0);
    svg.line("cross", x - 6.0, y + 6.0, x + 6.0, y - 6.0);
}

/// Draws the mark of a published figure.
pub(super) fn published(svg: &mut Svg, x: f64, y: f64, says: &str) {
    svg.ring(&format!("M{} {}m0 -7l7 7l-7 7l-7 -7z", short(x), short(y)), says);
}

/// Returns a table with every trial's figure.
fn trials(of: &Comparison, quantity: Quantity, caption: &str) -> String {
    let head = ["trial", "system", &quantity.label(), "used"].map(str::to_owned);
    let mut rows = Vec::new();
    for one in &of.contenders {
        rows.extend(one.trials.iter().map(|trial| {
            let used = if trial.valid() {
                "yes".to_owned()
            } else {
                trial.validity.invalid_because.join("; ")
            };
            vec![
                format!("{:02}", trial.number),
                one.system.clone(),
                quantity.text(trial.get(quantity)),
                used,
            ]
        }));
    }
    grid(caption, &head, &rows)
}
