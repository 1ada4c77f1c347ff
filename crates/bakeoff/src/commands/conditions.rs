//! Tells services that run builds what became of a command's conditions: a JUnit file where one was asked for,
//! and annotations where GitHub Actions reads.
//!
//! A command that fails before it can judge is told too: a file of an earlier build must not be taken for its
//! answer, nor may none be taken for a pass.
//!
//! Not here: the forms (`bakeoff_report::ci`), judging.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use bakeoff_report::ci::{Case, CaseOutcome, Suite, github, junit};

use crate::failure::Failure;
use crate::messages::{self, Reader};

/// Whether a command was given conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conditions {
    Given,
    None,
}

/// Runs a command that judges conditions, and publishes what became of them. `judge` adds a case for each.
///
/// # Errors
/// That of the command, or of writing the file.
pub(crate) fn publish(
    name: &str,
    conditions: Conditions,
    file: Option<&Path>,
    judge: impl FnOnce(&mut Vec<Case>) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    // Emptied before anything is measured: whoever reads it meanwhile finds no earlier answer.
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
            "name a file in a folder that is there and may be written to",
        )
    })
}
