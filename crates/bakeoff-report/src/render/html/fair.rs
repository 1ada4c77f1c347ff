//! The fairness sheet: what differs between the contenders besides the product.
//!
//! Not here: the facts and what they weigh (`fairness`).

use crate::Report;
use crate::document::tables;

use super::page::{paragraph, table};

pub(super) fn section(report: &Report) -> String {
    let how = "What may decide the answer by itself is said above, before any figure. What is the \
               same for all is here too: it was looked at.";
    let sheet = tables::fairness(&report.fairness);
    format!("{}{}", paragraph("how", how), table("What differs besides the product", &sheet))
}
