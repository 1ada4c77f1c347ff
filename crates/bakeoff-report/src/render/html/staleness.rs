//! Staleness of reads: a table and sentences for each comparison.
//!
//! Not here: the rows (`document::staleness`).

use crate::derive::staleness;
use crate::document::report::Report;
use crate::document::staleness as table;

use super::page::{escape, list, paragraph, table};
use super::place;

/// Returns the section; empty if staleness was not measured.
pub(super) fn section(report: &Report) -> String {
    let mut html = String::new();
    for comparison in &report.comparisons {
        let Some(rows) = table::table(comparison) else { continue };
        html.push_str(&format!("<article><h3>{}</h3>", escape(&place(comparison))));
        html.push_str(&list("notes", &staleness::lines(comparison)));
        html.push_str(&table(rows.title.as_deref().unwrap_or_default(), &rows));
        html.push_str("</article>");
    }
    if html.is_empty() {
        return html;
    }
    let how = "A read is stale if a later write of the key than the one it returned had been \
               acknowledged before it began. Its age is the time from that acknowledgement to its \
               beginning, both measured by one process, and so a lower bound. Overlapping \
               writes do not supersede each other. All valid trials are combined.";
    format!("{}{html}", paragraph("how", how))
}
