//! Records the machines of a run for its trials.
//!
//! Not here: their samples (`watch`), verdicts about them (the binary's `trial::verdicts`).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff_agent::{AgentError, IncomingFrame, Request, TripTimes};
use bakeoff_core::places::{Reach, ServerSelection};
use bakeoff_core::record::{
    BaselineAppends, Environment, GeneratorPart, MachineBaseline, MachineTrial, NetworkPath,
    RunMachine, RunPod,
};
use serde::de::DeserializeOwned;

use super::baseline::{self, BaselineEvent, BaselineOrder};
use super::describe::DATA;
use super::kubernetes::own_limits;
use super::order::{Order, answers, duty, open};
use super::{Machine, Machines};
use crate::error::FleetError;

impl Machines {
    /// Describes each machine for the record, with the speed of the disk that will hold its data.
    ///
    /// # Errors
    /// When a machine is lost, or its disk cannot be used.
    pub fn describe(&self, threads: u32) -> Result<Vec<RunMachine>, FleetError> {
        let each = self.each.iter().zip(&self.places.machines).enumerate();
        let described = each.map(|(number, (machine, place))| {
            let order = Order::Environment { threads, dir: machine.folder.clone() };
            let environment: Environment = duty(&machine.agent, &order)?;
            let offset = machine.agent.offset()?;
            let pod = self.places.kubernetes.as_ref().zip(place.node.clone());
            let pod = pod.map(|(wanted, node)| -> Result<RunPod, FleetError> {
                let read = duty(&machine.agent, &Order::OwnLimits)?;
                Ok(RunPod { node, asked: own_limits(wanted, place), read })
            });
            Ok(RunMachine {
                pod: pod.transpose()?,
                name: place.name.clone(),
                address: place.address.to_string(),
                servers: place.servers != ServerSelection::Nothing,
                generator: place.generator,
                cpus: place.cpus.clone(),
                // A namespace keeps its data in the run's folder. Records name no path of this machine.
                data: (place.reach != Reach::Namespace)
                    .then(|| place.data.clone().unwrap_or_else(|| DATA.to_owned())),
                clock_error_us: offset.error.as_secs_f64() * 1e6,
                tunnel: self.tunnels.leads_to(self.home_of(number)),
                same_kernel_as: self
                    .kernels
                    .get(number)
                    .filter(|&&first| first != number)
                    .map(|&first| self.places.machines[first].name.clone()),
                namespace: place.reach == Reach::Namespace,
                relayed_to: place.relayed_to().map(|address| address.to_string()),
                environment: Box::new(environment),
            })
        });
        described.collect()
    }

    /// Measures the disk and loopback of all machines at once, in the folders that data will use. Adds the result to
    /// each machine's description, and returns the rates of the fastest disk.
    ///
    /// # Errors
    /// When a machine is lost, or the user interrupts.
    pub(crate) fn measure_baselines(
        &self,
        order: &BaselineOrder,
        described: &mut [RunMachine],
        report: &mut dyn FnMut(BaselineEvent<'_>),
        interrupted: &AtomicBool,
    ) -> Result<Option<MachineBaseline>, FleetError> {
        report(BaselineEvent::Started { machines: self.each.len() });
        let measured: Vec<usize> = self.with_own_hardware();
        let orders = measured.iter().map(|&place| {
            let holds_data = self.places.machines[place].is_home();
            Order::Baseline(order.at(&self.each[place].folder, holds_data))
        });
        let each: Vec<&Machine> = measured.iter().map(|&place| &self.each[place]).collect();
        let mut first: Option<MachineBaseline> = None;
        let mut disks = Vec::new();
        let answers = ask_each::<MachineBaseline>(&each, orders, interrupted)?;
        for (&place, answer) in measured.iter().zip(answers) {
            match answer {
                Ok(baseline) => {
                    described[place].environment.machine_baseline = Some(baseline.clone());
                    if self.places.machines[place].is_home() {
                        disks.push(baseline.appends.clone());
                        first.get_or_insert(baseline);
                    }
                }
                Err(failure) => report(BaselineEvent::Failed { failure: &failure }),
            }
        }
        // Loopback says nothing about the path between two machines.
        let appends = baseline::quickest(&disks);
        Ok(first.map(|first| MachineBaseline { appends, round_trips: Vec::new(), ..first }))
    }

    /// Returns the indices of the machines whose hardware no earlier one has. Namespaces all have this machine's.
    fn with_own_hardware(&self) -> Vec<usize> {
        match self.places.can_be_cut() {
            true => vec![0],
            false => (0..self.each.len()).collect(),
        }
    }

    /// Measures the servers' disks again between two rounds, and returns the rates of the fastest.
    ///
    /// # Errors
    /// When a machine is lost, or the user interrupts.
    pub(crate) fn measure_disks(
        &self,
        first: Option<&MachineBaseline>,
        interrupted: &AtomicBool,
    ) -> Result<Vec<BaselineAppends>, FleetError> {
        let Some(first) = first else { return Ok(Vec::new()) };
        let takes = self.with_own_hardware().into_iter();
        let takes: Vec<&Machine> = takes
            .filter(|&place| self.places.machines[place].is_home())
            .map(|place| &self.each[place])
            .collect();
        let commits = takes.iter().map(|machine| baseline::commits_again(first, &machine.folder));
        let Some(commits) = commits.collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let measured = ask_each(&takes, commits.into_iter().map(Order::Appends), interrupted)?;
        let disks: Vec<Vec<BaselineAppends>> = measured.into_iter().flatten().collect();
        Ok(baseline::quickest(&disks))
    }

    /// Measures the network from each machine that will connect to a server to that server's machine, one path at a
    /// time.
    ///
    /// # Errors
    /// When a machine is lost, or one cannot reach another.
    pub(crate) fn measure_network(&self) -> Result<Vec<NetworkPath>, FleetError> {
        let mut paths = Vec::new();
        let machines = || {
            let all = self.each.iter().zip(&self.places.machines);
            all.filter(|(_, place)| place.is_home() || place.generator)
        };
        for (server, place) in machines().filter(|(_, place)| place.is_home()) {
            let listens = place.relayed_to().unwrap_or(place.address);
            let echo = server.agent.open(&Request::Echo { address: listens })?;
            let mut address: SocketAddr = loop {
                match echo.next()? {
                    IncomingFrame::Note(note) => break echo.read(&note)?,
                    IncomingFrame::Refusal(refusal) => return Err(echo.refused(refusal).into()),
                    _ => {}
                }
            };
            self.open(place.address, vec![address.port()]).map_err(FleetError::machine)?;
            address.set_ip(place.address);
            for (machine, from) in machines().filter(|(_, from)| from.name != place.name) {
                let answer: TripTimes = machine.agent.ask(&Request::Trips { address })?;
                paths.push(NetworkPath {
                    from: from.name.clone(),
                    to: place.name.clone(),
                    median_us: answer.median_us,
                    shortest_us: answer.shortest_us,
                    bytes_per_second: answer.bytes_per_second,
                });
            }
            echo.end()?;
            echo.answer::<()>()?;
        }
        Ok(paths)
    }
}

/// Sends each machine an order and returns the answers in order, including refusals.
fn ask_each<T: DeserializeOwned>(
    machines: &[&Machine],
    orders: impl Iterator<Item = Order>,
    interrupted: &AtomicBool,
) -> Result<Vec<Result<T, FleetError>>, FleetError> {
    let open = open(machines.iter().map(|machine| &*machine.agent), orders)?;
    let mut all = Vec::new();
    let answered: Result<(), AgentError> = answers(&open, interrupted, &|| Ok(()), &mut |answer| {
        all.push(answer.map_err(FleetError::from));
        Ok(())
    });
    match interrupted.load(Ordering::Relaxed) {
        true => Err(FleetError::INTERRUPTED),
        false => answered.map(|()| all).map_err(FleetError::from),
    }
}

/// Records each generator's part of every stage with its machine.
pub(super) fn note_parts(
    each: &mut [MachineTrial],
    machines: &Machines,
    stages: Vec<Vec<GeneratorPart>>,
) {
    let places = machines.places.generators();
    for parts in stages {
        for (&place, part) in places.iter().zip(parts) {
            if let Some(machine) = each.get_mut(place) {
                machine.generated.push(part);
            }
        }
    }
}
