//! Keeps leases in turn, and tells a lease that was renewed too late from one that the system dropped too early.
//!
//! Leases belong to the keys of the workload and not to connections, so a few clients keep many. A renewal reaches the
//! system after it was sent, so the lease lasts at least its time from there on.
//!
//! Not here: requests for leases (each system's session).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::units::figure_text;

use super::places::Places;
use crate::work::Failure;

/// Leases of all keys.
#[derive(Default)]
pub(super) struct LeaseTable {
    leases: Places<HashMap<u64, Lease>>,
    /// Number of renewals begun.
    turns: AtomicU64,
}

/// Lease of a key.
struct Lease {
    /// Name that the system gave it; `None` if it is gone.
    name: Option<Box<str>>,
    /// Number of leases that the key has had.
    generation: u32,
    /// Sending of its grant or last successful renewal.
    renewed: Instant,
}

impl LeaseTable {
    /// Returns which of `count` leases is renewed next. Each has its turn.
    pub(super) fn next(&self, count: u64) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) % count.max(1)
    }

    /// Appends the name of a key's lease. Returns its generation; 0 if the key has no lease.
    pub(super) fn name(&self, key: u64, out: &mut String) -> u32 {
        match self.leases.lock(key).get(&key) {
            Some(Lease { name: Some(name), generation, .. }) => {
                out.push_str(name);
                *generation
            }
            _ => 0,
        }
    }

    /// Notes a lease that was asked for at `sent`, or renewed if it has the name of the key's lease.
    pub(super) fn granted(&self, key: u64, name: &str, sent: Option<Instant>) {
        let Some(sent) = sent else { return };
        let mut leases = self.leases.lock(key);
        let lease = leases.entry(key).or_insert(Lease { name: None, generation: 0, renewed: sent });
        if lease.name.as_deref() != Some(name) {
            lease.name = Some(name.into());
            lease.generation += 1;
            lease.renewed = sent;
        }
        lease.renewed = lease.renewed.max(sent);
    }

    /// Notes that the key's lease of this generation was renewed.
    pub(super) fn renewed(&self, key: u64, generation: u32, sent: Option<Instant>) {
        if let (Some(lease), Some(sent)) = (self.leases.lock(key).get_mut(&key), sent)
            && lease.generation == generation
        {
            lease.renewed = lease.renewed.max(sent);
        }
    }

    /// Forgets a lease that is gone, and returns the failure of its renewal. It is the system's if the lease had time
    /// left.
    pub(super) fn expired(
        &self,
        key: u64,
        generation: u32,
        now: Instant,
        lasts: Duration,
    ) -> Failure {
        let text = |time: Duration| figure_text(time.as_secs_f64());
        let mut leases = self.leases.lock(key);
        let lease = leases.get_mut(&key).filter(|lease| lease.generation == generation);
        let Some(lease) = lease.and_then(|lease| lease.name.take().map(|_| lease)) else {
            let what = match generation {
                0 => "there was no lease to renew",
                _ => "another renewal had found the lease gone",
            };
            let what = what.to_owned();
            return Failure::new(ErrorKind::LeaseExpired, what);
        };
        let since = now.saturating_duration_since(lease.renewed);
        if since >= lasts {
            let what = format!("no renewal for {} s of a lease of {} s", text(since), text(lasts));
            return Failure::new(ErrorKind::LeaseExpired, what);
        }
        let what = format!(
            "a lease of {} s was gone within {} s of its renewal",
            text(lasts),
            text(since)
        );
        Failure::new(ErrorKind::WrongValue, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(leases: &LeaseTable, key: u64) -> (u32, String) {
        let mut name = String::new();
        (leases.name(key, &mut name), name)
    }

    #[test]
    fn lease_that_had_time_left_is_a_wrong_answer() {
        let begin = bakeoff_clock::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let lasts = Duration::from_secs(60);
        let leases = LeaseTable::default();
        let gone = |key, generation, seconds| {
            let failure = leases.expired(key, generation, after(seconds), lasts);
            (failure.kind, failure.what)
        };
        leases.granted(1, "a", Some(begin));
        assert_eq!(generation(&leases, 1), (1, "a".to_owned()));
        let late = "no renewal for 68.0 s of a lease of 60.0 s".to_owned();
        assert_eq!(gone(1, 1, 68), (ErrorKind::LeaseExpired, late));
        assert_eq!(generation(&leases, 1), (0, String::new()));
        let known = "another renewal had found the lease gone".to_owned();
        assert_eq!(gone(1, 1, 68), (ErrorKind::LeaseExpired, known));
        leases.granted(1, "b", Some(after(68)));
        assert_eq!(gone(1, 1, 70).0, ErrorKind::LeaseExpired, "the earlier lease");
        leases.renewed(1, 2, Some(after(80)));
        let early = "a lease of 60.0 s was gone within 12.0 s of its renewal".to_owned();
        assert_eq!(gone(1, 2, 92), (ErrorKind::WrongValue, early));
    }

    #[test]
    fn grant_of_the_same_name_is_a_renewal() {
        let begin = bakeoff_clock::now();
        let later = begin + Duration::from_secs(30);
        let leases = LeaseTable::default();
        leases.granted(7, "token", Some(begin));
        leases.granted(7, "token", Some(later));
        assert_eq!(generation(&leases, 7), (1, "token".to_owned()));
        let lasts = Duration::from_secs(60);
        let gone = leases.expired(7, 1, begin + Duration::from_secs(70), lasts);
        assert_eq!(gone.kind, ErrorKind::WrongValue, "{}", gone.what);
    }

    #[test]
    fn each_lease_has_its_turn() {
        let leases = LeaseTable::default();
        let turns: Vec<u64> = (0..6).map(|_| leases.next(4)).collect();
        assert_eq!(turns, [0, 1, 2, 3, 0, 1]);
    }
}
