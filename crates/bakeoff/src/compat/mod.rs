//! Other tools' command lines and outputs, so that scripts and habits carry over.
//!
//! Not here: the load itself (`http`, `engine`). A tool here is its flags, its checks and its output.

pub(crate) mod hey;
