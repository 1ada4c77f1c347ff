//! A load that several machines share: who drives it, and each generator's part.
//!
//! Not here: orders and shares (`generators`), how the parts look (`text`, `json`).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff_core::places::Purpose;
use bakeoff_core::units::plural;
use bakeoff_engine::works::http::Ready;
use bakeoff_engine::{Drive, Live, Window};

use super::ask::Asked;
use super::generator_parts::GeneratorShown;
use super::result::Part;
use crate::failure::Failure;
use crate::generators::all::{self, Meanwhile};
use crate::generators::error::GeneratorError;
use crate::machines::requests::HttpOrder;
use crate::machines::{self, Machines};
use crate::trial::sampling::Sampling;

/// Most bytes of bodies and of rows that are sent to each generator.
const BODIES_MAX: usize = 32 << 20;
/// Time between two looks at what generators and their machines do.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Whoever drives a load.
pub(super) enum Driver {
    /// This machine.
    Here(Box<Ready>),
    /// The generators of a places file.
    Shared(Box<Shared>),
}

/// Machines that share a load.
pub(super) struct Shared {
    machines: Machines,
}

impl Driver {
    /// Sees that the servers can be reached from here, or reaches the machines that are to load them.
    pub(super) fn new(
        asked: &Asked,
        on: Option<&Path>,
        interrupted: &AtomicBool,
    ) -> Result<Self, Failure> {
        let Some(on) = on else {
            let ready = asked.plan.clone().ready(asked.settings.keep_alive())?;
            return Ok(Self::Here(Box::new(ready)));
        };
        let mut places = machines::read_places(on, Purpose::Load)?;
        places.machines.retain(|machine| machine.generator);
        refuse_unshareable(asked, places.machines.len())?;
        // Files that cannot be read are told before a machine is reached.
        HttpOrder::new(&asked.plan, &asked.settings.drive)?;
        let machines = Machines::reach(places, ("load", None), None, interrupted)?;
        Ok(Self::Shared(Box::new(Shared { machines })))
    }

    /// Returns the machines that share the load, where it is shared.
    pub(super) fn machines(&self) -> Option<&Machines> {
        match self {
            Self::Here(_) => None,
            Self::Shared(shared) => Some(&shared.machines),
        }
    }

    /// Returns the number of threads that drive a load where none was asked for: of each generator, no more than its
    /// CPUs and its clients.
    pub(super) fn threads(&self, drive: &Drive) -> u32 {
        let Some(machines) = self.machines() else { return drive.threads };
        let generators = machines.generators().len().max(1) as u32;
        let cpus = machines.generator_cpus().unwrap_or(drive.threads);
        cpus.min(drive.clients / generators).max(1)
    }

    /// Begins to sample the machines that drive the load.
    pub(super) fn sampling(&self) -> Result<Sampling<'_>, Failure> {
        let mut sampling = Sampling::begin(&std::env::temp_dir(), SAMPLE_EVERY);
        if let Some(machines) = self.machines() {
            sampling.watch_machines(machines)?;
        }
        Ok(sampling)
    }

    /// Drives one part of what was asked.
    pub(super) fn drive(
        &self,
        asked: &Asked,
        drive: &Drive,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&Live),
    ) -> Result<Part, Failure> {
        let shared = match self {
            Self::Here(ready) => {
                let outcome = ready.drive(drive, interrupted, progress)?;
                return Ok(Part {
                    measurement: outcome.measurement,
                    statuses: outcome.answers.statuses,
                    bytes_received: outcome.answers.bytes_received,
                    body_bytes: outcome.answers.body_bytes,
                    ..Part::default()
                });
            }
            Self::Shared(shared) => shared,
        };
        let machines = &shared.machines;
        let order = HttpOrder::new(&asked.plan, drive)?;
        let driven = all::requests(
            machines,
            &order,
            Meanwhile {
                stop: &|| interrupted.load(Ordering::Relaxed),
                progress,
                begun: &mut |start: Instant| {
                    let window = Window::new(start, drive.warmup, drive.stop);
                    drive.moments.iter().for_each(|moments| moments.begins(&window));
                },
            },
        )?;
        let parts = machines.generator_names().into_iter().zip(driven.parts);
        Ok(Part {
            measurement: driven.measurement,
            statuses: driven.answers.statuses,
            bytes_received: driven.answers.bytes_received,
            body_bytes: driven.answers.body_bytes,
            generators: parts.map(|(machine, part)| GeneratorShown { machine, part }).collect(),
            ..Part::default()
        })
    }
}

/// Refuses what generators cannot be given, before any is reached.
fn refuse_unshareable(asked: &Asked, generators: usize) -> Result<(), Failure> {
    let clients = asked.settings.drive.clients;
    if (clients as usize) < generators {
        let of = plural(generators as u64, "generator");
        return Err(Failure::input(
            format!("{} cannot be shared by {of}", plural(clients.into(), "client")),
            format!("give `--clients {generators}` or more"),
        ));
    }
    let bodies: usize = asked.plan.requests.iter().map(|request| request.body.len()).sum();
    let rows: usize = asked.plan.rows.rows.iter().flatten().map(String::len).sum();
    if bodies + rows > BODIES_MAX {
        let max = BODIES_MAX >> 20;
        return Err(Failure::input(
            format!(
                "bodies of {bodies} bytes and rows of {rows} bytes cannot be sent to generators: {max} MiB at most"
            ),
            "give smaller ones, or load from one machine without `--on`",
        ));
    }
    Ok(())
}

impl From<GeneratorError> for Failure {
    fn from(error: GeneratorError) -> Self {
        match error {
            GeneratorError::Interrupted => Self::INTERRUPTED,
            GeneratorError::Agent(error) => error.into(),
            GeneratorError::FewClients { .. } => Self::bad_input(error.to_string()),
            GeneratorError::Engine(_)
            | GeneratorError::Histogram(_)
            | GeneratorError::Access(_) => Self::machine(error.to_string()),
        }
    }
}
