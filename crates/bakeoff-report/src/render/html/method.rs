//! Which of the field's demands on a measurement the run met.
//!
//! Not here: the demands and how they are answered (`report::method`).

use crate::document::report::Report;

use super::page::{grid, paragraph};

pub(super) fn section(report: &Report) -> String {
    let how = "What papers, rule books and tools ask of a measurement, and whether this run met it, by its record. \
               docs/evidence/demands.md says what bakeoff does about each, and what it lacks.";
    let head = ["who", "asks for", "this run", "what says so"].map(str::to_owned);
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
    format!("{}{}", paragraph("how", how), grid("Demands on a measurement", &head, &rows))
}
