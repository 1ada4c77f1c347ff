//! Renews leases: each client keeps one lease, and one stream for its renewals.
//!
//! etcd's benchmark opens a new stream for each renewal. Here a client sends its renewals on one stream, as etcd's own
//! client does for a lease that it keeps.
//!
//! Not here: reads and writes (`calls`).

use std::sync::{Arc, Mutex, PoisonError};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::work::{Failure, NotIssued, Success};
use bakeoff_engine::works::grpc::{
    Call, CallForm, CallReply, CallSlot, CallSource, FirstCall, NextStep, TimingSink,
};
use bakeoff_wire::etcd;

use super::calls::refused;
use super::seconds::SecondSink;

/// Time to live of a lease in seconds, as in etcd's benchmark.
const LIVES_SECONDS: u64 = 100;

/// Grants the leases of a load.
pub(super) struct Grants {
    granted: Arc<Mutex<Vec<u64>>>,
}

impl Grants {
    /// Adds the leases to `granted`.
    pub(super) fn new(granted: &Arc<Mutex<Vec<u64>>>) -> Self {
        Self { granted: granted.clone() }
    }
}

impl CallSource for Grants {
    fn operations(&self) -> Vec<String> {
        vec!["lease-grant".to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        &[etcd::LEASE_GRANT]
    }

    fn begin(
        &mut self,
        _: CallSlot,
        _: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        etcd::write_grant(LIVES_SECONDS, message);
        Ok(FirstCall { operation: 0, call: Call::unary(0) })
    }

    fn reply(&mut self, _: CallSlot, reply: CallReply<'_>, _: &mut Vec<u8>) -> NextStep {
        NextStep::End(match lease(reply) {
            Ok(lease) => {
                // No code panics while it holds the lock.
                self.granted.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
                Ok(Success::default())
            }
            Err(failure) => Err(failure),
        })
    }
}

/// Renews one lease for each operation in flight.
pub(super) struct Renewals {
    /// Lease of each operation in flight, by client and then by its number within the client.
    leases: Arc<[u64]>,
    /// Number of clients.
    clients: u32,
    seconds: Option<SecondSink>,
}

impl Renewals {
    pub(super) fn new(leases: Arc<[u64]>, clients: u32, seconds: Option<SecondSink>) -> Self {
        Self { leases, clients, seconds }
    }

    fn lease(&self, slot: CallSlot) -> Option<u64> {
        let place = u64::from(slot.tag) * u64::from(self.clients) + u64::from(slot.client);
        self.leases.get(usize::try_from(place).ok()?).copied()
    }
}

impl CallSource for Renewals {
    fn operations(&self) -> Vec<String> {
        vec!["lease-keepalive".to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        &[etcd::LEASE_KEEP_ALIVE]
    }

    fn begin(
        &mut self,
        slot: CallSlot,
        _: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        let lease = self.lease(slot).ok_or(NotIssued::Abort)?;
        etcd::write_keep_alive(lease, message);
        Ok(FirstCall { operation: 0, call: Call { method: 0, form: CallForm::Standing } })
    }

    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, _: &mut Vec<u8>) -> NextStep {
        let judged = lease(reply).and_then(|renewed| match self.lease(slot) {
            Some(lease) if lease == renewed => Ok(Success::default()),
            _ => Err(Failure::new(
                ErrorKind::WrongValue,
                "wrong answer: the renewal of another lease".to_owned(),
            )),
        });
        NextStep::End(judged)
    }

    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        self.seconds.as_mut().map(|sink| sink as &mut dyn TimingSink)
    }
}

/// Returns the lease that a reply names, if it lives.
fn lease(reply: CallReply<'_>) -> Result<u64, Failure> {
    let failed = |kind, what: &str| Err(Failure::new(kind, what.to_owned()));
    match reply {
        CallReply::Answer(Ok(message)) | CallReply::Message(message) => {
            match etcd::read_lease(message) {
                // As etcd's client words an answer without a time to live.
                Ok((_, 0)) => failed(ErrorKind::Status, "etcdserver: requested lease not found"),
                Ok((lease, _)) => Ok(lease),
                Err(error) => failed(ErrorKind::Protocol, &error.to_string()),
            }
        }
        CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)) => Err(refused(&status)),
        CallReply::Ended(Ok(())) => failed(ErrorKind::Reset, "the server ended the stream"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_must_name_its_lease_and_a_time_to_live() {
        let mut renewals = Renewals::new(Arc::from([7, 8, 9]), 2, None);
        let mut judge = |client, tag, message: &[u8]| {
            let slot = CallSlot { client, tag };
            match renewals.reply(slot, CallReply::Message(message), &mut Vec::new()) {
                NextStep::End(result) => result.map(drop).map_err(|failure| failure.what),
                _ => panic!("a renewal has one reply"),
            }
        };
        assert_eq!(judge(0, 0, b"\x10\x07\x18\x64"), Ok(()));
        assert_eq!(judge(0, 1, b"\x10\x09\x18\x64"), Ok(()));
        assert!(judge(1, 0, b"\x10\x07\x18\x64").unwrap_err().contains("another lease"));
        let gone = judge(1, 0, b"\x10\x08").unwrap_err();
        assert_eq!(gone, "etcdserver: requested lease not found");
        assert!(judge(0, 0, b"\x10").unwrap_err().contains("truncated"));
    }
}
