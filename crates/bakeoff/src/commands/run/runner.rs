//! Runs the trials of a study, from the first or those that a run still lacks.
//!
//! Each trial's record is on disk before the next begins. `bakeoff run` and `bakeoff gate` share this.
//!
//! Not here: one trial (`trial`), what a run refuses beforehand (`refusals`), rendering (`commands::report`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_clock as clock;
use bakeoff_core::places::{Places, Purpose};
use bakeoff_core::plan::{Trial, plan};
use bakeoff_core::record::{
    Environment, FORMAT, Gate, RecordLine, RunEnd, RunExtended, RunHeader, RunResumed,
    TrialOutcome, TrialRecord,
};
use bakeoff_core::repeat::{ExtraRounds, extra_rounds};
use bakeoff_core::study::Study;

use super::start_failures::StartFailures;
use super::{refusals, trust};
use crate::cli::RunOptions;
use crate::cluster::contenders::{self, Contender};
use crate::commands::run_folder::{self, RECORD, RunFolder};
use crate::environment;
use crate::event::{Event, Reporter, Resumed, TrialStarted};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::trial::{self, TrialContext, connections, rights};
use bakeoff_fleet::machines::baseline::BaselineEvent;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::{self, Machines};

/// Returns the seed of a run, a fresh one where none is given, and the order that follows from it.
pub(crate) fn order(study: &Study, seed: Option<u64>) -> (u64, Vec<Trial>) {
    let seed = seed.unwrap_or_else(|| rand::random::<u64>() >> 32); // short enough to retype
    (seed, plan(study, seed))
}

/// Runs trials, from the first or those that are missing.
pub(crate) struct Runner<'a> {
    pub(crate) options: &'a RunOptions,
    /// The machines of `--on`, where they are not simply those of its file.
    pub(crate) places: Option<Places>,
    pub(crate) reporter: &'a mut dyn Reporter,
    pub(crate) interrupted: &'a AtomicBool,
}

/// A run whose programs were found and whose machine was described: nothing refuses it.
struct Prepared<'a> {
    study: &'a Study,
    contenders: Vec<Contender<'a>>,
    /// As the run began, so that all of its trials say the same.
    environment: Environment,
}

/// The trials of a run, and what they run on.
#[derive(Clone, Copy)]
struct Trials<'a> {
    prepared: &'a Prepared<'a>,
    fleet: &'a Fleet,
    /// How many trials the whole run has.
    total: usize,
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
        let fleet = &self.reach(&study)?;
        let mut folder = RunFolder::create(&self.options.out, &study.name)?;
        let threads = self.options.threads.unwrap_or_else(|| fleet.generator_cpus()).max(1);
        let mut prepared = self.prepare(&study, &folder, (&order, threads), fleet)?;
        if gate.is_some() {
            refusals::refuse_same_program(&prepared.contenders)?;
        }
        prepared.environment.shared_machine =
            self.options.shared_machine || environment::is_machine_shared();
        if fleet.placed().is_none() {
            rights::check(&study, &prepared.contenders, self.interrupted)?;
            connections::check_running(&study, &prepared.contenders, self.interrupted)?;
        }
        contenders::send_programs(&prepared.contenders, fleet)?;
        let environment = &mut prepared.environment;
        fleet.describe(environment)?;
        let of = (&study, &*folder.path);
        let mut report = |event: BaselineEvent<'_>| self.reporter.report(&event.into());
        fleet.measure_baseline(of, environment, &mut report, self.interrupted)?;
        let (contenders, trials) = (&prepared.contenders, order.len());
        folder.push(&RecordLine::Run(RunHeader {
            format: FORMAT,
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
            bakeoff_sha256: environment::own_sha256(),
            started: bakeoff_clock::wall::utc_now(),
            study: study.clone(),
            seed,
            order: order.clone(),
            environment: prepared.environment.clone(),
            systems: contenders.iter().map(|contender| contender.record.clone()).collect(),
            gate,
        }))?;
        let path = &*folder.path;
        self.reporter.report(&Event::RunStarted { study: &study, seed, trials, folder: path });
        let mut progress = Progress::new(&study, &[]);
        let run = Trials { prepared: &prepared, fleet, total: trials };
        let complete = self.trials(&run, &order, &mut progress, &mut folder)?;
        let complete = complete && self.repeat_spoilt(&run, progress, &mut folder)?;
        Ok((folder, complete))
    }

    /// Reaches the machines that the run is to use, where it was told of any.
    fn reach(&mut self, study: &Study) -> Result<Fleet, Failure> {
        let Some(path) = &self.options.on else { return Ok(Fleet::Local) };
        let places = match self.places.take() {
            Some(places) => places,
            None => machines::read_places(path, Purpose::Run)?,
        };
        if places.kubernetes.is_none() {
            refusals::refuse_homeless(study, &places)?;
        }
        refusals::refuse_pins(study, &places)?;
        let base_port = self.options.ports.base_port;
        let name: String =
            study.name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let mut reached =
            Machines::reach(places, (&name, Some(study)), base_port, self.interrupted)?;
        reached.open_tunnels()?;
        Ok(Fleet::Placed(Arc::new(reached)))
    }

    /// Runs the trials that a run still lacks, on the same machine with the same programs. `trust`: the user
    /// vouches for a record that somebody else could have written.
    pub(crate) fn go_on(&mut self, run: &Path, trust: bool) -> Result<(RunFolder, bool), Failure> {
        let (mut folder, record) = RunFolder::open(run, self.reporter)?;
        if !trust {
            trust::refuse_foreign(&folder.path.join(RECORD))?;
        }
        let spoilt = extra_rounds(&record);
        let missing = spoilt.as_ref().map_or_else(|| record.missing(), |more| more.order.clone());
        if missing.is_empty() {
            self.reporter.report(&Event::NothingMissing { folder: &folder.path });
            return Ok((folder, true));
        }
        let header = &record.header;
        refusals::refuse_another_bakeoff(header, &folder)?;
        trust::refuse_altered(&record, &folder.path.join(RECORD))?;
        let more = spoilt.as_ref().map_or(0, |more| more.order.len());
        let (study, trials) = (&header.study, header.order.len() + more);
        let threads = header.environment.generator_threads;
        let fleet = &self.reach(study)?;
        refusals::refuse_other_machines(&record, fleet, &folder)?;
        let here = self.prepare(study, &folder, (&missing, threads), fleet)?;
        refusals::refuse_changes(header, &here.environment, &here.contenders, &folder)?;
        let prepared = Prepared { environment: header.environment.clone(), ..here };
        contenders::send_programs(&prepared.contenders, fleet)?;
        folder.push(&RecordLine::Resumed(RunResumed {
            resumed: bakeoff_clock::wall::utc_now(),
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
        }))?;
        self.reporter.report(&Event::RunResumed(Resumed {
            title: &study.title,
            missing: missing.len(),
            trials,
            seed: header.seed,
            folder: &folder.path,
        }));
        let mut progress = Progress::new(study, &record.trials);
        if let Some(more) = spoilt {
            self.extend(more, study, &progress, &mut folder)?;
        }
        let run = Trials { prepared: &prepared, fleet, total: trials };
        let complete = self.trials(&run, &missing, &mut progress, &mut folder)?;
        let complete = complete && self.repeat_spoilt(&run, progress, &mut folder)?;
        Ok((folder, complete))
    }

    /// Runs further rounds in place of those that the machine spoilt, as long as the run may have more.
    /// Returns whether all of them were run.
    fn repeat_spoilt(
        &mut self,
        run: &Trials<'_>,
        mut progress: Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<bool, Failure> {
        while let Some(more) = extra_rounds(&run_folder::read(&folder.path)?.0) {
            let order = more.order.clone();
            let total = order.last().map_or(0, |last| last.number as usize + 1);
            self.extend(more, run.prepared.study, &progress, folder)?;
            if !self.trials(&Trials { total, ..*run }, &order, &mut progress, folder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds further rounds to a run.
    fn extend(
        &mut self,
        more: ExtraRounds,
        study: &Study,
        progress: &Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<(), Failure> {
        let ExtraRounds { repeats, order } = more;
        let takes = progress.left(&order);
        self.reporter.report(&Event::RoundsRepeated { repeats: &repeats, takes });
        folder.push(&RecordLine::Extended(RunExtended {
            extended: bakeoff_clock::wall::utc_now(),
            trials: study.trials,
            before: study.trials,
            repeats,
            order,
        }))
    }

    /// Finds the programs of all systems and the ports of these trials, describes the machine, and refuses
    /// one without room for the servers' data.
    fn prepare<'a>(
        &mut self,
        study: &'a Study,
        folder: &RunFolder,
        (trials, threads): (&[Trial], u32),
        fleet: &Fleet,
    ) -> Result<Prepared<'a>, Failure> {
        let dir = &*folder.path;
        let open_files = bakeoff_engine::open_files::raise_for(clients_max(study))?;
        let contenders = contenders::gather(study, dir, fleet, (self.reporter, self.interrupted))?;
        refusals::check_ports(self.options.ports.base_port, trials, &contenders, dir, fleet)?;
        refusals::check_space_elsewhere(study, fleet)?;
        let shares = study.starts_any() || environment::is_loaded_here(study);
        let environment = bakeoff_fleet::environment::describe(dir, threads, open_files, shares)?;
        refusals::check_space(study, environment.disk_free_bytes)?;
        Ok(Prepared { study, contenders, environment })
    }

    /// Runs trials one after the other. Returns whether all of them were run.
    fn trials(
        &mut self,
        run: &Trials<'_>,
        trials: &[Trial],
        progress: &mut Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<bool, Failure> {
        let Trials { prepared, fleet, total } = *run;
        let interrupted = || self.interrupted.load(Ordering::Relaxed);
        let environment = &prepared.environment;
        // Servers start in folders of their own, where a relative path would mean something else.
        let run_dir = std::path::absolute(&folder.path)
            .map_err(|error| Failure::file("use", &folder.path, &error))?;
        let mut context = TrialContext {
            study: prepared.study,
            threads: environment.generator_threads,
            run_dir: &run_dir,
            ports: fleet.ports(self.options.ports.base_port),
            seating: fleet.seating(),
            interrupted: self.interrupted,
            shared_machine: environment.shared_machine,
            fleet,
            kept: BTreeMap::new(),
        };
        let mut start_failures = StartFailures::default();
        let mut lost = false;
        for (place, trial) in trials.iter().enumerate() {
            if interrupted() {
                break;
            }
            if let Some(record) = start_failures.not_tried(trial) {
                folder.push(&RecordLine::Trial(record))?;
                continue;
            }
            let began = clock::now();
            let begins_round = place > 0 && trials[place - 1].round < trial.round;
            self.reporter.report(&Event::TrialStarted(TrialStarted {
                trial,
                trials: total,
                begins_round,
                left: progress.left(&trials[place..]),
                found: progress.found(trial).as_deref(),
            }));
            let contender = contenders::for_trial(&prepared.contenders, trial);
            let baseline_appends = match begins_round {
                true => fleet.measure_disks(&run_dir, environment, self.interrupted),
                false => Vec::new(),
            };
            if begins_round {
                progress.round_begins(began.elapsed());
            }
            let began = clock::now();
            let record = trial::run(&mut context, contender, trial, self.reporter);
            let record = TrialRecord { baseline_appends, ..record };
            progress.ended(&record, began.elapsed());
            let rest = &trials[place + 1..];
            if let Some(why) = start_failures.note(&record) {
                let left = rest.iter().filter(|one| one.system == trial.system).count();
                progress.gives_up(&trial.system);
                self.reporter.report(&Event::GivenUp { system: &trial.system, left, why });
            }
            let left = progress.left(rest);
            self.reporter.report(&Event::TrialFinished { record: &record, left });
            lost = matches!(record.outcome, TrialOutcome::MachineLost(_));
            folder.push(&RecordLine::Trial(record))?; // on disk now: a later crash loses nothing
            if lost {
                let why = fleet.loss_told().unwrap_or_default();
                self.reporter.report(&Event::MachineLost { why: &why, left: rest.len() + 1 });
                break;
            }
        }
        context.end();
        let complete = !interrupted() && !lost;
        folder
            .push(&RecordLine::End(RunEnd { ended: bakeoff_clock::wall::utc_now(), complete }))?;
        Ok(complete)
    }
}

/// Returns the most clients of any stage of any load.
fn clients_max(study: &Study) -> u32 {
    let loads = study.loads.iter();
    let clients =
        loads.flat_map(|load| load.clients.iter().chain(load.clients_for.values().flatten()));
    clients.copied().max().unwrap_or(0)
}
