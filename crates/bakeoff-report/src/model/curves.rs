//! Data of one trial's charts: percentile curves and a timeline.
//!
//! Computed once from the record and short enough for a page: a line has at most [`POINTS_MAX`] points. If seconds are
//! joined, histograms are merged; percentiles are never averaged. Rates keep their mean over time, gauges their
//! maximum.
//!
//! Not here: drawing (`html`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use bakeoff_core::measurement::{Measurement, Second};
use bakeoff_core::ranked_latencies::{BEYOND_MIN, Percentile, RankedLatencies, sample_min};
use bakeoff_core::record::{StageRecord, TrialRecord};
use bakeoff_core::study::Fault;
use bakeoff_core::trial_samples::{Column, PhaseName, Series};

use super::events::{Event, events, planned_ends};

/// Most points of a line: a chart is a few hundred pixels wide.
pub(crate) const POINTS_MAX: usize = 150;
/// Points of a percentile curve per decade of `1 / (1 - quantile)`.
const PER_DECADE: u32 = 10;
/// Most points that are joined for a percentile with too few operations.
const JOINED_MAX: usize = 10;
/// Shortest rest of a second at the end of a stage that is shown as a second.
const SECOND_MIN: f64 = 0.5;

/// Times in seconds since the trial began, with values in the line's unit. A NaN is a gap.
pub(crate) type Line = Vec<(f64, f64)>;

#[derive(Debug, Clone, Default)]
pub(crate) struct TrialCurves {
    /// Response times in milliseconds at each of the [`quantiles`] that the trial supports, up to the first failure.
    pub(crate) response: Vec<f64>,
    /// Service times in the same form.
    pub(crate) service: Vec<f64>,
    /// Share of failed operations, 0 to 1. The curve ends there.
    pub(crate) failed_share: f64,
    pub(crate) timeline: Timeline,
}

/// The course of a trial.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    /// End of its last part.
    pub(crate) end: f64,
    /// Parts in order. The warm-up of each stage is a separate part.
    pub(crate) parts: Vec<Part>,
    /// Kills and unplanned events of servers.
    pub(crate) events: Vec<Event>,
    /// Verified successes per second.
    pub(crate) throughput: Line,
    /// Failures per second.
    pub(crate) errors: Line,
    /// Median response time in milliseconds. `p99` and `slowest` have the same unit.
    pub(crate) p50: Line,
    pub(crate) p99: Line,
    pub(crate) slowest: Line,
    /// Usage of each node and of the generator.
    pub(crate) nodes: Vec<UsageLines>,
    /// Usage of the machine in percent, with labels.
    pub(crate) machine: Vec<(&'static str, Line)>,
}

/// Kind of a part, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Load,
    WarmUp,
    Kill,
    Other,
}

impl PartKind {
    fn of_phase(name: &str) -> Self {
        match PhaseName::read(name) {
            Some(PhaseName::Load) => Self::Load,
            Some(
                PhaseName::KillingUnderLoad
                | PhaseName::KillingAndRestarting
                | PhaseName::CuttingPower
                | PhaseName::FlippingBit,
            ) => Self::Kill,
            _ => Self::Other,
        }
    }
}

/// A part of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) name: String,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Sampled usage of one process. A line without points could not be sampled.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageLines {
    pub(crate) name: String,
    /// Percent of one core.
    pub(crate) cpu: Line,
    /// Bytes of proportional memory, or of resident memory if that was not read.
    pub(crate) memory: Line,
    /// Bytes per second written to storage.
    pub(crate) written: Line,
    /// Bytes per second read from storage.
    pub(crate) fetched: Line,
    /// Bytes per second sent over TCP.
    pub(crate) sent: Line,
    pub(crate) received: Line,
}

/// Returns the quantiles of a percentile curve: from 0 to 1 - 10^-7, evenly spaced on a logarithmic scale of `1 / (1 -
/// quantile)`.
pub(crate) fn quantiles() -> impl Iterator<Item = f64> {
    (0..=7 * PER_DECADE).map(|step| 1.0 - 10f64.powf(-f64::from(step) / f64::from(PER_DECADE)))
}

impl TrialCurves {
    /// Computes the data. `whole`: the trial's measurement with all stages combined.
    pub(crate) fn new(
        record: &TrialRecord,
        (warmup, faults): (Duration, &[Fault]),
        whole: Option<&Measurement>,
    ) -> Self {
        let total = whole.map(Measurement::total).unwrap_or_default();
        Self {
            response: curve(&total.responses()),
            service: curve(&total.services()),
            failed_share: total.responses().failed_share(),
            timeline: Timeline::new(record, warmup.as_secs_f64(), faults),
        }
    }
}

/// Returns the latencies in milliseconds at each of the [`quantiles`], as long as enough operations lie above and the
/// value is a number.
fn curve(operations: &RankedLatencies<'_>) -> Vec<f64> {
    let count = operations.count() as f64;
    let successes = operations.successes();
    let mut curve = Vec::new();
    let mut places = quantiles().peekable();
    let mut seen = 0;
    for (latency, times) in successes.recorded() {
        seen += times;
        while let Some(&place) = places.peek() {
            let left = (1.0 - place) * count;
            // End before a percentile with too few operations above it, above an hour, or among failures.
            let unknown = count - successes.count() as f64 + successes.saturated() as f64;
            if left < BEYOND_MIN - 1e-6 || left < unknown - 1e-6 {
                return curve;
            }
            if (seen as f64) < place * count - 1e-6 {
                break;
            }
            curve.push(latency.as_nanos() as f64 / 1e6);
            places.next();
        }
    }
    curve
}

/// Returns each stage with the start of its measuring, in seconds since the trial began.
fn stages(record: &TrialRecord, warmup: f64) -> Vec<(f64, &StageRecord)> {
    record.stages.iter().map(|stage| (stage.began + warmup, stage)).collect()
}

impl Timeline {
    fn new(record: &TrialRecord, warmup: f64, faults: &[Fault]) -> Self {
        let mut timeline = Self::default();
        let stages = stages(record, warmup);
        let seconds: f64 = stages.iter().map(|(_, s)| s.measurement.window.as_secs_f64()).sum();
        let each = (seconds / POINTS_MAX as f64).ceil().max(1.0) as u32;
        for (at, stage) in &stages {
            timeline.measured(*at, &stage.measurement, each);
        }
        timeline.parts(record, &stages, warmup);
        if let Some(observed) = &record.observed {
            let metered = observed.metrics.iter().map(|node| &node.series);
            let node = |series: &Series| {
                let memory = observed.memory.iter().find(|one| one.name == series.name);
                watched(series, memory)
            };
            timeline.nodes = observed.nodes.iter().chain(metered).map(node).collect();
            timeline.machine = machine(&observed.machine);
            let leaders = record.leader.as_deref().zip(record.leader_after.as_deref());
            timeline.events = events(observed, leaders, &planned_ends(&record.injections, faults));
            let last = |series: &Series| series.at.last().copied().unwrap_or(0.0);
            let all = observed.nodes.iter().chain([&observed.machine]);
            timeline.end = all.map(last).fold(timeline.end, f64::max);
        }
        timeline
    }

    /// Adds a stage's seconds, `each` of them as one point in their middle.
    fn measured(&mut self, at: f64, of: &Measurement, each: u32) {
        let window = of.window.as_secs_f64();
        if !self.throughput.is_empty() {
            let lines = [
                &mut self.throughput,
                &mut self.errors,
                &mut self.p50,
                &mut self.p99,
                &mut self.slowest,
            ];
            for line in lines {
                line.push((at, f64::NAN));
            }
        }
        let mut from = 0;
        let mut recent = VecDeque::new();
        while f64::from(from) < window {
            let to = from + each;
            let length = f64::from(to).min(window) - f64::from(from);
            // A short rest of a second would exaggerate its rate.
            if length < SECOND_MIN && from > 0 {
                break;
            }
            let begin = of.seconds.partition_point(|second| second.second < from);
            let end = of.seconds.partition_point(|second| second.second < to);
            let joined = &of.seconds[begin..end];
            let middle = at + f64::from(from) + length / 2.0;
            let verified: u64 = joined.iter().map(Second::verified).sum();
            let errors: u64 =
                joined.iter().flat_map(|second| second.operations.values()).map(|o| o.errors).sum();
            self.throughput.push((middle, verified as f64 / length));
            self.errors.push((middle, errors as f64 / length));
            let point = ranked(joined);
            let slowest = point.slowest();
            recent.push_back(point);
            let millis = |time: Duration| time.as_nanos() as f64 / 1e6;
            self.slowest.push((middle, slowest.map_or(f64::NAN, millis)));
            let known = |place: Percentile| place.latency().map_or(f64::NAN, millis);
            self.p50.push((middle, known(of_recent(&recent, 0.5))));
            self.p99.push((middle, known(of_recent(&recent, 0.99))));
            if recent.len() == JOINED_MAX {
                recent.pop_front();
            }
            from = to;
        }
        self.end = self.end.max(at + window);
    }

    fn parts(&mut self, record: &TrialRecord, stages: &[(f64, &StageRecord)], warmup: f64) {
        let known = record.observed.as_ref().map_or(&[][..], |observed| &observed.phases);
        self.parts = known
            .iter()
            .map(|phase| Part {
                kind: PartKind::of_phase(&phase.name),
                name: phase.name.clone(),
                from: phase.from,
                to: phase.to,
            })
            .collect();
        if known.is_empty() {
            self.parts.extend(stages.iter().map(|(at, stage)| Part {
                kind: PartKind::Load,
                name: PhaseName::Load.text().to_owned(),
                from: at - warmup,
                to: at + stage.measurement.window.as_secs_f64(),
            }));
        }
        if warmup > 0.0 {
            self.parts.extend(stages.iter().map(|(at, _)| Part {
                kind: PartKind::WarmUp,
                name: "warm-up".to_owned(),
                from: (at - warmup).max(0.0),
                to: *at,
            }));
        }
        self.parts.retain(|part| part.to > part.from && part.from.is_finite());
        self.end = self.parts.iter().map(|part| part.to).fold(self.end, f64::max);
    }
}

/// Returns the response times of all operations in these seconds, with failures ranked last.
fn ranked(seconds: &[Second]) -> RankedLatencies<'static> {
    let figures = seconds.iter().flat_map(|second| second.operations.values());
    // An invalid histogram becomes a gap in a line.
    let known = figures.filter_map(|figures| figures.responses().ok());
    let Ok(all) = RankedLatencies::all(known.map(Ok::<_, Infallible>));
    all
}

/// Returns a percentile of the most recent points, as few as have enough operations.
fn of_recent(recent: &VecDeque<RankedLatencies<'static>>, quantile: f64) -> Percentile {
    let mut count = 0;
    let enough = recent.iter().rev().position(|point| {
        count += point.count();
        count >= sample_min(quantile)
    });
    match enough {
        Some(0) => recent.back().map_or(Percentile::Nothing, |last| last.percentile(quantile)),
        Some(more) => {
            let last = recent.iter().rev().take(more + 1).cloned();
            let Ok(all) = RankedLatencies::all(last.map(Ok::<_, Infallible>));
            all.percentile(quantile)
        }
        None => Percentile::Nothing,
    }
}

/// Converts a series to chart data. `memory`: readings of proportional memory, if there are any.
fn watched(series: &Series, memory: Option<&Series>) -> UsageLines {
    let memory = match memory {
        Some(memory) => memory.shown(Column::Proportional),
        None => series.shown(Column::Resident),
    };
    let cpu = sum(series, &[Column::CpuUser, Column::CpuSystem, Column::Cpu]);
    UsageLines {
        name: series.name.clone(),
        cpu: scaled(cpu, 100.0),
        memory: shorter(&memory, f64::max),
        written: sum(series, &[Column::DiskWritten]),
        fetched: sum(series, &[Column::DiskRead]),
        sent: sum(series, &[Column::SocketSent]),
        received: sum(series, &[Column::SocketReceived]),
    }
}

fn machine(series: &Series) -> Vec<(&'static str, Line)> {
    [
        ("CPUs busy", Column::Busy),
        ("CPU time stolen", Column::Steal),
        ("disk busy", Column::DiskBusy),
        ("CPU pressure", Column::PressureCpu),
        ("I/O pressure", Column::PressureIo),
        ("memory pressure", Column::PressureMemory),
    ]
    .into_iter()
    .map(|(name, column)| (name, scaled(sum(series, &[column]), 100.0)))
    .filter(|(_, line)| !line.is_empty())
    .collect()
}

fn scaled(mut line: Line, by: f64) -> Line {
    line.iter_mut().for_each(|(_, value)| *value *= by);
    line
}

/// Adds up the rates of these counters and joins them by their mean over time.
fn sum(series: &Series, columns: &[Column]) -> Line {
    let mut whole = Line::new();
    for column in columns {
        let rates = series.shown(*column);
        if whole.len() == rates.len() {
            whole.iter_mut().zip(rates).for_each(|((_, sum), (_, rate))| *sum += rate);
        } else if whole.is_empty() {
            whole = rates;
        }
    }
    rates_joined(&whole)
}

/// Returns at most [`POINTS_MAX`] points of rates, each the mean over its time.
fn rates_joined(rates: &[(f64, f64)]) -> Line {
    let each = rates.len().div_ceil(POINTS_MAX).max(1);
    if each == 1 {
        return rates.to_vec();
    }
    let mut before = rates.first().map_or(0.0, |(at, _)| *at)
        - rates.get(1).map_or(1.0, |(next, _)| next - rates[0].0);
    let mut line = Line::new();
    for joined in rates.chunks(each) {
        let (mut grown, mut time, mut last) = (0.0, 0.0, before);
        for (at, rate) in joined {
            grown += rate * (at - last);
            time += at - last;
            last = *at;
        }
        line.push((last, if time > 0.0 { grown / time } else { f64::NAN }));
        before = last;
    }
    line
}

/// Returns at most [`POINTS_MAX`] points, joined by `join`.
fn shorter(points: &[(f64, f64)], join: fn(f64, f64) -> f64) -> Line {
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let joined = points.chunks(each).filter_map(|some| {
        let at = some.last()?.0;
        Some((at, some.iter().map(|(_, value)| *value).reduce(join)?))
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use super::*;
    use bakeoff_core::histogram::Latencies;

    fn series(looks: usize) -> Series {
        let at: Vec<f64> = (0..looks).map(|n| n as f64 / 10.0).collect();
        Series {
            name: "n-1".into(),
            columns: BTreeMap::from([
                (Column::CpuUser, at.iter().map(|t| t * 0.5).collect()),
                (Column::CpuSystem, at.iter().map(|t| t * 0.25).collect()),
                (Column::Resident, (0..looks).map(|n| if n == 500 { 9e9 } else { 1e6 }).collect()),
            ]),
            at,
        }
    }

    #[test]
    fn long_line_is_shortened_and_keeps_means_and_peaks() {
        let watched = watched(&series(1000), None);
        assert!(watched.cpu.len() <= POINTS_MAX && watched.cpu.len() > POINTS_MAX / 2);
        assert!(watched.cpu.iter().all(|(_, cpu)| (cpu - 75.0).abs() < 1e-6), "{:?}", watched.cpu);
        let most = watched.memory.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        assert_eq!(most, 9e9, "a gauge's peak is kept");
        assert!(watched.sent.is_empty(), "what was not seen has no line");
    }

    #[test]
    fn mean_is_weighted_by_unequal_times() {
        let mut rates: Vec<(f64, f64)> = (1..=300).map(|n| (f64::from(n), 1.0)).collect();
        // One sample came nine seconds late and stands for ten.
        rates.iter_mut().skip(1).for_each(|(at, _)| *at += 9.0);
        rates[1].1 = 12.0;
        let line = rates_joined(&rates);
        assert_eq!(line.len(), 150);
        let first = line[0].1;
        // 10 s before the first point at the first distance, then 10 s at 12.
        assert!((first - 6.5).abs() < 1e-9, "{first}");
    }

    fn of_successes(latencies: &Latencies) -> Vec<f64> {
        curve(&RankedLatencies::of_values(latencies))
    }

    #[test]
    fn curve_ends_with_too_few_operations_left_and_above_an_hour() {
        let mut latencies = Latencies::default();
        (1..=10_000).for_each(|n| latencies.record(Duration::from_millis(n)));
        let curve = of_successes(&latencies);
        // 1 / (1 - p) reaches 1000 after three decades, with ten operations above.
        assert_eq!(curve.len(), 31);
        let place = |nth: usize| latencies.quantile(quantiles().nth(nth).unwrap()).unwrap();
        for nth in [3, 10, 20, 29] {
            let exact = place(nth).as_nanos() as f64 / 1e6;
            assert!((curve[nth] / exact - 1.0).abs() < 0.002, "{nth}: {} {exact}", curve[nth]);
        }
        (0..100).for_each(|_| latencies.record(Duration::from_secs(4000)));
        // 100 of 10,100 are above an hour: 99 % is known, the next quantile is not.
        assert_eq!(of_successes(&latencies).len(), 21);
        assert!(of_successes(&Latencies::default()).is_empty());
    }

    #[test]
    fn a_curve_ends_where_failures_begin() {
        let mut successes = Latencies::default();
        (1..=9000).for_each(|n| successes.record(Duration::from_millis(n)));
        let none = Latencies::default();
        let failing = RankedLatencies::new(Cow::Borrowed(&successes), Cow::Borrowed(&none), 1000);
        // Nine of ten succeeded, the slowest after 9 s.
        let curve = curve(&failing);
        assert_eq!(curve.len(), 11);
        assert!((curve[10] / 9000.0 - 1.0).abs() < 0.002, "{}", curve[10]);
    }

    #[test]
    fn a_percentile_of_seconds_with_few_operations_is_one_of_several() {
        let second = |ms| {
            let mut successes = Latencies::default();
            successes.record_many(Duration::from_millis(ms), 400);
            RankedLatencies::new(Cow::Owned(successes), Cow::Owned(Latencies::default()), 0)
        };
        let mut recent: VecDeque<RankedLatencies<'static>> = [second(90), second(3)].into();
        assert_eq!(of_recent(&recent, 0.5).text(), "3.00 ms");
        assert_eq!(of_recent(&recent, 0.99), Percentile::Nothing);
        recent.extend([second(2), second(1)]);
        assert_eq!(of_recent(&recent, 0.99).text(), "3.00 ms");
    }
}
