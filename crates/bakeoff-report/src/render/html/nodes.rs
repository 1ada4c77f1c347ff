//! Each node's resource usage, and the complaints in its log.
//!
//! Not here: the figures (`report::nodes`), which lines complain (`bakeoff_core::log_findings`).

use bakeoff_core::units::count_text;

use crate::derive::log_findings;
use crate::document::nodes;
use crate::document::report::Report;

use super::page::{escape, grid, paragraph, table};
use super::place;

/// Nothing where there is nothing to tell of single nodes.
pub(super) fn section(report: &Report) -> String {
    let mut html = String::new();
    for comparison in report.comparisons.iter().filter(|one| one.was_run()) {
        let Some(nodes) = nodes::table(comparison) else { continue };
        html.push_str(&format!("<h3>{}</h3>", escape(&place(comparison))));
        html.push_str(&table("By node, while the load ran: medians of the trials used", &nodes));
    }
    if !html.is_empty() {
        let how = "A CPU limit is dealt out in periods of 100 ms. A node that has used its share of one \
                   up stands still until the next begins: it was throttled in that period. Throttled \
                   seconds count the queue of each CPU.";
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
    let head =
        ["node", "workload and load", "level", "count", "trials", "what", "the first of them"];
    let caption =
        "What the servers complained of in their own logs while the load ran, in all trials";
    let how = "Lines are counted by what they say apart from numbers, addresses and quotations. What may \
               be a secret is hidden.";
    format!(
        "<h3>Log findings</h3>{}{}",
        paragraph("how", how),
        grid(caption, &head.map(str::to_owned), &rows)
    )
}
