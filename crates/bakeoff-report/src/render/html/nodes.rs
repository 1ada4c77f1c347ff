//! Each node's resource usage, and the findings in its log.
//!
//! Not here: the figures (`report::nodes`), the rules for log findings (`bakeoff_core::log_findings`).

use bakeoff_core::units::count_text;

use crate::derive::log_findings;
use crate::document::nodes;
use crate::document::report::Report;

use super::page::{escape, grid, paragraph, table};
use super::place;

/// Returns the section; empty without anything to report about single nodes.
pub(super) fn section(report: &Report) -> String {
    let mut html = String::new();
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        let Some(nodes) = nodes::table(comparison) else { continue };
        html.push_str(&format!("<h3>{}</h3>", escape(&place(comparison))));
        html.push_str(&table("By node, during the load: medians of the trials used", &nodes));
    }
    if !html.is_empty() {
        let how = "A CPU limit applies to periods of 100 ms. A node that has used up its share of one \
                   stands still until the next begins: it was throttled in that period. Throttled \
                   seconds add up the run queues of all CPUs.";
        html.insert_str(0, &paragraph("how", how));
    }
    html.push_str(&logs(report));
    html
}

/// Shows the findings in the servers' logs.
fn logs(report: &Report) -> String {
    let mut rows = Vec::new();
    for comparison in &report.comparisons {
        for one in &comparison.contenders {
            for complaint in log_findings::complaints(one) {
                rows.push(vec![
                    complaint.node,
                    place(comparison),
                    complaint.level.name().to_owned(),
                    count_text(complaint.count),
                    complaint.trials.to_string(),
                    complaint.what,
                    complaint.example,
                ]);
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = ["node", "workload and load", "level", "count", "trials", "line", "first example"];
    let caption = "Findings in the servers' logs during the load, in all trials";
    let how = "Lines that differ only in numbers, addresses and quotations are counted together. Possible \
               secrets are hidden.";
    format!(
        "<h3>Log findings</h3>{}{}",
        paragraph("how", how),
        grid(caption, &head.map(str::to_owned), &rows)
    )
}
