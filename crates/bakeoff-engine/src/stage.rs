//! Configures one stage of a load: clients, arrivals, times, threads.
//!
//! Not here: driving it (`drive`), the configuration of a whole load (`bakeoff_core::study`).

use std::time::Duration;

use bakeoff_core::schedule::{LoadShare, RateProfile, Spacing};
use bakeoff_core::study::Stop;

use crate::window_signal::MomentSender;

/// Chooses between kept connections and one per operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Each client keeps one connection. All are open before the load begins, unless the server accepts some late.
    Kept,
    /// Each operation opens its own connection. Response and service time include that.
    OneEach,
}

/// Chooses whether the measurement keeps the histograms of each past second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seconds {
    /// Keeps them in the measurement, packed to a few kilobytes a second.
    Kept,
    /// Passes a few figures to `progress` and drops the rest. Memory use does not grow with the load's duration.
    Told,
}

/// Configures one stage of a load.
#[derive(Debug, Clone)]
pub struct Drive {
    /// Number of clients. Each has one connection with [`Connections::Kept`].
    pub clients: u32,
    /// Maximum operations in flight per client; 1 with [`Connections::OneEach`].
    pub in_flight: u32,
    /// Kept connections, or one per operation.
    pub connections: Connections,
    /// Rate and spacing of an open load; `None` for a closed load.
    pub arrivals: Option<(RateProfile, Spacing)>,
    /// Time before an operation of an open load is due from which a thread waits without sleeping. Zero leaves the
    /// wait to the kernel's timer.
    pub spin: Duration,
    /// Warm-up time before measuring begins.
    pub warmup: Duration,
    /// Duration or number of operations after which measuring ends.
    pub stop: Stop,
    /// Time after which an unanswered operation counts as failed.
    pub timeout: Duration,
    /// Whether the measurement keeps the histograms of each second.
    pub seconds: Seconds,
    /// Maximum number of worker threads. The engine never starts more threads than clients.
    pub threads: u32,
    /// Seed of the arrival times.
    pub seed: u64,
    /// Number of the first operation. A later stage continues the count of the previous one.
    pub first_ticket: u64,
    /// Receives the start and end of measuring.
    pub moments: Option<MomentSender>,
    /// This generator's share of the load. Clients, arrivals and operations are those of the whole load. Every
    /// generator has as many threads as this one.
    pub share: LoadShare,
    /// This generator's operations, for a closed load that ends by a count; `None` means all of them.
    pub own_operations: Option<u64>,
}

impl Drive {
    /// Returns a closed load that starts each of `count` operations once, for a fill or an audit.
    pub fn once(count: u64, clients_max: u32, threads: u32, timeout: Duration) -> Self {
        Self {
            clients: u64::from(clients_max).min(count) as u32,
            in_flight: 1,
            connections: Connections::Kept,
            arrivals: None,
            spin: Duration::ZERO,
            warmup: Duration::ZERO,
            stop: Stop::Operations(count),
            timeout,
            seconds: Seconds::Told,
            threads,
            seed: 0, // a closed load has no arrivals to draw
            first_ticket: 0,
            moments: None,
            share: LoadShare::WHOLE,
            own_operations: None,
        }
    }
}
