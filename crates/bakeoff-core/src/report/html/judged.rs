//! Whether the systems differ: each pair's ratios with their intervals.
//!
//! Not here: the statistics (`stats::judge`), what is judged (`judgement`).

use crate::report::{Report, tables, words};

use super::page::{escape, list, paragraph, table};
use super::{place, was_run};

pub(super) fn section(report: &Report) -> String {
    let mut html = paragraph(
        "how",
        "A ratio of 1 means alike. A difference is claimed where the interval, corrected for all \
         comparisons of its table, does not hold 1. Trials are compared round by round.",
    );
    for comparison in report.comparisons.iter().filter(|one| was_run(one)) {
        html.push_str(&format!("<article><h3>{}</h3>", escape(&place(comparison))));
        match tables::judgements(comparison) {
            Some(judged) => html.push_str(&table(judged.title.as_deref().unwrap_or(""), &judged)),
            None => html.push_str("<p>Nothing was compared.</p>"),
        }
        html.push_str(&list("notes", &words::unjudged(comparison)));
        html.push_str("</article>");
    }
    html
}
