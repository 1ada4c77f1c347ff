//! Times and verifies the events of watchers.
//!
//! An event names the revision of its put, so it is timed from when that put was sent. etcd's benchmark times its own
//! loop (`watch`, etcd issue 22225), or starts at the acknowledgement and counts an earlier event as 0 s
//! (`watch-latency`). Each watcher must have one event for each put of its key, in order, with the key and the value.
//!
//! Not here: the puts (`watched_puts`), the watchers' connections (`bakeoff_engine::watch`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::histogram::Latencies;
use bakeoff_core::watch::{
    GuaranteeOutcome, GuaranteeState, WatchCounts, WatchFigures, WatchGuarantee, WatchRange,
};
use bakeoff_engine::watch::{FollowUp, WatchCosts, WatchNews, WatchObserver};
use bakeoff_engine::works::grpc::TimingSink as _;

use super::seconds::SecondSink;
use super::watched_puts::{PutLog, WatchedPuts};

/// Maximum number of described faults.
const EXAMPLES_MAX: usize = 5;
/// Revisions without a known put after which the log is read again.
const WAITING_MAX: usize = 256;

/// Place of creations in the reports and in the figures of each second.
pub(super) const CREATION: usize = 1;
/// Place of events in the reports and in the figures of each second.
pub(super) const EVENT: usize = 2;

/// Events that each watcher must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededEvents {
    /// One for each acknowledged put of its key, all with the same value.
    OfPuts,
    /// So many, whose values are their numbers from 0. Watchers begin after this revision.
    Numbered { count: u64, after: u64 },
}

#[derive(Debug, Clone, Copy, Default)]
struct Watcher {
    /// Revision of its last event, or after which it was created.
    revision: u64,
    events: u64,
    requested: Option<Instant>,
}

/// Times and verifies the events of watchers.
pub(super) struct EventObserver {
    puts: Arc<WatchedPuts>,
    needed: NeededEvents,
    watchers: Vec<Watcher>,
    /// Times of events whose put is not acknowledged yet, by revision.
    waiting: BTreeMap<u64, Vec<Instant>>,
    seconds: Option<SecondSink>,
    pub(super) creations: Latencies,
    pub(super) from_sent: Latencies,
    /// Times of events after the acknowledgement of their put.
    pub(super) after_acknowledgement: Latencies,
    /// Number of events before the acknowledgement of their put.
    pub(super) before_acknowledgement: u64,
    first_event: Option<Instant>,
    last_event: Option<Instant>,
    counts: WatchCounts,
    /// True if the watchers ended while events still came.
    is_cut_off: bool,
}

impl EventObserver {
    /// Observes `watchers` watchers. `seconds` receives the figures of each second.
    pub(super) fn new(
        puts: &Arc<WatchedPuts>,
        needed: NeededEvents,
        watchers: u32,
        seconds: Option<SecondSink>,
    ) -> Self {
        let revision = match needed {
            NeededEvents::OfPuts => 0,
            NeededEvents::Numbered { after, .. } => after,
        };
        let begun = |mut seconds: SecondSink| {
            seconds.begin(bakeoff_clock::now());
            seconds
        };
        Self {
            puts: puts.clone(),
            needed,
            watchers: vec![Watcher { revision, ..Watcher::default() }; watchers as usize],
            waiting: BTreeMap::new(),
            seconds: seconds.map(begun),
            creations: Latencies::default(),
            from_sent: Latencies::default(),
            after_acknowledgement: Latencies::default(),
            before_acknowledgement: 0,
            first_event: None,
            last_event: None,
            counts: WatchCounts::default(),
            is_cut_off: false,
        }
    }

    /// Returns the time from the first event to the last one.
    pub(super) fn receiving_time(&self) -> Duration {
        let (first, last) = (self.first_event, self.last_event);
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last.duration_since(first))
    }

    fn example(&mut self, watcher: u32, what: &str) {
        if self.counts.examples.len() < EXAMPLES_MAX {
            self.counts.examples.push(format!("watcher {watcher}: {what}"));
        }
    }

    fn created(&mut self, watcher: u32, revision: u64, now: Instant) {
        let Some(state) = self.watchers.get_mut(watcher as usize) else { return };
        if state.revision == 0 {
            state.revision = revision;
        }
        let Some(requested) = state.requested.take() else { return };
        let took = now.saturating_duration_since(requested);
        self.creations.record(took);
        if let Some(seconds) = &mut self.seconds {
            seconds.add(CREATION, requested, took);
        }
    }

    fn event(&mut self, watcher: u32, revision: u64, pair: (&[u8], Option<&[u8]>), now: Instant) {
        self.counts.events += 1;
        self.first_event.get_or_insert(now);
        self.last_event = Some(now);
        let Some(&Watcher { revision: last, events, .. }) = self.watchers.get(watcher as usize)
        else {
            self.counts.phantoms += 1;
            return self.example(watcher, "an event of a watcher that does not exist");
        };
        let key = self.puts.name(self.puts.key(watcher.into()));
        let is_value = match self.needed {
            NeededEvents::OfPuts => pair.1 == Some(&*self.puts.value),
            NeededEvents::Numbered { .. } => pair.1 == Some(events.to_string().as_bytes()),
        };
        if pair.0 != key || !is_value {
            self.counts.phantoms += 1;
            let what = format!("an event at revision {revision} with another key or value");
            return self.example(watcher, &what);
        }
        if revision <= last {
            let is_same = revision == last;
            *(if is_same { &mut self.counts.repeated } else { &mut self.counts.reordered }) += 1;
            let what = format!("an event at revision {revision} came after revision {last}");
            return self.example(watcher, &what);
        }
        let state = &mut self.watchers[watcher as usize];
        (state.revision, state.events) = (revision, events + 1);
        if self.needed == NeededEvents::OfPuts {
            self.waiting.entry(revision).or_default().push(now);
            if self.waiting.len() > WAITING_MAX || self.is_known(revision) {
                self.time_events();
            }
        }
    }

    fn is_known(&self, revision: u64) -> bool {
        self.puts.log().times.contains_key(&revision)
    }

    /// Times the waiting events whose puts are acknowledged by now.
    fn time_events(&mut self) {
        let Self { puts, waiting, seconds, from_sent, after_acknowledgement, .. } = self;
        let (before, log) = (&mut self.before_acknowledgement, puts.log());
        waiting.retain(|revision, events| {
            let Some(put) = log.times.get(revision) else { return true };
            for &at in &*events {
                let took = at.saturating_duration_since(put.sent);
                from_sent.record(took);
                match at.checked_duration_since(put.acknowledged) {
                    Some(after) => after_acknowledgement.record(after),
                    None => *before += 1,
                }
                if let Some(seconds) = seconds {
                    seconds.add(EVENT, put.sent, took);
                }
            }
            false
        });
    }

    /// Returns the number of events that a watcher must have.
    fn due(&self, watcher: usize, log: &PutLog) -> u64 {
        match self.needed {
            NeededEvents::OfPuts => log.count(self.puts.key(watcher as u64)),
            NeededEvents::Numbered { count, .. } => count,
        }
    }

    /// Judges what is missing, and adds the costs of the watchers.
    pub(super) fn conclude(&mut self, costs: WatchCosts) -> WatchFigures {
        self.time_events();
        if let Some(seconds) = &mut self.seconds {
            seconds.add_to_all();
        }
        let puts = self.puts.clone();
        let log = puts.log();
        for watcher in 0..self.watchers.len() {
            let (due, has) = (self.due(watcher, &log), self.watchers[watcher].events);
            self.counts.expected += due;
            self.counts.delivered += has.min(due);
            let missing = due.saturating_sub(has);
            if self.is_cut_off {
                self.counts.unfinished += missing;
            } else if missing > 0 {
                self.counts.undelivered += missing;
                self.example(watcher as u32, &format!("{has} events of {due}"));
            }
        }
        let counts = &self.counts;
        let outcome = |guarantee, broken| GuaranteeOutcome {
            guarantee,
            state: GuaranteeState::of_promised(counts.expected, broken),
        };
        WatchFigures {
            guarantees: vec![
                outcome(WatchGuarantee::Ordered, counts.reordered),
                outcome(WatchGuarantee::Unique, counts.repeated),
                outcome(WatchGuarantee::Reliable, counts.undelivered),
            ],
            counts: counts.clone(),
            known: self.from_sent.clone(),
            timed: self.from_sent.count(),
            before_acknowledgement: self.before_acknowledgement,
            ..costs.figures()
        }
    }
}

impl WatchObserver for EventObserver {
    fn name(&self, watcher: u32, name: &mut Vec<u8>) -> WatchRange {
        name.extend_from_slice(self.puts.name(self.puts.key(watcher.into())));
        WatchRange::Key
    }

    fn known_place(&self, watcher: u32) -> u64 {
        self.watchers.get(watcher as usize).map_or(0, |watcher| watcher.revision)
    }

    fn requested(&mut self, watcher: u32, now: Instant) {
        if let Some(watcher) = self.watchers.get_mut(watcher as usize) {
            watcher.requested = Some(now);
        }
    }

    fn resumed(&mut self, _: u32) {
        self.counts.resumes += 1;
    }

    fn observe(&mut self, news: WatchNews<'_>, _: &[u32], now: Instant) -> FollowUp {
        match news {
            WatchNews::Created { watcher, place } => {
                self.created(watcher, place.unwrap_or_default(), now);
                FollowUp::Created
            }
            WatchNews::Event { watcher, place, key, value } => {
                self.event(watcher, place.unwrap_or_default(), (key, value), now);
                FollowUp::None
            }
            WatchNews::Gone { watcher, place } => {
                self.counts.histories_gone += 1;
                if let Some(watcher) = self.watchers.get_mut(watcher as usize) {
                    watcher.revision = watcher.revision.max(place.saturating_sub(1));
                }
                FollowUp::Renew(watcher)
            }
            WatchNews::Ended { watcher, why } => {
                FollowUp::Move(format!("watcher {watcher} ended: {why}"))
            }
            WatchNews::Progress { .. } | WatchNews::Asked => FollowUp::None,
        }
    }

    fn last_event(&self) -> Option<Instant> {
        self.last_event
    }

    fn is_complete(&mut self) -> bool {
        self.time_events();
        let log = self.puts.log();
        let has_all = |(place, watcher): (usize, &Watcher)| watcher.events >= self.due(place, &log);
        self.watchers.iter().enumerate().all(has_all)
    }

    fn cut_off(&mut self) {
        self.is_cut_off = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd_benchmark::watched_puts::PutTimes;

    /// Two keys and four watchers, which take the keys in turn.
    struct Bench {
        puts: Arc<WatchedPuts>,
        observer: EventObserver,
        start: Instant,
    }

    impl Bench {
        fn new(needed: NeededEvents) -> Self {
            let keys = vec![b"a".to_vec(), b"b".to_vec()];
            let puts = Arc::new(WatchedPuts::new(keys, b"data".to_vec()));
            let observer = EventObserver::new(&puts, needed, 4, None);
            let start = bakeoff_clock::now();
            let mut bench = Self { puts, observer, start };
            for watcher in 0..4 {
                bench.observer.requested(watcher, start);
                let created = WatchNews::Created { watcher, place: Some(10) };
                bench.observer.observe(created, &[], bench.at(1));
            }
            bench
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn sees(&mut self, watcher: u32, revision: u64, pair: (&[u8], &[u8]), ms: u64) {
            let (place, value) = (Some(revision), Some(pair.1));
            let event = WatchNews::Event { watcher, place, key: pair.0, value };
            self.observer.observe(event, &[], self.at(ms));
        }

        /// Puts a key: sent and acknowledged at these times.
        fn puts(&mut self, key: usize, revision: u64, (sent, acknowledged): (u64, u64)) {
            let times = PutTimes { sent: self.at(sent), acknowledged: self.at(acknowledged) };
            self.puts.acknowledge(key, revision, times);
        }

        fn concludes(&mut self) -> WatchFigures {
            self.observer.conclude(WatchCosts {
                watchers: 4,
                connections: 1,
                setup: Duration::ZERO,
                cpu: Duration::ZERO,
                bytes_received: 0,
                receive_lag: Latencies::default(),
                interruptions: Vec::new(),
                last_loss: None,
            })
        }
    }

    fn millis(latencies: &Latencies) -> Vec<(u128, u64)> {
        latencies.recorded().map(|(time, count)| (time.as_millis(), count)).collect()
    }

    #[test]
    fn events_are_timed_from_the_sending_of_their_put() {
        let mut bench = Bench::new(NeededEvents::OfPuts);
        bench.sees(0, 11, (b"a", b"data"), 24);
        bench.puts(0, 11, (20, 25));
        assert!(!bench.observer.is_complete(), "watcher 2 waits");
        bench.sees(2, 11, (b"a", b"data"), 28);
        assert!(bench.observer.is_complete());
        let figures = bench.concludes();
        assert_eq!(millis(&bench.observer.from_sent), [(4, 1), (8, 1)]);
        assert_eq!(millis(&bench.observer.after_acknowledgement), [(3, 1)]);
        assert_eq!((figures.before_acknowledgement, figures.has_failed()), (1, false));
        assert_eq!((figures.counts.expected, figures.counts.delivered), (2, 2));
        assert_eq!(millis(&bench.observer.creations), [(1, 4)]);
    }

    #[test]
    fn wrong_repeated_reordered_and_missing_events_are_accused() {
        type Fault = fn(&mut Bench);
        let faults: [(&str, Fault); 5] = [
            ("1 event that no write", |bench| bench.sees(0, 12, (b"a", b"other"), 2)),
            ("1 event that no write", |bench| bench.sees(0, 12, (b"b", b"data"), 2)),
            ("not unique (1 time)", |bench| {
                bench.sees(0, 12, (b"a", b"data"), 2);
                bench.sees(0, 12, (b"a", b"data"), 2);
            }),
            ("not ordered (1 time)", |bench| {
                bench.sees(0, 12, (b"a", b"data"), 2);
                bench.sees(0, 11, (b"a", b"data"), 2);
            }),
            ("not reliable (1 time); watcher 3: 0 events of 1", |bench| {
                bench.puts(1, 12, (1, 2));
                bench.sees(1, 12, (b"b", b"data"), 2);
            }),
        ];
        for (expected, fault) in faults {
            let mut bench = Bench::new(NeededEvents::OfPuts);
            fault(&mut bench);
            let found = bakeoff_core::check::watch_faults(&bench.concludes());
            assert!(found.as_deref().unwrap_or_default().contains(expected), "{found:?}");
        }
    }

    #[test]
    fn old_events_are_numbered_and_counted() {
        let mut bench = Bench::new(NeededEvents::Numbered { count: 2, after: 10 });
        assert_eq!(bench.observer.known_place(3), 10);
        for watcher in 0..4 {
            let key = if watcher % 2 == 0 { b"a" } else { b"b" };
            bench.sees(watcher, 11, (key, b"0"), 2);
            assert!(!bench.observer.is_complete());
            bench.sees(watcher, 12, (key, b"1"), 3);
        }
        assert!(bench.observer.is_complete());
        assert!(!bench.concludes().has_failed());
    }

    #[test]
    fn events_on_their_way_at_the_end_are_not_judged() {
        let mut bench = Bench::new(NeededEvents::OfPuts);
        bench.puts(0, 11, (1, 2));
        bench.observer.cut_off();
        let figures = bench.concludes();
        assert_eq!((figures.counts.unfinished, figures.has_failed()), (2, false));
    }
}
