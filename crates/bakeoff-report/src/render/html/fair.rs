//! The fairness sheet: what differs between the contenders besides the product.
//!
//! Not here: the facts and what they weigh (`fairness`).

use crate::derive::fairness::Weight;
use crate::document::report::Report;
use crate::document::sheet;

use super::page::{details, paragraph, table};

pub(super) fn section(report: &Report) -> String {
    let facts = &report.fairness;
    let differing = sheet::fairness(facts, |row| row.weight >= Weight::Matters);
    let rest = sheet::fairness(facts, |row| row.weight < Weight::Matters);
    let how = "What may decide the answer by itself is said above, before any figure.";
    let mut html = paragraph("how", how);
    html.push_str(&table("What differs besides the product", &differing));
    if !rest.labels.is_empty() {
        let caption = "The same for all, or not known: it was looked at";
        html.push_str(&details(caption, &table(caption, &rest)));
    }
    html
}
