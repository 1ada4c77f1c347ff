//! Machines and generators of a run: this machine, others over SSH, pods of Kubernetes.
//!
//! A trial starts its servers on [`machines`] and loads them with [`generators`]. Both hide where they run: on another
//! machine, an agent carries out the same orders.
//!
//! Not here: the protocol (`bakeoff_agent`), the loop (`bakeoff_engine`), the phases of a trial (the binary's `trial`),
//! messages to users (the binary's `messages`).

pub mod environment;
pub mod error;
pub mod generators;
pub mod machines;
pub mod warnings;
