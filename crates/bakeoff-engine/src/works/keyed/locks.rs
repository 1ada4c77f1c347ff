//! Runs the operation `lock`: acquires the lock of a key, reads and writes the key, and releases the lock.
//!
//! A client holds a lock from the moment at which it reads the grant until it sends the release, or until its lease
//! must have ended by its own clock. All clients have one clock. So if two of them hold a lock at a time, the system
//! granted it twice: a release is noted before it is sent, and a grant after it was read.
//!
//! Two more things show a broken lock: tokens of successive grants that do not rise, and a write that replaces what
//! another holder has replaced.
//!
//! Not here: requests for locks (each system's session), judging reads (`mod`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::ledger::WriteOutcome;
use bakeoff_core::measurement::ErrorKind;
use bakeoff_core::study::Operation;
use bakeoff_core::units::latency_text;

use super::places::Places;
use super::two_step::{Halves, RequestHalf, Step};
use super::{Answer, KvWork, LockStep, PendingOperation};
use crate::work::{Failure, Success};

/// Holders of all locks, by key number.
#[derive(Default)]
pub(super) struct LockTable(Places<HashMap<u64, LockState>>);

/// Holds what clients know of one lock.
#[derive(Default)]
struct LockState {
    holder: Option<Holder>,
    /// Client of the newest grant, which may have released the lock.
    newest: Option<Holder>,
    /// Token of the newest grant; 0 before the first one, and for systems without tokens.
    token: u64,
}

/// Client that holds a lock.
#[derive(Debug, Clone, Copy)]
struct Holder {
    client: u32,
    /// Number of its operation.
    ticket: u64,
    grant: Grant,
}

/// Times of a grant.
#[derive(Debug, Clone, Copy)]
struct Grant {
    at: Instant,
    /// Earliest end of the client's lease.
    until: Instant,
}

impl LockTable {
    /// Notes a grant. Fails if another client still holds the lock, or if the token is not above the last one.
    fn granted(&self, key: u64, new: Holder, token: u64) -> Result<(), String> {
        let mut locks = self.0.lock(key);
        let lock = locks.entry(key).or_default();
        lock.newest = Some(new);
        let before = lock.holder.replace(new).filter(|holder| holder.grant.until > new.grant.at);
        let last = lock.token.max(token);
        let last = std::mem::replace(&mut lock.token, last);
        if let Some(before) = before {
            return Err(two_holders(&before, &new));
        }
        match token == 0 || token > last {
            true => Ok(()),
            false => Err(format!("a grant had token {token} after one with token {last}")),
        }
    }

    /// Returns the client that was granted a lock after `holder`.
    fn successor(&self, key: u64, holder: &Holder) -> Option<Holder> {
        let newest = self.0.lock(key).get(&key).and_then(|lock| lock.newest);
        newest.filter(|newest| newest.ticket != holder.ticket && newest.grant.at > holder.grant.at)
    }

    /// Notes that an operation no longer holds the lock.
    fn ended(&self, key: u64, ticket: u64) {
        if let Some(lock) = self.0.lock(key).get_mut(&key) {
            lock.holder.take_if(|holder| holder.ticket == ticket);
        }
    }
}

/// Describes a grant to a client while another one held the lock.
fn two_holders(first: &Holder, second: &Holder) -> String {
    let held = latency_text(second.grant.at.saturating_duration_since(first.grant.at));
    let (client, other) = (second.client, first.client);
    format!(
        "two holders: client {client} was granted the lock that client {other} had held for {held}"
    )
}

/// Lock that an operation of this worker holds.
pub(super) struct HeldLock {
    grant: Grant,
    /// First failure, to be reported after the release.
    failure: Option<Failure>,
}

/// Locks that operations of this worker hold, by the number of the operation.
pub(super) type HeldLocks = HashMap<u64, HeldLock>;

impl KvWork {
    /// Judges an answer to a request of a `lock`, and decides about the next one.
    pub(super) fn step_of_lock(
        &mut self,
        mut pending: PendingOperation,
        answer: Answer<'_>,
    ) -> Step {
        match (pending.halves, answer) {
            (Halves::Acquiring, Answer::Again) => {
                Step::GoesOn(pending, RequestHalf::lock(LockStep::Acquire))
            }
            (Halves::Acquiring, Answer::Held { token, until }) => {
                self.begin_to_hold(&pending, token, until);
                pending.halves = Halves::Reading { tries: 1 };
                Step::GoesOn(pending, RequestHalf::read())
            }
            (Halves::Acquiring, Answer::Unprocessed(what)) => {
                Step::Done(Err(Failure::unprocessed(what)))
            }
            (Halves::Acquiring, answer) => Step::Done(Err(refusal(answer))),
            (Halves::Reading { tries }, answer @ (Answer::Value(_) | Answer::Missing)) => {
                match self.after_read(&pending, tries, answer) {
                    Ok((halves, write)) => {
                        pending.halves = halves;
                        Step::GoesOn(pending, write)
                    }
                    Err(failure) => self.release(pending, Some(failure)),
                }
            }
            (Halves::Writing { replaced, hit, .. }, Answer::Done) => {
                let failure = self.after_write(&mut pending, replaced, hit).err();
                self.release(pending, failure)
            }
            (Halves::Releasing, Answer::Done) => Step::Done(self.end_lock(&pending)),
            (_, Answer::NotHeld { at_grant }) => {
                self.end_write(&pending, WriteOutcome::Refused);
                Step::Done(Err(self.lose_lock(&pending, at_grant)))
            }
            (Halves::Releasing, answer) => {
                let failure = self.end_lock(&pending).err();
                Step::Done(Err(failure.unwrap_or_else(|| refusal(answer))))
            }
            (_, answer) => {
                let outcome = match answer {
                    Answer::Refused(..) | Answer::Unprocessed(_) => WriteOutcome::Refused,
                    _ => WriteOutcome::Unknown,
                };
                self.end_write(&pending, outcome);
                self.release(pending, Some(refusal(answer)))
            }
        }
    }

    /// Notes a grant, and whether it was right.
    fn begin_to_hold(&mut self, pending: &PendingOperation, token: u64, until: Instant) {
        let grant = Grant { at: clock::now(), until };
        let &PendingOperation { client, ticket, key, .. } = pending;
        let failure = match until.checked_duration_since(grant.at) {
            // It knows that its lease may be over, so it does not count as a holder.
            None => {
                let late = latency_text(grant.at.saturating_duration_since(until));
                let what = format!("the lock was granted {late} after the client's lease ended");
                Some(Failure::new(ErrorKind::LeaseExpired, what))
            }
            Some(_) => {
                let granted =
                    self.keyed.locks.granted(key, Holder { client, ticket, grant }, token);
                granted.err().map(|what| Failure::new(ErrorKind::WrongValue, what))
            }
        };
        self.held.insert(ticket, HeldLock { grant, failure });
    }

    /// Continues with the release, after which the operation fails if anything has failed.
    fn release(&mut self, mut pending: PendingOperation, failure: Option<Failure>) -> Step {
        if let Some(held) = self.held.get_mut(&pending.ticket) {
            held.failure = held.failure.take().or(failure);
        }
        pending.halves = Halves::Releasing;
        Step::GoesOn(pending, RequestHalf::lock(LockStep::Release))
    }

    /// Notes that an operation sends its release, or ends without one.
    pub(super) fn stop_holding(&self, pending: &PendingOperation) {
        self.keyed.locks.ended(pending.key, pending.ticket);
    }

    /// Forgets the lock of an operation, and returns its result.
    fn end_lock(&mut self, pending: &PendingOperation) -> Result<Success, Failure> {
        self.stop_holding(pending);
        let held = self.held.remove(&pending.ticket);
        held.and_then(|held| held.failure).map_or_else(|| Ok(Success::default()), Err)
    }

    /// Forgets the lock of an operation that ends without an answer.
    pub(super) fn give_up_lock(&mut self, pending: &PendingOperation) {
        let _ = self.end_lock(pending);
    }

    /// Returns the failure of a client that does not hold its lock. It is the system's if the lease had time left, or
    /// if the lock was not the client's when it was granted.
    fn lose_lock(&mut self, pending: &PendingOperation, at_grant: bool) -> Failure {
        let now = clock::now();
        self.stop_holding(pending);
        let Some(held) = self.held.remove(&pending.ticket) else {
            return refusal(Answer::NotHeld { at_grant });
        };
        let Grant { at, until } = held.grant;
        let late = now.checked_duration_since(until);
        if at_grant {
            let late = late.unwrap_or(Duration::ZERO);
            let what = format!(
                "the lock was granted although the client's key in it did not exist, {} after its lease ended",
                latency_text(late)
            );
            return Failure::new(ErrorKind::WrongValue, what);
        }
        if let Some(failure) = held.failure {
            return failure;
        }
        if let Some(late) = late {
            let late = latency_text(late);
            let what = format!("the lock was lost {late} after the client's lease ended");
            return Failure::new(ErrorKind::LeaseExpired, what);
        }
        let &PendingOperation { client, ticket, key, .. } = pending;
        let own = Holder { client, ticket, grant: held.grant };
        let what = match self.keyed.locks.successor(key, &own) {
            Some(other) => two_holders(&own, &other),
            None => {
                let since = latency_text(now.saturating_duration_since(at));
                format!("the lock was lost {since} after its grant, and the lease had time left")
            }
        };
        Failure::new(ErrorKind::WrongValue, what)
    }
}

/// Returns the failure of an operation that got this answer to a request for its lock.
fn refusal(answer: Answer<'_>) -> Failure {
    match answer {
        Answer::Failed(kind, what) | Answer::Refused(kind, what) => Failure::new(kind, what),
        Answer::Unprocessed(what) => Failure::new(ErrorKind::Reset, what),
        _ => {
            let what = format!("unexpected answer to a `{}`", Operation::Lock.name());
            Failure::new(ErrorKind::Protocol, what)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(client: u32, at: Instant, until: Duration) -> Holder {
        Holder { client, ticket: client.into(), grant: Grant { at, until: at + until } }
    }

    #[test]
    fn second_holder_at_a_time_is_a_violation() {
        let (locks, begin, lease) = (LockTable::default(), clock::now(), Duration::from_secs(10));
        let after = |ms| begin + Duration::from_millis(ms);
        assert_eq!(locks.granted(7, holder(1, after(0), lease), 0), Ok(()));
        assert_eq!(locks.granted(8, holder(2, after(1), lease), 0), Ok(()), "another lock");
        let twice = locks.granted(7, holder(3, after(5), lease), 0);
        let what = "two holders: client 3 was granted the lock that client 1 had held for 5.00 ms";
        assert_eq!(twice, Err(what.to_owned()));
        locks.ended(7, 1);
        let still = locks.granted(7, holder(4, after(6), lease), 0);
        assert!(still.is_err(), "the end of the first holder does not end the second");
        locks.ended(7, 4);
        assert_eq!(locks.granted(7, holder(5, after(9), lease), 0), Ok(()));
        let later = locks.granted(7, holder(6, after(10_009), lease), 0);
        assert_eq!(later, Ok(()), "the lease of the holder has ended");
    }

    #[test]
    fn tokens_of_grants_must_rise() {
        let (locks, begin, lease) = (LockTable::default(), clock::now(), Duration::from_secs(10));
        let grant = |token| {
            let granted = locks.granted(1, holder(1, begin, lease), token);
            locks.ended(1, 1);
            granted
        };
        assert_eq!(grant(0), Ok(()), "a system without tokens");
        assert_eq!((grant(5), grant(9)), (Ok(()), Ok(())));
        assert_eq!(grant(9), Err("a grant had token 9 after one with token 9".to_owned()));
        assert_eq!(grant(8), Err("a grant had token 8 after one with token 9".to_owned()));
    }
}
