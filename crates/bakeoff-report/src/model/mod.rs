//! Measurements from a record: trials, their figures, one workload under one load.
//!
//! Not here: judgements and findings (`derive`), appearance (`document`, `render`).

pub(crate) mod anomalies;
pub(crate) mod changed_keys;
pub(crate) mod churn;
pub(crate) mod contender;
pub(crate) mod contest;
pub(crate) mod contradictions;
pub(crate) mod curves;
pub(crate) mod events;
pub(crate) mod figures;
pub(crate) mod guarantees;
pub(crate) mod measurement;
pub(crate) mod nodes;
pub(crate) mod quantity;
pub(crate) mod throttling;
pub(crate) mod trial;
pub(crate) mod watches;
