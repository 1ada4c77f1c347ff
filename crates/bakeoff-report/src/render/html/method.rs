//! The published rules for measurements that the run meets.
//!
//! Not here: the rules and their assessment (`report::method`).

use crate::document::report::Report;

use super::page::{grid, paragraph};

pub(super) fn section(report: &Report) -> String {
    let how = "Rules for measurements from papers, rule books and tools, and whether this run meets them, by its record. \
               docs/evidence/demands.md explains how bakeoff meets each rule, and what it lacks.";
    let head = ["source", "rule", "this run", "evidence"].map(str::to_owned);
    let rows: Vec<Vec<String>> = report
        .method()
        .iter()
        .map(|answer| {
            let demand = answer.demand;
            vec![
                demand.by.to_owned(),
                demand.asks.to_owned(),
                answer.met.name().to_owned(),
                answer.why.clone(),
            ]
        })
        .collect();
    format!("{}{}", paragraph("how", how), grid("Published rules for measurements", &head, &rows))
}
