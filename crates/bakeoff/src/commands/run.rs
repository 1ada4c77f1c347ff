//! `bakeoff run`: the whole story on one screen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_clock as clock;
use bakeoff_core::plan::{Trial, plan};
use bakeoff_core::record::{
    Environment, FORMAT, Gate, Line, RunEnd, RunHeader, RunResumed, SystemRecord, TrialRecord,
};
use bakeoff_core::study::{self, Study, shipped};
use bakeoff_host::ports::Allocator;

use crate::cli::{Format, RunArgs, RunOptions};
use crate::cluster::contenders::{self, Contender};
use crate::cluster::topology::compose;
use crate::commands::gate;
use crate::commands::report::{self, Rendering};
use crate::commands::run_folder::{self, RunFolder};
use crate::environment;
use crate::event::{Event, Reporter, Resumed, TrialStarted};
use crate::failure::{Failure, NOT_VALID};
use crate::messages;
use crate::progress::Progress;
use crate::systems;
use crate::trial::baseline::{self, Generator};
use crate::trial::{self, TrialContext};

/// Runs a study, or goes on with a run, and prints what came of it.
pub(crate) fn run(
    args: &RunArgs,
    reporter: &mut dyn Reporter,
    interrupted: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let mut runner = Runner { options: &args.options, reporter, interrupted };
    let (folder, complete) = match (&args.resume, &args.study) {
        (Some(run), _) => runner.go_on(run)?,
        (None, Some(study)) => {
            let study = study_for(study, args)?;
            let (seed, order) = order(&study, args.options.seed);
            runner.begin(study, seed, order, None)?
        }
        (None, None) => unreachable!("clap asks for one of them"),
    };
    reporter.report(&Event::RunFinished { complete, resume: "run", folder: &folder.path });
    conclude(&folder, args)
}

/// Returns the seed of a run, a fresh one where none is given, and the order that follows from it.
pub(crate) fn order(study: &Study, seed: Option<u64>) -> (u64, Vec<Trial>) {
    let seed = seed.unwrap_or_else(|| rand::random::<u64>() >> 32); // short enough to retype
    (seed, plan(study, seed))
}

/// Runs trials, from the first or those that are missing.
pub(crate) struct Runner<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) reporter: &'a mut dyn Reporter,
    pub(crate) interrupted: &'a AtomicBool,
}

/// The trials that are to be run now, and what they share.
struct Remaining<'a> {
    study: &'a Study,
    contenders: &'a [Contender<'a>],
    /// As the run began, so that all of its trials say the same.
    environment: &'a Environment,
    trials: &'a [Trial],
    /// How many trials the whole run has.
    of: usize,
}

impl Runner<'_> {
    /// Runs all trials of a study, for a gate where one is asked. Returns the run's folder, and whether it
    /// came to its end.
    pub(crate) fn begin(
        &mut self,
        study: Study,
        seed: u64,
        order: Vec<Trial>,
        gate: Option<Gate>,
    ) -> Result<(RunFolder, bool), Failure> {
        let mut folder = RunFolder::create(&self.options.out, &study.name)?;
        let threads = self.options.threads.unwrap_or_else(bakeoff_engine::open_files::cpus).max(1);
        let open_files = bakeoff_engine::open_files::raise_for(clients_max(&study))?;
        let contenders = self.contenders(&study, &folder, &order)?;
        if gate.is_some() {
            gate::refuse_same_program(&contenders)?;
        }
        let mut environment = describe(&study, &folder, threads, open_files)?;
        environment.shared_machine =
            self.options.shared_machine || environment::is_machine_shared();
        let generator = Generator { threads, open_files };
        let machine_baseline =
            baseline::measure(&study, &folder.path, generator, self.reporter, self.interrupted)?;
        environment.machine_baseline = machine_baseline;
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
        let (trials, path) = (order.len(), &*folder.path);
        self.reporter.report(&Event::RunStarted { study: &study, seed, trials, folder: path });
        let remaining = Remaining {
            study: &study,
            contenders: &contenders,
            environment: &environment,
            trials: &order,
            of: trials,
        };
        let complete = self.trials(&remaining, Progress::new(&study, &[]), &mut folder)?;
        Ok((folder, complete))
    }

    /// Runs the trials that a run still lacks, on the same machine with the same programs.
    pub(crate) fn go_on(&mut self, run: &Path) -> Result<(RunFolder, bool), Failure> {
        let (mut folder, record) = RunFolder::open(run, self.reporter)?;
        let missing = record.missing();
        if missing.is_empty() {
            self.reporter.report(&Event::NothingMissing { folder: &folder.path });
            return Ok((folder, true));
        }
        let header = &record.header;
        let study = &header.study;
        let threads = header.environment.generator_threads;
        let open_files = bakeoff_engine::open_files::raise_for(clients_max(study))?;
        let contenders = self.contenders(study, &folder, &missing)?;
        let here = describe(study, &folder, threads, open_files)?;
        refuse_changes(header, &here, &contenders, &folder)?;
        folder.push(&Line::Resumed(RunResumed {
            resumed: bakeoff_clock::wall::utc_now(),
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
        }))?;
        self.reporter.report(&Event::RunResumed(Resumed {
            title: &study.title,
            missing: missing.len(),
            trials: header.order.len(),
            seed: header.seed,
            folder: &folder.path,
        }));
        let remaining = Remaining {
            study,
            contenders: &contenders,
            environment: &header.environment,
            trials: &missing,
            of: header.order.len(),
        };
        let progress = Progress::new(study, &record.trials);
        let complete = self.trials(&remaining, progress, &mut folder)?;
        Ok((folder, complete))
    }

    /// Finds the programs of all systems, and the ports of these trials.
    fn contenders<'a>(
        &mut self,
        study: &'a Study,
        folder: &RunFolder,
        trials: &[Trial],
    ) -> Result<Vec<Contender<'a>>, Failure> {
        let contenders = contenders::gather(study, &folder.path, self.reporter, self.interrupted)?;
        check_ports(self.options.ports.base_port, trials, &contenders, &folder.path)?;
        Ok(contenders)
    }

    /// Runs trials one after the other. Returns whether all of them were run.
    fn trials(
        &mut self,
        remaining: &Remaining<'_>,
        mut progress: Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<bool, Failure> {
        let interrupted = || self.interrupted.load(Ordering::Relaxed);
        let Remaining { study, environment, trials, of, .. } = *remaining;
        // Servers start in folders of their own, where a relative path would mean something else.
        let run_dir = std::path::absolute(&folder.path)
            .map_err(|error| Failure::file("use", &folder.path, &error))?;
        let mut context = TrialContext {
            study,
            threads: environment.generator_threads,
            run_dir: &run_dir,
            ports: Allocator::new(self.options.ports.base_port),
            interrupted: self.interrupted,
            shared_machine: environment.shared_machine,
            kept: BTreeMap::new(),
        };
        for (place, trial) in trials.iter().enumerate() {
            if interrupted() {
                break;
            }
            let began = clock::now();
            let begins_round = place > 0 && trials[place - 1].round < trial.round;
            self.reporter.report(&Event::TrialStarted(TrialStarted {
                trial,
                trials: of,
                begins_round,
                left: progress.left(&trials[place..]),
                found: progress.found(trial).as_deref(),
            }));
            let contender = contender_of(remaining.contenders, trial);
            let baseline_appends = match begins_round {
                true => baseline::again(
                    &run_dir,
                    environment.machine_baseline.as_ref(),
                    self.interrupted,
                ),
                false => Vec::new(),
            };
            let record = trial::run(&mut context, contender, trial, self.reporter);
            let record = TrialRecord { baseline_appends, ..record };
            progress.ended(&record, began.elapsed());
            let left = progress.left(&trials[place + 1..]);
            self.reporter.report(&Event::TrialFinished { record: &record, left });
            folder.push(&Line::Trial(record))?; // on disk now: a later crash loses nothing
        }
        context.end();
        let complete = !interrupted();
        folder.push(&Line::End(RunEnd { ended: bakeoff_clock::wall::utc_now(), complete }))?;
        Ok(complete)
    }
}

/// Describes this machine, and refuses one without room for the servers' data.
fn describe(
    study: &Study,
    folder: &RunFolder,
    threads: u32,
    open_files: u64,
) -> Result<Environment, Failure> {
    let here = environment::describe(&folder.path, threads, open_files, study.starts_any())?;
    check_space(study, here.disk_free_bytes)?;
    Ok(here)
}

/// Refuses a machine or programs that are not those that a run began with.
fn refuse_changes(
    header: &RunHeader,
    here: &Environment,
    contenders: &[Contender<'_>],
    folder: &RunFolder,
) -> Result<(), Failure> {
    let found: Vec<&SystemRecord> = contenders.iter().map(|contender| &contender.record).collect();
    let changes = changes(header, here, &found);
    if changes.is_empty() {
        return Ok(());
    }
    Err(Failure::input(
        format!(
            "trials that were run here would not belong to `{}`: {}",
            folder.path.display(),
            changes.join("; ")
        ),
        "run the study anew",
    ))
}

/// Returns what differs from the machine and the programs that a run began with, in words.
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

/// Renders the run from its record alone, and says where it is.
fn conclude(folder: &RunFolder, args: &RunArgs) -> Result<ExitCode, Failure> {
    let rendering = Rendering::new(run_folder::read(&folder.path)?.0);
    let page = rendering.write_all(&folder.path)?;
    let form = if args.json { Format::Json } else { Format::Terminal };
    let extent = report::extent(args.all);
    messages::output(&rendering.text(form, &messages::style(), extent));
    if !args.json {
        messages::output(&format!("\nReport: {}\nRun: {}", page.display(), folder.path.display()));
    }
    let record = rendering.record();
    let any_invalid = record.trials.iter().any(|trial| !trial.invalid_because().is_empty());
    Ok(match record.is_complete() {
        false => ExitCode::from(Failure::INTERRUPTED.exit_code()),
        true if any_invalid => ExitCode::from(NOT_VALID),
        true => ExitCode::SUCCESS,
    })
}

fn contender_of<'a, 'b>(contenders: &'a [Contender<'b>], trial: &Trial) -> &'a Contender<'b> {
    let found = contenders.iter().find(|contender| contender.asked.name == trial.system);
    found.expect("a plan names the systems of its study")
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

/// Returns whether the ports that a user chose are free, all of them, before the first trial takes any.
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
        return Err(Failure::machine(format!(
            "only {mib} MiB are free on the disk that would hold the servers' data\n  needed: at least \
             {} MiB\nhint: `--out DIR` puts runs somewhere else",
            SPACE_MIN >> 20
        )));
    }
    Ok(())
}
