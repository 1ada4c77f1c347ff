//! Stores data in files of one node.

use bakeoff_core::record::AckLocation;
use serde_json::json;

use super::{Storage, StorageGuarantees};

pub(super) const STORAGE: Storage = Storage {
    name: "file",
    serves_one_node: true,
    config: |node, _| json!({"path": node.dir.join("data")}),
    guarantees: Some(|_| StorageGuarantees {
        replication: "none: one server, a file for each entry".to_owned(),
        acknowledged: "after the file was written, which is not synced".to_owned(),
        acknowledged_in: Some(AckLocation::PageCache),
    }),
    ..Storage::PLAIN
};
