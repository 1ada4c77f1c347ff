//! Samples what the servers, the generator and the machine do during a trial, and judges it at the end.
//!
//! A trial of a study and a load that `bakeoff load` records are watched alike.
//!
//! Not here: the samples themselves (`bakeoff_host::observe`), the rules (`bakeoff_core::check`).

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use bakeoff_agent::AgentError;
use bakeoff_clock as clock;
use bakeoff_clock::wall;
use bakeoff_core::check::explained::{self, Shared};
use bakeoff_core::check::{self, CheckName, Verdict};
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::memory::NodesMemory;
use bakeoff_core::observed::{Observed, Phase, PhaseName, Series};
use bakeoff_core::record::{Check, MachineTrial, TrialRecord, Usage};
use bakeoff_core::study::{self, Load, Study};
use bakeoff_engine::Window;
use bakeoff_engine::moments::MomentSender;
use bakeoff_host::usage::{self, MachineServers};
use bakeoff_host::watch::{LocalWatch, Watch};
use bakeoff_host::{Process, machine};

use super::neighbours;
use crate::cluster::metrics::{MetricsSampler, MetricsSource, NodeMetrics};
use crate::this_machine;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::seen::MachineSeen;
use bakeoff_fleet::machines::watch::{MachinesWatched, RemoteWatch};

/// The samples of a trial under way, and when it began by two clocks.
pub(crate) struct Sampling<'a> {
    own: LocalWatch,
    /// Watches the machines of the run, where it has places.
    elsewhere: Option<RemoteWatch<'a>>,
    /// Asks nodes for their metrics, where the study says where.
    metrics: Option<MetricsSampler>,
    every: Duration,
    began: Instant,
    /// By the clock on the wall, in seconds since 1970.
    wall: f64,
    /// Whether another bakeoff worked on this machine then.
    beside_another: bool,
}

impl<'a> Sampling<'a> {
    /// Begins to sample every so often; `dir` tells which disk.
    pub(crate) fn begin(dir: &Path, every: Duration) -> Self {
        let (began, wall) = (clock::now(), wall::seconds());
        let beside_another = this_machine::is_another_bakeoff_here();
        let own = LocalWatch::begin(dir, every, began);
        Self { own, elsewhere: None, metrics: None, every, began, wall, beside_another }
    }

    /// Samples all machines of the run from now on.
    ///
    /// # Errors
    /// When one is lost.
    pub(crate) fn watch_machines(&mut self, fleet: &'a Fleet) -> Result<(), AgentError> {
        let watch = |machines| RemoteWatch::begin(machines, self.every, self.began);
        self.elsewhere = fleet.placed().map(|machines| watch(machines)).transpose()?;
        Ok(())
    }

    fn watches(&self) -> impl Iterator<Item = &dyn Watch> {
        let own: &dyn Watch = &self.own;
        std::iter::once(own).chain(self.elsewhere.iter().map(|watch| watch as &dyn Watch))
    }

    /// Samples these servers from now on, wherever they run.
    pub(crate) fn watch(&self, processes: &[&Process]) {
        self.watches().for_each(|watch| watch.watch(processes));
    }

    /// Begins a phase of the trial.
    pub(crate) fn phase(&self, name: PhaseName) {
        self.watches().for_each(|watch| watch.phase(name));
    }

    /// Marks the beginning of a load in the logs of these servers, and begins its phase.
    pub(crate) fn load_begins(&self, processes: &[&Process]) {
        self.watches().for_each(|watch| watch.mark_logs(processes));
        self.phase(PhaseName::Load);
    }

    /// Marks the end of the load in the logs.
    pub(crate) fn load_ends(&self) {
        self.watches().for_each(Watch::end_marks);
    }

    /// Returns the complaints of all servers during the load.
    pub(crate) fn complaints(&self) -> Vec<NodeLog> {
        self.watches().flat_map(Watch::complaints).collect()
    }

    /// Brings the logs of servers elsewhere into a folder of this machine.
    pub(crate) fn fetch_logs(&self, to: &Path) {
        self.elsewhere.iter().for_each(|watch| watch.fetch_logs(to));
    }

    /// Asks these nodes for their metrics from now on.
    pub(crate) fn watch_metrics(&mut self, sources: Vec<MetricsSource>) {
        if !sources.is_empty() {
            self.metrics = Some(MetricsSampler::start(sources, self.every, self.began));
        }
    }

    /// Returns the seconds since the trial began.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Returns where the engine reports when measuring begins and ends.
    pub(crate) fn moments(&self) -> MomentSender {
        MomentSender::new(self.own.moments())
    }

    /// Reports to all machines when a load is measured.
    pub(crate) fn measures(&self, moments: &MomentSender, window: &Window) {
        moments.begins(window);
        self.elsewhere.iter().for_each(|watch| watch.moments(window));
    }

    /// Returns when measuring began, in seconds since the trial did; `None` where it never began.
    pub(crate) fn measured_from(&self, moments: &MomentSender) -> Option<f64> {
        Some(moments.begin()?.saturating_duration_since(self.began).as_secs_f64())
    }

    /// Returns what each machine that servers or generators run on has seen so far.
    ///
    /// # Errors
    /// When a machine is lost.
    pub(crate) fn so_far(&self) -> Result<Vec<MachineSeen<'_>>, AgentError> {
        match &self.elsewhere {
            Some(watch) => watch.so_far(),
            None => Ok(vec![MachineSeen::local(Cow::Owned(self.own.so_far()))]),
        }
    }

    /// Ends it.
    pub(crate) fn end(self) -> Sampled {
        let mut metrics = self.metrics.map(MetricsSampler::stop).unwrap_or_default();
        let mut observed = self.own.end();
        observed.metrics.extend(metrics.iter_mut().filter_map(|node| node.samples.take()));
        let MachinesWatched { machines, kernels, unseen } =
            self.elsewhere.map(RemoteWatch::end).unwrap_or_default();
        let (lasted, wall) = (self.began.elapsed(), wall::seconds() - self.wall);
        let beside_another = self.beside_another || this_machine::is_another_bakeoff_here();
        Sampled { observed, metrics, machines, kernels, unseen, lasted, wall, beside_another }
    }
}

/// The samples of a trial that has ended.
pub(crate) struct Sampled {
    /// The samples of this machine, and the metrics of nodes.
    pub(crate) observed: Observed,
    /// The nodes that were asked for their metrics, whose samples are in `observed`.
    metrics: Vec<NodeMetrics>,
    /// The samples of the machines of the run, where it has places.
    pub(crate) machines: Vec<MachineTrial>,
    /// For each machine the place of the first one with the same running kernel.
    kernels: Vec<usize>,
    /// The reason why the samples of a machine are missing, if they are.
    pub(crate) unseen: Option<AgentError>,
    lasted: Duration,
    /// Its length by the clock on the wall, in seconds.
    wall: f64,
    /// Whether another bakeoff worked on this machine at its beginning or its end.
    beside_another: bool,
}

/// The trial whose samples are judged.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'a> {
    pub(crate) study: &'a Study,
    /// The system that was loaded.
    pub(crate) asked: &'a study::System,
    pub(crate) load: &'a Load,
    /// True where others work on this machine, as the user says.
    pub(crate) shared_machine: bool,
}

impl Sampled {
    fn is_local(&self) -> bool {
        self.machines.is_empty()
    }

    /// Returns what each machine of servers or generators has seen: this one, or those of the run's places.
    fn seen(&self) -> Vec<MachineSeen<'_>> {
        match self.is_local() {
            true => vec![MachineSeen::local(Cow::Borrowed(&self.observed))],
            false => MachineSeen::all(&self.machines, &self.kernels),
        }
    }

    /// Adds to the record what was used during the load, and what the samples say of the load's validity.
    pub(crate) fn judge_load(&self, of: Judged<'_>, mut record: TrialRecord) -> TrialRecord {
        let Judged { study, asked, load, shared_machine } = of;
        record.beside_another = self.is_local() && self.beside_another;
        let windows = windows(load, &record);
        let seen = self.seen();
        if let Some(phase) = load_phase(&self.observed) {
            let loaded: Vec<(&MachineSeen<'_>, _)> =
                seen.iter().filter_map(|one| Some((one, load_phase(&one.observed)?))).collect();
            record.usage.extend(loaded.iter().flat_map(|(one, phase)| one.usage(&windows, *phase)));
            if !self.is_local() {
                // Wherever servers run, the coordinator asks them for their metrics.
                let usage = usage::summarize(&self.observed, &windows, phase);
                let asked = |one: &Usage| self.metrics.iter().any(|node| node.name == one.name);
                record.usage.extend(usage.into_iter().filter(asked));
            }
            record.memory = self.memory(&seen, &windows);
            let metrics = metrics_check(&self.metrics, &record.usage);
            record.checks.extend(metrics.map(|verdict| Check::new(CheckName::Metrics, verdict)));
            let [steal, others] = match shared_machine {
                true => [(); 2].map(|()| Some(Verdict::NotChecked(neighbours::TOLD.to_owned()))),
                false => [
                    worst(loaded.iter().map(|(one, phase)| one.steal(*phase))),
                    worst(
                        loaded
                            .iter()
                            .map(|(one, _)| neighbours::check(study, asked, one, &windows)),
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
                let shared = Shared { cpus, stages, windows: &windows };
                explained::by_cpu_time(&mut checks, observed, shared);
            }
            record.checks.extend(checks);
        }
        record
    }

    /// Returns the most memory that all servers held at one moment, those of other machines and those that report
    /// it by metrics.
    fn memory(&self, seen: &[MachineSeen<'_>], windows: &[(f64, f64)]) -> Option<NodesMemory> {
        let mut servers: Vec<MachineServers<'_>> = seen
            .iter()
            .map(|one| MachineServers { observed: &one.observed, names: one.servers })
            .collect();
        if !self.is_local() {
            // The coordinator runs no server of such a run; it asks for metrics.
            servers.push(MachineServers { observed: &self.observed, names: Some(&[]) });
        }
        usage::memory(&servers, windows)
    }

    /// Checks that no disk that holds servers' data ran full, on any machine. `complainant`: a node whose log says
    /// that one did. The cause is unclear if the nodes filled it.
    pub(crate) fn disk_check(&self, complainant: Option<&str>) -> Check {
        let seen = self.seen();
        let homes: Vec<&MachineSeen<'_>> =
            seen.iter().filter(|one| one.servers.is_none_or(|names| !names.is_empty())).collect();
        let verdicts = homes.iter().map(|one| {
            let complainant = complainant.filter(|name| one.has_server(name));
            one.named(check::machine::disk(&one.observed.machine, complainant))
        });
        let verdict = worst(verdicts)
            .unwrap_or_else(|| Verdict::NotChecked("no machine had a server".to_owned()));
        let mut check = Check::new(CheckName::Disk, verdict);
        let observed: Vec<&Observed> = homes.iter().map(|one| &*one.observed).collect();
        explained::by_writes(&mut check, &observed);
        check
    }

    /// Returns samples of servers on all machines as one, for the charts of a trial: the servers', and those of the
    /// first machine that had any.
    pub(crate) fn merged(&mut self) -> Observed {
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
        Observed { nodes, memory, machine, busy_by, strangers: vec![], turnover: vec![], ..own }
    }

    /// Checks that both clocks agree on how long the trial lasted.
    pub(crate) fn clock_check(&self) -> Check {
        let verdict: Verdict = check::machine::clock(self.wall, self.lasted);
        Check::new(CheckName::Clock, verdict)
    }
}

/// Returns from when to when the load lasted; `None` where there was none.
fn load_phase(observed: &Observed) -> Option<(f64, f64)> {
    let is_load = |phase: &&Phase| phase.name == PhaseName::Load.text();
    observed.phases.iter().find(is_load).map(|phase| (phase.from, phase.to))
}

/// Returns the verdict on all machines: the first that failed, else one that was not checked.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Option<Verdict> {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let failed = verdicts.iter().position(Verdict::failed);
    let place = failed.or_else(|| verdicts.iter().position(|verdict| !verdict.passed()));
    verdicts.into_iter().nth(place.unwrap_or(0))
}

/// Tells whether all nodes that were asked told what they used; `None` where none was asked.
fn metrics_check(asked: &[NodeMetrics], usage: &[Usage]) -> Option<Verdict> {
    asked.first()?;
    let lacks = |node: &&NodeMetrics| !usage.iter().any(|known| known.name == node.name);
    let why = |node: &NodeMetrics| {
        let why = node.failure.as_deref().unwrap_or("no two answers came around the load");
        format!("metrics of {} could not be read: {why}", node.name)
    };
    let lacking: Vec<String> = asked.iter().filter(lacks).map(why).collect();
    Some(match lacking.is_empty() {
        true => Verdict::Passed,
        false => Verdict::NotChecked(lacking.join("; ")),
    })
}

/// Returns from when to when was measured what a trial's figures are of, stage by stage.
fn windows(load: &Load, record: &TrialRecord) -> Vec<(f64, f64)> {
    let windows = record.figured().iter().map(|stage| stage.window(load.warmup));
    windows.filter(|(from, to)| to > from).collect()
}

#[cfg(test)]
mod tests {
    use bakeoff_core::observed::{BusyBy, Column};

    use super::*;

    /// A machine with one server, and so many bytes free at each look.
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
            observed: Observed { machine, ..Observed::default() },
        }
    }

    fn sampled(machines: Vec<MachineTrial>) -> Sampled {
        Sampled {
            observed: Observed::default(),
            metrics: Vec::new(),
            kernels: (0..machines.len()).collect(),
            machines,
            unseen: None,
            lasted: Duration::ZERO,
            wall: 0.0,
            beside_another: false,
        }
    }

    #[test]
    fn servers_of_other_machines_on_one_kernel_are_no_neighbours() {
        let series = |name: &str, columns: &[(Column, f64)]| Series {
            name: name.to_owned(),
            at: vec![0.0, 10.0],
            columns: columns.iter().map(|&(column, end)| (column, vec![0.0, end])).collect(),
        };
        let machine = |name: &str| {
            let mut machine = machine(name, "n-1", &[9e9]);
            // Of 20 seconds that two CPUs had each machine's server took 8.
            let busy = [(Column::Busy, 17.0), (Column::Helpers, 0.5)];
            machine.observed = Observed {
                nodes: vec![series("n-1", &[(Column::CpuUser, 6.0), (Column::CpuSystem, 2.0)])],
                machine: series("machine", &busy),
                busy_by: Some(BusyBy::SchedStat),
                ..Observed::default()
            };
            machine
        };
        let mut of = sampled(vec![machine("h1"), machine("h2")]);
        let judged = |of: &Sampled, place: usize| {
            check::machine::neighbours(&of.seen()[place].attributed(), &[(0.0, 10.0)], 2, 0.05)
        };
        assert!(judged(&of, 0).failed(), "two machines: somebody else took 8 s");
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
    fn nodes_that_tell_no_metrics_are_said_where_the_load_came_from_other_machines() {
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
        let judged = Judged {
            study: &study,
            asked: &study.systems[0],
            load: &study.loads[0],
            shared_machine: false,
        };
        let record = of.judge_load(judged, crate::trial::begun(&plan[0], String::new()));
        let check = record.checks.iter().find(|check| check.name == CheckName::Metrics);
        let why = "metrics of away could not be read: answered 404";
        assert_eq!(check.map(|check| &check.verdict), Some(&Verdict::NotChecked(why.to_owned())));
    }
}
