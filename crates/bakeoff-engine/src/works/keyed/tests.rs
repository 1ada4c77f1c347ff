//! Tests operations of two requests, scans and transactions, on a store in memory that can forget versions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bakeoff_core::study::{KeyOrder, Keys, Payload, ValueSizes, Workload};

use smallvec::{SmallVec, smallvec};

use super::*;

/// Stores keys with their values and versions.
#[derive(Default)]
struct Store {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    version: u64,
    forgets_versions: bool,
    halves_transactions: bool,
}

impl Store {
    fn transact(
        &mut self,
        tag: Tag,
        compare: Compare,
        group: &[GroupKey],
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) {
        let version = self.keys.get(&group[0].name).map_or(0, |one| one.1);
        match compare {
            Compare::Read => {
                let value = |key: &GroupKey| self.keys.get(&key.name).map(|one| one.0.clone());
                let values: Vec<_> = group.iter().map(value).collect();
                if values.iter().all(Option::is_none) {
                    return on(tag, Answer::MissingAt(self.version));
                }
                on(tag, Answer::Group(&mut values.iter().map(Option::as_deref), version));
            }
            Compare::Replace(wanted) if wanted != version => on(tag, Answer::Conflict),
            Compare::Replace(_) => {
                self.version += 1;
                let written = if self.halves_transactions { group.len() / 2 } else { group.len() };
                for GroupKey { name, value } in &group[..written] {
                    self.keys.insert(name.clone(), (value.clone(), self.version));
                }
                on(tag, Answer::Done);
            }
        }
    }
}

/// Remembers a request and the tag of its answer.
struct SentRequest {
    tag: Tag,
    operation: Operation,
    key: Vec<u8>,
    value: Vec<u8>,
    compare: Compare,
    limit: usize,
    group: Vec<GroupKey>,
}

/// Answers all requests once any bytes arrive.
struct MemorySession {
    store: Arc<Mutex<Store>>,
    asked: Vec<SentRequest>,
}

impl Session for MemorySession {
    fn open(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }
}

impl KvSession for MemorySession {
    fn request(&mut self, tag: Tag, request: &Request<'_>, _: &mut Vec<u8>) -> bool {
        let Request { operation, compare, limit, reads, .. } = *request;
        assert_eq!(reads, ReadConsistency::Linearizable, "no session knows `freshest`");
        let (key, value) = (request.key.to_vec(), request.value.to_vec());
        let (limit, group) = (limit as usize, request.group.to_vec());
        self.asked.push(SentRequest { tag, operation, key, value, compare, limit, group });
        true
    }

    fn receive(
        &mut self,
        _: &[u8],
        _: &mut Vec<u8>,
        on: &mut dyn FnMut(Tag, Answer<'_>),
    ) -> Result<(), ProtocolError> {
        let mut store = self.store.lock().unwrap();
        for SentRequest { tag, operation, key, value, compare, limit, group } in
            self.asked.drain(..)
        {
            if operation.is_of_groups() {
                store.transact(tag, compare, &group, on);
                continue;
            }
            let found = store.keys.get(&key).cloned();
            match (operation, compare, found) {
                (Operation::Scan, ..) => {
                    let range = store.keys.range(key..).take(limit);
                    on(
                        tag,
                        Answer::Pairs(&mut range.map(|(key, (value, _))| (&key[..], &value[..]))),
                    );
                }
                (Operation::Get, _, Some((value, _))) => on(tag, Answer::Value(&value)),
                (Operation::CompareAndSet, Compare::Read, Some((value, version))) => {
                    on(tag, Answer::Versioned(&value, version));
                }
                (Operation::Get, ..) | (_, Compare::Read, None)
                    if !matches!(operation, Operation::Put | Operation::Watch) =>
                {
                    on(tag, Answer::MissingAt(store.version));
                }
                (Operation::Delete, ..) => {
                    store.version += 1;
                    store.keys.remove(&key);
                    on(tag, Answer::DoneAt(store.version));
                }
                (Operation::CompareAndSet, Compare::Replace(wanted), found)
                    if !store.forgets_versions
                        && found.as_ref().map_or(0, |one| one.1) != wanted =>
                {
                    on(tag, Answer::Conflict);
                }
                _ => {
                    store.version += 1;
                    let version = store.version;
                    store.keys.insert(key, (value, version));
                    on(tag, Answer::Done);
                }
            }
        }
        Ok(())
    }
}

/// Runs clients with one operation each on one store.
struct Desk {
    store: Arc<Mutex<Store>>,
    keyed: Arc<KeyedState>,
    work: KvWork,
    sessions: Vec<MemorySession>,
    pendings: Vec<SmallVec<[Option<PendingOperation>; 1]>>,
    next: u64,
}

impl Desk {
    /// Creates nine keys. All clients use the first of them if the order is `Same`.
    fn new(operation: Operation, order: KeyOrder, clients: u32) -> Self {
        Self::of_shares(operation, order, clients, LoadShare::WHOLE, LoadShare::WHOLE)
    }

    /// Creates one worker with these shares of the workers and of the generators.
    fn of_shares(
        operation: Operation,
        order: KeyOrder,
        clients: u32,
        worker: LoadShare,
        generator: LoadShare,
    ) -> Self {
        let workload = Workload {
            name: "w".to_owned(),
            mix: BTreeMap::from([(operation, 1)]),
            keys: Keys { count: 9, size: 64, order, per_directory: 0 },
            payload: Payload::Values(ValueSizes::Fixed(100)),
            with: BTreeMap::from([("scan".to_owned(), "3".to_owned())]),
            reads: ReadConsistency::Freshest,
            fill: true,
            watchers: None,
            loads: Vec::new(),
            systems: Vec::new(),
        };
        let store = Arc::new(Mutex::new(Store::default()));
        let keyed = KeyedState::new(&workload, 7, StalenessTracking::NotMeasured);
        let keyed = Arc::new(keyed.owned(generator).with_history());
        let reads = workload.reads;
        let reading = Reading { reads, may_be_stale: false, lists_are_complete: true };
        let of = store.clone();
        let connect: Connect =
            Box::new(move |_, _| Box::new(MemorySession { store: of.clone(), asked: Vec::new() }));
        let source = Source::mix(&workload, 7, 8);
        let work = KvWork::new(keyed.clone(), source, reading, worker, connect);
        let mut work = work.recording(["a".to_owned()].into_iter());
        (0..clients).for_each(|client| drop(work.session(client, 0)));
        let session = |_| MemorySession { store: store.clone(), asked: Vec::new() };
        let sessions = (0..clients).map(session).collect();
        let pendings = (0..clients).map(|_| smallvec![None]).collect();
        Self { store, keyed, work, sessions, pendings, next: 0 }
    }

    fn fill(&mut self) {
        let mut store = self.store.lock().unwrap();
        for key in 0..self.keyed.space.count() {
            let (mut name, mut value) = (Vec::new(), Vec::new());
            self.keyed.space.write_key(key, &mut name);
            let mut history = self.keyed.ledger.history(key).unwrap();
            let sequence = history.begin(bakeoff_core::ledger::Write::Put);
            history.end(sequence, WriteOutcome::Acknowledged, || std::time::Duration::ZERO);
            let stamp = bakeoff_core::workload::Stamp { writer: 0, sequence: sequence.into() };
            self.keyed.values.write_value(key, stamp, &mut value);
            store.version += 1;
            let version = store.version;
            store.keys.insert(name, (value, version));
        }
    }

    fn issue(&mut self, client: usize) {
        let session = &mut self.sessions[client];
        let issued = self.work.issue(session, client as u32, 0, self.next, &mut Vec::new());
        let Ok(IssuedOperation { pending, .. }) = issued else { panic!("it is issued") };
        self.pendings[client][0] = Some(pending);
        self.next += 1;
    }

    /// Delivers a client's answers and returns the result of a completed operation.
    fn receive(&mut self, client: usize) -> Option<Result<Success, Failure>> {
        let mut done = Vec::new();
        let (session, pendings) = (&mut self.sessions[client], &mut self.pendings[client]);
        self.work.receive(session, b"", &mut Vec::new(), pendings, &mut done).unwrap();
        assert_eq!(
            done.is_empty(),
            self.pendings[client][0].is_some(),
            "either ended or under way"
        );
        done.pop().map(|done| done.result)
    }
}

#[track_caller]
fn failed(result: Option<Result<Success, Failure>>, kind: ErrorKind, what: &str) {
    match result {
        Some(Err(failure)) => {
            assert_eq!(failure.kind, kind, "{}", failure.what);
            assert!(failure.what.contains(what), "{}", failure.what);
        }
        _ => panic!("it is no failure"),
    }
}

fn acknowledged(desk: &Desk) -> Vec<u64> {
    desk.keyed.ledger.acknowledged().iter().map(|one| one.key).collect()
}

#[test]
fn read_modify_write_is_one_operation_with_two_requests() {
    let mut desk = Desk::new(Operation::ReadModifyWrite, KeyOrder::Same, 1);
    // The key is missing at first, then holds the written value.
    for hit in [false, true] {
        desk.issue(0);
        assert!(desk.receive(0).is_none(), "it has only read");
        let Some(Ok(success)) = desk.receive(0) else { panic!("it succeeds") };
        assert_eq!(success.hit, Some(hit));
    }
    assert_eq!(acknowledged(&desk), [0]);
    desk.store.lock().unwrap().keys.clear();
    desk.issue(0);
    failed(
        desk.receive(0),
        ErrorKind::WrongValue,
        "missing, although a write of it was acknowledged",
    );
}

#[test]
fn compare_and_set_reads_again_after_a_conflict() {
    let mut desk = Desk::new(Operation::CompareAndSet, KeyOrder::Same, 2);
    desk.issue(0);
    desk.issue(1);
    assert!(desk.receive(0).is_none() && desk.receive(1).is_none(), "both have read");
    assert!(matches!(desk.receive(0), Some(Ok(_))));
    assert!(desk.receive(1).is_none(), "a conflict");
    assert!(desk.receive(1).is_none(), "it has read again");
    assert!(matches!(desk.receive(1), Some(Ok(_))));
    assert_eq!(desk.store.lock().unwrap().version, 2);
}

#[test]
fn replacing_the_same_write_twice_is_a_lost_update() {
    let mut desk = Desk::new(Operation::CompareAndSet, KeyOrder::Same, 2);
    desk.fill();
    desk.store.lock().unwrap().forgets_versions = true;
    desk.issue(0);
    desk.issue(1);
    assert!(desk.receive(0).is_none() && desk.receive(1).is_none(), "both have read");
    assert!(matches!(desk.receive(0), Some(Ok(_))));
    failed(desk.receive(1), ErrorKind::WrongValue, "write 1 of the key was replaced twice");
}

#[test]
fn move_writes_its_group_and_reads_again_after_a_conflict() {
    let mut desk = Desk::new(Operation::Move, KeyOrder::Same, 2);
    desk.issue(0);
    desk.issue(1);
    assert!(desk.receive(0).is_none() && desk.receive(1).is_none(), "both have read");
    assert!(matches!(desk.receive(0), Some(Ok(Success { hit: Some(false), .. }))));
    assert!(desk.receive(1).is_none(), "a conflict");
    assert!(desk.receive(1).is_none(), "it has read again");
    assert!(matches!(desk.receive(1), Some(Ok(Success { hit: Some(true), .. }))));
    assert_eq!(desk.store.lock().unwrap().keys.len(), 4, "a key for each of the group");
    assert_eq!(acknowledged(&desk), [0], "a group counts as a key");
    assert_eq!(
        recorded(desk),
        [
            "0 Missing(None) Done",
            "1 Missing(None) Done",
            "0 Create(1, None) Done",
            "1 Create(2, None) Refused",
            "1 Read(1) Done",
            "1 CompareAndSet { expected: 1, value: 3 } Done",
        ]
    );
}

#[test]
fn missing_group_is_lost_if_a_write_of_it_was_acknowledged() {
    let mut desk = Desk::new(Operation::Look, KeyOrder::Same, 1);
    desk.issue(0);
    assert!(matches!(desk.receive(0), Some(Ok(Success { hit: Some(false), .. }))));
    desk.fill();
    desk.store.lock().unwrap().keys.clear();
    desk.issue(0);
    let what = "missing, although a write of it was acknowledged";
    failed(desk.receive(0), ErrorKind::WrongValue, what);
}

#[test]
fn transaction_that_is_applied_in_part_is_a_wrong_answer() {
    let mut desk = Desk::new(Operation::Move, KeyOrder::Same, 1);
    let one = |desk: &mut Desk| {
        desk.issue(0);
        desk.receive(0).or_else(|| desk.receive(0))
    };
    assert!(matches!(one(&mut desk), Some(Ok(_))));
    desk.store.lock().unwrap().halves_transactions = true;
    assert!(matches!(one(&mut desk), Some(Ok(_))), "no read has found it yet");
    failed(
        one(&mut desk),
        ErrorKind::WrongValue,
        "a transaction is seen in part: key 0 of the group holds write 2, key 2 holds write 1",
    );
    desk.store.lock().unwrap().keys.pop_last();
    failed(one(&mut desk), ErrorKind::WrongValue, "key 2 holds write 1");
    let first = desk.store.lock().unwrap().keys.pop_first();
    assert!(first.is_some());
    failed(one(&mut desk), ErrorKind::WrongValue, "key 0 of the group is missing, key 1 holds");
}

#[test]
fn scan_finds_missing_keys_and_foreign_values() {
    let mut desk = Desk::new(Operation::Scan, KeyOrder::Sequential, 1);
    desk.fill();
    // Runs nine scans of three keys. The last two reach the end of the key space.
    for _ in 0..9 {
        desk.issue(0);
        assert!(matches!(desk.receive(0), Some(Ok(_))));
    }
    let name = |key| {
        let mut name = Vec::new();
        desk.keyed.space.write_key(key, &mut name);
        name
    };
    let (second, third) = (name(1), name(2));
    {
        let mut store = desk.store.lock().unwrap();
        let value = store.keys[&third].clone();
        store.keys.insert(second.clone(), value);
    }
    desk.issue(0);
    failed(desk.receive(0), ErrorKind::WrongValue, "not written to this key");
    desk.store.lock().unwrap().keys.remove(&second);
    desk.issue(0);
    failed(desk.receive(0), ErrorKind::WrongValue, "key 1 is missing in a scan from key 1");
}

#[test]
fn watch_writes_the_own_key_of_its_client() {
    let mut desk = Desk::new(Operation::Watch, KeyOrder::Same, 12);
    for client in 0..12 {
        desk.issue(client);
        let key = desk.sessions[client].asked[0].key.clone();
        assert_eq!(desk.keyed.space.index_of(&key), Some(client as u64 % 9));
        assert!(matches!(desk.receive(client), Some(Ok(_))));
    }
    assert_eq!(acknowledged(&desk), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn watching_clients_keep_to_the_keys_of_their_generator() {
    // Two generators have two workers each. Workers take turns, and so do keys.
    let second = LoadShare { index: 1, of: 2 };
    let own_keys = |worker: u32| {
        let worker = LoadShare { index: worker, of: 4 };
        let mut desk = Desk::of_shares(Operation::Watch, KeyOrder::Same, 3, worker, second);
        let mut keys = Vec::new();
        for client in [2, 0, 1] {
            desk.issue(client);
            let key = desk.sessions[client].asked[0].key.clone();
            keys.push(desk.keyed.space.index_of(&key).unwrap());
            assert!(matches!(desk.receive(client), Some(Ok(_))));
        }
        let mut audited = keys.clone();
        audited.sort_unstable();
        audited.dedup();
        assert_eq!(acknowledged(&desk), audited, "each write is remembered");
        keys
    };
    // Keys 1, 3, 5 and 7 belong to the second generator. Client numbers interleave across its workers.
    assert_eq!(own_keys(1), [1, 1, 5], "clients 4, 0, 2 of four keys");
    assert_eq!(own_keys(3), [3, 3, 7], "clients 5, 1, 3");
}

/// Returns the recorded operations in the order of their ends, as `client action outcome`.
fn recorded(desk: Desk) -> Vec<String> {
    let Desk { keyed, work, .. } = desk;
    drop(work);
    let history = keyed.history().unwrap().take();
    assert_eq!(history.recorded, history.operations.len() as u64);
    assert_eq!(history.nodes, ["a"]);
    let texts = history.operations.iter().map(|one| {
        assert!(one.start > 0 && one.start <= one.end && one.node == 0, "{one:?}");
        format!("{} {:?} {:?}", one.client, one.action(), one.outcome)
    });
    texts.collect()
}

#[test]
fn history_has_both_requests_of_a_compare_and_set() {
    let mut desk = Desk::new(Operation::CompareAndSet, KeyOrder::Same, 2);
    desk.fill();
    desk.issue(0);
    desk.issue(1);
    for client in [0, 1, 0, 1, 1, 1] {
        desk.receive(client);
    }
    assert_eq!(
        recorded(desk),
        [
            "0 Read(1) Done",
            "1 Read(1) Done",
            "0 CompareAndSet { expected: 1, value: 2 } Done",
            "1 CompareAndSet { expected: 1, value: 3 } Refused",
            "1 Read(2) Done",
            "1 CompareAndSet { expected: 2, value: 4 } Done",
        ]
    );
}

#[test]
fn history_has_the_witnesses_of_deletes() {
    let mut desk = Desk::new(Operation::Delete, KeyOrder::Same, 2);
    desk.fill();
    for client in 0..2 {
        desk.issue(client);
        desk.receive(client);
    }
    let place = desk.store.lock().unwrap().version;
    assert_eq!(
        recorded(desk),
        [format!("0 Delete(Some({place})) Done"), format!("1 Missing(Some({place})) Done")]
    );
}

#[test]
fn history_has_no_operation_that_was_not_sent() {
    let mut desk = Desk::new(Operation::Put, KeyOrder::Same, 3);
    let outcomes = [WriteOutcome::Unknown, WriteOutcome::NotSent, WriteOutcome::Refused];
    for (client, outcome) in outcomes.into_iter().enumerate() {
        desk.issue(client);
        let pending = desk.pendings[client][0].take().unwrap();
        desk.work.give_up(pending, outcome);
    }
    assert_eq!(recorded(desk), ["0 Write(1) Unknown", "2 Write(3) Refused"]);
}

#[test]
fn history_ends_when_it_is_taken() {
    let desk = Desk::new(Operation::Get, KeyOrder::Same, 1);
    let keyed = desk.keyed.clone();
    assert!(recorded(desk).is_empty());
    let history = keyed.history.as_ref().unwrap();
    assert!(history.recorder(std::iter::empty()).is_none(), "later loads are not recorded");
}
