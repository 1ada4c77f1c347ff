//! Observes whether acknowledged writes are synced, of a system that claims disks.
//!
//! A few writes follow the load, one at a time, while the servers are traced. No figure includes them: tracing slows a
//! server down. One client waits for each answer, so no two writes can share a sync. The last audits read their keys
//! back too.
//!
//! Not here: tracing (`bakeoff_host::syncs`), what counts prove (`bakeoff_core::record::durability`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_core::plan::Stage;
use bakeoff_core::record::durability::Durability;
use bakeoff_core::record::{Acknowledged, Guarantees};
use bakeoff_core::study::Stop;
use bakeoff_core::workload::mix64;

use super::crash::{self, Again, Writes};
use crate::cluster::ReadyCluster;

/// Writes of a probe, and the fewest acknowledged ones that it judges.
const WRITES: u64 = 50;
const ACKNOWLEDGED_MIN: u64 = 10;
/// The longest that all of them may take.
const WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Observes the durability of a loaded cluster; `None` if it claims no disk.
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

/// Makes a few writes while syncs are counted.
fn count(
    of: &Writes<'_>,
    cluster: &ReadyCluster,
    claim: Acknowledged,
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

/// Makes the writes; returns how many were acknowledged.
fn write(of: &Writes<'_>, clients: u32, interrupted: &AtomicBool) -> Result<u64, String> {
    let workload =
        &crash::puts_again(of.workload).ok_or("its workload has no puts that can be made again")?;
    let seed = mix64(of.seed ^ 0x7379_6e63);
    let enough = &AtomicBool::new(false);
    let stage = Stage { clients, stop: Stop::Operations(WRITES) };
    let writes = Again { workload, stage, in_flight: 1, seed };
    let began = clock::now();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| of.make(&writes, enough, &mut |_| {}));
        while !writing.is_finished() {
            if interrupted.load(Ordering::Relaxed) || began.elapsed() > WITHIN {
                enough.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let made = writing.join().map_err(|_| "the writes broke off".to_owned())?;
        made.map_err(|error| error.to_string())
    })
}
