//! Summarizes what watchers observed, for JSON.
//!
//! Not here: figures by name over several trials (`model::watches`).

use bakeoff_core::histogram::Latencies;
use bakeoff_core::memory::MemoryGrowth;
use bakeoff_core::ranked_latencies::RankedLatencies;
use bakeoff_core::units::harmless;
use bakeoff_core::watch::{GuaranteeOutcome, WatchCounts, WatchFigures};
use serde::Serialize;

use super::LatencyFigures;

/// Describes what the watchers of a load observed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchSummary {
    /// Number of watchers.
    pub watchers: u32,
    /// Number of their connections.
    pub connections: u32,
    /// Time from the first connection to the creation of the last watcher.
    pub setup_seconds: f64,
    /// Counts of events and faults.
    pub counts: WatchCounts,
    /// Share of the acknowledged versions that watchers observed, 0 to 1.
    pub delivered_share: Option<f64>,
    /// Outcome of each guarantee.
    pub guarantees: Vec<GuaranteeOutcome>,
    /// Time from a write's sending until a watcher knew it or a later version of its key, for each watcher.
    pub known: LatencyFigures,
    /// Time from a write's sending to the first watcher. Like the next three, only for acknowledged writes that all
    /// watchers of the key observed.
    pub first: LatencyFigures,
    /// Time from a write's sending to the last watcher.
    pub last: LatencyFigures,
    /// Time from a write's due moment to the last watcher.
    pub due_to_last: LatencyFigures,
    /// Time from a write's acknowledgement to the last watcher; zero if that came first.
    pub after_acknowledgement: LatencyFigures,
    /// Acknowledged writes that a watcher observed before the writer had its answer.
    pub before_acknowledgement: u64,
    /// Acknowledged writes whose first observation was timed.
    pub timed: u64,
    /// Requests that watchers sent after their creation.
    pub requests: u64,
    /// Bytes that watchers received after their creation.
    pub bytes_received: u64,
    /// CPU time of the watchers' thread.
    pub cpu_seconds: f64,
    /// Time that bytes may have been ready before the watchers' thread read them.
    pub receive_lag: LatencyFigures,
    /// Longest time without any event while writes were acknowledged.
    pub longest_silence_seconds: f64,
    /// Lost connections and ended watches, first few in words.
    pub interruptions: Vec<String>,
    /// Response times of the same writes without watchers.
    pub alone: LatencyFigures,
    /// How watchers that began with the oldest event caught up; `null` if they began with those after their creation.
    pub catch_up: Option<CatchUpSummary>,
    /// Memory of all servers before the first watcher existed and after the last one did; `null` if it was not sampled
    /// often enough.
    pub server_memory: Option<MemoryGrowth>,
}

/// Describes how watchers that began with the oldest event caught up. The load began after that.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CatchUpSummary {
    /// Watchers whose keys had been written before their creation.
    pub watchers: u32,
    /// Events before the load began.
    pub events: u64,
    /// Time from a watcher's request until it knew the newest version of each of its keys, of those that did before the
    /// load began.
    pub took: LatencyFigures,
    /// Time from the first request until the last watcher knew that, or the load began without it.
    pub lasted_seconds: f64,
}

impl WatchSummary {
    /// Describes figures without their histograms.
    pub(crate) fn new(of: &WatchFigures) -> Self {
        Self::describe(of, |_| None)
    }

    /// Describes figures. `hdr`: returns the text of a histogram, if it is to be shown.
    pub(super) fn describe(of: &WatchFigures, hdr: fn(&Latencies) -> Option<String>) -> Self {
        let latencies =
            |values: &Latencies| LatencyFigures::new(&RankedLatencies::of_values(values), hdr);
        let examples = of.counts.examples.iter().map(|one| harmless(one)).collect();
        Self {
            watchers: of.watchers,
            connections: of.connections,
            setup_seconds: of.setup.as_secs_f64(),
            counts: WatchCounts { examples, ..of.counts.clone() },
            delivered_share: of.delivered_share(),
            guarantees: of.guarantees.clone(),
            known: latencies(&of.known),
            first: latencies(&of.first),
            last: latencies(&of.last),
            due_to_last: latencies(&of.due_to_last),
            after_acknowledgement: latencies(&of.after_acknowledgement),
            before_acknowledgement: of.before_acknowledgement,
            timed: of.timed,
            requests: of.requests,
            bytes_received: of.bytes_received,
            cpu_seconds: of.cpu.as_secs_f64(),
            receive_lag: latencies(&of.receive_lag),
            longest_silence_seconds: of.longest_silence.as_secs_f64(),
            interruptions: of.interruptions.iter().map(|one| harmless(one)).collect(),
            alone: latencies(&of.alone),
            server_memory: of.server_memory,
            catch_up: of.catch_up.as_ref().map(|catch_up| CatchUpSummary {
                watchers: catch_up.watchers,
                events: catch_up.events,
                took: latencies(&catch_up.took),
                lasted_seconds: catch_up.lasted.as_secs_f64(),
            }),
        }
    }
}
