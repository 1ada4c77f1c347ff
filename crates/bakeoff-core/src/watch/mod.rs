//! Judges what watchers observe, in constant time an event.
//!
//! A watcher follows keys that the load writes. Each value names its version, so an event is verified byte for byte,
//! and a number shows which versions a watcher has skipped. Events are not stored.
//!
//! Not here: connections and time (`bakeoff_engine::watch`), a system's events (its folder in `bakeoff_systems`).

mod figures;
mod guarantee;
mod judge;
#[cfg(test)]
mod tests;
mod version_log;

pub use figures::{CatchUp, WatchCounts, WatchFigures};
pub use guarantee::{Delivery, GuaranteeOutcome, GuaranteeState, WatchGuarantee, Watches};
pub use judge::{ObservedVersions, WatchEvent, WatchJudge, WatchRange, WatchStart, WatchedKeys};
pub use version_log::{VersionLog, VersionTimes};
