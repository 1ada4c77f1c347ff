//! `bakeoff load`: sends requests to URLs, verifies and times the responses, and checks conditions.
//!
//! `load_request` checks all flags before bakeoff connects to anything. The load is a study of one system (`study`),
//! with one trial for each rate (`loader`). A search for the highest rate is a single trial (`find`). Text and JSON are
//! rendered from the result (`text`, `json`, `curve`). With `--out` the run is also written to disk (`run_recorder`).
//!
//! Not here: one trial (`bakeoff_trial::trial`), requests and responses on the wire (`bakeoff_engine::works::http`).

mod curve;
mod find;
mod generator_parts;
mod json;
mod knee;
mod load_request;
mod load_site;
mod loader;
mod page;
mod requests;
mod result;
mod run_recorder;
mod search_result;
mod settings;
mod settings_text;
mod study;
mod targets;
#[cfg(test)]
mod testing;
mod text;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_report::ci::Case;
use bakeoff_trial::event::Event;
use loader::Loader;
use result::Gate;
use run_recorder::RunRecorder;
use settings::Course;

use crate::cli::{LoadArgs, ResultArgs};
use crate::commands::conditions::{self, Conditions};
use crate::failure::{Failure, NOT_VALID};
use crate::messages;
use crate::watchers::Audience;

/// Runs a load, prints its result and publishes the outcome of its conditions.
pub(crate) fn run(
    args: &LoadArgs,
    audience: &mut Audience<'_>,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let ResultArgs { fail_if, junit, .. } = &args.result;
    let conditions = if fail_if.is_empty() { Conditions::None } else { Conditions::Given };
    conditions::publish("load", conditions, junit.as_deref(), |cases| {
        judged(args, audience, interrupted, cases)
    })
}

/// Runs a load and prints its result. Adds a case to `cases` for each condition, and one for the load's validity.
fn judged(
    args: &LoadArgs,
    audience: &mut Audience<'_>,
    interrupted: &AtomicBool,
    cases: &mut Vec<Case>,
) -> Result<ExitCode, Failure> {
    let Audience { messages, watchers } = audience;
    let mut request = load_request::read(args)?;
    request.warnings.iter().for_each(|warning| messages::warn(warning));
    let on = args.load.on.as_deref();
    let (clients, is_open) =
        (request.settings.drive.clients, request.settings.course != Course::Closed);
    let own = if on.is_some() { 0 } else { request.plan.connections(clients, is_open) };
    let open_files = bakeoff_engine::open_files::raise_for(own)?;
    let reached = load_site::reach(&request, on, interrupted)?;
    if args.load.threads.is_none() {
        request.settings.drive.threads = reached.threads(&request.settings.drive);
    }
    let (request, drive, reached) = (&request, &request.settings.drive, &reached);
    let study = &study::study(request);
    let order = &*study::order(study, drive.seed);
    let contender = &study::contender(study, &request.settings);
    let begin = |out: &PathBuf| {
        RunRecorder::begin(
            out,
            (study, order),
            &contender.record,
            drive,
            open_files,
            &reached.fleet,
        )
    };
    let recorded = args.result.out.as_ref().map(begin).transpose()?;
    let folder = recorded.as_ref().map_or(Path::new(""), |recorded| &recorded.path);
    let (seed, trials) = (drive.seed, order.len());
    watchers.report(&Event::RunStarted { study, seed, trials, folder });
    // Without `--json` the result begins with the same text.
    if args.result.json && !messages.is_live() {
        messages.step(&settings_text::asked_text(&request.settings));
    }
    let mut loader = Loader {
        request,
        study,
        contender,
        order,
        reached,
        messages,
        watchers,
        interrupted,
        recorded,
    };
    if let Course::FindMax { objective, .. } = &request.settings.course {
        return find::run(&mut loader, objective, args.result.json);
    }
    let (result, failure) = loader.course()?;
    loader.messages.finish();
    messages::output_styled(&if args.result.json {
        messages::json(&json::json(&result))
    } else {
        text::text(&result, messages::style(), messages::glyphs())
    });
    cases.extend(result.gates.iter().map(Gate::case));
    cases.push(Case::valid(result.reasons()));
    loader.conclude(args.result.json)?;
    if let Some(failure) = failure {
        return Err(failure); // after the figures measured before it
    }
    if result.whole.measurement.interrupted || interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(Failure::INTERRUPTED.exit_code()));
    }
    let passed = result.reasons().is_empty() && !result.gates.iter().any(Gate::failed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}
