//! The interface of an observer of watchers.

use std::time::Instant;

use bakeoff_core::watch::WatchRange;

use super::session::WatchNews;

/// Describes what the party must do after news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// Nothing.
    None,
    /// The watcher exists.
    Created,
    /// Create the watcher again on its connection.
    Renew(u32),
    /// Connect to another node.
    Move(String),
}

/// Names the keys of watchers, and times and judges their news.
pub trait WatchObserver: Send + 'static {
    /// Appends the key that a watcher watches, or the prefix of its keys.
    fn name(&self, watcher: u32, name: &mut Vec<u8>) -> WatchRange;

    /// Returns the place in the system's order after which a watcher wants events; 0 if it knows none.
    fn known_place(&self, watcher: u32) -> u64;

    /// Notes that a watcher is requested at `now`.
    fn requested(&mut self, watcher: u32, now: Instant) {
        let _ = (watcher, now);
    }

    /// Returns true if each watcher has received the events from before its creation that it wants.
    fn is_caught_up(&self) -> bool {
        true
    }

    /// Notes that all watchers exist, and the load begins.
    fn begin(&mut self, now: Instant) {
        let _ = now;
    }

    /// Notes that a watcher is created again after [`Self::known_place`].
    fn resumed(&mut self, watcher: u32);

    /// Judges news that were read at `now` from the connection of `watchers`.
    fn observe(&mut self, news: WatchNews<'_>, watchers: &[u32], now: Instant) -> FollowUp;

    /// Returns the time of the last event.
    fn last_event(&self) -> Option<Instant>;

    /// Returns true if each watcher knows what it must know.
    fn is_complete(&mut self) -> bool;

    /// Notes that the watchers end while events still come.
    fn cut_off(&mut self);
}
