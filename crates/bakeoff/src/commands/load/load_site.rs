//! Connects to the servers before a load begins or, with `--on`, to the machines that generate it.
//!
//! Not here: running the load (`loader`), its requests in the form for agents (`bakeoff_fleet::machines::requests`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::places::Purpose;
use bakeoff_core::units::plural;
use bakeoff_engine::Drive;
use bakeoff_engine::works::http::Ready;

use super::load_request::LoadRequest;
use crate::failure::Failure;
use bakeoff_fleet::machines::fleet::Fleet;
use bakeoff_fleet::machines::requests::RequestsOrder;
use bakeoff_fleet::machines::{self, Machines};

/// Maximum bytes of bodies and rows together that bakeoff sends to each generator.
const BODIES_MAX: usize = 32 << 20;

/// Machines and servers of a load, checked before it begins.
pub(super) struct LoadSite {
    /// Machines that generate the load.
    pub(super) fleet: Fleet,
    /// Plan with resolved and tested servers; `None` with `--on`.
    pub(super) ready: Option<Arc<Ready>>,
}

/// Checks that each server accepts a connection. With `--on`, starts the agents on the generators instead.
pub(super) fn reach(
    request: &LoadRequest,
    on: Option<&Path>,
    interrupted: &AtomicBool,
) -> Result<LoadSite, Failure> {
    let Some(on) = on else {
        let ready = request.plan.clone().ready(request.settings.keep_alive())?;
        return Ok(LoadSite { fleet: Fleet::Local, ready: Some(Arc::new(ready)) });
    };
    let mut places = machines::read_places(on, Purpose::Load)?;
    places.machines.retain(|machine| machine.generator);
    refuse_unshareable(request, places.machines.len())?;
    // Fails on unreadable files before bakeoff connects to a machine.
    RequestsOrder::new(&request.requests())?;
    let machines = Machines::reach(places, ("load", None), None, interrupted)?;
    Ok(LoadSite { fleet: Fleet::Placed(Arc::new(machines)), ready: None })
}

impl LoadSite {
    /// Returns the default number of threads of each generator. With `--on`: its CPUs, but at most its clients.
    pub(super) fn threads(&self, drive: &Drive) -> u32 {
        let Fleet::Placed(machines) = &self.fleet else { return drive.threads };
        let generators = machines.generators().len().max(1) as u32;
        let cpus = machines.generator_cpus().unwrap_or(drive.threads);
        cpus.min(drive.clients / generators).max(1)
    }
}

/// Rejects a load that cannot be split across the generators, before bakeoff connects to one.
fn refuse_unshareable(request: &LoadRequest, generators: usize) -> Result<(), Failure> {
    let clients = request.settings.drive.clients;
    if (clients as usize) < generators {
        let of = plural(generators as u64, "generator");
        return Err(Failure::input(
            format!("{} cannot be split across {of}", plural(clients.into(), "client")),
            format!("give `--clients {generators}` or more"),
        ));
    }
    let bodies: usize = request.plan.requests.iter().map(|request| request.body.len()).sum();
    let rows: usize = request.plan.rows.rows.iter().flatten().map(String::len).sum();
    if bodies + rows > BODIES_MAX {
        let max = BODIES_MAX >> 20;
        return Err(Failure::input(
            format!(
                "bodies of {bodies} bytes and rows of {rows} bytes exceed the {max} MiB that a generator takes"
            ),
            "use smaller ones, or load from one machine without `--on`",
        ));
    }
    Ok(())
}
