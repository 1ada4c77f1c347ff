//! Times and judges the events of all watchers by the versions that the writers log.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bakeoff_core::histogram::Latencies;
use bakeoff_core::study::Watchers;
use bakeoff_core::watch::{
    ObservedVersions, WatchEvent, WatchFigures, WatchJudge, WatchRange, WatchStart, WatchedKeys,
    Watches,
};
use bakeoff_core::workload::KEY_PREFIX;

use super::SharedVersions;
use super::catch_up::CatchUp;
use super::observer::{FollowUp, WatchObserver};
use super::party::{WatchCosts, WatchParty};
use super::session::WatchNews;
use crate::works::keyed::KeyedState;

/// Holds when watchers observed one version.
#[derive(Debug, Clone, Copy, Default)]
struct SeenTimes {
    /// Time at which the write was sent, copied from the log; 0 if it is not known yet.
    sent: u64,
    first: u64,
    last: u64,
    watchers: u32,
}

/// Times and judges the events of all watchers by the versions that the writers log.
pub struct VersionObserver {
    keyed: Arc<KeyedState>,
    versions: Arc<SharedVersions>,
    keys: WatchedKeys,
    judge: WatchJudge,
    /// Observations of each version, by key, from the first version of the key's log.
    seen: Vec<Vec<SeenTimes>>,
    known: Latencies,
    /// Follows old events; `None` if watchers begin with events from now on.
    catch_up: Option<CatchUp>,
    last_event: Option<Instant>,
    longest_silence: Duration,
    requests: u64,
}

/// Runs the watchers of a study's load.
pub type StudyWatchers = WatchParty<VersionObserver>;

impl StudyWatchers {
    /// Waits for the last events as [`WatchParty::finish`] does, and returns what the watchers observed.
    pub fn figures(self, interrupted: &AtomicBool) -> WatchFigures {
        let (observer, costs) = self.finish(interrupted);
        observer.conclude(costs)
    }
}

impl VersionObserver {
    /// Observes the watchers of a study. `watches` is the declaration of the kind.
    pub fn new(
        keyed: Arc<KeyedState>,
        versions: Arc<SharedVersions>,
        watches: Watches,
        watchers: &Watchers,
    ) -> Self {
        let keys = WatchedKeys { count: versions.count(), range: watchers.of };
        let base = |key| versions.log(key).base();
        let judge = WatchJudge::new(watches, keys, watchers.count, base);
        let catch_up = (watchers.from == WatchStart::Oldest).then(|| {
            let targets = (0..keys.count).map(|key| judge.last_needed(&versions.log(key)));
            CatchUp::new(targets.collect(), watchers.count, |watcher| keys.key_of(watcher))
        });
        let seen = vec![Vec::new(); keys.count as usize];
        Self {
            keyed,
            versions,
            keys,
            judge,
            seen,
            known: Latencies::default(),
            catch_up,
            last_event: None,
            longest_silence: Duration::ZERO,
            requests: 0,
        }
    }

    fn event(
        &mut self,
        watcher: u32,
        place: Option<u64>,
        name: &[u8],
        value: Option<&[u8]>,
        now: Instant,
    ) {
        self.note_activity(now);
        let key = self.keyed.space.index_of(name).and_then(|key| u32::try_from(key).ok());
        let Some(key) = key.filter(|&key| key < self.keys.count) else {
            let what = format!("`{}` is not a key of the load", name.escape_ascii());
            return self.judge.foreign(watcher, &what);
        };
        let versions = Arc::clone(&self.versions);
        let log = versions.log(key);
        let version = match value {
            Some(value) => match self.keyed.values.verify(key.into(), value) {
                Ok(stamp) => u32::try_from(stamp.sequence).unwrap_or(u32::MAX),
                Err(why) => return self.judge.foreign(watcher, &why.to_string()),
            },
            None => match self.judge.delete_of(watcher, key, &log) {
                Some(version) => version,
                None => return self.judge.foreign(watcher, "no delete explains the event"),
            },
        };
        let event = WatchEvent { watcher, key, version, place };
        let target = self.catch_up.as_ref().and_then(|catch_up| catch_up.target(key));
        let lacks = |judge: &WatchJudge| {
            target.is_some_and(|version| !judge.has_reached(watcher, key, version, &log))
        };
        let lacked = lacks(&self.judge);
        let observed = self.judge.event(&event, &log);
        if let Some(catch_up) = &mut self.catch_up
            && lacked
            && !lacks(&self.judge)
        {
            catch_up.reached(watcher, now);
        }
        let at = versions.time(now);
        let (from, to) = match observed {
            ObservedVersions::News(from, to) => (from, to),
            ObservedVersions::Filled => (version, version),
            ObservedVersions::Nothing => return,
        };
        let base = log.base();
        let seen = &mut self.seen[key as usize];
        let places = (to - base) as usize;
        if seen.len() < places {
            seen.resize(places, SeenTimes::default());
        }
        for known in from.max(base + 1)..=to {
            let times = &mut seen[(known - base - 1) as usize];
            if times.sent == 0 {
                times.sent = log.get(known).map_or(0, |times| times.sent);
            }
            if observed != ObservedVersions::Filled && times.sent >= versions.measured_from() {
                let delay = Duration::from_nanos(at.saturating_sub(times.sent));
                self.known.record(delay);
            }
        }
        let times = &mut seen[places - 1];
        times.watchers += 1;
        times.last = at;
        if times.first == 0 {
            times.first = at;
        }
    }

    fn note_activity(&mut self, now: Instant) {
        if let Some(last) = self.last_event.replace(now)
            && self.versions.time(now) > self.versions.measured_from()
        {
            self.longest_silence = self.longest_silence.max(now.saturating_duration_since(last));
        }
    }

    /// Judges what is missing, and returns the figures.
    fn conclude(self, costs: WatchCosts) -> WatchFigures {
        let Self { versions, keys, judge, seen, .. } = self;
        let watchers = costs.watchers;
        let mut figures = WatchFigures {
            known: self.known,
            longest_silence: self.longest_silence,
            requests: self.requests,
            catch_up: self.catch_up.map(|catch_up| Box::new(catch_up.figures())),
            ..costs.figures()
        };
        let measured_from = versions.measured_from();
        for key in 0..keys.count {
            let log = versions.log(key);
            let all = keys.watchers_of(key, watchers);
            for ((_, times), seen) in log.versions().zip(&seen[key as usize]) {
                let is_measured = times.is_acknowledged() && times.sent >= measured_from;
                if is_measured && seen.watchers > 0 {
                    figures.timed += 1;
                    figures.before_acknowledgement += u64::from(seen.first < times.ended);
                }
                if is_measured && seen.watchers == all && all > 0 {
                    let since = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
                    figures.first.record(since(times.sent, seen.first));
                    figures.last.record(since(times.sent, seen.last));
                    figures.after_acknowledgement.record(since(times.ended, seen.last));
                    if times.due > 0 {
                        figures.due_to_last.record(since(times.due, seen.last));
                    }
                }
            }
        }
        let seen_by = |key: u32, version: u32| {
            let place = (version - versions.log(key).base() - 1) as usize;
            seen[key as usize].get(place).map_or(0, |times| times.watchers)
        };
        (figures.counts, figures.guarantees) =
            judge.conclude(|key| versions.log(key).clone(), seen_by);
        figures
    }
}

impl WatchObserver for VersionObserver {
    fn name(&self, watcher: u32, name: &mut Vec<u8>) -> WatchRange {
        match self.keys.key_of(watcher) {
            Some(key) => self.keyed.space.write_key(key.into(), name),
            None => name.extend_from_slice(KEY_PREFIX.as_bytes()),
        }
        self.keys.range
    }

    fn known_place(&self, watcher: u32) -> u64 {
        self.judge.known_place(watcher)
    }

    fn requested(&mut self, watcher: u32, now: Instant) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.requested(watcher, now);
        }
    }

    fn is_caught_up(&self) -> bool {
        self.catch_up.as_ref().is_none_or(CatchUp::is_complete)
    }

    fn begin(&mut self, now: Instant) {
        self.requests = 0;
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.end(self.judge.event_count(), now);
            // Silence until the load begins is no silence of the system.
            self.last_event = None;
        }
    }

    fn resumed(&mut self, watcher: u32) {
        self.judge.resumed(watcher);
    }

    fn observe(&mut self, news: WatchNews<'_>, watchers: &[u32], now: Instant) -> FollowUp {
        match news {
            WatchNews::Created { watcher, place } => {
                // Old events come from before that place.
                if self.catch_up.is_none() {
                    self.judge.created(watcher, place);
                }
                return FollowUp::Created;
            }
            WatchNews::Event { watcher, place, key, value } => {
                self.event(watcher, place, key, value, now);
            }
            WatchNews::Progress { watcher: Some(watcher), place } => {
                self.judge.progress(watcher, place);
            }
            WatchNews::Progress { watcher: None, place } => {
                watchers.iter().for_each(|&watcher| self.judge.progress(watcher, place));
            }
            WatchNews::Gone { watcher, place } => {
                self.judge.gone(watcher, place);
                return FollowUp::Renew(watcher);
            }
            WatchNews::Ended { watcher, why } => {
                return FollowUp::Move(format!("watcher {watcher} ended: {why}"));
            }
            WatchNews::Asked => self.requests += 1,
        }
        FollowUp::None
    }

    fn is_complete(&mut self) -> bool {
        self.judge.is_complete(|key| self.versions.log(key).clone())
    }

    fn last_event(&self) -> Option<Instant> {
        self.last_event
    }

    fn cut_off(&mut self) {
        self.judge.cut_off();
    }
}
