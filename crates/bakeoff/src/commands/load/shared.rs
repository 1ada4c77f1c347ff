//! Reaches what a load needs before it begins: its servers from here, or the machines that share it.
//!
//! Not here: driving (`loader`), what generators are given (`bakeoff_fleet::machines::requests`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::places::Purpose;
use bakeoff_core::units::plural;
use bakeoff_engine::Drive;
use bakeoff_engine::works::http::Ready;

use super::ask::Asked;
use crate::failure::Failure;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::requests::RequestsOrder;
use bakeoff_fleet::machines::{self, Machines};

/// Most bytes of bodies and of rows that are sent to each generator.
const BODIES_MAX: usize = 32 << 20;

/// Holds what a load needs before it begins.
pub(super) struct Reached {
    /// The machines that drive it.
    pub(super) fleet: Fleet,
    /// The servers as they are reached from here, where this machine drives it.
    pub(super) ready: Option<Arc<Ready>>,
}

/// Sees that the servers can be reached from here, or reaches the machines that are to load them.
pub(super) fn reach(
    asked: &Asked,
    on: Option<&Path>,
    interrupted: &AtomicBool,
) -> Result<Reached, Failure> {
    let Some(on) = on else {
        let ready = asked.plan.clone().ready(asked.settings.keep_alive())?;
        return Ok(Reached { fleet: Fleet::Local, ready: Some(Arc::new(ready)) });
    };
    let mut places = machines::read_places(on, Purpose::Load)?;
    places.machines.retain(|machine| machine.generator);
    refuse_unshareable(asked, places.machines.len())?;
    // Reports files that cannot be read before a machine is reached.
    RequestsOrder::new(&asked.requests())?;
    let machines = Machines::reach(places, ("load", None), None, interrupted)?;
    Ok(Reached { fleet: Fleet::Placed(Arc::new(machines)), ready: None })
}

impl Reached {
    /// Returns the threads of each generator where none were asked for: no more than its CPUs and its clients.
    pub(super) fn threads(&self, drive: &Drive) -> u32 {
        let Fleet::Placed(machines) = &self.fleet else { return drive.threads };
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
