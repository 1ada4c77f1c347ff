//! `bakeoff compare`: two runs side by side, from their records alone.
//!
//! Not here: the statistics and the conditions (`bakeoff_core::report::compare`).

use std::process::ExitCode;

use bakeoff_core::report::compare::{self, Compared, Outcome};

use crate::cli::{CompareArgs, CompareFormat};
use crate::failure::Failure;
use crate::messages::{self, Messages};
use crate::run_folder;

/// A condition is proven.
const PROVEN: u8 = 6;
/// None is proven, and of one or more nobody can tell.
const CANNOT_TELL: u8 = 7;

/// Reads both runs, prints what changed, and answers the conditions by the exit code.
pub(crate) fn run(args: &CompareArgs, messages: &mut Messages) -> Result<ExitCode, Failure> {
    let mut read = |run: &std::path::Path| {
        let (record, complaints) = run_folder::read(run)?;
        for complaint in complaints {
            messages.complain(&format!("{}: {complaint}", run.display()));
        }
        Ok::<_, Failure>(record)
    };
    let (base, new) = (read(&args.base)?, read(&args.new)?);
    let compared = Compared::new(&base, &new, &args.fail_if);
    for condition in &args.fail_if {
        condition
            .check_names(&compared)
            .map_err(|misread| Failure::Input(format!("--fail-if: {misread}"), None))?;
    }
    messages.output(&match if args.json { CompareFormat::Json } else { args.format } {
        CompareFormat::Json => format!("{:#}", compare::json(&compared)),
        CompareFormat::Markdown => compare::markdown(&compared),
        CompareFormat::Terminal => compare::terminal(&compared, &messages::style()),
    });
    let any = |is: fn(&Outcome) -> bool| compared.outcomes().iter().any(|(_, one)| is(one));
    Ok(if any(|one| matches!(one, Outcome::Proven(_))) {
        ExitCode::from(PROVEN)
    } else if any(|one| matches!(one, Outcome::CannotTell(_))) {
        ExitCode::from(CANNOT_TELL)
    } else {
        ExitCode::SUCCESS
    })
}
