//! Generators drive loads: this process, or the agents of other machines.
//!
//! A trial knows [`all::Generators`] alone: at least one generator, wherever it runs. Each owns a share of the keys. All begin at
//! one moment, and what they measured adds up.
//!
//! Not here: the loop (`bakeoff_engine`), when a trial loads what (the binary's `trial`).

pub mod all;
mod begin;
pub mod error;
pub mod generator;
mod http;
pub mod local;
pub mod remote;
pub mod serve;
pub mod split_load;
