//! Follows the figures of one study on one machine over many runs, and finds the runs from which they are different.
//!
//! A run's figure is the median of its valid trials. Runs count only if their study and machine are those of the newest
//! run; all others are listed with a reason. If all systems of the runs changed alike, the machine is the likely cause. A
//! figure that leads its load is also searched for new losses, because each
//! figure more that is raises more false alerts.
//!
//! Not here: the tests (`stats::change_points`), finding and reading records (the binary), rendering (`render::trend`).

use std::collections::BTreeMap;

use bakeoff_core::record::{Record, RunHeader};
use bakeoff_core::stats::change_points::{self, AlertOverlap, ChangePoint, alert_overlap};
use bakeoff_core::stats::judge::Scale;
use bakeoff_core::stats::rounds::Preference;
use bakeoff_core::stats::{Figure, summary};

use super::fail_if::signed;
use super::not_judged::Side;
use super::runs::{key, key_difference};
use super::{Subject, figures, header_differences, is_at_own_rate, scale};
use crate::derive::durability;
use crate::derive::judgement::{self, JUDGED, KNOWN, better, clients, label, subjects};
use crate::model::contest::Contest;
use crate::model::quantity::{Point, Quantity};

/// A run of a study, reduced to what a trend needs.
#[derive(Debug, Clone)]
pub struct TrendRun {
    pub(crate) name: String,
    pub(crate) header: RunHeader,
    /// Reason for which the series begins anew with this run.
    pub(crate) reset: Option<String>,
    figures: BTreeMap<SeriesKey, RunFigure>,
}

/// A run that does not count, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// Name of the run's folder.
    pub run: String,
    /// Reason, as a clause.
    pub why: String,
}

/// Names a series: workload and load, system, figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    /// Position of the workload and load in the study.
    contest: usize,
    pub(crate) place: String,
    /// Index of the system in the study.
    pub(crate) look: usize,
    pub(crate) system: String,
    pub(crate) quantity: Quantity,
    /// Stage of a sweep.
    stage: Option<usize>,
    /// Clients in that stage.
    pub(crate) clients: Option<u32>,
    /// True if the load was run for this figure.
    pub(crate) leading: bool,
}

impl SeriesKey {
    /// Returns `work/load etcd throughput mean /s`.
    pub(crate) fn text(&self) -> String {
        format!("{} {} {}", self.place, self.system, label(self.quantity, self.clients))
    }

    pub(crate) fn better(&self) -> Preference {
        better(self.quantity)
    }

    fn new_losses(&self) -> Option<Preference> {
        self.leading.then(|| self.better())
    }
}

/// Most changes in a heading.
const NAMED: usize = 2;

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunFigure {
    /// Median of the valid trials.
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) trials: usize,
}

/// One figure of one system over time.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) key: SeriesKey,
    /// Runs that have the figure, by index, oldest first.
    pub(crate) points: Vec<(usize, RunFigure)>,
    pub(crate) changes: Vec<SeriesChange>,
    pub(crate) overlap: AlertOverlap,
}

/// A run from which a figure is different.
#[derive(Debug, Clone)]
pub(crate) struct SeriesChange {
    pub(crate) point: ChangePoint,
    /// Index of the first different run among all runs.
    pub(crate) run: usize,
    /// Name of that run.
    pub(crate) name: String,
    /// Names of the earliest and the latest run that may be the first different one, at 95 %.
    pub(crate) first_runs: [String; 2],
    /// True if all other systems changed alike, so that the machine is the likely cause.
    pub(crate) is_the_machines: bool,
    pub(crate) is_worse: bool,
    /// Number of runs since then, that one included.
    pub(crate) since: usize,
    /// Differences between that run and the one before, besides the figures.
    pub(crate) differences: Vec<String>,
    scale: Scale,
}

impl SeriesChange {
    /// Returns the relative change, or the difference of shares.
    pub(crate) fn change(&self) -> f64 {
        self.relative(self.point.ratio)
    }

    pub(crate) fn interval(&self) -> (f64, f64) {
        (self.relative(self.point.interval.0), self.relative(self.point.interval.1))
    }

    fn relative(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Ratio => value - 1.0,
            Scale::Points => value,
        }
    }

    /// Returns the size of the change: `-5.2 %`.
    pub(crate) fn percent(&self) -> String {
        signed(self.change(), self.scale)
    }

    /// Returns `-5.2 % (95 % interval -6.1 % to -4.3 %), worse from RUN on (3 runs; first one: RUN to RUN), p = 0.0004`.
    pub(crate) fn text(&self) -> String {
        let sign = |change| signed(change, self.scale);
        let (low, high) = self.interval();
        let way = if self.is_worse { "worse" } else { "better" };
        let p_value = match self.point.p_value {
            p_value if p_value < 1e-9 => "p < 0.000000001".to_owned(),
            p_value => {
                let digits = (2.0 - p_value.log10()).floor().clamp(2.0, 10.0) as usize;
                format!("p = {p_value:.digits$}")
            }
        };
        let new = if self.point.confirmed { "" } else { "; new: later runs confirm it or end it" };
        let alike = match self.is_the_machines {
            true => "; all systems changed alike: probably the machine",
            false => "",
        };
        let [earliest, latest] = &self.first_runs;
        let first = match earliest == latest {
            true => String::new(),
            false => format!("; at 95 % from one of {earliest} to {latest} on"),
        };
        format!(
            "{} (95 % interval {} to {}), {way} from {} on ({}{first}), {p_value}{new}{alike}",
            self.percent(),
            sign(low),
            sign(high),
            self.name,
            bakeoff_core::units::plural(self.since as u64, "run"),
        )
    }

    /// Returns true if the change is among the last runs.
    pub(crate) fn is_recent(&self) -> bool {
        self.since <= change_points::RECENT
    }
}

impl Series {
    fn new(key: SeriesKey, points: Vec<(usize, RunFigure)>, runs: &[TrendRun]) -> Self {
        let scale = scale(key.quantity);
        let values: Vec<f64> = points.iter().map(|(_, figure)| figure.median).collect();
        let change = |point: ChangePoint| {
            let run = points[point.first].0;
            let before = &runs[points[point.first.saturating_sub(1)].0];
            let fell = point.ratio < scale.between(1.0, 1.0);
            SeriesChange {
                run,
                name: runs[run].name.clone(),
                first_runs: [point.first_runs.0, point.first_runs.1]
                    .map(|first| runs[points[first].0].name.clone()),
                is_the_machines: false,
                is_worse: fell == (key.better() == Preference::More),
                since: points.len() - point.first,
                differences: header_differences(&before.header, &runs[run].header),
                scale,
                point,
            }
        };
        let found = change_points::change_points(&values, scale, key.new_losses());
        let changes = found.into_iter().map(change).collect();
        let overlap = alert_overlap(&values, scale, key.new_losses());
        Self { changes, overlap, key, points }
    }

    /// Returns true if the series of this key has the same figure of another system.
    fn is_same_of_another(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.key.contest, one.key.quantity, one.key.stage);
        of(self) == of(other) && self.key.system != other.key.system
    }

    /// Returns true if another system changed as this one did, judged by the runs that both have between the changes
    /// next to the nth one.
    fn changed_alike(&self, nth: usize, other: &Self) -> bool {
        let first = |change: &SeriesChange| change.point.first;
        let from = nth.checked_sub(1).map_or(0, |before| first(&self.changes[before]));
        let to = self.changes.get(nth + 1).map_or(self.points.len(), first);
        let others: BTreeMap<usize, f64> =
            other.points.iter().map(|(run, figure)| (*run, figure.median)).collect();
        let both = self.points[from..to].iter().filter_map(|(run, figure)| {
            let other = others.get(run).copied().filter(|other| *other > 0.0);
            Some((*run, figure.median, other?))
        });
        let both: Vec<(usize, f64, f64)> = both.filter(|(_, own, _)| *own > 0.0).collect();
        let before = both.iter().filter(|(run, ..)| *run < self.changes[nth].run).count();
        let (own, other): (Vec<f64>, Vec<f64>) =
            both.iter().map(|(_, own, other)| (*own, *other)).unzip();
        change_points::moved_alike(&own, &other, before)
    }

    /// Returns the level of the runs between changes: first and last run, by index among the series' points, and the
    /// level.
    pub(crate) fn levels(&self) -> Vec<(usize, usize, f64)> {
        let ends = self.changes.iter().map(|change| change.point.first).chain([self.points.len()]);
        let mut from = 0;
        let level = |to: usize| {
            let part = &self.points[from..to];
            let values: Vec<f64> = part.iter().map(|(_, figure)| figure.median).collect();
            let level = (from, to - 1, change_points::level(&values, scale(self.key.quantity)));
            from = to;
            level
        };
        ends.map(level).collect()
    }
}

impl TrendRun {
    /// Extracts the figures of a run. `reset`: the reason for which the series begins anew with it.
    pub fn new(name: String, record: &Record, reset: Option<String>) -> Self {
        let record = &*durability::lowered(record);
        let mut figures = BTreeMap::new();
        for (nth, contest) in Contest::all(record).iter().enumerate() {
            for (key, figure) in of_contest(nth, contest) {
                figures.insert(key, figure);
            }
        }
        Self { name, header: record.header.clone(), reset, figures }
    }

    /// Returns true if no trial of the run is valid.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }
}

/// Returns the figures of all systems under a workload and load.
fn of_contest(nth: usize, contest: &Contest) -> Vec<(SeriesKey, RunFigure)> {
    let compared = contest.compared();
    let takes = |quantity: &Quantity| {
        (compared != Quantity::HighestRate || !is_at_own_rate(*quantity))
            && (!contest.is_split() || !quantity.mixes_halves())
    };
    // An open load's throughput is its rate, as long as the systems keep up.
    let leads = |quantity: Quantity| match quantity {
        KNOWN => contest.is_open(),
        Quantity::Response(Point::P99) => contest.is_open() && !contest.is_watched(),
        Quantity::ThroughputOf(_) => contest.is_split(),
        Quantity::ThroughputMean => compared == quantity && !contest.is_open(),
        other => other == compared,
    };
    let stages = contest.load.clients.len();
    let mut found = Vec::new();
    for one in &contest.contenders {
        let quantities = JUDGED.into_iter().chain([Quantity::MemoryPrivate, Quantity::ErrorShare]);
        // Proportional memory depends on the other programs of each night.
        let has_private = one.summary(Quantity::MemoryPrivate).median.value().is_some();
        let quantities = quantities
            .filter(|&quantity| !(has_private && quantity == Quantity::MemorySum))
            .filter(takes);
        for judgement::Subject { quantity, stage } in quantities.flat_map(|of| subjects(of, stages))
        {
            let subject = Subject { quantity, stage, scale: scale(quantity) };
            // Figures among failures have no number.
            let Ok(values) = figures(one, subject, Side::EarlierRun) else { continue };
            let summary = summary(values.iter().map(|&value| Figure::Value(value)));
            let (Some(median), Some(min), Some(max)) =
                (summary.median.value(), summary.min.value(), summary.max.value())
            else {
                continue;
            };
            let key = SeriesKey {
                contest: nth,
                place: contest.place(),
                look: one.look,
                system: one.system.clone(),
                quantity,
                stage,
                clients: stage.map(|stage| clients(&contest.load, one, stage)),
                leading: leads(quantity) && stage.is_none(),
            };
            found.push((key, RunFigure { median, min, max, trials: summary.trials }));
        }
    }
    found
}

/// The figures of one study on one machine over time.
#[derive(Debug, Clone)]
pub struct Trend {
    pub(crate) study: String,
    /// Short hashes of the study and the machine.
    pub(crate) key: [String; 2],
    /// Runs that count, oldest first.
    pub(crate) runs: Vec<TrendRun>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Number of runs before the last reset.
    pub(crate) before_reset: usize,
    pub(crate) series: Vec<Series>,
    /// Overlap of the alerts of all figures.
    pub(crate) overlap: AlertOverlap,
}

impl Trend {
    /// Follows the figures of these runs of a study. Those whose study or machine is not the newest run's are left out, and
    /// so are copies. `left_out`: runs that could not be read or do not count. Returns `None` without a run.
    pub fn new(study: &str, mut runs: Vec<TrendRun>, mut left_out: Vec<LeftOut>) -> Option<Self> {
        let when = |run: &TrendRun| (run.header.started.clone(), run.header.seed);
        runs.sort_by_key(|run| (when(run), run.name.clone()));
        let newest = runs.last()?.header.clone();
        let mut last = None;
        runs.retain(|run| {
            let why = match key_difference(&newest, &run.header) {
                Some(what) => format!("it differs from the newest run in {what}"),
                None if last.as_ref() == Some(&when(run)) => "it is a copy".to_owned(),
                None => {
                    last = Some(when(run));
                    return true;
                }
            };
            left_out.push(LeftOut { run: run.name.clone(), why });
            false
        });
        left_out.sort();
        let before_reset = runs.iter().rposition(|run| run.reset.is_some()).unwrap_or(0);
        runs.drain(..before_reset);
        let mut points: BTreeMap<SeriesKey, Vec<(usize, RunFigure)>> = BTreeMap::new();
        for (nth, run) in runs.iter().enumerate() {
            for (key, figure) in &run.figures {
                points.entry(key.clone()).or_default().push((nth, *figure));
            }
        }
        // A share of errors that was always 0 is no news.
        points.retain(|key, points| {
            key.quantity != Quantity::ErrorShare
                || points.iter().any(|(_, figure)| figure.median > 0.0)
        });
        let mut series: Vec<Series> =
            points.into_iter().map(|(key, points)| Series::new(key, points, &runs)).collect();
        mark_the_machines(&mut series);
        let mut overlap = AlertOverlap::default();
        series.iter().for_each(|one| overlap.add(one.overlap));
        let study = study.to_owned();
        let key = key(&newest);
        Some(Self { study, key, runs, left_out, before_reset, series, overlap })
    }

    /// Checks that a run counts. The error says why it does not, as a clause.
    ///
    /// # Errors
    /// If the run is left out, or the trend began anew after it.
    pub fn counts(&self, run: &str) -> Result<(), String> {
        if let Some(left_out) = self.left_out.iter().find(|one| one.run == run) {
            return Err(left_out.why.clone());
        }
        match self.runs.iter().any(|one| one.name == run) {
            true => Ok(()),
            false => Err("the trend was begun anew with a later run".to_owned()),
        }
    }

    /// Returns true if a figure changed, and not because of the machine.
    fn has_own_change(series: &Series) -> bool {
        series.changes.iter().any(|change| !change.is_the_machines)
    }

    /// Returns all changes with their series.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&Series, &SeriesChange)> {
        self.series.iter().flat_map(|one| one.changes.iter().map(move |change| (one, change)))
    }

    /// Returns `Trend of kv: 62 runs, 2026-09-01 to 2026-11-21`.
    pub(crate) fn heading(&self) -> String {
        let count = bakeoff_core::units::plural(self.runs.len() as u64, "run");
        format!("Trend of {}: {count}, {}", self.study, self.dates())
    }

    /// Returns the days of the first and the last run: `2026-09-01 to 2026-11-21`.
    pub(crate) fn dates(&self) -> String {
        let day = |run: Option<&TrendRun>| {
            let started = run.map_or("", |run| &run.header.started);
            started.split('T').next().unwrap_or_default().to_owned()
        };
        format!("{} to {}", day(self.runs.first()), day(self.runs.last()))
    }

    /// Returns the comparison key, the reset, and the runs that do not count, a line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let [study, machine] = &self.key;
        let mut notes = vec![format!("Compared: study {study} on machine {machine}")];
        if let Some(run) = self.runs.first()
            && let Some(why) = &run.reset
        {
            let before = bakeoff_core::units::plural(self.before_reset as u64, "run");
            notes.push(format!("Reset at {}: {why}; {before} before it left out", run.name));
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for LeftOut { run, why } in &self.left_out {
            reasons.entry(why).or_default().push(run);
        }
        for (why, runs) in reasons {
            let more = match runs.len() {
                1 => String::new(),
                more => format!(" and {} more", more - 1),
            };
            notes.push(format!("Left out: {}{more}: {why}", runs[0]));
        }
        notes
    }

    /// Returns what was found: `Nothing changed in 12 figures`, or `2 of 12 figures changed: mixed/steady etcd p99 by
    /// +8.1 %, worse`. The changes for the worse are named first.
    pub(crate) fn found(&self) -> String {
        let all = bakeoff_core::units::plural(self.series.len() as u64, "figure");
        let least = 2 * change_points::CONFIRMED_RUNS;
        match self.series.iter().filter(|one| Self::has_own_change(one)).count() {
            0 if self.runs.len() < least => {
                format!("Too few runs: a change is found from {least} runs on")
            }
            0 => format!("Nothing changed in {all}"),
            changed => {
                let mut own: Vec<_> =
                    self.changes().filter(|(_, one)| !one.is_the_machines).collect();
                own.sort_by_key(|(_, one)| !one.is_worse);
                let one = |(series, change): &(&Series, &SeriesChange)| {
                    let way = if change.is_worse { "worse" } else { "better" };
                    format!("{} by {}, {way}", series.key.text(), change.percent())
                };
                let named: Vec<String> = own.iter().take(NAMED).map(one).collect();
                format!("{changed} of {all} changed: {}", named.join("; "))
            }
        }
    }

    /// Returns the parameters of the tests, and how much neighbouring runs' alerts overlap.
    pub(crate) fn parameters(&self) -> Vec<String> {
        vec![method(true), self.overlap_text(self.overlap)]
    }

    /// Describes an overlap of alerts.
    pub(crate) fn overlap_text(&self, of: AlertOverlap) -> String {
        let runs = self.runs.len().min(change_points::WINDOW);
        match of.share() {
            None => format!("Alerts of neighbouring runs: none in the last {runs} runs."),
            Some(share) => format!(
                "Alerts of neighbouring runs overlap by {:.0} % ({} of {}, last {runs} runs); {EXPECTED}.",
                share * 100.0,
                of.both,
                of.either
            ),
        }
    }
}

/// Marks changes that all other systems of the runs share.
fn mark_the_machines(series: &mut [Series]) {
    let mut found = Vec::new();
    for (place, one) in series.iter().enumerate() {
        let others: Vec<&Series> =
            series.iter().filter(|other| one.is_same_of_another(other)).collect();
        let is_ratio = scale(one.key.quantity) == Scale::Ratio;
        if others.is_empty() || !is_ratio {
            continue;
        }
        let alike = |nth: &usize| others.iter().all(|other| one.changed_alike(*nth, other));
        found.extend((0..one.changes.len()).filter(alike).map(|nth| (place, nth)));
    }
    for (place, nth) in found {
        series[place].changes[nth].is_the_machines = true;
    }
}

/// Returns the parameters of the tests of a figure.
pub(crate) fn method(leading: bool) -> String {
    let confirmed = format!(
        "Parameters: e-divisive in windows of {} runs; Student's t, p ≤ {:.5}, at least {} runs on each side and a change \
         of {:.0} %.",
        change_points::WINDOW,
        change_points::CONFIRMED_LEVEL,
        change_points::CONFIRMED_RUNS,
        change_points::CHANGE_MIN * 100.0,
    );
    if !leading {
        return confirmed;
    }
    let levels = change_points::NEW_LEVELS.iter().filter(|level| **level > 0.0);
    let (least, most) =
        levels.fold((1.0_f64, 0.0_f64), |(low, high), &one| (low.min(one), high.max(one)));
    format!(
        "{confirmed} Leading figures: also losses in the last 2 to {} runs after at least {}, p ≤ {least} to {most} by \
         their number (after {} runs; more lenient after fewer).",
        change_points::NEW_LEVELS.len(),
        change_points::BEFORE_MIN,
        change_points::HISTORY,
    )
}

/// Overlaps to compare with, from `docs/evidence/trends.md`.
const EXPECTED: &str = "simulated, noise alone has 16 %, a step of 5 % at 2 % scatter 76 % or more";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the throughput of 30 runs at 1,000/s and 10 at another level, that scatter by some 1 %.
    fn series(system: &str, level: f64) -> Series {
        let key = SeriesKey {
            contest: 0,
            place: "work/load".to_owned(),
            look: 0,
            system: system.to_owned(),
            quantity: Quantity::ThroughputMean,
            stage: None,
            clients: None,
            leading: true,
        };
        let shift = system.len();
        let point = |run: usize| {
            let off = 1.0 + 0.01 * (((run * 7 + shift) % 11) as f64 - 5.0) / 3.0;
            let median = off * if run < 30 { 1000.0 } else { level };
            (run, RunFigure { median, min: median, max: median, trials: 3 })
        };
        let points: Vec<(usize, RunFigure)> = (0..40).map(point).collect();
        let values: Vec<f64> = points.iter().map(|(_, figure)| figure.median).collect();
        let change = |point: ChangePoint| SeriesChange {
            run: point.first,
            name: format!("run-{}", point.first),
            first_runs: [point.first_runs.0, point.first_runs.1].map(|run| format!("run-{run}")),
            is_the_machines: false,
            is_worse: true,
            since: 40 - point.first,
            differences: Vec::new(),
            scale: Scale::Ratio,
            point,
        };
        let found = change_points::change_points(&values, Scale::Ratio, key.new_losses());
        let changes = found.into_iter().map(change).collect();
        Series { key, points, changes, overlap: AlertOverlap::default() }
    }

    #[test]
    fn change_of_all_systems_is_the_machines() {
        let marked = |levels: &[f64]| -> Vec<bool> {
            let names = ["a", "bb", "ccc"];
            let mut all: Vec<Series> =
                names.iter().zip(levels).map(|(name, level)| series(name, *level)).collect();
            mark_the_machines(&mut all);
            assert_eq!(all[0].changes.len(), 1);
            all.iter().flat_map(|one| &one.changes).map(|one| one.is_the_machines).collect()
        };
        assert_eq!(marked(&[900.0, 900.0]), [true, true]);
        assert_eq!(marked(&[900.0, 900.0, 900.0]), [true, true, true]);
        assert_eq!(marked(&[900.0, 1000.0]), [false], "the other one stayed");
        assert_eq!(marked(&[900.0, 900.0, 1000.0]), [false, false], "the third one stayed");
        assert_eq!(marked(&[800.0, 900.0]), [false, false], "one lost much more");
        assert_eq!(marked(&[900.0]), [false], "one system cannot tell");
    }

    #[test]
    fn change_names_the_runs_that_may_be_its_first() {
        let mut one = series("a", 900.0);
        assert!(one.changes[0].text().contains("worse from run-30 on (10 runs), p"));
        one.changes[0].first_runs[0] = "run-29".to_owned();
        let text = one.changes[0].text();
        assert!(text.contains("(10 runs; at 95 % from one of run-29 to run-30 on), p"), "{text}");
    }
}
