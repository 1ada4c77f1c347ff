//! Checks a trial by its measurement, its samples and its machine.
//!
//! Not here: verdicts as values (`verdict`), the limits of one measurement (`validity`), sampling and reading keys
//! back (the binary).

pub mod causes;
pub mod explained;
pub mod machine;
mod measured;
mod stationary;

pub use measured::measured;

pub use crate::validity::{
    LAG_MATTERS_BELOW, LAG_SHARE_MAX, gave_out, generator_throttled, lag_in_latencies, lag_share,
    unserved,
};
pub use crate::verdict::{
    Audit, Audited, Cause, CheckName, FlippedBit, KilledUnderLoad, Passages, PowerCutsMade, Verdict,
};
