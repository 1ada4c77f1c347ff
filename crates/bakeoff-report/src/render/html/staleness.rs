//! How old reads were, where they may be old: a table and a sentence for each comparison.
//!
//! Not here: the rows (`report::stale`).

use crate::derive::staleness;
use crate::document::report::Report;
use crate::document::staleness as table;

use super::page::{escape, list, paragraph, table};
use super::place;

/// Empty where nothing of it was measured.
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
    let how = "A read is stale that returned something although a later write of the key had been \
               acknowledged before it began. Its age is the time from that acknowledgement to its \
               beginning, both taken by one process: what it returned was at least so old. Overlapping \
               writes supersede nothing of each other. All valid trials together.";
    format!("{}{html}", paragraph("how", how))
}
