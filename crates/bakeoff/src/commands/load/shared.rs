//! Reaches what a load needs before it begins: its servers from here, or the machines that share it.
//!
//! Not here: driving (`loader`), what generators are given (`machines::requests`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::places::Purpose;
use bakeoff_core::units::plural;
use bakeoff_engine::Drive;
use bakeoff_engine::works::http::Ready;

use super::ask::Asked;
use crate::failure::Failure;
use crate::machines::requests::RequestsOrder;
use crate::machines::{self, Machines};

/// Most bytes of bodies and of rows that are sent to each generator.
const BODIES_MAX: usize = 32 << 20;

/// Who drives a load.
pub(super) enum Reached {
    /// This machine, from which the servers can be reached.
    Here(Arc<Ready>),
    /// The generators of a places file.
    Shared(Box<Machines>),
}

/// Sees that the servers can be reached from here, or reaches the machines that are to load them.
pub(super) fn reach(
    asked: &Asked,
    on: Option<&Path>,
    interrupted: &AtomicBool,
) -> Result<Reached, Failure> {
    let Some(on) = on else {
        let ready = asked.plan.clone().ready(asked.settings.keep_alive())?;
        return Ok(Reached::Here(Arc::new(ready)));
    };
    let mut places = machines::read_places(on, Purpose::Load)?;
    places.machines.retain(|machine| machine.generator);
    refuse_unshareable(asked, places.machines.len())?;
    // Files that cannot be read are told before a machine is reached.
    RequestsOrder::new(&asked.requests())?;
    let machines = Machines::reach(places, ("load", None), None, interrupted)?;
    Ok(Reached::Shared(Box::new(machines)))
}

impl Reached {
    /// Returns the machines that share the load, where it is shared.
    pub(super) fn machines(&self) -> Option<&Machines> {
        match self {
            Self::Here(_) => None,
            Self::Shared(machines) => Some(machines),
        }
    }

    /// Returns the servers as they were reached from here.
    pub(super) fn ready(&self) -> Option<Arc<Ready>> {
        match self {
            Self::Here(ready) => Some(Arc::clone(ready)),
            Self::Shared(_) => None,
        }
    }

    /// Returns the threads of each generator where none were asked for: no more than its CPUs and its clients.
    pub(super) fn threads(&self, drive: &Drive) -> u32 {
        let Some(machines) = self.machines() else { return drive.threads };
        let generators = machines.generators().len().max(1) as u32;
        let cpus = machines.generator_cpus().unwrap_or(drive.threads);
        cpus.min(drive.clients / generators).max(1)
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
