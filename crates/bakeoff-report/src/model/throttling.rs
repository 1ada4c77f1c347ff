//! How far a CPU limit held a node back.
//!
//! Not here: which limits are worth a finding (`derive::nodes`).

use bakeoff_core::record::Usage;

/// Fewer periods than this say nothing: less than a second.
const PERIODS_MIN: u64 = 10;

/// In which share of its limit's periods a node was held back.
pub(crate) fn throttled(usage: &Usage) -> Option<f64> {
    let (all, held) = (usage.periods?, usage.periods_throttled?);
    (all >= PERIODS_MIN).then(|| held as f64 / all as f64)
}
