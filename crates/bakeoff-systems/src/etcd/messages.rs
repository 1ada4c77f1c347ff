//! Adds bakeoff's own keys and tokens to the messages of etcd's v3 API.
//!
//! Not here: the messages themselves (`bakeoff_wire::etcd`).

use bakeoff_core::workload::KEY_PREFIX;
pub(super) use bakeoff_wire::etcd::*;
use bakeoff_wire::protobuf::put_bytes;

use crate::ClientToken;

/// Returns the metadata with a client's token.
pub(super) fn metadata(token: &ClientToken) -> (&str, &str) {
    (TOKEN, &token.0)
}

/// Writes a `RangeRequest` for all names with a prefix.
pub(super) fn write_list(prefix: &[u8], serializable: bool, out: &mut Vec<u8>) {
    let end = &prefix_end(prefix);
    let query =
        RangeQuery { key: prefix, end, serializable, keys_only: true, ..Default::default() };
    write_range(&query, out);
}

/// Writes a `RangeRequest` for up to `limit` keys with bakeoff's prefix, starting at `key`. etcd returns keys in order.
pub(super) fn write_scan(key: &[u8], limit: u32, serializable: bool, out: &mut Vec<u8>) {
    let end = match key.starts_with(KEY_PREFIX.as_bytes()) {
        true => prefix_end(KEY_PREFIX.as_bytes()),
        false => TO_THE_LAST_KEY.to_vec(),
    };
    let (end, limit) = (&*end, limit.into());
    write_range(&RangeQuery { key, end, limit, serializable, ..Default::default() }, out);
}

/// Writes a `DeleteRangeRequest` for all of bakeoff's keys: key 1, range end 2.
pub(super) fn write_delete_all(out: &mut Vec<u8>) {
    put_bytes(out, 1, KEY_PREFIX.as_bytes());
    put_bytes(out, 2, &prefix_end(KEY_PREFIX.as_bytes()));
}
