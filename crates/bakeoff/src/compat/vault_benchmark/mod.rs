//! `bakeoff vault-benchmark`: vault-benchmark's files, command line and reports.
//!
//! Not here: the command line (`options`), the file (`config`, and `fields` and `hcl` below it).

#![allow(dead_code)]

mod config;
mod fields;
mod hcl;
mod options;
mod report;
