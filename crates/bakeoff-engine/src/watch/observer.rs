//! Times and judges the events of all watchers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bakeoff_core::histogram::Latencies;
use bakeoff_core::watch::{
    ObservedVersions, WatchEvent, WatchFigures, WatchJudge, WatchedKeys, Watches,
};

use super::SharedVersions;
use super::session::WatchNews;
use crate::works::keyed::KeyedState;

/// Maximum number of described interruptions.
const INTERRUPTIONS_MAX: usize = 10;

/// Holds when watchers observed one version.
#[derive(Debug, Clone, Copy, Default)]
struct SeenTimes {
    /// Time at which the write was sent, copied from the log; 0 if it is not known yet.
    sent: u64,
    first: u64,
    last: u64,
    watchers: u32,
}

/// Times and judges the events of all watchers.
pub(super) struct Observer {
    keyed: Arc<KeyedState>,
    versions: Arc<SharedVersions>,
    keys: WatchedKeys,
    pub(super) judge: WatchJudge,
    /// Observations of each version, by key, from the first version of the key's log.
    seen: Vec<Vec<SeenTimes>>,
    known: Latencies,
    pub(super) last_event: Option<Instant>,
    longest_silence: Duration,
    interruptions: Vec<String>,
    pub(super) requests: u64,
    pub(super) bytes_received: u64,
}

/// Describes what the party must do after news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FollowUp {
    /// Nothing.
    None,
    /// The watcher exists.
    Created,
    /// Create the watcher again on its connection.
    Renew(u32),
    /// Connect to another node.
    Move(String),
}

impl Observer {
    /// Observes `watchers` watchers.
    pub(super) fn new(
        keyed: Arc<KeyedState>,
        versions: Arc<SharedVersions>,
        watches: Watches,
        keys: WatchedKeys,
        watchers: u32,
    ) -> Self {
        let judge = WatchJudge::new(watches, keys, watchers, |key| versions.log(key).base());
        let seen = vec![Vec::new(); keys.count as usize];
        Self {
            keyed,
            versions,
            keys,
            judge,
            seen,
            known: Latencies::default(),
            last_event: None,
            longest_silence: Duration::ZERO,
            interruptions: Vec::new(),
            requests: 0,
            bytes_received: 0,
        }
    }

    /// Judges news that were read at `now` from the connection of `watchers`.
    pub(super) fn observe(
        &mut self,
        news: WatchNews<'_>,
        watchers: &[u32],
        now: Instant,
    ) -> FollowUp {
        match news {
            WatchNews::Created { watcher, place } => {
                self.judge.created(watcher, place);
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
        let observed = self.judge.event(&event, &log);
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

    /// Notes a lost connection or an ended watch.
    pub(super) fn interrupted(&mut self, what: String) {
        if self.interruptions.len() < INTERRUPTIONS_MAX {
            self.interruptions.push(what);
        }
    }

    /// Returns true if each watcher knows what it must know.
    pub(super) fn is_complete(&self) -> bool {
        self.judge.is_complete(|key| self.versions.log(key).clone())
    }

    /// Judges what is missing, and returns the figures. The caller adds those of its connections.
    pub(super) fn conclude(self, watchers: u32) -> WatchFigures {
        let Self { versions, keys, judge, seen, .. } = self;
        let mut figures = WatchFigures {
            watchers,
            known: self.known,
            longest_silence: self.longest_silence,
            interruptions: self.interruptions,
            requests: self.requests,
            bytes_received: self.bytes_received,
            ..WatchFigures::default()
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
