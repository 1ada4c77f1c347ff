//! Removes bakeoff's keys from a system between trials, and from a cluster that bakeoff did not start.
//!
//! Most systems can list their keys and remove all of bakeoff's (`System::clear`). For a system without lists, the
//! keys of a workload are deleted by name. Keys of other studies may then remain, which each trial reports.
//!
//! Not here: the attempts at one node after another (`cluster::clear`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::study::Workload;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::works::keyed::{KeyedState, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, LoadError};

use super::declaration::fitting_clients;
use super::{Access, KvLoad, System, SystemError};

/// Most clients that delete keys by name.
const CLIENTS_MAX: u32 = 16;
/// Time limit of one delete.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes bakeoff's keys at a node. Without lists, removes only the keys of `workloads`.
///
/// # Errors
/// When the node refuses a delete.
pub fn clear<'a>(
    system: &dyn System,
    node: &Access,
    workloads: impl IntoIterator<Item = &'a Workload>,
) -> Result<(), SystemError> {
    if !system.kind().cannot_list() {
        return system.clear(node);
    }
    let stored = |workload: &&Workload| workload.fill || workload.writes();
    let mut workloads = workloads.into_iter().filter(stored);
    workloads.try_for_each(|workload| remove(system, node, workload))
}

/// Deletes each key of a workload once. Ignores interrupts, so that an interrupted run leaves no keys.
fn remove(system: &dyn System, node: &Access, workload: &Workload) -> Result<(), SystemError> {
    let keyed = Arc::new(KeyedState::new(workload, 0, StalenessTracking::NotMeasured));
    let nodes = std::slice::from_ref(node);
    let clients = fitting_clients(system, nodes, CLIENTS_MAX);
    let driven = system.drive(KvLoad {
        nodes,
        keyed: &keyed,
        source: &mut |_| Source::Remove,
        reading: Reading { reads: workload.reads, may_be_stale: false, lists_are_complete: false },
        drive: &Drive::once(workload.keys.count, clients, 1, PATIENCE),
        barrier: None,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_| {},
    });
    let (measurement, _) = driven.map_err(|error| LoadError::from(error).to_string())?;
    match measurement.error_examples().next() {
        None => Ok(()),
        Some((_, example)) => Err(SystemError::answered(node, &example.what)),
    }
}

/// Returns an unchecked audit if the system cannot list its keys.
pub fn unchecked(system: &dyn System) -> Option<Audit> {
    let kind = system.kind();
    kind.cannot_list().then(|| {
        let why = format!(
            "kind `{}` cannot list its keys: only keys of this workload were removed; earlier runs may have left \
             others below `{KEY_PREFIX}`",
            kind.name
        );
        Audit::new("keys of earlier runs", Verdict::NotChecked(why))
    })
}
