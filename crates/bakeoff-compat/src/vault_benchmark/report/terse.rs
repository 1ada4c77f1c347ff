//! Renders one line per test.

use super::{Report, columns, harmless, time_text};

const HEAD: [&str; 8] =
    ["op", "count", "rate", "throughput", "mean", "95th%", "99th%", "successRatio"];

pub(super) fn render(report: &Report) -> String {
    let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
    let rows = report.rows();
    let has_total = report.metrics.contains_key(super::TOTAL);
    let last = rows.len().saturating_sub(1);
    for (index, (title, metrics)) in rows.into_iter().enumerate() {
        if has_total && index == last {
            lines.push(HEAD.map(|_| "---".to_owned()).to_vec());
        }
        let times = &metrics.latencies;
        lines.push(vec![
            title,
            metrics.requests.to_string(),
            format!("{:.2}", metrics.rate),
            format!("{:.2}", metrics.throughput),
            time_text(times.mean),
            time_text(times.p95),
            time_text(times.p99),
            format!("{:.2}%", metrics.success * 100.0),
        ]);
    }
    format!("Target: {}\n{}", harmless(&report.target_addr), columns(&lines))
}
