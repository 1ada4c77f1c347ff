//! A run and its trials: servers are started, loaded, killed, audited and stopped.
//!
//! [`run`] plans the trials of a study and records each on disk. [`trial`] is one of them, on a [`cluster`] of real
//! servers. Both report [`event`]s and print nothing.
//!
//! Not here: machines and generators (`bakeoff_fleet`), what users read (the binary's `messages`), rendering
//! (`bakeoff_report`).

pub mod cluster;
pub mod event;
pub mod run;
pub mod this_machine;
pub mod trial;
