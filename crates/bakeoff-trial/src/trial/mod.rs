//! Runs a trial: launch, ready, fill, load, audit, crash, audit again, stop.
//!
//! Not here: the load (`load`), the nodes that clients connect to (`routes`), verdicts (`verdicts`, `audit`).

pub(crate) mod audit;
mod bit_flip;
pub(crate) mod connections;
pub(crate) mod crash;
pub(crate) mod durability;
mod faults;
mod history;
pub(crate) mod load;
#[cfg(test)]
mod location_addresses;
pub(crate) mod neighbours;
mod power;
pub(crate) mod rights;
pub(crate) mod routes;
pub(crate) mod sampling;
mod trial_end;
pub(crate) mod verdicts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock::wall::utc_now;
use bakeoff_core::check::{Audit, CheckName, KilledUnderLoad, Verdict};
use bakeoff_core::plan::Trial;
use bakeoff_core::record::{Check, Freshness, GeneratorPart, TrialOutcome, TrialRecord};
use bakeoff_core::schedule::LoadShare;
use bakeoff_core::study::{Clusters, DiskFault, Kill, Load, Study, Workload};
use bakeoff_core::trial_samples::PhaseName;
use bakeoff_engine::works::keyed::{KeyedState, StalenessTracking};
use bakeoff_files as files;
use bakeoff_host::ports::Allocator;
use bakeoff_host::{NodeDisk, Process, logs};
use bakeoff_systems::location_plan::LocationPlan;
use bakeoff_systems::{Access, cleanup};

use self::audit::Auditor;
use self::crash::NotUnderLoad;
use self::load::{Destination, LoadDriver, fill};
use self::routes::Routes;
use self::sampling::{JudgeContext, Sampling};
use self::trial_end::TrialEnd;
use self::verdicts::{
    apart_check, configuration_check, limits_check, servers_check, together_check,
};
use crate::cluster::contenders::PreparedSystem;
use crate::cluster::{self, ClusterStart, ReadyCluster};
use crate::event::{Event, Reporter};
use bakeoff_fleet::error::FleetError;
use bakeoff_fleet::generators::all_generators::Generators;
use bakeoff_fleet::generators::error::GeneratorError;
use bakeoff_fleet::machines::NodesOf;
use bakeoff_fleet::machines::affinity::{Affinity, GeneratorCpus};
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::order::KeysOrder;
use bakeoff_fleet::machines::requests::Requests;

/// Context that all trials of a run share.
pub struct TrialContext<'a> {
    /// Study of the run.
    pub study: &'a Study,
    /// Threads of each load generator.
    pub threads: u32,
    /// Folder of the run, absolute.
    pub run_dir: &'a Path,
    /// Ports for servers.
    pub ports: Allocator,
    /// Locations of the nodes.
    pub locating: LocationPlan,
    /// Set to true to end the trial early.
    pub interrupted: &'a AtomicBool,
    /// True if the user expects other work on this machine.
    pub shared_machine: bool,
    /// Machines of the run.
    pub fleet: &'a Fleet,
    /// Clusters kept for their system's next trial, by the system's name. Empty unless the study keeps clusters.
    pub kept: BTreeMap<String, ReadyCluster>,
}

impl<'a> TrialContext<'a> {
    /// Returns the folder of a trial's data and logs: its own, or its system's if clusters are kept.
    fn home(&self, trial: &Trial, own: &Path) -> PathBuf {
        match self.study.clusters {
            Clusters::Fresh => own.to_owned(),
            Clusters::Kept => self.kept_home(&trial.system),
        }
    }

    fn kept_home(&self, system: &str) -> PathBuf {
        self.run_dir.join("kept").join(system)
    }

    /// Stops the kept clusters and removes their data.
    pub fn end(mut self) {
        for (name, cluster) in std::mem::take(&mut self.kept) {
            cluster.stop();
            self.delete_data(&self.kept_home(&name));
        }
    }

    /// Deletes the nodes' data, which may be large. The logs stay.
    fn delete_data(&self, home: &Path) {
        self.remove(&home.join("nodes"));
    }

    /// Removes a folder of this run. Leaves it if a link on the way leads out of the run's folder.
    fn remove(&self, path: &Path) {
        if let Ok(inside) = path.strip_prefix(self.run_dir) {
            files::remove_below(self.run_dir, inside).ok();
        }
    }
}

/// Runs one trial. A failure goes into the record and does not end the run.
pub(crate) fn run(
    context: &mut TrialContext<'_>,
    contender: &PreparedSystem<'_>,
    trial: &Trial,
    reporter: &mut dyn Reporter,
) -> TrialRecord {
    let mut runner = TrialRunner::begin(context, contender, trial, reporter);
    let ended = runner.run();
    runner.conclude(ended)
}

/// Runs one trial of already running servers with requests that no study can express. Also returns the failure of a
/// trial that ended early.
pub fn run_requests(
    context: &mut TrialContext<'_>,
    contender: &PreparedSystem<'_>,
    trial: &Trial,
    requests: &Requests,
    reporter: &mut dyn Reporter,
) -> (TrialRecord, Option<FleetError>) {
    let mut runner = TrialRunner::begin(context, contender, trial, reporter);
    let mut ended = runner.requests(requests);
    let failure = match &mut ended {
        Err(TrialEnd::Failed(failed)) => failed.failure.take().map(|failure| *failure),
        Ok(()) | Err(TrialEnd::Interrupted) => None,
    };
    let mut record = runner.conclude(ended);
    if requests.ramp.is_some() {
        // A ramp changes the figures by design.
        record.checks.retain(|check| check.name != CheckName::Stationary);
    }
    (record, failure)
}

/// Returns the empty record of a trial.
pub(crate) fn begun(trial: &Trial, started: String) -> TrialRecord {
    TrialRecord {
        trial: trial.clone(),
        started,
        ready_after: Duration::ZERO,
        kept: false,
        another_bakeoff: false,
        not_tried: false,
        missing: Vec::new(),
        leader: None,
        leader_after: None,
        targets: Vec::new(),
        filled: 0,
        stages: Vec::new(),
        injections: Vec::new(),
        usage: Vec::new(),
        memory: None,
        audits: Vec::new(),
        checks: Vec::new(),
        linearizability: None,
        outcome: TrialOutcome::Completed,
        observed: None,
        log_findings: Vec::new(),
        generator_cpus: Vec::new(),
        found: None,
        baseline_appends: Vec::new(),
        durability: None,
        machines: Vec::new(),
    }
}

#[derive(Clone, Copy)]
struct Combination<'a> {
    contender: &'a PreparedSystem<'a>,
    trial: &'a Trial,
    workload: &'a Workload,
    load: &'a Load,
}

/// A trial in progress. `'a` is the trial's lifetime, `'b` the run's.
struct TrialRunner<'a, 'b> {
    context: &'a mut TrialContext<'b>,
    of: Combination<'a>,
    /// Folder of the cluster's data and logs.
    home: PathBuf,
    /// Folder of the trial itself, also if its cluster is kept.
    own: PathBuf,
    record: TrialRecord,
    sampling: Sampling<'b>,
    /// Share of each generator, by stage. Empty if this process is the generator.
    parts: Vec<Vec<GeneratorPart>>,
    /// Number of the load's next operation.
    next_ticket: u64,
    reporter: &'a mut dyn Reporter,
}

impl<'a, 'b> TrialRunner<'a, 'b> {
    /// Clears the trial's folder and begins to sample.
    fn begin(
        context: &'a mut TrialContext<'b>,
        contender: &'a PreparedSystem<'a>,
        trial: &'a Trial,
        reporter: &'a mut dyn Reporter,
    ) -> Self {
        let study = context.study;
        let workload = by_name(&study.workloads, &trial.workload, |workload| &workload.name);
        let load = by_name(&study.loads, &trial.load, |load| &load.name);
        let name =
            format!("{:02}-{}-{}-{}", trial.number + 1, trial.system, trial.workload, trial.load);
        let own = context.run_dir.join("trials").join(name);
        if contender.study_system.is_started() {
            // Files there are from the same trial, which ended before the run was resumed.
            context.remove(&own);
        }
        let home = context.home(trial, &own);
        let record = begun(trial, utc_now());
        let mut sampling = Sampling::begin(context.run_dir, context.study.sample_every);
        sampling
            .watch_endpoints(contender.study_system.endpoints(), context.fleet.placed().is_some());
        let of = Combination { contender, trial, workload, load };
        let parts = Vec::new();
        Self { context, of, home, own, record, sampling, parts, next_ticket: 0, reporter }
    }

    /// Ends a trial: judges the samples, reports a failure, and deletes the data.
    fn conclude(mut self, ended: Result<(), TrialEnd>) -> TrialRecord {
        let parts = std::mem::take(&mut self.parts);
        let Self { context, of, home, record, sampling, reporter, .. } = self;
        let Combination { contender, trial, load, .. } = of;
        let (study, shared_machine) = (context.study, context.shared_machine);
        let complaints = sampling.complaints();
        sampling.fetch_logs(&home.join("logs"));
        let mut sampled = sampling.end();
        // A load without samples proves nothing.
        let ended =
            ended.and(sampled.unseen.take().map_or(Ok(()), |error| Err(TrialEnd::from(error))));
        // The loss of a machine explains all other failures.
        let lost = context.fleet.lost();
        let ended = match (ended, lost) {
            (Ok(()) | Err(TrialEnd::Failed(_)), Some(lost)) => Err(TrialEnd::from(lost.clone())),
            (ended, _) => ended,
        };
        let judged = JudgeContext { study, load, shared_machine };
        let mut record = sampled.judge_load(judged, record);
        if contender.study_system.is_started() {
            // The logs of a kept cluster include earlier trials: a system whose disk was full has not recovered just
            // because space is free again.
            let mut faults = study.disk_faults_of(&trial.system);
            let is_meant = faults.any(|fault| fault == DiskFault::Full);
            let complainant = logs::of_a_full_disk(&home.join("logs")).filter(|_| !is_meant);
            record.checks.push(sampled.disk_check(complainant.as_deref()));
        }
        record.checks.push(sampled.clock_check());
        record.observed = Some(sampled.merged());
        record.machines = sampled.machines;
        record.checks.extend(together_check(&parts, &record));
        let names = context.fleet.generator_names();
        record.checks.extend(apart_check(&parts, &names));
        context.fleet.note_parts(&mut record.machines, parts);
        record.log_findings = complaints;
        match ended {
            Ok(()) => {}
            Err(TrialEnd::Interrupted) => record.outcome = TrialOutcome::Interrupted,
            Err(TrialEnd::Failed(failed)) => {
                reporter.report(&Event::TrialFailed { text: &failed.text });
                record.outcome = match lost.is_some() {
                    true => TrialOutcome::MachineLost(failed.headline),
                    false => TrialOutcome::Failed(failed.headline),
                };
            }
        }
        if !context.kept.contains_key(&trial.system) {
            context.delete_data(&home);
        }
        record
    }

    /// Begins a phase.
    fn phase(&mut self, name: PhaseName) {
        self.reporter.report(&Event::PhaseStarted { name: name.text() });
        self.sampling.phase(name);
    }

    fn run(&mut self) -> Result<(), TrialEnd> {
        let Combination { contender, trial, .. } = self.of;
        let keeps = self.context.study.clusters == Clusters::Kept;
        self.context.fleet.begin_trial(&format!("trial-{}", trial.number + 1), keeps)?;
        self.sampling.watch_machines(self.context.fleet)?;
        self.phase(PhaseName::Starting);
        let is_started = contender.study_system.is_started();
        let kept = self.context.kept.remove(&trial.system);
        self.record.kept = kept.is_some() || !is_started;
        let cluster = self.ready(kept)?;
        self.record.ready_after = cluster.after;
        self.record.leader = cluster.leader();
        self.record.checks.extend(limits_check(&cluster));
        if trial.round == 0 {
            for warning in &cluster.exposed() {
                self.reporter.report(&Event::Exposed { warning });
            }
        }
        match is_started {
            true => self.measure(cluster),
            false => self.measure_running(cluster),
        }
    }

    /// Returns the system's cluster without data: the kept one, a new one, or one that already runs.
    fn ready(&mut self, kept: Option<ReadyCluster>) -> Result<ReadyCluster, TrialEnd> {
        let interrupted = self.context.interrupted;
        let PreparedSystem { system, study_system, .. } = self.of.contender;
        let Some(cluster) = kept else {
            return match study_system.is_started() {
                true => self.start(self.disk()),
                false => Ok(cluster::attach(*system, study_system)?.ready(interrupted)?),
            };
        };
        self.sampling.watch(&cluster.processes().collect::<Vec<_>>());
        let cluster = cluster.again(interrupted)?;
        cleanup::clear(*system, cluster.first(), &self.context.study.workloads)?;
        Ok(cluster)
    }

    /// Measures a system that bakeoff did not start. Removes its keys before and after, even if the trial fails.
    fn measure_running(&mut self, cluster: ReadyCluster) -> Result<(), TrialEnd> {
        let Combination { contender, workload, .. } = self.of;
        let PreparedSystem { system, study_system, .. } = contender;
        for endpoint in &cluster.missing {
            let why = format!(
                "{} runs without {endpoint}, which accepts no connections",
                study_system.name
            );
            self.reporter.report(&Event::NodeMissing { why: &why });
        }
        self.record.missing.clone_from(&cluster.missing);
        let sources = cluster::metrics::sources(*system, study_system, &cluster.missing)?;
        self.sampling.watch_metrics(sources);
        let nodes = cluster.nodes.clone();
        let keys_max = workload.keys.count;
        let remove = |node: &Access| cleanup::clear(*system, node, [workload]);
        let clear = || match workload.leaves_nothing() {
            true => Ok(()),
            false => cluster::clear(*system, &nodes, keys_max, remove).map_err(TrialEnd::from),
        };
        clear()?;
        self.record.audits.extend(cleanup::unchecked(*system));
        let ended = self.measure(cluster);
        let cleared = clear();
        match (ended, cleared) {
            // The server's failure comes first, then the keys left behind.
            (Ok(()), Err(left)) => Err(left.after(self.first_error())),
            (Err(TrialEnd::Failed(why)), Err(left)) => Err(left.after(Some(why.text))),
            (ended, _) => ended,
        }
    }

    /// Returns the first error of the load, as the server wrote it.
    fn first_error(&self) -> Option<String> {
        let mut stages = self.record.stages.iter().map(|stage| &stage.measurement);
        stages.find_map(|measurement| {
            let (kind, example) = measurement.error_examples().next()?;
            Some(format!("{}: {}: {}", example.node, kind.name(), example.what))
        })
    }

    /// Returns the file system of the nodes that are loaded.
    fn disk(&self) -> NodeDisk {
        match self.context.study.disk_faults_of(&self.of.trial.system).next() {
            None => NodeDisk::Machine,
            Some(_) => NodeDisk::Breakable,
        }
    }

    /// Starts the system's servers without data.
    fn start(&mut self, disk: NodeDisk) -> Result<ReadyCluster, TrialEnd> {
        let nodes = &self.home.join("nodes");
        // Left by a failed trial, or by a killed run that is resumed.
        self.context.remove(nodes);
        let Combination { contender, trial, .. } = self.of;
        let whose = match self.context.study.clusters {
            Clusters::Fresh => NodesOf::Trial,
            Clusters::Kept => NodesOf::Kept(&trial.system),
        };
        let of = ClusterStart {
            components: &contender.components,
            nodes,
            dir: &self.home,
            seed: trial.seed,
            locating: &self.context.locating,
            on: (self.context.fleet, whose),
            disk,
        };
        let sampling = &self.sampling;
        let watch = |processes: &[Process]| {
            // Samples describe the cluster that is loaded.
            if disk != NodeDisk::Forgetful {
                sampling.watch(&processes.iter().collect::<Vec<_>>());
            }
        };
        let (ports, stop) = (&mut self.context.ports, self.context.interrupted);
        Ok(cluster::start_on_free_ports(of, ports, stop, self.reporter, watch)?)
    }

    /// Hands the trial's keys to the generators.
    fn generators(
        &self,
        keyed: &Arc<KeyedState>,
        seed: u64,
        staleness: StalenessTracking,
    ) -> Result<Generators<'b>, GeneratorError> {
        let keys = KeysOrder {
            workload: self.of.workload.clone(),
            seed,
            staleness: staleness == StalenessTracking::Measured,
            history: keyed.history().is_some(),
            share: LoadShare::WHOLE,
        };
        Generators::begin(self.context.fleet, keyed, keys)
    }

    /// Fills, loads and audits a ready cluster, then stops or keeps it.
    fn measure(&mut self, cluster: ReadyCluster) -> Result<(), TrialEnd> {
        let Combination { contender, trial, workload, load } = self.of;
        let interrupted = self.context.interrupted;
        let system = contender.system;
        // Staleness is measured unless reads are guaranteed to be linearizable: a deposed leader may answer with old
        // values.
        let newest = system.freshness(&contender.found, workload.reads) == Freshness::Linearizable;
        let staleness = match workload.writes() && !newest {
            true => StalenessTracking::Measured,
            false => StalenessTracking::NotMeasured,
        };
        let keyed = KeyedState::new(workload, trial.seed, staleness);
        let is_recorded = history::is_recorded(self.context.study, workload);
        let keyed = Arc::new(if is_recorded { keyed.with_history() } else { keyed });
        let generators = &self.generators(&keyed, trial.seed, staleness)?;
        system.prepare(cluster.first(), &cluster.nodes, workload, &keyed)?;
        let mut nodes = Routes::choose(&cluster, workload, load)?;
        nodes.sessions(load.tls_resumption);
        self.record.targets = nodes.names();
        let clients = connections::most_clients(load, &trial.system);
        let machines = generators.count() as usize;
        connections::check(system, &nodes, (load, clients), machines).map_err(TrialEnd::failed)?;
        if workload.fill {
            self.phase(PhaseName::Filling);
            let (context, reporter) = (&*self.context, &mut *self.reporter);
            let keys = workload.keys.count;
            self.record.filled = fill(context, reporter, contender, &cluster, generators, keys)?;
        }

        let account = system.declares().hooks.account.and_then(|account| account(&cluster.nodes));
        let before = cluster.config_snapshot();
        // Remote generators keep off the CPUs of servers themselves.
        let is_local = self.context.fleet.placed().is_none();
        let affinity = is_local.then(|| self.set_affinity(&cluster)).flatten();
        self.sampling.load_begins(&cluster.processes().collect::<Vec<_>>());
        let driven = LoadDriver { to: Destination::Nodes(&nodes), generators };
        let ended = self.drive(&driven);
        self.sampling.load_ends();
        if let Err(TrialEnd::Failed(_)) = ended {
            self.judge_history(generators);
        }
        ended?;
        self.record.audits.extend(account.map(|conclude| conclude()));
        self.record.checks.extend(servers_check(&cluster));
        self.record.leader_after = cluster.new_leader();
        let snapshots = before.zip(cluster.config_snapshot());
        let configuration = snapshots.map(|(before, after)| configuration_check(before, after));
        self.record.checks.extend(configuration);
        if interrupted.load(Ordering::Relaxed) {
            return Err(TrialEnd::Interrupted);
        }
        let injected = self.inject(cluster, &driven);
        drop(affinity);
        // A fault that could not be injected ends the trial, and the answers before it stay proven.
        if !matches!(injected, Err(TrialEnd::Interrupted)) {
            self.judge_history(generators);
        }
        let cluster = injected?;
        let cluster = self.audit(cluster, &nodes, generators)?;
        if self.context.study.bit_flip.is_some() && workload.writes() {
            let audit = self.flip_a_bit(&cluster, generators)?;
            self.record.audits.push(audit);
            verdicts::expect_answers(&mut self.record);
        }
        if self.context.study.clusters == Clusters::Kept && contender.study_system.is_started() {
            self.context.kept.insert(trial.system.clone(), cluster);
        } else {
            self.phase(PhaseName::Stopping);
            cluster.stop();
        }
        if let Some(cuts) = self.context.study.power_cuts.filter(|_| workload.writes()) {
            let audit = self.cut_power(cuts)?;
            self.record.audits.push(audit);
            verdicts::expect_answers(&mut self.record);
        }
        Ok(())
    }

    /// Loads already running servers with requests that name them, and sends them nothing else.
    fn requests(&mut self, requests: &Requests) -> Result<(), TrialEnd> {
        self.sampling.watch_machines(self.context.fleet)?;
        let Combination { contender, trial, workload, .. } = self.of;
        self.record.kept = true;
        self.record.targets = contender.record.source.iter().cloned().collect();
        let staleness = StalenessTracking::NotMeasured;
        let keyed = Arc::new(KeyedState::new(workload, trial.seed, staleness));
        let generators = &self.generators(&keyed, trial.seed, staleness)?;
        self.sampling.load_begins(&[]);
        let ended = self.drive(&LoadDriver { to: Destination::Requests(requests), generators });
        self.sampling.load_ends();
        ended?;
        match self.context.interrupted.load(Ordering::Relaxed) {
            true => Err(TrialEnd::Interrupted),
            false => Ok(()),
        }
    }

    /// Keeps the generator off the CPUs of pinned nodes, if possible.
    fn set_affinity(&mut self, cluster: &ReadyCluster) -> Option<Affinity> {
        let affinity = Affinity::from(cluster.processes().map(Process::cpus))?;
        let GeneratorCpus { cpus, not_apart } = GeneratorCpus::from(&affinity);
        self.record.generator_cpus = cpus;
        let verdict = not_apart.map_or(Verdict::Passed, Verdict::NotChecked);
        self.record.checks.push(Check::new(CheckName::GeneratorApart, verdict));
        affinity.ok()
    }

    /// Returns a reader of acknowledged keys. `seed` is that of its sample.
    fn auditor<'g>(&self, generators: &'g Generators<'g>, seed: u64) -> Auditor<'g>
    where
        'b: 'g,
    {
        Auditor {
            system: self.of.contender.system,
            generators,
            keys_max: self.context.study.audit_keys,
            seed,
            interrupted: self.context.interrupted,
        }
    }

    /// Returns writes like those of the load, to these nodes.
    fn writes<'g>(
        &self,
        nodes: &'g Routes,
        generators: &'g Generators<'g>,
        seed: u64,
    ) -> crash::Writes<'g>
    where
        'a: 'g,
    {
        let Combination { contender, trial, workload, load } = self.of;
        crash::Writes {
            system: contender.system,
            nodes: nodes.to_write_to(),
            workload,
            load,
            clients: load.clients_on(&trial.system).last().copied().unwrap_or(1),
            threads: self.context.threads,
            seed,
            generators,
        }
    }

    /// Reads acknowledged keys back, kills all nodes at once, restarts them and reads again.
    fn audit(
        &mut self,
        cluster: ReadyCluster,
        nodes: &Routes,
        generators: &Generators<'_>,
    ) -> Result<ReadyCluster, TrialEnd> {
        let Combination { contender, trial, workload, .. } = self.of;
        if !workload.writes() {
            return Ok(cluster);
        }
        let interrupted = self.context.interrupted;
        let writes = self.writes(nodes, generators, trial.seed);
        let guarantees = &contender.record.guarantees;
        if guarantees.claims_disks() {
            self.phase(PhaseName::CountingSyncs);
            self.record.durability =
                durability::observe(&writes, &cluster, guarantees, interrupted);
        }
        let auditor = self.auditor(generators, trial.seed);
        self.phase(PhaseName::ReadingBack);
        self.record.audits.push(auditor.judge(&cluster, "after the load"));
        let when = "after kill -9 and restart of all nodes";
        if !contender.study_system.is_started() {
            let why = Verdict::NotChecked("bakeoff did not start these servers".into());
            self.record.audits.push(Audit::new(when, why));
            return Ok(cluster);
        }
        let (cluster, killed) = self.kill_and_restart(cluster, &writes)?;
        let (under_load, at_rest_because) = match killed {
            Some(Ok(killed)) => (Some(killed), None),
            Some(Err(why)) => (None, Some(why.to_string())),
            None => (None, None),
        };
        self.phase(PhaseName::ReadingBack);
        let audit = Audit { under_load, at_rest_because, ..auditor.judge(&cluster, when) };
        self.record.audits.push(audit::after_a_kill(audit, guarantees));
        verdicts::expect_answers(&mut self.record);
        if interrupted.load(Ordering::Relaxed) { Err(TrialEnd::Interrupted) } else { Ok(cluster) }
    }

    /// Kills all nodes at once, under load or at rest as the study says, and restarts them. Returns the load at the
    /// kill, or the reason why there was none.
    fn kill_and_restart(
        &mut self,
        cluster: ReadyCluster,
        writes: &crash::Writes<'_>,
    ) -> Result<(ReadyCluster, Option<Result<KilledUnderLoad, NotUnderLoad>>), TrialEnd> {
        let interrupted = self.context.interrupted;
        let is_under_load =
            self.context.study.kill.unwrap_or(writes.system.kind().kill) == Kill::UnderLoad;
        let killed = is_under_load.then(|| {
            self.phase(PhaseName::KillingUnderLoad);
            crash::under_load(writes, interrupted, || cluster.kill9())
        });
        self.phase(PhaseName::KillingAndRestarting);
        if !is_under_load {
            cluster.kill9();
        }
        Ok((cluster.restart(interrupted)?, killed))
    }
}

/// Returns the item with this name. The study was checked to have it.
fn by_name<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> &'a T {
    all.iter().find(|one| name_of(one) == name).expect("a plan only has names of its study")
}
