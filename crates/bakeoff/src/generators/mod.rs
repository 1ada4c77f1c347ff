//! Generators drive loads: this process, or the agents of other machines.
//!
//! A trial knows [`all::Generators`] alone: at least one generator, wherever it runs. Each owns a share of the keys. All begin at
//! one moment, and what they measured adds up.
//!
//! Not here: the loop (`bakeoff_engine`), when a trial loads what (`trial`).

pub(crate) mod all;
mod begin;
pub(crate) mod error;
pub(crate) mod generator;
mod http;
pub(crate) mod local;
pub(crate) mod remote;
pub(crate) mod serve;
pub(crate) mod split_load;
