//! Judges a trial's validity by its own measurement.
//!
//! A search for a rate overloads the system on purpose. So these checks apply only to the tries that its answer rests
//! on: the one that confirmed it, and the lowest rate above that broke the objective.
//!
//! Injections of faults are judged as well, as far as a fault does not explain a failure: answers must be true while
//! nodes are down, and operations must succeed until the fault.
//!
//! Not here: samples of the machine, audits, injections that do not count (`crate::outage::left_out`).

use crate::measurement::{ErrorKind, Handshakes, Measurement};
use crate::outage;
use crate::plan;
use crate::record::{Injection, StageRecord, TrialRecord};
use crate::search::{FoundRate, TriedRate};
use crate::study::Load;
use crate::trial_samples::{Column, Series, TrialSamples};
use crate::units::{count_text, figure_text, plural, rate_text, share_text};
use crate::validity::{
    answers_waited, events_waited, gave_out, generator_busy, generator_stalled,
    generator_throttled, schedule_lagged, unserved,
};
use crate::verdict::{Check, CheckName, Verdict};
use crate::watch::{WatchCounts, WatchFigures};

use super::causes;
use super::stationary::stationary;

/// Maximum share of time that the generator's threads may work or wait for a CPU. Above it they hardly waited for the
/// servers.
const WORKED_OR_WAITED_MAX: f64 = 0.9;
/// Minimum share of that time that must be waiting for a CPU.
const WAITED_MIN: f64 = 0.5;

/// Returns all checks of a trial's load. `observed` holds the samples during the load.
pub fn measured(load: &Load, trial: &TrialRecord, observed: Option<&TrialSamples>) -> Vec<Check> {
    let mut checks = match load.find {
        Some(_) => searched(load, trial),
        None => loaded(load, &trial.stages, observed),
    };
    if !trial.injections.is_empty() {
        for check in &mut checks {
            excuse_drift(check, &trial.trial.system);
            judge_injections(check, load, &trial.injections);
        }
    }
    checks
}

/// Fails a check if an injection fails it.
///
/// The other checks are about throughput and latency, which come from the undisturbed load alone. A generator that was in
/// the way of an injection leaves it out ([`outage::left_out`]).
fn judge_injections(check: &mut Check, load: &Load, injections: &[Injection]) {
    let fails = |one: &Injection| {
        let stage = std::slice::from_ref(&one.stage);
        match check.name {
            CheckName::Answers => untrue(stage),
            CheckName::Watches => broken_watches(stage).into_failure(),
            CheckName::Errors => failed_before(one, load.errors_max),
            CheckName::Keys => keys_exhausted(stage),
            CheckName::Handshakes => each_visit_first(stage).into_failure(),
            _ => None,
        }
    };
    let mut failed = injections.iter().filter_map(|one| Some((one, fails(one)?)));
    let Some((first, why)) = failed.next() else { return };
    let also = match failed.count() {
        0 => String::new(),
        more => format!("; also in {}", plural(more as u64, "further injection")),
    };
    let why = format!("injection {} of `{}`: {why}{also}", first.repeat, first.fault);
    check.verdict = Verdict::Failed(match &check.verdict {
        Verdict::Failed(undisturbed) => format!("{undisturbed}; {why}"),
        Verdict::Passed | Verdict::NotChecked(_) => why,
    });
}

/// Returns a reason if more operations failed before a fault than a trial may have. From then on they are meant to fail.
fn failed_before(injection: &Injection, errors_max: f64) -> Option<String> {
    let before = outage::counts_before(injection)?;
    let share = before.errors as f64 / (before.verified + before.errors).max(1) as f64;
    (share > errors_max)
        .then(|| format!("{} of operations failed before the fault", share_text(share)))
}

/// Keeps a trial with faults valid although its undisturbed load drifted: a drift changes no outage.
fn excuse_drift(check: &mut Check, system: &str) {
    if let (CheckName::Stationary, Verdict::Failed(why)) = (check.name, &check.verdict) {
        let why =
            format!("outages are compared, and only {system}'s undisturbed load drifted: {why}");
        check.verdict = Verdict::NotChecked(why);
    }
}

/// Checks the tries of a search for a rate.
fn searched(load: &Load, trial: &TrialRecord) -> Vec<Check> {
    let stages = &trial.stages;
    let tries = || stages.iter().filter_map(|stage| stage.tried.as_ref());
    let bound = match trial.found {
        Some(FoundRate::Rate(rate)) => TriedRate::broken_above(tries(), rate),
        Some(FoundRate::Nothing(_) | FoundRate::Unsteady(_) | FoundRate::OutOfTime(_)) => {
            tries().next_back()
        }
        _ => None,
    };
    let generator = bound.filter(|bound| bound.void).map(|bound| {
        let rate = rate_text(bound.rate);
        let by_generator = bound.broken_by.iter().find(|why| why.contains("generator"));
        let why =
            bound.disturbed_by.first().or(by_generator).map_or("it was in the way", |why| why);
        format!("the server might keep its objective at {rate} and more: {why}")
    });
    let search = match trial.found {
        Some(FoundRate::Unsteady(_)) if generator.is_some() => None,
        Some(FoundRate::Unsteady(rate)) => Some(format!(
            "no stable rate: rates down to {} met the objective once and then missed it",
            rate_text(rate)
        )),
        Some(FoundRate::OutOfTime(rate)) => Some(format!(
            "its time was over before a rate was confirmed; {} kept the objective once",
            rate_text(rate)
        )),
        None => Some("the search did not finish".to_owned()),
        Some(FoundRate::Rate(_) | FoundRate::NoLimit(_) | FoundRate::Nothing(_)) => None,
    };
    let steady = match trial.found {
        Some(FoundRate::Rate(_)) => stationary(load, true, trial.figured()),
        _ => Verdict::NotChecked("no rate was found, so there is nothing to check".to_owned()),
    };
    let kept: Vec<StageRecord> = match trial.found {
        Some(FoundRate::Rate(_) | FoundRate::NoLimit(_)) => trial.figured().to_vec(),
        _ => Vec::new(),
    };
    let mut checks = vec![check(CheckName::Generator, generator), check(CheckName::Search, search)];
    checks.extend([
        check(CheckName::Answers, untrue(stages)),
        check(CheckName::Errors, failures(&kept, load.errors_max)),
        check(CheckName::Successes, no_success(stages).or_else(|| not_all_served(&kept))),
        check(CheckName::Keys, keys_exhausted(stages)),
        Check::new(CheckName::Stationary, steady),
    ]);
    checks
}

/// Creates a check that failed if there is a reason, and passed otherwise.
fn check(name: CheckName, failed: Option<String>) -> Check {
    Check::new(name, failed.map_or(Verdict::Passed, Verdict::Failed))
}

/// Returns why clients or nodes got no answers, throughout a stage or from some moment on.
fn not_all_served(stages: &[StageRecord]) -> Option<String> {
    let of =
        |stage: &StageRecord| unserved(&stage.measurement).or_else(|| gave_out(&stage.measurement));
    whole(stages).find_map(of)
}

/// Returns the stages that were not interrupted. Interrupted ones have too few answers to tell who got none.
fn whole(stages: &[StageRecord]) -> impl Iterator<Item = &StageRecord> {
    stages.iter().filter(|stage| !stage.measurement.interrupted)
}

fn no_success(stages: &[StageRecord]) -> Option<String> {
    let none = whole(stages).all(|stage| stage.measurement.verified() == 0);
    let was_cut_off = !stages.is_empty() && whole(stages).next().is_none();
    (none && !was_cut_off).then(|| {
        match stages.iter().find_map(|stage| unserved(&stage.measurement)) {
            Some(who) => format!("no operation succeeded: {who}"),
            None => "no operation succeeded".to_owned(),
        }
    })
}

fn keys_exhausted(stages: &[StageRecord]) -> Option<String> {
    stages
        .iter()
        .any(|stage| stage.measurement.keys_exhausted)
        .then(|| "the unique keys ran out before the load's end; raise `keys.count`, or take a larger `--scale`".to_owned())
}

fn loaded(load: &Load, stages: &[StageRecord], observed: Option<&TrialSamples>) -> Vec<Check> {
    let all = || stages.iter().map(|stage| &stage.measurement);
    let open = plan::load_kind(load) == "open";
    let busy = all().find_map(generator_busy).or_else(|| all().find_map(generator_throttled));
    let generator = busy.or_else(|| starved(load, stages, observed?));
    // Server faults come first, because the first reason is shown as the cause.
    let mut checks = vec![
        check(CheckName::Answers, untrue(stages)),
        check(CheckName::Errors, failures(stages, load.errors_max)),
        check(CheckName::Successes, no_success(stages).or_else(|| not_all_served(stages))),
        check(CheckName::Generator, generator),
        check(CheckName::Timers, all().find_map(generator_stalled)),
    ];
    let watches = all().any(|measurement| measurement.watch.is_some());
    if open {
        checks.push(check(CheckName::Schedule, all().find_map(schedule_lagged)));
    }
    if open || watches {
        let waited = all().filter(|_| open).find_map(answers_waited);
        let waited = waited.or_else(|| all().find_map(events_waited));
        checks.push(check(CheckName::ReceiveLag, waited));
    }
    if watches {
        checks.push(Check::new(CheckName::Watches, broken_watches(stages)));
    }
    checks.extend([
        check(CheckName::Keys, keys_exhausted(stages)),
        Check::new(CheckName::Stationary, stationary(load, open, stages)),
    ]);
    if !load.tls_resumption {
        checks.push(Check::new(CheckName::Handshakes, each_visit_first(stages)));
    }
    checks
}

/// Checks that no connection resumed a TLS session although resumption is off.
fn each_visit_first(stages: &[StageRecord]) -> Verdict {
    let mut handshakes = Handshakes::default();
    stages.iter().for_each(|stage| handshakes.merge(&stage.measurement.handshakes));
    let (all, resumed) = (handshakes.all(), handshakes.resumed);
    match (all, resumed) {
        (0, _) => Verdict::NotChecked("no connection used TLS".to_owned()),
        (_, 0) => Verdict::Passed,
        _ => Verdict::Failed(format!(
            "{} of {} connections resumed a TLS session although `tls-resumption` is off",
            count_text(resumed),
            count_text(all)
        )),
    }
}

/// Describes the guarantees that watches broke, and events without an explanation; `None` without any.
pub fn watch_faults(watch: &WatchFigures) -> Option<String> {
    if !watch.has_failed() {
        return None;
    }
    let broken = watch.broken();
    let mut faults: Vec<String> =
        broken.map(|(name, times)| format!("not {name} ({})", plural(times, "time"))).collect();
    if watch.counts.phantoms > 0 {
        let events = plural(watch.counts.phantoms, "event");
        faults.push(format!("{events} that no write of the load explains"));
    }
    let first = watch.counts.examples.first().map(|first| format!("; {first}"));
    Some(format!("{}{}", faults.join(", "), first.unwrap_or_default()))
}

/// Checks that watches kept the guarantees of their system.
fn broken_watches(stages: &[StageRecord]) -> Verdict {
    let watches = || stages.iter().filter_map(|stage| stage.measurement.watch.as_deref());
    if let Some(faults) = watches().find_map(watch_faults) {
        return Verdict::Failed(faults);
    }
    let sum = |count: fn(&WatchCounts) -> u64| watches().map(|watch| count(&watch.counts)).sum();
    match (sum(|counts| counts.unjudged), sum(|counts| counts.unfinished)) {
        (0, 0) => Verdict::Passed,
        (0, late) => Verdict::NotChecked(format!(
            "{} had not come when the watchers ended, and events still came",
            plural(late, "version")
        )),
        (many, _) => Verdict::NotChecked(format!(
            "{} were skipped, too many to judge each",
            plural(many, "version")
        )),
    }
}

/// Returns a description of wrong or stale answers.
fn untrue(stages: &[StageRecord]) -> Option<String> {
    let all = || stages.iter().map(|stage| &stage.measurement);
    let count = |kind| all().map(|stage| stage.errors_of(kind)).sum::<u64>();
    let (wrong, stale) = (count(ErrorKind::WrongValue), count(ErrorKind::StaleValue));
    (wrong + stale > 0).then(|| {
        let bad = |kind| matches!(kind, ErrorKind::WrongValue | ErrorKind::StaleValue);
        let first = all().flat_map(Measurement::error_examples).find(|&(kind, _)| bad(kind));
        let first = first.map_or("", |(_, example)| &example.what);
        let (wrong, stale) = (count_text(wrong), count_text(stale));
        match all().any(|stage| stage.errors_of(ErrorKind::StaleValue) > 0) {
            true => format!("{wrong} wrong and {stale} stale answers; {first}"),
            false => format!("{wrong} wrong answers; {first}"),
        }
    })
}

/// Returns a reason if more operations failed than a trial may have. Unsent operations do not count: an overload
/// leaves some of them behind, and that is a finding.
fn failures(stages: &[StageRecord], errors_max: f64) -> Option<String> {
    let all = || stages.iter().map(|stage| &stage.measurement);
    let verified: u64 = all().map(Measurement::verified).sum();
    let failed: u64 = all().map(Measurement::failed_count).sum();
    let share = failed as f64 / (verified + failed).max(1) as f64;
    (share > errors_max).then(|| {
        let known = |&(kind, _): &(ErrorKind, &_)| kind != ErrorKind::Dropped;
        let first = all().flat_map(Measurement::error_examples).find(known);
        let first = first.map_or_else(String::new, |(kind, example)| {
            let (after, what) = (example.at_seconds, causes::with_hint(&example.what));
            format!("; the first, after {after:.1} s: {}: {what}", kind.name())
        });
        format!("{} % of operations failed{first}", figure_text(share * 100.0))
    })
}

/// Returns a reason if the generator had no CPU to work with. In an open load the schedule lag shows that as well,
/// unless all clients are busy: then nothing is late except operations that wait for them.
fn starved(load: &Load, stages: &[StageRecord], observed: &TrialSamples) -> Option<String> {
    let generator = observed.nodes.iter().find(|series| series.name == "generator")?;
    let (mut worked, mut waited, mut time) = (0.0, 0.0, 0.0);
    for stage in stages {
        let (from, to) = stage.window(load.warmup);
        let grown = |column| Series::growth(generator, column, from, to);
        worked += grown(Column::CpuUser)? + grown(Column::CpuSystem)?;
        waited += grown(Column::CpuWait)?;
        time += (to - from) * f64::from(stage.measurement.generator_threads.max(1));
    }
    let share = (worked + waited) / time;
    let starved = time >= 1.0 && share > WORKED_OR_WAITED_MAX && waited > WAITED_MIN * time;
    starved.then(|| {
        format!(
            "its threads waited for a CPU {} % of the time and worked in {} %: it was starved, and \
             the servers might do more",
            figure_text(waited / time * 100.0),
            figure_text(worked / time * 100.0)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measurement::{Errors, OperationFigures, StepCounts};
    use crate::record::FaultHit;
    use crate::study::{Arrivals, ERRORS_MAX};

    fn stage(verified: u64, kind: ErrorKind, count: u64) -> StageRecord {
        let errors = [(kind, Errors { count, ..Errors::default() })].into();
        let figures = OperationFigures { verified, errors, ..OperationFigures::default() };
        let measurement = Measurement {
            window: Duration::from_secs(10),
            operations: [("put".to_owned(), figures)].into(),
            generator_threads: 2,
            ..Measurement::default()
        };
        StageRecord { clients: 1, began: 0.0, measured_from: None, measurement, tried: None }
    }

    #[test]
    fn resumed_session_fails_the_trial_if_resumption_is_off() {
        let with = |full, resumed| {
            let mut one = stage(9, ErrorKind::Status, 0);
            one.measurement.handshakes = Handshakes { full, resumed };
            one
        };
        let why = "1 of 2,012 connections resumed a TLS session although `tls-resumption` is off";
        assert_eq!(each_visit_first(&[with(11, 0), with(2000, 1)]), Verdict::Failed(why.into()));
        assert_eq!(each_visit_first(&[with(1, 0), with(2, 0)]), Verdict::Passed);
        assert!(matches!(each_visit_first(&[with(0, 0)]), Verdict::NotChecked(_)));
    }

    #[test]
    fn drift_is_excused_and_other_failures_are_not() {
        let excused = |name| {
            let mut check = Check::new(name, Verdict::Failed("it fell".into()));
            excuse_drift(&mut check, "etcd");
            check.verdict
        };
        let why = "outages are compared, and only etcd's undisturbed load drifted: it fell";
        assert_eq!(excused(CheckName::Stationary), Verdict::NotChecked(why.into()));
        assert_eq!(excused(CheckName::Answers), Verdict::Failed("it fell".into()));
    }

    /// Returns an injection of a fault at 1 s, with these errors, and these counts of each step before the fault.
    fn injection(kind: ErrorKind, count: u64, before: StepCounts) -> Injection {
        let mut stage = stage(90, kind, count);
        (0..10).for_each(|place| stage.measurement.steps.add(place, &before));
        let hits = vec![FaultHit { from: 1.0, to: Some(2.0), ..FaultHit::default() }];
        let fault = "paused".to_owned();
        Injection {
            fault,
            repeat: 2,
            stage,
            hits,
            unproven: None,
            stalls_explained: None,
            audit: None,
        }
    }

    /// Returns the failed checks of a trial with a flawless load and this injection.
    fn failed_by(injections: &[Injection]) -> Vec<(&'static str, String)> {
        let load: Load = serde_json::from_value(serde_json::json!({
            "name": "l", "clients": [1], "arrivals": {"kind": "constant", "rate": 100.0},
            "in_flight": 1, "stop": {"after": 10.0}, "warmup": 0.0, "timeout": 1.0,
            "targets": "all", "tls_resumption": false
        }))
        .expect("it is a load");
        let trial = searched_trial(&[], None);
        let stages = vec![stage(100, ErrorKind::Status, 0)];
        let trial = TrialRecord { stages, injections: injections.to_vec(), ..trial };
        let checks = measured(&load, &trial, None).into_iter();
        let failed = checks.filter_map(|check| match check.verdict {
            Verdict::Failed(why) => Some((check.name.as_str(), why)),
            _ => None,
        });
        failed.collect()
    }

    #[test]
    fn wrong_or_stale_answer_in_a_fault_fails_the_trial() {
        let none = StepCounts::default();
        let of = |kind, count| injection(kind, count, none);
        let stale = failed_by(&[of(ErrorKind::Timeout, 500), of(ErrorKind::StaleValue, 34)]);
        let why = "injection 2 of `paused`: 0 wrong and 34 stale answers; ";
        assert_eq!(stale, [("answers", why.to_owned())]);
        let wrong = failed_by(&[of(ErrorKind::WrongValue, 1), of(ErrorKind::StaleValue, 1)]);
        let why = "injection 2 of `paused`: 1 wrong answers; ; also in 1 further injection";
        assert_eq!(wrong, [("answers", why.to_owned())]);
        for kind in ErrorKind::ALL {
            let untrue = matches!(kind, ErrorKind::WrongValue | ErrorKind::StaleValue);
            assert_eq!(failed_by(&[of(kind, 500)]).is_empty(), !untrue, "{kind:?}");
        }
    }

    #[test]
    fn operations_may_fail_from_the_fault_on_and_not_before() {
        let of = |verified, errors| {
            failed_by(&[injection(
                ErrorKind::Timeout,
                900,
                StepCounts { verified, errors, unknown: 0 },
            )])
        };
        assert_eq!(of(90, 10), []);
        let why = "injection 2 of `paused`: 11.0 % of operations failed before the fault";
        assert_eq!(of(89, 11), [("errors", why.to_owned())]);
        let mut unproven =
            injection(ErrorKind::Timeout, 9, StepCounts { errors: 9, ..StepCounts::default() });
        unproven.hits.clear();
        assert_eq!(failed_by(&[unproven]), [], "there was no fault");
    }

    #[test]
    fn used_up_keys_and_resumed_sessions_fail_an_injection() {
        let mut of = injection(ErrorKind::Timeout, 0, StepCounts::default());
        of.stage.measurement.keys_exhausted = true;
        of.stage.measurement.handshakes = Handshakes { full: 3, resumed: 1 };
        let failed = failed_by(&[of]);
        let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["keys", "handshakes"], "{failed:?}");
    }

    #[test]
    fn interrupted_stage_is_not_checked_for_unserved_clients() {
        let none = stage(0, ErrorKind::Status, 0);
        assert!(no_success(std::slice::from_ref(&none)).is_some());
        let measurement = Measurement { interrupted: true, ..none.measurement.clone() };
        let cut = StageRecord { measurement, ..none };
        assert_eq!(no_success(std::slice::from_ref(&cut)), None);
        assert_eq!(not_all_served(&[cut]), None);
    }

    #[test]
    fn more_than_a_tenth_of_failures_fail_and_dropped_ones_do_not_count() {
        assert_eq!(failures(&[stage(90, ErrorKind::Status, 10)], ERRORS_MAX), None);
        let why = failures(&[stage(89, ErrorKind::Status, 11)], ERRORS_MAX).expect("11 % failed");
        assert!(why.starts_with("11.0 % of operations failed"), "{why}");
        assert_eq!(failures(&[stage(89, ErrorKind::Status, 11)], 0.6), None);
        assert_eq!(failures(&[stage(10, ErrorKind::Dropped, 990)], ERRORS_MAX), None);
    }

    /// Returns a trial of a search with tries at these rates, broken for these reasons.
    fn searched_trial(tries: &[(f64, &[&str], bool)], found: Option<FoundRate>) -> TrialRecord {
        let stages = tries.iter().map(|&(rate, broken_by, void)| StageRecord {
            tried: Some(TriedRate {
                rate,
                confirming: false,
                broken_by: broken_by.iter().map(|&why| why.to_owned()).collect(),
                void,
                disturbed_by: Vec::new(),
            }),
            ..stage(rate as u64, ErrorKind::Timeout, if broken_by.is_empty() { 0 } else { 900 })
        });
        let trial: TrialRecord = serde_json::from_value(serde_json::json!({
            "trial": {"number": 0, "round": 0, "system": "s", "workload": "w", "load": "l", "seed": 1},
            "started": "", "ready_after": 1.0, "targets": [], "stages": [], "usage": [],
            "audits": [], "checks": [], "outcome": {"ended": "completed"}
        }))
        .expect("it is a trial");
        TrialRecord { stages: stages.collect(), found, ..trial }
    }

    fn search_load() -> Load {
        serde_json::from_value(serde_json::json!({
            "name": "l", "clients": [4], "arrivals": {"kind": "constant", "rate": 100.0},
            "in_flight": 1, "stop": {"after": 10.0}, "warmup": 1.0, "timeout": 1.0,
            "targets": "all", "find": {"objective": ["p99 < 50ms"]}
        }))
        .expect("it is a load")
    }

    /// Returns the failed checks by name.
    fn failed(trial: &TrialRecord) -> Vec<(&'static str, String)> {
        let checks = measured(&search_load(), trial, None);
        let failed = checks.into_iter().filter_map(|check| match check.verdict {
            Verdict::Failed(why) => Some((check.name.as_str(), why)),
            _ => None,
        });
        failed.collect()
    }

    #[test]
    fn overloading_try_does_not_invalidate_a_trial() {
        let late: &[&str] = &["p99 is 900 ms"];
        let tries = [(100.0, &[][..], false), (200.0, late, false), (150.0, &[], false)];
        let trial = searched_trial(&tries, Some(FoundRate::Rate(150.0)));
        assert_eq!(failed(&trial), []);
        assert_eq!(
            trial.measurement().unwrap().verified(),
            150,
            "its figures are of the last kept"
        );
        let none = searched_trial(
            &[(100.0, late, false), (50.0, late, false)],
            Some(FoundRate::Nothing(50.0)),
        );
        assert_eq!(failed(&none), []);
        assert_eq!(none.measurement().unwrap().verified(), 50);
    }

    #[test]
    fn search_bounded_by_the_generator_or_unsteady_is_not_valid() {
        let busy: &[&str] = &["p99 is 9 ms", "the generator's busiest thread used 97 % of its CPU"];
        let tries = [(100.0, &[][..], false), (200.0, busy, true), (100.0, &[], false)];
        let [(name, why)] = &failed(&searched_trial(&tries, Some(FoundRate::Rate(100.0))))[..]
        else {
            panic!("one check fails")
        };
        assert_eq!(*name, "generator");
        assert!(why.contains("at 200/s and more: the generator's busiest thread"), "{why}");
        // Above a rate that the system itself missed, the generator does not matter.
        let more = [(100.0, &[][..], false), (400.0, busy, true), (200.0, &["x"], false)];
        assert_eq!(failed(&searched_trial(&more, Some(FoundRate::Rate(100.0)))), []);
        let spoiled = [(100.0, &[][..], false), (90.0, busy, true)];
        let spoiled = failed(&searched_trial(&spoiled, Some(FoundRate::Unsteady(90.0))));
        assert!(spoiled.len() == 1 && spoiled[0].0 == "generator", "{spoiled:?}");
        let unsteady = failed(&searched_trial(&tries, Some(FoundRate::Unsteady(90.0))));
        assert!(unsteady[0].0 == "search" && unsteady[0].1.contains("90/s"), "{unsteady:?}");
        let cut = failed(&searched_trial(&tries, None));
        assert!(cut[0].1.contains("did not finish"), "{cut:?}");
    }

    #[test]
    fn generator_that_always_waits_for_a_cpu_is_starved() {
        let starving = |waited: f64| {
            let counter = |total: f64| vec![0.0, total];
            let columns = [
                (Column::CpuUser, counter(1.0)),
                (Column::CpuSystem, counter(1.0)),
                (Column::CpuWait, counter(waited)),
            ];
            let at = vec![0.0, 10.0];
            let series = Series { name: "generator".into(), at, columns: columns.into() };
            TrialSamples { nodes: vec![series], ..TrialSamples::default() }
        };
        let load: Load = serde_json::from_value(serde_json::json!({
            "name": "l", "clients": [1], "arrivals": {"kind": "closed"}, "in_flight": 1,
            "stop": {"after": 10.0}, "warmup": 0.0, "timeout": 1.0, "targets": "all"
        }))
        .expect("it is a load");
        let stages = [stage(100, ErrorKind::Status, 0)];
        assert_eq!(starved(&load, &stages, &starving(6.0)), None, "of 20 seconds");
        let why = starved(&load, &stages, &starving(17.0)).expect("19 of 20 seconds");
        assert!(why.contains("waited for a CPU 85.0 % of the time"), "{why}");
        let open = Load { arrivals: Arrivals::Constant { rate: 10.0 }, ..load };
        assert_eq!(starved(&open, &stages, &starving(17.0)), Some(why), "whatever the load");
    }
}
