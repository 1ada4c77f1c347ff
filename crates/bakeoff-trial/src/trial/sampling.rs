//! Samples the servers, the generator and the machine during a trial, and judges the samples.
//!
//! Trials of a study and recorded runs of `bakeoff load` use it alike.
//!
//! Not here: taking samples (`bakeoff_host::observe`), the rules (`bakeoff_core::check`).

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use bakeoff_agent::AgentError;
use bakeoff_clock as clock;
use bakeoff_clock::wall;
use bakeoff_core::check::node_causes::{self, SharedCpus};
use bakeoff_core::check::{self, CheckName, Verdict};
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::record::{Check, MachineClock, MachineTrial, StageRecord, TrialRecord, Usage};
use bakeoff_core::study::{Endpoint, Load, Study};
use bakeoff_core::trial_samples::{NodeSample, Phase, PhaseName, Series, TrialSamples};
use bakeoff_engine::Window;
use bakeoff_engine::window_signal::MomentSender;
use bakeoff_host::usage::{self, MachineServers};
use bakeoff_host::watch::{LocalWatch, Watch};
use bakeoff_host::{Process, machine};

use super::neighbours;
use crate::cluster::metrics::{MetricsSampler, MetricsSource, NodeMetrics};
use crate::this_machine;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::machine_samples::{MachineSamples, on_machine};
use bakeoff_fleet::machines::watch::{MachinesWatched, RemoteWatch};

/// Length of the windows before and after the creation of watchers whose memory is compared, in seconds.
const MEMORY_WINDOW: f64 = 3.0;

/// Sampling of a trial in progress.
pub(crate) struct Sampling<'a> {
    own: LocalWatch,
    /// Watches the machines of the run, if it has a places file.
    remote: Option<RemoteWatch<'a>>,
    /// Samples the metrics of nodes, if the study gives their URLs.
    metrics: Option<MetricsSampler>,
    /// Why the CPU time of servers that bakeoff did not start looks like that of other work.
    unattributed: Option<String>,
    every: Duration,
    began: Instant,
    /// Start by the wall clock, in seconds since 1970.
    wall: f64,
    /// True if another bakeoff ran on this machine at the start.
    another_bakeoff: bool,
}

impl<'a> Sampling<'a> {
    /// Begins to sample at the interval `every`. `dir` is on the disk to sample.
    pub(crate) fn begin(dir: &Path, every: Duration) -> Self {
        let (began, wall) = (clock::now(), wall::seconds());
        let another_bakeoff = this_machine::is_another_bakeoff_here();
        let own = LocalWatch::begin(dir, every, began);
        let (remote, metrics, unattributed) = (None, None, None);
        Self { own, remote, metrics, unattributed, every, began, wall, another_bakeoff }
    }

    /// Samples all machines of the run from now on.
    ///
    /// # Errors
    /// Fails if a machine is lost.
    pub(crate) fn watch_machines(&mut self, fleet: &'a Fleet) -> Result<(), AgentError> {
        let watch = |machines| RemoteWatch::begin(machines, self.every, self.began);
        self.remote = fleet.placed().map(|machines| watch(machines)).transpose()?;
        Ok(())
    }

    /// Counts the CPU time of servers of this machine that bakeoff did not start. `is_placed`: the run has a places file.
    pub(crate) fn watch_endpoints(&mut self, endpoints: &[Endpoint], is_placed: bool) {
        let unknown = |one: &Endpoint| {
            let why = match &*neighbours::loopback(one) {
                [] => return None,
                _ if is_placed => "it runs on a generator's machine".to_owned(),
                addresses => self.own.count_listener(addresses).err()?,
            };
            let at = one.authority();
            Some(format!("the CPU time of the server at {at} looks like that of other work: {why}"))
        };
        self.unattributed = endpoints.iter().find_map(unknown);
    }

    /// Returns the reason why the CPU time of some servers looks like that of other work.
    pub(crate) fn unattributed(&self) -> Option<&str> {
        self.unattributed.as_deref()
    }

    fn watches(&self) -> impl Iterator<Item = &dyn Watch> {
        let own: &dyn Watch = &self.own;
        std::iter::once(own).chain(self.remote.iter().map(|watch| watch as &dyn Watch))
    }

    /// Samples these servers from now on, on any machine.
    pub(crate) fn watch(&self, processes: &[&Process]) {
        self.watches().for_each(|watch| watch.watch(processes));
    }

    /// Begins a phase of the trial.
    pub(crate) fn phase(&self, name: PhaseName) {
        self.watches().for_each(|watch| watch.phase(name));
    }

    /// Begins the load phase, and marks its start in the servers' logs.
    pub(crate) fn load_begins(&self, processes: &[&Process]) {
        self.watches().for_each(|watch| watch.mark_logs(processes));
        self.phase(PhaseName::Load);
    }

    /// Marks the end of the load in the servers' logs.
    pub(crate) fn load_ends(&self) {
        self.watches().for_each(Watch::end_marks);
    }

    /// Returns the log findings of all servers during the load.
    pub(crate) fn complaints(&self) -> Vec<NodeLog> {
        self.watches().flat_map(Watch::complaints).collect()
    }

    /// Copies the logs of remote servers to a folder of this machine.
    pub(crate) fn fetch_logs(&self, to: &Path) {
        self.remote.iter().for_each(|watch| watch.fetch_logs(to));
    }

    /// Samples the metrics of these nodes from now on.
    pub(crate) fn watch_metrics(&mut self, sources: Vec<MetricsSource>) {
        if !sources.is_empty() {
            self.metrics = Some(MetricsSampler::start(sources, self.every, self.began));
        }
    }

    /// Returns the seconds since the trial began.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Returns the sender for the start and the end of measuring.
    pub(crate) fn moments(&self) -> MomentSender {
        MomentSender::new(self.own.moments())
    }

    /// Reports the measured window of a load to all machines.
    pub(crate) fn measures(&self, moments: &MomentSender, window: &Window) {
        moments.begins(window);
        self.remote.iter().for_each(|watch| watch.moments(window));
    }

    /// Returns the start of measuring, in seconds since the trial began. `None` if it never began.
    pub(crate) fn measured_from(&self, moments: &MomentSender) -> Option<f64> {
        Some(moments.begin()?.saturating_duration_since(self.began).as_secs_f64())
    }

    /// Returns the samples so far of each machine with servers or generators.
    ///
    /// # Errors
    /// Fails if a machine is lost.
    pub(crate) fn so_far(&self) -> Result<Vec<MachineSamples<'_>>, AgentError> {
        match &self.remote {
            Some(watch) => watch.so_far(),
            None => Ok(vec![MachineSamples::local(Cow::Owned(self.own.so_far()))]),
        }
    }

    /// Returns the last sample of each server of this machine and of the generator. Empty for a run with a places file:
    /// samples of other machines arrive at the end of a trial.
    pub(crate) fn last_samples(&self) -> Vec<NodeSample> {
        match &self.remote {
            Some(_) => Vec::new(),
            None => self.own.last_samples(),
        }
    }

    /// Ends sampling.
    pub(crate) fn end(self) -> SamplingResult {
        let mut metrics = self.metrics.map(MetricsSampler::stop).unwrap_or_default();
        let mut observed = self.own.end();
        observed.metrics.extend(metrics.iter_mut().filter_map(|node| node.samples.take()));
        let MachinesWatched { machines, kernels, unseen } =
            self.remote.map(RemoteWatch::end).unwrap_or_default();
        let (lasted, wall) = (self.began.elapsed(), wall::seconds() - self.wall);
        let another_bakeoff = self.another_bakeoff || this_machine::is_another_bakeoff_here();
        let unattributed = self.unattributed;
        SamplingResult {
            observed,
            metrics,
            unattributed,
            machines,
            kernels,
            unseen,
            lasted,
            wall,
            another_bakeoff,
        }
    }
}

/// Samples of a finished trial.
pub(crate) struct SamplingResult {
    /// Samples of this machine, and metrics of nodes.
    pub(crate) observed: TrialSamples,
    /// Nodes with metrics. Their samples are in `observed`.
    metrics: Vec<NodeMetrics>,
    /// Why the CPU time of some servers looks like that of other work.
    unattributed: Option<String>,
    /// Samples of the run's machines; empty without a places file.
    pub(crate) machines: Vec<MachineTrial>,
    /// For each machine, the index of the first one with the same running kernel.
    kernels: Vec<usize>,
    /// Error that lost the samples of a machine.
    pub(crate) unseen: Option<AgentError>,
    lasted: Duration,
    /// Length of the trial by the wall clock, in seconds.
    wall: f64,
    /// True if another bakeoff ran on this machine at the start or the end.
    another_bakeoff: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct JudgeContext<'a> {
    pub(crate) study: &'a Study,
    pub(crate) load: &'a Load,
    /// True with `--shared-machine`.
    pub(crate) shared_machine: bool,
}

impl SamplingResult {
    fn is_local(&self) -> bool {
        self.machines.is_empty()
    }

    /// Returns the samples of each machine with servers or generators: this one, or those of the places file.
    fn seen(&self) -> Vec<MachineSamples<'_>> {
        match self.is_local() {
            true => vec![MachineSamples::local(Cow::Borrowed(&self.observed))],
            false => MachineSamples::all(&self.machines, &self.kernels),
        }
    }

    /// Adds the usage during the load to the record, and the checks of the samples.
    pub(crate) fn judge_load(&self, of: JudgeContext<'_>, mut record: TrialRecord) -> TrialRecord {
        let JudgeContext { study, load, shared_machine } = of;
        let unattributed = self.unattributed.as_deref();
        record.another_bakeoff = self.is_local() && self.another_bakeoff;
        let windows = windows(load, &record);
        let seen = self.seen();
        if let Some(phase) = load_phase(&self.observed) {
            let loaded: Vec<(&MachineSamples<'_>, _)> =
                seen.iter().filter_map(|one| Some((one, load_phase(&one.observed)?))).collect();
            record.usage.extend(loaded.iter().flat_map(|(one, phase)| one.usage(&windows, *phase)));
            if !self.is_local() {
                // The coordinator itself samples the metrics of all servers.
                let usage = usage::summarize(&self.observed, &windows, phase);
                let asked = |one: &Usage| self.metrics.iter().any(|node| node.name == one.name);
                record.usage.extend(usage.into_iter().filter(asked));
            }
            let servers = self.servers(&seen);
            record.memory = usage::memory(&servers, &windows);
            record.stages.iter_mut().for_each(|stage| watcher_memory(&servers, stage));
            let metrics = metrics_check(&self.metrics, &record.usage);
            record.checks.extend(metrics.map(|verdict| Check::new(CheckName::Metrics, verdict)));
            let [steal, others] = match shared_machine {
                true => [(); 2]
                    .map(|()| Some(Verdict::NotChecked(neighbours::SHARED_MACHINE.to_owned()))),
                false => [
                    worst(loaded.iter().map(|(one, phase)| one.steal(*phase))),
                    worst(
                        loaded
                            .iter()
                            .map(|(one, _)| neighbours::check(study, unattributed, one, &windows)),
                    ),
                ],
            };
            record.checks.extend(steal.map(|verdict| Check::new(CheckName::Steal, verdict)));
            record.checks.extend(others.map(|verdict| Check::new(CheckName::Neighbours, verdict)));
        }
        if !record.stages.is_empty() {
            let local = self.is_local().then_some(&self.observed);
            let mut checks = check::measured(load, &record, local);
            let stages = record.figured();
            let cpus = machine::cpus_online().unwrap_or(0);
            let is_apart =
                |one: &Check| one.name == CheckName::GeneratorApart && one.verdict.passed();
            let shares_cpus = cpus > 0 && !record.checks.iter().any(is_apart);
            if let Some(observed) = local.filter(|_| shares_cpus && stages.len() == windows.len()) {
                let shared = SharedCpus { cpus, stages, windows: &windows };
                node_causes::by_cpu_time(&mut checks, observed, shared);
            }
            record.checks.extend(checks);
            if let Some(observed) = local.filter(|_| shares_cpus) {
                node_causes::stalls(&mut record.injections, observed, cpus);
            }
        }
        record
    }

    /// Returns the samples of all servers, on all machines and by metrics.
    fn servers<'s>(&'s self, seen: &'s [MachineSamples<'s>]) -> Vec<MachineServers<'s>> {
        let mut servers: Vec<MachineServers<'s>> = seen
            .iter()
            .map(|one| MachineServers { observed: &one.observed, names: one.servers })
            .collect();
        if !self.is_local() {
            // The coordinator runs no server in such a run, but samples metrics.
            servers.push(MachineServers { observed: &self.observed, names: Some(&[]) });
        }
        servers
    }

    /// Checks that no disk with servers' data ran full, on any machine. `complainant` is a node whose log reports a
    /// full disk. The cause is unclear if the nodes filled it.
    pub(crate) fn disk_check(&self, complainant: Option<&str>) -> Check {
        let seen = self.seen();
        let homes: Vec<&MachineSamples<'_>> =
            seen.iter().filter(|one| one.servers.is_none_or(|names| !names.is_empty())).collect();
        let verdicts = homes.iter().map(|one| {
            let complainant = complainant.filter(|name| one.has_server(name));
            one.named(check::machine::disk(&one.observed.machine, complainant))
        });
        let verdict = worst(verdicts)
            .unwrap_or_else(|| Verdict::NotChecked("no machine had a server".to_owned()));
        let mut check = Check::new(CheckName::Disk, verdict);
        let observed: Vec<&TrialSamples> = homes.iter().map(|one| &*one.observed).collect();
        node_causes::by_writes(&mut check, &observed);
        check
    }

    /// Merges the samples of all machines for the trial's charts: those of all servers, and those of the first machine
    /// with servers.
    pub(crate) fn merged(&mut self) -> TrialSamples {
        let own = std::mem::take(&mut self.observed);
        if self.machines.is_empty() {
            return own;
        }
        let (mut nodes, mut memory) = (Vec::new(), Vec::new());
        for machine in &mut self.machines {
            memory.append(&mut machine.observed.memory);
            let (servers, agents): (Vec<Series>, Vec<Series>) =
                std::mem::take(&mut machine.observed.nodes)
                    .into_iter()
                    .partition(|node| machine.servers.contains(&node.name));
            nodes.extend(servers);
            machine.observed.nodes = agents;
        }
        let first = self.machines.iter().find(|machine| !machine.servers.is_empty());
        let machine = first.map(|machine| machine.observed.machine.clone()).unwrap_or_default();
        let busy_by = first.and_then(|machine| machine.observed.busy_by);
        TrialSamples { nodes, memory, machine, busy_by, strangers: vec![], turnover: vec![], ..own }
    }

    /// Checks that both clocks of each machine agree on the length of the trial, this one's included.
    pub(crate) fn clock_check(&self) -> Check {
        let own = check::machine::clock(self.wall - self.lasted.as_secs_f64());
        let others = self.machines.iter().map(|machine| {
            let verdict = match machine.clock {
                Some(MachineClock { wall_before, wall_after }) => {
                    check::machine::clock(wall_after - wall_before)
                }
                None => Verdict::NotChecked("its clock was not read".to_owned()),
            };
            on_machine(&machine.name, verdict)
        });
        let verdict = worst(std::iter::once(own).chain(others)).unwrap_or(Verdict::Passed);
        Check::new(CheckName::Clock, verdict)
    }
}

/// Returns the start and the end of the load; `None` without a load.
fn load_phase(observed: &TrialSamples) -> Option<(f64, f64)> {
    let is_load = |phase: &&Phase| phase.name == PhaseName::Load.text();
    observed.phases.iter().find(is_load).map(|phase| (phase.from, phase.to))
}

/// Returns the verdict on all machines: the first failure, else the first that was not checked, else passed.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Option<Verdict> {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let failed = verdicts.iter().position(Verdict::failed);
    let place = failed.or_else(|| verdicts.iter().position(|verdict| !verdict.passed()));
    verdicts.into_iter().nth(place.unwrap_or(0))
}

/// Checks that all nodes with metrics reported their usage. `None` without such nodes.
fn metrics_check(asked: &[NodeMetrics], usage: &[Usage]) -> Option<Verdict> {
    asked.first()?;
    let lacks = |node: &&NodeMetrics| !usage.iter().any(|known| known.name == node.name);
    let why = |node: &NodeMetrics| {
        let why =
            node.failure.as_deref().unwrap_or("fewer than two answers arrived around the load");
        format!("metrics of {} could not be read: {why}", node.name)
    };
    let lacking: Vec<String> = asked.iter().filter(lacks).map(why).collect();
    Some(match lacking.is_empty() {
        true => Verdict::Passed,
        false => Verdict::NotChecked(lacking.join("; ")),
    })
}

/// Returns the measured window of each stage that the trial's figures come from.
/// Sets how much memory the servers took for the watchers of a stage. Before the watchers, and after, clients write alike.
fn watcher_memory(servers: &[MachineServers<'_>], stage: &mut StageRecord) {
    let Some(watch) = &mut stage.measurement.watch else { return };
    let (from, to) = (stage.began, stage.began + watch.ready_after().as_secs_f64());
    let (before, after) = ((from - MEMORY_WINDOW, from), (to, to + MEMORY_WINDOW));
    watch.server_memory = usage::memory_growth(servers, before, after);
}

fn windows(load: &Load, record: &TrialRecord) -> Vec<(f64, f64)> {
    let windows = record.figured().iter().map(|stage| stage.window(load.warmup));
    windows.filter(|(from, to)| to > from).collect()
}

#[cfg(test)]
mod tests {
    use bakeoff_core::trial_samples::{BusyBy, Column};

    use super::*;

    /// Returns a machine with one server, and the free bytes of its disk at each sample.
    fn machine(name: &str, server: &str, free: &[f64]) -> MachineTrial {
        let machine = Series {
            name: "machine".to_owned(),
            at: (0..free.len()).map(|at| at as f64).collect(),
            columns: [(Column::DiskFree, free.to_vec())].into(),
        };
        MachineTrial {
            name: name.to_owned(),
            cpus: 2,
            servers: vec![server.to_owned()],
            generated: Vec::new(),
            observed: TrialSamples { machine, ..TrialSamples::default() },
            clock: Some(MachineClock { wall_before: 1e9, wall_after: 1e9 + 0.4 }),
        }
    }

    fn sampled(machines: Vec<MachineTrial>) -> SamplingResult {
        SamplingResult {
            observed: TrialSamples::default(),
            metrics: Vec::new(),
            unattributed: None,
            kernels: (0..machines.len()).collect(),
            machines,
            unseen: None,
            lasted: Duration::ZERO,
            wall: 0.0,
            another_bakeoff: false,
        }
    }

    #[test]
    fn stepped_clock_of_any_machine_fails_the_check() {
        let of = |step: Option<f64>| {
            let clock = step.map(|step| MachineClock { wall_before: 1e9, wall_after: 1e9 + step });
            let generator = MachineTrial { clock, servers: Vec::new(), ..machine("gen1", "", &[]) };
            sampled(vec![machine("db1", "a-1", &[]), generator]).clock_check().verdict
        };
        assert_eq!(of(Some(0.1)), Verdict::Passed);
        let Verdict::Failed(why) = of(Some(-3600.0)) else { panic!("it passed") };
        assert!(why.starts_with("on `gen1`: the machine's clock was set back by 3,600 s"), "{why}");
        let unread = Verdict::NotChecked("on `gen1`: its clock was not read".to_owned());
        assert_eq!(of(None), unread);
        let mut own = sampled(vec![machine("db1", "a-1", &[])]);
        own.wall = 5.0;
        assert!(own.clock_check().verdict.failed(), "the coordinator's counts too");
    }

    #[test]
    fn servers_on_one_kernel_are_not_neighbours() {
        let series = |name: &str, columns: &[(Column, f64)]| Series {
            name: name.to_owned(),
            at: vec![0.0, 10.0],
            columns: columns.iter().map(|&(column, end)| (column, vec![0.0, end])).collect(),
        };
        let machine = |name: &str| {
            let mut machine = machine(name, "n-1", &[9e9]);
            // Each machine's server used 8 of the 20 seconds of two CPUs.
            let busy = [(Column::Busy, 17.0), (Column::Helpers, 0.5)];
            machine.observed = TrialSamples {
                nodes: vec![series("n-1", &[(Column::CpuUser, 6.0), (Column::CpuSystem, 2.0)])],
                machine: series("machine", &busy),
                busy_by: Some(BusyBy::SchedStat),
                ..TrialSamples::default()
            };
            machine
        };
        let mut of = sampled(vec![machine("h1"), machine("h2")]);
        let judged = |of: &SamplingResult, place: usize| {
            check::machine::neighbours(&of.seen()[place].attributed(), &[(0.0, 10.0)], 2, 0.05)
        };
        assert!(judged(&of, 0).failed(), "two machines: another process took 8 s");
        of.kernels = vec![0, 0];
        assert_eq!((judged(&of, 0), judged(&of, 1)), (Verdict::Passed, Verdict::Passed));
    }

    #[test]
    fn full_disk_of_any_server_machine_fails_and_is_named() {
        let (room, full) = ([9e9, 9e9], [9e9, 1e6]);
        let of = |first, second, complainant| {
            sampled(vec![machine("h1", "n-1", first), machine("h2", "n-2", second)])
                .disk_check(complainant)
                .verdict
        };
        assert_eq!(of(&room, &room, None), Verdict::Passed);
        let Verdict::Failed(why) = of(&room, &full, None) else { panic!("the second ran full") };
        assert!(why.starts_with("on `h2`: the disk that holds the data ran full"), "{why}");
        let Verdict::Failed(why) = of(&room, &room, Some("n-2")) else { panic!("its log says so") };
        assert!(why.starts_with("on `h2`: no space left on device, says `n-2`"), "{why}");
    }

    #[test]
    fn reports_nodes_without_metrics_on_remote_machines() {
        let mut of = sampled(vec![machine("h1", "n-1", &[9e9])]);
        let name = PhaseName::Load.text().to_owned();
        of.observed.phases = vec![Phase { name, from: 0.0, to: 1.0 }];
        let failure = Some("answered 404".to_owned());
        of.metrics = vec![NodeMetrics { name: "away".to_owned(), samples: None, failure }];
        let text = "title: t\nsystems: {away: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 1}}}\n\
                    loads: {l: {clients: 1, stop: {after: 1s}}}\ntrials: 1\n";
        let kinds = bakeoff_systems::kinds();
        let study = bakeoff_core::study::parse("t", "t.yaml", text, &kinds).unwrap();
        let plan = bakeoff_core::plan::plan(&study, 1);
        let judged = JudgeContext { study: &study, load: &study.loads[0], shared_machine: false };
        let record = of.judge_load(judged, crate::trial::begun(&plan[0], String::new()));
        let check = record.checks.iter().find(|check| check.name == CheckName::Metrics);
        let why = "metrics of away could not be read: answered 404";
        assert_eq!(check.map(|check| &check.verdict), Some(&Verdict::NotChecked(why.to_owned())));
    }
}
