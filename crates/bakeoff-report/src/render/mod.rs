//! The forms of a report: terminal, Markdown, HTML, CSV, JSON.
//!
//! Not here: what a report says (`document`), what is computed (`derive`).

pub mod compared;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod terminal;
