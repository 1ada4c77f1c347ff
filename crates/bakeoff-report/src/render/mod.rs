//! The formats of a report: terminal, Markdown, HTML, CSV, JSON, and the share image as SVG and PNG.
//!
//! Not here: the content of a report (`document`), computations (`derive`).

mod bars;
pub mod comparison;
pub(crate) mod csv;
pub mod history;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod png;
pub(crate) mod terminal;
pub mod trend;
