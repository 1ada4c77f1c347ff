//! Measures how much a CPU limit throttled a node.
//!
//! Not here: the choice of limits worth a finding (`derive::nodes`).

use bakeoff_core::record::Usage;

/// Fewest periods to draw a conclusion from; they take a second.
const PERIODS_MIN: u64 = 10;

/// Returns the share of throttled periods; `None` with too few periods.
pub(crate) fn throttled(usage: &Usage) -> Option<f64> {
    let (all, held) = (usage.periods?, usage.periods_throttled?);
    (all >= PERIODS_MIN).then(|| held as f64 / all as f64)
}
