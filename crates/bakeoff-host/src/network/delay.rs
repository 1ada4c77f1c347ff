//! Holds what passes over a path back for a time, and loses some of it.
//!
//! Not here: the paths (`namespaces`, `relays`), the proof of a delay (`paths`).

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Most packets that wait on one path. A router of the internet drops more, too.
const QUEUE_MAX: usize = 10_000;

/// Delay of a path, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathDelay {
    /// Mean delay.
    pub by: Duration,
    /// Largest difference from the mean. Delays are spread evenly.
    pub jitter: Duration,
    /// Share of packets that are lost, 0 to 1.
    pub loss: f64,
}

impl PathDelay {
    /// Returns the shortest delay.
    pub(super) fn least(&self) -> Duration {
        self.by.saturating_sub(self.jitter)
    }
}

/// Draws the delays of one path. What came first also leaves first.
pub(super) struct DelayClock {
    delay: PathDelay,
    rng: Xoshiro256PlusPlus,
    last: Instant,
}

impl DelayClock {
    /// Draws from `seed`.
    pub(super) fn new(delay: PathDelay, seed: u64) -> Self {
        Self { delay, rng: Xoshiro256PlusPlus::seed_from_u64(seed), last: clock::now() }
    }

    /// Returns when something that arrives now leaves; `None` if it is lost.
    pub(super) fn leaves_at(&mut self) -> Option<Instant> {
        if self.rng.random::<f64>() < self.delay.loss {
            return None;
        }
        let spread = self.delay.jitter * 2;
        let by = self.delay.least() + spread.mul_f64(self.rng.random());
        self.last = self.last.max(clock::now() + by);
        Some(self.last)
    }
}

/// A queue of packets that leave after their delay. Dropping it lets those leave that wait.
pub(super) struct DelayLine<T> {
    clock: DelayClock,
    queue: SyncSender<(Instant, T)>,
}

impl<T: Send + 'static> DelayLine<T> {
    /// Starts a thread that calls `pass` for each packet when it leaves.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(
        clock: DelayClock,
        mut pass: impl FnMut(T) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, packets) = sync_channel::<(Instant, T)>(QUEUE_MAX);
        std::thread::Builder::new().spawn(move || {
            for (leaves_at, packet) in packets {
                std::thread::sleep(leaves_at.saturating_duration_since(clock::now()));
                pass(packet);
            }
        })?;
        Ok(Self { clock, queue })
    }

    /// Delays a packet, or loses it. A full queue loses it, too.
    pub(super) fn push(&mut self, packet: T) {
        if let Some(leaves_at) = self.clock.leaves_at() {
            let _ = self.queue.try_send((leaves_at, packet));
        }
    }
}
