//! Runs the watchers of a load: one thread, its connections, one `epoll`.
//!
//! Watchers are no operations. They are created before the warm-up, on connections of their own, and kept until the
//! load has ended and its last events have come. The writers log when each version began and ended
//! ([`SharedVersions`]), so an event's delay is one subtraction on one clock.
//!
//! Not here: what events prove (`bakeoff_core::watch`), the bytes of a system (its session).

mod catch_up;
mod connection;
mod control;
mod drain;
mod observer;
mod party;
mod session;
#[cfg(test)]
mod tests;
mod version_observer;

pub use crate::shared_versions::SharedVersions;
pub use control::{WatchControl, WatchDisturbance};
pub use observer::{FollowUp, WatchObserver};
pub use party::{WatchConnect, WatchCosts, WatchParty, WatchSettings};
pub use session::{WatchNews, WatchSession, WatcherRequest};
pub use version_observer::{StudyWatchers, VersionObserver};
