//! Checks a trial by its measurement, its samples and its machine.
//!
//! Not here: verdicts as values (`verdict`), the limits of one measurement (`validity`), sampling and reading keys
//! back (the binary).

mod advice;
pub mod causes;
pub mod machine;
mod measured;
pub mod node_causes;
mod stationary;

pub use advice::{BUSY_MACHINE, advice};
pub use measured::{measured, watch_faults};

pub use crate::validity::{events_waited, gave_out, generator_throttled, unserved};
pub use crate::verdict::{
    Audit, AuditSubject, Cause, CheckName, FlippedBit, KilledUnderLoad, Passages, PowerCutsMade,
    Verdict,
};
