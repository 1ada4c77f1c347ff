//! Measures a worker's CPU time.

use std::time::{Duration, Instant};

use super::super::clock;

/// Tracks the CPU time that a worker uses during its load.
pub(super) struct Effort {
    began: Instant,
    cpu_before: Duration,
    pub(super) spun: Duration,
    /// Share of a CPU; known once the load is over.
    pub(super) busy: Option<f64>,
}

impl Effort {
    pub(super) fn begin() -> Self {
        let (began, cpu_before) = (clock::now(), clock::thread_cpu());
        Self { began, cpu_before, spun: Duration::ZERO, busy: None }
    }

    pub(super) fn end(&mut self, now: Instant) {
        let used = clock::thread_cpu().saturating_sub(self.cpu_before).saturating_sub(self.spun);
        self.busy = Some(used.as_secs_f64() / (now - self.began).as_secs_f64());
    }
}
