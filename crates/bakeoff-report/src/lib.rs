//! From a record to what people and programs read: a terminal's text, HTML, Markdown, CSV, JSON.
//!
//! Pure functions, so that a record can be rendered again years later. [`Report::new`] computes
//! once all that is shown; the renderers arrange it and compute nothing of their own, so that they
//! cannot contradict each other. An invalid trial is shown and never used, "not checked" is never
//! shown as a pass, a latency of more than an hour never as a number, and no percentile is ever an
//! average of percentiles.
//!
//! Not here: how trials are combined and compared (`stats`), files and colours' occasion (the
//! binary).

pub mod ci;
pub mod compare;
mod derive;
mod document;
mod model;
mod render;
pub mod reproduce;
pub mod verify;

pub use derive::{fairness, machine_baseline, method};
pub use document::report::Report;
pub use render::compared;
pub use render::csv::csv;
pub use render::html::html;
pub use render::json::{FORMAT, json};
pub use render::markdown::markdown;
pub use render::terminal::{Extent, Style, demands, terminal};
