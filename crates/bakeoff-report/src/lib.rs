//! Turns a record into documents for people and programs: terminal text, HTML, Markdown, CSV, JSON, an
//! image to share.
//!
//! All functions are pure, so a record can be rendered again years later. [`Report::new`] computes everything once. The
//! renderers only arrange it, so they cannot contradict each other.
//!
//! Rules that every document keeps:
//! - An invalid trial is shown but never used.
//! - "Not checked" is never shown as a pass.
//! - A latency above one hour is never shown as a number.
//! - Percentiles are never averaged.
//!
//! Not here: combining and comparing trials (`stats`), files and the choice of colours (the binary).

pub mod ci;
pub mod compare;
mod derive;
mod document;
mod model;
mod render;
pub mod reproduce;
pub mod verify;

#[cfg(test)]
mod tests;

pub use derive::answers::is_answered;
pub use derive::{fairness, machine_baseline, method};
pub use document::linearizability::history_text;
pub use document::report::Report;
pub use model::measurement::MeasurementSummary;
pub use render::comparison;
pub use render::csv::csv;
pub use render::history;
pub use render::html::card::card;
pub use render::html::site;
pub use render::html::{html, html_next_to_record, live_page, trend_page};
pub use render::json::{FORMAT, json, load as load_json};
pub use render::markdown::markdown;
pub use render::png::png;
pub use render::terminal::{Extent, Style, demands, terminal};
pub use render::trend;
