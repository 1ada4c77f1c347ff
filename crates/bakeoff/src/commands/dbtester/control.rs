//! `bakeoff dbtester control`: runs a configuration's databases in turn, and writes dbtester's files.
//!
//! Not here: the study (`study`), a trial (`bakeoff_trial::trial`), the files' contents
//! (`bakeoff_compat::dbtester::files`).

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use bakeoff_compat::dbtester::files::{self, DatabaseTrial};
use bakeoff_compat::dbtester::{LocatedValue, ResultFile};
use bakeoff_core::record::{Record, TrialOutcome};
use bakeoff_core::study::{DiagnosticSink, Stop, Study};
use bakeoff_trial::event::{Event, Reporter};
use bakeoff_trial::run::folder;
use bakeoff_trial::run::{Runner, seeded_plan};

use super::study::{self, PlannedDatabase, StudyRequest};
use super::{ConfigFile, write_all};
use crate::cli::ControlArgs;
use crate::commands::run;
use crate::failure::Failure;
use crate::messages;

/// Runs the databases, prints the report, and names dbtester's files.
pub(super) fn run(
    args: &ControlArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let file = ConfigFile::read(&args.config)?;
    let StudyRequest { sourced, databases, notes, places } = study::study_request(&file, args)?;
    refuse_missing_folder(&file, args)?;
    notes.iter().for_each(|note| messages::warn(note));
    if args.disk_device.is_some() || args.network_interface.is_some() {
        messages::warn(
            "`--disk-device` and `--network-interface` are ignored: bakeoff samples each node's processes",
        );
    }
    if let Some(run) = &args.from {
        let record = folder::read(run)?.record;
        return from(&file, &databases, &record, args);
    }
    let (seed, order) = seeded_plan(&sourced.study, args.options.seed);
    let mut runner = Runner { settings: args.options.settings(), places, reporter, interrupted };
    let (folder, complete) = runner.begin(sourced, seed, order, None)?;
    let (folder_path, on) = (&*folder.path, args.options.on.as_deref());
    reporter.report(&Event::RunFinished { complete, resume: "run", folder: folder_path, on });
    let code = run::conclude(&folder, false, false)?;
    let record = folder::read(&folder.path)?.record;
    for planned in &databases {
        written(&file, planned, &record, args)?;
    }
    Ok(code)
}

/// Writes the files of an existing run.
fn from(
    file: &ConfigFile,
    databases: &[PlannedDatabase<'_>],
    record: &Record,
    args: &ControlArgs,
) -> Result<ExitCode, Failure> {
    let has = |planned: &&PlannedDatabase<'_>| {
        record.trials.iter().any(|one| one.trial.system == planned.system)
    };
    if let Some(missing) = databases.iter().find(|planned| !has(planned)) {
        let id = missing.group.database.id();
        return Err(Failure::input(
            format!("the run of study `{}` has no trial of `{id}`", record.header.study.name),
            format!("name a run of `{}`, or one database with `--database-id`", file.name),
        ));
    }
    for planned in databases {
        written(file, planned, record, args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Rejects a missing `path_prefix` before anything is started. dbtester's files of a single database go there.
fn refuse_missing_folder(file: &ConfigFile, args: &ControlArgs) -> Result<(), Failure> {
    let LocatedValue { value, at } = &file.config.client.prefix;
    let folder = args.path_prefix.as_deref().unwrap_or(value);
    if args.database_id.is_none() || folder.is_empty() || Path::new(folder).is_dir() {
        return Ok(());
    }
    let what = format!("folder `{folder}` does not exist");
    let hint = "`--path-prefix .` writes the files of `control` to the current folder";
    if args.path_prefix.is_some() {
        return Err(Failure::input(what, hint));
    }
    let mut sink = DiagnosticSink::new(file.name.as_str(), file.text.as_str());
    sink.hint(at, what, hint);
    Err(sink.into_diagnostics().into())
}

/// Writes the files of one database, and prints their paths.
fn written(
    file: &ConfigFile,
    planned: &PlannedDatabase<'_>,
    record: &Record,
    args: &ControlArgs,
) -> Result<(), Failure> {
    let (config, group) = (&file.config, planned.group);
    let id = group.database.id();
    let Some(trial) = record.trials.iter().find(|one| one.trial.system == planned.system) else {
        return Ok(()); // interrupted before
    };
    if trial.outcome != TrialOutcome::Completed {
        let why = trial.invalid_because().join("; ");
        messages::warn(&format!("no dbtester files for `{id}`: {why}"));
        return Ok(());
    }
    if let Some(why) = trial.invalid_because().first() {
        messages::warn(&format!("the files of `{id}` come from a trial that is not valid: {why}"));
    }
    let endpoints: Vec<String> =
        group.nodes.iter().map(|node| format!("{}:{}", node.host, node.database_port)).collect();
    let made = files::files(&DatabaseTrial {
        record: trial,
        program: group.database.product().name(),
        clients_each: planned.clients_each,
        requests: requests(&record.header.study, &trial.trial.load),
        endpoints: &endpoints,
    });
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            messages::warn(&format!("no dbtester files for `{id}`: {error}"));
            return Ok(());
        }
    };
    let Some(analysis) = config.analysis(group.database) else { return Ok(()) };
    let mut files: Vec<(String, String)> = Vec::new();
    for (role, text) in &made.client {
        let path = match analysis.paths.get(role) {
            Some(path) => path.clone(),
            // The raw samples: `analyze` reads only the interpolated ones.
            None => {
                analysis.paths[&ResultFile::ClientMetricsInterpolated].replace("-interpolated", "")
            }
        };
        files.push((path, text.clone()));
    }
    for (place, path) in analysis.servers.iter().enumerate() {
        let (raw, interpolated) = match made.servers.get(place) {
            Some(server) => (server.raw.clone(), server.interpolated.clone()),
            None => (files::no_metrics(), files::no_metrics()),
        };
        let looks = path.replace("-interpolated", "");
        if looks != *path {
            files.push((looks, raw));
        }
        files.push((path.clone(), interpolated));
    }
    let paths = write_all(&args.results, &files)?;
    let parent = paths.first().and_then(|path| path.parent()).unwrap_or(&args.results);
    messages::output(&format!("{id}: {} files in {}", paths.len(), parent.display()));
    if args.database_id.is_some() {
        let prefix = args.path_prefix.as_deref();
        let own = made
            .client
            .iter()
            .map(|(role, text)| (config.client_path(*role, prefix), text.clone()));
        let paths = write_all(Path::new(""), &own.collect::<Vec<_>>())?;
        let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        messages::output(&format!("{id}: {}", shown.join(" ")));
    }
    let system = record.header.systems.iter().find(|one| one.name == planned.system);
    if let Some(version) = system.and_then(|system| system.version.as_deref())
        && !group.description.contains(version)
    {
        messages::warn(&format!(
            "files and tables name `{id}` `{}` after the configuration, but {} {version} ran",
            group.tag(),
            group.database.product().name()
        ));
    }
    Ok(())
}

/// Returns the requests of a load; 0 if it stops after a time.
fn requests(study: &Study, load: &str) -> u64 {
    let stop = study.loads.iter().find(|one| one.name == load).map(|load| load.stop);
    match stop {
        Some(Stop::Operations(requests)) => requests,
        Some(Stop::After(_)) | None => 0,
    }
}
