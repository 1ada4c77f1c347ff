//! Checks before the first trial that bakeoff may write to a system that already runs.
//!
//! Without this check, each trial would fail in the same way and report keys that may be left. The check writes and
//! removes one key with the study's credentials, over the sessions of a load.
//!
//! Not here: whether clients may read (each system's `may_use`), cleaning up after trials (`bakeoff_systems::cleanup`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::study::{Study, Workload};
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::works::keyed::{KeyedState, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, LoadError};
use bakeoff_systems::{KvLoad, cleanup};

use crate::cluster;
use crate::cluster::contenders::PreparedSystem;
use bakeoff_fleet::error::FleetError;

/// Timeout of writing one key.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes and removes one key on each system that already runs and stores keys.
///
/// # Errors
/// Fails if a write or removal is refused. The message names the operation, the system and its answer.
pub(crate) fn check(
    study: &Study,
    contenders: &[PreparedSystem<'_>],
    interrupted: &AtomicBool,
) -> Result<(), FleetError> {
    let writes = |workload: &&Workload| workload.fill || workload.writes();
    let Some(workload) = study.workloads.iter().find(writes) else { return Ok(()) };
    let attached = contenders.iter().filter(|contender| {
        !contender.study_system.is_started() && !contender.system.kind().takes_requests()
    });
    for contender in attached {
        check_one(contender, workload, interrupted)?;
    }
    Ok(())
}

fn check_one(
    contender: &PreparedSystem<'_>,
    workload: &Workload,
    interrupted: &AtomicBool,
) -> Result<(), FleetError> {
    let PreparedSystem { study_system, system, .. } = *contender;
    let cluster = cluster::attach(system, study_system)?.ready(interrupted)?;
    let first = cluster.first();
    let refused =
        |what: &str, why: String| FleetError::unreachable(refusal(&study_system.name, what, &why));
    let mut one = workload.clone();
    one.keys.count = 1;
    let clear = || {
        let cleared = cleanup::clear(system, first, [&one]);
        cleared.map_err(|error| refused("delete", error.to_string()))
    };
    clear()?;
    let keyed = Arc::new(KeyedState::new(&one, 0, StalenessTracking::NotMeasured));
    let prepared = system.prepare(first, &cluster.nodes, &one, &keyed);
    prepared.map_err(|error| refused("write", error.to_string()))?;
    let (measurement, _) = system
        .drive(KvLoad {
            nodes: &cluster.nodes,
            keyed: &keyed,
            source: &mut |_| Source::Fill,
            reading: Reading { reads: one.reads, may_be_stale: false, lists_are_complete: false },
            drive: &Drive::once(1, 1, 1, PATIENCE),
            barrier: None,
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

/// Words in server messages about missing rights.
const OF_RIGHTS: [&str; 8] =
    ["permission", "denied", "forbidden", "noperm", "authoriz", "authenticat", "acl", "credential"];

/// Returns the message for a refused operation. The hint is about rights if the server's message is, else about the
/// cluster.
fn refusal(system: &str, what: &str, why: &str) -> String {
    let words = why.to_lowercase();
    if OF_RIGHTS.iter().any(|word| words.contains(word)) {
        return format!(
            "system `{system}`: the study's user may not {what} below `{KEY_PREFIX}`: {why}\nhint: grant it the rights to \
             read, write and delete there, or use other credentials"
        );
    }
    format!(
        "system `{system}` did not {what} a key below `{KEY_PREFIX}`: {why}\nhint: fix the cluster and run again; no \
         trial began"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_missing_rights_from_a_read_only_cluster() {
        for why in
            ["NOPERM this user has no permissions", "403: ACL not found", "Permission denied"]
        {
            assert!(
                refusal("etcd", "write", why).contains("the study's user may not write"),
                "{why}"
            );
        }
        let full = refusal("etcd", "write", "etcdserver: mvcc: database space exceeded");
        assert!(full.starts_with("system `etcd` did not write a key below `bakeoff/`"), "{full}");
        assert!(!full.contains("right"), "{full}");
    }
}
