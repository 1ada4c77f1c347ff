//! The formats of a report: terminal, Markdown, HTML, CSV, JSON.
//!
//! Not here: the content of a report (`document`), computations (`derive`).

pub mod compared;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod terminal;
