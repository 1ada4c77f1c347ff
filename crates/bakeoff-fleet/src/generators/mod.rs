//! Generators drive loads: this process, or the agents of other machines.
//!
//! A trial uses only [`all_generators::Generators`]: one or more generators on any machine. Each owns a share of the
//! keys. All start at the same moment, and their measurements are added up.
//!
//! Not here: the loop (`bakeoff_engine`), the phases of a trial (the binary's `trial`).

pub mod all_generators;
pub mod error;
pub mod generator;
mod history_file;
mod http;
mod load_start;
pub mod local;
pub mod remote;
pub mod serve;
pub mod split_load;
