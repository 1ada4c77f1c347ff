//! Quantities of watches: names, units, and how trials are combined.
//!
//! Not here: values (`model::watches`), guarantees (`model::watches`), texts (`document::watches`).

use super::{Aggregation, Point, Unit};

/// A measured quantity of a load's watchers. The order is that of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchQuantity {
    /// Number of watchers.
    Watchers,
    /// Number of their connections.
    Connections,
    /// Time from a write's sending until a watcher knew it or a later version, for each watcher.
    Known(Point),
    /// Share of the acknowledged versions that watchers observed, 0 to 1.
    Delivered,
    /// Time from a write's sending to its acknowledgement.
    Acknowledged(Point),
    /// Time from a write's sending to the first watcher.
    First(Point),
    /// Time from a write's sending to the last watcher.
    Last(Point),
    /// Time from a write's due moment to the last watcher.
    DueToLast(Point),
    /// Time from a write's acknowledgement to the last watcher.
    AfterAcknowledgement(Point),
    /// Share of the acknowledged writes that a watcher observed before the writer had its answer, 0 to 1.
    Early,
    /// Response time of the writes.
    Writes(Point),
    /// Response time of the same writes without watchers.
    WritesAlone(Point),
    /// Watchers created per second.
    SetupRate,
    /// Growth of the servers' memory per watcher.
    ServerMemory,
    /// Time from a watcher's request until it had caught up with the events from before the load.
    CatchUp(Point),
    /// Events from before the load, of all watchers, per second of their catching up.
    OldEventRate,
    /// Requests that watchers sent per event.
    RequestsPerEvent,
    /// Bytes that watchers received per event.
    BytesPerEvent,
    /// CPU time of the watchers' thread in the generator per event.
    CpuPerEvent,
    /// Time that bytes may have waited before the watchers' thread read them.
    ReceiveLag(Point),
    /// Longest time without any event while writes were acknowledged.
    LongestSilence,
    /// Events, and what went wrong with them.
    Count(WatchCount),
}

/// A count of a load's watchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchCount {
    /// Events of watched keys.
    Events,
    /// Versions that a watcher skipped, although the system delivers each.
    Lost,
    /// Versions that the first event after a resume skipped.
    LostOnResume,
    /// Versions that had not come at the end, nor a later one.
    Undelivered,
    /// Events that came twice.
    Repeated,
    /// Events that came after a later one.
    Reordered,
    /// Events that no write explains.
    Phantoms,
    /// Events before reported progress, and progress that went back.
    EarlyBookmarks,
    /// Watchers created again.
    Resumes,
    /// Reports that the history is gone.
    HistoriesGone,
    /// Versions that such a report explains.
    Gone,
    /// Skipped versions that were not judged.
    Unjudged,
}

impl WatchCount {
    pub(crate) const ALL: [Self; 12] = [
        Self::Events,
        Self::Lost,
        Self::LostOnResume,
        Self::Undelivered,
        Self::Repeated,
        Self::Reordered,
        Self::Phantoms,
        Self::EarlyBookmarks,
        Self::Resumes,
        Self::HistoriesGone,
        Self::Gone,
        Self::Unjudged,
    ];

    /// Returns its label and its name.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("events", "watch_events"),
            Self::Lost => ("events lost", "watch_lost"),
            Self::LostOnResume => ("events lost on a resume", "watch_lost_on_resume"),
            Self::Undelivered => ("versions never delivered", "watch_undelivered"),
            Self::Repeated => ("events repeated", "watch_repeated"),
            Self::Reordered => ("events out of order", "watch_reordered"),
            Self::Phantoms => ("events that no write explains", "watch_phantoms"),
            Self::EarlyBookmarks => ("progress reported too early", "watch_early_bookmarks"),
            Self::Resumes => ("watchers resumed", "watch_resumes"),
            Self::HistoriesGone => ("reports of a lost history", "watch_histories_gone"),
            Self::Gone => ("versions lost with the history", "watch_gone"),
            Self::Unjudged => ("skipped versions not judged", "watch_unjudged"),
        }
    }
}

impl WatchQuantity {
    /// Returns its label and its name in JSON.
    pub(super) fn words(self) -> (String, String) {
        let (label, name) = match self {
            Self::Watchers => ("watchers", "watchers"),
            Self::Connections => ("watchers' connections", "watch_connections"),
            Self::Known(point) => return point.fills("time to know {}", "watch_known_{}_ms"),
            Self::Delivered => ("versions observed", "watch_delivered_share"),
            Self::Acknowledged(point) => {
                return point.fills("write to acknowledgement {}", "watch_acknowledged_{}_ms");
            }
            Self::First(point) => {
                return point.fills("write to first watcher {}", "watch_first_{}_ms");
            }
            Self::Last(point) => {
                return point.fills("write to last watcher {}", "watch_last_{}_ms");
            }
            Self::DueToLast(point) => {
                return point.fills("due to last watcher {}", "watch_due_to_last_{}_ms");
            }
            Self::AfterAcknowledgement(point) => {
                return point.fills(
                    "acknowledgement to last watcher {}",
                    "watch_acknowledgement_to_last_{}_ms",
                );
            }
            Self::Early => ("seen before the acknowledgement", "watch_early_share"),
            Self::Writes(point) => {
                return point.fills("response time {} of writes", "write_response_{}_ms");
            }
            Self::WritesAlone(point) => {
                return point.fills(
                    "response time {} of writes without watchers",
                    "write_response_without_watchers_{}_ms",
                );
            }
            Self::SetupRate => ("watchers created /s", "watchers_created_per_second"),
            Self::ServerMemory => ("server memory per watcher", "server_memory_per_watcher_bytes"),
            Self::CatchUp(point) => {
                return point.fills("time to catch up {}", "watch_catch_up_{}_ms");
            }
            Self::OldEventRate => ("old events /s", "watch_old_events_per_second"),
            Self::RequestsPerEvent => ("requests per event", "watch_requests_per_event"),
            Self::BytesPerEvent => ("bytes per event", "watch_received_per_event_bytes"),
            Self::CpuPerEvent => ("generator CPU per event", "watch_cpu_per_event_ms"),
            Self::ReceiveLag(point) => {
                return point.fills("watchers' receive lag {}", "watch_receive_lag_{}_ms");
            }
            Self::LongestSilence => ("longest silence", "watch_longest_silence_ms"),
            Self::Count(count) => count.words(),
        };
        (label.to_owned(), name.to_owned())
    }

    /// Returns its name in a sentence.
    pub(crate) fn in_a_sentence(self) -> String {
        match self {
            Self::Known(point) => format!("{} time until watchers know a write", point.name()),
            other => other.words().0,
        }
    }

    /// Returns how trials are combined.
    pub(super) fn combined(self) -> Aggregation {
        if matches!(self, Self::Count(_)) { Aggregation::Sum } else { Aggregation::Median }
    }

    /// Returns true if its values are shares, 0 to 1.
    pub(super) fn is_share(self) -> bool {
        matches!(self, Self::Delivered | Self::Early)
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Known(_)
            | Self::Acknowledged(_)
            | Self::First(_)
            | Self::Last(_)
            | Self::DueToLast(_)
            | Self::AfterAcknowledgement(_)
            | Self::Writes(_)
            | Self::WritesAlone(_)
            | Self::CatchUp(_)
            | Self::CpuPerEvent
            | Self::ReceiveLag(_)
            | Self::LongestSilence => Unit::Milliseconds,
            Self::SetupRate | Self::OldEventRate => Unit::PerSecond,
            Self::ServerMemory | Self::BytesPerEvent => Unit::Bytes,
            Self::Watchers
            | Self::Connections
            | Self::Delivered
            | Self::Early
            | Self::RequestsPerEvent
            | Self::Count(_) => Unit::Count,
        }
    }
}
