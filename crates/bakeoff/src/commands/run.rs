//! `bakeoff run`: the whole story on one screen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_clock as clock;
use bakeoff_core::plan::{Trial, plan};
use bakeoff_core::record::{
    Environment, FORMAT, Floor, Gate, Line, RunEnd, RunHeader, RunResumed, SystemRecord,
    TrialRecord,
};
use bakeoff_core::study::{self, Study, shipped};
use bakeoff_core::units::{count_text, trials_text};
use bakeoff_host::ports::Allocator;

use crate::cli::{Format, RunArgs};
use crate::cluster::contenders::{self, Contender};
use crate::cluster::topology::compose;
use crate::commands::gate;
use crate::commands::report::Rendering;
use crate::commands::run_folder::{self, RunFolder};
use crate::environment;
use crate::failure::{Failure, NOT_VALID};
use crate::messages::{self, Messages};
use crate::progress::Progress;
use crate::systems;
use crate::trial::baseline;
use crate::trial::{self, TrialContext};

/// Runs a study, or goes on with a run, and prints what came of it.
pub(crate) fn run(
    args: &RunArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let (folder, complete) = match (&args.resume, &args.study) {
        (Some(run), _) => go_on(run, args, messages, interrupted)?,
        (None, Some(study)) => begin(study_for(study, args)?, None, args, messages, interrupted)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    messages.finish();
    if !complete {
        messages.step(&format!(
            "hint: `bakeoff run --resume {}` goes on with what is missing",
            folder.path.display()
        ));
    }
    conclude(&folder, args.json, messages)
}

/// A run of its own, of a gate where `gate` is asked. Yields its folder and whether it came to its end.
pub(crate) fn begin(
    study: Study,
    gate: Option<Gate>,
    args: &RunArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<(RunFolder, bool), Failure> {
    let (seed, order) = order(&study, args.seed);
    let open_files = bakeoff_engine::open_files::raise_for(clients_max(&study))?;

    let mut folder = RunFolder::create(&args.out, &study.name)?;
    let contenders = contenders::gather(&study, &folder.path, messages, interrupted)?;
    if gate.is_some() {
        gate::refuse_same_program(&contenders)?;
    }
    let threads = args.threads.unwrap_or_else(bakeoff_engine::open_files::cpus).max(1);
    check_ports(args.base_port, &order, &contenders, &folder.path)?;
    let mut environment =
        environment::describe(&folder.path, threads, open_files, study.starts_any())?;
    check_space(&study, environment.disk_free_bytes)?;
    environment.shared_machine = args.shared_machine || environment::is_machine_shared();
    environment.floor =
        baseline::measure(&study, &folder.path, threads, open_files, messages, interrupted)?;
    let header = RunHeader {
        format: FORMAT,
        bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
        started: bakeoff_clock::wall::utc_now(),
        study: study.clone(),
        seed,
        order: order.clone(),
        environment: environment.clone(),
        systems: contenders.iter().map(|contender| contender.record.clone()).collect(),
        gate,
    };
    folder.push(&Line::Run(header))?;
    messages.step(&opening(&study, seed, &order, &folder.path));
    let progress = Progress::new(&study, &[]);
    let shared_machine = environment.shared_machine;
    let contenders = &contenders[..];
    let floor = environment.floor.as_ref();
    let session =
        Session { study: &study, contenders, threads, args, interrupted, shared_machine, floor };
    let complete = session.run(&order, order.len(), progress, &mut folder, messages)?;
    Ok((folder, complete))
}

/// The seed of a run, a fresh one where none is given, and the order that follows from it.
pub(crate) fn order(study: &Study, seed: Option<u64>) -> (u64, Vec<Trial>) {
    let seed = seed.unwrap_or_else(|| rand::random::<u64>() >> 32); // short enough to retype
    (seed, plan(study, seed))
}

/// The trials that a run still lacks, on the same machine with the same programs.
pub(crate) fn go_on(
    run: &Path,
    args: &RunArgs,
    messages: &mut Messages,
    interrupted: &AtomicBool,
) -> Result<(RunFolder, bool), Failure> {
    let (mut folder, record) = RunFolder::open(run, messages)?;
    let missing = record.missing();
    if missing.is_empty() {
        messages.step(&format!("nothing is missing of {}", folder.path.display()));
        return Ok((folder, true));
    }
    let header = &record.header;
    let study = &header.study;
    let open_files = bakeoff_engine::open_files::raise_for(clients_max(study))?;
    let contenders = contenders::gather(study, &folder.path, messages, interrupted)?;
    let threads = header.environment.generator_threads;
    let here = environment::describe(&folder.path, threads, open_files, study.starts_any())?;
    let found: Vec<&SystemRecord> = contenders.iter().map(|contender| &contender.record).collect();
    let changes = changes(header, &here, &found);
    if !changes.is_empty() {
        return Err(Failure::input(
            format!(
                "trials that were run here would not belong to `{}`: {}",
                folder.path.display(),
                changes.join("; ")
            ),
            "run the study anew",
        ));
    }
    check_ports(args.base_port, &missing, &contenders, &folder.path)?;
    check_space(study, here.disk_free_bytes)?;
    folder.push(&Line::Resumed(RunResumed {
        resumed: bakeoff_clock::wall::utc_now(),
        bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
    }))?;
    messages.step(&format!(
        "{}: going on with {} of {}, seed {}, in {}",
        study.title,
        count_text(missing.len() as u64),
        trials_text(header.order.len()),
        header.seed,
        folder.path.display()
    ));
    let progress = Progress::new(study, &record.trials);
    // What a run began as it stays, so that all of its trials say the same.
    let shared_machine = header.environment.shared_machine;
    let contenders = &contenders[..];
    let floor = header.environment.floor.as_ref();
    let session = Session { study, contenders, threads, args, interrupted, shared_machine, floor };
    let complete = session.run(&missing, header.order.len(), progress, &mut folder, messages)?;
    Ok((folder, complete))
}

/// What differs from the machine and the programs that a run began with, in words.
fn changes(header: &RunHeader, here: &Environment, found: &[&SystemRecord]) -> Vec<String> {
    let mut changes = Vec::new();
    let mut differs = |what: &str, then: &str, now: &str| {
        if then != now {
            changes.push(format!("{what} was {then} and is {now}"));
        }
    };
    let then = &header.environment;
    differs("bakeoff", &header.bakeoff, env!("CARGO_PKG_VERSION"));
    // Trials of two formats do not mean the same by the same names.
    differs("the record's format", &header.format.to_string(), &FORMAT.to_string());
    differs("the processor", &then.cpu_model, &here.cpu_model);
    differs("the number of CPUs", &then.cpus.to_string(), &here.cpus.to_string());
    differs("the kernel", &then.kernel, &here.kernel);
    differs("the file system", &then.file_system, &here.file_system);
    for (then, now) in header.systems.iter().zip(found) {
        let text = |of: &Option<String>| of.clone().unwrap_or_else(|| "unknown".to_owned());
        let name = &then.name;
        differs(&format!("{name}'s version"), &text(&then.version), &text(&now.version));
        differs(&format!("the SHA-256 of {name}"), &text(&then.sha256), &text(&now.sha256));
    }
    changes
}

/// One sitting of a run.
struct Session<'a> {
    study: &'a Study,
    contenders: &'a [Contender<'a>],
    threads: u32,
    args: &'a RunArgs,
    interrupted: &'a AtomicBool,
    shared_machine: bool,
    /// As measured before the first trial.
    floor: Option<&'a Floor>,
}

impl Session<'_> {
    /// Runs trials one after the other; `of` is how many the whole run has. Yields whether it came
    /// to its end.
    fn run(
        &self,
        trials: &[Trial],
        of: usize,
        mut progress: Progress<'_>,
        folder: &mut RunFolder,
        messages: &mut Messages,
    ) -> Result<bool, Failure> {
        let interrupted = || self.interrupted.load(Ordering::Relaxed);
        // Servers start in folders of their own, where a relative path would mean something else.
        let run_dir = std::path::absolute(&folder.path)
            .map_err(|error| Failure::file("use", &folder.path, &error))?;
        let mut context = TrialContext {
            study: self.study,
            threads: self.threads,
            run_dir: &run_dir,
            ports: Allocator::new(self.args.base_port),
            interrupted: self.interrupted,
            shared_machine: self.shared_machine,
            kept: BTreeMap::new(),
        };
        for (place, trial) in trials.iter().enumerate() {
            if interrupted() {
                break;
            }
            let began = clock::now();
            let found = progress.found(trial);
            if place > 0 && trials[place - 1].round < trial.round && !messages.is_live() {
                found.iter().for_each(|found| messages.step(&format!("      {found}")));
            }
            messages.trial_begins(trial, of, progress.left(&trials[place..]), found);
            let contender = contender_of(self.contenders, trial);
            let again = place > 0 && trials[place - 1].round < trial.round;
            let floor_appends = match again {
                true => baseline::again(&run_dir, self.floor, self.interrupted),
                false => Vec::new(),
            };
            let record = trial::run(&mut context, contender, trial, messages);
            let record = TrialRecord { floor_appends, ..record };
            progress.ended(&record, began.elapsed());
            messages.trial_ended(&record, progress.left(&trials[place + 1..]));
            folder.push(&Line::Trial(record))?; // on disk now: a later crash loses nothing
        }
        context.end();
        let complete = !interrupted();
        folder.push(&Line::End(RunEnd { ended: bakeoff_clock::wall::utc_now(), complete }))?;
        Ok(complete)
    }
}

/// Renders the run from its record alone, and says where it is.
fn conclude(folder: &RunFolder, json: bool, messages: &Messages) -> Result<ExitCode, Failure> {
    let rendering = Rendering::new(run_folder::read(&folder.path)?.0);
    let page = rendering.write_all(&folder.path)?;
    let form = if json { Format::Json } else { Format::Terminal };
    messages.output(&rendering.text(form, &messages::style()));
    if !json {
        messages.output(&format!("\nReport: {}\nRun: {}", page.display(), folder.path.display()));
    }
    let record = rendering.record();
    let any_invalid = record.trials.iter().any(|trial| !trial.invalid_because().is_empty());
    Ok(match record.is_complete() {
        false => ExitCode::from(Failure::Interrupted.exit_code()),
        true if any_invalid => ExitCode::from(NOT_VALID),
        true => ExitCode::SUCCESS,
    })
}

fn contender_of<'a, 'b>(contenders: &'a [Contender<'b>], trial: &Trial) -> &'a Contender<'b> {
    let found = contenders.iter().find(|contender| contender.asked.name == trial.system);
    found.expect("a plan names the systems of its study")
}

fn opening(study: &Study, seed: u64, order: &[Trial], folder: &Path) -> String {
    let scale = if study.scale == 1.0 {
        String::new()
    } else {
        format!(" (scaled to {} of the study's counts)", study.scale)
    };
    format!(
        "{}{scale}: {}, seed {seed}, in {}",
        study.title,
        trials_text(order.len()),
        folder.display()
    )
}

/// The study as asked for: read, and changed by flags.
fn study_for(study: &str, args: &RunArgs) -> Result<Study, Failure> {
    let mut study = load_study(study)?;
    if let Some(scale) = args.scale {
        study = study.scaled(scale)?;
    }
    if let Some(trials) = args.trials {
        study.trials = trials;
    }
    Ok(study)
}

/// Reads a study by path, or one of those that ship by its name.
pub(crate) fn load_study(asked: &str) -> Result<Study, Failure> {
    let StudyText { name, file, text } = study_text(asked)?;
    Ok(study::parse(&name, &file, &text, &systems::kinds())?)
}

/// A study as it is written.
pub(crate) struct StudyText {
    /// `ingress`.
    pub(crate) name: String,
    /// As it is called in messages: `studies/ingress.yaml`.
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The text of a study by path, or of one of those that ship by its name.
pub(crate) fn study_text(asked: &str) -> Result<StudyText, Failure> {
    let path = PathBuf::from(asked);
    if let Some((name, text)) = shipped::shipped().iter().find(|(name, _)| *name == asked)
        && !path.is_file()
    {
        let (name, file) = ((*name).to_owned(), format!("studies/{name}.yaml"));
        return Ok(StudyText { name, file, text: (*text).to_owned() });
    }
    let bytes = std::fs::read(&path).map_err(|error| {
        let names: Vec<&str> = shipped::shipped().iter().map(|(name, _)| *name).collect();
        let hint = format!("give a study's file, or one of those that ship: {}", names.join(", "));
        Failure::input(format!("cannot read study `{asked}`: {error}"), hint)
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(
            format!("study `{asked}` is not UTF-8 at byte {at}"),
            "studies are YAML text",
        )
    })?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("study");
    Ok(StudyText { name: stem.to_owned(), file: asked.to_owned(), text })
}

/// The most clients of any stage of any load.
fn clients_max(study: &Study) -> u32 {
    let loads = study.loads.iter();
    let clients =
        loads.flat_map(|load| load.clients.iter().chain(load.clients_for.values().flatten()));
    clients.copied().max().unwrap_or(0)
}

/// Whether the ports that a user chose are free, all of them, before the first trial takes any.
fn check_ports(
    base: Option<u16>,
    order: &[Trial],
    contenders: &[Contender<'_>],
    dir: &Path,
) -> Result<(), Failure> {
    let Some(base) = base else { return Ok(()) };
    let mut ports = Allocator::rehearsal(base);
    for trial in order {
        compose(&contender_of(contenders, trial).ingredients, dir, 0, &mut ports)?;
    }
    Ok(())
}

/// The least free space with which three servers of any kind start and keep their logs.
const SPACE_MIN: u64 = 1 << 30;

fn check_space(study: &Study, free: u64) -> Result<(), Failure> {
    if study.starts_any() && free < SPACE_MIN {
        let mib = free >> 20;
        return Err(Failure::Machine(format!(
            "only {mib} MiB are free on the disk that would hold the servers' data\n  needed: at least \
             {} MiB\nhint: `--out DIR` puts runs somewhere else",
            SPACE_MIN >> 20
        )));
    }
    Ok(())
}
