//! A file system that forgets what was not synced, for simulated power cuts, and that can be slow, stalled or full.
//!
//! `bakeoff __disk` mounts it on a node's directory, in a mount namespace of its own. Only processes in that namespace
//! see the mount, and the kernel removes it with the last of them. A server enters the namespace before it starts. When
//! bakeoff has killed the server, it orders a cut ([`Order`]). The file system then drops what was not synced, and
//! mounts the rest for the next start.
//!
//! The data is held in memory. What survives a cut is decided by `image`, as ext4 would; no real disk takes part.
//!
//! Not here: who starts and kills it (`bakeoff-host`).

mod content;
mod fault;
mod image;
#[cfg(test)]
mod model;
mod mount;
mod serve;

pub use image::{CutLosses, UnsyncedFate};
pub use serve::{COMMAND, DiskReply, Order, answer, end_with, isolate, run};
