//! Encodes and decodes messages of etcd's v3 API.
//!
//! Field numbers and paths come from `rpc.proto`, `kv.proto` and `v3lock.proto` of etcd. They are the same in etcd 3.4
//! to 3.7, except for `RangeStream`, which is new in 3.7.
//!
//! Not here: calls (`grpc`), keys and values of a load.

use crate::ProtocolError;
use crate::protobuf::{Fields, bytes_len, put_bytes, put_message_header, put_uint, uint_len};

/// Path of the call that writes a key.
pub const PUT: &str = "/etcdserverpb.KV/Put";
/// Path of the call that reads keys.
pub const RANGE: &str = "/etcdserverpb.KV/Range";
/// Path of the call that reads keys as a stream of responses, from etcd 3.7 on.
pub const RANGE_STREAM: &str = "/etcdserverpb.KV/RangeStream";
/// Path of the call that deletes keys.
pub const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
/// Path of the call that runs a transaction.
pub const TXN: &str = "/etcdserverpb.KV/Txn";
/// Path of the call that removes old revisions.
pub const COMPACT: &str = "/etcdserverpb.KV/Compact";
/// Path of the call that creates a lease.
pub const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
/// Path of a stream of requests. A stream that ends after one request gets one answer.
pub const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// Path of the call that ends a lease.
pub const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
/// Path of the call that lists leases.
pub const LEASE_LEASES: &str = "/etcdserverpb.Lease/LeaseLeases";
/// Path of a stream of requests and responses. If the client ends its side, the server continues.
pub const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Path of the call that waits until it has a lock.
pub const LOCK: &str = "/v3lockpb.Lock/Lock";
/// Path of the call that releases a lock.
pub const UNLOCK: &str = "/v3lockpb.Lock/Unlock";
/// Path of the call that gives a node's unused space back.
pub const DEFRAGMENT: &str = "/etcdserverpb.Maintenance/Defragment";
/// Path of a stream of responses.
pub const SNAPSHOT: &str = "/etcdserverpb.Maintenance/Snapshot";
/// Path of the call that reads a node's status.
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
/// Path of the call that hashes a node's keys and values.
pub const HASH_KV: &str = "/etcdserverpb.Maintenance/HashKV";
/// Path of the call that lists a cluster's members.
pub const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
/// Path of the call that exchanges a name and a password for a token.
pub const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Name of the metadata that holds a token (`TokenFieldNameGRPC` in `rpctypes`).
pub const TOKEN: &str = "token";

/// Writes an `AuthenticateRequest`: name 1, password 2.
pub fn write_authenticate(user: &str, password: &str, out: &mut Vec<u8>) {
    put_bytes(out, 1, user.as_bytes());
    put_bytes(out, 2, password.as_bytes());
}

/// Returns the token of an `AuthenticateResponse` (2).
pub fn read_token(message: &[u8]) -> Result<String, ProtocolError> {
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
pub fn write_put(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
    put_bytes(out, 2, value);
}

/// Writes a `RangeRequest` for one key.
pub fn write_get(key: &[u8], serializable: bool, out: &mut Vec<u8>) {
    write_range(&RangeQuery { key, serializable, ..RangeQuery::default() }, out);
}

/// End of a range that has all keys from its first one on.
pub const TO_THE_LAST_KEY: &[u8] = &[0];

/// Content of a `RangeRequest`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RangeQuery<'a> {
    /// First key.
    pub key: &'a [u8],
    /// First key after the range, or [`TO_THE_LAST_KEY`]; empty for a single key.
    pub end: &'a [u8],
    /// Maximum number of keys in the answer; 0 for all.
    pub limit: u64,
    /// Revision to read; 0 for the newest.
    pub revision: u64,
    /// True to let the node answer from its own state, which may be stale.
    pub serializable: bool,
    /// True to leave the values out.
    pub keys_only: bool,
    /// True to leave keys and values out.
    pub count_only: bool,
}

impl RangeQuery<'_> {
    fn encoded_len(&self) -> usize {
        let end = if self.end.is_empty() { 0 } else { bytes_len(2, self.end.len()) };
        let numbers = self.numbers().into_iter().map(|(field, value)| uint_len(field, value));
        bytes_len(1, self.key.len()) + end + numbers.sum::<usize>()
    }

    /// Returns the fields other than keys: limit 3, revision 4, serializable 7, keys only 8, count only 9.
    fn numbers(&self) -> [(u32, u64); 5] {
        [
            (3, self.limit),
            (4, self.revision),
            (7, self.serializable.into()),
            (8, self.keys_only.into()),
            (9, self.count_only.into()),
        ]
    }
}

/// Writes a `RangeRequest`: key 1, range end 2, and numbers.
pub fn write_range(query: &RangeQuery<'_>, out: &mut Vec<u8>) {
    put_bytes(out, 1, query.key);
    if !query.end.is_empty() {
        put_bytes(out, 2, query.end);
    }
    query.numbers().into_iter().for_each(|(field, value)| put_uint(out, field, value));
}

/// Returns the first key after all keys with a prefix, as etcd's client computes it.
///
/// A prefix without such a key, which is empty or has only bytes of 255, ends with the last key.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|&byte| byte < u8::MAX) else {
        return TO_THE_LAST_KEY.to_vec();
    };
    let mut end = prefix.get(..=last).unwrap_or_default().to_vec();
    end.last_mut().into_iter().for_each(|byte| *byte += 1);
    end
}

/// Part of a `RangeResponse` other than its keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeSummary {
    /// Revision of the state that was read; 0 if the response has none.
    pub revision: u64,
    /// True if the limit left keys out.
    pub more: bool,
    /// Number of keys in the range, regardless of the limit.
    pub count: u64,
}

/// Reads a `RangeResponse` (header 1, `KeyValue` 2, more 3, count 4), and passes each key and value to `on`.
pub fn read_range_response<'a>(
    message: &'a [u8],
    mut on: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<RangeSummary, ProtocolError> {
    let mut summary = RangeSummary::default();
    for field in Fields::new(message) {
        match field? {
            (1, header) => summary.revision = header_revision(header.as_bytes())?,
            (2, pair) => {
                let (key, value) = read_pair(pair.as_bytes())?;
                on(key, value);
            }
            (3, content) => summary.more = content.as_uint() != 0,
            (4, content) => summary.count = content.as_uint(),
            _ => {}
        }
    }
    Ok(summary)
}

/// Returns the `RangeResponse` of a `RangeStreamResponse` (1).
pub fn read_streamed_range(message: &[u8]) -> Result<&[u8], ProtocolError> {
    let mut part = &[][..];
    for field in Fields::new(message) {
        if let (1, content) = field? {
            part = content.as_bytes();
        }
    }
    Ok(part)
}

/// Branch of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// Runs if all comparisons hold, and if there are none (`success`).
    Then = 2,
    /// Runs if a comparison does not hold (`failure`).
    Else = 3,
}

/// Writes a put of a `TxnRequest`: a `RequestOp` with `request_put` 2.
pub fn write_txn_put(branch: Branch, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let put = bytes_len(1, key.len()) + bytes_len(2, value.len());
    put_message_header(out, branch as u32, bytes_len(2, put));
    put_message_header(out, 2, put);
    write_put(key, value, out);
}

/// Writes a range of a `TxnRequest`: a `RequestOp` with `request_range` 1.
pub fn write_txn_range(branch: Branch, query: &RangeQuery<'_>, out: &mut Vec<u8>) {
    let range = query.encoded_len();
    put_message_header(out, branch as u32, bytes_len(1, range));
    put_message_header(out, 1, range);
    write_range(query, out);
}

/// Relation of a comparison (`CompareResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The revision is this one.
    Equal = 0,
    /// The revision is higher.
    Greater = 1,
    /// The revision is lower.
    Less = 2,
}

/// Writes a comparison of a `TxnRequest` with the revision of a key's newest write: `compare` 1 (result 1, target 2:
/// `MOD` 2, key 3, `mod_revision` 6). A missing key has revision 0.
pub fn write_compare_revision(key: &[u8], relation: Relation, revision: u64, out: &mut Vec<u8>) {
    let relation = relation as u64;
    let length =
        uint_len(1, relation) + uint_len(2, 2) + bytes_len(3, key.len()) + uint_len(6, revision);
    put_message_header(out, 1, length);
    put_uint(out, 1, relation);
    put_uint(out, 2, 2);
    put_bytes(out, 3, key);
    put_uint(out, 6, revision);
}

/// Answer to one operation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxnAnswer<'a> {
    /// `RangeResponse` of a range.
    Range(&'a [u8]),
    /// A put was done.
    Put,
    /// Another operation.
    Other,
}

/// Part of a `TxnResponse` other than its answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxnSummary {
    /// Revision after the transaction; 0 if the response has none.
    pub revision: u64,
    /// True if all comparisons held.
    pub succeeded: bool,
}

/// Reads a `TxnResponse`: header 1, succeeded 2, responses 3 (`response_range` 1, `response_put` 2).
pub fn read_txn<'a>(
    message: &'a [u8],
    mut on: impl FnMut(TxnAnswer<'a>),
) -> Result<TxnSummary, ProtocolError> {
    let mut summary = TxnSummary::default();
    for field in Fields::new(message) {
        match field? {
            (1, header) => summary.revision = header_revision(header.as_bytes())?,
            (2, content) => summary.succeeded = content.as_uint() != 0,
            (3, answer) => {
                let mut read = TxnAnswer::Other;
                for field in Fields::new(answer.as_bytes()) {
                    match field? {
                        (1, range) => read = TxnAnswer::Range(range.as_bytes()),
                        (2, _) => read = TxnAnswer::Put,
                        _ => {}
                    }
                }
                on(read);
            }
            _ => {}
        }
    }
    Ok(summary)
}

/// Writes a `TxnRequest` that puts a value if the key's newest write has a revision. A missing key has revision 0.
pub fn write_replace(key: &[u8], value: &[u8], revision: u64, out: &mut Vec<u8>) {
    write_compare_revision(key, Relation::Equal, revision, out);
    write_txn_put(Branch::Then, key, value, out);
}

/// Writes a `TxnRequest` that puts all pairs of keys and values, if the newest write of each key has this revision.
pub fn write_replace_all<'a>(
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    revision: u64,
    out: &mut Vec<u8>,
) {
    pairs.clone().for_each(|(key, _)| write_compare_revision(key, Relation::Equal, revision, out));
    pairs.for_each(|(key, value)| write_txn_put(Branch::Then, key, value, out));
}

/// Writes a `TxnRequest` that reads the keys of all pairs.
pub fn write_get_all<'a>(
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    serializable: bool,
    out: &mut Vec<u8>,
) {
    for (key, _) in pairs {
        let query = RangeQuery { key, serializable, ..RangeQuery::default() };
        write_txn_range(Branch::Then, &query, out);
    }
}

/// Reads the answer to [`write_get_all`]: value and newest revision of each key, `None` for a missing key.
pub fn read_get_all<'a>(
    message: &'a [u8],
    mut on: impl FnMut(Option<(&'a [u8], u64)>),
) -> Result<(), ProtocolError> {
    let mut read = Ok(());
    read_txn(message, |answer| match answer {
        TxnAnswer::Range(range) => match read_versioned(range) {
            Ok(pair) => on(pair),
            Err(error) => read = Err(error),
        },
        TxnAnswer::Put | TxnAnswer::Other => {}
    })?;
    read
}

/// Writes a `TxnRequest` that puts a value if another key exists.
pub fn write_put_if_exists(other: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    write_compare_revision(other, Relation::Greater, 0, out);
    write_txn_put(Branch::Then, key, value, out);
}

/// Writes a `LockRequest`: name 1, lease 2.
pub fn write_lock(name: &[u8], lease: u64, out: &mut Vec<u8>) {
    put_bytes(out, 1, name);
    put_uint(out, 2, lease);
}

/// Returns the revision of a `LockResponse` (header 1), and the key that exists while its holder has the lock (2).
pub fn read_lock(message: &[u8]) -> Result<(u64, &[u8]), ProtocolError> {
    let (mut revision, mut key) = (0, &[][..]);
    for field in Fields::new(message) {
        match field? {
            (1, header) => revision = header_revision(header.as_bytes())?,
            (2, content) => key = content.as_bytes(),
            _ => {}
        }
    }
    match key {
        [] => Err("a lock without a key".into()),
        key => Ok((revision, key)),
    }
}

/// Writes an `UnlockRequest`: key 1.
pub fn write_unlock(key: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
}

/// Returns true if the comparison of a `TxnResponse` held (`succeeded` 2).
pub fn read_succeeded(message: &[u8]) -> Result<bool, ProtocolError> {
    let mut succeeded = false;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            succeeded = content.as_uint() != 0;
        }
    }
    Ok(succeeded)
}

/// Writes a `LeaseGrantRequest`: time to live in seconds, 1.
pub fn write_grant(seconds: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, seconds);
}

/// Writes a `LeaseGrantRequest` for a lease of this number: `TTL` 1, `ID` 2.
pub fn write_grant_of(lease: u64, seconds: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, seconds);
    put_uint(out, 2, lease);
}

/// Writes a `LeaseRevokeRequest`: `ID` 1.
pub fn write_revoke(lease: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, lease);
}

/// Calls `on` with each lease of a `LeaseLeasesResponse`: `leases` 2 (in it `ID` 1).
pub fn read_leases(message: &[u8], mut on: impl FnMut(u64)) -> Result<(), ProtocolError> {
    for field in Fields::new(message) {
        let (2, lease) = field? else { continue };
        for field in Fields::new(lease.as_bytes()) {
            if let (1, id) = field? {
                on(id.as_uint());
            }
        }
    }
    Ok(())
}

/// Writes a `LeaseKeepAliveRequest`: lease 1.
pub fn write_keep_alive(lease: u64, out: &mut Vec<u8>) {
    put_uint(out, 1, lease);
}

/// Returns the lease and its time to live in seconds, from a `LeaseGrantResponse` or `LeaseKeepAliveResponse` (2, 3).
pub fn read_lease(message: &[u8]) -> Result<(u64, u64), ProtocolError> {
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
pub fn write_watch(key: &[u8], out: &mut Vec<u8>) {
    write_watch_of(&WatchCreation { key, ..WatchCreation::default() }, out);
}

/// Describes a watcher to create.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchCreation<'a> {
    /// Key, or the first key of a range.
    pub key: &'a [u8],
    /// First key after the range; empty for one key.
    pub range_end: &'a [u8],
    /// First revision of interest; 0 for revisions from now on.
    pub start_revision: u64,
    /// True if events hold the pair before the write.
    pub previous: bool,
    /// Number of the watcher within its call, from 1; 0 if the server chooses one.
    pub watch_id: u64,
}

/// Writes a `WatchRequest` that creates a watcher: `create_request` 1 (in it key 1, `range_end` 2, `start_revision` 3,
/// `prev_kv` 6, `watch_id` 7).
pub fn write_watch_of(creation: &WatchCreation<'_>, out: &mut Vec<u8>) {
    let mut create = Vec::new();
    put_bytes(&mut create, 1, creation.key);
    if !creation.range_end.is_empty() {
        put_bytes(&mut create, 2, creation.range_end);
    }
    for (field, value) in
        [(3, creation.start_revision), (6, u64::from(creation.previous)), (7, creation.watch_id)]
    {
        if value != 0 {
            put_uint(&mut create, field, value);
        }
    }
    put_bytes(out, 1, &create);
}

/// Writes a `WatchRequest` for a report of progress: `progress_request` 3, an empty message.
pub fn write_progress_request(out: &mut Vec<u8>) {
    put_bytes(out, 3, &[]);
}

/// State of a watcher, from a response.
#[derive(Debug, Default)]
pub struct WatchState {
    /// Revision of the store when the server answered.
    pub revision: u64,
    /// Number of the watcher; `None` for all watchers of the call.
    pub watch_id: Option<u64>,
    /// True if the watcher was created.
    pub created: bool,
    /// Reason of the watcher's end, if it ended.
    pub cancelled: Option<String>,
    /// First revision that the server still has, if the watcher ended because its start was compacted; otherwise 0.
    pub compact_revision: u64,
    /// Number of events of the response.
    pub events: usize,
}

/// One event of a watcher.
#[derive(Debug)]
pub struct WatchEvent<'a> {
    /// True for a put, false for a delete.
    pub is_put: bool,
    /// Key that changed.
    pub key: &'a [u8],
    /// New value; empty for a delete.
    pub value: &'a [u8],
    /// Revision of the write.
    pub revision: u64,
}

/// Reads a `WatchResponse`: header 1, `watch_id` 2 (-1 for all), created 3, canceled 4, `compact_revision` 5,
/// `cancel_reason` 6, events 11 (`Event`: type 1, `PUT` 0; `KeyValue` 2 with key 1, `mod_revision` 3, value 5). Calls `on`
/// with the number of the watcher and each event. Fields come in the order of their numbers.
pub fn read_watch<'a>(
    message: &'a [u8],
    mut on: impl FnMut(u64, WatchEvent<'a>),
) -> Result<WatchState, ProtocolError> {
    let (mut state, mut cancelled, mut reason) = (WatchState::default(), false, String::new());
    let mut watch_id = 0;
    for field in Fields::new(message) {
        match field? {
            (1, header) => state.revision = header_revision(header.as_bytes())?,
            (2, content) => watch_id = content.as_uint(),
            (3, content) => state.created = content.as_uint() != 0,
            (4, content) => cancelled = content.as_uint() != 0,
            (5, content) => state.compact_revision = content.as_uint(),
            (6, content) => reason = String::from_utf8_lossy(content.as_bytes()).into_owned(),
            (11, content) => {
                state.events += 1;
                on(watch_id, read_event(content.as_bytes())?);
            }
            _ => {}
        }
    }
    state.watch_id = Some(watch_id).filter(|&id| id != u64::MAX);
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
pub fn read_revision(message: &[u8]) -> Result<u64, ProtocolError> {
    let mut revision = 0;
    for field in Fields::new(message) {
        if let (1, header) = field? {
            revision = header_revision(header.as_bytes())?;
        }
    }
    match revision {
        0 => Err("a response without a revision".into()),
        revision => Ok(revision),
    }
}

/// Returns the revision of a `ResponseHeader` (3); 0 if it has none.
fn header_revision(header: &[u8]) -> Result<u64, ProtocolError> {
    let mut revision = 0;
    for field in Fields::new(header) {
        if let (3, content) = field? {
            revision = content.as_uint();
        }
    }
    Ok(revision)
}

/// Writes a `DeleteRangeRequest` for one key: key 1.
pub fn write_delete(key: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 1, key);
}

/// Reads the key-value pairs of a `RangeResponse`.
pub fn read_range<'a>(
    message: &'a [u8],
    on: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), ProtocolError> {
    read_range_response(message, on).map(drop)
}

/// Returns key 1 and value 5 of a `KeyValue`.
fn read_pair(pair: &[u8]) -> Result<(&[u8], &[u8]), ProtocolError> {
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in Fields::new(pair) {
        match field? {
            (1, content) => key = content.as_bytes(),
            (5, content) => value = content.as_bytes(),
            _ => {}
        }
    }
    Ok((key, value))
}

/// Returns the value and newest revision from a `RangeResponse` for one key (in `KeyValue` 2: `mod_revision` 3, value
/// 5); `None` if the key does not exist.
pub fn read_versioned(message: &[u8]) -> Result<Option<(&[u8], u64)>, ProtocolError> {
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
pub fn read_deleted(message: &[u8]) -> Result<u64, ProtocolError> {
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
pub struct MemberStatus {
    /// Member id.
    pub member: u64,
    /// Leader's member id; 0 if there is none.
    pub leader: u64,
    /// Version, such as `3.6.1`.
    pub version: String,
    /// Size of the database file in bytes.
    pub size: u64,
    /// Revision of the newest write that the node has.
    pub revision: u64,
}

/// Time at which a compaction is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionAnswer {
    /// Once it is decided. etcd removes the history later.
    Decided,
    /// Once the history is removed (`physical`).
    Removed,
}

/// Writes a `CompactionRequest`: revision 1, physical 2.
pub fn write_compact(revision: u64, answered: CompactionAnswer, out: &mut Vec<u8>) {
    put_uint(out, 1, revision);
    put_uint(out, 2, (answered == CompactionAnswer::Removed).into());
}

/// Returns the hash of a `HashKVResponse` (2).
pub fn read_hash(message: &[u8]) -> Result<u32, ProtocolError> {
    let mut hash = 0;
    for field in Fields::new(message) {
        if let (2, content) = field? {
            hash = content.as_uint();
        }
    }
    u32::try_from(hash).map_err(|_| "a hash of more than 32 bits".into())
}

/// Member of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// Member id.
    pub id: u64,
    /// URLs at which it serves clients.
    pub client_urls: Vec<String>,
}

/// Reads a `MemberListResponse`: members 2 (`Member`: id 1, client URLs 4).
pub fn read_members(message: &[u8]) -> Result<Vec<Member>, ProtocolError> {
    let mut members = Vec::new();
    for field in Fields::new(message) {
        let (2, content) = field? else { continue };
        let mut member = Member::default();
        for field in Fields::new(content.as_bytes()) {
            match field? {
                (1, id) => member.id = id.as_uint(),
                (4, url) => {
                    let url = String::from_utf8_lossy(url.as_bytes()).into_owned();
                    member.client_urls.push(url);
                }
                _ => {}
            }
        }
        members.push(member);
    }
    Ok(members)
}

/// Reads a `SnapshotResponse`: bytes that remain 2, blob 3. Returns the remaining bytes, and the blob's length.
pub fn read_snapshot(message: &[u8]) -> Result<(u64, u64), ProtocolError> {
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
pub fn read_status(message: &[u8]) -> Result<MemberStatus, ProtocolError> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_end_before_the_next_key_without_them() {
        for (prefix, end) in [
            (&b"a/"[..], &b"a0"[..]),
            (b"", b"\0"),
            (b"\xff\xff", b"\0"),
            (b"a\xff", b"b"),
            (b"ab", b"ac"),
        ] {
            assert_eq!(prefix_end(prefix), end, "{prefix:?}");
        }
    }

    #[test]
    fn nested_operations_have_the_length_that_they_announce() {
        let query = RangeQuery {
            key: b"k",
            end: TO_THE_LAST_KEY,
            limit: 1000,
            revision: 7,
            serializable: true,
            keys_only: true,
            count_only: false,
        };
        let mut range = Vec::new();
        write_range(&query, &mut range);
        assert_eq!(range, b"\x0a\x01k\x12\x01\0\x18\xe8\x07\x20\x07\x38\x01\x40\x01");
        assert_eq!(range.len(), query.encoded_len());
        let mut txn = Vec::new();
        write_compare_revision(b"k", Relation::Less, 9, &mut txn);
        write_txn_put(Branch::Then, b"k", b"value", &mut txn);
        write_txn_range(Branch::Else, &query, &mut txn);
        let fields: Vec<_> =
            Fields::new(&txn).map(|field| field.unwrap()).map(|(n, v)| (n, v.as_bytes())).collect();
        let numbers: Vec<u32> = fields.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(fields[0].1, b"\x08\x02\x10\x02\x1a\x01k\x30\x09");
        assert_eq!(fields[1].1, b"\x12\x0a\x0a\x01k\x12\x05value");
        assert!(fields[2].1.ends_with(&range));
    }

    #[test]
    fn answers_of_a_transaction_come_in_order() {
        let message = b"\x0a\x02\x18\x09\x10\x01\x1a\x02\x12\0\x1a\x04\x0a\x02\x20\x03\x1a\0";
        let mut seen = Vec::new();
        let summary = read_txn(message, |answer| seen.push(answer)).unwrap();
        assert_eq!(summary, TxnSummary { revision: 9, succeeded: true });
        assert_eq!(seen, [TxnAnswer::Put, TxnAnswer::Range(b"\x20\x03"), TxnAnswer::Other]);
        let range = read_range_response(b"\x20\x03", |_, _| {}).unwrap();
        assert_eq!(range, RangeSummary { revision: 0, more: false, count: 3 });
    }

    proptest! {
        #[test]
        fn arbitrary_messages_never_panic(message: Vec<u8>) {
            read_token(&message).ok();
            read_succeeded(&message).ok();
            read_lease(&message).ok();
            read_watch(&message, |_, _| {}).ok();
            read_revision(&message).ok();
            read_range_response(&message, |_, _| {}).ok();
            read_streamed_range(&message).ok();
            read_txn(&message, |_| {}).ok();
            read_versioned(&message).ok();
            read_deleted(&message).ok();
            read_hash(&message).ok();
            read_members(&message).ok();
            read_snapshot(&message).ok();
            read_status(&message).ok();
        }
    }
}
