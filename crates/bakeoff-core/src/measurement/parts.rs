//! Finds the times in which a part of a load had no success: the clients of one node, or one operation.
//!
//! Other parts may succeed meanwhile. Successes are counted in steps of [`STEP`], so the measured loop does nothing
//! more for each operation.
//!
//! Not here: silences of the whole load ([`Silence`]), which are exact.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{STEP, Silence};

/// Maximum number of kept silences of a part; the longest are kept.
const SILENCES_KEPT: usize = 20;

/// Selects a part of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LoadPart {
    /// Clients of the node with this address.
    Node(String),
    /// Operations of this name.
    Operation(String),
}

impl LoadPart {
    /// Returns true for the operations of this name.
    pub fn is_operation(&self, name: &str) -> bool {
        matches!(self, Self::Operation(own) if own == name)
    }
}

/// Holds the times without success of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartSilences {
    /// The part.
    #[serde(flatten)]
    pub part: LoadPart,
    /// Whole steps without success, in order of time. The last step may be cut by the end of the load.
    pub silences: Vec<Silence>,
}

impl PartSilences {
    /// Finds the silences of a part in its successes by step, over a load of length `window`.
    pub fn find(part: LoadPart, verified: &[u64], window: Duration) -> Self {
        let (step, end) = (STEP.as_secs_f64(), window.as_secs_f64());
        let steps = (end / step).ceil() as usize;
        let mut silences = Vec::new();
        let mut since = None;
        for place in 0..=steps {
            let is_silent = place < steps && verified.get(place).is_none_or(|count| *count == 0);
            match (is_silent, since) {
                (true, None) => since = Some(place),
                (false, Some(from)) => {
                    since = None;
                    let from = from as f64 * step;
                    silences.push(Silence { from, seconds: (place as f64 * step).min(end) - from });
                }
                _ => {}
            }
        }
        silences.sort_by(|a: &Silence, b| b.seconds.total_cmp(&a.seconds));
        silences.truncate(SILENCES_KEPT);
        silences.sort_by(|a, b| a.from.total_cmp(&b.from));
        Self { part, silences }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verified: &[u64], window: f64) -> Vec<(u32, u32)> {
        let part = LoadPart::Operation("put".into());
        let found = PartSilences::find(part, verified, Duration::from_secs_f64(window));
        let milliseconds = |seconds: f64| (seconds * 1e3).round() as u32;
        let one = |one: &Silence| (milliseconds(one.from), milliseconds(one.seconds));
        found.silences.iter().map(one).collect()
    }

    #[test]
    fn silences_are_runs_of_steps_without_success() {
        assert_eq!(found(&[3, 0, 0, 1, 0, 2], 0.6), [(100, 200), (400, 100)]);
        assert_eq!(found(&[1; 6], 0.6), []);
        assert_eq!(found(&[1, 1], 0.55), [(200, 350)], "steps after the last are empty");
        assert_eq!(found(&[], 0.3), [(0, 300)]);
    }

    #[test]
    fn longest_silences_are_kept() {
        let mut verified: Vec<u64> = (0..200).map(|place| place % 2).collect();
        verified[101] = 0;
        let found = found(&verified, 20.0);
        assert_eq!(found.len(), SILENCES_KEPT);
        assert!(found.contains(&(10_000, 300)), "{found:?}");
        assert!(found.is_sorted());
    }
}
