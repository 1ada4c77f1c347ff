//! Follows the lock of a connection's client, which etcd's own lock service grants.
//!
//! The call waits on the server until the lock is free. A key with the client's lease exists as long as the client has
//! the lock or waits for it. A fenced write is a transaction that needs this key.
//!
//! If the key is missing, a read at the revision of the grant shows whether it was there then. etcd 3.4 grants locks to
//! clients whose key is gone ([#11456](https://github.com/etcd-io/etcd/issues/11456)).
//!
//! Not here: calls (`session`), holders of a lock (`bakeoff_engine::works::keyed`).

use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_engine::works::keyed::{Answer, KeyedState};

use super::messages;
use crate::coordination::lock_name;

/// Texts by which etcd answers that a lease is gone (`rpctypes`, `concurrency`).
const LEASE_GONE: &[&str] = &["lease not found", "session is expired"];

/// Configures the locks of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockRules {
    /// True if writes depend on the lock.
    pub(super) fences: bool,
    /// True if a client renews its lease while it waits.
    pub(super) renews: bool,
}

impl LockRules {
    pub(super) fn new(keyed: &KeyedState) -> Self {
        Self { fences: keyed.fences, renews: keyed.renews }
    }
}

/// Lock of a connection's client.
pub(super) struct ClientLock {
    pub(super) rules: LockRules,
    /// Lease, once granted.
    pub(super) lease: Option<u64>,
    /// Time for which its lease lasts.
    lasts: Duration,
    /// Sending of the last renewal that succeeded.
    renewed: Instant,
    /// Sending of the oldest request for the lease that is in flight.
    renewing: Option<Instant>,
    /// Key of its last grant.
    pub(super) key: Vec<u8>,
    /// Revision of its last grant.
    pub(super) revision: u64,
}

impl ClientLock {
    pub(super) fn new(rules: LockRules, lease_seconds: u64) -> Self {
        let (lasts, now) = (Duration::from_secs(lease_seconds), clock::now());
        let (lease, key, revision) = (None, Vec::new(), 0);
        Self { rules, lease, lasts, renewed: now, renewing: None, key, revision }
    }

    /// Returns the idle time after which the lease is to be renewed: as etcd's own clients do.
    pub(super) fn renews_every(&self) -> Option<Duration> {
        self.rules.renews.then_some(self.lasts / 3)
    }

    /// Returns true if the lease is to be renewed before the client waits for a lock.
    pub(super) fn is_to_renew(&self) -> bool {
        self.renews_every().is_some_and(|every| clock::now() > self.renewed + every)
    }

    /// Notes that a lease is asked for, or a renewal.
    pub(super) fn asks_for_lease(&mut self) {
        self.renewing.get_or_insert_with(clock::now);
    }

    /// Notes that a request for the lease has failed.
    pub(super) fn has_no_answer(&mut self) {
        self.renewing = None;
    }

    /// Notes a lease that was granted or renewed: its number, and its time to live. One without time is gone.
    pub(super) fn has_lease(&mut self, (lease, seconds): (u64, u64)) {
        self.lease = Some(lease).filter(|_| seconds > 0);
        self.renewed = self.renewing.take().unwrap_or(self.renewed);
    }

    /// Returns the answer to a call for the lock.
    pub(super) fn granted(&mut self, message: &[u8]) -> Answer<'static> {
        match messages::read_lock(message) {
            Ok((revision, key)) => {
                self.key = key.to_vec();
                self.revision = revision;
                Answer::Held { token: revision, until: self.renewed + self.lasts }
            }
            Err(error) => Answer::Failed(ErrorKind::Protocol, error.to_string()),
        }
    }

    /// Returns the failure of a call for the lock.
    pub(super) fn refused(&mut self, what: String) -> Answer<'static> {
        let is_gone = LEASE_GONE.iter().any(|text| what.contains(text));
        self.lease.take_if(|_| is_gone);
        let kind = match is_gone {
            true if clock::now() > self.renewed + self.lasts => ErrorKind::LeaseExpired,
            true => ErrorKind::WrongValue,
            false => ErrorKind::Status,
        };
        Answer::Failed(kind, what)
    }

    /// Returns the key that a client with this lease has in a lock (`concurrency.Mutex`).
    pub(super) fn key_of(number: u64, lease: u64) -> Vec<u8> {
        format!("{}/{lease:x}", lock_name(number)).into_bytes()
    }
}
