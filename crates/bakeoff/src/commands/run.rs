//! `bakeoff run`: runs a study and prints its report on one screen.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::{RoundCount, TrialOutcome, TrialRecord};
use bakeoff_core::repeat::is_repeated;
use bakeoff_core::study::StudyChanges;
use bakeoff_trial::event::{Event, Reporter};
use bakeoff_trial::run::folder::{self, RunFolder};
use bakeoff_trial::run::trust::RecordTrust;
use bakeoff_trial::run::{RunSettings, Runner, seeded_plan};

use crate::cli::{Format, RunArgs};
use crate::commands::report::{self, Rendering};
use crate::commands::study_file::changed_study;
use crate::failure::{Failure, NOT_VALID, UNREACHABLE};
use crate::messages;

/// Runs a study or resumes a run, and prints the report.
pub(crate) fn run(
    args: &RunArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let rounds = match args.trials {
        Some(_) => RoundCount::Fixed,
        None => RoundCount::Adaptive,
    };
    let settings = RunSettings { rounds, ..args.options.settings() };
    let mut runner = Runner { settings, places: None, reporter, interrupted };
    if let (true, Some(study)) = (args.prepare, &args.study) {
        runner.fill_caches(&changed_study(study, changes(args))?.study)?;
        messages::output("All programs are in place; nothing was run.");
        return Ok(ExitCode::SUCCESS);
    }
    let (mut folder, mut complete) = match (&args.resume, &args.study) {
        (Some(run), _) => runner.go_on(run, args.trust.into())?,
        (None, Some(study)) => {
            let sourced = changed_study(study, changes(args))?;
            let (seed, order) = seeded_plan(&sourced.study, args.options.seed);
            runner.begin(sourced, seed, order, None)?
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    for _ in 0..args.retry_lost {
        if complete || interrupted.load(Ordering::Relaxed) || !lost_a_machine(&folder)? {
            break;
        }
        let path = folder.path.clone();
        drop(folder); // its record is locked while it is open
        (folder, complete) = resume_once_back(&mut runner, &path)?;
    }
    let (folder_path, on) = (&*folder.path, args.options.on.as_deref());
    reporter.report(&Event::RunFinished { complete, resume: "run", folder: folder_path, on });
    conclude(&folder, args.json, args.all)
}

/// Time in which a lost machine must come back.
const BACK_WITHIN: Duration = Duration::from_secs(15 * 60);
/// Interval between attempts to reach a lost machine.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// Returns true if the run ended because a machine was lost.
fn lost_a_machine(folder: &RunFolder) -> Result<bool, Failure> {
    let record = folder::read(&folder.path)?.record;
    let last = record.trials.last();
    Ok(last.is_some_and(|trial| matches!(trial.outcome, TrialOutcome::MachineLost(_))))
}

/// Resumes a run once all its machines can be reached again.
fn resume_once_back(runner: &mut Runner<'_>, run: &Path) -> Result<(RunFolder, bool), Failure> {
    let began = clock::now();
    loop {
        match runner.go_on(run, RecordTrust::Written) {
            Err(failure) if failure.exit_code() == UNREACHABLE && began.elapsed() < BACK_WITHIN => {
                let why = failure.headline();
                runner.reporter.report(&Event::MachineAwaited { why: &why });
            }
            ended => return ended,
        }
        let until = clock::now() + TRY_EVERY;
        while clock::now() < until && !runner.interrupted.load(Ordering::Relaxed) {
            thread::sleep(CHECK_EVERY);
        }
        if runner.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::INTERRUPTED);
        }
    }
}

/// Interval between checks for an interrupt.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Renders a run from its record, prints the report and the folder, and returns the exit code.
pub(crate) fn conclude(folder: &RunFolder, json: bool, all: bool) -> Result<ExitCode, Failure> {
    let rendering = Rendering::new(folder::read(&folder.path)?);
    let page = rendering.write_all(&folder.path)?;
    let form = if json { Format::Json } else { Format::Terminal };
    let extent = report::extent(all);
    messages::output_styled(&rendering.text(form, &messages::style(), extent));
    if !json {
        messages::output(&format!("\nReport: {}\nRun: {}", page.display(), folder.path.display()));
    }
    let record = rendering.record();
    // Further rounds replace trials that the machine disturbed.
    let spoils =
        |trial: &TrialRecord| !trial.invalid_because().is_empty() && !is_repeated(record, trial);
    let any_invalid = record.trials.iter().any(spoils);
    let never_ready = |system: &str| {
        let mut of = record.trials.iter().filter(|trial| trial.trial.system == system).peekable();
        of.peek().is_some() && of.all(TrialRecord::never_ready)
    };
    let unstarted = record.header.study.systems.iter().any(|system| never_ready(&system.name));
    let lost = |trial: &TrialRecord| matches!(trial.outcome, TrialOutcome::MachineLost(_));
    Ok(match record.is_complete() {
        false if record.trials.iter().any(lost) => ExitCode::from(UNREACHABLE),
        false => ExitCode::from(Failure::INTERRUPTED.exit_code()),
        true if unstarted => ExitCode::from(UNREACHABLE),
        true if any_invalid => ExitCode::from(NOT_VALID),
        true => ExitCode::SUCCESS,
    })
}

/// Returns the changes of `--quick`, `--scale`, `--trials`, `--faults` and `--repeat`.
fn changes(args: &RunArgs) -> StudyChanges {
    StudyChanges {
        quick: args.quick,
        scale: args.scale,
        trials: args.trials,
        faults: args.faults.clone(),
        repeat: args.repeat,
        ..StudyChanges::default()
    }
}
