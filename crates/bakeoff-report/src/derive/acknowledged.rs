//! Words on where a write is when it is acknowledged.
//!
//! Not here: how that weighs (`fairness`), the disk's limit (`machine_baseline`).

use bakeoff_core::record::Acknowledged;

/// Returns where a write is when it is acknowledged, to stand behind `acknowledges a write`.
pub(crate) fn acknowledged_words(place: Acknowledged) -> &'static str {
    match place {
        Acknowledged::Memory => "in one node's memory",
        Acknowledged::PageCache => "in the page cache of one node",
        Acknowledged::Disk => "on one node's disk",
        Acknowledged::MajorityMemory => "in the memory of a majority",
        Acknowledged::MajorityPageCaches => "in the page caches of a majority",
        Acknowledged::MajorityDisks => "on a majority's disks",
    }
}

/// Returns a place as a noun, to stand behind `claims`.
pub(crate) fn claim_words(place: Acknowledged) -> &'static str {
    match place {
        Acknowledged::Memory => "one node's memory",
        Acknowledged::PageCache => "the page cache of one node",
        Acknowledged::Disk => "one node's disk",
        Acknowledged::MajorityMemory => "the memory of a majority",
        Acknowledged::MajorityPageCaches => "the page caches of a majority",
        Acknowledged::MajorityDisks => "a majority's disks",
    }
}
