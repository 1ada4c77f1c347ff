//! What a trial's record says of the machines of its run.
//!
//! Not here: their samples (`watch`), what is judged by them (`trial::verdicts`).

use std::net::SocketAddr;

use bakeoff_agent::{Incoming, Request, TripsTold};
use bakeoff_core::places::Takes;
use bakeoff_core::record::{
    Environment, GeneratorPart, MachineTrial, NetworkPath, PodLimits, RunMachine, RunPod,
};
use bakeoff_host::OwnLimits;

use super::Machines;
use crate::failure::Failure;
use crate::generators::order::{Order, duty};

impl Machines {
    /// Describes each machine for the record, with the speed of the disk that will hold its data.
    ///
    /// # Errors
    /// When one is lost, or its disk cannot be used.
    pub(crate) fn describe(&self, threads: u32) -> Result<Vec<RunMachine>, Failure> {
        let each = self.each.iter().zip(&self.places.machines).enumerate();
        let described = each.map(|(number, (machine, place))| {
            let order = Order::Environment { threads, dir: machine.folder.clone() };
            let environment: Environment = duty(&machine.agent, &order)?;
            let offset = machine.agent.offset()?;
            let pod = self.places.kubernetes.as_ref().zip(place.node.clone());
            let pod = pod.map(|(wanted, node)| -> Result<RunPod, Failure> {
                let own: OwnLimits = duty(&machine.agent, &Order::OwnLimits)?;
                let asked = PodLimits { cpu: wanted.cpus(), memory_bytes: wanted.memory_bytes() };
                let read = PodLimits { cpu: own.cpu, memory_bytes: own.memory_bytes };
                Ok(RunPod { node, asked, read })
            });
            Ok(RunMachine {
                pod: pod.transpose()?,
                name: place.name.clone(),
                address: place.address.to_string(),
                servers: place.servers != Takes::Nothing,
                generator: place.generator,
                clock_error_us: offset.error.as_secs_f64() * 1e6,
                tunnel: self.tunnels.leads_to(number),
                environment: Box::new(environment),
            })
        });
        described.collect()
    }

    /// Measures the network from each machine that will talk to a server to that server's machine, one path at a time.
    ///
    /// # Errors
    /// When a machine is lost, or one cannot reach another.
    pub(crate) fn measure_network(&self) -> Result<Vec<NetworkPath>, Failure> {
        let mut paths = Vec::new();
        let machines = || self.each.iter().zip(&self.places.machines);
        for (server, place) in machines().filter(|(_, place)| place.servers != Takes::Nothing) {
            let echo = server.agent.open(&Request::Echo { address: place.address })?;
            let address: SocketAddr = loop {
                match echo.next()? {
                    Incoming::Note(note) => break echo.read(note)?,
                    Incoming::Refusal(refusal) => return Err(echo.refused(refusal).into()),
                    _ => {}
                }
            };
            for (machine, from) in machines().filter(|(_, from)| from.name != place.name) {
                let told: TripsTold = machine.agent.ask(&Request::Trips { address })?;
                paths.push(NetworkPath {
                    from: from.name.clone(),
                    to: place.name.clone(),
                    median_us: told.median_us,
                    shortest_us: told.shortest_us,
                    bytes_per_second: told.bytes_per_second,
                });
            }
            echo.end()?;
            echo.answer::<()>()?;
        }
        Ok(paths)
    }
}

/// Notes each generator's parts, stage by stage, with the machine that it is.
pub(crate) fn note_parts(
    each: &mut [MachineTrial],
    machines: Option<&Machines>,
    stages: Vec<Vec<GeneratorPart>>,
) {
    let Some(machines) = machines else { return };
    let places = machines.places.generators();
    for parts in stages {
        for (&place, part) in places.iter().zip(parts) {
            if let Some(machine) = each.get_mut(place) {
                machine.generated.push(part);
            }
        }
    }
}
