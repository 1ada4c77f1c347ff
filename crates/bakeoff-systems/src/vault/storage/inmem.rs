//! Stores data in the memory of one node, without persistence.

use bakeoff_core::record::AckLocation;

use super::{Storage, StorageGuarantees};

pub(super) const STORAGE: Storage = Storage {
    name: "inmem",
    serves_one_node: true,
    guarantees: Some(|_| StorageGuarantees {
        replication: "none: one server's memory".to_owned(),
        acknowledged: "at once: nothing is kept".to_owned(),
        acknowledged_in: Some(AckLocation::Memory),
    }),
    ..Storage::PLAIN
};
