//! What a document shows, before anything is drawn: tables and words.
//!
//! Not here: the figures (`model`), the verdicts (`derive`), the forms (`render`).

pub(crate) mod tables;
pub(crate) mod words;
