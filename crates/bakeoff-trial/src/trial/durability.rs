//! Observes whether a system that claims disks syncs acknowledged writes.
//!
//! A few writes follow the load, one at a time, with the servers traced. They count in no figure, because tracing slows
//! servers down. One client waits for each answer, so no two writes share a sync. The last audits read these keys back
//! too.
//!
//! Not here: tracing (`bakeoff_host::syncs`), judging the counts (`bakeoff_core::record::durability`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::plan::Stage;
use bakeoff_core::record::durability::Durability;
use bakeoff_core::record::{AckLocation, Guarantees};
use bakeoff_core::study::Stop;
use bakeoff_core::workload::mix64;

use super::crash::{self, RepeatedWrites, Writes};
use crate::cluster::ReadyCluster;

/// Writes of a probe.
const WRITES: u64 = 50;
/// Minimum acknowledged writes to judge a probe.
const ACKNOWLEDGED_MIN: u64 = 10;
/// Maximum time of all writes.
const WITHIN: Duration = Duration::from_secs(15);
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// Observes the durability of a loaded cluster. `None` if the system claims no disk.
pub(crate) fn observe(
    of: &Writes<'_>,
    cluster: &ReadyCluster,
    guarantees: &Guarantees,
    interrupted: &AtomicBool,
) -> Option<Durability> {
    let claim = guarantees.acknowledged_in.filter(|place| place.is_on_disk())?;
    if cluster.processes().next().is_none() {
        return Some(Durability::not_checked("bakeoff did not start these servers"));
    }
    let counted = count(of, cluster, claim, interrupted).unwrap_or_else(Durability::not_checked);
    Some(counted.with_unsafe_settings(cluster.unsafe_settings()))
}

/// Counts syncs during a few writes.
fn count(
    of: &Writes<'_>,
    cluster: &ReadyCluster,
    claim: AckLocation,
    interrupted: &AtomicBool,
) -> Result<Durability, String> {
    let clients = of.generators.count();
    let counting = cluster.count_syncs()?;
    let written = write(of, clients, interrupted);
    let counted = counting.end();
    let writes = written?;
    if writes < ACKNOWLEDGED_MIN {
        return Err(format!(
            "only {writes} of {WRITES} writes were acknowledged while syncs were counted"
        ));
    }
    let judged = Durability::judged(claim, writes, clients, counted.components);
    match counted.incomplete {
        Some(why) if judged.verdict.failed() => Err(why),
        _ => Ok(judged),
    }
}

/// Runs the writes, and returns the number of acknowledged ones.
fn write(of: &Writes<'_>, clients: u32, interrupted: &AtomicBool) -> Result<u64, String> {
    let workload =
        &crash::puts_again(of.workload).ok_or("its workload has no puts that can be repeated")?;
    let seed = mix64(of.seed ^ 0x7379_6e63);
    let enough = &AtomicBool::new(false);
    let stage = Stage { clients, stop: Stop::Operations(WRITES) };
    let writes = RepeatedWrites { workload, stage, in_flight: 1, seed };
    let began = clock::now();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| of.make(&writes, enough, &mut |_| {}));
        while !writing.is_finished() {
            if interrupted.load(Ordering::Relaxed) || began.elapsed() > WITHIN {
                enough.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(CHECK_EVERY);
        }
        let made = writing.join().map_err(|_| "the writes ended unexpectedly".to_owned())?;
        made.map_err(|error| error.to_string())
    })
}
