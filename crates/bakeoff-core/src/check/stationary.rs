//! Checks that a stage measured the same behaviour from start to end.
//!
//! The check compares seconds: throughput, and the median response time. Two findings make a trial not valid. If an
//! early part differs from the rest, the warm-up was too short, and the finding states by how much. If there is a
//! trend over the whole stage, no single figure describes it. Both must be large and exceed the scatter of the
//! seconds. Consecutive seconds are correlated, so the bounds are wide. On simulated noise with a coefficient of
//! variation of 10 % and a correlation of 0.5 between seconds, fewer than 1 % of stages of 5 to 60 seconds fail.
//!
//! Logarithms of the figures are compared, so changes are ratios. The trend is Theil's and Sen's, the median of all
//! slopes, with the test of Mann and Kendall. The scatter comes from the differences between neighbours after removing
//! the trend.
//!
//! A window of fewer than five seconds is compared with the last second of its warm-up. In a longer window of a closed
//! load, early seconds count only if that last second resembles them. If it does not, the system was warm and then
//! paused, for example for a snapshot.
//!
//! Not here: other checks of the measurement (`measured`).

use std::time::Duration;

use crate::measurement::{Measurement, Second};
use crate::record::StageRecord;
use crate::study::{Load, Stop};
use crate::units::{duration_text, figure_text};
use crate::verdict::Verdict;

/// Minimum number of whole seconds for a judgement.
const SECONDS_MIN: usize = 5;
/// Maximum window in seconds for a judgement: eleven days.
const SECONDS_MAX: u32 = 1_000_000;
/// Minimum change over the stage, in multiples of the scatter, for up to [`MANY`] seconds.
const TREND: f64 = 5.0;
/// Number of seconds above which the minimum change falls with the root of their number.
const MANY: f64 = 15.0;
/// Minimum relevant change as a logarithm: 20 %.
const CHANGE_MIN: f64 = 0.182;
/// Minimum statistic of Mann's and Kendall's test; five seconds in perfect order have 2.45.
const ORDER: f64 = 2.4;
/// Minimum difference of one early second, and of several, in multiples of the scatter.
const EARLY: (f64, f64) = (6.0, 4.5);
/// Minimum scatter assumed for few seconds, and for [`MANY`].
const SCATTER_MIN: (f64, f64) = (0.1, 0.08);
/// Factor from the median absolute difference of neighbours to the standard deviation of correlated seconds: neighbours
/// differ less than distant seconds.
const SCATTER: f64 = 1.5 / (0.6745 * std::f64::consts::SQRT_2);
/// Minimum value of a second relative to the median. A second without successes is a stall, not a trend.
const LEAST_PART: f64 = 0.05;

/// Minimum length of a warm-up, and of a window, for a comparison of the two.
const JUDGED_MIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(1));

/// Describes the course of one stage's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    Level,
    /// Number of early seconds that differ, and their ratio to the rest.
    Early(usize, f64),
    /// Factor by which the figures changed from start to end.
    Trend(f64),
}

/// Checks that every stage of a load was stationary.
pub(super) fn stationary(load: &Load, open: bool, stages: &[StageRecord]) -> Verdict {
    if load.warmup.is_zero() && matches!(load.stop, Stop::Operations(_)) {
        let why = "the load is a whole job from a cold start, and has no steady state to check";
        return Verdict::NotChecked(why.to_owned());
    }
    let mut short = 0;
    for stage in stages {
        let measured = &stage.measurement;
        let Some(seconds) = whole_seconds(measured) else {
            match next_to_warmup(load, measured) {
                Some(Some(why)) => return Verdict::Failed(why),
                Some(None) => {}
                None => short += 1,
            }
            continue;
        };
        let rates: Vec<f64> = seconds.iter().map(|second| second_rate(*second)).collect();
        let before = rate_before(load, measured).filter(|_| !open);
        // If operations arrive faster than they are served, waits grow because of the load.
        let responses = responses(&seconds).filter(|_| !open || kept_up(measured));
        let series = [("throughput", Some(rates.clone())), ("the median response time", responses)];
        for (what, series) in series.into_iter().filter_map(|(what, series)| Some((what, series?)))
        {
            let course = match (course(&series), before) {
                (Course::Early(count, _), Some(before)) if was_warm(before, &rates, count) => {
                    continue;
                }
                (course, _) => course,
            };
            if let Some(why) = accusation(load, course, series.len()) {
                let at = match stages.len() {
                    1 => String::new(),
                    _ => format!(" at {} clients", stage.clients),
                };
                return Verdict::Failed(format!("{what}{at} {why}"));
            }
        }
    }
    match short {
        0 if !stages.is_empty() => Verdict::Passed,
        _ if short == stages.len() => {
            Verdict::NotChecked(format!("fewer than {SECONDS_MIN} whole seconds were measured"))
        }
        _ => Verdict::NotChecked(format!(
            "{short} of {} stages lasted fewer than {SECONDS_MIN} whole seconds",
            stages.len()
        )),
    }
}

/// Compares the throughput of a short window with that of the end of the warm-up. Returns the fault if they differ, and
/// `None` if either is too short to say. On the same simulated noise as above fewer than 1 % of windows fail.
fn next_to_warmup(load: &Load, measured: &Measurement) -> Option<Option<String>> {
    if measured.window < JUDGED_MIN.1 || measured.interrupted {
        return None;
    }
    let before = rate_before(load, measured)?;
    let (count, within) = (measured.last_of_warmup as f64, measured.verified_in_window() as f64);
    if within == 0.0 {
        return None;
    }
    // Few operations scatter by chance as well.
    let scatter = (SCATTER_MIN.0.powi(2) + count.recip() + within.recip()).sqrt();
    let ratio = before / (within / measured.window.as_secs_f64());
    Some((ratio.ln().abs() > EARLY.0 * scatter).then(|| {
        format!(
            "throughput was {} the window's in the last {} before it: the warm-up of {} was too short",
            times(ratio),
            duration_text(load.warmup.min(Duration::from_secs(1))),
            duration_text(load.warmup)
        )
    }))
}

/// Returns the throughput of the end of the warm-up; `None` if that was too short to say.
fn rate_before(load: &Load, measured: &Measurement) -> Option<f64> {
    let last = load.warmup.min(Duration::from_secs(1)).as_secs_f64();
    let counted = load.warmup >= JUDGED_MIN.0 && measured.last_of_warmup > 0;
    counted.then(|| measured.last_of_warmup as f64 / last)
}

/// Returns true if the throughput at the end of the warm-up is nearer to that of the late seconds than to that of the
/// `early` ones, or beyond it.
fn was_warm(before: f64, rates: &[f64], early: usize) -> bool {
    let (first, rest) = rates.split_at(early);
    let least = LEAST_PART * median(rates);
    let log = |rate: f64| rate.max(least).ln();
    let (first, rest) = (log(median(first)), log(median(rest)));
    (log(before) - rest) / (first - rest) < 0.5
}

/// Returns the whole seconds of a window, if there are enough; `None` for a second without operations.
fn whole_seconds(measured: &Measurement) -> Option<Vec<Option<&Second>>> {
    let whole = u32::try_from(measured.window.as_secs()).unwrap_or(u32::MAX);
    if (whole as usize) < SECONDS_MIN || whole > SECONDS_MAX || measured.seconds.is_empty() {
        return None;
    }
    let find = |second: u32| {
        let place = measured.seconds.binary_search_by_key(&second, |slice| slice.second);
        place.ok().map(|place| &measured.seconds[place])
    };
    Some((0..whole).map(find).collect())
}

fn second_rate(second: Option<&Second>) -> f64 {
    second.map_or(0.0, |second| second.verified() as f64)
}

/// Returns the median response time of each second, in seconds, or its lower bound; `None` unless every second has
/// one.
fn responses(seconds: &[Option<&Second>]) -> Option<Vec<f64>> {
    let median = |second: &Option<&Second>| {
        Some((*second)?.responses().ok()?.at(0.5).least()?.as_secs_f64())
    };
    seconds.iter().map(median).collect()
}

/// Returns true if nearly all due operations ended within the window.
fn kept_up(measured: &Measurement) -> bool {
    let total = measured.total();
    let all = total.verified + total.error_count();
    total.verified_in_window as f64 >= 0.99 * all as f64
}

/// Returns the fault of a series of `count` figures; `None` if it is level.
fn accusation(load: &Load, course: Course, count: usize) -> Option<String> {
    match course {
        Course::Level => None,
        Course::Early(seconds, ratio) => {
            let needed = load.warmup + Duration::from_secs(seconds as u64);
            Some(format!(
                "was {} the rest's in the first {seconds} of {count} seconds: the warm-up of {} was \
                 too short, {} would have done",
                times(ratio),
                duration_text(load.warmup),
                duration_text(needed)
            ))
        }
        Course::Trend(ratio) => {
            let rose = if ratio > 1.0 { "rose" } else { "fell" };
            Some(format!(
                "{rose} all the time, to {} what it was {count} seconds before: no single figure describes it",
                times(ratio)
            ))
        }
    }
}

/// Formats a ratio: `0.62 times`.
fn times(ratio: f64) -> String {
    format!("{} times", figure_text(ratio))
}

/// Returns the course of at least [`SECONDS_MIN`] figures.
fn course(series: &[f64]) -> Course {
    let least = LEAST_PART * median(series);
    if least <= 0.0 {
        return Course::Level; // mostly zero, which other checks report
    }
    let logs: Vec<f64> = series.iter().map(|value| value.max(least).ln()).collect();
    if let Some(early) = early(&logs) {
        return early;
    }
    trend(&logs).map_or(Course::Level, |change| Course::Trend(change.exp()))
}

/// Returns the fewest early seconds that differ from a level rest.
fn early(logs: &[f64]) -> Option<Course> {
    let most = (logs.len() / 3).max(2);
    let differs = |&count: &usize| {
        let (first, rest) = logs.split_at(count);
        let low = rest.iter().copied().fold(f64::INFINITY, f64::min);
        let high = rest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let apart = first.iter().all(|&log| log < low) || first.iter().all(|&log| log > high);
        let limit = if count == 1 { EARLY.0 } else { EARLY.1 };
        let scatter = scatter(rest, 0.0).max(SCATTER_MIN.0);
        apart && (median(first) - median(rest)).abs() > limit * scatter
    };
    // Take the last of several counts that all differ: the rest after it is level.
    let count = (1..=most).rfind(differs)?;
    let (first, rest) = logs.split_at(count);
    if rest.len() >= SECONDS_MIN && trend(rest).is_some() {
        return None; // it is a trend instead
    }
    Some(Course::Early(count, (median(first) - median(rest)).exp()))
}

/// Returns the change over the whole stage as a logarithm, if it is large and not chance.
fn trend(logs: &[f64]) -> Option<f64> {
    let count = logs.len();
    let (mut slopes, mut order) = (Vec::new(), 0.0);
    for (place, before) in logs.iter().enumerate() {
        for (distance, after) in (1..).zip(&logs[place + 1..]) {
            slopes.push((after - before) / f64::from(distance));
            order += f64::from(u8::from(after > before)) - f64::from(u8::from(after < before));
        }
    }
    let slope = median(&slopes);
    let change = slope * (count - 1) as f64;
    let n = count as f64;
    let order = f64::abs(order) / (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let least = if n < MANY { SCATTER_MIN.0 } else { SCATTER_MIN.1 };
    let limit = TREND * (MANY / n).sqrt().min(1.0) * scatter(logs, slope).max(least);
    (change.abs() > limit.max(CHANGE_MIN) && order > ORDER).then_some(change)
}

/// Returns the standard deviation of figures around a line of this slope, estimated from neighbours.
fn scatter(logs: &[f64], slope: f64) -> f64 {
    let steps: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0] - slope).abs()).collect();
    median(&steps) * SCATTER
}

/// Returns the median; 0 without numbers.
fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::measurement::OperationFigures;

    #[test]
    fn level_figures_pass() {
        assert_eq!(course(&[100.0; 5]), Course::Level);
        assert_eq!(course(&[100.0, 90.0, 110.0, 95.0, 105.0, 100.0]), Course::Level);
        assert_eq!(course(&[0.0; 8]), Course::Level);
        // A stall is not a trend, at any position.
        for place in 1..8 {
            let mut series = [100.0; 8];
            series[place] = 0.0;
            assert_eq!(course(&series), Course::Level, "{place}");
        }
    }

    #[test]
    fn short_warm_up_is_reported_with_the_needed_length() {
        let series = [40.0, 55.0, 100.0, 103.0, 98.0, 101.0, 99.0, 102.0];
        let Course::Early(2, ratio) = course(&series) else { panic!("{:?}", course(&series)) };
        assert!(ratio > 0.4 && ratio < 0.5, "{ratio}");
        let Course::Early(1, _) = course(&[300.0, 100.0, 103.0, 98.0, 101.0]) else { panic!() };
    }

    #[test]
    fn pause_of_a_warm_system_is_no_short_warm_up() {
        let rates = [7251.0, 8130.0, 12785.0, 12780.0, 12026.0, 12392.0];
        let Course::Early(2, _) = course(&rates) else { panic!("{:?}", course(&rates)) };
        assert!(was_warm(13545.0, &rates, 2), "above the rest");
        assert!(was_warm(11000.0, &rates, 2), "near the rest");
        assert!(!was_warm(8000.0, &rates, 2), "as slow as the early seconds");
        assert!(!was_warm(3000.0, &rates, 2), "slower than the early seconds");
        let fell = [300.0, 100.0, 103.0, 98.0, 101.0];
        assert!(was_warm(99.0, &fell, 1) && !was_warm(290.0, &fell, 1));
    }

    fn short_load(warmup_ms: u32) -> Load {
        serde_json::from_value(serde_json::json!({
            "name": "l", "clients": [4], "arrivals": {"kind": "closed"}, "in_flight": 1,
            "stop": {"after": 2.5}, "warmup": f64::from(warmup_ms) / 1e3, "timeout": 1.0,
            "targets": "all"
        }))
        .expect("it is a load")
    }

    fn short_window(milliseconds: u64, before: u64, within: u64) -> Measurement {
        let figures =
            OperationFigures { verified_in_window: within, ..OperationFigures::default() };
        Measurement {
            window: Duration::from_millis(milliseconds),
            last_of_warmup: before,
            operations: [("put".to_owned(), figures)].into(),
            ..Measurement::default()
        }
    }

    #[test]
    fn short_window_is_compared_with_the_end_of_its_warm_up() {
        let judged = |warmup_ms, before, within| {
            next_to_warmup(&short_load(warmup_ms), &short_window(2500, before, within))
        };
        assert_eq!(judged(1000, 4_000, 10_000), Some(None));
        assert_eq!(judged(500, 2_000, 10_000), Some(None), "half a second");
        assert_eq!(judged(500, 1, 12), Some(None), "by chance");
        let why = "throughput was 0.24 times the window's in the last 500ms before it: the warm-up of 500ms was too short";
        assert_eq!(judged(500, 480, 10_000), Some(Some(why.to_owned())));
        assert_eq!(judged(400, 1, 10_000), None, "it had hardly begun");
        assert_eq!(judged(1000, 0, 10_000), None, "nothing was counted");
    }

    #[test]
    fn trend_is_distinguished_from_a_short_warm_up() {
        let series: Vec<f64> = (0..10).map(|second| 100.0 - 7.0 * f64::from(second)).collect();
        let Course::Trend(ratio) = course(&series) else { panic!("{:?}", course(&series)) };
        assert!(ratio > 0.3 && ratio < 0.5, "{ratio}");
        let small: Vec<f64> = (0..30).map(|second| 100.0 - 0.5 * f64::from(second)).collect();
        assert_eq!(course(&small), Course::Level, "15 %");
        let large: Vec<f64> = (0..30).map(|second| 100.0 - f64::from(second)).collect();
        assert!(matches!(course(&large), Course::Trend(_)), "29 %");
    }

    /// Returns the share of stages with this length and scatter that fail.
    fn accused(seconds: usize, scatter: f64, change: impl Fn(f64) -> f64) -> f64 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seconds as u64);
        let (all, correlated) = (2000, 0.5_f64);
        let accused = (0..all).filter(|_| {
            let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
            let mut last = noise();
            let series: Vec<f64> = (0..seconds)
                .map(|second| {
                    let place = (second as f64 + 0.5) / seconds as f64;
                    let value = change(place) * (scatter * last).exp();
                    last = correlated * last + (1.0 - correlated * correlated).sqrt() * noise();
                    value
                })
                .collect();
            course(&series) != Course::Level
        });
        accused.count() as f64 / f64::from(all)
    }

    #[test]
    fn noise_alone_fails_fewer_than_one_stage_of_a_hundred() {
        for seconds in [5, 7, 10, 15, 20, 30, 60] {
            for scatter in [0.03, 0.1] {
                let share = accused(seconds, scatter, |_| 1.0);
                assert!(share < 0.01, "{seconds} s at {scatter}: {share}");
            }
        }
    }

    #[test]
    fn noise_alone_fails_fewer_than_one_short_window_of_a_hundred() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let (scatter, correlated) = (0.1, 0.5_f64);
        for seconds in 1..=4 {
            let fails = || {
                let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
                let mut last = noise();
                let mut count = || {
                    let value = (1000.0 * (scatter * last).exp()) as u64;
                    last = correlated * last + (1.0 - correlated * correlated).sqrt() * noise();
                    value
                };
                let before = count();
                let within = (0..seconds).map(|_| count()).sum();
                next_to_warmup(&short_load(1000), &short_window(seconds * 1000, before, within))
                    == Some(None)
            };
            let failed = std::iter::repeat_with(fails).take(2000).filter(|passed| !passed).count();
            assert!(failed < 20, "{seconds} s: {failed} of 2,000");
        }
    }

    #[test]
    fn large_trend_fails() {
        let check = |seconds, change: fn(f64) -> f64, at_least: f64| {
            let share = accused(seconds, 0.05, change);
            assert!(share > at_least, "{seconds}: {share}");
        };
        check(30, |place| 1.0 - 0.4 * place, 0.95);
        check(15, |place| 1.0 - 0.6 * place, 0.95);
        check(30, |place| if place < 0.2 { 0.5 } else { 1.0 }, 0.95);
        check(10, |place| if place < 0.2 { 0.4 } else { 1.0 }, 0.8);
    }
}
