//! The messages of etcd's v3 API that a load needs, field by field.
//!
//! Numbers of fields and paths are those of `rpc.proto` and `kv.proto` in `api/v3` of etcd 3.4 to
//! 3.7, where they have not changed.

use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::protobuf::{Fields, put_bytes, put_uint};

use crate::ClientToken;

pub(super) const PUT: &str = "/etcdserverpb.KV/Put";
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// A stream of requests; one that ends after its first is answered once.
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// A stream of requests and of responses. A client may end its side: the server's goes on.
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Returns the metadata that shows a client's token (`TokenFieldNameGRPC` in `rpctypes`).
pub(super) fn metadata(token: &ClientToken) -> (&str, &str) {
    ("token", &token.0)
}

/// `AuthenticateRequest`: name 1, password 2.
pub(super) fn write_authenticate(user: &str, password: &str, out: &mut Vec<u8>) {
    put_bytes(out, 1, user.as_bytes());
    put_bytes(out, 2, password.as_bytes());
}

/// The token of an `AuthenticateResponse` (2).
pub(super) fn read_token(message: &[u8]) -> Result<String, ProtocolError> {
    for field in Fields::new(message) {
        if let (2, content) = field? {
            let token = std::str::from_utf8(content.as_bytes());
            // It becomes a header.
            let token = token.ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
            return token.map(str::to_owned).ok_or_else(|| "a token that is no text".into());
        }
    }
    Err("no token in the answer to a name and a password".into())
}

/// `PutRequest`: key 1, value 2.
pub(super) fn write_put(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    put_bytes(out, 2, value);
}

/// `RangeRequest` of one key: key 1, serializable 7.
pub(super) fn write_get(key: &[u8], serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    put_uint(out, 7, serializable.into());
}

/// `RangeRequest` of all names with a prefix: key 1, range end 2, serializable 7, keys only 8.
pub(super) fn write_list(prefix: &[u8], serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, prefix);
    put_bytes(out, 2, &after_prefix(prefix));
    put_uint(out, 7, serializable.into());
    put_uint(out, 8, 1);
}

/// `RangeRequest` of up to `limit` keys with a prefix, from one on: key 1, range end 2, limit 3, serializable 7. Keys
/// come in their order, which is etcd's own.
pub(super) fn write_scan(key: &[u8], limit: u32, serializable: bool, out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    let prefix = match key.starts_with(KEY_PREFIX.as_bytes()) {
        true => after_prefix(KEY_PREFIX.as_bytes()),
        // etcd's own word for all keys that follow.
        false => vec![0],
    };
    put_bytes(out, 2, &prefix);
    put_uint(out, 3, limit.into());
    put_uint(out, 7, serializable.into());
}

/// `TxnRequest` that puts a value where the key's newest write has a revision: `compare` 1 (target 2: `MOD` 2, key 3,
/// `mod_revision` 6; its result, `EQUAL` 0, is the default), `success` 2 (`request_put` 2). A key that is not there
/// has revision 0.
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

/// Returns whether a `TxnResponse` says that what was compared was equal (`succeeded` 2).
pub(super) fn read_succeeded(message: &[u8]) -> Result<bool, ProtocolError> {
    let mut succeeded = false;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            succeeded = content.as_uint() != 0;
        }
    }
    Ok(succeeded)
}

/// `LeaseGrantRequest`: its time to live in seconds, 1.
pub(super) fn write_grant(seconds: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, seconds);
}

/// `LeaseKeepAliveRequest`: the lease, 1.
pub(super) fn write_keep_alive(lease: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, lease);
}

/// The lease and its time to live in seconds, as `LeaseGrantResponse` and `LeaseKeepAliveResponse` say them (2, 3).
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

/// `WatchRequest` that creates a watcher of one key, from now on: `create_request` 1 (in it key 1).
pub(super) fn write_watch(key: &[u8], out: &mut Vec<u8>) {
    let mut create = Vec::new();
    put_bytes(&mut create, 1, key);
    put_bytes(out, 1, &create);
}

/// The state of a watcher, as a message says it.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// The watcher was created.
    pub(super) created: bool,
    /// The watcher is no more, and why.
    pub(super) cancelled: Option<String>,
}

/// One event of a watcher.
#[derive(Debug)]
pub(super) struct WatchEvent<'a> {
    /// Whether the key was put; else it was deleted.
    pub(super) is_put: bool,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// The revision of the write.
    pub(super) revision: u64,
}

/// `WatchResponse`: created 3, canceled 4, `cancel_reason` 6, events 11 (`Event`: type 1, `PUT` 0; `KeyValue` 2 with
/// key 1, `mod_revision` 3, value 5).
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

/// The revision of a write, as the header of its response says it (1; in it revision 3).
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

/// `DeleteRangeRequest` of one key: key 1.
pub(super) fn write_delete(key: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
}

/// `DeleteRangeRequest` of all keys of ours: key 1, range end 2.
pub(super) fn write_delete_all(out: &mut Vec<u8>) {
    put_bytes(out, 1, KEY_PREFIX.as_bytes());
    put_bytes(out, 2, &after_prefix(KEY_PREFIX.as_bytes()));
}

/// The first key after all those with a prefix. Our prefixes end in `/`, which has a successor.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The key-value pairs of a `RangeResponse` (repeated `KeyValue` 2; in it key 1, value 5).
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

/// The value of a `RangeResponse` of one key, and the revision of its newest write (in `KeyValue` 2: `mod_revision` 3,
/// value 5); none where there is no such key.
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

/// Returns how many keys a `DeleteRangeResponse` says are gone (`deleted` 2).
pub(super) fn read_deleted(message: &[u8]) -> Result<u64, ProtocolError> {
    let mut deleted = 0;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            deleted = content.as_uint();
        }
    }
    Ok(deleted)
}

/// The status of a member, by itself.
#[derive(Debug, Default)]
pub(super) struct MemberStatus {
    pub(super) member: u64,
    /// The leader's member id; 0 when there is none.
    pub(super) leader: u64,
    pub(super) version: String,
}

/// `StatusResponse`: header 1 (in it member id 2), version 2, leader 4.
pub(super) fn read_status(message: &[u8]) -> Result<MemberStatus, ProtocolError> {
    let mut status = MemberStatus::default();
    for field in Fields::new(message) {
        match field? {
            (1, header) => {
                for field in Fields::new(header.as_bytes()) {
                    if let (2, content) = field? {
                        status.member = content.as_uint();
                    }
                }
            }
            (2, content) => {
                status.version = String::from_utf8_lossy(content.as_bytes()).into_owned()
            }
            (4, content) => status.leader = content.as_uint(),
            _ => {}
        }
    }
    Ok(status)
}
