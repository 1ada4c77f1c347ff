//! dbtester's files: its configuration, the CSVs that `control` leaves, and what `analyze` makes of them.
//!
//! Values in, values out: a configuration's text becomes a [`Config`], a trial's record becomes files of dbtester's
//! names and columns, and those files, ours or dbtester's own, become its tables and its README.
//!
//! Not here: the study that a configuration asks for and its run (the binary's `commands::dbtester`).

pub mod analysis;
mod config;
mod database;
mod fields;
pub mod files;
mod frame;
mod number;

pub use self::config::{
    Analysis, Benchmark, ClientFiles, Config, Flag, Group, Image, Located, Node, Plot, ResultFile,
    Steps, WorkType, read,
};
pub use self::database::{Database, Product};
pub use self::frame::{Frame, FrameError};

#[cfg(test)]
pub(crate) use self::config::tests::example;
