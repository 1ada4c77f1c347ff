//! `bakeoff compare`: compares two runs by their records alone.
//!
//! Further runs of the base's study show how much runs vary. They are next to the base, or in `--history`.
//!
//! Not here: the statistics and the conditions (`bakeoff_report::compare`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bakeoff_report::ci::Case;
use bakeoff_report::compare::{FailIfOutcome, RunComparison};
use bakeoff_report::comparison;
use bakeoff_trial::run::folder;

use crate::cli::{CompareArgs, CompareFormat};
use crate::commands::conditions::{self, Conditions};
use crate::commands::history;
use crate::failure::{CANNOT_TELL, Failure, PROVEN};
use crate::messages;

/// Maximum number of further runs to read, newest first.
const KNOWN_MAX: usize = 50;

/// Prints the changes between two runs. The exit code is the outcome of the conditions.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let conditions = match args.fail_if.is_empty() {
        true => Conditions::None,
        false => Conditions::Given,
    };
    conditions::publish("compare", conditions, args.junit.as_deref(), |cases| judged(args, cases))
}

/// Compares, and adds a case for each condition.
fn judged(args: &CompareArgs, cases: &mut Vec<Case>) -> Result<ExitCode, Failure> {
    let base = folder::read_and_warn(&args.base)?.record;
    let new = folder::read_and_warn(&args.new)?.record;
    if let Some(folder) = args.history.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(
            format!("`{}` of --history is not a folder", folder.display()),
            "name the folder that holds earlier runs; the default of `--out` is `runs`",
        ));
    }
    let adjacent = || folder_of(&args.base).parent().map(Path::to_path_buf);
    let known = match args.history.clone().or_else(adjacent) {
        Some(folder) => history::of_the_same_study(&folder, &base.header, KNOWN_MAX)?,
        None => Vec::new(),
    };
    let compared = RunComparison::new(&base, &new, &known, &args.fail_if);
    for condition in &args.fail_if {
        condition
            .check_names(&compared)
            .map_err(|misread| Failure::bad_input(format!("--fail-if: {misread}")))?;
    }
    messages::output_styled(&match if args.json { CompareFormat::Json } else { args.format } {
        CompareFormat::Json => messages::json(&comparison::json(&compared)),
        CompareFormat::Markdown => comparison::markdown(&compared),
        CompareFormat::Terminal => comparison::terminal(&compared, &messages::style()),
    });
    cases.extend(Case::from_comparison(&compared));
    let any = |is: fn(&FailIfOutcome) -> bool| compared.outcomes().iter().any(|(_, one)| is(one));
    Ok(if any(|one| matches!(one, FailIfOutcome::Proven(_))) {
        ExitCode::from(PROVEN)
    } else if any(|one| matches!(one, FailIfOutcome::CannotTell(_))) {
        ExitCode::from(CANNOT_TELL)
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the folder of a run, given by its folder or its record.
fn folder_of(run: &Path) -> PathBuf {
    let run = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    if run.is_dir() { run } else { run.parent().map_or(run.clone(), Path::to_path_buf) }
}
