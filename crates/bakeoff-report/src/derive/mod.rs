//! Conclusions from measurements: judgements, findings, the fairness sheet, the method.
//!
//! Not here: measurements (`model`), tables and texts of a document (`document`).

pub(crate) mod ack_locations;
pub(crate) mod anomalies;
pub(crate) mod answers;
pub(crate) mod churn;
pub(crate) mod comparison;
pub(crate) mod conclusion;
pub(crate) mod conditions;
pub(crate) mod durability;
pub(crate) mod effects;
pub mod fairness;
pub(crate) mod findings;
pub(crate) mod headline;
pub(crate) mod judgement;
pub(crate) mod leader;
pub(crate) mod log_findings;
pub mod machine_baseline;
pub mod method;
pub(crate) mod node_failures;
pub(crate) mod nodes;
pub(crate) mod not_comparable;
pub(crate) mod outage_sentence;
pub(crate) mod outages;
pub(crate) mod position;
pub(crate) mod power_cuts;
pub(crate) mod published_figures;
pub(crate) mod ranking;
pub(crate) mod staleness;
pub(crate) mod watches;
