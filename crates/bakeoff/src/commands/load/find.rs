//! `--find-max`: tries rates until it knows the highest that keeps the objective.
//!
//! A generator that could not keep up says nothing about the server: where the search ends at such a
//! try, its answer is only a lower bound.
//!
//! Not here: which rate comes next and what keeping means (`bakeoff_core::search`), the knee (`knee`),
//! how it looks (`curve`).

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use bakeoff_core::condition::{Condition, Figures};
use bakeoff_core::schedule::{RateProfile, Spacing};
use bakeoff_core::search::{CONFIRM_TIMES, Found, Next, Search, Tried, least_rate, longest};
use bakeoff_core::study::Stop;
use bakeoff_core::units::{duration_text, rate_text};
use bakeoff_engine::LoadError;

use super::curve;
use super::loader::Loader;
use super::recorded::Recorded;
use super::result::Part;
use super::search_result::{SearchResult, Try};
use crate::failure::{Failure, NOT_VALID};
use crate::messages;
use crate::trial::sampling::Sampling;

/// Searches, prints the curve and the answer.
pub(super) fn run(
    loader: &mut Loader<'_>,
    first: f64,
    objective: &[Condition],
    json: bool,
) -> Result<ExitCode, Failure> {
    loader.recorded.iter_mut().try_for_each(Recorded::trial_begins)?;
    let mut tries = Vec::new();
    let ended = search(loader, first, objective, &mut tries);
    loader.messages.finish();
    let (found, failure) = match ended {
        Ok(found) => (found, None),
        Err(failure) if tries.is_empty() => return Err(failure),
        Err(failure) => (None, Some(failure)),
    };
    let (settings, objective) = (loader.asked.settings.clone(), objective.to_vec());
    let result = SearchResult { settings, objective, tries, found };
    loader.messages.output(&if json {
        messages::json(&curve::json(&result))
    } else {
        curve::text(&result, messages::style())
    });
    if let Some(recorded) = &mut loader.recorded {
        let stages = result.tries.iter().map(|one| (&one.part, Some(one.tried())));
        loader.not_valid.extend(recorded.trial_ends(stages, found, found.is_none())?);
    }
    let trial_is_valid = loader.conclude(json, &[])?;
    match (failure, found) {
        (Some(failure), _) => Err(failure),
        (None, None) => Ok(ExitCode::from(Failure::INTERRUPTED.exit_code())),
        (None, Some(_)) if result.is_answer() && trial_is_valid => Ok(ExitCode::SUCCESS),
        (None, Some(_)) => Ok(ExitCode::from(NOT_VALID)),
    }
}

/// Tries one rate after the other, and adds each to `tries`. Returns the answer; `None` where it was
/// interrupted.
fn search(
    loader: &mut Loader<'_>,
    first: f64,
    objective: &[Condition],
    tries: &mut Vec<Try>,
) -> Result<Option<Found>, Failure> {
    let drive = loader.asked.drive(None, 0);
    let mut search = Search::new(first);
    if let Stop::After(time) = drive.stop {
        let most = duration_text(longest(time, drive.warmup));
        loader.messages.step(&format!("the search takes {most} at most, mostly a third of that"));
        let by_chance = loader.asked.settings.spacing == Spacing::Poisson;
        search = search.not_below(least_rate(objective, time, by_chance));
    }
    // A machine has one sampler: that of the trial, where one is recorded.
    let own = match loader.recorded {
        Some(_) => None,
        None => Some(loader.driver.sampling()?),
    };
    loop {
        let (rate, confirming) = match search.next() {
            Next::Done(found) => return Ok(Some(found)),
            Next::Try(rate) => (rate, false),
            Next::Confirm(rate) => (rate, true),
        };
        let times = if confirming { CONFIRM_TIMES } else { 1 };
        let pace = Some(RateProfile::Constant { rate });
        let sampling = loader.recorded.as_ref().and_then(Recorded::sampling).or(own.as_ref());
        let began = sampling.map_or(0.0, Sampling::seconds);
        let part =
            match loader.part(pace, Some(rate), &format!("trying {}", rate_text(rate)), times) {
                Ok(part) => part,
                Err(Failure::Load(LoadError::Interrupted)) if !tries.is_empty() => return Ok(None),
                Err(failure) => return Err(failure),
            };
        if part.measurement.interrupted || loader.interrupted.load(Ordering::Relaxed) {
            return Ok(None); // half a try is none
        }
        let sampling = loader.recorded.as_ref().and_then(Recorded::sampling).or(own.as_ref());
        let disturbed_by = sampling.map(|sampling| sampling.stolen_since(began)).transpose()?;
        let one = judged(rate, confirming, part, objective, disturbed_by.unwrap_or_default());
        loader.messages.step(&progress_text(&one));
        search.take(&one.tried());
        tries.push(one);
    }
}

/// Holds a try against the objective. `machine`: what disturbed the machine, or a generator's, meanwhile.
fn judged(
    rate: f64,
    confirming: bool,
    part: Part,
    objective: &[Condition],
    machine: Vec<String>,
) -> Try {
    let figures = Figures::from_measurement(&part.measurement);
    let tried = Tried::judged(rate, confirming, &part.measurement, objective)
        .disturbed_by(machine)
        .disturbed_by(part.began_apart());
    let Tried { broken_by, disturbed_by, .. } = tried;
    let latency = match objective.iter().find(|condition| condition.latency_limit().is_some()) {
        Some(condition) => condition.latency_of(&figures),
        None => part.measurement.total().responses().percentile(0.99).latency(),
    };
    let latency = latency.map(|latency| latency.as_secs_f64());
    Try { rate, confirming, part, latency, broken_by, disturbed_by }
}

/// Describes a try for the progress.
fn progress_text(one: &Try) -> String {
    let rate = rate_text(one.rate);
    let again = if one.confirming { ", again and for longer" } else { "" };
    match one.broken_by.first() {
        None => format!("{rate}{again}: kept"),
        Some(_) if one.is_void() => {
            let why = one.disturbed_by.join("; ");
            format!("{rate}{again}: not valid, {why}")
        }
        Some(why) => format!("{rate}{again}: broken, {why}"),
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_core::measurement::ErrorKind;

    use super::super::generator_parts::tests::shown;
    use super::super::testing::{part, with_errors};
    use super::*;

    #[track_caller]
    fn check(part: Part, objective: &[&str], expected: &[&str]) {
        let objective: Vec<Condition> =
            objective.iter().map(|text| text.parse().unwrap()).collect();
        let one = judged(part.rate.unwrap(), false, part, &objective, Vec::new());
        assert_eq!(one.broken_by, expected);
    }

    #[test]
    fn a_try_keeps_what_is_known_to_hold() {
        check(part(1000.0, 11), &["p99 < 20ms", "mean < 7ms"], &[]);
        check(part(1000.0, 11), &["p99 < 20ms", "mean < 5ms"], &["mean is 6.00 ms"]);
    }

    #[test]
    fn a_failure_breaks_every_objective_but_one_that_speaks_of_errors() {
        let failing = || with_errors(part(1000.0, 11), 5);
        check(failing(), &["p99 < 20ms"], &["5 failed"]);
        check(failing(), &["p99 < 20ms", "errors < 1%"], &[]);
        check(failing(), &["errors < 0.1%"], &["errors is 0.50 %"]);
    }

    #[test]
    fn a_rate_that_was_not_answered_is_not_kept_however_fast_the_answers() {
        let mut slow = part(1000.0, 2);
        let figures = slow.measurement.operations.values_mut().next().unwrap();
        figures.verified_in_window = 900; // the others came after the window
        check(slow, &["p99 < 20ms"], &["only 90.2 % of the rate was answered with success"]);
        let mut dropped = part(1000.0, 2);
        let figures = dropped.measurement.operations.values_mut().next().unwrap();
        figures.errors.entry(ErrorKind::Dropped).or_default().count = 1000;
        let never = "p99 is unknown: 50.0 % failed";
        let share = "only 50.0 % of the rate was answered with success";
        check(dropped, &["p99 < 20ms", "errors < 60%"], &[never, share]);
    }

    #[test]
    fn an_answer_on_its_way_at_the_end_is_no_backlog() {
        let mut few = part(20.0, 100);
        let figures = few.measurement.operations.values_mut().next().unwrap();
        figures.verified_in_window = 19;
        check(few, &["p50 < 200ms"], &[]);
    }

    #[test]
    fn a_try_that_is_not_valid_keeps_nothing() {
        let mut busy = part(1000.0, 11);
        busy.measurement.generator_busiest = 0.97;
        let objective = ["p99 < 20ms".parse().unwrap()];
        let one = judged(1000.0, false, busy, &objective, Vec::new());
        assert!(one.broken_by[0].contains("busiest thread"), "{:?}", one.broken_by);
        let nothing = Part { rate: Some(5.0), ..Part::default() };
        let one = judged(5.0, false, nothing, &objective, Vec::new());
        assert_eq!(one.broken_by[0], "p99 is unknown: there was no success");
        assert_eq!(one.latency, None);
    }

    #[test]
    fn a_try_whose_generators_began_apart_is_void_where_it_was_not_kept() {
        let began = |late_us, slowest| {
            let generators = vec![shown(0.0, 20.0), shown(late_us, 20.0)];
            let part = Part { generators, ..part(1000.0, slowest) };
            judged(1000.0, false, part, &["p99 < 20ms".parse().unwrap()], Vec::new())
        };
        // Of a second's window 10 ms are allowed.
        let (near, far) = (began(9_900.0, 40), began(9_980.0, 40));
        assert_eq!((near.is_void(), near.disturbed_by.len()), (false, 0));
        let why = "2 generators began up to 10.0 ms apart, where 10.0 ms are allowed";
        assert_eq!((far.is_void(), &*far.disturbed_by), (true, &[why.to_owned()][..]));
        assert!(!began(9_980.0, 11).is_void(), "it kept the objective all the same");
        assert_eq!(far.part.invalid_because(), [why]);
        assert_eq!(near.part.invalid_because(), Vec::<String>::new());
    }
}
