//! One trial: launch, ready, fill, load, audit, crash, audit again, stop.

pub(crate) mod affinity;
pub(crate) mod audit;
pub(crate) mod baseline;
pub(crate) mod crash;
pub(crate) mod neighbours;
pub(crate) mod routes;
pub(crate) mod split;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_clock::wall::{self, utc_now};
use bakeoff_core::check::{self, Audit, CheckName, Verdict};
use bakeoff_core::divide;
use bakeoff_core::plan::{self, Trial};
use bakeoff_core::record::{Check, Freshness, Outcome, StageRecord, TrialRecord};
use bakeoff_core::schedule;
use bakeoff_core::search::{CONFIRM_TIMES, Found, Next, Search, Tried, least_rate};
use bakeoff_core::study::{Arrivals, Clusters, Find, Kill, Load, Operation, Stop, Study, Workload};
use bakeoff_core::units::count_text;
use bakeoff_core::workload::mix64;
use bakeoff_engine::moments::Moments;
use bakeoff_engine::works::keyed::{Ages, Keyed, Reading, Source};
use bakeoff_engine::{Connections, Drive, EngineError, Live, Seconds};
use bakeoff_host::disturbance::Stretch;
use bakeoff_host::observe::{Sampler, Watched};
use bakeoff_host::ports::Allocator;
use bakeoff_host::{LimitsApplied, Process, logs, machine, usage};

use self::affinity::Affinity;
use self::routes::Routes;
use self::split::Split;
use crate::cluster::contenders::Contender;
use crate::cluster::topology::compose;
use crate::cluster::{self, Ready};
use crate::event::{Event, Reporter};
use crate::failure::Failure;
use crate::systems::{ConfigSnapshot, KvLoad};

const FILL_CLIENTS_MAX: u32 = 64;
const FILL_TIMEOUT: Duration = Duration::from_secs(30);
/// With fewer operations due in a try, nothing would be known of a percentile.
const DUE_MIN: f64 = 10.0;
/// The phase whose figures a trial is for.
const LOAD: &str = "load";

/// What stays the same from trial to trial.
pub(crate) struct TrialContext<'a> {
    pub(crate) study: &'a Study,
    pub(crate) threads: u32,
    pub(crate) run_dir: &'a Path,
    pub(crate) ports: Allocator,
    pub(crate) interrupted: &'a AtomicBool,
    /// Whether others work on this machine, as the user says.
    pub(crate) shared_machine: bool,
    /// Clusters that wait for their system's next trial, by its name; where a study keeps them.
    pub(crate) kept: BTreeMap<String, Ready>,
}

impl TrialContext<'_> {
    /// Where the cluster that a trial works with has its data and its logs: in a folder of the
    /// trial, or in one of its system where clusters are kept.
    fn home(&self, trial: &Trial, own: &Path) -> PathBuf {
        match self.study.clusters {
            Clusters::Fresh => own.to_owned(),
            Clusters::Kept => self.kept_home(&trial.system),
        }
    }

    fn kept_home(&self, system: &str) -> PathBuf {
        self.run_dir.join("kept").join(system)
    }

    /// Stops what was kept, and throws its data away.
    pub(crate) fn end(mut self) {
        for (name, cluster) in std::mem::take(&mut self.kept) {
            cluster.stop();
            throw_data_away(&self.kept_home(&name));
        }
    }
}

/// From when to when was measured what a trial's figures are of, stage by stage.
fn windows(study: &Study, record: &TrialRecord) -> Vec<(f64, f64)> {
    let load = by_name(&study.loads, &record.trial.load, |load| &load.name);
    let windows = record.figured().iter().map(|stage| stage.window(load.warmup));
    windows.filter(|(from, to)| to > from).collect()
}

/// Data may be large, and the logs tell what there is to tell.
fn throw_data_away(home: &Path) {
    std::fs::remove_dir_all(home.join("nodes")).ok();
}

/// Runs one trial. What went wrong is in its record: a failed trial does not end the run.
pub(crate) fn run(
    context: &mut TrialContext<'_>,
    contender: &Contender<'_>,
    trial: &Trial,
    reporter: &mut dyn Reporter,
) -> TrialRecord {
    let mut record = TrialRecord {
        trial: trial.clone(),
        started: utc_now(),
        ready_after: Duration::ZERO,
        leader: None,
        targets: Vec::new(),
        filled: 0,
        stages: Vec::new(),
        usage: Vec::new(),
        audits: Vec::new(),
        checks: Vec::new(),
        outcome: Outcome::Completed,
        observed: None,
        said: Vec::new(),
        generator_cpus: Vec::new(),
        found: None,
        floor_appends: Vec::new(),
    };
    let mut marks = logs::Marks::default();
    let name =
        format!("{:02}-{}-{}-{}", trial.number + 1, trial.system, trial.workload, trial.load);
    let own = context.run_dir.join("trials").join(name);
    // What is there is of the same trial, broken off before the run was resumed.
    std::fs::remove_dir_all(&own).ok();
    let home = context.home(trial, &own);
    let (began, wall) = (clock::now(), wall::seconds());
    let mut sampler = Sampler::start(context.run_dir, context.study.sample_every, began);
    let ended = TrialRunner {
        context,
        contender,
        trial,
        home: &home,
        record: &mut record,
        began,
        sampler: &mut sampler,
        marks: &mut marks,
        reporter,
    }
    .run();
    let observed = sampler.stop();
    let (lasted, wall) = (began.elapsed(), wall::seconds() - wall);
    let windows = windows(context.study, &record);
    let mut check = |name, verdict| record.checks.push(Check { name, verdict });
    if let Some(load) = observed.phases.iter().find(|phase| phase.name == LOAD) {
        record.usage = usage::of(&observed, &windows, (load.from, load.to));
        let cpus = machine::cpus_online().unwrap_or(0);
        check(CheckName::Steal, check::machine::steal(&observed.machine, cpus, load.from, load.to));
        let asked = contender.asked;
        check(
            CheckName::Neighbours,
            neighbours::check(context.study, context.shared_machine, asked, &observed, &windows),
        );
    }
    if !record.stages.is_empty() {
        let load = by_name(&context.study.loads, &trial.load, |load| &load.name);
        let checks = check::measured(load, &record, Some(&observed));
        record.checks.extend(checks);
    }
    let mut check = |name, verdict| record.checks.push(Check { name, verdict });
    if contender.asked.is_started() {
        // Those of a kept cluster tell of earlier trials too: one whose disk was full has not
        // recovered just because there is room again.
        let complainant = logs::of_a_full_disk(&home.join("logs"));
        check(CheckName::Disk, check::machine::disk(&observed.machine, complainant.as_deref()));
    }
    check(CheckName::Clock, check::machine::clock(wall, lasted));
    record.observed = Some(observed);
    record.said = marks.complaints();
    match ended {
        Ok(()) => {}
        Err(Ended::Interrupted) => record.outcome = Outcome::Interrupted,
        Err(Ended::Failed(failed)) => {
            reporter.report(&Event::TrialFailed { text: &failed.text });
            record.outcome = Outcome::Failed(failed.headline);
        }
    }
    if !context.kept.contains_key(&trial.system) {
        throw_data_away(&home);
    }
    record
}

/// Why a trial did not go on.
enum Ended {
    Interrupted,
    Failed(Failed),
}

/// What went wrong: a line for the record, and all of it for whoever watches.
struct Failed {
    headline: String,
    text: String,
}

impl From<String> for Ended {
    fn from(text: String) -> Self {
        let headline = text.lines().next().unwrap_or_default().to_owned();
        Self::Failed(Failed { headline, text })
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        match failure.is_interruption() {
            true => Self::Interrupted,
            false => {
                Self::Failed(Failed { headline: failure.headline(), text: failure.to_string() })
            }
        }
    }
}

impl From<EngineError> for Ended {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Interrupted => Self::Interrupted,
            error => Self::from(error.to_string()),
        }
    }
}

struct TrialRunner<'a, 'b> {
    context: &'a mut TrialContext<'b>,
    contender: &'a Contender<'a>,
    trial: &'a Trial,
    home: &'a Path,
    record: &'a mut TrialRecord,
    began: Instant,
    sampler: &'a mut Sampler,
    /// Where the load is in the nodes' logs.
    marks: &'a mut logs::Marks,
    reporter: &'a mut dyn Reporter,
}

impl TrialRunner<'_, '_> {
    /// The trial does something else from here on.
    fn phase(&mut self, name: &str) {
        self.reporter.report(&Event::PhaseStarted { name });
        self.sampler.phase(name);
    }

    fn run(mut self) -> Result<(), Ended> {
        let study = self.context.study;
        let workload = by_name(&study.workloads, &self.trial.workload, |workload| &workload.name);
        let load = by_name(&study.loads, &self.trial.load, |load| &load.name);
        let interrupted = self.context.interrupted;
        let asked = self.contender.asked;
        let system = self.contender.system;

        self.phase("starting");
        let kept = self.context.kept.remove(&asked.name);
        let was_kept = kept.is_some();
        let cluster = match kept {
            Some(cluster) => {
                self.sampler.watch(cluster.processes().map(Watched::node));
                cluster.again(interrupted)?
            }
            None if asked.is_started() => self.start()?,
            None => cluster::attach(system, asked)?.ready(interrupted)?,
        };
        self.record.ready_after = cluster.after;
        self.record.leader = cluster.leader();
        self.record.checks.extend(limits_check(&cluster));
        if self.trial.round == 0 {
            for warning in &cluster.exposed() {
                self.reporter.report(&Event::Exposed { warning });
            }
        }

        if asked.is_started() {
            if was_kept {
                system.clear(cluster.first()).map_err(Ended::from)?;
            }
            return self.measure(cluster, workload, load);
        }
        // Nothing of ours stays on a system of somebody else's: not what a run that was killed left
        // there, and not what this trial leaves, however it ends.
        let node = cluster.first().clone();
        let clear = || system.clear(&node).map_err(Ended::from);
        clear()?;
        let ended = self.measure(cluster, workload, load);
        let cleared = clear();
        ended.and(cleared)
    }

    /// Starts the system's servers without data.
    fn start(&mut self) -> Result<Ready, Ended> {
        let nodes = &self.home.join("nodes");
        // Left by trials that failed, or by a run that was killed and is resumed.
        std::fs::remove_dir_all(nodes).ok();
        let ingredients = &self.contender.ingredients;
        let members = compose(ingredients, nodes, self.trial.seed, &mut self.context.ports)
            .map_err(Failure::from)?;
        let sampler = &mut *self.sampler;
        let watch = |processes: &[Process]| sampler.watch(processes.iter().map(Watched::node));
        Ok(cluster::start(members, self.home, self.context.interrupted, watch)?)
    }

    /// Fills, loads and audits a cluster that is ready, and stops or keeps it.
    fn measure(&mut self, cluster: Ready, workload: &Workload, load: &Load) -> Result<(), Ended> {
        let interrupted = self.context.interrupted;
        let system = self.contender.system;
        // Those that must not be old are measured too unless they are promised to be the newest: a
        // leader that was deposed and does not know it answers with what it has.
        let newest =
            system.freshness(&self.contender.found, workload.reads) == Freshness::Linearizable;
        let ages = match workload.writes() && !newest {
            true => Ages::Measured,
            false => Ages::NotMeasured,
        };
        let keyed = Arc::new(Keyed::new(workload, self.trial.seed, ages));
        system.prepare(cluster.first(), &cluster.nodes, workload, &keyed).map_err(Ended::from)?;
        let mut nodes = Routes::of(&cluster, workload, load).map_err(Ended::from)?;
        nodes.sessions(load.tls_resumption);
        self.record.targets = nodes.names();
        if workload.fill {
            self.phase("filling");
            self.record.filled = fill(self.context, self.contender, &cluster, &keyed, workload)?;
        }

        let account = system.declares().hooks.account.and_then(|account| account(&cluster.nodes));
        let told = cluster.config_snapshot();
        let affinity = self.set_affinity(&cluster);
        *self.marks = logs::Marks::begin(cluster.processes());
        self.sampler.phase(LOAD);
        let of = Driven { workload, load, nodes: &nodes, keyed: &keyed };
        let driven = match &load.find {
            None => self.stages(&of).map(|stages| self.record.stages = stages),
            Some(find) => self.search(&of, find).map(|found| self.record.found = found),
        };
        self.marks.end();
        drop(affinity);
        driven?;
        self.record.audits.extend(account.map(|conclude| conclude()));
        self.record.checks.extend(servers_check(&cluster));
        let told = told.zip(cluster.config_snapshot());
        self.record.checks.extend(told.map(|(before, after)| configuration_check(before, after)));
        if interrupted.load(Ordering::Relaxed) {
            return Err(Ended::Interrupted);
        }

        let cluster = self.audit(cluster, &of)?;
        if self.context.study.clusters == Clusters::Kept && self.contender.asked.is_started() {
            self.context.kept.insert(self.trial.system.clone(), cluster);
        } else {
            self.phase("stopping");
            cluster.stop();
        }
        Ok(())
    }

    /// Where nodes are pinned, the generator leaves their CPUs to them as far as it can.
    fn set_affinity(&mut self, cluster: &Ready) -> Option<Affinity> {
        let affinity = Affinity::from(cluster.processes().map(Process::cpus))?;
        let verdict = match &affinity {
            Ok(affinity) => {
                self.record.generator_cpus = affinity.cpus().to_vec();
                match affinity.is_shared() {
                    false => Verdict::Passed,
                    true => Verdict::NotChecked(
                        "no CPU is left over: it keeps to those that the fewest nodes have".into(),
                    ),
                }
            }
            Err(why) => Verdict::NotChecked(why.clone()),
        };
        self.record.checks.push(Check { name: CheckName::GeneratorApart, verdict });
        affinity.ok()
    }

    /// Drives the load, stage by stage, on the same cluster.
    fn stages(&mut self, of: &Driven<'_>) -> Result<Vec<StageRecord>, Ended> {
        let mut first_ticket = 0;
        let mut stages = Vec::new();
        for stage in plan::stages(of.load, &self.trial.system) {
            let (stage, next) = self.stage(of, &stage, of.load.arrivals, first_ticket)?;
            first_ticket = next;
            let over = is_over(&stage);
            stages.push(stage);
            if over {
                break;
            }
        }
        Ok(stages)
    }

    /// Looks for the highest rate that keeps an objective, one after the other on the same cluster. Each
    /// try is in the record as it ends; yields what they came to, unless they were broken off.
    fn search(&mut self, of: &Driven<'_>, find: &Find) -> Result<Option<Found>, Ended> {
        let load = of.load;
        let objective = find.conditions().map_err(|why| Ended::from(why.to_string()))?;
        let (Some(first), Stop::After(time)) = (load.arrivals.rate(), load.stop) else {
            return Err(Ended::from(
                "a search begins at a rate and tries each for a time".to_owned(),
            ));
        };
        let clients = load.clients_on(&self.trial.system).first().copied().unwrap_or(1);
        let by_chance = matches!(load.arrivals, Arrivals::Poisson { .. });
        let least = least_rate(&objective, time, by_chance).max(DUE_MIN / time.as_secs_f64());
        let mut search = Search::new(first).not_below(least);
        let mut first_ticket = 0;
        loop {
            let (rate, confirming) = match search.next() {
                Next::Done(found) => return Ok(Some(found)),
                Next::Try(rate) => (rate, false),
                Next::Confirm(rate) => (rate, true),
            };
            let time = if confirming { time * CONFIRM_TIMES } else { time };
            let stage = plan::Stage { clients, stop: Stop::After(time) };
            let arrivals = load.arrivals.at(rate);
            let stretch = Stretch::begin();
            let (mut stage, next) = self.stage(of, &stage, arrivals, first_ticket)?;
            first_ticket = next;
            let disturbed_by =
                stretch.disturbed_by().into_iter().chain(self.neighbours_of(&stage, load));
            let tried = Tried::judged(rate, confirming, &stage.measurement, &objective)
                .disturbed_by(disturbed_by);
            let over = is_over(&stage);
            if !over {
                search.take(&tried);
                self.reporter.report(&Event::RateTried { tried: &tried });
            }
            stage.tried = Some(tried);
            self.record.stages.push(stage);
            if over {
                return Ok(None);
            }
        }
    }

    /// Tells why a stage that has just ended had too many neighbours; `None` where it had not, or
    /// where that cannot be told.
    fn neighbours_of(&self, stage: &StageRecord, load: &Load) -> Option<String> {
        let window = stage.window(load.warmup);
        if window.1 <= window.0 {
            return None;
        }
        let observed = self.sampler.so_far();
        let context = &self.context;
        let asked = self.contender.asked;
        match neighbours::check(context.study, context.shared_machine, asked, &observed, &[window])
        {
            Verdict::Failed(why) => Some(why),
            Verdict::Passed | Verdict::NotChecked(_) => None,
        }
    }

    /// Drives one stage of a load; yields the number of the next operation too.
    fn stage(
        &mut self,
        of: &Driven<'_>,
        stage: &plan::Stage,
        arrivals: Arrivals,
        first_ticket: u64,
    ) -> Result<(StageRecord, u64), Ended> {
        let Driven { workload, load, nodes, keyed } = *of;
        let system = self.contender.system;
        let seed = self.trial.seed;
        let reading = Reading {
            reads: workload.reads,
            may_be_old: system.may_be_old(&self.contender.found, workload.reads),
            lists_are_complete: workload.fill && !workload.mix.contains_key(&Operation::Delete),
        };
        let moments = Moments::new(self.sampler.moments());
        let drive = Drive {
            clients: stage.clients,
            in_flight: load.in_flight,
            connections: match load.keep_alive {
                true => Connections::Kept,
                false => Connections::OneEach,
            },
            arrivals: schedule::paced(arrivals),
            spin: Duration::ZERO,
            warmup: load.warmup,
            stop: stage.stop,
            timeout: load.timeout,
            seconds: Seconds::Kept,
            threads: self.context.threads,
            seed: mix64(seed ^ first_ticket),
            first_ticket,
            moments: Some(moments.clone()),
        };
        let clients = stage.clients;
        let began = self.began.elapsed().as_secs_f64();
        self.reporter.report(&Event::LoadStarted { clients });
        let reporter = &mut *self.reporter;
        let progress = &mut |live: &Live| reporter.report(&Event::Observed { clients, live });
        let interrupted = self.context.interrupted;
        let (mut measurement, next_ticket) = match nodes {
            Routes::Split { writes, reads } => {
                let threads = self.context.threads;
                let halves = divide::halves(workload, stage, arrivals, threads);
                let halves = halves.expect("only what writes and reads is driven apart");
                let split = Split { system, keyed, reading, drive: &drive, seed, interrupted };
                split::drive(&split, &halves, [writes, reads], progress)?
            }
            Routes::Same(nodes) => system.drive(KvLoad {
                nodes,
                keyed,
                source: &mut |share| {
                    let own_seed = mix64(seed ^ mix64(first_ticket ^ u64::from(share.index) << 32));
                    Source::mix(workload, seed, own_seed)
                },
                reading,
                drive: &drive,
                together: None,
                interrupted,
                progress,
            })?,
        };
        nodes.name(&mut measurement.staleness);
        let measured_from =
            moments.begin().map(|begin| begin.saturating_duration_since(self.began).as_secs_f64());
        Ok((StageRecord { clients, began, measured_from, measurement, tried: None }, next_ticket))
    }

    /// Reads back what was acknowledged; kills all nodes at once, restarts them, reads again.
    fn audit(&mut self, cluster: Ready, of: &Driven<'_>) -> Result<Ready, Ended> {
        let Driven { workload, load, nodes, keyed } = *of;
        if !workload.writes() {
            return Ok(cluster);
        }
        let system = self.contender.system;
        let interrupted = self.context.interrupted;
        let keys_max = self.context.study.audit_keys;
        let seed = self.trial.seed;
        let judge = |cluster: &Ready, when: &str| {
            audit::judge(system, cluster, keyed, keys_max, seed, when, interrupted)
        };
        self.phase("reading back");
        self.record.audits.push(judge(&cluster, "after the load"));
        let when = "after kill -9 and restart of all nodes";
        if !self.contender.asked.is_started() {
            let why = Verdict::NotChecked("bakeoff did not start these servers".into());
            self.record.audits.push(Audit::of(when, why));
            return Ok(cluster);
        }
        let kill = self.context.study.kill.unwrap_or(system.kind().kill);
        let killed = if kill == Kill::UnderLoad {
            self.phase("killing under load");
            let writes = crash::Writes {
                system,
                nodes: nodes.to_write_to(),
                keyed,
                workload,
                load,
                clients: load.clients_on(&self.trial.system).last().copied().unwrap_or(1),
                threads: self.context.threads,
                seed,
            };
            Some(crash::under_load(&writes, &cluster, interrupted))
        } else {
            cluster.kill9();
            None
        };
        let (under_load, at_rest_because) = match killed {
            Some(Ok(killed)) => (Some(killed), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        self.phase("killing and restarting");
        let cluster = cluster.restart(interrupted)?;
        self.phase("reading back");
        let audit = Audit { under_load, at_rest_because, ..judge(&cluster, when) };
        let promises = &self.contender.record.promises;
        self.record.audits.push(audit::after_a_kill(audit, promises));
        if interrupted.load(Ordering::Relaxed) { Err(Ended::Interrupted) } else { Ok(cluster) }
    }
}

/// What is the same in all stages of a load.
#[derive(Clone, Copy)]
struct Driven<'a> {
    workload: &'a Workload,
    load: &'a Load,
    nodes: &'a Routes,
    keyed: &'a Arc<Keyed>,
}

/// Whether no other stage can follow.
fn is_over(stage: &StageRecord) -> bool {
    stage.measurement.interrupted || stage.measurement.keys_exhausted
}

/// What a study calls by this name; that there is one was checked when the study was read.
fn by_name<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &String) -> &'a T {
    all.iter().find(|one| name_of(one) == name).expect("a plan names what its study has")
}

/// Writes every key once. Any failure ends the trial: reads would be judged wrongly.
fn fill(
    context: &TrialContext<'_>,
    contender: &Contender<'_>,
    cluster: &Ready,
    keyed: &Arc<Keyed>,
    workload: &Workload,
) -> Result<u64, Ended> {
    let count = workload.keys.count;
    let drive = Drive::once(count, FILL_CLIENTS_MAX, context.threads, FILL_TIMEOUT);
    let (measurement, _) = contender.system.drive(KvLoad {
        nodes: &cluster.nodes,
        keyed,
        source: &mut |_| Source::Fill,
        reading: Reading { reads: workload.reads, may_be_old: false, lists_are_complete: false },
        drive: &drive,
        together: None,
        interrupted: context.interrupted,
        progress: &mut |_| {},
    })?;
    if measurement.interrupted {
        return Err(Ended::Interrupted);
    }
    if measurement.verified() < count {
        let written = count_text(measurement.verified());
        let first = measurement.error_examples().next();
        let first = first.map(|(_, example)| format!("{}: {}", example.node, example.what));
        let first = first.unwrap_or_default();
        return Err(Ended::from(format!(
            "only {written} of {} keys could be written before the load: {first}",
            count_text(count)
        )));
    }
    contender.system.settle(&cluster.nodes).map_err(Ended::from)?;
    Ok(count)
}

fn limits_check(cluster: &Ready) -> Option<Check> {
    let mut verdict = None;
    for limits in cluster.limits() {
        match limits {
            LimitsApplied::NotAsked => {}
            LimitsApplied::Applied { .. } => verdict = verdict.or(Some(Verdict::Passed)),
            LimitsApplied::NotApplied { why } => {
                verdict = verdict.filter(Verdict::failed).or(Some(Verdict::NotChecked(why)));
            }
            LimitsApplied::Differs { why } => verdict = Some(Verdict::Failed(why)),
        }
    }
    verdict.map(|verdict| Check { name: CheckName::Limits, verdict })
}

/// A server that ended while it was loaded answers for nothing that was measured.
fn servers_check(cluster: &Ready) -> Option<Check> {
    let died = cluster.died();
    let verdict = if died.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("{} during the load", died.join(", ")))
    };
    cluster.processes().next().is_some().then_some(Check { name: CheckName::Servers, verdict })
}

/// Servers that were told something else while they were loaded were not one system.
fn configuration_check(
    before: Result<ConfigSnapshot, String>,
    after: Result<ConfigSnapshot, String>,
) -> Check {
    let verdict = match (before, after) {
        (Ok(before), Ok(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let mut changed = names.into_iter().filter(|&name| before.get(name) != after.get(name));
            match (changed.next(), changed.count()) {
                (None, _) => Verdict::Passed,
                (Some(one), 0) => Verdict::Failed(format!("{one} changed during the load")),
                (Some(one), more) => {
                    Verdict::Failed(format!("{one} and {more} more changed during the load"))
                }
            }
        }
        (Err(why), _) | (_, Err(why)) => Verdict::NotChecked(why),
    };
    Check { name: CheckName::Configuration, verdict }
}
