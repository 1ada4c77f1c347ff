//! `bakeoff gate`: compares two builds of one system in one run, to decide whether the new one may be merged.
//!
//! The run is an ordinary one, with two systems, `base` and `new`. `report`, `history` and `run --resume` treat it as
//! such. Its record holds the gate's conditions, so that `gate --resume` can resume it and judge it again.
//!
//! Not here: the study (`bakeoff_core::study`), the judgement (`bakeoff_report::compare`).

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_clock::wall::{since, utc_now};
use bakeoff_core::plan;
use bakeoff_core::record::{self, RecordLine, RunExtended};
use bakeoff_core::stats::gate::{self as rounds, Losses, Shortfall};
use bakeoff_core::study::{Build, GateBuilds, SourcedStudy, Study, StudyChanges};
use bakeoff_report::ci::{Case, CaseOutcome};
use bakeoff_report::compare::{GateOutcome, RunComparison};
use bakeoff_report::comparison;
use bakeoff_systems as systems;
use bakeoff_trial::cluster::contenders::version_request;
use bakeoff_trial::event::{Event, GateExtended, GateStarted, Reporter};
use bakeoff_trial::run::folder;
use bakeoff_trial::run::progress::Progress;
use bakeoff_trial::run::refusals::SAME_HINT;
use bakeoff_trial::run::trust::RecordTrust;
use bakeoff_trial::run::{Runner, seeded_plan};
use sha2::{Digest as _, Sha256};

use crate::cli::{CompareFormat, GateArgs};
use crate::commands::conditions::{self, Conditions};
use crate::commands::report::Rendering;
use crate::commands::study_file::changed_study;
use crate::failure::{CANNOT_TELL, Failure, NOT_VALID, PROVEN};
use crate::messages;

/// Runs both builds in turn or resumes such a run, and prints whether the new build may be merged.
pub(crate) fn run(
    args: &GateArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    conditions::publish("gate", Conditions::Given, args.junit.as_deref(), |cases| {
        judged(args, reporter, interrupted, cases)
    })
}

/// Runs the gate, and adds a case for each condition.
fn judged(
    args: &GateArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
    cases: &mut Vec<Case>,
) -> Result<ExitCode, Failure> {
    let mut runner =
        Runner { settings: args.options.settings(), places: None, reporter, interrupted };
    let began = clock::now();
    let (mut folder, mut complete) = match (&args.resume, &args.study) {
        (Some(run), _) => {
            let record = folder::read(run)?.record;
            if record.header.gate.is_none() {
                return Err(Failure::input(
                    format!("`{}` is not a run of `bakeoff gate`", run.display()),
                    format!("resume it with `bakeoff run --resume {}`", run.display()),
                ));
            }
            runner.go_on(run, args.trust.into())?
        }
        (None, Some(study)) => {
            let (sourced, gate) = asked(study, args)?;
            let study = &sourced.study;
            let (seed, order) = seeded_plan(study, args.options.seed);
            let (trials, takes) = (order.len(), Progress::new(study, &[]).whole(&order));
            let longest = longest(study, &order, &gate);
            let started = GateStarted { study, gate: &gate, trials, takes, longest };
            runner.reporter.report(&Event::GateStarted(started));
            runner.begin(sourced, seed, order, Some(gate))?
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    while complete && let Some(more) = more_trials(&folder.path, began.elapsed())? {
        runner.reporter.report(&more.event(began.elapsed()));
        folder.push(&RecordLine::Extended(more.line))?;
        let path = folder.path.clone();
        drop(folder); // its record is locked while it is open
        (folder, complete) = runner.go_on(&path, RecordTrust::Written)?;
    }
    let (resume, path) = ("gate", &*folder.path);
    let on = args.options.on.as_deref();
    reporter.report(&Event::RunFinished { complete, resume, folder: path, on });
    conclude(path, args, cases)
}

/// Share by which a gate's trials may take longer than estimated, in all: rounds that the machine disturbs are repeated,
/// half as many as planned, and servers may start slowly.
const LONGER: f64 = 1.0;

/// Returns the longest time of a gate: that of its most trials, and [`LONGER`].
fn longest(study: &Study, order: &[plan::Trial], gate: &record::Gate) -> Duration {
    let takes = Progress::new(study, &[]).whole(order);
    let most = gate.trials_max.unwrap_or(study.trials).max(study.trials);
    takes.mul_f64(f64::from(most) / f64::from(study.trials.max(1)) * (1.0 + LONGER))
}

/// Further trials that a gate needs.
struct MoreTrials {
    line: RunExtended,
    shortfall: Shortfall,
    gate: record::Gate,
}

impl MoreTrials {
    /// Returns the event. `elapsed` is the time of the trials before.
    fn event(&self, elapsed: Duration) -> Event<'_> {
        let RunExtended { trials, before, .. } = self.line;
        let takes = elapsed.mul_f64(f64::from(trials - before) / f64::from(before));
        let (gate, shortfall) = (&self.gate, &self.shortfall);
        Event::GateExtended(GateExtended { gate, shortfall, before, trials, takes })
    }
}

/// Returns the further trials that the scatter of a complete run calls for. `None` if it has enough, or reached its
/// maximum of trials or of time. `elapsed`: the time of the trials before.
///
/// Ignores the observed change: deciding by it would stop merges by chance.
fn more_trials(run: &Path, elapsed: Duration) -> Result<Option<MoreTrials>, Failure> {
    let record = folder::read(run)?.record;
    let header = &record.header;
    let Some((gate, most)) =
        header.gate.clone().and_then(|gate| Some((gate.clone(), gate.trials_max?)))
    else {
        return Ok(None);
    };
    let compared =
        RunComparison::gate(&record).map_err(|error| Failure::bad_input(error.to_string()))?;
    let Some(shortfall) = compared.shortfall() else { return Ok(None) };
    let before = header.study.trials;
    let Some(trials) = rounds::extended(before, shortfall.rounds, most) else { return Ok(None) };
    // Programs may have been fetched before the run, and a resumed run may have paused.
    let elapsed = since(&header.started).map_or(elapsed, |since| since.min(elapsed));
    let longest = longest(&header.study, &header.order, &gate);
    let trials = trials.min(affordable(before, elapsed, longest));
    if trials <= before {
        return Ok(None);
    }
    let order = plan::further(&header.study, header.seed, &header.order, |_, _| trials - before);
    let line = RunExtended { extended: utc_now(), trials, before, repeats: Vec::new(), order };
    Ok(Some(MoreTrials { line, shortfall, gate }))
}

/// Returns the trials of each build that fit in the gate's time, if `before` of them took `elapsed`. Half of the further
/// ones may have to be repeated.
fn affordable(before: u32, elapsed: Duration, longest: Duration) -> u32 {
    let elapsed = elapsed.max(Duration::from_millis(1));
    let left = longest.saturating_sub(elapsed).div_duration_f64(elapsed) / 1.5;
    before.saturating_add((left * f64::from(before)) as u32)
}

/// Returns the study and the conditions of the gate. Rejects all invalid input before anything is fetched or started.
fn asked(study: &str, args: &GateArgs) -> Result<(SourcedStudy, record::Gate), Failure> {
    let of_file = changed_study(study, StudyChanges::default())?;
    let whole = &of_file.study;
    let system = match (&args.builds.system, &whole.systems[..]) {
        (Some(name), _) => name.clone(),
        (None, [only]) => only.name.clone(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            return Err(Failure::input(
                format!("study `{}` has {} systems", whole.name, names.len()),
                format!(
                    "name the system that has two builds with `--system`: {}",
                    names.join(", ")
                ),
            ));
        }
    };
    let kind = whole.systems.iter().find(|one| one.name == system).map(|one| one.kind.as_str());
    let builds = [
        build("--base", args.builds.base.as_deref(), &args.builds.base_option, kind)?,
        build("--new", args.builds.new.as_deref(), &args.builds.new_option, kind)?,
    ];
    if builds[0].options == builds[1].options {
        refuse_same_file(&builds)?;
    }
    let gate = Some(GateBuilds { system: system.clone(), builds });
    let mut changes = StudyChanges { scale: args.scale, gate, ..StudyChanges::default() };
    let sourced = of_file.changed(changes.clone(), &systems::kinds())?;
    let study = &sourced.study;
    let places: Vec<String> = study
        .workloads
        .iter()
        .flat_map(|one| one.loads.iter().map(move |load| format!("{}/{load}", one.name)))
        .collect();
    let names: Vec<&str> = places.iter().map(String::as_str).collect();
    for condition in &args.demands.fail_if {
        condition
            .check_among(&names, &[&system], "in this gate")
            .map_err(|misread| Failure::bad_input(format!("--fail-if: {misread}")))?;
    }
    let detect = args.demands.detect.unwrap_or(rounds::DETECT);
    let leading = args.demands.fail_if.len().max(1) * places.len();
    let trials_max = args.demands.max_trials.unwrap_or(rounds::EXTENDED_MAX);
    let losses = Losses::asked(detect, args.demands.fail_if.len());
    let enough = rounds::rounds(losses, rounds::SCATTER, leading);
    changes.trials = Some(args.demands.trials.unwrap_or_else(|| enough.min(trials_max)));
    let sourced = sourced.changed(changes, &systems::kinds())?;
    let fail_if = args.demands.fail_if.iter().map(ToString::to_string).collect();
    let trials_max = args.demands.trials.is_none().then_some(trials_max);
    Ok((sourced, record::Gate { system, fail_if, detect, trials_max }))
}

/// Parses the options of one build.
pub(crate) fn build(
    flag: &str,
    asked: Option<&str>,
    options: &[(String, String)],
    kind: Option<&str>,
) -> Result<Build, Failure> {
    let options: BTreeMap<String, String> = options.iter().cloned().collect();
    let mut build = Build { options, ..Build::default() };
    let Some(asked) = asked else { return Ok(build) };
    let (own, process) = match kind.and_then(systems::by_kind) {
        Some(system) => (system.declares().origin.recipe().is_some(), system.kind().is_process),
        None => (true, false),
    };
    if !own && !process {
        return Err(Failure::input(
            format!(
                "{flag} `{asked}`: kind `{}` is part of bakeoff and has no other builds",
                kind.unwrap_or("?")
            ),
            "compare options instead: `--new-option NAME=VALUE`",
        ));
    }
    if asked.contains('/') || Path::new(asked).exists() {
        let path =
            std::path::absolute(asked).ok().filter(|path| path.exists()).ok_or_else(|| {
                Failure::input(
                    format!("{flag}: program `{asked}` not found"),
                    "give a path to a program, or a version: `3.6.1`",
                )
            })?;
        build.program = Some(path.display().to_string());
        return Ok(build);
    }
    let version = match (asked.split_once('@'), kind) {
        (Some((of, version)), Some(kind)) if of == kind => version,
        (Some((of, _)), Some(kind)) => {
            return Err(Failure::input(
                format!(
                    "{flag} `{asked}` is a version of `{of}`, but the system has kind `{kind}`"
                ),
                format!("write the version alone, or `{kind}@VERSION`"),
            ));
        }
        _ => asked,
    };
    if version_request(Some(version)).is_err() {
        return Err(Failure::input(
            format!(
                "{flag} `{asked}` is neither a program nor a version: there is no such file, and versions \
                 begin with a digit"
            ),
            format!("write a program as a path, `./{asked}`, and a version as `3.6.1`"),
        ));
    }
    build.version = Some(version.trim_start_matches('v').to_owned());
    Ok(build)
}

/// Rejects two programs that are the same file or hold the same bytes.
fn refuse_same_file(builds: &[Build; 2]) -> Result<(), Failure> {
    let [Some(base), Some(new)] = builds.each_ref().map(|one| one.program.as_deref()) else {
        return Ok(());
    };
    let real = |path: &str| Path::new(path).canonicalize().ok();
    if real(base).is_some() && real(base) == real(new) {
        let what = format!("--base `{base}` and --new `{new}` are the same file");
        return Err(Failure::input(what, SAME_HINT));
    }
    let sum = |path: &str| sha256(Path::new(path));
    if let Some(sum) = sum(base).filter(|found| sum(new).as_ref() == Some(found)) {
        let what = format!("--base `{base}` and --new `{new}` hold the same bytes (SHA-256 {sum})");
        return Err(Failure::input(what, SAME_HINT));
    }
    Ok(())
}

/// Returns the SHA-256 of a file in hex. `None` if it cannot be read.
fn sha256(path: &Path) -> Option<String> {
    let mut file = bakeoff_files::open(path).ok()?;
    let (mut hash, mut block) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut block).ok()? {
            0 => break,
            read => hash.update(&block[..read]),
        }
    }
    Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Renders the run, prints the gate's outcome, and returns the exit code.
fn conclude(folder: &Path, args: &GateArgs, cases: &mut Vec<Case>) -> Result<ExitCode, Failure> {
    let folder: PathBuf = match folder.is_dir() {
        true => folder.to_owned(),
        false => folder.parent().map_or_else(PathBuf::new, Path::to_path_buf),
    };
    let rendering = Rendering::new(folder::read_and_warn(&folder)?);
    let page = rendering.write_all(&folder)?;
    let record = rendering.record();
    let compared =
        RunComparison::gate(record).map_err(|error| Failure::bad_input(error.to_string()))?;
    let format = if args.json { CompareFormat::Json } else { args.format };
    messages::output_styled(&match format {
        CompareFormat::Json => {
            let mut json = comparison::json(&compared);
            json["run"] = folder.display().to_string().into();
            messages::json(&json)
        }
        CompareFormat::Markdown => comparison::markdown(&compared),
        CompareFormat::Terminal => {
            let text = comparison::terminal(&compared, &messages::style());
            format!("{text}\nReport: {}\nRun: {}", page.display(), folder.display())
        }
    });
    cases.extend(Case::from_comparison(&compared));
    if !record.is_complete() {
        let why = "the run is not complete".to_owned();
        cases.push(Case { name: "ended".to_owned(), outcome: CaseOutcome::Unknown(vec![why]) });
        return Ok(ExitCode::from(Failure::INTERRUPTED.exit_code()));
    }
    Ok(match compared.passed() {
        Some(GateOutcome::Yes) => ExitCode::SUCCESS,
        Some(GateOutcome::No) => ExitCode::from(PROVEN),
        Some(GateOutcome::NotValid) => ExitCode::from(NOT_VALID),
        Some(GateOutcome::CannotTell) | None => ExitCode::from(CANNOT_TELL),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_trials_fit_in_the_announced_time() {
        let seconds = Duration::from_secs;
        for (before, elapsed, longest, expected) in [
            (6, 30, 60, 10),
            (6, 60, 60, 6),
            (6, 90, 60, 6),
            (14, 100, 10_000, 938),
            (6, 0, 60, 240_000),
        ] {
            let trials = affordable(before, seconds(elapsed), seconds(longest));
            assert!(trials.abs_diff(expected) <= expected / 1000, "{before} {elapsed}: {trials}");
            let further = seconds(elapsed) * (trials - before) / before * 3 / 2;
            assert!(trials == before || seconds(elapsed) + further <= seconds(longest));
        }
    }
}
