//! Records when the generator itself stood still.
//!
//! Operations that are due or answered meanwhile wait for the generator and not for a server, so a measurement
//! reports it.
//!
//! Not here: detecting stalls (the engine), the limit for a valid trial (`check`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Measurement;

/// Minimum length of a recorded stall. Shorter delays appear only in `timer_lag` and `schedule_lag`.
pub const STALL_MIN: Duration = Duration::from_millis(100);

/// Maximum number of kept stalls; the longest are kept.
pub const STALLS_MAX: usize = 100;

/// Describes a time in which a generator thread stood still: it woke late, or was held up while working.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorStall {
    /// Index of the thread, from 0.
    pub thread: u32,
    /// Time at which it should have continued, in seconds since measuring began.
    pub from: f64,
    /// Delay in seconds; at least 0.1 ([`STALL_MIN`]).
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
    /// Returns the thread with the longest total stalls, and their length; `None` if there are no stalls.
    pub fn most_stalled(&self) -> Option<(u32, Duration)> {
        let mut by_thread: BTreeMap<u32, f64> = BTreeMap::new();
        for stall in &self.stalls {
            *by_thread.entry(stall.thread).or_default() += stall.seconds;
        }
        let (thread, seconds) = by_thread.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((thread, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }
}
