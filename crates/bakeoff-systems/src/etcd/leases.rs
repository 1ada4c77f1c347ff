//! Grants leases before a load, and revokes them after it.
//!
//! bakeoff's leases have numbers of their own, so that it revokes no others.
//!
//! Not here: leases of the operations `grant-lease` and `keep-lease` (`session`).

use std::time::Duration;

use bakeoff_wire::ProtocolError;
use bakeoff_wire::grpc::{Client, MethodId, Status};

use super::super::exchange::{Receiver, exchange};
use super::super::{Access, ClientToken, SystemError};
use super::{call, messages};

/// Number of the first lease: `bake` in ASCII, and four bytes for the number. etcd's own numbers are random.
const FIRST: u64 = 0x6261_6b65_0000_0000;
const LEASES_MAX: u64 = 1 << 32;
/// Time to live in seconds, longer than any trial.
const LIVES_SECONDS: u64 = 4 * 3600;
/// Calls in flight, few enough for every version's limit.
const IN_FLIGHT: usize = 64;
/// Longest time of all calls.
const WITHIN: Duration = Duration::from_secs(600);

/// Grants leases numbered from 0 to below `count`.
pub(super) fn grant(node: &Access, count: u64) -> Result<(), SystemError> {
    if count > LEASES_MAX {
        return Err(format!("`leases: {count}` is more than {LEASES_MAX}").into());
    }
    revoke(node)?;
    let write = |lease: u64, out: &mut Vec<u8>| messages::write_grant_of(lease, LIVES_SECONDS, out);
    call_for_each((FIRST..FIRST + count).collect(), node, messages::LEASE_GRANT, write)
}

/// Revokes all leases of bakeoff.
pub(super) fn revoke(node: &Access) -> Result<(), SystemError> {
    let answer = call(node, messages::LEASE_LEASES, &[])?;
    let mut ours = Vec::new();
    let read = messages::read_leases(&answer, |lease| {
        if (FIRST..FIRST + LEASES_MAX).contains(&lease) {
            ours.push(lease);
        }
    });
    read.map_err(|error| SystemError::answered(node, error))?;
    match ours.is_empty() {
        true => Ok(()),
        false => call_for_each(ours, node, messages::LEASE_REVOKE, messages::write_revoke),
    }
}

/// Makes a call for each lease over one connection.
fn call_for_each(
    leases: Vec<u64>,
    node: &Access,
    method: &str,
    write: impl Fn(u64, &mut Vec<u8>),
) -> Result<(), SystemError> {
    let token = node.memory.get::<ClientToken>();
    let metadata = token.as_deref().map(messages::metadata);
    let mut client = Client::new(&node.authority, node.target.tls.is_some(), metadata.as_slice());
    let method = client.method(method);
    let mut out = Vec::new();
    client.open(&mut out);
    let leases = leases.into_iter();
    let mut calls = LeaseCalls { client, method, leases, write, in_flight: 0, failed: None };
    calls.send(&mut out);
    exchange(node, WITHIN, out, &mut calls)?;
    calls.failed.map_or(Ok(()), |why| Err(SystemError::answered(node, why)))
}

/// Calls with a lease each, several in flight.
struct LeaseCalls<W> {
    client: Client,
    method: MethodId,
    leases: std::vec::IntoIter<u64>,
    write: W,
    in_flight: usize,
    /// First failure in words.
    failed: Option<String>,
}

impl<W: Fn(u64, &mut Vec<u8>)> LeaseCalls<W> {
    fn send(&mut self, out: &mut Vec<u8>) {
        while self.in_flight < IN_FLIGHT && self.client.capacity() > 0 {
            let Some(lease) = self.leases.next() else { return };
            let mut message = Vec::new();
            (self.write)(lease, &mut message);
            if self.client.call(self.method, &message, out).is_ok() {
                self.in_flight += 1;
            }
        }
    }
}

impl<W: Fn(u64, &mut Vec<u8>)> Receiver for LeaseCalls<W> {
    fn on_bytes(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let Self { client, in_flight, failed, .. } = self;
        client.receive(input, out, &mut |_, answer: Result<&[u8], Status<'_>>| {
            *in_flight -= 1;
            if let Err(status) = answer {
                failed.get_or_insert(status.to_string());
            }
        })?;
        self.send(out);
        Ok(self.failed.is_some() || self.in_flight == 0)
    }
}
