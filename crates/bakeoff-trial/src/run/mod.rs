//! Runs the trials of a study, from the first or those that a run still lacks.
//!
//! Each trial's record is on disk before the next begins. All commands that run studies share this.
//!
//! Not here: one trial (`trial`), what a run refuses beforehand (`refusals`), rendering (`bakeoff_report`).

pub mod folder;
pub mod misfits;
mod origin;
pub mod progress;
mod quiet;
pub mod refusals;
mod slow_consumers;
mod start_failures;
pub mod trust;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_clock as clock;
use bakeoff_core::places::{Places, Purpose};
use bakeoff_core::plan::order::pause_before;
use bakeoff_core::plan::{Trial, plan};
use bakeoff_core::record::machines::machine_changes;
use bakeoff_core::record::{
    Environment, FORMAT, Gate, RecordLine, RoundCount, RunEnd, RunExtended, RunHeader, RunResumed,
    TrialOutcome, TrialRecord,
};
use bakeoff_core::repeat::{ExtraRounds, extra_rounds};
use bakeoff_core::stats::sequential;
use bakeoff_core::study::{SourcedStudy, Study};

use self::folder::{RECORD, RunFolder};
use self::progress::Progress;
use self::start_failures::StartFailures;
use self::trust::RecordTrust;
use crate::cluster::contenders::{self, PreparedSystem};
use crate::event::{Event, Reporter, ResumedRun, TrialStarted};
use crate::this_machine;
use crate::trial::{self, TrialContext, connections, rights};
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::machines::baseline::BaselineEvent;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::{self, Machines};
use bakeoff_fleet::warnings;
use bakeoff_host::network;
use bakeoff_systems as systems;

/// Returns the seed of a run and its trials in seeded order. Without `seed`: a random one of 32 bits.
pub fn seeded_plan(study: &Study, seed: Option<u64>) -> (u64, Vec<Trial>) {
    let seed = seed.unwrap_or_else(|| rand::random::<u64>() >> 32); // 10 digits: short enough to retype
    (seed, plan(study, seed))
}

/// Runs the trials of a study.
pub struct Runner<'a> {
    /// Settings of the user, next to those of the study.
    pub settings: RunSettings<'a>,
    /// The machines, if they differ from those of the file that [`RunSettings::on`] names.
    pub places: Option<Places>,
    /// Receives the events of the run.
    pub reporter: &'a mut dyn Reporter,
    /// Set to true to end the run early; trials that finished are kept.
    pub interrupted: &'a AtomicBool,
}

/// Settings of a run that its study does not hold.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings<'a> {
    /// Folder below which the run gets a folder of its own.
    pub out: &'a Path,
    /// Places file of the machines that the run uses. `None`: this machine alone.
    pub on: Option<&'a Path>,
    /// Lowest port of servers. `None`: free ports below the ephemeral range.
    pub base_port: Option<u16>,
    /// Threads of each load generator. `None`: one a core.
    pub threads: Option<u32>,
    /// True if others work on this machine, so that their CPU time is expected.
    pub shared_machine: bool,
    /// Rule by which the number of rounds is chosen.
    pub rounds: RoundCount,
}

/// A run whose programs were found and whose machine was described.
struct PreparedRun<'a> {
    study: &'a Study,
    contenders: Vec<PreparedSystem<'a>>,
    /// Environment at the start of the run; all trials use it.
    environment: Environment,
    /// Rule by which the number of rounds is chosen: that of the record, if the run is resumed.
    rounds: RoundCount,
}

/// The prepared run, its machines and its size.
#[derive(Clone, Copy)]
struct Trials<'a> {
    prepared: &'a PreparedRun<'a>,
    fleet: &'a Fleet,
    /// Number of trials of the whole run.
    total: usize,
}

impl Runner<'_> {
    /// Runs all trials of a study. `gate`: recorded in the header if the run judges two builds.
    ///
    /// Returns the run's folder, and true if all trials ran.
    ///
    /// # Errors
    /// If a program, a machine or the disk refuses the run. Failed trials are in the record instead.
    pub fn begin(
        &mut self,
        SourcedStudy { study, source }: SourcedStudy,
        seed: u64,
        order: Vec<Trial>,
        gate: Option<Gate>,
    ) -> Result<(RunFolder, bool), FleetError> {
        let fleet = &self.reach(&study)?;
        refusals::refuse_disks(&study, fleet)?;
        let mut folder = RunFolder::create(self.settings.out, &study.name)?;
        let threads = self.settings.threads.unwrap_or_else(|| fleet.generator_cpus()).max(1);
        let mut prepared = self.prepare(&study, &folder, (&order, threads), fleet)?;
        if gate.is_some() {
            refusals::refuse_same_program(&prepared.contenders)?;
        }
        prepared.environment.shared_machine =
            self.settings.shared_machine || this_machine::is_machine_shared();
        if fleet.placed().is_none() {
            rights::check(&study, &prepared.contenders, self.interrupted)?;
            connections::check_running(&study, &prepared.contenders, self.interrupted)?;
        }
        contenders::send_programs(&prepared.contenders, fleet)?;
        slow_consumers::warnings(&study).iter().for_each(|warning| warnings::warn(warning));
        if fleet.placed().is_none() && !prepared.environment.shared_machine {
            let work = bakeoff_host::other_work(quiet::WINDOW, self.interrupted);
            let warning = work.and_then(|work| quiet::warning(&work, &study));
            warning.iter().for_each(|warning| warnings::warn(warning));
        }
        let environment = &mut prepared.environment;
        fleet.describe(environment)?;
        let of = (&study, &*folder.path);
        let mut report = |event: BaselineEvent<'_>| self.reporter.report(&event.into());
        fleet.measure_baseline(of, environment, &mut report, self.interrupted)?;
        let (contenders, trials) = (&prepared.contenders, order.len());
        folder.push(&RecordLine::Run(RunHeader {
            format: FORMAT,
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
            bakeoff_sha256: this_machine::own_sha256(),
            started: bakeoff_clock::wall::utc_now(),
            study: study.clone(),
            source: Some(source),
            seed,
            order: order.clone(),
            environment: prepared.environment.clone(),
            systems: contenders.iter().map(|contender| contender.record.clone()).collect(),
            rounds: prepared.rounds,
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

    /// Finds or fetches the programs of a study and sends them to the machines of the run. Starts no server.
    ///
    /// # Errors
    /// If a program or a machine refuses.
    pub fn fill_caches(&mut self, study: &Study) -> Result<(), FleetError> {
        let fleet = &match self.settings.on {
            None => Fleet::Local,
            Some(path) => {
                let places = machines::read_places(path, Purpose::Run)?;
                if places.kubernetes.is_some() {
                    let what = format!("`{}` describes pods, which keep no cache", path.display());
                    return Err(FleetError::input(what, "each run sends programs to its own pods"));
                }
                self.places = Some(places);
                self.reach(study)?
            }
        };
        let dir = std::env::temp_dir(); // servers' paths are formed and discarded
        let contenders = contenders::gather(study, &dir, fleet, (self.reporter, self.interrupted))?;
        contenders::send_programs(&contenders, fleet)
    }

    /// Connects to the machines of the run.
    fn reach(&mut self, study: &Study) -> Result<Fleet, FleetError> {
        let places = match (self.places.take(), self.settings.on) {
            (Some(places), _) => places,
            (None, Some(path)) => machines::read_places(path, Purpose::Run)?,
            (None, None) if study.needs_network() => self.places_to_cut(study)?,
            (None, None) => return Ok(Fleet::Local),
        };
        misfits::refuse(study, &places)?;
        let base_port = self.settings.base_port;
        let name: String =
            study.name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let mut reached =
            Machines::reach(places, (&name, Some(study)), base_port, self.interrupted)?;
        reached.open_tunnels()?;
        Ok(Fleet::Placed(Arc::new(reached)))
    }

    /// Returns places on this machine whose paths can be cut: network namespaces, or relays where the kernel refuses
    /// those.
    fn places_to_cut(&mut self, study: &Study) -> Result<Places, FleetError> {
        let (nodes, data) = (nodes_max(study), data_next_to(self.settings.out)?);
        let Err(why) = network::support(study.delays_packets()) else {
            return Ok(Places::namespaces(nodes, &data));
        };
        refusals::refuse_relays(study, &why)?;
        self.reporter.report(&Event::CutsByRelays { why: &why });
        Ok(Places::relays(nodes, &data))
    }

    /// Resumes a run: runs its missing trials on the same machine with the same programs.
    ///
    /// `trust` accepts a record of others, and machines that changed. Returns the run's folder, and true if all trials
    /// ran.
    ///
    /// # Errors
    /// If the record cannot be trusted, or machine or programs have changed.
    pub fn go_on(
        &mut self,
        run: &Path,
        trust: RecordTrust,
    ) -> Result<(RunFolder, bool), FleetError> {
        let (mut folder, record) = RunFolder::open(run, self.reporter)?;
        let file = folder.path.join(RECORD);
        trust.check(&file, &folder::read_file(&file)?, &record.header)?;
        let spoilt = extra_rounds(&record);
        let missing = spoilt.as_ref().map_or_else(|| record.missing(), |more| more.order.clone());
        if missing.is_empty() {
            self.reporter.report(&Event::NothingMissing { folder: &folder.path });
            return Ok((folder, true));
        }
        let header = &record.header;
        refusals::refuse_another_bakeoff(header, &folder)?;
        trust::refuse_altered(&record, &file)?;
        let more = spoilt.as_ref().map_or(0, |more| more.order.len());
        let (study, trials) = (&header.study, header.order.len() + more);
        let threads = header.environment.generator_threads;
        let fleet = &self.reach(study)?;
        refusals::refuse_disks(study, fleet)?;
        refusals::refuse_other_machines(&record, fleet, &folder)?;
        let mut here = self.prepare(study, &folder, (&missing, threads), fleet)?;
        refusals::refuse_changed_programs(header, &here.contenders, &folder)?;
        let mut now = std::mem::take(&mut here.environment);
        fleet.describe(&mut now)?;
        for _ in 0..DESCRIBED_AGAIN {
            if machine_changes(&header.environment, &now).is_empty() {
                break;
            }
            now = describe(study, &folder, threads, now.open_files_max)?;
            fleet.describe(&mut now)?;
        }
        let changes = refusals::refuse_changed_machines(&record, &now, trust, &folder)?;
        let prepared =
            PreparedRun { environment: header.environment.clone(), rounds: header.rounds, ..here };
        contenders::send_programs(&prepared.contenders, fleet)?;
        folder.push(&RecordLine::Resumed(RunResumed {
            resumed: bakeoff_clock::wall::utc_now(),
            bakeoff: env!("CARGO_PKG_VERSION").to_owned(),
            environment: Box::new(now),
        }))?;
        if !changes.is_empty() {
            self.reporter.report(&Event::MachinesChanged { changes: &changes });
        }
        self.reporter.report(&Event::RunResumed(ResumedRun {
            study,
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

    /// Repeats rounds that the machine disturbed, up to the limit of a run. Returns true if all of them ran.
    fn repeat_spoilt(
        &mut self,
        run: &Trials<'_>,
        mut progress: Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<bool, FleetError> {
        while let Some(more) = extra_rounds(&folder::read(&folder.path)?.record) {
            let order = more.order.clone();
            let total = order.last().map_or(0, |last| last.number as usize + 1);
            self.extend(more, run.prepared.study, &progress, folder)?;
            if !self.trials(&Trials { total, ..*run }, &order, &mut progress, folder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records further rounds.
    fn extend(
        &mut self,
        more: ExtraRounds,
        study: &Study,
        progress: &Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<(), FleetError> {
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

    /// Finds the programs of all systems, checks ports and disk space, and describes the machine.
    fn prepare<'a>(
        &mut self,
        study: &'a Study,
        folder: &RunFolder,
        (trials, threads): (&[Trial], u32),
        fleet: &Fleet,
    ) -> Result<PreparedRun<'a>, FleetError> {
        let dir = &*folder.path;
        let open_files = bakeoff_engine::open_files::raise_for(clients_max(study))?;
        let contenders = contenders::gather(study, dir, fleet, (self.reporter, self.interrupted))?;
        refusals::check_ports(self.settings.base_port, trials, &contenders, dir, fleet)?;
        refusals::check_space_elsewhere(study, fleet)?;
        let environment = describe(study, folder, threads, open_files)?;
        refusals::check_space(study, environment.disk_free_bytes)?;
        Ok(PreparedRun { study, contenders, environment, rounds: self.settings.rounds })
    }

    /// Runs trials one after the other. Returns true if all of them ran.
    fn trials(
        &mut self,
        run: &Trials<'_>,
        trials: &[Trial],
        progress: &mut Progress<'_>,
        folder: &mut RunFolder,
    ) -> Result<bool, FleetError> {
        let Trials { prepared, fleet, total } = *run;
        let interrupted = || self.interrupted.load(Ordering::Relaxed);
        let environment = &prepared.environment;
        // Servers start in other folders, so a relative path would not resolve. Nothing is removed through a link.
        let run_dir = (folder.path.canonicalize())
            .map_err(|error| FleetError::file("use", &folder.path, &error))?;
        let mut context = TrialContext {
            study: prepared.study,
            threads: environment.generator_threads,
            run_dir: &run_dir,
            ports: fleet.ports(self.settings.base_port),
            locating: fleet.locating(),
            interrupted: self.interrupted,
            shared_machine: environment.shared_machine,
            fleet,
            kept: BTreeMap::new(),
        };
        let mut start_failures = StartFailures::default();
        let (mut lost, mut answered_after) = (false, None);
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
            std::thread::sleep(pause_before(trial));
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
            folder.push(&RecordLine::Trial(record))?; // synced: a later crash loses no trial
            if lost {
                let why = fleet.reported_loss().unwrap_or_default();
                self.reporter.report(&Event::MachineLost { why: &why, left: rest.len() + 1 });
                break;
            }
            let round_ends = rest.first().is_some_and(|next| next.round > trial.round);
            let (rounds, most) = (trial.round + 1, prepared.study.trials);
            let looks = prepared.rounds == RoundCount::Adaptive
                && round_ends
                && sequential::looks_after(rounds, most);
            if looks && is_answered(&folder.path, rounds)? {
                self.reporter.report(&Event::Answered { rounds, most });
                answered_after = Some(rounds);
                break;
            }
        }
        context.end();
        let complete = !interrupted() && !lost;
        let ended = bakeoff_clock::wall::utc_now();
        folder.push(&RecordLine::End(RunEnd { ended, complete, answered_after }))?;
        Ok(complete)
    }
}

/// Descriptions of machines that seem to have changed, before a run is not resumed: a disk may be busy for a moment.
const DESCRIBED_AGAIN: u32 = 2;

/// Describes this machine with the disk of the run's folder.
fn describe(
    study: &Study,
    folder: &RunFolder,
    threads: u32,
    open_files: u64,
) -> Result<Environment, FleetError> {
    let shares = study.starts_any() || this_machine::is_loaded_here(study);
    bakeoff_fleet::environment::describe(&folder.path, threads, open_files, shares)
}

/// Returns true if the run may stop after this number of rounds.
fn is_answered(run: &Path, rounds: u32) -> Result<bool, FleetError> {
    let mut record = folder::read(run)?.record;
    let (ended, complete) = (String::new(), true);
    record.finish(RunEnd { ended, complete, answered_after: Some(rounds) });
    Ok(bakeoff_report::is_answered(&record))
}

/// Returns the folder of runs, absolute, for the data of servers in namespaces. Makes it if needed.
fn data_next_to(runs: &Path) -> Result<String, FleetError> {
    let refused = |error: std::io::Error| FleetError::file("use", runs, &error);
    std::fs::create_dir_all(runs).map_err(refused)?;
    let path = runs.canonicalize().map_err(refused)?;
    Ok(path.display().to_string())
}

/// Returns the largest number of servers that a system of the study has.
fn nodes_max(study: &Study) -> u32 {
    let nodes = |system| systems::by_role(system).map(|(_, member)| member.nodes).sum();
    study.systems.iter().map(nodes).max().unwrap_or(1)
}

/// Returns the largest number of clients of any stage.
fn clients_max(study: &Study) -> u32 {
    let loads = study.loads.iter();
    let clients =
        loads.flat_map(|load| load.clients.iter().chain(load.clients_for.values().flatten()));
    clients.copied().max().unwrap_or(0)
}
