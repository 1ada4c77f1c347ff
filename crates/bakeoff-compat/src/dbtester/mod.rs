//! Reads and writes dbtester's files: its configuration, the CSVs of `control`, and the output of `analyze`.
//!
//! Works on values without I/O. A configuration's text becomes a [`Config`], and a trial's record becomes files with
//! dbtester's names and columns. Such files, written by bakeoff or by dbtester, become its tables and its README.
//!
//! Not here: the study that a configuration describes, and its run (the binary's `commands::dbtester`).

pub mod analysis;
mod config;
mod database;
mod fields;
pub mod files;
mod frame;
mod number;

pub use self::config::{
    Analysis, Benchmark, ClientFiles, Config, Flag, Group, Image, LocatedValue, Node, Plot,
    ResultFile, Steps, WorkType, read,
};
pub use self::database::{Database, Product};
pub use self::frame::{Frame, FrameError};

#[cfg(test)]
pub(crate) use self::config::tests::example;
