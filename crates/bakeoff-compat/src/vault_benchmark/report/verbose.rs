//! Renders one paragraph per test, as vegeta's text report.

use super::{Metrics, Report, columns, harmless, time_text};

pub(super) fn render(report: &Report) -> String {
    let paragraph = |(title, metrics): (String, &Metrics)| {
        format!("\n{title}\n{}Error Set:\n{}", columns(&lines(metrics)), errors(metrics))
    };
    report.rows().into_iter().map(paragraph).collect()
}

fn lines(metrics: &Metrics) -> [Vec<String>; 7] {
    let times = &metrics.latencies;
    let (duration, wait) = (metrics.duration, metrics.wait);
    let bytes = |bytes: &super::Bytes| format!("{}, {:.2}", bytes.total, bytes.mean);
    let codes = metrics.status_codes.iter().map(|(code, count)| {
        // Two spaces follow each item, including the last.
        format!("{}:{count}  ", harmless(code))
    });
    let line =
        |name: &str, what: &str, value: String| vec![name.to_owned(), what.to_owned(), value];
    let together = |times: &[Option<i64>]| {
        times.iter().map(|time| time_text(time.map(rounded))).collect::<Vec<_>>().join(", ")
    };
    [
        line(
            "Requests",
            "[total, rate, throughput]",
            format!("{}, {:.2}, {:.2}", metrics.requests, metrics.rate, metrics.throughput),
        ),
        line(
            "Duration",
            "[total, attack, wait]",
            together(&[Some(duration.saturating_add(wait)), Some(duration), Some(wait)]),
        ),
        line(
            "Latencies",
            "[min, mean, 50, 90, 95, 99, max]",
            together(&[
                times.min, times.mean, times.p50, times.p90, times.p95, times.p99, times.max,
            ]),
        ),
        line("Bytes In", "[total, mean]", bytes(&metrics.bytes_in)),
        line("Bytes Out", "[total, mean]", bytes(&metrics.bytes_out)),
        line("Success", "[ratio]", format!("{:.2}%", metrics.success * 100.0)),
        line("Status Codes", "[code:count]", codes.collect()),
    ]
}

fn errors(metrics: &Metrics) -> String {
    metrics.errors.iter().map(|error| harmless(error) + "\n").collect()
}

/// Rounds half up to the unit below the largest one that fits: hours to minutes, seconds to milliseconds.
fn rounded(nanoseconds: i64) -> i64 {
    let units: [i64; 6] = [3_600_000_000_000, 60_000_000_000, 1_000_000_000, 1_000_000, 1_000, 1];
    let unit = units.windows(2).find(|pair| nanoseconds >= pair[0]).map_or(1, |pair| pair[1]);
    let rest = nanoseconds % unit;
    if rest * 2 >= unit && rest > 0 {
        nanoseconds.saturating_add(unit - rest)
    } else {
        nanoseconds - rest
    }
}
