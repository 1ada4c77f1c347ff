//! Texts for the place of a write when it is acknowledged.
//!
//! Not here: the weight of a difference (`fairness`), the disk's limit (`machine_baseline`).

use bakeoff_core::record::Acknowledged;

/// Returns the place of acknowledged writes, to follow `acknowledges a write`.
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

/// Returns the place as a noun, to follow `claims`.
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

/// Ranks the place of acknowledged writes by what it survives: 0 nothing, 1 the end of the program, 2 a power cut.
pub(crate) fn medium(place: Acknowledged) -> u8 {
    match place {
        Acknowledged::Memory | Acknowledged::MajorityMemory => 0,
        Acknowledged::PageCache | Acknowledged::MajorityPageCaches => 1,
        Acknowledged::Disk | Acknowledged::MajorityDisks => 2,
    }
}

/// Returns true if a majority of the nodes has a write when it is acknowledged.
pub(crate) fn of_majority(place: Acknowledged) -> bool {
    match place {
        Acknowledged::Memory | Acknowledged::PageCache | Acknowledged::Disk => false,
        Acknowledged::MajorityMemory
        | Acknowledged::MajorityPageCaches
        | Acknowledged::MajorityDisks => true,
    }
}
