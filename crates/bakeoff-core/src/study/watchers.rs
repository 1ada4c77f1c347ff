//! Describes the watchers of a workload.
//!
//! Not here: what they observe (`crate::watch`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units;
use crate::watch::{WatchRange, WatchStart};

/// Describes the watchers of a workload. They are created before the warm-up, and kept until the load has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watchers {
    /// Number of watchers.
    pub count: u32,
    /// Keys of each watcher.
    pub of: WatchRange,
    /// First events of each watcher.
    #[serde(default, skip_serializing_if = "WatchStart::is_now")]
    pub from: WatchStart,
    /// Number of connections, for systems whose connections carry several watchers.
    pub connections: u32,
    /// True if events must hold the value before the write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub previous: bool,
    /// Interval between requests for a report of progress; zero for none.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub progress: Duration,
    /// Interval at which one connection after another is closed, and opened again; zero for never.
    #[serde(default, with = "units::duration", skip_serializing_if = "Duration::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub churn: Duration,
    /// Connections that stop reading at times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowReaders>,
}

/// Describes connections of watchers that stop reading at times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowReaders {
    /// Number of connections.
    pub connections: u32,
    /// Interval between the beginnings of two pauses.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub every: Duration,
    /// Length of a pause.
    #[serde(with = "units::duration")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DurationSeconds"))]
    pub pause: Duration,
}

impl Watchers {
    /// Returns the number of connections to a system whose connections carry at most `per_connection_max` watchers.
    pub fn connections_to(&self, per_connection_max: u32) -> u32 {
        self.connections.max(self.count.div_ceil(per_connection_max.max(1))).min(self.count)
    }
}
