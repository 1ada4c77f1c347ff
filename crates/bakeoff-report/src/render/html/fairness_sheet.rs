//! The fairness sheet: differences between the systems besides the product.
//!
//! Not here: the facts and their weights (`fairness`).

use crate::derive::fairness::Weight;
use crate::document::report::Report;
use crate::document::sheet;

use super::page::{details, paragraph, table};

pub(super) fn section(report: &Report) -> String {
    let facts = &report.fairness;
    let differing = sheet::fairness(facts, |row| row.weight >= Weight::Matters);
    let rest = sheet::fairness(facts, |row| row.weight < Weight::Matters);
    let how = "Differences that may decide the result are listed above, before any figure.";
    let mut html = paragraph("how", how);
    html.push_str(&table("Differences besides the product", &differing));
    if !rest.labels.is_empty() {
        let caption = "Equal for all, or unknown";
        html.push_str(&details(caption, &table(caption, &rest)));
    }
    html
}
