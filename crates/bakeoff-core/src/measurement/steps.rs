//! Counts a load's successes and failures in short, equal steps: what happens around a fault is shorter than a second.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Length of a step.
pub const STEP: Duration = Duration::from_millis(100);

/// Maximum number of counted steps: an hour. Later ones are dropped.
pub const STEPS_MAX: u32 = 36_000;

/// Counts the operations that ended in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Verified successes.
    pub verified: u64,
    /// Failures.
    pub errors: u64,
    /// Failures of unknown outcome among them ([`ErrorKind::has_unknown_outcome`](super::ErrorKind::has_unknown_outcome)).
    pub unknown: u64,
}

impl StepCounts {
    /// Returns the counts since an earlier state.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            verified: self.verified.saturating_sub(earlier.verified),
            errors: self.errors.saturating_sub(earlier.errors),
            unknown: self.unknown.saturating_sub(earlier.unknown),
        }
    }

    /// Returns true if nothing ended.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Holds counts by step, from the beginning of measuring. Steps after the last one are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepSeries {
    /// Verified successes of each step.
    pub verified: Vec<u64>,
    /// Failures of each step.
    pub errors: Vec<u64>,
    /// Failures of unknown outcome of each step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<u64>,
}

impl StepSeries {
    /// Adds counts to the step at `place`.
    pub fn add(&mut self, place: u32, step: &StepCounts) {
        if place >= STEPS_MAX {
            return;
        }
        let place = place as usize;
        for (counts, more) in [
            (&mut self.verified, step.verified),
            (&mut self.errors, step.errors),
            (&mut self.unknown, step.unknown),
        ] {
            if more > 0 {
                if counts.len() <= place {
                    counts.resize(place + 1, 0);
                }
                counts[place] += more;
            }
        }
    }

    /// Adds the counts of operations that ran at the same time.
    pub fn add_next_to(&mut self, other: &Self) {
        let steps = other.verified.len().max(other.errors.len()).max(other.unknown.len());
        for (place, at) in (0..).zip(0..steps) {
            self.add(place, &other.at(at));
        }
    }

    /// Returns the counts of the step at `place`.
    pub fn at(&self, place: usize) -> StepCounts {
        let count = |of: &[u64]| of.get(place).copied().unwrap_or_default();
        StepCounts {
            verified: count(&self.verified),
            errors: count(&self.errors),
            unknown: count(&self.unknown),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.verified.is_empty() && self.errors.is_empty()
    }
}
