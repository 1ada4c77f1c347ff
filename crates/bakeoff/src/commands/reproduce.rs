//! `bakeoff reproduce`: runs a recorded study again on this machine, and judges the claims of the first run.
//!
//! Study, seed and order of trials come from the record. A system without a program path gets the recorded version. Its
//! SHA-256 shows whether it is the same build.
//!
//! Not here: claims and their judgement (`bakeoff_report::reproduce`), trials (`bakeoff_trial::run`).

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_core::record::{Record, SystemRecord};
use bakeoff_core::study::{self, SourcedStudy};
use bakeoff_files as files;
use bakeoff_report::reproduce::{ClaimOutcome, Reproduction};
use bakeoff_systems as systems;
use bakeoff_trial::event::{Event, Reporter};
use bakeoff_trial::run::folder::{self, ReadRun};
use bakeoff_trial::run::trust::{self, RecordTrust};
use bakeoff_trial::run::{Runner, seeded_plan};

use crate::cli::{ReproduceArgs, RunOptions};
use crate::commands::report::Rendering;
use crate::failure::{CANNOT_TELL, Failure, PROVEN};
use crate::messages;

/// Result file in the folder of the new run.
pub(super) const FILE: &str = "reproduction.json";

/// Runs the study of a record again, and prints the outcome of each claim.
pub(crate) fn run(
    args: &ReproduceArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let ReadRun { text, record: there, .. } = folder::read_and_warn(&args.run)?;
    if let Some(with) = &args.with {
        let here = folder::read_and_warn(with)?.record;
        if here.header.study.name != there.header.study.name {
            return Err(Failure::input(
                format!("`{}` and `{}` ran different studies", args.run.display(), with.display()),
                "use `bakeoff compare` to compare two runs of one study",
            ));
        }
        return Ok(answer(&Reproduction::new(&there, &here), args));
    }
    let sourced = study_of(&text, &there, args)?;
    let options = RunOptions {
        seed: Some(there.header.seed),
        threads: args.threads.or(Some(there.header.environment.generator_threads)),
        out: args.out.clone(),
        shared_machine: args.shared_machine,
        on: None,
        ports: args.ports.clone(),
        watch: args.watch.clone(),
    };
    let mut runner = Runner { settings: options.settings(), places: None, reporter, interrupted };
    let (seed, order) = seeded_plan(&sourced.study, options.seed);
    let (folder, complete) = runner.begin(sourced, seed, order, None)?;
    let (folder_path, on) = (&*folder.path, options.on.as_deref());
    reporter.report(&Event::RunFinished { complete, resume: "run", folder: folder_path, on });
    let rendering = Rendering::new(folder::read(&folder.path)?);
    let page = rendering.write_all(&folder.path)?;
    let found = Reproduction::new(&there, rendering.record());
    let file = folder.path.join(FILE);
    files::replace(&file, (messages::json(&found.json()) + "\n").as_bytes(), files::PRIVATE)
        .map_err(|error| Failure::file("write", &file, &error))?;
    let code = answer(&found, args);
    if !args.json {
        let folder = folder.path.display();
        messages::output(&format!("\nReport: {}\nRun: {folder}", page.display()));
    }
    Ok(if complete { code } else { ExitCode::from(Failure::INTERRUPTED.exit_code()) })
}

fn answer(found: &Reproduction, args: &ReproduceArgs) -> ExitCode {
    messages::output(&match args.json {
        true => messages::json(&found.json()),
        false => found.text(),
    });
    match found.claims.len() {
        _ if found.count(ClaimOutcome::Contradicted) > 0 => ExitCode::from(PROVEN),
        all if all > 0 && found.count(ClaimOutcome::Replicated) == all => ExitCode::SUCCESS,
        _ => ExitCode::from(CANNOT_TELL),
    }
}

/// Returns the study of a record, with the recorded versions and rounds. Refuses gates and untrusted records.
fn study_of(text: &[u8], there: &Record, args: &ReproduceArgs) -> Result<SourcedStudy, Failure> {
    let header = &there.header;
    if header.gate.is_some() {
        return Err(Failure::input(
            format!("`{}` is a run of `bakeoff gate`", args.run.display()),
            "run the gate again with the builds that its record names",
        ));
    }
    let name = args.run.display().to_string();
    let source = there.check_study(&name, &systems::kinds())?;
    RecordTrust::from(args.trust).check(&folder::record_file(&args.run), text, header)?;
    trust::refuse_changed_programs(header, &name)?;
    let mut changes = source.changes.clone();
    changes.trials = Some(header.study.trials);
    for study_system in &header.study.systems {
        let Some(recorded) = header.systems.iter().find(|one| one.name == study_system.name) else {
            continue;
        };
        changes.versions.extend(version(&study_system.name, study_system, recorded));
        for (role, part) in &study_system.parts {
            let recorded = recorded.parts.iter().find(|one| one.role == *role);
            let name = format!("{}/{role}", study_system.name);
            changes
                .versions
                .extend(recorded.and_then(|recorded| version(&name, part, &recorded.part)));
        }
    }
    let sourced = SourcedStudy { study: header.study.clone(), source: source.clone() };
    Ok(sourced.changed(changes, &systems::kinds())?)
}

/// Returns the name and recorded version of a program that bakeoff finds or fetches itself.
fn version(
    name: &str,
    study_system: &study::System,
    recorded: &SystemRecord,
) -> Option<(String, String)> {
    let system = systems::by_kind(&study_system.kind);
    let is_found = system.is_some_and(|system| system.declares().origin.recipe().is_some());
    let version = recorded.version.clone()?;
    (is_found && study_system.is_started() && study_system.program.is_none())
        .then(|| (name.to_owned(), version))
}
