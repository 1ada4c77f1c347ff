//! Holds what watchers observed during a load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::guarantee::{GuaranteeOutcome, GuaranteeState};
use crate::histogram::Latencies;
use crate::memory::MemoryGrowth;
use crate::units;

/// Maximum number of examples of several measurements together.
const EXAMPLES_MAX: usize = 5;

/// Counts events and their faults, over all watchers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchCounts {
    /// Events of watched keys.
    pub events: u64,
    /// Acknowledged versions, times the watchers of their keys.
    pub expected: u64,
    /// Those that a watcher observed.
    pub delivered: u64,
    /// Acknowledged versions that a watcher skipped, although the system delivers each.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub lost: u64,
    /// Acknowledged versions that the first event after a resume skipped.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub lost_on_resume: u64,
    /// Acknowledged versions that had not come when the watchers ended, nor any later one.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub undelivered: u64,
    /// Acknowledged versions that had not come when the watchers ended, while events still came. They are not judged.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unfinished: u64,
    /// Events of versions that the watcher already had.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub repeated: u64,
    /// Events that came after a later one.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub reordered: u64,
    /// Events that no write of the load explains: refused or unknown writes, foreign keys, damaged values.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub phantoms: u64,
    /// Events at or before a place up to which the system had reported progress.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub after_bookmark: u64,
    /// Reports of progress before an earlier report or event.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub early_bookmarks: u64,
    /// Reports of progress.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub bookmarks: u64,
    /// Watchers created again after their connection or their watch had ended.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub resumes: u64,
    /// Times that the system reported the loss of its history to a watcher.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub histories_gone: u64,
    /// Versions that such a report explains.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub gone: u64,
    /// Answers that showed the version that the watcher already had.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unchanged: u64,
    /// Skipped versions that were not judged, because there were too many.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub unjudged: u64,
    /// First few faults, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

impl WatchCounts {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        let counts = [
            (&mut self.events, other.events),
            (&mut self.expected, other.expected),
            (&mut self.delivered, other.delivered),
            (&mut self.lost, other.lost),
            (&mut self.lost_on_resume, other.lost_on_resume),
            (&mut self.undelivered, other.undelivered),
            (&mut self.unfinished, other.unfinished),
            (&mut self.repeated, other.repeated),
            (&mut self.reordered, other.reordered),
            (&mut self.phantoms, other.phantoms),
            (&mut self.after_bookmark, other.after_bookmark),
            (&mut self.early_bookmarks, other.early_bookmarks),
            (&mut self.bookmarks, other.bookmarks),
            (&mut self.resumes, other.resumes),
            (&mut self.histories_gone, other.histories_gone),
            (&mut self.gone, other.gone),
            (&mut self.unchanged, other.unchanged),
            (&mut self.unjudged, other.unjudged),
        ];
        for (ours, theirs) in counts {
            *ours = ours.saturating_add(theirs);
        }
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
    }

    /// Keeps an example if there are fewer than `max`.
    pub(super) fn add_example(&mut self, example: String, max: usize) {
        if self.examples.len() < max {
            self.examples.push(example);
        }
    }
}

/// Holds what watchers observed during a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchFigures {
    /// Number of watchers.
    pub watchers: u32,
    /// Number of their connections.
    pub connections: u32,
    /// Time from the first connection to the creation of the last watcher.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub setup: Duration,
    /// Counts of events and faults.
    pub counts: WatchCounts,
    /// Outcome of each guarantee.
    pub guarantees: Vec<GuaranteeOutcome>,
    /// Time from a write's sending until a watcher knew it or a later version of its key, for each watcher. The only
    /// figure that compares systems that deliver each version with those that skip some.
    pub known: Latencies,
    /// Time from a write's sending until the first watcher observed it. Like the next three, only for acknowledged
    /// writes that all watchers of the key observed.
    pub first: Latencies,
    /// Time from a write's sending until the last watcher observed it.
    pub last: Latencies,
    /// Time from a write's due moment until the last watcher observed it.
    pub due_to_last: Latencies,
    /// Time from a write's acknowledgement until the last watcher observed it; zero if that came first.
    pub after_acknowledgement: Latencies,
    /// Acknowledged writes that some watcher observed before the writer had its answer.
    pub before_acknowledgement: u64,
    /// Acknowledged writes whose first observation was timed.
    pub timed: u64,
    /// Requests that watchers sent after their creation, for systems that ask for each event.
    #[serde(default, skip_serializing_if = "units::is_zero")]
    pub requests: u64,
    /// Bytes that watchers received after their creation.
    pub bytes_received: u64,
    /// CPU time of the watchers' thread from their creation.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub cpu: Duration,
    /// Time that bytes may have been ready before the watchers' thread read them, for each read.
    pub receive_lag: Latencies,
    /// Longest time without any event while writes were acknowledged.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub longest_silence: Duration,
    /// Lost connections and ended watches, first few in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<String>,
    /// Response times of the same writes without watchers, on the same cluster.
    #[serde(default, skip_serializing_if = "Latencies::is_empty")]
    pub alone: Latencies,
    /// Events from before the load; `None` if watchers begin with those after their creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<Box<CatchUp>>,
    /// Memory of all servers before the first watcher existed and after the last one did, each under the same load.
    /// `None` if it was not sampled often enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_memory: Option<MemoryGrowth>,
}

/// Holds how watchers that began with the oldest event caught up. The load begins after that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CatchUp {
    /// Watchers whose keys had been written before their creation.
    pub watchers: u32,
    /// Events before the load began.
    pub events: u64,
    /// Time from a watcher's request until it knew the newest version of each of its keys, of those that did before the
    /// load began.
    pub took: Latencies,
    /// Time from the first request until the last watcher knew that, or the load began without it.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub lasted: Duration,
}

impl CatchUp {
    /// Returns true if each watcher caught up before the load began.
    pub fn is_complete(&self) -> bool {
        self.took.count() >= u64::from(self.watchers)
    }
}

impl WatchFigures {
    /// Returns the share of acknowledged versions that watchers observed; `None` without any.
    pub fn delivered_share(&self) -> Option<f64> {
        let expected = self.counts.expected;
        (expected > 0).then(|| self.counts.delivered as f64 / expected as f64)
    }

    /// Returns the time from the first connection until the last watcher existed and had caught up.
    pub fn ready_after(&self) -> Duration {
        self.catch_up.as_ref().map_or(self.setup, |catch_up| catch_up.lasted.max(self.setup))
    }

    /// Returns the number of events since the load began.
    pub fn load_events(&self) -> u64 {
        let old = self.catch_up.as_ref().map_or(0, |catch_up| catch_up.events);
        self.counts.events.saturating_sub(old)
    }

    /// Returns true if the system broke a guarantee, or an event has no explanation.
    pub fn has_failed(&self) -> bool {
        self.broken().next().is_some() || self.counts.phantoms > 0
    }

    /// Returns the guarantees that the system guarantees and broke, with the number of times.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.guarantees.iter().filter_map(|outcome| match outcome.state {
            GuaranteeState::Broken(times) => Some((outcome.guarantee.name(), times)),
            _ => None,
        })
    }
}
