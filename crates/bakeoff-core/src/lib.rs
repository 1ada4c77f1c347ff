//! Defines bakeoff's pure values: no sockets, files, clock, threads or environment.
//!
//! Data moves one way. A [`study`] is planned into trials, a trial's measurement becomes part of a record, and a
//! report is a pure function of a record.

pub mod attribution;
pub mod check;
pub mod condition;
pub mod digest;
pub mod fingerprint;
#[cfg(test)]
mod fuzz;
pub mod histogram;
pub mod lanes;
pub mod lateness;
pub mod ledger;
pub mod linearizability;
pub mod log_findings;
pub mod measurement;
pub mod memory;
mod named;
pub mod outage;
pub mod places;
pub mod plan;
pub mod ranked_latencies;
pub mod read_write_split;
pub mod record;
pub mod repeat;
pub mod schedule;
#[cfg(feature = "schema")]
pub mod schema;
pub mod search;
pub mod secrets;
pub mod staleness;
pub mod stats;
pub mod statuses;
pub mod study;
mod suggest;
pub mod template;
pub mod trial_samples;
pub mod units;
mod validity;
mod verdict;
pub mod watch;
pub mod workload;
