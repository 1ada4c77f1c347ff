//! Tests that the judge accuses each fault, and no honest system.

use super::*;
use crate::ledger::{Write, WriteOutcome};

const GUARANTEES: &[WatchGuarantee] = WatchGuarantee::ALL;

/// A load on `KEYS` keys and its watchers.
struct Bench {
    logs: Vec<VersionLog>,
    judge: WatchJudge,
    seen: Vec<Vec<u32>>,
    clock: u64,
}

const KEYS: u32 = 2;
const WATCHERS: u32 = 3;

impl Bench {
    fn new(delivery: Delivery) -> Self {
        let watches = Watches {
            form: "test",
            delivery,
            guarantees: GUARANTEES,
            per_connection_max: 1,
            previous: false,
            prefix: true,
            oldest: true,
        };
        let keys = WatchedKeys { count: KEYS, range: WatchRange::Prefix };
        Self {
            logs: vec![VersionLog::after(7); KEYS as usize],
            judge: WatchJudge::new(watches, keys, WATCHERS, |_| 7),
            seen: vec![vec![0; 64]; KEYS as usize],
            clock: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn begins(&mut self, key: u32) -> u32 {
        let (at, log) = (self.tick(), &mut self.logs[key as usize]);
        let version = log.newest() + 1;
        log.begin(version, Write::Put, at);
        version
    }

    fn deletes(&mut self, key: u32) -> u32 {
        let (at, log) = (self.tick(), &mut self.logs[key as usize]);
        let version = log.newest() + 1;
        log.begin(version, Write::Delete, at);
        self.ends(key, version, WriteOutcome::Acknowledged);
        version
    }

    fn ends(&mut self, key: u32, version: u32, outcome: WriteOutcome) {
        let at = self.tick();
        self.logs[key as usize].end(version, outcome, at, false);
    }

    fn writes(&mut self, key: u32) -> u32 {
        let version = self.begins(key);
        self.ends(key, version, WriteOutcome::Acknowledged);
        version
    }

    fn sees(&mut self, watcher: u32, key: u32, version: u32, place: u64) -> ObservedVersions {
        let event = WatchEvent { watcher, key, version, place: Some(place) };
        let observed = self.judge.event(&event, &self.logs[key as usize]);
        if observed != ObservedVersions::Nothing {
            self.seen[key as usize][(version - 8) as usize] += 1;
        }
        observed
    }

    fn all_see(&mut self, key: u32, version: u32, place: u64) {
        (0..WATCHERS).for_each(|watcher| _ = self.sees(watcher, key, version, place));
    }

    fn concludes(self) -> (WatchCounts, Vec<GuaranteeOutcome>) {
        let Self { logs, judge, seen, .. } = self;
        judge.conclude(
            |key| logs[key as usize].clone(),
            |key, version| seen[key as usize][(version - 8) as usize],
        )
    }

    fn state(self, guarantee: WatchGuarantee) -> GuaranteeState {
        let (_, outcomes) = self.concludes();
        outcomes.iter().find(|one| one.guarantee == guarantee).unwrap().state
    }
}

#[test]
fn honest_stream_keeps_its_guarantees() {
    let mut bench = Bench::new(Delivery::Each);
    for place in 1..=20 {
        let version = bench.writes(0);
        bench.all_see(0, version, place);
    }
    bench.judge.progress(0, 20);
    assert!(bench.judge.is_complete(|key| bench.logs[key as usize].clone()));
    let (counts, outcomes) = bench.concludes();
    assert_eq!((counts.expected, counts.delivered), (60, 60));
    let states: Vec<_> = outcomes.iter().map(|one| one.state).collect();
    let (kept, none) = (GuaranteeState::Kept, GuaranteeState::NotReached);
    assert_eq!(states, [kept, kept, none, kept, none, kept]);
    assert_eq!(counts.examples, Vec::<String>::new());
}

#[test]
fn skipped_version_is_lost_unless_it_failed() {
    let mut bench = Bench::new(Delivery::Each);
    let refused = bench.begins(0);
    bench.ends(0, refused, WriteOutcome::Refused);
    let unknown = bench.begins(0);
    bench.ends(0, unknown, WriteOutcome::Unknown);
    let lost = bench.writes(0);
    let last = bench.writes(0);
    bench.all_see(0, last, 4);
    for watcher in 0..2 {
        assert_eq!(bench.sees(watcher, 0, lost, 5), ObservedVersions::Filled);
    }
    let (counts, _) = bench.concludes();
    assert_eq!((counts.lost, counts.undelivered), (1, 0));
    assert!(
        counts.examples.iter().any(|one| one.contains("watcher 2: version 10 of key 0 never came"))
    );
}

#[test]
fn last_version_that_never_comes_is_undelivered() {
    for delivery in [Delivery::Each, Delivery::Latest] {
        let mut bench = Bench::new(delivery);
        let first = bench.writes(1);
        bench.all_see(1, first, 1);
        let last = bench.writes(1);
        bench.sees(0, 1, last, 2);
        assert!(!bench.judge.is_complete(|key| bench.logs[key as usize].clone()));
        assert_eq!(bench.concludes().0.undelivered, 2, "{delivery:?}");
    }
}

#[test]
fn watcher_of_latest_versions_may_skip_and_overlap() {
    let mut bench = Bench::new(Delivery::Latest);
    for _ in 0..5 {
        bench.writes(0);
    }
    // Two writes overlap, and the system orders the second before the first.
    let (one, other) = (bench.begins(0), bench.begins(0));
    bench.ends(0, other, WriteOutcome::Acknowledged);
    bench.ends(0, one, WriteOutcome::Acknowledged);
    bench.all_see(0, other, 1);
    bench.all_see(0, one, 2);
    let (counts, _) = bench.concludes();
    assert_eq!((counts.lost, counts.undelivered, counts.reordered), (0, 0, 0));
}

#[test]
fn older_version_after_a_newer_one_is_a_fault() {
    let mut bench = Bench::new(Delivery::Latest);
    let (old, new) = (bench.writes(0), bench.writes(0));
    bench.sees(0, 0, new, 5);
    let event = WatchEvent { watcher: 0, key: 0, version: old, place: None };
    bench.judge.event(&event, &bench.logs[0]);
    assert_eq!(bench.state(WatchGuarantee::Ordered), GuaranteeState::Broken(1));
}

#[test]
fn repeated_event_is_a_fault_of_a_stream() {
    let mut bench = Bench::new(Delivery::Each);
    let version = bench.writes(0);
    bench.sees(0, 0, version, 1);
    bench.sees(0, 0, version, 1);
    assert_eq!(bench.state(WatchGuarantee::Unique), GuaranteeState::Broken(1));
}

#[test]
fn falling_place_is_a_fault() {
    let mut bench = Bench::new(Delivery::Each);
    let (first, second) = (bench.writes(0), bench.writes(1));
    bench.sees(0, 1, second, 2);
    bench.sees(0, 0, first, 1);
    assert_eq!(bench.state(WatchGuarantee::Ordered), GuaranteeState::Broken(1));
}

#[test]
fn event_after_its_bookmark_is_a_fault() {
    let mut bench = Bench::new(Delivery::Each);
    let version = bench.writes(0);
    bench.judge.progress(0, 3);
    bench.sees(0, 0, version, 3);
    assert_eq!(bench.state(WatchGuarantee::Bookmarkable), GuaranteeState::Broken(1));
    let mut falling = Bench::new(Delivery::Each);
    falling.judge.progress(0, 3);
    falling.judge.progress(0, 2);
    assert_eq!(falling.state(WatchGuarantee::Bookmarkable), GuaranteeState::Broken(1));
}

#[test]
fn resume_that_skips_versions_breaks_resumable_unless_history_is_gone() {
    let skipping = |gone: bool| {
        let mut bench = Bench::new(Delivery::Each);
        let first = bench.writes(0);
        bench.all_see(0, first, 1);
        bench.writes(0);
        let last = bench.writes(0);
        if gone {
            bench.judge.gone(0, 3);
        }
        bench.judge.resumed(0);
        bench.sees(0, 0, last, 3);
        bench
    };
    assert_eq!(skipping(false).state(WatchGuarantee::Resumable), GuaranteeState::Broken(1));
    assert_eq!(skipping(true).state(WatchGuarantee::Resumable), GuaranteeState::Kept);
    assert_eq!(skipping(true).concludes().0.gone, 1);
}

#[test]
fn each_key_shows_what_a_resume_skipped() {
    let mut bench = Bench::new(Delivery::Each);
    let (first, other) = (bench.writes(0), bench.writes(1));
    bench.all_see(0, first, 1);
    bench.all_see(1, other, 2);
    bench.writes(1);
    bench.judge.resumed(0);
    let (last, other) = (bench.writes(0), bench.writes(1));
    bench.sees(0, 0, last, 4);
    bench.sees(0, 1, other, 5);
    let (counts, _) = bench.concludes();
    assert_eq!((counts.lost_on_resume, counts.lost), (1, 0));
}

#[test]
fn lost_history_excuses_the_next_news_of_each_key_alone() {
    let mut bench = Bench::new(Delivery::Each);
    let first = bench.writes(0);
    bench.sees(0, 0, first, 1);
    bench.judge.gone(0, 2);
    bench.sees(0, 0, first, 1);
    bench.writes(0);
    let second = bench.writes(0);
    bench.sees(0, 0, second, 3);
    bench.writes(0);
    let last = bench.writes(0);
    bench.sees(0, 0, last, 5);
    let (counts, _) = bench.concludes();
    assert_eq!((counts.gone, counts.lost, counts.repeated), (1, 1, 1));
}

#[test]
fn event_without_a_write_is_a_phantom() {
    let mut bench = Bench::new(Delivery::Each);
    let refused = bench.begins(0);
    bench.ends(0, refused, WriteOutcome::Refused);
    bench.sees(0, 0, refused, 1);
    bench.sees(0, 0, 40, 2);
    bench.judge.foreign(0, "a key of somebody else");
    assert_eq!(bench.concludes().0.phantoms, 3);
}

#[test]
fn event_of_a_delete_is_the_next_unseen_delete() {
    let mut bench = Bench::new(Delivery::Each);
    bench.writes(0);
    let at = bench.tick();
    bench.logs[0].begin(9, Write::Delete, at);
    bench.logs[0].end(9, WriteOutcome::Acknowledged, at, true);
    bench.logs[0].begin(10, Write::Delete, at);
    bench.logs[0].end(10, WriteOutcome::Acknowledged, at, false);
    assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), Some(10), "a void delete has none");
    bench.all_see(0, 8, 1);
    bench.all_see(0, 10, 2);
    assert_eq!(bench.concludes().0.lost, 0);
}

#[test]
fn delete_that_did_not_happen_explains_no_event() {
    for outcome in [WriteOutcome::Refused, WriteOutcome::Unknown] {
        let mut bench = Bench::new(Delivery::Each);
        let writes = |bench: &mut Bench, write, outcome| {
            let (at, version) = (bench.tick(), bench.logs[0].newest() + 1);
            bench.logs[0].begin(version, write, at);
            bench.ends(0, version, outcome);
            version
        };
        let deletes = |bench: &Bench| bench.judge.delete_of(0, 0, &bench.logs[0]);
        let missing = writes(&mut bench, Write::Delete, outcome);
        let put = bench.writes(0);
        bench.all_see(0, put, 1);
        let delete = writes(&mut bench, Write::Delete, WriteOutcome::Acknowledged);
        assert_eq!(deletes(&bench), Some(delete), "not {missing}, which is older than the put");
        writes(&mut bench, Write::Delete, outcome);
        bench.all_see(0, delete, 2);
        let last = writes(&mut bench, Write::Delete, WriteOutcome::Acknowledged);
        assert_eq!(deletes(&bench), Some(last), "not the one before");
        bench.all_see(0, last, 3);
        let (counts, _) = bench.concludes();
        assert_eq!((counts.lost, counts.undelivered, counts.phantoms), (0, 0, 0));
    }
}

#[test]
fn reader_of_states_may_find_the_same_absence_again() {
    let mut bench = Bench::new(Delivery::Latest);
    assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), Some(7), "absent from the start");
    let written = bench.writes(0);
    bench.all_see(0, written, 1);
    assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), None);
    let deleted = bench.deletes(0);
    for place in [2, 3] {
        assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), Some(deleted));
        bench.all_see(0, deleted, place);
    }
    let (counts, _) = bench.concludes();
    assert_eq!((counts.unchanged, counts.reordered, counts.phantoms), (3, 0, 0));
}

#[test]
fn reader_of_states_knows_a_delete_by_an_earlier_one() {
    for (delivery, undelivered) in [(Delivery::Latest, 0), (Delivery::Each, 6)] {
        let mut bench = Bench::new(delivery);
        bench.writes(0);
        let first = bench.deletes(0);
        bench.all_see(0, first, 1);
        bench.writes(0);
        bench.deletes(0);
        let is_complete = bench.judge.is_complete(|key| bench.logs[key as usize].clone());
        assert_eq!(is_complete, undelivered == 0);
        assert_eq!(bench.concludes().0.undelivered, undelivered, "{delivery:?}");
    }
}

#[test]
fn event_of_a_delete_may_belong_to_a_later_one() {
    for outcome in [WriteOutcome::Refused, WriteOutcome::Unknown] {
        for is_last in [true, false] {
            let mut bench = Bench::new(Delivery::Each);
            let (at, log) = (bench.tick(), &mut bench.logs[0]);
            log.begin(8, Write::Delete, at);
            log.begin(9, Write::Delete, at);
            // The first delete is still in flight, so its event seems to have come.
            assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), Some(8));
            bench.all_see(0, 8, 1);
            bench.ends(0, 9, WriteOutcome::Acknowledged);
            bench.ends(0, 8, outcome);
            if !is_last {
                let put = bench.writes(0);
                bench.all_see(0, put, 2);
            }
            let (counts, _) = bench.concludes();
            assert_eq!((counts.lost, counts.undelivered, counts.phantoms), (0, 0, 0));
            assert_eq!(counts.delivered, counts.expected);
        }
    }
}

#[test]
fn delete_may_come_before_a_put_that_it_overlaps() {
    let mut bench = Bench::new(Delivery::Each);
    let (at, log) = (bench.tick(), &mut bench.logs[0]);
    log.begin(8, Write::Delete, at);
    bench.ends(0, 8, WriteOutcome::Unknown);
    let put = bench.begins(0);
    let at = bench.tick();
    bench.logs[0].begin(10, Write::Delete, at);
    bench.ends(0, put, WriteOutcome::Acknowledged);
    bench.ends(0, 10, WriteOutcome::Acknowledged);
    assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), Some(10), "the first may not exist");
    bench.all_see(0, 10, 1);
    bench.all_see(0, put, 2);
    let (counts, _) = bench.concludes();
    assert_eq!((counts.lost, counts.undelivered), (0, 0));
}

#[test]
fn delete_may_come_after_a_put_that_it_overlaps() {
    for delivery in [Delivery::Each, Delivery::Latest] {
        let mut bench = Bench::new(delivery);
        let at = bench.tick();
        bench.logs[0].begin(8, Write::Delete, at);
        let put = bench.begins(0);
        bench.all_see(0, put, 1);
        for watcher in 0..WATCHERS {
            assert_eq!(bench.judge.delete_of(watcher, 0, &bench.logs[0]), Some(8), "{delivery:?}");
            bench.sees(watcher, 0, 8, 2);
        }
        bench.ends(0, put, WriteOutcome::Acknowledged);
        bench.ends(0, 8, WriteOutcome::Acknowledged);
        let (counts, _) = bench.concludes();
        let WatchCounts { lost, undelivered, reordered, phantoms, .. } = counts;
        assert_eq!((lost, undelivered, reordered, phantoms), (0, 0, 0, 0), "{delivery:?}");
    }
}

#[test]
fn delete_that_ended_before_a_put_explains_no_later_absence() {
    let mut bench = Bench::new(Delivery::Latest);
    bench.deletes(0);
    let put = bench.writes(0);
    bench.all_see(0, put, 1);
    assert_eq!(bench.judge.delete_of(0, 0, &bench.logs[0]), None);
}

#[test]
fn repeated_event_of_a_delete_is_a_fault_of_a_stream() {
    let mut bench = Bench::new(Delivery::Each);
    let (at, log) = (bench.tick(), &mut bench.logs[0]);
    log.begin(8, Write::Delete, at);
    bench.ends(0, 8, WriteOutcome::Acknowledged);
    for _ in 0..2 {
        let version = bench.judge.delete_of(0, 0, &bench.logs[0]).unwrap();
        bench.sees(0, 0, version, 1);
    }
    assert_eq!(bench.state(WatchGuarantee::Unique), GuaranteeState::Broken(1));
}

#[test]
fn lost_history_excuses_puts_around_a_delete() {
    let mut bench = Bench::new(Delivery::Each);
    let deletes = |bench: &mut Bench| {
        let (at, version) = (bench.tick(), bench.logs[0].newest() + 1);
        bench.logs[0].begin(version, Write::Delete, at);
        bench.ends(0, version, WriteOutcome::Acknowledged);
    };
    bench.writes(0);
    deletes(&mut bench);
    bench.writes(0);
    deletes(&mut bench);
    let put = bench.writes(0);
    for watcher in 0..WATCHERS {
        bench.judge.gone(watcher, 4);
        // The event of the second delete seems to be that of the first.
        let delete = bench.judge.delete_of(watcher, 0, &bench.logs[0]).unwrap();
        bench.sees(watcher, 0, delete, 4);
        bench.sees(watcher, 0, put, 5);
    }
    let (counts, _) = bench.concludes();
    assert_eq!((counts.lost, counts.undelivered), (0, 0));
    assert_eq!(counts.delivered + counts.gone, counts.expected);
}

#[test]
fn watchers_of_one_key_take_keys_in_turn() {
    let keys = WatchedKeys { count: 3, range: WatchRange::Key };
    let of: Vec<_> = (0..5).map(|watcher| keys.key_of(watcher)).collect();
    assert_eq!(of, [Some(0), Some(1), Some(2), Some(0), Some(1)]);
    let watchers: Vec<_> = (0..3).map(|key| keys.watchers_of(key, 5)).collect();
    assert_eq!(watchers, [2, 2, 1]);
}
