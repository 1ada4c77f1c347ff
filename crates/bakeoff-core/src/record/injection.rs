//! Defines an injection: one more run of the load, in which a fault happens.
//!
//! Injections are apart from the stages of a trial, which run undisturbed, so that no figure of a comparison holds a
//! fault.
//!
//! Not here: the fault (`crate::study::Fault`), the figures of an injection (`crate::outage`).

use serde::{Deserialize, Serialize};

use super::StageRecord;
use crate::verdict::Audit;

/// Holds one injection of a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Injection {
    /// Name of the fault in the study.
    pub fault: String,
    /// Number of the injection among those of the fault in its trial, from 1.
    pub repeat: u32,
    /// Load during which the fault happened. Its measurement has steps.
    pub stage: StageRecord,
    /// Effects on nodes, in the order of their times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hits: Vec<FaultHit>,
    /// Reason why the fault did not happen as planned, or is not proven. The trial is then not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unproven: Option<String>,
    /// CPU time of the system's own nodes that explains why the generator stood still; `None` if it did not, or if the
    /// nodes used too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls_explained: Option<String>,
    /// Result of reading acknowledged keys back afterwards; `None` if nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// Describes what a fault did to nodes, with its proof. Times are seconds since measuring began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultHit {
    /// Name of the fault in a sequence; `None` for a single fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Time just before the fault was caused.
    pub from: f64,
    /// Time at which the fault was seen in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<f64>,
    /// Time at which the fault was seen to have ended: processes went on, or were started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Evidence of the beginning and the end: `61 threads stand still`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
    /// Operations that were due from then on until the next effect; `None` for a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<HitCost>,
}

/// Counts the operations that belong to one effect of a fault ([`crate::attribution`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HitCost {
    /// Operations that failed at once: no connection, an error as the answer, or never sent.
    pub failed: u64,
    /// Operations without an answer.
    pub unknown: u64,
    /// Successes that took more than twice the earlier p99; `None` if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed: Option<u64>,
}

impl Injection {
    /// Returns the time of the first effect, in seconds since measuring began; `None` if nothing happened.
    pub fn from(&self) -> Option<f64> {
        self.hits.first().map(|hit| hit.from)
    }

    /// Returns the time at which the last effect had ended; `None` if one did not end.
    pub fn healed(&self) -> Option<f64> {
        let ends: Option<Vec<f64>> = self.hits.iter().map(|hit| hit.to).collect();
        ends?.into_iter().reduce(f64::max)
    }
}
