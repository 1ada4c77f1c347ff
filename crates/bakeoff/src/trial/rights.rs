//! Finds out before the first trial whether bakeoff may write on a system that runs already.
//!
//! Without the right each trial would fail alike, and say that keys may be left there. One key is written and removed,
//! with the study's credentials and over the sessions of a load.
//!
//! Not here: whether clients may read there (each system's `may_use`), the trials' own clean-up (`cleanup`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::study::{Study, Workload};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::works::keyed::{Keyed, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, LoadError};

use super::cleanup;
use crate::cluster;
use crate::cluster::contenders::Contender;
use crate::failure::Failure;
use crate::systems::KvLoad;

/// How long writing one key may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes and removes one key on each of these systems that runs already and stores keys.
///
/// # Errors
/// When one of the two is refused: what was refused, by whom, and in whose words.
pub(crate) fn check(
    study: &Study,
    contenders: &[Contender<'_>],
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let writes = |workload: &&Workload| workload.fill || workload.writes();
    let Some(workload) = study.workloads.iter().find(writes) else { return Ok(()) };
    let attached = contenders.iter().filter(|contender| {
        !contender.asked.is_started() && !contender.system.kind().takes_requests()
    });
    for contender in attached {
        check_one(contender, workload, interrupted)?;
    }
    Ok(())
}

fn check_one(
    contender: &Contender<'_>,
    workload: &Workload,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let Contender { asked, system, .. } = *contender;
    let cluster = cluster::attach(system, asked)?.ready(interrupted)?;
    let first = cluster.first();
    let refused = |what: &str, why: String| {
        Failure::unreachable(format!(
            "system `{}`: the study's user may not {what} below `{KEY_PREFIX}`: {why}\nhint: give it the right to read, \
             write and delete there, or other credentials",
            asked.name
        ))
    };
    let mut one = workload.clone();
    one.keys.count = 1;
    let clear = || {
        let cleared = cleanup::clear(system, first, [&one]);
        cleared.map_err(|error| refused("delete", error.to_string()))
    };
    clear()?;
    let keyed = Arc::new(Keyed::new(&one, 0, StalenessTracking::NotMeasured));
    let prepared = system.prepare(first, &cluster.nodes, &one, &keyed);
    prepared.map_err(|error| refused("write", error.to_string()))?;
    let (measurement, _) = system
        .drive(KvLoad {
            nodes: &cluster.nodes,
            keyed: &keyed,
            source: &mut |_| Source::Fill,
            reading: Reading { reads: one.reads, may_be_stale: false, lists_are_complete: false },
            drive: &Drive::once(1, 1, 1, PATIENCE),
            together: None,
            interrupted,
            progress: &mut |_| {},
        })
        .map_err(LoadError::from)?;
    let failed = measurement.error_examples().next().map(|(_, example)| example.what.clone());
    let written = match failed {
        Some(why) => Err(refused("write", why)),
        None => Ok(()),
    };
    let cleared = clear();
    written.and(cleared)
}
