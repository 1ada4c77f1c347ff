//! Computes what a fault cost: the service that users lost, how long nothing succeeded, how long all was slow.
//!
//! The service lost counts operations that were due and not served in time, as seconds of the whole load. It decides
//! which system a fault costs more: a system that answers now and then is never out for long and serves few.
//!
//! The outage is the longest silence from the fault on. A silence is a time without a verified success although an
//! operation was due ([`crate::measurement::Silence`]), so an open load measures it by due times. Rates come from steps
//! of [`STEP`], latencies from whole seconds. Faults happen under open loads alone, so all operations that ended were due
//! by the load's schedule.
//!
//! Not here: the fault itself (`crate::record::Injection`), the comparison of systems (`report`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::measurement::{
    ErrorKind, LoadPart, Measurement, PartSilences, STALL_TIMES, STEP, STEPS_MAX, Second,
    StepCounts,
};
use crate::ranked_latencies::{self, RankedLatencies};
use crate::record::Injection;
use crate::stats::clusters::BoundedFigure;
use crate::stats::middle;
use crate::units::figure_text;
use crate::validity::generator_busy;

/// Share of the earlier rate from which the rate counts as full.
pub const FULL_RATE: f64 = 0.95;
/// Number of steps over which the rate is averaged: a second.
const FULL_STEPS: usize = 10;
/// Factor of the earlier percentile up to which the latency counts as back.
pub const BACK_TIMES: f64 = 2.0;

/// Minimum time in which an operation has to be served. A system with a longer p99 before the fault has twice that.
const IN_TIME_MIN: Duration = STEP;
/// Share of the earlier rate below which a later second is a relapse.
const RELAPSE_RATE: f64 = 0.5;

/// Stall of the generator, as a share of an outage, above which the outage does not count.
const BLAMED_SHARE: f64 = 0.01;
/// Stalls of the generator, as a share of the service lost, above which that is only an upper bound. A stall delays
/// one thread's operations, and only the first of them beyond their time.
const STALLED_SHARE: f64 = 0.1;

/// Holds the figures of one injection. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outage {
    /// Operations due after the fault and not served in time, as seconds of the whole load. An upper bound if the
    /// generator stood still too, a lower one if the load ended before its rate was full again.
    pub service_lost: BoundedFigure,
    /// Time in which an operation had to be served: 0.1 s, or twice the earlier p99 if that is longer.
    pub in_time: f64,
    /// Longest time without a success, from the fault on; `None` if none was as long as `shortest`.
    pub seconds: Option<f64>,
    /// Minimum length of an outage: shorter pauses occur without a fault.
    pub shortest: f64,
    /// True if nothing succeeded from some moment after the fault to the end of the load.
    pub lasted: bool,
    /// Time from the fault to the first success after the outage; `None` without an outage, or if it lasted.
    pub first_success: Option<f64>,
    /// Time from the end of the fault until the rate was full and stayed so; `None` if it did not.
    pub full_rate: Option<f64>,
    /// Name of the percentile by which `tail_back` is judged.
    pub tail: &'static str,
    /// Time from the end of the fault until this percentile was within twice of the earlier one ([`BACK_TIMES`]) and stayed so
    /// in most seconds, in whole seconds; `None` if it did not, or is unknown.
    pub tail_back: Option<f64>,
    /// Operations that failed at once from the fault on: no connection, an error as the answer, or never sent.
    pub failed: u64,
    /// Operations without an answer from the fault on: they timed out, or their connection broke.
    pub unknown: u64,
    /// Successes that took more than twice the earlier p99 ([`BACK_TIMES`]); `None` if that is unknown.
    pub delayed: Option<u64>,
    /// Share of the operations due after the fault that failed or were never sent, 0 to 1.
    pub lost_share: f64,
}

impl Outage {
    /// Returns the length of the outage, or its bounds.
    pub fn length(&self) -> BoundedFigure {
        length(self.seconds, self.shortest, self.lasted)
    }
}

/// Returns the length of a silence. Without one it is shorter than `shortest`, and one that lasted is a lower bound.
pub fn length(seconds: Option<f64>, shortest: f64, lasted: bool) -> BoundedFigure {
    match seconds {
        None => BoundedFigure::less_than(shortest),
        Some(seconds) if lasted => BoundedFigure::at_least(seconds),
        Some(seconds) => BoundedFigure::exact(seconds),
    }
}

/// Computes the figures of an injection; `None` if the fault did not happen.
pub fn outage(injection: &Injection) -> Option<Outage> {
    outage_by(injection, tail_before(injection))
}

/// Computes the figures of an injection, with this percentile of each second as its latency. `None` if the fault did
/// not happen.
pub fn outage_by(injection: &Injection, (tail, quantile): TailPercentile) -> Option<Outage> {
    let from = injection.from()?;
    let measurement = &injection.stage.measurement;
    let window = measurement.window.as_secs_f64();
    let healed = injection.healed().unwrap_or(window);
    let shortest = measurement.stall_min().as_secs_f64();
    let longest = longest_silence(measurement, from, window);
    let lasted = longest.is_some_and(|(_, end)| end >= window - f64::EPSILON);
    let p99 = p99_before(measurement, from);
    let in_time = p99.or_else(|| median_before(measurement, quantile, from));
    let in_time = in_time.map_or(IN_TIME_MIN, |before| before.mul_f64(BACK_TIMES).max(IN_TIME_MIN));
    let before = counts_until(measurement, from);
    let errors = measurement.error_count().saturating_sub(before.errors);
    let of_kind = |is: fn(ErrorKind) -> bool, before: u64| {
        let kinds = ErrorKind::ALL.into_iter().filter(|kind| is(*kind));
        let all: u64 = kinds.map(|kind| measurement.errors_of(kind)).sum();
        all.saturating_sub(before)
    };
    let ended_before = before.verified.saturating_add(before.errors);
    let ended = due(measurement).saturating_sub(ended_before);
    let out_until = longest.map_or(healed, |(_, end)| end.max(healed));
    let full = full_from(measurement, before, from, out_until);
    let has_ended = !lasted && (full.is_some() || before.verified == 0);
    Some(Outage {
        service_lost: service_lost(injection, errors, in_time, has_ended)?,
        in_time: in_time.as_secs_f64(),
        seconds: longest.map(|(since, end)| end - since),
        shortest,
        lasted,
        first_success: longest.filter(|_| !lasted).map(|(_, end)| end - from),
        full_rate: full.map(|full| (full - healed).max(0.0)),
        tail,
        tail_back: tail_back(measurement, quantile, in_time, (from, healed)),
        failed: of_kind(ErrorKind::is_failed_at_once, before.errors - before.unknown),
        unknown: of_kind(ErrorKind::has_unknown_outcome, before.unknown),
        delayed: p99.map(|p99| slower(measurement, p99.mul_f64(BACK_TIMES), from)),
        lost_share: errors as f64 / ended.max(errors).max(1) as f64,
    })
}

/// Computes the service lost. `errors`: failures from the fault on. `has_ended`: nothing more was being lost when the
/// load ended. `None` if the fault did not happen.
fn service_lost(
    injection: &Injection,
    errors: u64,
    in_time: Duration,
    has_ended: bool,
) -> Option<BoundedFigure> {
    let from = injection.from()?;
    let measurement = &injection.stage.measurement;
    let window = measurement.window.as_secs_f64();
    let due = due(measurement);
    let lost = errors.saturating_add(slower(measurement, in_time, from));
    let lost = (lost as f64 / due.max(1) as f64 * window).min((window - from).max(0.0));
    let stalled = generator_stalled(injection, from);
    let of_system = if stalled > lost * STALLED_SHARE { (lost - stalled).max(0.0) } else { lost };
    Some(BoundedFigure { least: of_system, most: has_ended.then_some(lost) })
}

/// Returns the number of operations that the schedule made due.
fn due(measurement: &Measurement) -> u64 {
    measurement.verified().saturating_add(measurement.error_count())
}

/// Returns the longest total time from the fault on for which one thread of the generator stood still by itself.
fn generator_stalled(injection: &Injection, from: f64) -> f64 {
    if injection.stalls_explained.is_some() {
        return 0.0;
    }
    let mut of_thread: BTreeMap<u32, f64> = BTreeMap::new();
    for stall in &injection.stage.measurement.stalls {
        let after = stall.from + stall.seconds - stall.from.max(from);
        *of_thread.entry(stall.thread).or_default() += after.max(0.0);
    }
    of_thread.into_values().fold(0.0, f64::max)
}

/// Holds the outage of one part of the load: of one node's clients, or of one operation. Counted in whole steps of
/// [`STEP`], so it lasted up to two steps longer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartOutage {
    /// The part.
    #[serde(flatten)]
    pub part: LoadPart,
    /// True for a node that the fault happened to.
    pub broken: bool,
    /// Longest time without a success, in seconds; `None` if none was as long as `shortest`.
    pub seconds: Option<f64>,
    /// Minimum length of an outage, in seconds.
    pub shortest: f64,
    /// True if nothing succeeded from some moment to the end of the load.
    pub lasted: bool,
}

impl PartOutage {
    /// Returns the length of the outage, or its bounds.
    pub fn length(&self) -> BoundedFigure {
        length(self.seconds, self.shortest, self.lasted)
    }
}

/// Computes the outages of the load's parts. Empty if the fault did not happen, or in records without parts. `names`
/// are the nodes' names, in the order of the measurement's nodes; they replace addresses.
pub fn part_outages(injection: &Injection, names: &[String]) -> Vec<PartOutage> {
    let Some(from) = injection.from() else { return Vec::new() };
    let measurement = &injection.stage.measurement;
    let window = measurement.window.as_secs_f64();
    let one = |of: &PartSilences| {
        let (part, verified) = match &of.part {
            LoadPart::Operation(name) => {
                let figures = measurement.operations.get(name);
                (of.part.clone(), figures.map_or(0, |figures| figures.verified))
            }
            LoadPart::Node(address) => {
                let place = measurement.targets.iter().position(|one| one.node == *address);
                let name = place.and_then(|place| names.get(place)).unwrap_or(address);
                let verified = place.map_or(0, |place| measurement.targets[place].verified);
                (LoadPart::Node(name.clone()), verified)
            }
        };
        let usual = f64::from(STALL_TIMES) * window / verified.max(1) as f64;
        let shortest = usual.max(STEP.as_secs_f64());
        let later = of.silences.iter().map(|one| (one.from.max(from), one.from + one.seconds));
        // Sums of steps are not exact.
        let long = later.filter(|(since, end)| end - since >= shortest - 1e-6);
        let longest = long.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let is_hit = |name: &String| injection.hits.iter().any(|hit| hit.nodes.contains(name));
        PartOutage {
            broken: matches!(&part, LoadPart::Node(name) if is_hit(name)),
            part,
            seconds: longest.map(|(since, end)| end - since),
            shortest,
            lasted: longest.is_some_and(|(_, end)| end >= window - 1e-6),
        }
    };
    measurement.part_silences.iter().map(one).collect()
}

/// Holds the outage of one fault of a sequence: from its beginning to that of the next one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepOutage {
    /// Name of the fault.
    pub fault: String,
    /// Time of its beginning, in seconds since measuring began.
    pub from: f64,
    /// Time of its end; `None` if it did not end.
    pub healed: Option<f64>,
    /// Longest time without a success, in seconds; `None` if none was an outage ([`Outage`]).
    pub seconds: Option<f64>,
    /// True if nothing succeeded from some moment to the end of the load.
    pub lasted: bool,
}

/// Computes the outages of a sequence, fault by fault. Empty for a single fault.
pub fn step_outages(injection: &Injection) -> Vec<StepOutage> {
    let measurement = &injection.stage.measurement;
    let mut steps: Vec<StepOutage> = Vec::new();
    for hit in &injection.hits {
        let Some(fault) = &hit.fault else { continue };
        match steps.last_mut().filter(|step| step.fault == *fault) {
            Some(step) => step.healed = step.healed.zip(hit.to).map(|(a, b)| a.max(b)),
            None => steps.push(StepOutage {
                fault: fault.clone(),
                from: hit.from,
                healed: hit.to,
                seconds: None,
                lasted: false,
            }),
        }
    }
    let window = measurement.window.as_secs_f64();
    let ends: Vec<f64> = steps.iter().skip(1).map(|step| step.from).chain([window]).collect();
    for (step, end) in steps.iter_mut().zip(ends) {
        let longest = longest_silence(measurement, step.from, end);
        step.seconds = longest.map(|(since, end)| end - since);
        step.lasted = longest.is_some_and(|(_, end)| end >= window - f64::EPSILON);
    }
    steps
}

/// Returns begin and end of the longest silence between `from` and the load's end that begins before `until`; `None` if
/// none was as long as an outage. A silence that began before `from` counts from there on.
fn longest_silence(measurement: &Measurement, from: f64, until: f64) -> Option<(f64, f64)> {
    let shortest = measurement.stall_min().as_secs_f64();
    let window = measurement.window.as_secs_f64();
    let silences = measurement.silences.iter().map(|one| (one.from, one.from + one.seconds));
    let last = measurement.silent_from.map(|since| (since, window));
    silences
        .chain(last)
        .map(|(since, end)| (since.max(from), end))
        .filter(|&(since, end)| since < until && end - since >= shortest)
        .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
}

/// Returns why an injection does not count; `None` if it does. The undisturbed load of its trial plays no part: an
/// outage is proven by its own injection.
pub fn left_out(injection: &Injection, of: &Outage) -> Option<String> {
    let measurement = &injection.stage.measurement;
    let cut_short = || {
        let is_used_up = measurement.keys_exhausted;
        let used_up = is_used_up.then_some("the unique keys ran out before the load's end");
        used_up.or(measurement.interrupted.then_some("interrupted before its end"))
    };
    (injection.unproven.clone())
        .or_else(|| cut_short().map(str::to_owned))
        .or_else(|| generator_busy(measurement))
        .or_else(|| blamed_on_generator(injection, of))
}

/// Returns why an outage may be the generator's own: a thread of it stood still when the outage ended, for more than 1 %
/// of the outage, and the nodes' CPU time does not explain it. `None` if the outage is the system's. Stalls are known
/// from [`STALL_MIN`](crate::measurement::STALL_MIN) on.
fn blamed_on_generator(injection: &Injection, of: &Outage) -> Option<String> {
    if injection.stalls_explained.is_some() {
        return None;
    }
    let end = injection.from()? + of.first_success?;
    let most = of.seconds? * BLAMED_SHARE;
    let stalls = &injection.stage.measurement.stalls;
    let stall = stalls.iter().find(|stall| {
        stall.seconds > most && stall.from <= end && end <= stall.from + stall.seconds + most
    })?;
    let (stood, out) = (figure_text(stall.seconds * 1e3), figure_text(of.seconds? * 1e3));
    Some(format!("the generator stood still for {stood} ms at the end of an outage of {out} ms"))
}

/// Returns the number of the step at a time in seconds.
fn step_of(seconds: f64) -> usize {
    ((seconds / STEP.as_secs_f64()) as usize).min(STEPS_MAX as usize)
}

/// Returns the operations that ended in whole steps before the fault; `None` if it did not happen.
pub(crate) fn counts_before(injection: &Injection) -> Option<StepCounts> {
    Some(counts_until(&injection.stage.measurement, injection.from()?))
}

fn counts_until(measurement: &Measurement, from: f64) -> StepCounts {
    let steps = (0..step_of(from)).map(|at| measurement.steps.at(at));
    steps.fold(StepCounts::default(), |sum, step| StepCounts {
        verified: sum.verified.saturating_add(step.verified),
        errors: sum.errors.saturating_add(step.errors),
        unknown: sum.unknown.saturating_add(step.unknown.min(step.errors)),
    })
}

/// Returns the beginning of the first second, by steps, from `since` on whose rate is full and stays so: most of the seconds
/// from then on are full, and none has less than [`RELAPSE_RATE`] of the earlier rate. Looks at the load's last second in
/// any case. `None` if there is no such second, or if the earlier rate is unknown.
fn full_from(measurement: &Measurement, before: StepCounts, from: f64, since: f64) -> Option<f64> {
    let (steps, window) = (step_of(from), measurement.window.as_secs_f64());
    let usual = before.verified as f64 / steps.max(1) as f64 * FULL_STEPS as f64;
    let last = step_of(window).checked_sub(FULL_STEPS).filter(|_| usual > 0.0)?;
    let (mut full, mut all, mut back) = (0, 0, None);
    for at in (step_of(since).min(last)..=last).rev() {
        let steps = (at..at + FULL_STEPS).map(|at| measurement.steps.at(at).verified as f64);
        let share = steps.sum::<f64>() / usual;
        if share < RELAPSE_RATE {
            break;
        }
        all += 1;
        full += u32::from(share >= FULL_RATE);
        if share >= FULL_RATE && full * 2 > all {
            back = Some(at);
        }
    }
    Some((back? as f64 * STEP.as_secs_f64()).max(since))
}

/// Returns the median p99 of the whole seconds before the fault, or the p99 of all of them if each has too few
/// operations. `None` if they have too few together.
fn p99_before(measurement: &Measurement, from: f64) -> Option<Duration> {
    median_before(measurement, 0.99, from).or_else(|| {
        let all = seconds_before(measurement, from).map(Second::responses);
        RankedLatencies::all(all).ok()?.percentile(0.99).latency()
    })
}

/// Returns the whole seconds before the fault.
fn seconds_before(measurement: &Measurement, from: f64) -> impl Iterator<Item = &Second> {
    measurement.seconds.iter().filter(move |second| f64::from(second.second) + 1.0 <= from)
}

/// Returns the median of a percentile over the whole seconds before the fault; `None` if each has too few operations.
fn median_before(measurement: &Measurement, quantile: f64, from: f64) -> Option<Duration> {
    let known = seconds_before(measurement, from).filter_map(|second| second.percentile(quantile));
    let mut known: Vec<f64> = known.map(|one| one.as_secs_f64()).collect();
    known.sort_unstable_by(f64::total_cmp);
    (!known.is_empty()).then(|| Duration::from_secs_f64(middle(&known)))
}

/// A percentile: its name and its quantile.
pub type TailPercentile = (&'static str, f64);

/// Returns the highest percentile that each whole second before the fault supports: p99 from 1,000 operations a second
/// on.
pub fn tail_before(injection: &Injection) -> TailPercentile {
    let from = injection.from().unwrap_or(0.0);
    let count = |second: &Second| second.responses().map_or(0, |all| all.count());
    let counts = seconds_before(&injection.stage.measurement, from).map(count);
    ranked_latencies::tail(counts.min().unwrap_or(0))
}

/// Returns the response time above which a success after `from` is delayed; `None` if no earlier second has a p99.
pub(crate) fn delayed_from(measurement: &Measurement, from: f64) -> Option<Duration> {
    Some(p99_before(measurement, from)?.mul_f64(BACK_TIMES))
}

/// Returns the time from `healed` to the first whole second whose percentile is back and stays so: most of the seconds from
/// then on are back, and none exceeds `in_time`. On a busy machine single seconds are slow without a fault.
fn tail_back(
    measurement: &Measurement,
    quantile: f64,
    in_time: Duration,
    (from, healed): (f64, f64),
) -> Option<f64> {
    let most = median_before(measurement, quantile, from)?.mul_f64(BACK_TIMES);
    let whole = measurement.window.as_secs_f64().min(f64::from(u32::MAX)) as u32;
    let tail_of = |second: u32| {
        let place = measurement.seconds.binary_search_by_key(&second, |one| one.second).ok()?;
        measurement.seconds[place].percentile(quantile)
    };
    let (mut good, mut all, mut back) = (0, 0, None);
    for second in (healed.max(0.0) as u32..whole).rev() {
        let Some(tail) = tail_of(second).filter(|tail| *tail <= in_time) else { break };
        all += 1;
        good += u32::from(tail <= most);
        if tail <= most && good * 2 > all {
            back = Some(second);
        }
    }
    Some((f64::from(back?) - healed).max(0.0))
}

/// Counts the successes from the second of the fault on that took more than `limit`.
fn slower(measurement: &Measurement, limit: Duration, from: f64) -> u64 {
    let later = measurement.seconds.iter().filter(|second| f64::from(second.second) + 1.0 > from);
    let slow = later
        .flat_map(|second| second.operations.values())
        .filter_map(|figures| Some(figures.response.unpack().ok()?.count_above(limit)));
    slow.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Latencies;
    use crate::measurement::{GeneratorStall, SecondFigures, Silence, StepCounts, TargetFigures};
    use crate::record::{FaultHit, StageRecord};

    /// Returns an injection of a pause from 3 s to 7 s in a load of 20 s at 100/s, without a success in the silence.
    /// From its end to `full_from` four of ten operations fail.
    fn injection(silence: (f64, f64), full_from: f64) -> Injection {
        let (since, end) = silence;
        let mut injection = served(|time| match time {
            _ if time >= since && time < end => 0,
            _ if time >= end && time < full_from => 6,
            _ => 10,
        });
        injection.stage.measurement.silences = vec![Silence { from: since, seconds: end - since }];
        injection
    }

    /// Returns an injection like [`injection`] by the successes of each step of ten operations; the others fail.
    fn served(verified_at: impl Fn(f64) -> u64) -> Injection {
        let mut measurement =
            Measurement { window: Duration::from_secs(20), ..Measurement::default() };
        for at in 0..200u32 {
            let verified = verified_at(f64::from(at) / 10.0);
            let counts = StepCounts { verified, errors: 10 - verified, unknown: 0 };
            measurement.steps.add(at, &counts);
        }
        let verified = measurement.steps.verified.iter().sum();
        let figures = measurement.operations.entry("put".into()).or_default();
        (figures.verified, figures.verified_in_window) = (verified, verified);
        figures.service.record_many(Duration::from_millis(1), verified);
        figures.errors.entry(ErrorKind::Status).or_default().count = 2000 - verified;
        Injection {
            fault: "paused".into(),
            repeat: 1,
            stage: StageRecord {
                clients: 1,
                began: 0.0,
                measured_from: Some(0.0),
                measurement,
                tried: None,
            },
            hits: vec![FaultHit { from: 3.0, to: Some(7.0), ..FaultHit::default() }],
            unproven: None,
            stalls_explained: None,
            audit: None,
        }
    }

    #[test]
    fn outage_is_the_longest_silence_after_the_fault() {
        let found = outage(&injection((3.0, 4.5), 8.5)).unwrap();
        assert_eq!(
            (found.seconds, found.lasted, found.first_success),
            (Some(1.5), false, Some(1.5))
        );
        let full = found.full_rate.unwrap();
        assert!((full - 1.5).abs() < 0.3, "{full}");
        let mut earlier = injection((1.0, 2.5), 2.5);
        assert_eq!(outage(&earlier).unwrap().seconds, None, "it ended before the fault");
        earlier.stage.measurement.silences[0] = Silence { from: 3.0, seconds: 0.011 };
        let short = outage(&earlier).unwrap();
        assert_eq!(
            (short.seconds, short.length()),
            (None, BoundedFigure::less_than(short.shortest))
        );
    }

    fn lost(injection: &Injection) -> BoundedFigure {
        outage(injection).unwrap().service_lost
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn flapping_system_loses_what_it_does_not_serve() {
        // One success each 0.4 s for 4 s, and later full service.
        let mut flapping = served(|time| match (time * 10.0).round() as u32 {
            step @ 30..70 => u64::from(step % 4 == 1),
            _ => 10,
        });
        let silences = (0..10).map(|at| Silence { from: 3.1 + 0.4 * f64::from(at), seconds: 0.4 });
        flapping.stage.measurement.silences = silences.collect();
        let found = outage(&flapping).unwrap();
        near(found.seconds.unwrap(), 0.4);
        near(found.service_lost.value().unwrap(), 3.9);
        near(lost(&injection((3.0, 4.2), 4.2)).value().unwrap(), 1.2);
    }

    #[test]
    fn late_success_is_lost_as_a_failure_is() {
        let mut late = served(|_| 10);
        let slow = |at| Second { second: at, ..second(at, 60, 150) };
        late.stage.measurement.seconds = (2..5).map(slow).collect();
        let found = outage(&late).unwrap();
        // The histogram of the seconds before has steps of 0.1 %.
        assert!((found.in_time - 0.3).abs() < 1e-3, "{found:?}");
        near(found.service_lost.value().unwrap(), 0.06);
        late.stage.measurement.seconds = vec![slow(4)];
        near(outage(&late).unwrap().in_time, 0.1);
        near(lost(&late).value().unwrap(), 0.6);
    }

    #[test]
    fn operations_are_compared_with_what_was_due() {
        let always = served(|_| 8);
        let found = outage(&always).unwrap();
        near(found.lost_share, 0.2);
        near(found.service_lost.value().unwrap(), 0.2 * 17.0);
        assert_eq!((found.failed, found.unknown), (340, 0), "those from the fault on");
    }

    #[test]
    fn failures_of_unknown_outcome_before_the_fault_do_not_count() {
        let mut of = served(|_| 8);
        let measurement = &mut of.stage.measurement;
        let figures = measurement.operations.get_mut("put").unwrap();
        figures.errors.entry(ErrorKind::Status).or_default().count = 200;
        figures.errors.entry(ErrorKind::Timeout).or_default().count = 200;
        measurement.steps.unknown = vec![1; 200];
        let found = outage(&of).unwrap();
        assert_eq!((found.failed, found.unknown), (170, 170));
    }

    #[test]
    fn service_that_is_still_being_lost_at_the_end_is_a_lower_bound() {
        let lasting = served(|time| if time < 3.0 { 10 } else { 5 });
        near(lost(&lasting).least, 8.5);
        assert_eq!((lost(&lasting).most, outage(&lasting).unwrap().full_rate), (None, None));
        let mut at_once = lasting;
        at_once.hits[0].from = 0.0;
        near(lost(&at_once).value().expect("the earlier rate is unknown"), 8.5);
    }

    #[test]
    fn stalls_of_the_generator_bound_the_service_lost() {
        let mut injection = injection((3.0, 4.5), 4.5);
        let stall = |thread, from, seconds| GeneratorStall { thread, from, seconds };
        injection.stage.measurement.stalls = vec![stall(0, 6.0, 0.1), stall(1, 6.0, 0.1)];
        near(lost(&injection).value().expect("less than a tenth of each thread"), 1.5);
        injection.stage.measurement.stalls = vec![stall(0, 2.0, 1.2), stall(0, 9.0, 0.3)];
        near(lost(&injection).least, 1.0);
        near(lost(&injection).most.unwrap(), 1.5);
        injection.stalls_explained = Some("the system's own nodes".into());
        near(lost(&injection).value().expect("the nodes did it"), 1.5);
    }

    #[test]
    fn recovery_ends_when_it_stays() {
        let relapsing = served(|time| match time {
            _ if (3.0..4.0).contains(&time) || (10.0..12.0).contains(&time) => 0,
            _ => 10,
        });
        near(outage(&relapsing).unwrap().full_rate.unwrap(), 5.0);
        let pausing = served(|time| match time {
            _ if (3.0..4.0).contains(&time) || (15.0..15.3).contains(&time) => 0,
            _ => 10,
        });
        near(outage(&pausing).unwrap().full_rate.unwrap(), 0.0);
        let slower = served(|time| if (3.0..10.0).contains(&time) { 10 } else { 9 });
        near(outage(&slower).unwrap().full_rate.unwrap(), 0.0);
        let lasting =
            served(|time| if (3.0..4.0).contains(&time) { 0 } else { 10 - u64::from(time > 8.0) });
        assert_eq!(outage(&lasting).unwrap().full_rate, None, "most later seconds have 90 %");
        let mut tail = injection((3.0, 4.5), 4.5);
        let mut back = |later: [u64; 13]| {
            let slow = [2, 2, 2, 9, 9, 9, 9].into_iter().chain(later);
            let seconds = (0..).zip(slow).map(|(place, ms)| second(place, 2000, ms));
            tail.stage.measurement.seconds = seconds.collect();
            outage(&tail).unwrap().tail_back
        };
        // The p99 of a second is ten times these milliseconds. In time is within 100 ms.
        assert_eq!(back([2, 2, 9, 2, 2, 2, 2, 2, 2, 9, 2, 2, 2]), Some(0.0), "single seconds");
        assert_eq!(back([2, 2, 20, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), Some(3.0), "not in time");
        assert_eq!(back([2, 2, 9, 9, 9, 9, 9, 9, 9, 2, 2, 2, 9]), Some(9.0), "mostly slow before");
        assert_eq!(back([2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 20]), None, "not at the end");
    }

    #[test]
    fn silence_that_began_before_the_fault_counts_from_the_fault_on() {
        let found = outage(&injection((2.0, 4.5), 4.5)).unwrap();
        assert_eq!((found.seconds, found.first_success), (Some(1.5), Some(1.5)));
    }

    /// Returns a second with this many operations that took a time, and a twentieth of them ten times as long.
    fn second(second: u32, count: u64, milliseconds: u64) -> Second {
        let mut response = Latencies::default();
        response.record_many(Duration::from_millis(milliseconds), count - count / 20);
        response.record_many(Duration::from_millis(milliseconds * 10), count / 20);
        let (response, service) = (response.pack(), Latencies::default().pack());
        let figures = SecondFigures { verified: count, errors: 0, response, service, failed: None };
        Second { second, operations: [("put".to_owned(), figures)].into() }
    }

    #[test]
    fn latency_is_back_by_the_percentile_that_each_second_supports() {
        let of = |count: u64| {
            let mut injection = injection((3.0, 4.5), 8.5);
            let slow = [2, 2, 2, 9, 9, 9, 9, 9, 5].into_iter().chain([3; 11]);
            let seconds = (0..).zip(slow).map(|(place, ms)| second(place, count, ms));
            injection.stage.measurement.seconds = seconds.collect();
            injection
        };
        let back = |count: u64| {
            let found = outage(&of(count)).unwrap();
            (found.tail, found.tail_back)
        };
        // The fault ended at 7 s, and the second from 9 s on is the first within twice of before.
        assert_eq!(back(2000), ("p99", Some(2.0)));
        assert_eq!(back(600), ("p95", Some(2.0)));
        assert_eq!(back(30), ("p50", Some(2.0)));
        assert_eq!(back(15), ("p50", None));
        let mut uneven = of(2000);
        uneven.stage.measurement.seconds[1] = second(1, 150, 2);
        assert_eq!(tail_before(&uneven).0, "p90", "each second before the fault counts");
        assert_eq!(outage_by(&of(2000), ("p90", 0.9)).unwrap().tail_back, Some(2.0));
    }

    #[test]
    fn outage_that_ends_with_a_stall_of_the_generator_does_not_count() {
        let mut injection = injection((3.0, 4.5), 8.5);
        let blamed =
            |injection: &Injection| blamed_on_generator(injection, &outage(injection).unwrap());
        let mut stall = |from: f64, seconds: f64| {
            injection.stage.measurement.stalls = vec![GeneratorStall { thread: 0, from, seconds }];
            blamed(&injection)
        };
        assert_eq!(stall(3.1, 1.0), None, "it was over long before the end");
        assert_eq!(stall(4.49, 0.014), None, "it is a hundredth of the outage");
        let why = stall(4.3, 0.2).unwrap();
        assert!(
            why.contains("stood still for 200 ms at the end of an outage of 1,500 ms"),
            "{why}"
        );
        injection.stalls_explained = Some("the system's own nodes used 1.90 s".into());
        assert_eq!(blamed(&injection), None, "the system caused it");
    }

    #[test]
    fn injection_is_left_out_for_its_own_faults_alone() {
        let why = |change: fn(&mut Injection)| {
            let mut one = injection((3.0, 4.5), 8.5);
            change(&mut one);
            left_out(&one, &outage(&one).unwrap()).unwrap_or_default()
        };
        assert_eq!(why(|_| {}), "");
        assert_eq!(why(|one| one.unproven = Some("no leader".into())), "no leader");
        let used_up = why(|one| one.stage.measurement.keys_exhausted = true);
        assert!(used_up.contains("unique keys ran out"), "{used_up}");
        let interrupted = why(|one| one.stage.measurement.interrupted = true);
        assert_eq!(interrupted, "interrupted before its end");
        let busy = why(|one| one.stage.measurement.generator_busiest = 0.95);
        assert!(busy.contains("busiest thread used 95.0 %"), "{busy}");
        let stalled = why(|one| {
            let stall = GeneratorStall { thread: 0, from: 4.3, seconds: 0.2 };
            one.stage.measurement.stalls = vec![stall];
        });
        assert!(stalled.contains("stood still for 200 ms"), "{stalled}");
    }

    #[test]
    fn clients_of_the_broken_node_have_an_outage_of_their_own() {
        let mut injection = injection((3.0, 4.5), 8.5);
        injection.hits[0].nodes = vec!["kv-2".into()];
        let measurement = &mut injection.stage.measurement;
        let target =
            |node: &str| TargetFigures { node: node.into(), verified: 800, ..Default::default() };
        measurement.targets = vec![target("a:1"), target("b:1")];
        let silences = |all: &[(f64, f64)]| {
            all.iter().map(|&(from, seconds)| Silence { from, seconds }).collect::<Vec<_>>()
        };
        measurement.part_silences = vec![
            // It began before the fault, and is shorter after it than the other.
            PartSilences {
                part: LoadPart::Node("a:1".into()),
                silences: silences(&[(0.5, 2.9), (5.0, 0.5)]),
            },
            PartSilences { part: LoadPart::Node("b:1".into()), silences: silences(&[(3.1, 16.9)]) },
            // 1,690 successes in 20 s: less than 118 ms is usual.
            PartSilences {
                part: LoadPart::Operation("put".into()),
                silences: silences(&[(4.0, 0.1)]),
            },
        ];
        let found = part_outages(&injection, &["kv-1".into(), "kv-2".into()]);
        let [one, two, put] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&one.part, one.broken), (&LoadPart::Node("kv-1".into()), false));
        assert!((one.seconds.unwrap() - 0.5).abs() < 1e-9 && !one.lasted, "{one:?}");
        assert_eq!(
            (&two.part, two.broken, two.lasted),
            (&LoadPart::Node("kv-2".into()), true, true)
        );
        assert!((two.seconds.unwrap() - 16.9).abs() < 1e-9, "{two:?}");
        assert_eq!(put.seconds, None);
        let usual = 10.0 * 20.0 / 1690.0;
        near(put.length().most.unwrap(), usual);
    }

    #[test]
    fn faults_of_a_sequence_have_outages_of_their_own() {
        let mut injection = injection((3.0, 4.5), 8.5);
        let hit = |fault: &str, from, to| FaultHit {
            fault: Some(fault.into()),
            from,
            to: Some(to),
            ..FaultHit::default()
        };
        injection.hits = vec![
            hit("paused", 3.0, 5.0),
            hit("rolling", 9.0, 9.5),
            hit("rolling", 11.0, 11.5),
            hit("kept", 15.0, 15.1),
        ];
        injection.stage.measurement.silences.push(Silence { from: 11.2, seconds: 2.0 });
        let steps = step_outages(&injection);
        let seen: Vec<_> = steps.iter().map(|one| (&*one.fault, one.from, one.healed)).collect();
        let expected =
            [("paused", 3.0, Some(5.0)), ("rolling", 9.0, Some(11.5)), ("kept", 15.0, Some(15.1))];
        assert_eq!(seen, expected);
        let lengths: Vec<Option<f64>> = steps.iter().map(|one| one.seconds).collect();
        assert!((lengths[1].unwrap() - 2.0).abs() < 1e-9, "{lengths:?}");
        assert_eq!((lengths[0], lengths[2]), (Some(1.5), None));
        assert_eq!(outage(&injection).unwrap().seconds, lengths[1], "the longest of all");
        injection.hits.iter_mut().for_each(|hit| hit.fault = None);
        assert_eq!(step_outages(&injection), []);
    }

    #[test]
    fn outage_without_an_end_lasts_until_the_load_ends() {
        let mut injection = injection((3.0, 20.0), 20.0);
        injection.stage.measurement.silences.clear();
        injection.stage.measurement.silent_from = Some(3.0);
        let found = outage(&injection).unwrap();
        assert_eq!((found.seconds, found.lasted), (Some(17.0), true));
        assert_eq!((found.first_success, found.full_rate), (None, None));
        injection.hits.clear();
        assert_eq!(outage(&injection), None);
    }
}
