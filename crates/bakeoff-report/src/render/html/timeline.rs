//! A trial's timeline: throughput, latency, and each node's usage.
//!
//! Shows one trial of each system, by default the first valid one; with JavaScript, readers can choose another. All
//! trials of a comparison share their axes, so systems can be compared by eye.
//!
//! Not here: joining seconds and samples (`curves`).

use std::fmt::Write as _;

use bakeoff_core::trial_samples::{GENERATOR, PhaseName};
use bakeoff_core::units::figure_text;

use crate::derive::comparison::Comparison;
use crate::document::report::Report;
use crate::model::contender::Contender;
use crate::model::curves::{Line, Part, PartKind, Timeline, UsageLines};
use crate::model::events::{Event, EventKind};
use crate::model::trial::TrialFigures;

use super::frame::Frame;
use super::page::{details, escape, paragraph};
use super::place;
use super::scale::{Axis, Unit};
use super::svg::{Svg, dashed, legend, stroke, swatch};

const FRAME: Frame = Frame { width: 380.0, left: 66.0, right: 370.0, top: 0.0 };
/// Height of the bar with the names of a trial's parts.
const BAR: f64 = 18.0;
/// Distance from one panel to the next.
const PANEL: f64 = 122.0;
/// Gap between panels, for the next one's name.
const GAP: f64 = 30.0;
/// Number and height of the rows of event numbers below the bar.
const MARK_ROWS: usize = 2;
const MARK_ROW: f64 = 12.0;
/// Height above the first panel.
const HEAD: f64 = BAR + MARK_ROW * MARK_ROWS as f64;
/// Number of trials from which tables of numbers are only in the downloads.
const TABLES_MAX: usize = 150;

/// One line of a panel.
struct Drawing<'a> {
    class: String,
    line: &'a Line,
}

/// Panels, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Panel {
    Throughput,
    Latency,
    Cpu,
    Memory,
    Disk,
    Sent,
    Received,
    Machine,
}

impl Panel {
    const ALL: [Self; 8] = [
        Self::Throughput,
        Self::Latency,
        Self::Cpu,
        Self::Memory,
        Self::Disk,
        Self::Sent,
        Self::Received,
        Self::Machine,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Throughput => "Throughput, operations per second",
            Self::Latency => "Response: p99; p50 thin; slowest dotted",
            Self::Cpu => "CPU, percent of one core",
            Self::Memory => "Memory, proportional if known, else resident",
            Self::Disk => "Written to disk by the nodes, per second",
            Self::Sent => "Sent over TCP, per second",
            Self::Received => "Received over TCP, per second",
            Self::Machine => "The machine, percent of a CPU or disk",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Throughput => Unit::Count,
            Self::Latency => Unit::Latency,
            Self::Cpu | Self::Machine => Unit::Percent,
            _ => Unit::Bytes,
        }
    }

    fn of_node(self, node: &UsageLines) -> Option<&Line> {
        match self {
            Self::Cpu => Some(&node.cpu),
            Self::Memory => Some(&node.memory),
            // The generator writes only its record. What the kernel attributes to it was written by servers that it
            // started and that have ended.
            Self::Disk => (node.name != GENERATOR).then_some(&node.written),
            Self::Sent => Some(&node.sent),
            Self::Received => Some(&node.received),
            Self::Throughput | Self::Latency | Self::Machine => None,
        }
    }

    /// Returns the lines of a trial.
    fn lines(self, of: &Timeline, look: usize) -> Vec<Drawing<'_>> {
        let own = format!("line s{}", look % 8);
        let drawing = |class: &str, line| Drawing { class: class.to_owned(), line };
        let mut lines = match self {
            Self::Throughput => {
                let any = of.errors.iter().any(|(_, errors)| *errors > 0.0);
                let errors = any.then(|| drawing("line errors", &of.errors));
                std::iter::once(drawing(&own, &of.throughput)).chain(errors).collect()
            }
            Self::Latency => {
                vec![
                    drawing(&format!("{own} most"), &of.slowest),
                    drawing(&format!("{own} thin"), &of.p50),
                    drawing(&own, &of.p99),
                ]
            }
            Self::Machine => {
                let lines = of.machine.iter().enumerate();
                lines.map(|(nth, (_, line))| drawing(&stroke(nth + 4), line)).collect()
            }
            _ => classes(of, look)
                .into_iter()
                .zip(&of.nodes)
                .filter_map(|(class, node)| Some(drawing(&class, self.of_node(node)?)))
                .collect(),
        };
        lines.retain(|drawing| drawing.line.iter().any(|(_, value)| value.is_finite()));
        lines
    }
}

/// Returns the class of each node's lines. Nodes have the colour of their system and differ by dashes. The generator has
/// its own.
fn classes(of: &Timeline, look: usize) -> Vec<String> {
    let mut dashes = 0..;
    let class = |node: &UsageLines| match node.name == GENERATOR {
        true => "line generator".to_owned(),
        false => dashed(look, dashes.next().unwrap_or(0)),
    };
    of.nodes.iter().map(class).collect()
}

/// A panel, with the axis that all trials share.
struct SharedAxisPanel {
    panel: Panel,
    axis: Axis,
}

pub(super) fn section(report: &Report) -> String {
    let mut html = paragraph(
        "how",
        "One trial of each system; all trials of the comparison share the axes. A point is \
         one second, or several if a line would have more than 150: then histograms are merged, \
         rates are means, and memory is the maximum.",
    );
    html.push_str(&key());
    let tables = report.trials_run <= TABLES_MAX;
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        html.push_str(&one(comparison, tables));
    }
    html
}

/// Returns the legend of the shades, and of lines that belong to no system.
fn key() -> String {
    let part = |class: &'static str| swatch(move |svg| svg.rect(class, 1.0, 1.0, 28.0, 12.0));
    let across = |class: &'static str| {
        swatch(move |svg| svg.path(class, [(1.0, 7.0), (29.0, 7.0)].into_iter()))
    };
    legend(&[
        (part("part load"), "load".to_owned()),
        (part("part warm"), "its warm-up".to_owned()),
        (part("part kill"), "killing and restarting".to_owned()),
        (part("part other"), "other phases: starting, filling, reading back, stopping".to_owned()),
        (
            swatch(|svg| {
                svg.line("event", 6.0, 0.0, 6.0, 14.0);
                svg.text("event-name", "start", 9.0, 11.0, "1");
            }),
            "a kill, named below the chart".to_owned(),
        ),
        (
            swatch(|svg| {
                svg.line("event unplanned", 6.0, 0.0, 6.0, 14.0);
                svg.text("event-name", "start", 9.0, 11.0, "2");
            }),
            "a node that ended by itself, or a change of leader".to_owned(),
        ),
        (across("line errors"), "errors per second".to_owned()),
        (across("line generator"), "the load generator".to_owned()),
    ])
}

fn one(of: &Comparison, tables: bool) -> String {
    let drawn =
        || of.contenders.iter().flat_map(|one| &one.trials).map(|trial| &trial.drawn.timeline);
    let end = drawn().map(|timeline| timeline.end).fold(0.0, f64::max);
    let shared: Vec<SharedAxisPanel> = Panel::ALL
        .into_iter()
        .filter_map(|panel| {
            let lines = drawn().flat_map(|timeline| panel.lines(timeline, 0));
            let values: Vec<f64> =
                lines.flat_map(|one| one.line.iter().map(|(_, value)| *value)).collect();
            let known = || values.iter().copied().filter(|value| value.is_finite());
            let most = known().reduce(f64::max)?;
            let axis = match panel {
                Panel::Latency => {
                    let least = known().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
                    Axis::log(panel.unit(), least, most)
                }
                _ => Axis::linear(panel.unit(), most, 3),
            };
            Some(SharedAxisPanel { panel, axis })
        })
        .collect();
    let mut html = format!("<article><h3>{}</h3>", escape(&place(of)));
    if shared.is_empty() {
        html.push_str("<p>Nothing was measured.</p></article>");
        return html;
    }
    html.push_str("<div class=\"charts narrow\">");
    for contender in &of.contenders {
        html.push_str(&system(of, contender.look, contender, &shared, end, tables));
    }
    html.push_str("</div></article>");
    html
}

fn system(
    place_of: &Comparison,
    look: usize,
    of: &Contender,
    shared: &[SharedAxisPanel],
    end: f64,
    tables: bool,
) -> String {
    let name = escape(&of.system);
    let mut html = format!("<figure class=\"picked\"><figcaption>{name}</figcaption>");
    let Some(first) = of
        .trials
        .iter()
        .position(TrialFigures::valid)
        .or_else(|| (!of.trials.is_empty()).then_some(0))
    else {
        html.push_str("<p>No trial ran.</p></figure>");
        return html;
    };
    let _ = write!(
        html,
        "<label class=\"pick\" hidden>Trial <select aria-label=\"Trial of {name}, {}\">",
        escape(&place(place_of))
    );
    for (nth, trial) in of.trials.iter().enumerate() {
        let valid = if trial.valid() { "" } else { ", not valid" };
        let selected = if nth == first { " selected" } else { "" };
        let _ = write!(
            html,
            "<option value=\"time-{0}\"{selected}>{0:02}, round {1}{valid}</option>",
            trial.number, trial.round
        );
    }
    html.push_str("</select></label>");
    html.push_str(&nodes(of));
    for (nth, trial) in of.trials.iter().enumerate() {
        let hidden = if nth == first { "" } else { " hidden" };
        let _ = write!(html, "<div id=\"time-{}\"{hidden}>", trial.number);
        html.push_str(&drawing(place_of, look, of, trial, shared, end));
        if tables {
            html.push_str(&numbers(&trial.drawn.timeline));
        }
        html.push_str("</div>");
    }
    html.push_str("</figure>");
    html
}

/// Returns the legend of nodes and machine lines.
fn nodes(of: &Contender) -> String {
    let across =
        |class: String| swatch(|svg| svg.path(&class, [(1.0, 7.0), (29.0, 7.0)].into_iter()));
    let seen = of.trials.iter().map(|trial| &trial.drawn.timeline);
    let Some(timeline) = seen.max_by_key(|timeline| timeline.nodes.len()) else {
        return String::new();
    };
    let nodes = classes(timeline, of.look).into_iter().zip(&timeline.nodes);
    let nodes = nodes.filter(|(_, node)| node.name != GENERATOR);
    let nodes = nodes.map(|(class, node)| (across(class), node.name.clone()));
    let machine = timeline.machine.iter().enumerate();
    let machine = machine.map(|(nth, (name, _))| (across(stroke(nth + 4)), (*name).to_owned()));
    let entries: Vec<(Svg, String)> = nodes.chain(machine).collect();
    if entries.is_empty() { String::new() } else { legend(&entries) }
}

fn drawing(
    place_of: &Comparison,
    look: usize,
    of: &Contender,
    trial: &TrialFigures,
    shared: &[SharedAxisPanel],
    end: f64,
) -> String {
    let timeline = &trial.drawn.timeline;
    let x = FRAME.across(Axis::stretch(Unit::Seconds, 0.0, end, 6));
    let bottom = HEAD + PANEL * shared.len() as f64;
    let mut svg = Svg::new(FRAME.width, bottom + 36.0);
    bar(&mut svg, &x, timeline, bottom);
    for (nth, SharedAxisPanel { panel, axis }) in shared.iter().enumerate() {
        let top = HEAD + PANEL * nth as f64 + GAP;
        let base = HEAD + PANEL * (nth + 1) as f64;
        svg.text("panel", "start", FRAME.left, top - 8.0, panel.title());
        let y = axis.clone().between(base, top);
        svg.axis_left(&y, FRAME.left, FRAME.right);
        let lines = panel.lines(timeline, look);
        if lines.is_empty() {
            svg.text("tick", "middle", FRAME.middle(), base - 40.0, "not sampled in this trial");
        }
        for Drawing { class, line } in lines {
            svg.path(&class, line.iter().map(|(at, value)| (x.at(*at), y.at_or_gap(*value))));
        }
        svg.line("axis", FRAME.left, base, FRAME.right, base);
    }
    marks(&mut svg, &x, &timeline.events, bottom);
    svg.ticks_below(&x, bottom);
    svg.text("label", "middle", FRAME.middle(), bottom + 33.0, "seconds since the trial began");
    let title = format!("{}, trial {:02}, {}: over time", of.system, trial.number, place(place_of));
    let parts: Vec<String> = timeline
        .parts
        .iter()
        .map(|part| {
            format!("{} {} to {} s", part.name, figure_text(part.from), figure_text(part.to))
        })
        .collect();
    let parts = if parts.len() > 12 { String::new() } else { parts.join("; ") };
    let events: Vec<String> = (1..)
        .zip(&timeline.events)
        .map(|(number, event)| format!("{number}: {} s, {}", figure_text(event.at), event.text))
        .collect();
    let events = events.join("; ");
    let description = [parts.as_str(), &events].map(str::to_owned);
    let description: Vec<String> =
        description.into_iter().filter(|text| !text.is_empty()).collect();
    let mut html = svg.finish(&title, &description.join("; "));
    if !events.is_empty() {
        html.push_str(&paragraph("how", &format!("Events: {events}.")));
    }
    if !trial.valid() {
        let why = format!("Not valid, not used: {}.", trial.validity.invalid_because.join("; "));
        html.push_str(&paragraph("invalid", &why));
    }
    html.push_str(&paragraph("how", &parts));
    html
}

/// Draws the parts of the trial: shades behind all panels, and a bar with their names above.
fn bar(svg: &mut Svg, x: &Axis, of: &Timeline, bottom: f64) {
    for Part { kind, name, from, to } in &of.parts {
        let (left, right) = (x.at(*from), x.at(*to));
        let class = match kind {
            PartKind::Load => "load",
            PartKind::WarmUp => "warm",
            PartKind::Kill => "kill",
            PartKind::Other => "other",
        };
        if *kind != PartKind::WarmUp {
            svg.rect(&format!("part {class}"), left, 0.0, right - left, BAR);
            let room = ((right - left) / 6.4) as usize;
            let names = [name.as_str(), short_name(name)];
            if let Some(fits) = names.into_iter().find(|one| one.chars().count() <= room) {
                svg.text("part-name", "middle", f64::midpoint(left, right), 13.0, fits);
            }
        }
        if *kind != PartKind::Other {
            svg.rect(&format!("shade {class}"), left, BAR, right - left, bottom - BAR);
        }
        if *kind == PartKind::WarmUp {
            svg.rect("part warm", left, BAR - 5.0, right - left, 5.0);
        }
    }
}

/// Draws the events: a numbered line through all panels for each. Numbers that would overlap go one row lower.
fn marks(svg: &mut Svg, x: &Axis, events: &[Event], bottom: f64) {
    let mut free_from = [f64::NEG_INFINITY; MARK_ROWS];
    for (number, event) in (1..).zip(events) {
        let at = x.at(event.at);
        let class = match event.kind {
            EventKind::Planned => "event",
            EventKind::Unplanned => "event unplanned",
        };
        svg.line(class, at, BAR, at, bottom);
        let row = free_from.iter().position(|free| *free <= at).unwrap_or(MARK_ROWS - 1);
        let text = number.to_string();
        free_from[row] = at + 5.0 + 7.5 * text.len() as f64;
        let y = BAR + MARK_ROW * (row + 1) as f64 - 1.0;
        svg.text("event-name", "start", at + 2.0, y, &text);
    }
}

/// Returns a short name for a part that is too narrow for its full name.
fn short_name(name: &str) -> &str {
    match PhaseName::read(name) {
        Some(PhaseName::KillingAndRestarting) => "kill",
        Some(PhaseName::JudgingHistory) => "judge",
        Some(PhaseName::CountingSyncs) => "sync",
        Some(PhaseName::Injecting) => "faults",
        Some(PhaseName::ReadingBack) => "read",
        Some(PhaseName::Starting) => "start",
        Some(PhaseName::Filling) => "fill",
        Some(PhaseName::Stopping) => "stop",
        Some(PhaseName::CuttingPower) => "cut",
        Some(PhaseName::FlippingBit) => "flip",
        Some(PhaseName::Load | PhaseName::KillingUnderLoad) | None => name,
    }
}

/// Returns the numbers behind the lines, as text that the script turns into tables.
fn numbers(of: &Timeline) -> String {
    let text = |value: Option<f64>| match value {
        Some(value) if value.is_finite() => number(value),
        _ => String::new(),
    };
    let mut seconds = String::from("second\tverified/s\terrors/s\tp50 ms\tp99 ms\tslowest ms\n");
    for (place, (at, rate)) in of.throughput.iter().enumerate() {
        if rate.is_nan() {
            continue;
        }
        let value = |line: &Line| text(line.get(place).map(|(_, value)| *value));
        let _ = writeln!(
            seconds,
            "{}\t{}\t{}\t{}\t{}\t{}",
            number(*at),
            text(Some(*rate)),
            value(&of.errors),
            value(&of.p50),
            value(&of.p99),
            value(&of.slowest)
        );
    }
    let mut inner = format!("<pre class=\"numbers\">{seconds}</pre>");
    if !of.nodes.is_empty() {
        let mut nodes = String::from(
            "node\tsecond\tCPU %\tmemory MiB\twritten KiB/s\tread KiB/s\tsent KiB/s\treceived KiB/s\n",
        );
        for node in &of.nodes {
            // Rates begin with the second sample, gauges with the first.
            let name = name_in_table(&node.name);
            for (at, bytes) in &node.memory {
                let value = |line: &Line, by: f64| {
                    let place = line.binary_search_by(|(time, _)| time.total_cmp(at));
                    text(place.ok().map(|place| line[place].1 / by))
                };
                let _ = writeln!(
                    nodes,
                    "{name}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                    number(*at),
                    value(&node.cpu, 1.0),
                    text(Some(bytes / f64::from(1 << 20))),
                    value(&node.written, 1024.0),
                    value(&node.fetched, 1024.0),
                    value(&node.sent, 1024.0),
                    value(&node.received, 1024.0),
                );
            }
        }
        inner.push_str(&format!("<pre class=\"numbers\">{nodes}</pre>"));
    }
    details("As a table", &inner)
}

/// Returns a name without tabs and line breaks.
fn name_in_table(name: &str) -> String {
    escape(&name.replace(['\t', '\n'], " "))
}

/// Formats a value with three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
