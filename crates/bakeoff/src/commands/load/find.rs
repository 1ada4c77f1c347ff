//! `--find-max`: runs a trial that searches for the highest rate that keeps the objective, and prints its tries.
//!
//! Not here: the search (`bakeoff_trial::trial::load`), the knee (`knee`), rendering (`curve`).

use std::process::ExitCode;

use bakeoff_core::condition::{Condition, Figures};
use bakeoff_core::measurement::Measurement;
use bakeoff_core::search::longest;
use bakeoff_core::study::Stop;
use bakeoff_core::units::duration_text;

use super::curve;
use super::loader::{LoadOutcome, Loader, parts};
use super::search_result::{SearchResult, Try};
use crate::failure::{Failure, NOT_VALID};
use crate::messages;

/// Runs the search, and prints the curve and the answer.
pub(super) fn run(
    loader: &mut Loader<'_>,
    objective: &[Condition],
    json: bool,
) -> Result<ExitCode, Failure> {
    let settings = loader.request.settings.clone();
    if let Stop::After(time) = settings.drive.stop {
        let most = duration_text(longest(time, settings.drive.warmup));
        loader.messages.step(&format!("the search takes up to {most}, usually a third of that"));
    }
    let LoadOutcome { mut record, seconds, failure } = loader.trial(0, "searching")?;
    loader.messages.finish();
    let (found, reasons) = (record.found, record.invalid_because());
    let tried: Vec<_> = record.stages.iter().map(|stage| stage.tried.clone()).collect();
    let tries = parts(&mut record, seconds).into_iter().zip(tried).filter_map(|(part, tried)| {
        // An interrupted try does not count.
        let tried = tried.filter(|_| !part.measurement.interrupted)?;
        Some(Try { latency: latency(objective, &part.measurement), part, tried })
    });
    let tries: Vec<Try> = tries.collect();
    let failure = match failure {
        Some(failure) if tries.is_empty() => return Err(failure),
        failure => failure,
    };
    let result = SearchResult { settings, objective: objective.to_vec(), tries, found, reasons };
    messages::output_styled(&if json {
        messages::json(&curve::json(&result))
    } else {
        curve::text(&result, messages::style())
    });
    loader.conclude(json)?;
    match (failure, found) {
        (Some(failure), _) => Err(failure),
        (None, None) => Ok(ExitCode::from(Failure::INTERRUPTED.exit_code())),
        (None, Some(_)) if result.is_valid() => Ok(ExitCode::SUCCESS),
        (None, Some(_)) => Ok(ExitCode::from(NOT_VALID)),
    }
}

/// Returns the first latency that the objective limits, in seconds, or the p99 response time if it limits none.
fn latency(objective: &[Condition], measurement: &Measurement) -> Option<f64> {
    let latency = match objective.iter().find(|condition| condition.latency_limit().is_some()) {
        Some(condition) => condition.latency_of(&Figures::from_measurement(measurement)),
        None => measurement.total().responses().percentile(0.99).latency(),
    };
    latency.map(|latency| latency.as_secs_f64())
}
