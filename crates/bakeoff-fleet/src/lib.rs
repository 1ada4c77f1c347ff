//! Machines and generators of a run: this machine, others over SSH, pods of Kubernetes.
//!
//! A trial starts its servers on [`machines`] and has [`generators`] load them. Both hide where they are: this
//! machine is the nearest one, and an agent carries out the same orders elsewhere.
//!
//! Not here: the protocol (`bakeoff_agent`), the loop (`bakeoff_engine`), when a trial does what (the binary's
//! `trial`), what users read (the binary's `messages`).

pub mod environment;
pub mod error;
pub mod generators;
pub mod machines;
pub mod warnings;
