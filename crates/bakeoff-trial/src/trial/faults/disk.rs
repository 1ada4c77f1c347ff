//! Breaks and heals the disks of nodes.
//!
//! The nodes of a system with such a fault run on file systems of bakeoff's own in all its trials and loads, so that
//! the figures before, during and after it compare.
//!
//! Not here: the proof (`bakeoff_host`), the file system (`bakeoff_disk`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::record::FaultHit;
use bakeoff_core::study::DiskFault;
use bakeoff_host::Process;

use crate::cluster::ReadyCluster;

/// Time after the load in which a system may serve again by itself.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
const PROBE_PAUSE: Duration = Duration::from_millis(200);

/// Breaks the disks of nodes at the same time. Returns the proof.
pub(super) fn begin(processes: &[&Process], fault: DiskFault) -> Result<String, String> {
    at_once(processes, |process| process.break_disk(fault))
}

/// Heals the disks of nodes at the same time, and starts nodes again that ended meanwhile. Returns the proof.
pub(super) fn heal(processes: &[&Process]) -> Result<String, String> {
    at_once(processes, |process| {
        let healed = process.heal_disk()?;
        let Some(exit) = process.exit() else { return Ok(healed) };
        process.restart().map_err(|error| error.to_string())?;
        Ok(format!("{healed}; it {exit} meanwhile, and was started again"))
    })
}

/// Starts the nodes of a healed fault again if the system does not serve by itself, as an operator would: some servers
/// give up a disk for good. The proof of the fault mentions it.
pub(super) fn start_if_stuck(
    cluster: &ReadyCluster,
    hits: &mut [FaultHit],
    interrupted: &AtomicBool,
) {
    let Some(hit) = hits.last_mut() else { return };
    let deadline = clock::now() + SERVES_WITHIN;
    while !cluster.all_serve() {
        if interrupted.load(Ordering::Relaxed) {
            return;
        }
        if clock::now() > deadline {
            let hit_ones =
                cluster.processes().filter(|one| hit.nodes.iter().any(|n| n == one.name()));
            // A failed start shows as a system that is not ready.
            hit_ones.for_each(|process| drop(process.restart()));
            let within = SERVES_WITHIN.as_secs();
            hit.proof.push(format!(
                "the system did not serve within {within} s after the load, and {} started again",
                if hit.nodes.len() == 1 { "the node was" } else { "the nodes were" }
            ));
            return;
        }
        std::thread::sleep(PROBE_PAUSE);
    }
}

/// Does something to all processes at the same time. Returns what came of it, or the first failure.
fn at_once(
    processes: &[&Process],
    act: impl Fn(&Process) -> Result<String, String> + Sync,
) -> Result<String, String> {
    let named = |process: &Process| match act(process) {
        Ok(proof) => Ok(format!("`{}`: {proof}", process.name())),
        Err(why) => Err(format!("`{}`: {why}", process.name())),
    };
    let all: Vec<Result<String, String>> = std::thread::scope(|scope| {
        let acting: Vec<_> =
            processes.iter().map(|process| scope.spawn(|| named(process))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        acting.into_iter().map(join).collect()
    });
    Ok(all.into_iter().collect::<Result<Vec<_>, _>>()?.join(", "))
}
