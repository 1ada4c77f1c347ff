//! Runs the trials of a study, from the first or those that a run still lacks.
//!
//! Each trial's record is on disk before the next begins. `bakeoff run` and `bakeoff gate` share this.
//!
//! Not here: one trial (`trial`), what a run refuses beforehand (`refusals`), rendering (`commands::report`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_clock as clock;
use bakeoff_core::plan::{Trial, plan};
use bakeoff_core::record::{
    Environment, FORMAT, Gate, Line, RunEnd, RunHeader, RunResumed, TrialRecord,
};
use bakeoff_core::study::Study;
use bakeoff_host::ports::Allocator;

use super::refusals;
use crate::cli::RunOptions;
use crate::cluster::contenders::{self, Contender};
use crate::commands::run_folder::RunFolder;
use crate::environment;
use crate::event::{Event, Reporter, Resumed, TrialStarted};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::trial::baseline::{self, Generator};
use crate::trial::{self, TrialContext};

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
            refusals::refuse_same_program(&contenders)?;
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
        refusals::refuse_changes(header, &here, &contenders, &folder)?;
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
        refusals::check_ports(self.options.ports.base_port, trials, &contenders, &folder.path)?;
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
            let contender = contenders::for_trial(remaining.contenders, trial);
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
    refusals::check_space(study, here.disk_free_bytes)?;
    Ok(here)
}

/// The most clients of any stage of any load.
fn clients_max(study: &Study) -> u32 {
    let loads = study.loads.iter();
    let clients =
        loads.flat_map(|load| load.clients.iter().chain(load.clients_for.values().flatten()));
    clients.copied().max().unwrap_or(0)
}
