//! `bakeoff load`: requests to a URL, closed or open, judged, timed and held against conditions.
//!
//! Reads the whole request before connecting to anything (`ask`), then drives each rate in
//! turn, and the result is a value of which the terminal's text and the JSON are functions
//! (`result`, `text`, `json`).
//!
//! With `--out` it is a run as well: each load is a trial, recorded and judged like one (`recorded`).
//!
//! Not here: making requests and judging responses (`bakeoff_engine::works::http`), the search for the highest rate
//! (`find`).

mod ask;
mod curve;
mod find;
mod generator_parts;
mod json;
mod knee;
mod loader;
mod page;
mod recorded;
mod requests;
mod result;
mod search_result;
mod settings;
mod settings_text;
mod shared;
mod targets;
#[cfg(test)]
mod testing;
mod text;
mod timeline;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_report::ci::Case;
use loader::Loader;
use recorded::Recorded;
use result::Gate;
use settings::Course;
use shared::Driver;

use crate::cli::{LoadArgs, ResultArgs};
use crate::commands::conditions::{self, Conditions};
use crate::failure::{Failure, NOT_VALID};
use crate::messages::{self, Messages};

/// Loads a URL and prints what came of it.
pub(crate) fn run(
    args: &LoadArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let ResultArgs { fail_if, junit, .. } = &args.result;
    let conditions = if fail_if.is_empty() { Conditions::None } else { Conditions::Given };
    conditions::publish("load", conditions, junit.as_deref(), |cases| {
        judged(args, messages, interrupted, cases)
    })
}

/// Loads a URL, prints what came of it, and adds how each condition was judged.
fn judged(
    args: &LoadArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
    cases: &mut Vec<Case>,
) -> Result<ExitCode, Failure> {
    let mut asked = ask::read(args)?;
    asked.warnings.iter().for_each(|warning| messages::warn(warning));
    let on = args.load.on.as_deref();
    let (clients, is_open) =
        (asked.settings.drive.clients, asked.settings.course != Course::Closed);
    let own = if on.is_some() { 0 } else { asked.plan.connections(clients, is_open) };
    let open_files = bakeoff_engine::open_files::raise_for(own)?;
    let driver = Driver::new(&asked, on, interrupted)?;
    if args.load.threads.is_none() {
        asked.settings.drive.threads = driver.threads(&asked.settings.drive);
    }
    let begin = |out: &PathBuf| Recorded::begin(out, &asked, open_files, driver.machines());
    let recorded = args.result.out.as_ref().map(begin).transpose()?;
    // Without `--json` the result begins with the same words.
    if args.result.json && !messages.is_live() {
        messages.step(&settings_text::asked_text(&asked.settings));
    }
    let (asked, driver) = (&asked, &driver);
    let not_valid = Vec::new();
    let mut loader =
        Loader { asked, driver, messages, interrupted, driven: 0, recorded, not_valid };
    if let Course::FindMax { first, objective } = &asked.settings.course {
        return find::run(&mut loader, *first, objective, args.result.json);
    }
    let (result, failure) = loader.course()?;
    loader.messages.finish();
    loader.messages.output(&if args.result.json {
        messages::json(&json::json(&result))
    } else {
        text::text(&result, messages::style(), messages::glyphs())
    });
    cases.extend(result.gates.iter().map(Gate::case));
    let mut reasons = result.reasons();
    let of_trials: Vec<String> = loader.not_told(&reasons).cloned().collect();
    reasons.extend(of_trials);
    cases.push(Case::valid(reasons));
    let trials_are_valid = loader.conclude(args.result.json, &result.reasons())?;
    if let Some(failure) = failure {
        return Err(failure); // after what was measured until then
    }
    if result.whole.measurement.interrupted || interrupted.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(Failure::INTERRUPTED.exit_code()));
    }
    let valid = result.reasons().is_empty() && trials_are_valid;
    let passed = valid && !result.gates.iter().any(Gate::failed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) })
}
