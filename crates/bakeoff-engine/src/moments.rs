//! Tells when the measured window begins and ends, so that whoever samples can look at these moments.
//!
//! Usage is divided by the operations done. Both must be of the same time, and the engine
//! alone knows when connecting and warming up are over.
//!
//! Not here: who looks (`host::observe`).

use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bakeoff_clock::Moment;

use super::{Window, clock};

/// Tells somebody the moments of one stage of a load.
#[derive(Debug, Clone)]
pub struct MomentSender {
    tell: Sender<Moment>,
    begin: Arc<OnceLock<Instant>>,
}

impl MomentSender {
    /// Tells `tell`, which may have stopped listening.
    pub fn new(tell: Sender<Moment>) -> Self {
        Self { tell, begin: Arc::default() }
    }

    /// Returns when measuring began; `None` where it never did.
    pub fn begin(&self) -> Option<Instant> {
        self.begin.get().copied()
    }

    /// Told when all clients are connected, by the engine or by whoever has generators elsewhere drive the load. Of two
    /// halves that begin together the first to tell is heard.
    pub fn begins(&self, window: &Window) {
        if self.begin.set(window.measure).is_err() {
            return;
        }
        self.tell.send(Moment::Begin(window.measure)).ok();
        if let Some(end) = window.end {
            self.tell.send(Moment::End(end)).ok();
        }
    }

    /// Told by the engine when all workers have ended.
    pub(super) fn ended(&self, window: &Window) {
        if window.end.is_none() {
            self.tell.send(Moment::End(clock::now())).ok();
        }
    }
}
