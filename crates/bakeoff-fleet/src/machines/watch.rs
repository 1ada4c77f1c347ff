//! Samples other machines during a trial, on this machine's time scale.
//!
//! Each agent samples its servers and its machine with its own clock. The clock offset moves these times to the trial's
//! time scale. The offset is known to half a round trip, which is enough to place a sample within its second. No rate
//! combines two machines.
//!
//! Not here: sampling (`bakeoff_host::observe`), the offset (`bakeoff_agent`).

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bakeoff_agent::{AgentError, ClockReading, IncomingFrame, Offset, Request, WatchRequest};
use bakeoff_core::log_findings::NodeLog;
use bakeoff_core::record::{MachineClock, MachineTrial};
use bakeoff_core::trial_samples::{GENERATOR, PhaseName, Series, TrialSamples};
use bakeoff_engine::Window;
use bakeoff_host::watch::Watch;
use bakeoff_host::{MachineId, Process};

use super::machine_samples::MachineSamples;
use super::{Machine, Machines};

/// A watched server.
struct Server {
    /// Index of its machine.
    place: usize,
    name: String,
    /// Number from its agent.
    number: u32,
}

/// Samplers on all machines of a run.
pub struct RemoteWatch<'a> {
    machines: &'a Machines,
    /// For each machine, its clock offset and the time of its first sample on its clock.
    clocks: Vec<(Offset, u64)>,
    began: Instant,
    servers: Mutex<Vec<Server>>,
}

/// The samples of all machines of a finished trial.
#[derive(Default)]
pub struct MachinesWatched {
    /// Samples of each machine, with times since the trial began.
    pub machines: Vec<MachineTrial>,
    /// For each machine, the index of the first one with the same running kernel.
    pub kernels: Vec<usize>,
    /// Reason why a machine's samples are missing; `None` if all are present.
    pub unseen: Option<AgentError>,
}

impl<'a> RemoteWatch<'a> {
    /// Starts sampling on all machines. `began`: start of the trial.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn begin(
        machines: &'a Machines,
        every: Duration,
        began: Instant,
    ) -> Result<Self, AgentError> {
        let every_ms = every.as_millis() as u64;
        let clock = |machine: &Machine| -> Result<(Offset, u64), AgentError> {
            let offset = machine.agent.offset()?;
            Ok((offset, machine.agent.ask(&Request::Watch(WatchRequest::Begin(every_ms)))?))
        };
        let clocks = machines.each.iter().map(clock).collect::<Result<Vec<_>, _>>()?;
        if let (Some(network), Some(first)) = (machines.network(), machines.each.first()) {
            let helper = WatchRequest::Helper(network.process());
            first.agent.ask::<()>(&Request::Watch(helper))?;
        }
        Ok(Self { machines, clocks, began, servers: Mutex::default() })
    }

    /// Sends all machines the times at which measuring begins and ends.
    pub fn moments(&self, window: &Window) {
        let (begin, end) = window.measured();
        for (machine, (offset, _)) in self.machines.each.iter().zip(&self.clocks) {
            let request = WatchRequest::Moments {
                begin: offset.theirs(begin),
                end: end.map(|end| offset.theirs(end)),
            };
            machine.agent.ask::<()>(&Request::Watch(request)).ok();
        }
    }

    /// Returns the samples of each machine so far.
    ///
    /// # Errors
    /// When a machine is lost.
    pub fn so_far(&self) -> Result<Vec<MachineSamples<'_>>, AgentError> {
        let each = self.machines.each.iter().zip(&self.clocks);
        let seen = each.map(|(machine, (offset, began))| {
            let mut observed: TrialSamples =
                machine.agent.ask(&Request::Watch(WatchRequest::Samples))?;
            moved(&mut observed, self.shift(*offset, *began));
            Ok((machine.agent.machine(), machine.agent.hello().cpus, observed))
        });
        let seen = seen.collect::<Result<Vec<_>, AgentError>>()?;
        Ok(MachineSamples::so_far(seen, &self.machines.kernels))
    }

    /// Returns the seconds between the trial's beginning and a machine's first sample.
    fn shift(&self, offset: Offset, began: u64) -> f64 {
        offset.ours(began).saturating_duration_since(self.began).as_secs_f64()
    }

    /// Copies the logs of all servers, at once, to a folder of this machine, one file per server.
    pub fn fetch_logs(&self, to: &Path) {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for server in &*servers {
                scope.spawn(|| self.fetch_log(server, to));
            }
        });
    }

    fn fetch_log(&self, Server { place, name, number }: &Server, to: &Path) {
        let request = Request::Log { node: *number };
        let Ok(exchange) = self.machines.each[*place].agent.open(&request) else { return };
        let mut log = Vec::new();
        while let Ok(IncomingFrame::Data(bytes)) = exchange.next() {
            log.extend(bytes);
        }
        bakeoff_files::make_dirs(to).ok();
        let path = to.join(format!("{name}.log"));
        bakeoff_files::replace(&path, &log, bakeoff_files::PRIVATE).ok();
    }

    /// Ends sampling and returns all samples.
    pub fn end(self) -> MachinesWatched {
        let places = &self.machines.places;
        let all = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unseen = None;
        let mut machines = Vec::new();
        let each = self.machines.each.iter().zip(&self.clocks).zip(&places.machines).enumerate();
        for (number, ((machine, (offset, began)), place)) in each {
            let mut observed: TrialSamples =
                machine.agent.ask(&Request::Watch(WatchRequest::End)).unwrap_or_else(|error| {
                    unseen.get_or_insert(error);
                    TrialSamples::default()
                });
            moved(&mut observed, self.shift(*offset, *began));
            for node in observed.nodes.iter_mut().filter(|node| node.name == GENERATOR) {
                // An agent that drives no load is not a generator.
                node.name = match place.generator {
                    true => format!("{GENERATOR} on {}", place.name),
                    false => format!("agent on {}", place.name),
                };
            }
            let clock = machine.agent.ask::<ClockReading>(&Request::Now).ok().map(|now| {
                MachineClock { wall_before: offset.wall_offset, wall_after: now.wall_offset() }
            });
            let here = all.iter().filter(|server| server.place == number);
            let servers = here.map(|server| server.name.clone()).collect();
            let cpus = machine.agent.hello().cpus;
            let name = place.name.clone();
            let generated = Vec::new();
            machines.push(MachineTrial { name, cpus, servers, generated, observed, clock });
        }
        MachinesWatched { machines, kernels: self.machines.kernels.clone(), unseen }
    }

    fn each(&self, ask: WatchRequest) {
        let request = &Request::Watch(ask);
        for machine in &self.machines.each {
            // The end of the trial reports a lost machine.
            machine.agent.ask::<()>(request).ok();
        }
    }

    fn each_with(&self, processes: &[&Process], ask: impl Fn(Vec<u32>) -> WatchRequest) {
        for (place, machine) in self.machines.each.iter().enumerate() {
            let here = |process: &&&Process| process.location().machine == MachineId::Place(place);
            let nodes: Vec<u32> =
                processes.iter().filter(here).filter_map(|process| process.number()).collect();
            machine.agent.ask::<()>(&Request::Watch(ask(nodes))).ok();
        }
    }
}

impl Watch for RemoteWatch<'_> {
    fn watch(&self, processes: &[&Process]) {
        let server = |process: &&Process| {
            let MachineId::Place(place) = process.location().machine else { return None };
            let number = process.number()?;
            Some(Server { place, name: process.name().to_owned(), number })
        };
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        for new in processes.iter().filter_map(server) {
            // A server whose port was in use is launched again under the same name.
            servers.retain(|known| known.name != new.name);
            servers.push(new);
        }
        drop(servers);
        self.each_with(processes, WatchRequest::Servers);
    }

    fn mark_logs(&self, processes: &[&Process]) {
        self.each_with(processes, WatchRequest::MarkLogs);
    }

    fn end_marks(&self) {
        self.each(WatchRequest::EndMarks);
    }

    fn complaints(&self) -> Vec<NodeLog> {
        let machines = self.machines.each.iter();
        let records = machines.filter_map(|one| {
            one.agent.ask::<Vec<NodeLog>>(&Request::Watch(WatchRequest::Complaints)).ok()
        });
        records.flatten().collect()
    }

    fn phase(&self, name: PhaseName) {
        self.each(WatchRequest::Phase(name.text().to_owned()));
    }
}

/// Shifts all times of the samples by `by` seconds.
fn moved(observed: &mut TrialSamples, by: f64) {
    let series = |series: &mut Series| series.at.iter_mut().for_each(|at| *at += by);
    observed.nodes.iter_mut().chain(&mut observed.memory).for_each(series);
    series(&mut observed.machine);
    for phase in &mut observed.phases {
        phase.from += by;
        phase.to += by;
    }
    for strangers in &mut observed.strangers {
        strangers.from += by;
        strangers.to += by;
    }
    for turnover in &mut observed.turnover {
        turnover.from += by;
        turnover.to += by;
    }
}
