//! Renders a trend as terminal text, a Markdown comment, JSON, and the formats of other tools.
//!
//! Bencher and github-action-benchmark take the figures of one run at a time, so they get the newest run's. OpenMetrics
//! has every run with its time.
//!
//! - Bencher Metric Format: <https://bencher.dev/docs/reference/bencher-metric-format>
//! - github-action-benchmark, `customBiggerIsBetter` and `customSmallerIsBetter`:
//!   <https://github.com/benchmark-action/github-action-benchmark>
//! - OpenMetrics 1.0: <https://prometheus.io/docs/specs/om/open_metrics_spec/>
//!
//! Not here: the page (`html::trend`), the changes (`compare::trend`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bakeoff_core::stats::Figure;
use bakeoff_core::stats::change_points::{self, AlertOverlap};
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::units::harmless;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json as value};

use super::json::written;
use super::markdown as md;
use super::terminal::{Page, Style};
use crate::compare::TrendRun;
use crate::compare::trend::{LeftOut, RunFigure, Series, SeriesChange, SeriesKey, Trend};
use crate::document::table::{Cell, Column, Table, Tone};
use crate::model::quantity::Quantity;

/// Version of the JSON. Raised when a name or a meaning changes, but not for additions.
const FORMAT: u32 = 1;
/// Most runs in a sparkline.
const SPARKS: usize = 30;
/// Most differences that are shown next to a change.
const DIFFERENCES: usize = 3;

/// Renders the trend as text for a terminal, ending in a newline.
pub fn terminal(trend: &Trend, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.line(Tone::Strong, &trend.heading());
    for note in trend.notes() {
        page.item(Tone::Faint, "", &note);
    }
    page.gap();
    page.line(Tone::Strong, &trend.found());
    for (series, change) in trend.changes() {
        let alarms = change.is_worse && !change.is_the_machines;
        let (tone, mark) = if alarms { (Tone::Alarm, "! ") } else { (Tone::Plain, "  ") };
        page.item(tone, mark, &change_text(series, change));
        for difference in change.differences.iter().take(DIFFERENCES) {
            page.item(Tone::Faint, "    ", &format!("that run also: {difference}"));
        }
    }
    page.gap();
    page.table(&table(trend));
    for line in trend.parameters() {
        page.item(Tone::Faint, "", &line);
    }
    page.text
}

pub(crate) fn change_text(series: &Series, change: &SeriesChange) -> String {
    format!("{}: {}", series.key.text(), change.text())
}

/// Returns a row for each figure: its last runs as a sparkline, its newest value, and its last change.
pub(crate) fn table(trend: &Trend) -> Table {
    let column = |head: &str, cell: &dyn Fn(&Series) -> Cell| Column {
        head: vec![head.to_owned()],
        cells: trend.series.iter().map(cell).collect(),
    };
    let last = |of: &Series| of.changes.last().map(SeriesChange::percent);
    Table {
        title: None,
        corner: String::new(),
        labels: trend.series.iter().map(|one| one.key.text()).collect(),
        groups: vec![vec![
            column("runs", &|of| of.points.len().to_string().into()),
            column("last runs", &|of| sparkline(of).into()),
            column("newest", &|of| Cell::or_missing(newest_text(of))),
            column("last change", &|of| Cell::or_missing(last(of))),
        ]],
    }
}

fn newest_text(of: &Series) -> Option<String> {
    let (_, figure) = of.points.last()?;
    Some(of.key.quantity.text(Figure::Value(figure.median)))
}

/// Draws the last runs between their smallest and largest figure.
fn sparkline(of: &Series) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let from = of.points.len().saturating_sub(SPARKS);
    let values = || of.points[from..].iter().map(|(_, figure)| figure.median);
    let (low, high) = values()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let bar = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        BARS[(share * 7.0).round() as usize]
    };
    values().map(bar).collect()
}

/// Renders the recent changes as a comment for a merge request, without those of the machine. Empty if no figure changed
/// in the last [`change_points::RECENT`] runs.
pub fn comment(trend: &Trend) -> String {
    let recent: Vec<(&Series, &SeriesChange)> =
        trend.changes().filter(|(_, one)| one.is_recent() && !one.is_the_machines).collect();
    if recent.is_empty() {
        return String::new();
    }
    let item = |(series, change): &(&Series, &SeriesChange)| {
        let text = md::escape(&change_text(series, change));
        let text = if change.is_worse { format!("**{text}**") } else { text };
        let differences = change.differences.iter().take(DIFFERENCES);
        let below = differences.map(|one| format!("\n  - that run also: {}", md::escape(one)));
        format!("{text}{}", below.collect::<String>())
    };
    let heading = format!("## {}", md::escape(&trend.heading()));
    let mut paragraphs = vec![heading, md::list(recent.iter().map(item))];
    paragraphs.extend(trend.parameters().iter().map(|line| md::escape(line)));
    format!("{}\n", paragraphs.join("\n\n"))
}

/// Renders the trend as JSON.
pub fn json(trend: &Trend) -> Value {
    written(TrendJson::new(trend))
}

/// Holds what `bakeoff history --trend STUDY --json` prints: the figures of one study on one machine over time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TrendJson<'a> {
    /// Version of this form.
    format: u32,
    /// Name of the study.
    study: &'a str,
    /// Hash of the study without texts and number of trials.
    study_hash: &'a str,
    /// Hash of the machine: processor, CPUs, memory, kernel, file system, generator threads, hardware settings.
    machine_hash: &'a str,
    /// Result in a sentence.
    found: String,
    /// Runs that count, oldest first.
    runs: Vec<RunJson<'a>>,
    /// Runs that do not count.
    left_out: Vec<LeftOutJson<'a>>,
    /// Last reset.
    reset: Option<ResetJson<'a>>,
    /// Parameters of the tests.
    parameters: ParametersJson,
    /// Overlap of the alerts of neighbouring runs, over all figures.
    alerts: OverlapJson,
    /// Figures.
    series: Vec<SeriesJson<'a>>,
}

/// Names a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunJson<'a> {
    /// Name of its folder.
    run: &'a str,
    /// Start of the run, in UTC.
    started: &'a str,
    /// Version of bakeoff.
    bakeoff: &'a str,
}

/// Names a run that does not count.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LeftOutJson<'a> {
    /// Name of its folder.
    run: &'a str,
    /// Reason.
    why: &'a str,
}

/// Describes a reset of a trend.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ResetJson<'a> {
    /// First run after it.
    run: &'a str,
    /// Reason.
    why: &'a str,
    /// Number of runs before it, which are left out.
    runs_before: usize,
}

/// Holds the parameters of the tests.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ParametersJson {
    /// Runs in a window of e-divisive, and the most runs compared on each side.
    window: usize,
    /// Level of the t-test of a confirmed change.
    confirmed_level: f64,
    /// Fewest runs on each side of a confirmed change.
    confirmed_runs: usize,
    /// Levels of the t-test for the newest 1, 2, … runs; 0 stands for no test.
    new_levels: &'static [f64],
    /// Fewest runs before a new change.
    new_after_runs: usize,
    /// Runs before a new change at which the levels apply as they are.
    history: usize,
    /// Smallest change that is reported.
    change_min: f64,
}

/// Describes the overlap of the alerts of neighbouring runs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OverlapJson {
    /// Alerts that two neighbouring runs both raise, over the last 100 runs.
    both: usize,
    /// Alerts that at least one of them raises.
    either: usize,
    /// Share of alerts that both raise; `None` without alerts.
    overlap: Option<f64>,
}

/// Describes a figure over time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesJson<'a> {
    /// Workload and load.
    place: &'a str,
    /// Name of the system.
    system: &'a str,
    /// Name of the figure, with its unit.
    quantity: String,
    /// Clients in the stage of a sweep; `None` for the whole load.
    clients: Option<u32>,
    /// True if the load is run for this figure, which is then searched for new losses.
    leading: bool,
    /// Better direction: `higher` or `lower`.
    better: &'static str,
    /// Runs with this figure.
    points: Vec<PointJson>,
    /// Changes, oldest first.
    changes: Vec<SeriesChangeJson<'a>>,
    /// Overlap of the alerts of neighbouring runs.
    alerts: OverlapJson,
}

/// Holds a figure of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PointJson {
    /// Index in `runs`.
    run: usize,
    /// Median of the valid trials.
    median: f64,
    /// Minimum.
    min: f64,
    /// Maximum.
    max: f64,
    /// Number of valid trials.
    trials: usize,
}

/// Describes a change of a figure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesChangeJson<'a> {
    /// First run that is different.
    first_run: &'a str,
    /// Earliest and latest run that may be the first different one, at 95 %.
    first_run_interval: &'a [String; 2],
    /// True if all systems of the runs changed alike, so that the machine is the likely cause.
    all_systems_alike: bool,
    /// Its index in `runs`.
    run: usize,
    /// Runs since then, including that one.
    runs_since: usize,
    /// Relative change of the level, or difference of shares.
    change: f64,
    /// 95 % interval of the change.
    interval: (f64, f64),
    /// Probability of runs at least this far apart without a change, for a place fixed beforehand.
    p_value: f64,
    /// True for a change for the worse.
    worse: bool,
    /// False for a new change, which later runs confirm or end.
    confirmed: bool,
    /// Other differences between that run and the one before.
    differences: &'a [String],
}

impl<'a> TrendJson<'a> {
    fn new(of: &'a Trend) -> Self {
        let [study_hash, machine_hash] = &of.key;
        let run = |run: &'a TrendRun| RunJson {
            run: &run.name,
            started: &run.header.started,
            bakeoff: &run.header.bakeoff,
        };
        let reset = |run: &'a TrendRun| {
            let why = run.reset.as_deref()?;
            Some(ResetJson { run: &run.name, why, runs_before: of.before_reset })
        };
        Self {
            format: FORMAT,
            study: &of.study,
            study_hash,
            machine_hash,
            found: of.found(),
            runs: of.runs.iter().map(run).collect(),
            left_out: of
                .left_out
                .iter()
                .map(|LeftOut { run, why }| LeftOutJson { run, why })
                .collect(),
            reset: of.runs.first().and_then(reset),
            parameters: ParametersJson {
                window: change_points::WINDOW,
                confirmed_level: change_points::CONFIRMED_LEVEL,
                confirmed_runs: change_points::CONFIRMED_RUNS,
                new_levels: &change_points::NEW_LEVELS,
                new_after_runs: change_points::BEFORE_MIN,
                history: change_points::HISTORY,
                change_min: change_points::CHANGE_MIN,
            },
            alerts: OverlapJson::new(of.overlap),
            series: of.series.iter().map(SeriesJson::new).collect(),
        }
    }
}

impl OverlapJson {
    fn new(of: AlertOverlap) -> Self {
        Self { both: of.both, either: of.either, overlap: of.share() }
    }
}

impl<'a> SeriesJson<'a> {
    fn new(of: &'a Series) -> Self {
        let point = |(run, figure): &(usize, RunFigure)| PointJson {
            run: *run,
            median: figure.median,
            min: figure.min,
            max: figure.max,
            trials: figure.trials,
        };
        Self {
            place: &of.key.place,
            system: &of.key.system,
            quantity: of.key.quantity.name(),
            clients: of.key.clients,
            leading: of.key.leading,
            better: match of.key.better() {
                Preference::More => "higher",
                Preference::Less => "lower",
            },
            points: of.points.iter().map(point).collect(),
            changes: of.changes.iter().map(SeriesChangeJson::new).collect(),
            alerts: OverlapJson::new(of.overlap),
        }
    }
}

impl<'a> SeriesChangeJson<'a> {
    fn new(of: &'a SeriesChange) -> Self {
        Self {
            first_run: &of.name,
            first_run_interval: &of.first_runs,
            all_systems_alike: of.is_the_machines,
            run: of.run,
            runs_since: of.since,
            change: of.change(),
            interval: of.interval(),
            p_value: of.point.p_value,
            worse: of.is_worse,
            confirmed: of.point.confirmed,
            differences: &of.differences,
        }
    }
}

/// Returns the figures of the newest run. Series that it does not have are left out.
fn newest(trend: &Trend) -> impl Iterator<Item = (&SeriesKey, RunFigure)> {
    let last = trend.runs.len().saturating_sub(1);
    trend.series.iter().filter_map(move |one| {
        let (_, figure) = one.points.last().filter(|(run, _)| *run == last)?;
        Some((&one.key, *figure))
    })
}

/// Names a benchmark: `kv work/load etcd`, with the clients of a stage.
fn benchmark(trend: &Trend, of: &SeriesKey) -> String {
    let clients = of.clients.map_or(String::new(), |clients| format!(" {clients} clients"));
    harmless(&format!("{} {} {}{clients}", trend.study, of.place, of.system))
}

/// Renders the newest run in Bencher Metric Format.
pub fn bencher(trend: &Trend) -> Value {
    let mut all = Map::new();
    for (key, figure) in newest(trend) {
        let of = all.entry(benchmark(trend, key)).or_insert_with(|| Value::Object(Map::new()));
        of[key.quantity.name()] = value!({
            "value": figure.median, "lower_value": figure.min, "upper_value": figure.max,
        });
    }
    Value::Object(all)
}

/// Renders the newest run's figures that are better in this direction, for github-action-benchmark.
pub fn github_action_benchmark(trend: &Trend, direction: Preference) -> Value {
    let entry = |(key, figure): (&SeriesKey, RunFigure)| {
        value!({
            "name": format!("{} {}", benchmark(trend, key), key.quantity.name()),
            "unit": key.quantity.unit_name(),
            "value": figure.median,
            "range": format!("{} to {}", figure.min, figure.max),
            "extra": format!("median of {}", bakeoff_core::units::trials_text(figure.trials)),
        })
    };
    newest(trend).filter(|(key, _)| key.better() == direction).map(entry).collect()
}

/// Renders all runs in OpenMetrics text format. Values are in base units: seconds, bytes, ratios.
pub fn openmetrics(trend: &Trend) -> String {
    let mut families: BTreeMap<Quantity, Vec<&Series>> = BTreeMap::new();
    for one in &trend.series {
        families.entry(one.key.quantity).or_default().push(one);
    }
    let [_, machine] = &trend.key;
    let mut text = String::new();
    for (quantity, all) in families {
        let (name, unit, factor) = family(quantity);
        let _ = writeln!(text, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ =
            writeln!(text, "# HELP {name} {}, median of a run's valid trials.", quantity.label());
        for one in all {
            let clients = one.key.clients.map_or(String::new(), |clients| clients.to_string());
            let labels = [
                ("study", &*trend.study),
                ("machine", machine),
                ("place", &one.key.place),
                ("system", &one.key.system),
                ("clients", &clients),
            ]
            .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)));
            let labels = labels.join(",");
            // A metric's times have to increase.
            let mut last = None;
            for (run, figure) in &one.points {
                let Some(at) = epoch(&trend.runs[*run].header.started) else { continue };
                if last.is_none_or(|last| at > last) {
                    let _ = writeln!(text, "{name}{{{labels}}} {} {at}", figure.median * factor);
                    last = Some(at);
                }
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

/// Returns a metric family's name, its unit, and the factor to that unit.
fn family(of: Quantity) -> (String, &'static str, f64) {
    let name = format!("bakeoff_{}", of.name());
    let based = |suffix: &str, unit: &'static str, factor: f64| {
        let stem = name.strip_suffix(suffix).unwrap_or(&name);
        (format!("{stem}_{unit}"), unit, factor)
    };
    match of.unit_name() {
        "ms" => based("_ms", "seconds", 1e-3),
        "%" => based("_percent", "ratio", 1e-2),
        "bytes" => based("_bytes", "bytes", 1.0),
        "s" => based("_seconds", "seconds", 1.0),
        _ => (name, "", 1.0),
    }
}

/// Escapes a label's value.
fn escaped(text: &str) -> String {
    harmless(text).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the seconds since 1970 of a time such as `2026-11-21T20:24:50Z`.
fn epoch(of: &str) -> Option<i64> {
    of.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-03-01T00:00:01Z", Some(951_868_801)),
            ("2026-11-21T20:24:50Z", Some(1_795_292_690)),
            ("soon", None),
        ] {
            assert_eq!(epoch(text), expected, "{text}");
        }
    }
}
