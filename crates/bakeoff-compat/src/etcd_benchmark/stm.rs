//! Runs transactions as etcd's software transactional memory does: read keys, then write some of them if no other client
//! changed what was read.
//!
//! The calls are those of `client/v3/concurrency/stm.go`. Each key is read by a transaction of its own. A commit compares
//! the revisions that were read, and is tried again after a conflict. One operation is a whole transaction, with all of
//! its calls.
//!
//! Not here: locks around transactions, which etcd's benchmark has too.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bakeoff_engine::work::{Failure, NotIssued, Success};
use bakeoff_engine::works::grpc::{
    Call, CallReply, CallSlot, CallSource, FirstCall, NextStep, TimingSink,
};
use bakeoff_wire::etcd::{self, Branch, RangeQuery, Relation, TxnAnswer};
use bakeoff_wire::protobuf::put_varint;

use super::calls::{broken, refused, wrong};
use super::keys::{random_share, scattered};
use super::options::{Isolation, Transactions};
use super::seconds::SecondSink;

/// Bytes of a key, as in etcd's benchmark.
const KEY_SIZE: usize = 16;

/// Transactions of a load, shared by its workers.
pub(super) struct StmLoad {
    pub(super) options: Transactions,
    pub(super) value: Vec<u8>,
    pub(super) seed: u64,
    /// Commits that met a conflict and were tried again.
    pub(super) conflicts: AtomicU64,
}

/// A key of a transaction.
struct StmKey {
    bytes: Vec<u8>,
    is_written: bool,
    /// Revision of its newest write when it was read; 0 if it did not exist.
    revision: u64,
}

/// A transaction in flight.
struct Transaction {
    keys: Vec<StmKey>,
    /// Number of keys that were read.
    read: usize,
    /// Revision of the first read.
    base: u64,
}

impl StmLoad {
    fn transaction(&self, ticket: u64) -> Transaction {
        let Transactions { keys, keys_per_txn, .. } = self.options;
        // Each transaction draws numbers of its own until it has enough different keys.
        let mut draws = (0..).map(|draw| scattered(draw, scattered(ticket, self.seed)) % keys);
        let mut numbers = BTreeSet::new();
        while (numbers.len() as u64) < keys_per_txn {
            numbers.extend(draws.next());
        }
        let writes = self.writes(ticket);
        // The smallest numbers would otherwise be written most often.
        let turn = scattered(ticket, !self.seed) % keys_per_txn.max(1);
        let keys = (0..).zip(numbers).map(|(place, number)| {
            let mut bytes = Vec::with_capacity(KEY_SIZE);
            put_varint(&mut bytes, number.saturating_mul(2));
            bytes.resize(KEY_SIZE, 0);
            let is_written = (place + turn) % keys_per_txn < writes;
            StmKey { bytes, is_written, revision: 0 }
        });
        Transaction { keys: keys.collect(), read: 0, base: 0 }
    }

    /// Returns the number of keys that a transaction writes. A fraction of a key is a chance: etcd's benchmark drops it,
    /// so its defaults, half of one key, write nothing.
    fn writes(&self, ticket: u64) -> u64 {
        let percent = self.options.write_percent;
        let hundredths = self.options.keys_per_txn * percent;
        let chance = (hundredths % 100) as f64 / 100.0;
        let one_more = random_share(ticket, self.seed.rotate_left(32)) < chance;
        hundredths / 100 + u64::from(one_more)
    }

    /// Writes the next request of a transaction: the read of a key, or the commit.
    fn write_request(&self, transaction: &Transaction, message: &mut Vec<u8>) -> Call {
        let isolation = self.options.isolation;
        if let Some(key) = transaction.keys.get(transaction.read) {
            let is_first = transaction.read == 0;
            let query = RangeQuery {
                key: &key.bytes,
                revision: if isolation.reads_one_revision() { transaction.base } else { 0 },
                serializable: !(isolation.reads_one_revision() && is_first),
                ..RangeQuery::default()
            };
            etcd::write_txn_range(Branch::Then, &query, message);
            return Call::unary(0);
        }
        let written = || transaction.keys.iter().filter(|key| key.is_written);
        if isolation != Isolation::ReadCommitted {
            for StmKey { bytes, revision, .. } in &transaction.keys {
                etcd::write_compare_revision(bytes, Relation::Equal, *revision, message);
            }
        }
        if isolation == Isolation::SerializableSnapshot {
            for key in written() {
                etcd::write_compare_revision(
                    &key.bytes,
                    Relation::Less,
                    transaction.base + 1,
                    message,
                );
            }
        }
        for key in written() {
            etcd::write_txn_put(Branch::Then, &key.bytes, &self.value, message);
        }
        if isolation.reads_one_revision() {
            for StmKey { bytes, .. } in &transaction.keys {
                let query = RangeQuery { key: bytes, ..RangeQuery::default() };
                etcd::write_txn_range(Branch::Else, &query, message);
            }
        }
        Call::unary(0)
    }

    /// Judges an answer, and writes the next request if the transaction goes on.
    fn answered(
        &self,
        transaction: &mut Transaction,
        answer: &[u8],
        message: &mut Vec<u8>,
    ) -> NextStep {
        let (mut ranges, mut puts) = (Vec::new(), 0);
        let summary = etcd::read_txn(answer, |one| match one {
            TxnAnswer::Range(range) => ranges.push(range),
            TxnAnswer::Put => puts += 1,
            TxnAnswer::Other => {}
        });
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) => return NextStep::End(Err(broken(&error))),
        };
        let is_commit = transaction.read == transaction.keys.len();
        let read = if is_commit {
            0..transaction.keys.len()
        } else {
            transaction.read..transaction.read + 1
        };
        if is_commit && summary.succeeded {
            let writes = transaction.keys.iter().filter(|key| key.is_written).count();
            let whole = match puts == writes {
                true => Ok(Success::default()),
                false => Err(wrong(format!("{puts} puts of {writes} in a transaction"))),
            };
            return NextStep::End(whole);
        }
        if is_commit {
            self.conflicts.fetch_add(1, Ordering::Relaxed);
            if !self.options.isolation.reads_one_revision() {
                // It reads its keys again, one by one.
                (transaction.read, transaction.base) = (0, 0);
                return NextStep::Call(self.write_request(transaction, message));
            }
            // The answer has all keys, so the next commit needs no read before it.
            transaction.base = 0;
        }
        if ranges.len() != read.len() {
            let (seen, wanted) = (ranges.len(), read.len());
            return NextStep::End(Err(wrong(format!("{seen} keys of {wanted} in a transaction"))));
        }
        for (key, range) in transaction.keys[read.clone()].iter_mut().zip(ranges) {
            match revision_of(&key.bytes, range) {
                Ok(revision) => key.revision = revision,
                Err(failure) => return NextStep::End(Err(failure)),
            }
        }
        if transaction.base == 0 {
            transaction.base = summary.revision;
        }
        transaction.read = read.end;
        NextStep::Call(self.write_request(transaction, message))
    }
}

/// Returns the revision of a key's newest write in a range of that key; 0 if there is none.
fn revision_of(key: &[u8], range: &[u8]) -> Result<u64, Failure> {
    let mut is_other = false;
    let read = etcd::read_range(range, |found, _| is_other |= found != key);
    read.map_err(|error| broken(&error))?;
    if is_other {
        return Err(wrong("another key than the one that was read"));
    }
    let versioned = etcd::read_versioned(range).map_err(|error| broken(&error))?;
    Ok(versioned.map_or(0, |(_, revision)| revision))
}

/// Makes the transactions of one worker.
pub(super) struct StmCalls {
    load: Arc<StmLoad>,
    running: HashMap<CallSlot, Transaction>,
    seconds: Option<SecondSink>,
}

impl StmCalls {
    pub(super) fn new(load: Arc<StmLoad>, seconds: Option<SecondSink>) -> Self {
        Self { load, running: HashMap::new(), seconds }
    }
}

impl CallSource for StmCalls {
    fn operations(&self) -> Vec<String> {
        vec!["stm".to_owned()]
    }

    fn methods(&self) -> &'static [&'static str] {
        &[etcd::TXN]
    }

    fn begin(
        &mut self,
        slot: CallSlot,
        ticket: u64,
        message: &mut Vec<u8>,
    ) -> Result<FirstCall, NotIssued> {
        let transaction = self.load.transaction(ticket);
        let call = self.load.write_request(&transaction, message);
        self.running.insert(slot, transaction);
        Ok(FirstCall { operation: 0, call })
    }

    fn reply(&mut self, slot: CallSlot, reply: CallReply<'_>, message: &mut Vec<u8>) -> NextStep {
        let (answer, transaction) = match (reply, self.running.get_mut(&slot)) {
            (CallReply::Answer(Ok(answer)), Some(transaction)) => (answer, transaction),
            (CallReply::Answer(Err(status)) | CallReply::Ended(Err(status)), _) => {
                return NextStep::End(Err(refused(&status)));
            }
            _ => return NextStep::End(Err(wrong("a reply to no call of a transaction"))),
        };
        self.load.answered(transaction, answer, message)
    }

    fn timed(&mut self) -> Option<&mut dyn TimingSink> {
        self.seconds.as_mut().map(|sink| sink as &mut dyn TimingSink)
    }
}

#[cfg(test)]
mod tests {
    use bakeoff_wire::protobuf::{put_bytes, put_uint};

    use super::*;

    fn load(isolation: Isolation, keys_per_txn: u64, write_percent: u64) -> StmLoad {
        StmLoad {
            options: Transactions { isolation, keys: 10, keys_per_txn, write_percent },
            value: b"v".to_vec(),
            seed: 3,
            conflicts: AtomicU64::new(0),
        }
    }

    /// Returns a `TxnResponse` at revision 9 with the revisions of keys that exist.
    fn response(succeeded: bool, ranges: &[(&[u8], u64)], puts: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, b"\x18\x09");
        put_uint(&mut out, 2, succeeded.into());
        for (key, revision) in ranges {
            let (mut pair, mut range, mut answer) = (Vec::new(), Vec::new(), Vec::new());
            put_bytes(&mut pair, 1, key);
            put_uint(&mut pair, 3, *revision);
            if *revision > 0 {
                put_bytes(&mut range, 2, &pair);
            }
            put_bytes(&mut answer, 1, &range);
            put_bytes(&mut out, 3, &answer);
        }
        (0..puts).for_each(|_| put_bytes(&mut out, 3, b"\x12\0"));
        out
    }

    #[test]
    fn a_fraction_of_a_key_is_written_by_chance() {
        let writes = |load: &StmLoad| (0..1000).map(|ticket| load.writes(ticket)).sum::<u64>();
        assert!((440..560).contains(&writes(&load(Isolation::RepeatableReads, 1, 50))));
        assert_eq!(writes(&load(Isolation::RepeatableReads, 4, 50)), 2000);
        assert_eq!(writes(&load(Isolation::RepeatableReads, 4, 0)), 0);
        assert_eq!(writes(&load(Isolation::RepeatableReads, 4, 100)), 4000);
    }

    #[test]
    fn a_transaction_has_different_keys() {
        let load = load(Isolation::RepeatableReads, 10, 30);
        for ticket in 0..50 {
            let transaction = load.transaction(ticket);
            let keys: BTreeSet<_> = transaction.keys.iter().map(|key| key.bytes.clone()).collect();
            assert_eq!(keys.len(), 10);
            assert_eq!(transaction.keys.iter().filter(|key| key.is_written).count(), 3);
        }
    }

    #[test]
    fn repeatable_reads_are_read_again_after_a_conflict() {
        let load = load(Isolation::RepeatableReads, 2, 50);
        let mut transaction = load.transaction(0);
        let keys: Vec<Vec<u8>> = transaction.keys.iter().map(|key| key.bytes.clone()).collect();
        let mut message = Vec::new();
        let mut step = |answer: &[u8]| {
            message.clear();
            let next = load.answered(&mut transaction, answer, &mut message);
            (next, message.clone())
        };
        let (_, second) = step(&response(true, &[(&keys[0], 5)], 0));
        assert!(second.ends_with(&[&keys[1][..], b"\x38\x01"].concat()), "a serializable read");
        let (_, commit) = step(&response(true, &[(&keys[1], 0)], 0));
        let mut expected = Vec::new();
        etcd::write_compare_revision(&keys[0], Relation::Equal, 5, &mut expected);
        etcd::write_compare_revision(&keys[1], Relation::Equal, 0, &mut expected);
        assert!(commit.starts_with(&expected));
        let (next, again) = step(&response(false, &[], 0));
        assert!(matches!(next, NextStep::Call(_)));
        assert!(again.ends_with(&[&keys[0][..], b"\x38\x01"].concat()));
        assert_eq!(load.conflicts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn snapshots_commit_again_with_what_the_conflict_read() {
        let load = load(Isolation::SerializableSnapshot, 1, 100);
        let mut transaction = load.transaction(0);
        let key = transaction.keys[0].bytes.clone();
        let mut message = Vec::new();
        load.answered(&mut transaction, &response(true, &[(&key, 5)], 0), &mut message);
        message.clear();
        let conflict = response(false, &[(&key, 8)], 0);
        let next = load.answered(&mut transaction, &conflict, &mut message);
        assert!(matches!(next, NextStep::Call(_)));
        let mut expected = Vec::new();
        etcd::write_compare_revision(&key, Relation::Equal, 8, &mut expected);
        etcd::write_compare_revision(&key, Relation::Less, 10, &mut expected);
        etcd::write_txn_put(Branch::Then, &key, b"v", &mut expected);
        assert!(message.starts_with(&expected));
        let end = |transaction: &mut Transaction, answer: &[u8]| match load.answered(
            transaction,
            answer,
            &mut Vec::new(),
        ) {
            NextStep::End(result) => result.map(drop).map_err(|failure| failure.what),
            _ => panic!("the transaction goes on"),
        };
        assert!(
            end(&mut transaction, &response(true, &[], 0)).unwrap_err().contains("0 puts of 1")
        );
        assert_eq!(end(&mut transaction, &response(true, &[], 1)), Ok(()));
    }

    #[test]
    fn the_read_of_another_key_is_a_wrong_answer() {
        let load = load(Isolation::Serializable, 1, 0);
        let mut transaction = load.transaction(0);
        let answer = response(true, &[(b"other", 5)], 0);
        let NextStep::End(Err(failure)) = load.answered(&mut transaction, &answer, &mut Vec::new())
        else {
            panic!("it was accepted")
        };
        assert!(failure.what.contains("another key"), "{}", failure.what);
    }
}
