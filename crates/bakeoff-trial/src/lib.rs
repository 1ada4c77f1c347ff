//! Runs studies: starts servers, loads, kills, audits and stops them.
//!
//! [`run`] plans the trials of a study and records each on disk. [`trial`] runs one of them, on a [`cluster`] of real
//! servers. Both report [`event`]s and print nothing.
//!
//! Not here: machines and generators (`bakeoff_fleet`), messages to users (the binary's `messages`), rendering
//! (`bakeoff_report`).

pub mod cluster;
pub mod event;
pub mod run;
pub mod this_machine;
pub mod trial;
