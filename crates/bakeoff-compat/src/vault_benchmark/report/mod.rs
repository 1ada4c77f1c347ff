//! Renders the reports: terse, verbose and JSON, as vault-benchmark prints them.
//!
//! Keeps every line that scripts parse. An undefined figure, such as the mean of only failures, is `-` in text and
//! `null` in JSON, which vault-benchmark's `review` reads as 0.
//!
//! Not here: the source of the figures (`load`), the choice of report (`options`).

mod json;
mod terse;
mod verbose;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_engine::LoadError;
use serde::{Deserialize, Serialize};

use super::config::TOTAL;
use super::load::{Outcome, TestFigures};
use super::options::{ReportMode, Review};

/// Figures of one test, as counted by the load.
pub(super) struct Figures<'f> {
    pub(super) name: &'f str,
    pub(super) requests: u64,
    pub(super) successes: u64,
    pub(super) latencies: &'f Latencies,
    /// Answers by status; 0 for requests without an answer.
    pub(super) statuses: &'f BTreeMap<u16, u64>,
    /// Number of errors, by description.
    pub(super) errors: &'f BTreeMap<String, u64>,
    /// Bytes of response bodies.
    pub(super) bytes_in: u64,
    /// Bytes of request bodies.
    pub(super) bytes_out: u64,
    /// Time since the load began, as in the fields below.
    pub(super) first_sent: Duration,
    pub(super) last_sent: Duration,
    pub(super) last_done: Duration,
}

/// Report of one server's load.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    target_addr: String,
    /// Metrics by test, with the sum of all under [`TOTAL`].
    metrics: BTreeMap<String, Metrics>,
    /// An extension of bakeoff, which vault-benchmark skips.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    /// Warnings about the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Metrics of one test, with vegeta's names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Metrics {
    latencies: Times,
    bytes_in: Bytes,
    bytes_out: Bytes,
    /// Time of the first request, in RFC 3339.
    earliest: Moment,
    /// Time of the last request.
    latest: Moment,
    /// Time of the last answer.
    end: Moment,
    /// Time from the first to the last request, in nanoseconds.
    duration: i64,
    /// Time from the last request to the last answer, in nanoseconds.
    wait: i64,
    requests: u64,
    /// Requests per second.
    rate: f64,
    /// Successes per second.
    throughput: f64,
    /// Share of successes, 0 to 1.
    success: f64,
    status_codes: BTreeMap<String, u64>,
    errors: Vec<String>,
    /// Number of each of `errors`; an extension of bakeoff.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    error_counts: BTreeMap<String, u64>,
}

/// Latencies in nanoseconds; `None` if undefined.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Times {
    total: Option<i64>,
    mean: Option<i64>,
    #[serde(rename = "50th")]
    p50: Option<i64>,
    #[serde(rename = "90th")]
    p90: Option<i64>,
    #[serde(rename = "95th")]
    p95: Option<i64>,
    #[serde(rename = "99th")]
    p99: Option<i64>,
    max: Option<i64>,
    min: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Bytes {
    total: u64,
    /// Bytes per request.
    mean: f64,
}

/// A time in RFC 3339.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Moment(String);

/// Returns Go's zero time.
impl Default for Moment {
    fn default() -> Self {
        Self("0001-01-01T00:00:00Z".to_owned())
    }
}

impl Moment {
    /// Converts nanoseconds since 1970.
    fn at(nanoseconds: i128) -> Self {
        jiff::Timestamp::from_nanosecond(nanoseconds)
            .map_or_else(|_| Self::default(), |moment| Self(moment.to_string()))
    }
}

impl Report {
    /// Builds the report of a load on the server `target`. `began` is in seconds since 1970.
    pub(super) fn new(
        target: &str,
        began: f64,
        tests: &[Figures<'_>],
        annotations: &[(String, String)],
        notes: Vec<String>,
    ) -> Self {
        let began = (began * 1e9) as i128;
        let mut metrics: BTreeMap<String, Metrics> =
            tests.iter().map(|test| (test.name.to_owned(), Metrics::new(test, began))).collect();
        metrics.insert(TOTAL.to_owned(), total(tests, began));
        Self {
            target_addr: target.to_owned(),
            metrics,
            annotations: annotations.iter().cloned().collect(),
            notes,
        }
    }

    fn render(&self, mode: ReportMode) -> String {
        match mode {
            ReportMode::Terse => terse::render(self),
            ReportMode::Verbose => verbose::render(self),
            ReportMode::Json => json::render(self),
        }
    }

    /// Returns titles and metrics: the tests in natural order, then the total.
    fn rows(&self) -> Vec<(String, &Metrics)> {
        let mut names: Vec<&String> = self.metrics.keys().filter(|name| *name != TOTAL).collect();
        names.sort_by(|a, b| natural(a, b));
        let tests = names.into_iter().map(|name| (harmless(name), &self.metrics[name]));
        let total = self.metrics.get(TOTAL).map(|total| (TOTAL.to_uppercase(), total));
        tests.chain(total).collect()
    }
}

impl<'f> Figures<'f> {
    fn from_test(test: &'f TestFigures) -> Self {
        Self {
            name: &test.name,
            requests: test.requests,
            successes: test.successes,
            latencies: &test.latencies,
            statuses: &test.statuses,
            errors: &test.errors,
            bytes_in: test.bytes_in,
            bytes_out: test.bytes_out,
            first_sent: test.first_sent,
            last_sent: test.last_sent,
            last_done: test.last_done,
        }
    }
}

impl Metrics {
    fn new(figures: &Figures<'_>, began: i128) -> Self {
        let requests = figures.requests;
        if requests == 0 {
            return Self { latencies: Times::of_nothing(), ..Self::default() };
        }
        let duration = figures.last_sent.saturating_sub(figures.first_sent);
        let wait = figures.last_done.saturating_sub(figures.last_sent);
        let each = |total: u64| Bytes { total, mean: total as f64 / requests as f64 };
        // vegeta divides by one second if no time passed, but the request rate is then undefined.
        let over = |time: Duration| if duration.is_zero() { 1.0 } else { time.as_secs_f64() };
        let moment = |since: Duration| Moment::at(began + since.as_nanos().cast_signed());
        Self {
            latencies: Times::from_latencies(figures.latencies),
            bytes_in: each(figures.bytes_in),
            bytes_out: each(figures.bytes_out),
            earliest: moment(figures.first_sent),
            latest: moment(figures.last_sent),
            end: moment(figures.last_done.max(figures.last_sent)),
            duration: nanoseconds(duration),
            wait: nanoseconds(wait),
            requests,
            rate: requests as f64 / over(duration),
            throughput: figures.successes as f64 / over(duration + wait),
            success: figures.successes as f64 / requests as f64,
            status_codes: figures
                .statuses
                .iter()
                .map(|(status, count)| (status.to_string(), *count))
                .collect(),
            errors: figures.errors.keys().cloned().collect(),
            error_counts: figures.errors.clone(),
        }
    }
}

/// Sums up all tests.
fn total(tests: &[Figures<'_>], began: i128) -> Metrics {
    let sent: Vec<&Figures<'_>> = tests.iter().filter(|test| test.requests > 0).collect();
    let mut latencies = Latencies::default();
    let mut statuses = BTreeMap::new();
    let mut errors = BTreeMap::new();
    for test in &sent {
        latencies.merge(test.latencies);
        for (status, count) in test.statuses {
            *statuses.entry(*status).or_default() += count;
        }
        for (error, count) in test.errors {
            *errors.entry(error.clone()).or_default() += count;
        }
    }
    let sum = |of: fn(&Figures<'_>) -> u64| sent.iter().map(|test| of(test)).sum();
    let moments = |of: fn(&Figures<'_>) -> Duration| sent.iter().map(move |test| of(test));
    let figures = Figures {
        name: TOTAL,
        requests: sum(|test| test.requests),
        successes: sum(|test| test.successes),
        latencies: &latencies,
        statuses: &statuses,
        errors: &errors,
        bytes_in: sum(|test| test.bytes_in),
        bytes_out: sum(|test| test.bytes_out),
        first_sent: moments(|test| test.first_sent).min().unwrap_or_default(),
        last_sent: moments(|test| test.last_sent).max().unwrap_or_default(),
        last_done: moments(|test| test.last_done).max().unwrap_or_default(),
    };
    Metrics::new(&figures, began)
}

impl Times {
    /// Returns vegeta's figures for a load without requests.
    fn of_nothing() -> Self {
        let zero = Some(0);
        Self {
            total: zero,
            mean: zero,
            p50: zero,
            p90: zero,
            p95: zero,
            p99: zero,
            max: zero,
            min: zero,
        }
    }

    fn from_latencies(latencies: &Latencies) -> Self {
        let quantile = |share| latencies.quantile(share).map(nanoseconds);
        let mean = latencies.mean().map(nanoseconds);
        let count = i64::try_from(latencies.count()).unwrap_or(i64::MAX);
        Self {
            total: mean.map(|mean| mean.saturating_mul(count)),
            mean,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: latencies.max().map(nanoseconds),
            min: latencies.min().map(nanoseconds),
        }
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Renders the report of one server, with an empty line at the end as in vault-benchmark. Only JSON has annotations
/// and notes.
pub(super) fn render(
    address: &str,
    outcome: &Outcome,
    annotations: &[(String, String)],
    notes: &[String],
    mode: ReportMode,
) -> String {
    let figures: Vec<Figures<'_>> = outcome.tests.iter().map(Figures::from_test).collect();
    let report = Report::new(address, outcome.began, &figures, annotations, notes.to_vec());
    report.render(mode) + "\n"
}

/// Renders the reports of an earlier run, by bakeoff or vault-benchmark. Also returns their notes.
///
/// # Errors
///
/// When the file cannot be read, is invalid, or holds no results.
pub(super) fn review(review: &Review) -> Result<(String, Vec<String>), LoadError> {
    let reports = json::read(&review.results_file)?;
    let text = reports.iter().map(|report| report.render(review.report_mode)).collect();
    let notes = reports.into_iter().flat_map(|report| report.notes);
    Ok((text, notes.map(|note| harmless(&note)).collect()))
}

/// Formats a time as Go does: `1m2.5s`, `93.4ms`, `0s`; `-` for `None`.
fn time_text(nanoseconds: Option<i64>) -> String {
    let Some(nanoseconds) = nanoseconds else { return "-".to_owned() };
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let in_units = |nanoseconds: u64, unit: u64| {
        let (whole, rest) = (nanoseconds / unit, nanoseconds % unit);
        let digits = unit.ilog10() as usize;
        match format!("{rest:0digits$}").trim_end_matches('0') {
            "" => whole.to_string(),
            fraction => format!("{whole}.{fraction}"),
        }
    };
    let text = match all {
        0 => "0s".to_owned(),
        1..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}µs", in_units(all, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", in_units(all, 1_000_000)),
        _ => {
            let minutes = all / 60_000_000_000;
            let seconds = in_units(all % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// Aligns cells in columns with two spaces between them, as Go's `tabwriter` does. The last cell of a line is not
/// padded.
fn columns(lines: &[Vec<String>]) -> String {
    let width = |cell: &String| cell.chars().count();
    let most = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..most)
        .map(|column| {
            let inner = lines.iter().filter(|line| line.len() > column + 1);
            inner.map(|line| width(&line[column])).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < line.len() {
                text.extend(std::iter::repeat_n(' ', widths[column] + 2 - width(cell)));
            }
        }
        text.push('\n');
    }
    text
}

/// Replaces control characters, because names and errors come from files and go to a terminal.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Compares names so that `test2` precedes `test11`. Digits compare as numbers and precede other characters.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else {
            return a.len().cmp(&b.len());
        };
        let order = match (first_a.is_ascii_digit(), first_b.is_ascii_digit()) {
            (true, true) => {
                let (digits_a, rest_a) = digits(a);
                let (digits_b, rest_b) = digits(b);
                (a, b) = (rest_a, rest_b);
                let (value_a, value_b) = (significant(digits_a), significant(digits_b));
                let by_value = value_a.len().cmp(&value_b.len()).then(value_a.cmp(value_b));
                by_value.then(digits_a.len().cmp(&digits_b.len()))
            }
            (false, false) => {
                let order = first_a.cmp(first_b);
                (a, b) = (&a[1..], &b[1..]);
                order
            }
            (digit, _) => return if digit { Ordering::Less } else { Ordering::Greater },
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn significant(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len())..]
}

#[cfg(test)]
mod tests;
