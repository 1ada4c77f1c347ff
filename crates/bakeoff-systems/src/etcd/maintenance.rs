//! Runs maintenance on etcd: compact, defragment, snapshot.
//!
//! A defragmentation stops its node: etcd rewrites the database under the lock of all transactions. A compaction drops
//! old revisions on all nodes. Both leave the keys as they are.
//!
//! Not here: the time of it (`bakeoff_trial`), the fields of messages (`messages`).

use bakeoff_core::study::fault::MaintenanceRun;
use bakeoff_core::study::{Maintenance, MaintenanceOffer, MaintenanceScope};
use bakeoff_core::units::ByteCount;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{CallReply, Client};

use super::messages::{self, CompactionAnswer, MemberStatus};
use super::{call, call_as};
use crate::declaration::never_offered;
use crate::exchange::{Patience, Receiver, exchange};
use crate::{Access, SystemError};

pub(super) const OFFERS: &[MaintenanceOffer] = &[
    MaintenanceOffer::new(Maintenance::Compact, MaintenanceScope::System),
    MaintenanceOffer::new(Maintenance::Defragment, MaintenanceScope::Node),
    MaintenanceOffer::new(Maintenance::Snapshot, MaintenanceScope::Node),
];

pub(super) fn maintain(
    node: &Access,
    run: &MaintenanceRun,
    patience: Patience<'_>,
) -> Result<String, SystemError> {
    let answer = |method, message: &[u8]| call_as(node, None, method, message, patience);
    match run.operation {
        Maintenance::Compact => {
            let revision = status(node)?.revision.saturating_sub(run.keep);
            let mut message = Vec::new();
            messages::write_compact(revision, CompactionAnswer::Removed, &mut message);
            answer(messages::COMPACT, &message)?;
            Ok(format!("removed the history up to revision {revision}"))
        }
        Maintenance::Defragment => {
            let before = ByteCount(status(node)?.size);
            answer(messages::DEFRAGMENT, &[])?;
            let after = ByteCount(status(node)?.size);
            Ok(format!("the database had {before} before and {after} after"))
        }
        Maintenance::Snapshot => snapshot(node, patience),
        operation => Err(never_offered(node, operation)),
    }
}

fn status(node: &Access) -> Result<MemberStatus, SystemError> {
    let answer = call(node, messages::STATUS, &[])?;
    messages::read_status(&answer).map_err(|error| SystemError::answered(node, error))
}

/// Receives a snapshot, and drops it.
struct Download {
    client: Client,
    length: u64,
    /// Bytes that the node announced after the last message.
    remaining: u64,
    ended: Option<Result<(), String>>,
}

impl Receiver for Download {
    fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let Self { client, length, remaining, ended } = self;
        let mut broken = Ok(());
        client.receive_replies(input, out, &mut |_, reply| match reply {
            CallReply::Message(message) => match messages::read_snapshot(message) {
                Ok((after, blob)) => (*remaining, *length) = (after, *length + blob),
                Err(error) => broken = Err(error),
            },
            CallReply::Ended(result) => *ended = Some(result.map_err(|status| status.to_string())),
            CallReply::Answer(_) => {}
        })?;
        broken.map(|()| ended.is_some())
    }
}

fn snapshot(node: &Access, patience: Patience<'_>) -> Result<String, SystemError> {
    let mut client = Client::new(&node.authority, node.target.tls.is_some(), &[]);
    let mut out = Vec::new();
    client.open(&mut out);
    let method = client.method(messages::SNAPSHOT);
    client.call_streaming(method, &[], &mut out).map_err(|busy| busy.to_string())?;
    let mut download = Download { client, length: 0, remaining: 0, ended: None };
    exchange(node, patience, out, &mut download)?;
    let Download { length, remaining, ended, .. } = download;
    match ended {
        Some(Ok(())) if length > 0 && remaining == 0 => {
            Ok(format!("the snapshot has {}", ByteCount(length)))
        }
        Some(Err(status)) => Err(SystemError::answered(node, status)),
        _ => Err(SystemError::answered(node, format!("the snapshot ended after {length} bytes"))),
    }
}
