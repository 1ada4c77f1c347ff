//! The messages of etcd's v3 API that a load needs, field by field.
//!
//! Numbers of fields and paths are those of `rpc.proto` and `kv.proto` in `api/v3` of etcd 3.4 to
//! 3.7, where they have not changed.

use bakeoff_core::workload::KEY_PREFIX;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::protobuf::{Fields, put_bytes, put_uint};

use crate::systems::ClientToken;

pub(super) const PUT: &str = "/etcdserverpb.KV/Put";
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
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
