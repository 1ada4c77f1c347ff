//! Placeholder of the folder: only where the program comes from, so far.

pub mod recipe;
