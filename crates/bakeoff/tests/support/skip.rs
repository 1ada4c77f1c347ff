//! Reports tests that could not do all of their work, and counts the skipped ones for the last line.
//!
//! In CI a skip is a failure, unless the machine itself lacks a requirement.

#![allow(clippy::disallowed_macros, reason = "a test program of its own reports what it skipped")]

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use super::debian::FetchProblem;

/// Reports `skipped: WHY` or `excused: WHY` on standard error, which no test harness captures. `.ci/run` counts these
/// lines, so each is one write.
pub(crate) fn report(what: &str, why: &str) {
    let line = format!("{what}: {}\n", in_one_line(why));
    std::io::stderr().write_all(line.as_bytes()).expect("standard error can be written to");
}

fn in_one_line(why: &str) -> String {
    let lines = why.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// Reason why a test cannot run.
#[derive(Debug)]
pub(crate) enum SkipReason {
    /// This machine cannot run it, even with all programs.
    Machine(String),
    /// A program could not be installed.
    Program(String),
}

impl From<FetchProblem> for SkipReason {
    fn from(missing: FetchProblem) -> Self {
        match missing {
            FetchProblem::Unable(why) => Self::Machine(why),
            FetchProblem::Failed(why) => Self::Program(why),
        }
    }
}

/// Skipped tests of a test program.
#[derive(Debug, Clone, Default)]
pub(crate) struct SkippedTests(Arc<Mutex<Vec<String>>>);

impl SkippedTests {
    /// Reports the calling test as skipped.
    ///
    /// # Errors
    /// Fails in CI if a program could not be installed.
    pub(crate) fn skip(&self, lacking: SkipReason) -> Result<Completion, Failed> {
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        let why = match lacking {
            SkipReason::Program(why) if in_ci => {
                return Err(Failed::from(format!("in CI a skip is a failure: {why}")));
            }
            SkipReason::Program(why) | SkipReason::Machine(why) => why,
        };
        let why = in_one_line(&why);
        report("skipped", &why);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(why.clone());
        Ok(Completion::ignored_with(format!("skipped: {why}")))
    }

    /// Returns a test that checks itself whether it can run.
    pub(crate) fn unless_lacking(
        &self,
        name: impl Into<String>,
        test: impl FnOnce() -> Result<(), SkipReason> + Send + 'static,
    ) -> Trial {
        let skipped = self.clone();
        Trial::ignorable_test(name, move || match test() {
            Ok(()) => Ok(Completion::Completed),
            Err(lacking) => skipped.skip(lacking),
        })
    }

    /// Runs the tests, and prints the number of skipped ones with their reasons.
    pub(crate) fn conclude(&self, arguments: &Arguments, tests: Vec<Trial>) -> ExitCode {
        let conclusion = libtest_mimic::run(arguments, tests);
        let skipped = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons: Vec<(&String, usize)> = Vec::new();
        for why in &*skipped {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => reasons.push((why, 1)),
            }
        }
        println!("{} skipped", skipped.len());
        for (why, count) in reasons {
            let times = if count > 1 { format!(" ({count} tests)") } else { String::new() };
            println!("  {why}{times}");
        }
        conclusion.exit_code()
    }
}
