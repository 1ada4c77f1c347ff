//! A file system that forgets what was not synced, for simulated power cuts.
//!
//! `bakeoff __disk` mounts it on a node's directory, in a mount namespace of its own, so that nobody else sees the
//! mount and the kernel removes it with its last process. A server enters that namespace before it starts. When bakeoff
//! has killed the server, it orders a cut ([`Order`]): the file system drops what was not synced and mounts what is
//! left, on which the server starts again.
//!
//! The data is held in memory. What survives a cut is decided by `image`, as ext4 would; no real disk takes part.
//!
//! Not here: who starts and kills it (`bakeoff-host`).

mod content;
mod image;
#[cfg(test)]
mod model;
mod mount;
mod serve;

pub use image::{Dropped, Unsynced};
pub use serve::{COMMAND, DiskReply, Order, run};
