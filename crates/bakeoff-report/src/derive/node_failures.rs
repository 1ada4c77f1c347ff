//! How many failed nodes a system survives.
//!
//! Not here: the weight of a difference (`fairness`, `conditions`).

use bakeoff_core::record::{AckLocation, SystemRecord};

/// Returns how many nodes may fail without the system failing; `None` if unknown.
pub(crate) fn survives(is: &SystemRecord) -> Option<u32> {
    if is.already_running {
        return None;
    }
    // With a storage of its own, any one of the system's nodes is enough.
    match storage(is) {
        None => outlives(is),
        Some(storage) => Some(outlives(storage)?.min(is.nodes.saturating_sub(1))),
    }
}

/// Returns how many nodes with data may fail.
fn outlives(of: &SystemRecord) -> Option<u32> {
    match of.acknowledged_in() {
        _ if of.nodes <= 1 => Some(0),
        Some(AckLocation::Memory | AckLocation::PageCache | AckLocation::Disk) => Some(0),
        Some(_) => Some((of.nodes - 1) / 2),
        None => None,
    }
}

/// Returns the part that a system keeps its data in, if it has one.
fn storage(of: &SystemRecord) -> Option<&SystemRecord> {
    of.parts.iter().find(|part| part.role == "storage").map(|part| &part.part)
}
