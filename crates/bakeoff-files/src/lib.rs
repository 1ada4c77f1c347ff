//! Opens, writes and removes files that another user may have made.
//!
//! A run's folder may come from a stranger. It may hold links in place of files, pipes that block their reader, and
//! devices without an end. Every crate therefore reads, replaces and removes such files through these functions.
//!
//! Not here: nodes' files (`bakeoff_host`), the contents of the program cache (`bakeoff_install`).

mod owner;
mod read;
mod remove;
mod write;

pub use owner::{foreign, foreign_between, foreign_code};
pub use read::{open, read, read_text};
pub use remove::{remove, remove_below};
pub use write::{PRIVATE, SHARED, append, create, link_in, make_dir, make_dirs, replace};
