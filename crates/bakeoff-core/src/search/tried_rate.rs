//! Decides if a load at some rate kept an objective.
//!
//! It did if every condition is known to hold, at least 99 % of the due operations succeeded in time, nothing failed
//! (unless the objective itself covers errors), and the measurement is valid. A generator that could not keep up says
//! nothing about the server.
//!
//! Not here: the choice of rates (`search`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionResult, Figures};
use crate::measurement::Measurement;
use crate::study::ERRORS_MAX;
use crate::units::{count_text, figure_text, latency_text, rate_text, share_text};
use crate::validity::{gave_out, generator_limits, unserved};

/// Share of failures above which most requests failed.
const MOST: f64 = 0.5;
/// Minimum share of an open load's rate that a server must answer for the rate to count as achieved.
const ACHIEVED_MIN: f64 = 0.99;

/// Holds the result of one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedRate {
    /// Operations per second.
    pub rate: f64,
    /// True for the longer second try of a winner.
    #[serde(default)]
    pub confirming: bool,
    /// Reasons why the objective was broken; empty if it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken_by: Vec<String>,
    /// True if the objective was broken while the machine or the generator was disturbed, so the try says nothing
    /// about the server.
    #[serde(default)]
    pub void: bool,
    /// Disturbances of the machine or the generator during the try, even if the objective was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed_by: Vec<String>,
}

impl TriedRate {
    /// Judges a measurement at a rate by an objective.
    pub fn judged(
        rate: f64,
        confirming: bool,
        measurement: &Measurement,
        objective: &[Condition],
    ) -> Self {
        let figures = Figures::from_measurement(measurement);
        let mut broken_by = Vec::new();
        for condition in objective {
            match condition.check(&figures) {
                ConditionResult::Holds(_) => {}
                ConditionResult::HoldsNot(seen) | ConditionResult::Unknown(seen) => {
                    broken_by.push(seen)
                }
            }
        }
        let about_errors = objective.iter().any(Condition::is_about_errors);
        let errors_max = if about_errors { MOST } else { ERRORS_MAX };
        broken_by.extend(invalid_because(measurement, errors_max));
        // Unsent operations are late, not failed. They count in the percentiles and in the share below.
        let failed = measurement.failed_count();
        if failed > 0 && !about_errors {
            broken_by.push(format!("{} failed", count_text(failed)));
        }
        if let Some(share) = achieved(rate, measurement).filter(|&share| share < ACHIEVED_MIN) {
            let share = figure_text(share * 100.0);
            broken_by.push(format!("only {share} % of the rate was answered with success"));
        }
        Self { rate, confirming, broken_by, void: false, disturbed_by: Vec::new() }
            .disturbed_by(generator_limits(measurement))
    }

    /// Adds disturbances of the machine or the generator during the try.
    pub fn disturbed_by(mut self, reasons: impl IntoIterator<Item = String>) -> Self {
        self.disturbed_by.extend(reasons);
        self.void = !self.kept() && !self.disturbed_by.is_empty();
        self
    }

    /// Returns true if it kept the objective.
    pub fn kept(&self) -> bool {
        self.broken_by.is_empty()
    }

    /// Formats it for progress: `2,000/s: kept`.
    pub fn text(&self) -> String {
        let rate = rate_text(self.rate);
        let again = if self.confirming { ", again and for longer" } else { "" };
        let why = self.broken_by.first().map_or("", String::as_str);
        match (self.kept(), self.void) {
            (true, _) => format!("{rate}{again}: kept"),
            (false, true) => {
                let why = self.disturbed_by.first().map_or(why, String::as_str);
                format!("{rate}{again}: void, {why}")
            }
            (false, false) => format!("{rate}{again}: broken, {why}"),
        }
    }

    /// Returns the lowest rate above `rate` whose last try broke the objective. A rate that was kept the second time
    /// is not included.
    pub fn broken_above<'a>(
        tries: impl DoubleEndedIterator<Item = &'a Self>,
        rate: f64,
    ) -> Option<&'a Self> {
        let mut seen = Vec::new();
        let last = tries.rev().filter(|one| {
            let is_last = !seen.contains(&one.rate);
            seen.push(one.rate);
            is_last
        });
        let broken = last.filter(|one| one.rate > rate && !one.kept());
        broken.min_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

/// Explanation of a [`far_below`] result.
pub const ABRUPT: &str = "its capacity or a disturbance bounds the rate; search again to find out";

/// Largest share of its limit at which a latency is far below it.
const FAR_BELOW: f64 = 0.1;

/// Returns the latency nearest to its limit, if even that one is far below: `p99 is 183 µs, far below what p99 < 20ms
/// allows`. Then something abrupt bounds the rate, such as the system's capacity or a disturbance. Returns `None` if
/// a latency is near its limit, or unknown.
pub fn far_below(objective: &[Condition], measurement: &Measurement) -> Option<String> {
    let figures = Figures::from_measurement(measurement);
    let bounds = objective.iter().filter_map(|one| Some((one, one.latency_max()?)));
    let seen: Vec<(&Condition, Duration, f64)> = bounds
        .map(|(one, limit)| {
            let latency = one.latency_of(&figures)?;
            Some((one, latency, latency.as_secs_f64() / limit.as_secs_f64()))
        })
        .collect::<Option<_>>()?;
    let (nearest, latency, share) = seen.into_iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let (name, latency) = (nearest.name(), latency_text(latency));
    (share <= FAR_BELOW).then(|| format!("{name} is {latency}, far below what {nearest} allows"))
}

/// Returns why a measurement is not valid; empty if it is. `errors_max` is the largest allowed share of failed
/// requests. Unsent requests are late, not failed, unless they are the majority.
pub fn invalid_because(measurement: &Measurement, errors_max: f64) -> Vec<String> {
    let mut reasons = Vec::new();
    if measurement.interrupted {
        reasons.push("interrupted before its end".to_owned());
    }
    let failed = measurement.error_count();
    let all = measurement.verified() + failed;
    let sent = measurement.failed_count();
    let share = sent as f64 / (measurement.verified() + sent).max(1) as f64;
    if all == 0 {
        reasons.push("no request ended in the measured time".to_owned());
    } else if failed as f64 > MOST * all as f64 {
        let (failed, all) = (count_text(failed), count_text(all));
        reasons.push(format!("most requests failed: {failed} of {all}"));
    } else if share > errors_max {
        let limit = share_text(errors_max);
        reasons.push(format!("{} of the requests failed, and {limit} may", share_text(share)));
    }
    reasons.extend(unserved(measurement));
    reasons.extend(gave_out(measurement));
    reasons.extend(generator_limits(measurement));
    reasons
}

/// Returns the share of operations due in the window at this rate that succeeded in time. Operations normally in
/// flight at the end are not backlog: by Little's law the rate times the median service time, plus one. Returns
/// `None` without answers.
fn achieved(rate: f64, measurement: &Measurement) -> Option<f64> {
    let total = measurement.total();
    let due = measurement.verified() + measurement.error_count();
    let service = total.service.quantile(0.5).filter(|_| total.verified > 0)?;
    let under_way = (rate * service.as_secs_f64()).ceil() + 1.0;
    let answered = total.verified_in_window as f64 + under_way.min(total.verified as f64);
    (due > 0).then(|| (answered / due as f64).min(total.verified as f64 / due as f64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measurement::{ErrorKind, OperationFigures};

    /// Returns a second at a rate with this service time.
    fn second(rate: u64, micros: u64) -> Measurement {
        let mut figures = OperationFigures { verified: rate, ..OperationFigures::default() };
        figures.verified_in_window = rate;
        figures.response.record_many(Duration::from_micros(micros), rate);
        figures.service.record_many(Duration::from_micros(micros), rate);
        Measurement {
            window: Duration::from_secs(1),
            operations: [("request".to_owned(), figures)].into(),
            ..Measurement::default()
        }
    }

    #[track_caller]
    fn check(measurement: &Measurement, objective: &[&str], expected: &[&str], void: bool) {
        let objective: Vec<Condition> =
            objective.iter().map(|text| text.parse().unwrap()).collect();
        let tried = TriedRate::judged(1000.0, false, measurement, &objective);
        assert_eq!(
            (tried.broken_by.iter().map(String::as_str).collect(), tried.void),
            (expected.to_vec(), void)
        );
    }

    #[test]
    fn keeps_objectives_known_to_hold() {
        check(&second(1000, 5000), &["p99 < 20ms", "mean <= 10ms"], &[], false);
        check(&second(1000, 30_000), &["p99 < 20ms"], &["p99 is 30.0 ms"], false);
    }

    #[test]
    fn latencies_far_below_the_objective_are_reported() {
        let distance = |micros, objective: &[&str]| {
            let objective: Vec<_> = objective.iter().map(|text| text.parse().unwrap()).collect();
            far_below(&objective, &second(1000, micros))
        };
        let far = "p99 is 1.00 ms, far below what p99 < 20ms allows";
        assert_eq!(distance(1000, &["p99 < 20ms"]).as_deref(), Some(far));
        assert_eq!(
            distance(1000, &["errors < 1%", "p50 < 1s", "p99 < 20ms"]).as_deref(),
            Some(far)
        );
        assert_eq!(distance(3000, &["p99 < 20ms"]), None);
        assert_eq!(distance(1000, &["p99 < 20ms", "p50 < 2ms"]), None);
        assert_eq!(distance(1000, &["errors < 1%"]), None);
        assert_eq!(distance(1000, &["p99 > 20ms"]), None);
    }

    #[test]
    fn failure_breaks_every_objective_except_on_errors() {
        let mut failing = second(995, 5000);
        let figures = failing.operations.get_mut("request").unwrap();
        figures.errors.entry(ErrorKind::Status).or_default().count = 5;
        check(&failing, &["p99 < 20ms"], &["5 failed"], false);
        check(&failing, &["p99 < 20ms", "errors < 1%"], &[], false);
    }

    #[test]
    fn dropped_operations_are_late_not_failed() {
        let with_dropped = |count: u64| {
            let mut late = second(1000 - count, 5000);
            let figures = late.operations.get_mut("request").unwrap();
            figures.errors.entry(ErrorKind::Dropped).or_default().count = count;
            late
        };
        check(&with_dropped(2), &["p99 < 20ms"], &[], false);
        let mut many = second(9980, 5000);
        let figures = many.operations.get_mut("request").unwrap();
        figures.errors.entry(ErrorKind::Dropped).or_default().count = 20;
        let why = "p99.9 is unknown: 0.20 % failed";
        check(&many, &["p99.9 < 20ms"], &[why], false);
        check(&with_dropped(2), &["p99 < 20ms", "errors < 0.1%"], &["errors is 0.20 %"], false);
    }

    #[test]
    fn rate_that_was_not_answered_in_time_is_not_kept() {
        let mut late = second(1000, 2000);
        late.operations.get_mut("request").unwrap().verified_in_window = 900;
        let why = "only 90.4 % of the rate was answered with success";
        check(&late, &["p99 < 20ms"], &[why], false);
    }

    #[test]
    fn tries_limited_by_the_generator_are_void() {
        let mut busy = second(1000, 5000);
        busy.generator_busiest = 0.97;
        let tried = TriedRate::judged(1000.0, true, &busy, &["p99 < 20ms".parse().unwrap()]);
        assert!(tried.void && tried.confirming && tried.broken_by[0].contains("busiest thread"));
        let nothing = Measurement::default();
        let why = ["p99 is unknown: there was no success", "no request ended in the measured time"];
        check(&nothing, &["p99 < 20ms"], &why, false);
    }

    #[test]
    fn disturbed_machine_voids_only_broken_tries() {
        let objective = ["p99 < 20ms".parse().unwrap()];
        let tried = |micros| {
            let tried = TriedRate::judged(1000.0, false, &second(1000, micros), &objective);
            tried.disturbed_by(["the hypervisor took a CPU".to_owned()])
        };
        let (kept, broken) = (tried(5000), tried(30_000));
        assert!(kept.kept() && !kept.void && kept.disturbed_by.len() == 1);
        assert!(!broken.kept() && broken.void);
        assert_eq!(broken.text(), "1,000/s: void, the hypervisor took a CPU");
    }

    #[test]
    fn lowest_broken_rate_above_another_uses_the_last_try() {
        let tried = |rate, broken: &[&str], void| TriedRate {
            rate,
            confirming: false,
            broken_by: broken.iter().map(|&why| why.to_owned()).collect(),
            void,
            disturbed_by: Vec::new(),
        };
        let tries = [
            tried(8.0, &["a"], false),
            tried(4.0, &[], false),
            tried(6.0, &["b"], true),
            tried(6.0, &["c"], false),
        ];
        let found = TriedRate::broken_above(tries.iter(), 4.0).unwrap();
        assert_eq!(found.broken_by, ["c"]);
        assert_eq!(TriedRate::broken_above(tries.iter(), 8.0), None);
        let again = [tried(6.0, &["b"], true), tried(6.0, &[], false), tried(8.0, &["a"], false)];
        assert_eq!(
            TriedRate::broken_above(again.iter(), 4.0).unwrap().rate,
            8.0,
            "6 was kept after all"
        );
    }
}
