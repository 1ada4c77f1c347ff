//! Disturbs the watchers of a load while it runs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Longest wait until the watchers' thread has disturbed them.
const WITHIN: Duration = Duration::from_secs(2);

/// Describes a disturbance of watchers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WatchDisturbance {
    /// Share of the connections, 0 to 1.
    pub share: f64,
    /// Time for which they neither read nor write; zero if they break instead.
    pub lasts: Duration,
}

impl WatchDisturbance {
    /// Breaks connections.
    pub fn drop(share: f64) -> Self {
        Self { share, lasts: Duration::ZERO }
    }

    /// Makes connections neither read nor write for a time.
    pub fn silence(share: f64, lasts: Duration) -> Self {
        Self { share, lasts }
    }

    /// Returns how many of `all` connections it affects; at least one.
    pub(super) fn affected(&self, all: usize) -> usize {
        ((all as f64 * self.share).round() as usize).clamp(1, all.max(1))
    }
}

/// One disturbance, and the sender of its proof.
type Order = (WatchDisturbance, Sender<String>);

/// Passes disturbances to the watchers' thread.
#[derive(Debug, Clone)]
pub struct WatchControl {
    orders: Arc<Mutex<Sender<Order>>>,
}

impl WatchControl {
    pub(super) fn new() -> (Self, Receiver<Order>) {
        let (orders, received) = channel();
        (Self { orders: Arc::new(Mutex::new(orders)) }, received)
    }

    /// Disturbs watchers, and returns the evidence: `12 of 30 connections closed`. `None` if they have ended.
    pub fn disturb(&self, disturbance: WatchDisturbance) -> Option<String> {
        let (proof, proven) = channel();
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.send((disturbance, proof)).ok()?;
        proven.recv_timeout(WITHIN).ok()
    }
}
