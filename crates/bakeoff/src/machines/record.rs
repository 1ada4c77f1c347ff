//! What a trial's record says of the machines of its run.
//!
//! Not here: their samples (`watch`), what is judged by them (`trial::verdicts`).

use bakeoff_agent::Request;
use bakeoff_core::places::Takes;
use bakeoff_core::record::{Environment, GeneratorPart, MachineTrial, RunMachine};

use super::Machines;
use crate::failure::Failure;
use crate::generators::order::Order;

impl Machines {
    /// Describes each machine for the record, with the speed of the disk that will hold its data.
    ///
    /// # Errors
    /// When one is lost, or its disk cannot be used.
    pub(crate) fn describe(&self, threads: u32) -> Result<Vec<RunMachine>, Failure> {
        let described = self.each.iter().zip(&self.places.machines).map(|(machine, place)| {
            let order = Order::Describe { threads, dir: machine.folder.clone() };
            let what = serde_json::to_value(&order).unwrap_or_default();
            let environment: Environment = machine.agent.ask(&Request::Duty { what })?;
            let offset = machine.agent.offset()?;
            Ok(RunMachine {
                name: place.name.clone(),
                address: place.address.to_string(),
                servers: place.servers != Takes::Nothing,
                generator: place.generator,
                clock_error_us: offset.error.as_secs_f64() * 1e6,
                environment: Box::new(environment),
            })
        });
        described.collect()
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
