//! Publishes the outcome of a command's conditions to CI: a JUnit file, and annotations on GitHub Actions.
//!
//! A command that fails before it judges is published too. Otherwise CI could read the file of an earlier build, or
//! take a missing file for a pass.
//!
//! Not here: the formats (`bakeoff_report::ci`), judging.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use bakeoff_report::ci::{Case, CaseOutcome, Suite, github, junit};

use crate::failure::Failure;
use crate::messages::{self, Reader};

/// Presence of conditions on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conditions {
    Given,
    None,
}

/// Runs a command that judges conditions, and publishes their outcome. `judge` adds a case for each condition.
///
/// # Errors
/// Returns the command's error, or the one of writing the file.
pub(crate) fn publish(
    name: &str,
    conditions: Conditions,
    file: Option<&Path>,
    judge: impl FnOnce(&mut Vec<Case>) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    // Empty the file before measuring: CI must not read the outcome of an earlier build.
    file.map_or(Ok(()), |file| write(file, ""))?;
    let mut cases = Vec::new();
    let done = judge(&mut cases);
    if let Err(failure) = &done {
        let outcome = CaseOutcome::Unknown(vec![failure.headline()]);
        cases.push(Case { name: "ended".to_owned(), outcome });
    }
    let suite = Suite { name: format!("bakeoff {name}"), cases };
    if conditions == Conditions::Given && messages::reader() == Reader::GitHubActions {
        messages::annotate(&github::annotations(&suite));
    }
    file.map_or(Ok(()), |file| write(file, &junit(&suite)))?;
    done
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| {
        Failure::input(
            format!("cannot write `{}` of --junit: {error}", file.display()),
            "name a file in a folder that exists and is writable",
        )
    })
}
