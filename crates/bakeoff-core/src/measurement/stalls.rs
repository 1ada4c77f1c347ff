//! When the generator itself stood still.
//!
//! Operations due or answered meanwhile wait for the generator and not for a server, so that a measurement
//! tells of it.
//!
//! Not here: how stalls are seen (the engine), from when on they make a trial invalid (`check`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Measurement;

/// Shorter times in which a thread of the generator stood still are in `timer_lag` and `schedule_lag` alone.
pub const STALL_MIN: Duration = Duration::from_millis(100);

/// Most stalls of the generator that are kept, the longest of them.
pub const STALLS_MAX: usize = 100;

/// A time in which a thread of the generator stood still: it woke so much later than it had asked to,
/// or was held up at its work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GeneratorStall {
    /// Which thread, from 0.
    pub thread: u32,
    /// When it ought to have gone on, in seconds since measuring began.
    pub from: f64,
    /// Delay in seconds; at least [`STALL_MIN`].
    pub seconds: f64,
}

/// Keeps the [`STALLS_MAX`] longest, in order of time.
pub fn longest_stalls(stalls: &mut Vec<GeneratorStall>) {
    if stalls.len() > STALLS_MAX {
        stalls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        stalls.truncate(STALLS_MAX);
    }
    stalls.sort_by(|a, b| a.from.total_cmp(&b.from));
}

impl Measurement {
    /// The thread of the generator that stood still for longest, and how long all its stalls were
    /// together; `None` where none did.
    pub fn most_stalled(&self) -> Option<(u32, Duration)> {
        let mut by_thread: BTreeMap<u32, f64> = BTreeMap::new();
        for stall in &self.stalls {
            *by_thread.entry(stall.thread).or_default() += stall.seconds;
        }
        let (thread, seconds) = by_thread.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((thread, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }
}
