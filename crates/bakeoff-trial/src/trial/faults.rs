//! Injects the faults of a study: the load runs once more for each injection, and a node breaks in its midst.
//!
//! All injections of a trial run on one cluster, in an order that the trial's seed sets, the same for all systems. Each
//! begins when all nodes serve again. What a fault did is proven by the state of processes and recorded with the time
//! at which it was seen. Without proof the trial is not valid.
//!
//! Not here: what came of a fault (`bakeoff_core::outage`), stopping and killing (`bakeoff_host`).

mod changes;
mod disk;
mod maintenance;
mod network;
mod sequence;
mod upgrade;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::attribution::attribute;
use bakeoff_core::check::{Audit, Cause, CheckName, Verdict};
use bakeoff_core::measurement::DueTimes;
use bakeoff_core::plan;
use bakeoff_core::record::{Check, FaultHit, Injection};
use bakeoff_core::study::fault::{
    DiskBreak, Isolation, NodeKill, NodeStop, Partition, Pause, Restart, WatcherDrop,
    WatcherSilence,
};
use bakeoff_core::study::{Fault, FaultAction, FaultNode, Maintenance};
use bakeoff_core::trial_samples::PhaseName;
use bakeoff_core::units::plural;
use bakeoff_host::network::Network;
use bakeoff_host::{Exit, Process, StopResult, kill_all, terminate_all};

use self::sequence::Step;
use super::audit;
use super::load::{LoadDriver, is_over};
use super::{Combination, TrialEnd, TrialRunner};
use crate::cluster::{RECOVERED_WITHIN, ReadyCluster};
use crate::event::Event;
use bakeoff_engine::watch::WatchDisturbance;
use bakeoff_fleet::generators::all_generators::Generators;

/// Interval between checks whether the load still runs.
const CHECK_EVERY: Duration = Duration::from_millis(2);
/// Maximum time to find a leader at the moment of a fault.
const LEADER_WITHIN: Duration = Duration::from_secs(2);
const LEADER_PAUSE: Duration = Duration::from_millis(50);

impl TrialRunner<'_, '_> {
    /// Runs the load once for each injection of each fault. Returns the cluster with all nodes serving.
    pub(super) fn inject(
        &mut self,
        mut cluster: ReadyCluster,
        driven: &LoadDriver<'_>,
    ) -> Result<ReadyCluster, TrialEnd> {
        let Combination { trial, contender, .. } = self.of;
        let planned = plan::injections(self.context.study, trial);
        if planned.is_empty() {
            return Ok(cluster);
        }
        self.phase(PhaseName::Injecting);
        let mut causes = Vec::new();
        for (fault, repeat) in planned {
            let steps = sequence::steps(self.context.study, contender.study_system, fault);
            let (mut injected, cause) =
                self.injection(&cluster, driven, (fault, repeat), &steps)?;
            causes.extend(cause);
            if steps.iter().any(|step| matches!(step.fault.action, FaultAction::Disk(_))) {
                disk::start_if_stuck(&cluster, &mut injected.hits, self.context.interrupted);
            }
            let over = is_over(&injected.stage);
            self.record.injections.push(injected);
            if self.context.interrupted.load(Ordering::Relaxed) {
                return Err(TrialEnd::Interrupted);
            }
            cluster = cluster.again_within(RECOVERED_WITHIN, self.context.interrupted)?;
            let audit = self.audit_injection(&cluster, driven, (fault, repeat), &steps);
            let last = self.record.injections.last_mut().expect("it was just added");
            last.audit = audit;
            if fault.action.upgrades_to().is_some() {
                causes.extend(upgrade::prove(&cluster, fault.target.part.as_deref(), last));
            }
            if over {
                break;
            }
        }
        let unproven = self.record.injections.iter().find_map(|one| {
            let why = one.unproven.as_ref()?;
            Some(format!("injection {} of `{}`: {why}", one.repeat, one.fault))
        });
        let verdict = unproven.map_or(Verdict::Passed, Verdict::Failed);
        // Another round would not help a fault that the study makes impossible.
        let order = [Cause::User, Cause::Machine, Cause::Unclear];
        let cause = order.into_iter().find(|cause| causes.contains(cause));
        self.record.checks.push(Check { cause, ..Check::new(CheckName::Injections, verdict) });
        Ok(cluster)
    }

    /// Runs the load, with one fault. Also returns the cause if it did not happen as planned.
    fn injection(
        &mut self,
        cluster: &ReadyCluster,
        driven: &LoadDriver<'_>,
        (fault, repeat): (&Fault, u32),
        steps: &[Step<'_>],
    ) -> Result<(Injection, Option<Cause>), TrialEnd> {
        let Combination { trial, load, .. } = self.of;
        self.reporter.report(&Event::FaultStarted { fault, repeat });
        let stages = plan::stages(load, &trial.system);
        let stage = stages.first().expect("a load has a stage");
        let (begun, over) = (&OnceLock::new(), &AtomicBool::new(false));
        let interrupted = self.context.interrupted;
        let network = self.context.fleet.placed().and_then(|machines| machines.network());
        let (at, part) = (fault.at, None);
        let generators = driven.generators;
        let injector =
            &Injector { fault, at, cluster, part, begun, network, generators, over, interrupted };
        let (driven, hits) = std::thread::scope(|scope| {
            let injecting = scope.spawn(|| injector.run_all(steps));
            let driven = self.drive_stage(driven, stage, load.arrivals, &mut |measures| {
                begun.set(measures).ok();
            });
            over.store(true, Ordering::Relaxed);
            (driven, injecting.join())
        });
        let (mut stage, _) = driven?;
        let InjectionResult { mut hits, failed } = hits.unwrap_or_else(|_| InjectionResult {
            hits: Vec::new(),
            failed: Some("the injector ended unexpectedly".to_owned().into()),
        });
        let (unproven, cause) = failed.map(|NotInjected { why, cause }| (why, cause)).unzip();
        attribute(&mut hits, &stage.measurement);
        stage.measurement.dues = DueTimes::default();
        let fault = fault.name.clone();
        Ok((
            Injection { fault, repeat, stage, hits, unproven, stalls_explained: None, audit: None },
            cause,
        ))
    }

    /// Reads acknowledged keys back after an injection; `None` if the workload writes nothing.
    fn audit_injection(
        &mut self,
        cluster: &ReadyCluster,
        driven: &LoadDriver<'_>,
        (fault, repeat): (&Fault, u32),
        steps: &[Step<'_>],
    ) -> Option<Audit> {
        let Combination { contender, workload, .. } = self.of;
        if !workload.writes() {
            return None;
        }
        let when = format!("after injection {repeat} of {}", fault.name);
        let audit = self.auditor(driven.generators, self.of.trial.seed).judge(cluster, &when);
        let is_kill_of_all = |Step { fault, .. }: &Step<'_>| {
            fault.target.node == FaultNode::Each && matches!(fault.action, FaultAction::Kill(_))
        };
        Some(match steps.iter().any(is_kill_of_all) {
            true => audit::after_a_kill(audit, &contender.record.guarantees),
            false => audit,
        })
    }
}

/// Causes one fault while a load runs.
struct Injector<'a> {
    fault: &'a Fault,
    /// Time of the fault since measuring began.
    at: Duration,
    cluster: &'a ReadyCluster,
    /// Name of the part that the nodes belong to; `None` for the system's own nodes.
    part: Option<&'a str>,
    /// Beginning of measuring, once it is known.
    begun: &'a OnceLock<Instant>,
    /// Network of the nodes, if each has its own.
    network: Option<&'a Network>,
    generators: &'a Generators<'a>,
    /// True once the load has ended.
    over: &'a AtomicBool,
    interrupted: &'a AtomicBool,
}

/// Effects of a fault, and the reason why it did not happen as planned.
#[derive(Default)]
struct InjectionResult {
    hits: Vec<FaultHit>,
    failed: Option<NotInjected>,
}

/// Reason why a fault did not happen as planned.
#[derive(Debug)]
struct NotInjected {
    why: String,
    cause: Cause,
}

impl NotInjected {
    /// The study asks for a fault that cannot happen to this system.
    fn impossible(why: String) -> Self {
        Self { why, cause: Cause::User }
    }

    /// The load ended first. The load may be too short, or the system too slow.
    fn too_late(why: String) -> Self {
        Self { why, cause: Cause::Unclear }
    }
}

impl From<String> for NotInjected {
    fn from(why: String) -> Self {
        Self { why, cause: Cause::Machine }
    }
}

impl Injector<'_> {
    /// Waits for the time of the fault, causes it, and ends it. Ends it early if the load ends.
    fn run(&self) -> InjectionResult {
        let mut injected = InjectionResult::default();
        if let Err(why) = self.try_run(&mut injected.hits) {
            injected.failed = Some(why);
        }
        injected
    }

    fn try_run(&self, hits: &mut Vec<FaultHit>) -> Result<(), NotInjected> {
        let measures = loop {
            match self.begun.get() {
                Some(measures) => break *measures,
                None if self.is_over() => {
                    return Err(NotInjected::too_late("the load did not begin".to_owned()));
                }
                None => std::thread::sleep(CHECK_EVERY),
            }
        };
        let at = measures + self.at;
        self.wait_until(at)?;
        let targets = self.targets()?;
        let since = |moment: Instant| moment.saturating_duration_since(measures).as_secs_f64();
        match self.fault.action {
            FaultAction::Pause(Pause { lasts }) => {
                return self.break_and_heal(&targets, since, hits, lasts, pause, resume);
            }
            FaultAction::Isolate(Isolation { lasts, direction, existing }) => {
                return self.isolate(&targets, since, hits, lasts, (direction, existing));
            }
            FaultAction::Delay(delay) => return self.delay(&targets, since, hits, delay),
            FaultAction::Partition(Partition { ref groups, lasts }) => {
                return self.separate(groups, since, hits, lasts);
            }
            FaultAction::Disk(DiskBreak { fault, lasts }) => {
                let begin = |processes: &[&Process]| disk::begin(processes, fault);
                self.break_and_heal(&targets, since, hits, lasts, begin, disk::heal)?;
            }
            FaultAction::Kill(NodeKill { restart_after }) => {
                self.break_and_heal(&targets, since, hits, restart_after, kill, start)?;
            }
            FaultAction::Stop(NodeStop { restart_after }) => {
                let stop = |processes: &[&Process]| stop(processes, restart_after);
                self.break_and_heal(&targets, since, hits, restart_after, stop, start)?;
            }
            FaultAction::Restart(Restart { every, ref to }) => {
                for (process, number) in targets.iter().zip(0..) {
                    let turn = at + every * number;
                    if number > 0 {
                        self.open(Some(turn));
                    }
                    self.wait_until(turn)?;
                    let stop = |processes: &[&Process]| stop(processes, every);
                    let start = if to.is_some() { upgrade::start } else { start };
                    self.break_and_heal(&[*process], since, hits, Duration::ZERO, stop, start)?;
                }
            }
            FaultAction::Run(ref run) => {
                for number in 0..run.times {
                    self.wait_until(at + run.every * number)?;
                    match run.operation {
                        Maintenance::ChangeRoutes => self.change_routes(since, hits)?,
                        _ => self.maintain(run, &self.targets()?, since, hits)?,
                    }
                }
                return Ok(());
            }
            FaultAction::Drop(WatcherDrop { share }) => {
                return self.disturb_watchers(WatchDisturbance::drop(share), since, hits);
            }
            FaultAction::Silence(WatcherSilence { share, lasts }) => {
                let silence = WatchDisturbance::silence(share, lasts);
                return self.disturb_watchers(silence, since, hits);
            }
            // Each fault of a sequence has an injector.
            FaultAction::Sequence(_) => {}
        }
        self.open(None);
        Ok(())
    }

    /// Disturbs the watchers of the load, and waits until they go on.
    fn disturb_watchers(
        &self,
        disturbance: WatchDisturbance,
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
    ) -> Result<(), NotInjected> {
        let began = clock::now();
        let disturbed = self.generators.disturb_watchers(disturbance);
        let proof = disturbed.map_err(|why| NotInjected::impossible(why.to_string()))?;
        let mut hit = FaultHit {
            nodes: vec!["watchers".to_owned()],
            from: since(began),
            seen: Some(since(clock::now())),
            proof: vec![proof],
            ..FaultHit::default()
        };
        let waited = self.wait_until(began + disturbance.lasts);
        hit.to = waited.is_ok().then(|| since(clock::now()));
        hits.push(hit);
        waited
    }

    /// Opens started nodes, as an operator would: a secret store starts sealed. Ends at `until` or with the load.
    fn open(&self, until: Option<Instant>) {
        let is_late = || until.is_some_and(|until| clock::now() >= until);
        while !self.is_over() && !is_late() && !self.cluster.all_serve() {
            std::thread::sleep(LEADER_PAUSE);
        }
    }

    /// Breaks nodes by `begin`, waits for `lasts` from then on, and heals them by `end`, even if the load is over.
    fn break_and_heal(
        &self,
        processes: &[&Process],
        since: impl Fn(Instant) -> f64,
        hits: &mut Vec<FaultHit>,
        lasts: Duration,
        begin: impl Fn(&[&Process]) -> Result<String, String>,
        end: impl Fn(&[&Process]) -> Result<String, String>,
    ) -> Result<(), NotInjected> {
        let began = clock::now();
        let mut hit = FaultHit {
            nodes: processes.iter().map(|process| process.name().to_owned()).collect(),
            from: since(began),
            ..FaultHit::default()
        };
        let broken = begin(processes);
        hit.seen = broken.is_ok().then(|| since(clock::now()));
        let waited = broken.as_ref().map_or(Ok(()), |_| self.wait_until(began + lasts));
        let healed = end(processes);
        hit.to = healed.is_ok().then(|| since(clock::now()));
        hit.proof = [&broken, &healed].into_iter().flatten().cloned().collect();
        hits.push(hit);
        broken.and(healed)?;
        waited
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits for a moment, unless the load ends before.
    fn wait_until(&self, moment: Instant) -> Result<(), NotInjected> {
        loop {
            let left = moment.saturating_duration_since(clock::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.is_over() {
                let why = "the load ended before the fault did".to_owned();
                return Err(NotInjected::too_late(why));
            }
            std::thread::sleep(left.min(CHECK_EVERY));
        }
    }

    /// Looks up the processes that the fault happens to.
    fn targets(&self) -> Result<Vec<&Process>, NotInjected> {
        let node = self.fault.target.node;
        if node == FaultNode::Each {
            return Ok(self.member()?.own_processes().iter().collect());
        }
        let leader = self.leads_if_asked([&node])?;
        Ok(vec![self.node(node, leader)?])
    }

    /// Returns the system, or the part of it that the fault happens to.
    fn member(&self) -> Result<&ReadyCluster, NotInjected> {
        let member = self.cluster.member(self.part);
        member.ok_or_else(|| NotInjected::impossible("the system has no such part".to_owned()))
    }

    /// Returns the leader's place if one of these nodes depends on it; `None` for a single node.
    fn leads_if_asked<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n FaultNode>,
    ) -> Result<Option<usize>, NotInjected> {
        let member = self.member()?;
        let by_role = |node: &FaultNode| matches!(node, FaultNode::Leader | FaultNode::Follower(_));
        match member.own_processes().len() > 1 && nodes.into_iter().any(by_role) {
            true => self.leader(member).map(Some),
            false => Ok(None),
        }
    }

    /// Returns the process of one node. `leader`: its place among the nodes.
    fn node(&self, node: FaultNode, leader: Option<usize>) -> Result<&Process, NotInjected> {
        let all = self.member()?.own_processes();
        let place = match node {
            FaultNode::Each => None,
            FaultNode::Numbered(place) => Some(place as usize - 1),
            FaultNode::Leader => Some(leader.unwrap_or(0)),
            FaultNode::Follower(place) => {
                (0..all.len()).filter(|at| Some(*at) != leader).nth(place as usize - 1)
            }
        };
        place.and_then(|place| all.get(place)).ok_or_else(|| {
            let all = plural(all.len() as u64, "node");
            NotInjected::impossible(format!("there is no {node} among {all}"))
        })
    }

    /// Returns the leader's place among the nodes.
    fn leader(&self, member: &ReadyCluster) -> Result<usize, NotInjected> {
        let deadline = clock::now() + LEADER_WITHIN;
        loop {
            let seen = match member.leads_now() {
                Ok(Some(leader)) => return Ok(leader),
                Ok(None) => {
                    let why = "the system reports no leader".to_owned();
                    return Err(NotInjected::impossible(why));
                }
                Err(not_ready) => format!("no leader was found: {not_ready:?}"),
            };
            if clock::now() > deadline || self.is_over() {
                return Err(seen.into());
            }
            std::thread::sleep(LEADER_PAUSE);
        }
    }
}

fn pause(processes: &[&Process]) -> Result<String, String> {
    let threads = each(processes, |process| process.pause())?;
    Ok(format!("{} stood still", plural(threads as u64, "thread")))
}

fn resume(processes: &[&Process]) -> Result<String, String> {
    let threads = each(processes, |process| process.resume())?;
    Ok(format!("{} went on", plural(threads as u64, "thread")))
}

/// Does something to each process, and adds up the results. Goes on after a failure, so that all are healed.
fn each(
    processes: &[&Process],
    act: impl Fn(&Process) -> Result<usize, String>,
) -> Result<usize, String> {
    let acted = processes
        .iter()
        .map(|process| act(process).map_err(|why| format!("`{}`: {why}", process.name())));
    acted.collect::<Vec<_>>().into_iter().sum()
}

fn kill(processes: &[&Process]) -> Result<String, String> {
    let exits = kill_all(processes.iter().copied());
    Ok(endings(processes, exits.iter().map(Exit::to_string)))
}

/// Asks nodes to end, and kills those that still run after `within`.
fn stop(processes: &[&Process], within: Duration) -> Result<String, String> {
    let stopped = terminate_all(processes.iter().copied(), within);
    let text = |StopResult { exit, forced }: StopResult| {
        format!("{exit}{}", if forced { " after it had not ended by itself" } else { "" })
    };
    Ok(endings(processes, stopped.into_iter().map(text)))
}

fn endings(processes: &[&Process], ends: impl Iterator<Item = String>) -> String {
    let each =
        processes.iter().zip(ends).map(|(process, end)| format!("`{}` {end}", process.name()));
    each.collect::<Vec<_>>().join(", ")
}

fn start(processes: &[&Process]) -> Result<String, String> {
    let mut started = Ok(());
    for process in processes {
        let result = process.restart().map_err(|error| error.to_string());
        started = started.and(result);
    }
    started.map(|()| format!("started {} again", plural(processes.len() as u64, "process")))
}
