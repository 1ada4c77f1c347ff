//! Judges the events of all watchers of a load.
//!
//! Two numbers order the events. A *version* is the number of a write within its key, as the event's value proves. A
//! *place* is the position of an event in the system's own order, such as etcd's revision. Places judge order and
//! progress; versions judge what is missing or repeated. For each watcher and key the judge keeps the lowest version
//! that is not known yet. Versions that a watcher has skipped are holes, which are rare.
//!
//! A write that failed may leave a hole, and overlapping writes may fill one late. So holes are judged at the end,
//! when all outcomes are known.

use std::collections::{HashMap, HashSet};

use super::figures::WatchCounts;
use super::guarantee::{Delivery, GuaranteeOutcome, WatchGuarantee, Watches};
use super::version_log::{VersionLog, VersionTimes};
use crate::ledger::{Write, WriteOutcome};
use crate::units::count_text;
use serde::{Deserialize, Serialize};

/// Maximum number of remembered holes. With more, the judge claims nothing about missing events.
const HOLES_MAX: usize = 1 << 20;
/// Maximum number of kept examples.
const EXAMPLES_MAX: usize = 5;

/// Selects the keys of a watcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchRange {
    /// One key. Watchers take the workload's keys in turn.
    #[default]
    Key,
    /// All keys of the workload.
    Prefix,
}

crate::named::named! { WatchRange: Key = "key", Prefix = "prefix" }

/// Selects the first events of a new watcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WatchStart {
    /// Those after its creation.
    #[default]
    Now,
    /// The oldest that the system still has.
    Oldest,
}

crate::named::named! { WatchStart: Now = "now", Oldest = "oldest" }

impl WatchStart {
    /// Returns true if a watcher begins with events of the time after its creation.
    pub fn is_now(&self) -> bool {
        *self == Self::Now
    }
}

/// Describes the keys that watchers watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedKeys {
    /// Number of keys of the workload.
    pub count: u32,
    /// Keys of each watcher.
    pub range: WatchRange,
}

impl WatchedKeys {
    /// Returns the only key of a watcher; `None` if it watches all.
    pub fn key_of(&self, watcher: u32) -> Option<u32> {
        (self.range == WatchRange::Key).then(|| watcher % self.count.max(1))
    }

    /// Returns the number of keys of each watcher.
    pub fn each(&self) -> usize {
        if self.range == WatchRange::Key { 1 } else { self.count as usize }
    }

    /// Returns how many of `watchers` watch a key.
    pub fn watchers_of(&self, key: u32, watchers: u32) -> u32 {
        match self.range {
            WatchRange::Prefix => watchers,
            WatchRange::Key => watchers / self.count + u32::from(key < watchers % self.count),
        }
    }

    fn slot(&self, watcher: u32, key: u32) -> Option<usize> {
        match self.range {
            WatchRange::Prefix if key < self.count => {
                Some(watcher as usize * self.count as usize + key as usize)
            }
            WatchRange::Key if self.key_of(watcher) == Some(key) => Some(watcher as usize),
            _ => None,
        }
    }
}

/// Holds an event that a watcher received, with its verified version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchEvent {
    /// Number of the watcher.
    pub watcher: u32,
    /// Number of the key.
    pub key: u32,
    /// Version of the key.
    pub version: u32,
    /// Place in the system's order; `None` if the event does not name it.
    pub place: Option<u64>,
}

/// Describes what an event added to a watcher's knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedVersions {
    /// These versions, first and last. Without skipped versions they are equal.
    News(u32, u32),
    /// A version that an earlier event had skipped.
    Filled,
    /// Nothing.
    Nothing,
}

/// Holds the state of one watcher.
#[derive(Debug, Clone, Copy, Default)]
struct View {
    /// Greatest place of its events.
    last: u64,
    /// Greatest place of reported progress.
    bookmark: u64,
}

/// Versions that a watcher skipped, first and last.
#[derive(Debug, Clone, Copy)]
struct Hole {
    from: u32,
    to: u32,
    /// True if the first event of the key after a resume showed it.
    resumed: bool,
}

/// Judges the events of all watchers of a load.
#[derive(Debug)]
pub struct WatchJudge {
    watches: Watches,
    keys: WatchedKeys,
    views: Vec<View>,
    /// Lowest version that is not known, for each watcher and key.
    next: Vec<u32>,
    holes: HashMap<usize, Vec<Hole>>,
    hole_count: usize,
    /// Slots without the event of a put since their watcher resumed.
    resumed: HashSet<usize>,
    /// Slots without the event of a put since the system reported that the history is gone. A hole is then a documented
    /// loss.
    gone: HashSet<usize>,
    counts: WatchCounts,
    /// True if the watchers ended while events still came.
    is_cut_off: bool,
}

impl WatchJudge {
    /// Judges `watchers` watchers that know version `base(key)` of each key.
    pub fn new(
        watches: Watches,
        keys: WatchedKeys,
        watchers: u32,
        base: impl Fn(u32) -> u32,
    ) -> Self {
        let all = |watcher| {
            let only = keys.key_of(watcher);
            only.map_or(0..keys.count, |key| key..key + 1)
        };
        let next = (0..watchers).flat_map(all).map(|key| base(key) + 1).collect();
        Self {
            watches,
            keys,
            views: vec![View::default(); watchers as usize],
            next,
            holes: HashMap::new(),
            hole_count: 0,
            resumed: HashSet::new(),
            gone: HashSet::new(),
            counts: WatchCounts::default(),
            is_cut_off: false,
        }
    }

    /// Returns the lowest version of a key that a watcher does not know; `None` if it does not watch the key.
    pub fn next_of(&self, watcher: u32, key: u32) -> Option<u32> {
        self.next.get(self.keys.slot(watcher, key)?).copied()
    }

    /// Returns the greatest place that a watcher knows, from which it resumes; 0 if none.
    pub fn known_place(&self, watcher: u32) -> u64 {
        self.views.get(watcher as usize).map_or(0, |view| view.last.max(view.bookmark))
    }

    /// Judges an event. `log` is that of its key.
    pub fn event(&mut self, event: &WatchEvent, log: &VersionLog) -> ObservedVersions {
        let WatchEvent { watcher, key, version, .. } = *event;
        let Some(slot) = self.keys.slot(watcher, key) else {
            self.foreign(watcher, "an event of a key that it does not watch");
            return ObservedVersions::Nothing;
        };
        self.counts.events += 1;
        if version > log.newest() {
            self.counts.phantoms += 1;
            self.example(event, "version was never written");
            return ObservedVersions::Nothing;
        }
        self.judge_place(event);
        let next = self.next[slot];
        if version >= next {
            self.next[slot] = version + 1;
            let (resumed, is_gone) = (self.resumed.contains(&slot), self.gone.contains(&slot));
            // Deletes look alike, so only a put proves which versions came before.
            if (resumed || is_gone) && !is_delete(log, version) {
                self.resumed.remove(&slot);
                self.gone.remove(&slot);
            }
            if version > next {
                self.skip(slot, Hole { from: next, to: version - 1, resumed }, is_gone);
            }
            return ObservedVersions::News(next, version);
        }
        self.known_version(event, slot, log)
    }

    fn judge_place(&mut self, event: &WatchEvent) {
        let Some(place) = event.place else { return };
        let view = &mut self.views[event.watcher as usize];
        let (last, bookmark) = (view.last, view.bookmark);
        view.last = last.max(place);
        if place <= bookmark {
            self.counts.after_bookmark += 1;
            self.example(event, &format!("came after progress to {bookmark}"));
        } else if place < last {
            self.counts.reordered += 1;
            self.example(event, &format!("came after place {last}"));
        }
    }

    /// Judges an event of a version at or below the newest known one.
    fn known_version(
        &mut self,
        event: &WatchEvent,
        slot: usize,
        log: &VersionLog,
    ) -> ObservedVersions {
        if self.fill(slot, event.version) {
            return ObservedVersions::Filled;
        }
        let newest = self.next[slot] - 1;
        match self.watches.delivery {
            Delivery::Each => {
                self.counts.repeated += 1;
                self.example(event, "came twice");
            }
            // A repeated query may return the same state.
            Delivery::Latest if event.version == newest => self.counts.unchanged += 1,
            Delivery::Latest if log.precedes(event.version, newest) => {
                self.counts.reordered += 1;
                self.example(event, &format!("came after version {newest}"));
            }
            Delivery::Latest => {}
        }
        ObservedVersions::Nothing
    }

    /// Notes versions that a watcher has skipped. `is_gone`: the system reported that.
    fn skip(&mut self, slot: usize, hole: Hole, is_gone: bool) {
        if is_gone {
            self.counts.gone += u64::from(hole.to - hole.from + 1);
        } else if self.watches.delivery == Delivery::Each && self.hole_count < HOLES_MAX {
            self.hole_count += 1;
            self.holes.entry(slot).or_default().push(hole);
        } else if self.watches.delivery == Delivery::Each {
            self.counts.unjudged += u64::from(hole.to - hole.from + 1);
        }
    }

    /// Removes a version from the holes. Returns true if it was in one.
    fn fill(&mut self, slot: usize, version: u32) -> bool {
        let Some(holes) = self.holes.get_mut(&slot) else { return false };
        let inside = |hole: &Hole| (hole.from..=hole.to).contains(&version);
        let Some(at) = holes.iter().position(inside) else { return false };
        let hole = holes.swap_remove(at);
        let parts = [Hole { to: version - 1, ..hole }, Hole { from: version + 1, ..hole }];
        holes.extend(parts.into_iter().filter(|part| part.from <= part.to));
        true
    }

    /// Notes the place after which a new watcher observes. One that resumes observes from where it was.
    pub fn created(&mut self, watcher: u32, place: Option<u64>) {
        if let (Some(view), Some(place)) = (self.views.get_mut(watcher as usize), place)
            && view.last == 0
        {
            view.last = place;
        }
    }

    /// Judges a report of progress: no event up to `place` may follow.
    pub fn progress(&mut self, watcher: u32, place: u64) {
        let Some(view) = self.views.get_mut(watcher as usize) else { return };
        self.counts.bookmarks += 1;
        let (last, before) = (view.last, view.bookmark);
        view.bookmark = before.max(place);
        if place < before.max(last) {
            self.counts.early_bookmarks += 1;
            let what =
                format!("watcher {watcher}: progress to {place} came after {}", before.max(last));
            self.counts.add_example(what, EXAMPLES_MAX);
        }
    }

    /// Notes that a watcher was created again after [`Self::known_place`].
    pub fn resumed(&mut self, watcher: u32) {
        self.counts.resumes += 1;
        self.resumed.extend(self.slots_of_watcher(watcher));
    }

    /// Returns the slots of all keys of a watcher; none if there is no such watcher.
    fn slots_of_watcher(&self, watcher: u32) -> Vec<usize> {
        let keys = match self.keys.key_of(watcher) {
            _ if watcher as usize >= self.views.len() => 0..0,
            Some(key) => key..key + 1,
            None => 0..self.keys.count,
        };
        keys.filter_map(|key| self.keys.slot(watcher, key)).collect()
    }

    /// Notes that the system reported the loss of history up to `place`, and from where the watcher continues.
    pub fn gone(&mut self, watcher: u32, place: u64) {
        let Some(view) = self.views.get_mut(watcher as usize) else { return };
        view.last = view.last.max(place.saturating_sub(1));
        self.counts.histories_gone += 1;
        let slots = self.slots_of_watcher(watcher);
        self.resumed.extend(&slots);
        self.gone.extend(slots);
    }

    /// Counts an event that no write of the load explains, such as a foreign key or a damaged value.
    pub fn foreign(&mut self, watcher: u32, what: &str) {
        self.counts.phantoms += 1;
        self.counts.add_example(format!("watcher {watcher}: {what}"), EXAMPLES_MAX);
    }

    fn example(&mut self, event: &WatchEvent, what: &str) {
        let WatchEvent { watcher, key, version, place } = event;
        let place = place.map_or_else(String::new, |place| format!(" (place {place})"));
        let text = format!("watcher {watcher}: version {version} of key {key}{place} {what}");
        self.counts.add_example(text, EXAMPLES_MAX);
    }

    /// Returns true if each watcher knows what it must know: every acknowledged version, or the last one.
    pub fn is_complete(&self, log: impl Fn(u32) -> VersionLog) -> bool {
        (0..self.keys.count).all(|key| {
            let log = log(key);
            let last = self.last_needed(&log);
            self.slots_of(key).all(|slot| self.knows(slot, last, &log))
        })
    }

    /// Returns the version that a watcher of the key must have reached; 0 if none.
    pub fn last_needed(&self, log: &VersionLog) -> u32 {
        let last_began = log.last_began();
        let is_last = |times: &super::VersionTimes| match self.watches.delivery {
            Delivery::Each => times.is_acknowledged(),
            // Overlapping writes may end in any order, so any of them may be the last.
            Delivery::Latest => times.is_acknowledged() && times.ended >= last_began,
        };
        let mut needed =
            log.versions().filter(|(_, times)| is_last(times)).map(|(version, _)| version);
        match self.watches.delivery {
            Delivery::Each => needed.max().unwrap_or(0),
            Delivery::Latest => needed.next().unwrap_or(0),
        }
    }

    /// Returns true if a watcher knows a version of the key or a later one. One that receives the latest state does not
    /// see a key that is created and deleted again, so each delete shows it the state after any other.
    fn knows(&self, slot: usize, version: u32, log: &VersionLog) -> bool {
        let newest = self.next[slot] - 1;
        let is_state = self.watches.delivery == Delivery::Latest;
        newest >= version || (is_state && is_delete(log, newest) && is_delete(log, version))
    }

    /// Returns true if a watcher knows a version of a key or a later one, or does not watch the key.
    pub fn has_reached(&self, watcher: u32, key: u32, version: u32, log: &VersionLog) -> bool {
        self.keys.slot(watcher, key).is_none_or(|slot| self.knows(slot, version, log))
    }

    /// Returns the number of events so far.
    pub fn event_count(&self) -> u64 {
        self.counts.events
    }

    fn slots_of(&self, key: u32) -> impl Iterator<Item = usize> {
        (0..self.views.len() as u32).filter_map(move |watcher| self.keys.slot(watcher, key))
    }

    /// Notes that the watchers end while events still come, so that the last versions may be on their way.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// Judges what is missing, once all writes have ended and no more events come. `seen` returns how many watchers
    /// observed a version.
    pub fn conclude(
        mut self,
        log: impl Fn(u32) -> VersionLog,
        seen: impl Fn(u32, u32) -> u32,
    ) -> (WatchCounts, Vec<GuaranteeOutcome>) {
        for key in 0..self.keys.count {
            let log = log(key);
            let slots: Vec<usize> = self.slots_of(key).collect();
            let watchers = slots.len() as u64;
            let needed = self.last_needed(&log);
            let mut mistaken: HashMap<u32, u64> = HashMap::new();
            for slot in slots {
                for version in self.conclude_slot(slot, key, needed, &log) {
                    *mistaken.entry(version).or_default() += 1;
                }
            }
            self.counts.delivered += mistaken.values().sum::<u64>();
            for (version, times) in log.versions() {
                let observed = u64::from(seen(key, version));
                let observed =
                    observed.saturating_sub(mistaken.get(&version).copied().unwrap_or(0));
                if times.is_acknowledged() {
                    self.counts.expected += watchers;
                    self.counts.delivered += observed.min(watchers);
                } else if times.is_refused() && observed > 0 {
                    self.counts.phantoms += observed;
                    let what =
                        format!("version {version} of key {key} was refused, and has events");
                    self.counts.add_example(what, EXAMPLES_MAX);
                }
            }
        }
        let outcomes = self.outcomes();
        (self.counts, outcomes)
    }

    /// Judges what one watcher misses of one key. Returns the deletes of which it seemed to have the event, and had that
    /// of another.
    fn conclude_slot(&mut self, slot: usize, key: u32, needed: u32, log: &VersionLog) -> Vec<u32> {
        let watcher = slot / self.keys.each();
        let holes = self.holes.remove(&slot).unwrap_or_default();
        let next = self.next[slot];
        let mut mistaken = MistakenDeletes::new(next, &holes, log);
        let mut is_due = |version: u32| {
            log.get(version).is_some_and(VersionTimes::is_acknowledged)
                && !mistaken.explain(version)
        };
        for hole in &holes {
            let lost: Vec<u32> = (hole.from..=hole.to).filter(|&version| is_due(version)).collect();
            let Some(first) = lost.first() else { continue };
            let count = lost.len() as u64;
            let place =
                if hole.resumed { &mut self.counts.lost_on_resume } else { &mut self.counts.lost };
            *place += count;
            let what = format!(
                "watcher {watcher}: version {first} of key {key} never came, a later one did ({} in all)",
                count_text(count)
            );
            self.counts.add_example(what, EXAMPLES_MAX);
        }
        let missing = match self.watches.delivery {
            _ if self.knows(slot, needed, log) => 0,
            Delivery::Each => (next..=needed).filter(|&version| is_due(version)).count() as u64,
            Delivery::Latest => 1,
        };
        if self.gone.contains(&slot) {
            self.counts.gone += missing;
        } else if self.is_cut_off {
            self.counts.unfinished += missing;
        } else if missing > 0 {
            self.counts.undelivered += missing;
            let what = format!(
                "watcher {watcher}: version {needed} of key {key} never came, nor a later one"
            );
            self.counts.add_example(what, EXAMPLES_MAX);
        }
        mistaken.explained
    }

    fn outcomes(&self) -> Vec<GuaranteeOutcome> {
        let counts = &self.counts;
        let outcome = |&guarantee: &WatchGuarantee| {
            let (tested, broken) = match guarantee {
                WatchGuarantee::Ordered => (counts.events, counts.reordered),
                WatchGuarantee::Unique => (counts.events, counts.repeated),
                // A write of one key has one event.
                WatchGuarantee::Atomic => (0, 0),
                WatchGuarantee::Reliable => (counts.expected, counts.lost + counts.undelivered),
                WatchGuarantee::Resumable => (counts.resumes, counts.lost_on_resume),
                WatchGuarantee::Bookmarkable => {
                    (counts.bookmarks, counts.after_bookmark + counts.early_bookmarks)
                }
            };
            self.watches.outcome(guarantee, tested, broken)
        };
        WatchGuarantee::ALL.iter().map(outcome).collect()
    }

    /// Returns the version that the event of a delete shows to a watcher. Deletes look alike, so it is the likeliest of
    /// those that the watcher does not know: one that may come before the next put, else one that was skipped, else a
    /// later one. Without any, it is one that the watcher knows.
    pub fn delete_of(&self, watcher: u32, key: u32, log: &VersionLog) -> Option<u32> {
        let slot = self.keys.slot(watcher, key)?;
        let later = self.next[slot]..=log.newest();
        // A put that ended before a delete began comes first. Versions begin in order.
        let mut put_ended = u64::MAX;
        let before_put = later.clone().take_while(|&version| {
            let Some(times) = log.get(version) else { return true };
            if times.write == Write::Put && times.is_acknowledged() {
                put_ended = put_ended.min(times.ended);
            }
            times.sent <= put_ended
        });
        let holes = self.holes.get(&slot).into_iter().flatten();
        let skipped = holes.flat_map(|hole| hole.from..=hole.to);
        let found = likeliest_delete(before_put, log);
        let found = found.or_else(|| likeliest_delete(skipped, log));
        let found = found.or_else(|| likeliest_delete(later, log));
        found.or_else(|| self.known_delete(slot, log))
    }

    /// Returns the version of a delete that a watcher knows. One that receives each version has the last one twice. One
    /// that reads the state again may find the absence that it knows, or that of a delete which overlapped the newest
    /// write. Before the log, a key may be absent.
    fn known_delete(&self, slot: usize, log: &VersionLog) -> Option<u32> {
        let newest = self.next[slot] - 1;
        let mut known = (log.base() + 1..=newest).rev();
        match self.watches.delivery {
            Delivery::Each => known.find(|&version| is_delete(log, version)),
            Delivery::Latest if newest <= log.base() => Some(newest),
            Delivery::Latest => known.find(|&version| {
                is_delete(log, version)
                    && !log.get(version).is_some_and(VersionTimes::is_refused)
                    && !log.precedes(version, newest)
            }),
        }
    }
}

/// Returns the first of these versions that is a delete and may have happened. One of unknown outcome comes last.
fn likeliest_delete(versions: impl Iterator<Item = u32>, log: &VersionLog) -> Option<u32> {
    let mut unknown = None;
    for version in versions {
        let Some(times) = log.get(version) else { continue };
        if times.write != Write::Delete || times.is_void || times.is_refused() {
            continue;
        }
        if times.outcome != Some(WriteOutcome::Unknown) {
            return Some(version);
        }
        unknown.get_or_insert(version);
    }
    unknown
}

/// Finds the events of deletes that were taken for those of earlier deletes, which were in flight at that time and maybe
/// never happened.
struct MistakenDeletes<'a> {
    /// Lowest version that the watcher does not know.
    next: u32,
    holes: &'a [Hole],
    log: &'a VersionLog,
    /// Deletes that the watcher seems to know, although no acknowledgement proves them; `None` until they are needed.
    unproven: Option<Vec<u32>>,
    /// Those that had the event of another.
    explained: Vec<u32>,
}

impl<'a> MistakenDeletes<'a> {
    fn new(next: u32, holes: &'a [Hole], log: &'a VersionLog) -> Self {
        Self { next, holes, log, unproven: None, explained: Vec::new() }
    }

    /// Returns true if the event of this version was taken for that of an earlier delete.
    fn explain(&mut self, version: u32) -> bool {
        let Some(times) = self.log.get(version).filter(|times| times.write == Write::Delete) else {
            return false;
        };
        let (next, holes, log) = (self.next, self.holes, self.log);
        let unproven = self.unproven.get_or_insert_with(|| {
            let is_known =
                |version: &u32| !holes.iter().any(|hole| (hole.from..=hole.to).contains(version));
            let is_unproven = |version: &u32| {
                is_delete(log, *version)
                    && !log.get(*version).is_some_and(VersionTimes::is_acknowledged)
            };
            (log.base() + 1..next).filter(is_unproven).filter(is_known).collect()
        });
        let overlaps = |other: &u32| {
            let ended = log.get(*other).map_or(0, |other| other.ended);
            *other < version && (ended == 0 || ended > times.sent)
        };
        let Some(at) = unproven.iter().position(overlaps) else { return false };
        self.explained.push(unproven.swap_remove(at));
        true
    }
}

/// Returns true if a version deleted the key.
fn is_delete(log: &VersionLog, version: u32) -> bool {
    log.get(version).is_some_and(|times| times.write == Write::Delete && !times.is_void)
}
