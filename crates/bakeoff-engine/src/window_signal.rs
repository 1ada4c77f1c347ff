//! Publishes the start and end of the measured window to samplers.
//!
//! Resource usage is divided by completed operations, so both must cover the same time. Only the engine knows when
//! connecting and warming up are over.
//!
//! Not here: the sampling (`host::observe`).

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bakeoff_clock::Moment;

use super::{Window, clock};

/// Publishes the start and end of one stage's measured window.
#[derive(Debug, Clone)]
pub struct MomentSender {
    tell: Sender<Moment>,
    begin: Arc<OnceLock<Instant>>,
}

impl MomentSender {
    /// Sends to `tell`, whose receiver may be gone.
    pub fn new(tell: Sender<Moment>) -> Self {
        Self { tell, begin: Arc::default() }
    }

    /// Returns the start of measuring; `None` if it has not begun.
    pub fn begin(&self) -> Option<Instant> {
        self.begin.get().copied()
    }

    /// Publishes the start of measuring. The engine calls this once all clients are connected; for remote generators
    /// the coordinator does. If two halves of a load begin together, only the first call counts.
    pub fn begins(&self, window: &Window) {
        if self.begin.set(window.measure).is_err() {
            return;
        }
        self.tell.send(Moment::Begin(window.measure)).ok();
        if let Some(end) = window.end {
            self.tell.send(Moment::End(end)).ok();
        }
    }

    /// Publishes the end of measuring once all workers have ended.
    pub(super) fn ended(&self, window: &Window) {
        if window.end.is_none() {
            self.tell.send(Moment::End(clock::now())).ok();
        }
    }
}
