//! Removes bakeoff's keys from a system between trials, and from a cluster that runs already.
//!
//! Most systems can list their keys, so each removes all of bakeoff's (`System::clear`). A system that cannot has the
//! keys of a workload deleted by their names. Keys of other studies then stay unknown, and each trial says so.
//!
//! Not here: trying one node after another (`cluster::clear`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bakeoff_core::check::{Audit, Verdict};
use bakeoff_core::study::Workload;
use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_engine::works::keyed::{Keyed, Reading, Source, StalenessTracking};
use bakeoff_engine::{Drive, LoadError};

use super::declaration::fitting_clients;
use super::{Access, KvLoad, System, SystemError};

/// Clients that delete keys by name.
const CLIENTS_MAX: u32 = 16;
/// Time limit of one delete.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes bakeoff's keys at a node: all of them, or those of `workloads` if the system cannot list its keys.
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

/// Deletes each key of a workload once. A run that is interrupted leaves no keys either, so nothing stops it.
fn remove(system: &dyn System, node: &Access, workload: &Workload) -> Result<(), SystemError> {
    let keyed = Arc::new(Keyed::new(workload, 0, StalenessTracking::NotMeasured));
    let nodes = std::slice::from_ref(node);
    let clients = fitting_clients(system, nodes, CLIENTS_MAX);
    let driven = system.drive(KvLoad {
        nodes,
        keyed: &keyed,
        source: &mut |_| Source::Remove,
        reading: Reading { reads: workload.reads, may_be_stale: false, lists_are_complete: false },
        drive: &Drive::once(workload.keys.count, clients, 1, PATIENCE),
        together: None,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_| {},
    });
    let (measurement, _) = driven.map_err(|error| LoadError::from(error).to_string())?;
    match measurement.error_examples().next() {
        None => Ok(()),
        Some((_, example)) => Err(SystemError::answered(node, &example.what)),
    }
}

/// Returns what a trial on a cluster that runs already cannot check, if the system cannot list its keys.
pub fn unchecked(system: &dyn System) -> Option<Audit> {
    let kind = system.kind();
    kind.cannot_list().then(|| {
        let why = format!(
            "kind `{}` cannot list its keys: only keys of this workload were removed, and others below `{KEY_PREFIX}` \
             may be left of earlier runs",
            kind.name
        );
        Audit::new("keys of earlier runs", Verdict::NotChecked(why))
    })
}
