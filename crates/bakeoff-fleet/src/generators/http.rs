//! Drives a generator's share of requests that come from no study (`bakeoff load`).
//!
//! Not here: the requests (`machines::requests`), those of a study's workload (`bakeoff_systems`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::study::Stop;
use bakeoff_engine::start_barrier::{StartBarrier, StartGate};
use bakeoff_engine::{Connections, Drive, LoadError, LoadProgress, open_files};

use crate::machines::requests::Requests;

/// Drives the share given by `drive`, from the time that `gate` returns.
pub(super) fn drive(
    requests: &Requests,
    drive: Drive,
    gate: StartGate,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<Measurement, LoadError> {
    let Requests { plan, ready, spin, ramp, seconds } = requests;
    let (share, keep_alive) = (drive.share, drive.connections == Connections::Kept);
    let is_open = drive.arrivals.is_some();
    // The schedule assigns an open load's requests. A closed load that ends by a count needs its own count.
    let own_operations = match drive.stop {
        Stop::Operations(count) if !is_open => Some(share.count(count)),
        _ => None,
    };
    let drive = Drive {
        own_operations,
        arrivals: drive.arrivals.map(|(rate, spacing)| (ramp.clone().unwrap_or(rate), spacing)),
        spin: *spin,
        seconds: *seconds,
        ..drive
    };
    let clients = share.count(drive.clients.into()) as u32;
    open_files::raise_for(plan.connections(clients, is_open))?;
    let ready = match ready {
        Some(ready) => Arc::clone(ready),
        None => Arc::new(plan.clone().ready(keep_alive)?),
    };
    let barrier = StartBarrier::gated(1, gate);
    Ok(ready.drive_together(&drive, Some(&barrier), stop, progress)?.measurement)
}
