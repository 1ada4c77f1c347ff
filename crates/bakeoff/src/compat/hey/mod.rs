//! `bakeoff hey`: hey's command line and output.
#![allow(dead_code)]
mod flags;
mod options;
mod output;
