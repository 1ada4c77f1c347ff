//! Texts for the place of a write when it is acknowledged.
//!
//! Not here: the weight of a difference (`fairness`), the disk's limit (`machine_baseline`).

use bakeoff_core::record::AckLocation;

/// Returns the place of acknowledged writes, to follow `acknowledges a write`.
pub(crate) fn acknowledged_words(place: AckLocation) -> &'static str {
    match place {
        AckLocation::Memory => "in one node's memory",
        AckLocation::PageCache => "in the page cache of one node",
        AckLocation::Disk => "on one node's disk",
        AckLocation::MajorityMemory => "in the memory of a majority",
        AckLocation::MajorityPageCaches => "in the page caches of a majority",
        AckLocation::MajorityDisks => "on a majority's disks",
    }
}

/// Returns the place as a noun, to follow `claims`.
pub(crate) fn claim_words(place: AckLocation) -> &'static str {
    match place {
        AckLocation::Memory => "one node's memory",
        AckLocation::PageCache => "the page cache of one node",
        AckLocation::Disk => "one node's disk",
        AckLocation::MajorityMemory => "the memory of a majority",
        AckLocation::MajorityPageCaches => "the page caches of a majority",
        AckLocation::MajorityDisks => "a majority's disks",
    }
}

/// Ranks the place of acknowledged writes by what it survives: 0 nothing, 1 the end of the program, 2 a power cut.
pub(crate) fn medium(place: AckLocation) -> u8 {
    match place {
        AckLocation::Memory | AckLocation::MajorityMemory => 0,
        AckLocation::PageCache | AckLocation::MajorityPageCaches => 1,
        AckLocation::Disk | AckLocation::MajorityDisks => 2,
    }
}

/// Returns true if a majority of the nodes has a write when it is acknowledged.
pub(crate) fn of_majority(place: AckLocation) -> bool {
    match place {
        AckLocation::Memory | AckLocation::PageCache | AckLocation::Disk => false,
        AckLocation::MajorityMemory
        | AckLocation::MajorityPageCaches
        | AckLocation::MajorityDisks => true,
    }
}
