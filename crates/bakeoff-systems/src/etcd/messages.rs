//! Encodes and decodes the messages of etcd's v3 API that a load needs.
//!
//! Field numbers and paths come from `rpc.proto` and `kv.proto` in `api/v3`. They are the same in etcd 3.4 to 3.7.

use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::protobuf::{Fields, put_bytes, put_uint};

use crate::ClientToken;

pub(super) const PUT: &str = "/etcdserverpb.KV/Put";
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// Path of a stream of requests. A stream that ends after one request gets one answer.
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// Path of a stream of requests and responses. If the client ends its side, the server continues.
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const DEFRAGMENT: &str = "/etcdserverpb.Maintenance/Defragment";
/// Path of a stream of responses.
pub(super) const SNAPSHOT: &str = "/etcdserverpb.Maintenance/Snapshot";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Returns the metadata with a client's token (`TokenFieldNameGRPC` in `rpctypes`).
pub(super) fn metadata(token: &ClientToken) -> (&str, &str) {
    ("token", &token.0)
}

/// Writes an `AuthenticateRequest`: name 1, password 2.
pub(super) fn write_authenticate(user: &str, password: &str, out: &mut Vec<u8>) {
    put_bytes(out, 1, user.as_bytes());
    put_bytes(out, 2, password.as_bytes());
}

/// Returns the token of an `AuthenticateResponse` (2).
pub(super) fn read_token(message: &[u8]) -> Result<String, ProtocolError> {
    for field in Fields::new(message) {
        if let (2, content) = field? {
            let token = std::str::from_utf8(content.as_bytes());
            // The token becomes a header, so it must be printable ASCII.
            let token = token.ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
            return token.map(str::to_owned).ok_or_else(|| "a token that is not text".into());
        }
    }
    Err("no token in the answer to a name and a password".into())
}

/// Writes a `PutRequest`: key 1, value 2.
pub(super) fn write_put(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    put_bytes(out, 2, value);
}

/// Writes a `RangeRequest` for one key: key 1, serializable 7.
pub(super) fn write_get(key: &[u8], serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    put_uint(out, 7, serializable.into());
}

/// Writes a `RangeRequest` for all names with a prefix: key 1, range end 2, serializable 7, keys only 8.
pub(super) fn write_list(prefix: &[u8], serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, prefix);
    put_bytes(out, 2, &after_prefix(prefix));
    put_uint(out, 7, serializable.into());
    put_uint(out, 8, 1);
}

/// Writes a `RangeRequest` for up to `limit` keys with bakeoff's prefix, starting at `key`: key 1, range end 2, limit
/// 3, serializable 7. etcd returns keys in order.
pub(super) fn write_scan(key: &[u8], limit: u32, serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    let prefix = match key.starts_with(KEY_PREFIX.as_bytes()) {
        true => after_prefix(KEY_PREFIX.as_bytes()),
        // etcd's notation for all keys from the given one on.
        false => vec![0],
    };
    put_bytes(out, 2, &prefix);
    put_uint(out, 3, limit.into());
    put_uint(out, 7, serializable.into());
}

/// Writes a `TxnRequest` that puts a value if the key's newest write has a revision: `compare` 1 (target 2: `MOD` 2,
/// key 3, `mod_revision` 6; its result, `EQUAL` 0, is the default), `success` 2 (`request_put` 2). A missing key has
/// revision 0.
pub(super) fn write_replace(key: &[u8], value: &[u8], revision: u64, out: &mut Vec<u8>) {
    let mut compare = Vec::new();
    put_uint(&mut compare, 2, 2);
    put_bytes(&mut compare, 3, key);
    put_uint(&mut compare, 6, revision);
    let (mut put, mut operation) = (Vec::new(), Vec::new());
    write_put(key, value, &mut put);
    put_bytes(&mut operation, 2, &put);
    put_bytes(out, 1, &compare);
    put_bytes(out, 2, &operation);
}

/// Returns true if the comparison of a `TxnResponse` held (`succeeded` 2).
pub(super) fn read_succeeded(message: &[u8]) -> Result<bool, ProtocolError> {
    let mut succeeded = false;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            succeeded = content.as_uint() != 0;
        }
    }
    Ok(succeeded)
}

/// Writes a `LeaseGrantRequest`: time to live in seconds, 1.
pub(super) fn write_grant(seconds: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, seconds);
}

/// Writes a `LeaseKeepAliveRequest`: lease 1.
pub(super) fn write_keep_alive(lease: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, lease);
}

/// Returns the lease and its time to live in seconds, from a `LeaseGrantResponse` or `LeaseKeepAliveResponse` (2, 3).
pub(super) fn read_lease(message: &[u8]) -> Result<(u64, u64), ProtocolError> {
    let (mut lease, mut seconds) = (0, 0);
    for field in Fields::new(message) {
        match field? {
            (2, content) => lease = content.as_uint(),
            (3, content) => seconds = content.as_uint(),
            _ => {}
        }
    }
    Ok((lease, seconds))
}

/// Writes a `WatchRequest` that creates a watcher of one key, from now on: `create_request` 1 (in it key 1).
pub(super) fn write_watch(key: &[u8], out: &mut Vec<u8>) {
    let mut create = Vec::new();
    put_bytes(&mut create, 1, key);
    put_bytes(out, 1, &create);
}

/// State of a watcher, from a response.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// True if the watcher was created.
    pub(super) created: bool,
    /// Reason of the watcher's end, if it ended.
    pub(super) cancelled: Option<String>,
}

/// One event of a watcher.
#[derive(Debug)]
pub(super) struct WatchEvent<'a> {
    /// True for a put, false for a delete.
    pub(super) is_put: bool,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// Revision of the write.
    pub(super) revision: u64,
}

/// Reads a `WatchResponse`: created 3, canceled 4, `cancel_reason` 6, events 11 (`Event`: type 1, `PUT` 0; `KeyValue`
/// 2 with key 1, `mod_revision` 3, value 5).
pub(super) fn read_watch<'a>(
    message: &'a [u8],
    mut on: impl FnMut(WatchEvent<'a>),
) -> Result<WatchState, ProtocolError> {
    let (mut state, mut cancelled, mut reason) = (WatchState::default(), false, String::new());
    for field in Fields::new(message) {
        match field? {
            (3, content) => state.created = content.as_uint() != 0,
            (4, content) => cancelled = content.as_uint() != 0,
            (6, content) => reason = String::from_utf8_lossy(content.as_bytes()).into_owned(),
            (11, content) => on(read_event(content.as_bytes())?),
            _ => {}
        }
    }
    if cancelled {
        let unsaid = "the server cancelled it and gave no reason".to_owned();
        state.cancelled = Some(if reason.is_empty() { unsaid } else { reason });
    }
    Ok(state)
}

fn read_event(message: &[u8]) -> Result<WatchEvent<'_>, ProtocolError> {
    let mut event = WatchEvent { is_put: true, key: &[], value: &[], revision: 0 };
    for field in Fields::new(message) {
        match field? {
            (1, content) => event.is_put = content.as_uint() == 0,
            (2, pair) => {
                for field in Fields::new(pair.as_bytes()) {
                    match field? {
                        (1, content) => event.key = content.as_bytes(),
                        (3, content) => event.revision = content.as_uint(),
                        (5, content) => event.value = content.as_bytes(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(event)
}

/// Returns the revision from the header of a response (1; in it revision 3).
pub(super) fn read_revision(message: &[u8]) -> Result<u64, ProtocolError> {
    let mut revision = 0;
    for field in Fields::new(message) {
        let (1, header) = field? else { continue };
        for field in Fields::new(header.as_bytes()) {
            if let (3, content) = field? {
                revision = content.as_uint();
            }
        }
    }
    match revision {
        0 => Err("a response without a revision".into()),
        revision => Ok(revision),
    }
}

/// Writes a `DeleteRangeRequest` for one key: key 1.
pub(super) fn write_delete(key: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
}

/// Writes a `DeleteRangeRequest` for all of bakeoff's keys: key 1, range end 2.
pub(super) fn write_delete_all(out: &mut Vec<u8>) {
    put_bytes(out, 1, KEY_PREFIX.as_bytes());
    put_bytes(out, 2, &after_prefix(KEY_PREFIX.as_bytes()));
}

/// Returns the first key after all keys with a prefix. bakeoff's prefixes end in `/`, which can be incremented.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Reads the key-value pairs of a `RangeResponse` (repeated `KeyValue` 2; in it key 1, value 5).
pub(super) fn read_range<'a>(
    message: &'a [u8],
    mut on: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), ProtocolError> {
    for field in Fields::new(message) {
        let (2, pair) = field? else { continue };
        let (mut key, mut value) = (&[][..], &[][..]);
        for field in Fields::new(pair.as_bytes()) {
            match field? {
                (1, content) => key = content.as_bytes(),
                (5, content) => value = content.as_bytes(),
                _ => {}
            }
        }
        on(key, value);
    }
    Ok(())
}

/// Returns the value and newest revision from a `RangeResponse` for one key (in `KeyValue` 2: `mod_revision` 3, value
/// 5); `None` if the key does not exist.
pub(super) fn read_versioned(message: &[u8]) -> Result<Option<(&[u8], u64)>, ProtocolError> {
    let mut found = None;
    for field in Fields::new(message) {
        let (2, pair) = field? else { continue };
        let (mut value, mut revision) = (&[][..], 0);
        for field in Fields::new(pair.as_bytes()) {
            match field? {
                (3, content) => revision = content.as_uint(),
                (5, content) => value = content.as_bytes(),
                _ => {}
            }
        }
        found = Some((value, revision));
    }
    Ok(found)
}

/// Returns the number of deleted keys in a `DeleteRangeResponse` (`deleted` 2).
pub(super) fn read_deleted(message: &[u8]) -> Result<u64, ProtocolError> {
    let mut deleted = 0;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            deleted = content.as_uint();
        }
    }
    Ok(deleted)
}

/// Status that a member reports of itself.
#[derive(Debug, Default)]
pub(super) struct MemberStatus {
    pub(super) member: u64,
    /// Leader's member id; 0 if there is none.
    pub(super) leader: u64,
    pub(super) version: String,
    /// Size of the database file in bytes.
    pub(super) size: u64,
    /// Revision of the newest write that the node has.
    pub(super) revision: u64,
}

/// Writes a `CompactionRequest`: revision 1, physical 2. The answer then waits until the history is removed.
pub(super) fn write_compact(revision: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, revision);
    put_uint(out, 2, 1);
}

/// Reads a `SnapshotResponse`: bytes that remain 2, blob 3. Returns the remaining bytes, and the blob's length.
pub(super) fn read_snapshot(message: &[u8]) -> Result<(u64, u64), ProtocolError> {
    let (mut remaining, mut length) = (0, 0);
    for field in Fields::new(message) {
        match field? {
            (2, content) => remaining = content.as_uint(),
            (3, content) => length = content.as_bytes().len() as u64,
            _ => {}
        }
    }
    Ok((remaining, length))
}

/// Reads a `StatusResponse`: header 1 (in it member id 2, revision 3), version 2, size 3, leader 4.
pub(super) fn read_status(message: &[u8]) -> Result<MemberStatus, ProtocolError> {
    let mut status = MemberStatus::default();
    for field in Fields::new(message) {
        match field? {
            (1, header) => {
                for field in Fields::new(header.as_bytes()) {
                    match field? {
                        (2, content) => status.member = content.as_uint(),
                        (3, content) => status.revision = content.as_uint(),
                        _ => {}
                    }
                }
            }
            (3, content) => status.size = content.as_uint(),
            (2, content) => {
                status.version = String::from_utf8_lossy(content.as_bytes()).into_owned()
            }
            (4, content) => status.leader = content.as_uint(),
            _ => {}
        }
    }
    Ok(status)
}
