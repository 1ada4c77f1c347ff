//! Writes the files of dbtester's `control` and agents from a trial's record.
//!
//! Files and columns have dbtester's names. An unknown figure is an empty field, where dbtester writes 0. Examples are
//! the latency of a second without an answer, a percentile of too few requests, and figures that bakeoff does not
//! sample.
//!
//! A record gives the start of a trial to the second. The start within that second is chosen so that the measured
//! window begins with a second of the files. One row then holds a second's load and the resources used for it.
//!
//! Not here: the paths (`config`), the analysis of the files (`analysis`).

mod metrics;
#[cfg(test)]
pub(super) mod tests;

use bakeoff_core::histogram::HistogramError;
use bakeoff_core::measurement::{Measurement, Second};
use bakeoff_core::ranked_latencies::RankedLatencies;
use bakeoff_core::record::TrialRecord;
use bakeoff_core::trial_samples::{GENERATOR, Series};

use super::config::ResultFile;
use super::frame::{self, Frame};
use super::number;

pub use self::metrics::METRICS_HEADER;

/// Columns of the time series.
pub const TIMESERIES_HEADER: [&str; 6] = [
    "UNIX-SECOND",
    "CONTROL-CLIENT-NUM",
    "MIN-LATENCY-MS",
    "AVG-LATENCY-MS",
    "MAX-LATENCY-MS",
    "AVG-THROUGHPUT",
];
/// Columns of the latencies by number of keys.
pub const BY_KEY_HEADER: [&str; 4] = ["KEYS", "MIN-LATENCY-MS", "AVG-LATENCY-MS", "MAX-LATENCY-MS"];
/// Columns of the disk usage.
pub const DISK_HEADER: [&str; 4] =
    ["INDEX", "DATABASE-ENDPOINT", "DISK-SPACE-USAGE", "DISK-SPACE-USAGE-BYTES-NUM"];

/// Percentiles in the file, with dbtester's labels.
const PERCENTILES: [(&str, f64); 8] = [
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// Number of keys that one row covers in a file by number of keys.
pub(super) const KEYS_UNIT: u64 = 1000;

/// Width of a step of the distribution, in milliseconds.
const STEP_MS: u64 = 10;

/// A trial of one database.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseTrial<'a> {
    /// Record of the trial.
    pub record: &'a TrialRecord,
    /// Name of the program: `etcd`.
    pub program: &'a str,
    /// dbtester clients per connection.
    pub clients_each: u64,
    /// Configured number of requests.
    pub requests: u64,
    /// Addresses of the nodes as the configuration writes them: `10.138.0.2:2379`.
    pub endpoints: &'a [String],
}

/// Contents of all files of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFiles {
    /// Files of the client's machine, and the disk usage.
    pub client: Vec<(ResultFile, String)>,
    /// Metrics of each server, in the order of the nodes.
    pub servers: Vec<ServerMetrics>,
}

/// The metrics of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMetrics {
    /// CSV with one row per sample.
    pub raw: String,
    /// CSV with one row per second.
    pub interpolated: String,
}

/// Reason why a record cannot be turned into files.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The start of the trial is not a valid time.
    #[error("the trial's start `{0}` is not a valid time")]
    Started(String),
    /// A second's histogram cannot be read.
    #[error("the latencies of a second are unreadable: {0}")]
    Histogram(HistogramError),
    /// Nothing was measured.
    #[error("the trial measured nothing")]
    Nothing,
}

impl From<HistogramError> for FilesError {
    fn from(error: HistogramError) -> Self {
        Self::Histogram(error)
    }
}

/// One second of a load, as a row of the file.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    unix_second: i64,
    clients: u64,
    /// Fastest, mean and slowest success in milliseconds; `None` without a success.
    latency: Option<[f64; 3]>,
    verified: u64,
}

/// Returns the metrics of a node that was not sampled: only the header.
pub fn no_metrics() -> String {
    Frame::new(METRICS_HEADER).csv()
}

/// Converts a trial to files.
///
/// # Errors
/// When the record measured nothing or is invalid.
pub fn files(measured: &DatabaseTrial<'_>) -> Result<TrialFiles, FilesError> {
    let record = measured.record;
    let began = began(record)?;
    let whole = record.measurement().ok_or(FilesError::Nothing)?;
    let rows = rows(measured, began)?;
    let series = metrics::MetricsPeriod::new(measured, began);
    let (client, servers) = sampled(record);
    let metrics_of = |node, program| ServerMetrics {
        raw: series.samples(node, program).csv(),
        interpolated: series.seconds(node, program).csv(),
    };
    let own = client.map(|node| metrics_of(node, "bakeoff"));
    let none = || ServerMetrics { raw: no_metrics(), interpolated: no_metrics() };
    let ServerMetrics { raw, interpolated } = own.unwrap_or_else(none);
    let client = vec![
        (ResultFile::ClientMetrics, raw),
        (ResultFile::ClientMetricsInterpolated, interpolated),
        (ResultFile::Timeseries, timeseries(&rows).csv()),
        (ResultFile::DistributionAll, distribution(&whole).csv()),
        (ResultFile::DistributionPercentile, percentiles(&whole).csv()),
        (ResultFile::DistributionSummary, summary(&whole)),
        (ResultFile::LatencyByKey, latency_by_key(&rows, measured.requests).csv()),
        (ResultFile::DiskUsage, disk(measured).csv()),
    ];
    let servers = servers.into_iter().map(|node| metrics_of(node, measured.program)).collect();
    Ok(TrialFiles { client, servers })
}

/// Returns the samples of the client, and those of the servers in order. With a places file, several machines may have
/// generators. The first one is then the client, because dbtester has one.
fn sampled(record: &TrialRecord) -> (Option<&Series>, Vec<&Series>) {
    let nodes = record.observed.iter().flat_map(|observed| &observed.nodes);
    let (own, servers): (Vec<_>, Vec<_>) = nodes.partition(|series| is_client(series));
    let driven = record.machines.iter().find(|machine| !machine.generated.is_empty());
    let elsewhere =
        driven.and_then(|machine| machine.observed.nodes.iter().find(|series| is_client(series)));
    (elsewhere.or(own.first().copied()), servers)
}

/// Returns true for a generator's samples: `generator`, or `generator on gen1` with a places file.
fn is_client(series: &Series) -> bool {
    let rest = series.name.strip_prefix(GENERATOR);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" on "))
}

/// Returns the start of a trial, in seconds of Unix time.
fn began(record: &TrialRecord) -> Result<f64, FilesError> {
    let read: Result<jiff::Timestamp, _> = record.started.parse();
    let read = read.map_err(|_| FilesError::Started(record.started.clone()))?;
    let second = read.as_second() as f64;
    let window = record.figured().first().and_then(|stage| stage.measured_from).unwrap_or(0.0);
    Ok((second + window).ceil() - window)
}

/// Returns one row per second of all stages, including seconds without an answer.
fn rows(measured: &DatabaseTrial<'_>, began: f64) -> Result<Vec<Row>, FilesError> {
    let mut rows = Vec::new();
    for stage in measured.record.figured() {
        let from = began + stage.measured_from.unwrap_or(stage.began);
        let clients = u64::from(stage.clients) * measured.clients_each;
        let mut next = 0;
        for second in &stage.measurement.seconds {
            // Binary rounding may put a whole second slightly too low.
            let unix = |second: u32| (from + f64::from(second) + 1e-6).floor() as i64;
            let silent =
                |second| Row { unix_second: unix(second), clients, latency: None, verified: 0 };
            rows.extend((next..second.second).map(silent));
            next = second.second + 1;
            let latency = latency(second)?;
            rows.push(Row { latency, verified: second.verified(), ..silent(second.second) });
        }
    }
    Ok(rows)
}

fn latency(second: &Second) -> Result<Option<[f64; 3]>, HistogramError> {
    let ranked: RankedLatencies<'_> = second.responses()?;
    let of = ranked.successes();
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1000.0;
    let of = of.min().zip(of.mean()).zip(of.max());
    Ok(of.map(|((least, mean), most)| [least, mean, most].map(milliseconds)))
}

fn timeseries(rows: &[Row]) -> Frame {
    let mut frame = Frame::new(TIMESERIES_HEADER);
    for row in rows {
        let [least, mean, most] = latency_fields(row.latency);
        let (second, clients) = (row.unix_second.to_string(), row.clients.to_string());
        frame.rows.push(vec![second, clients, least, mean, most, row.verified.to_string()]);
    }
    frame
}

fn latency_fields(latency: Option<[f64; 3]>) -> [String; 3] {
    latency.map_or_else(Default::default, |three| three.map(|value| format!("{value:.6}")))
}

fn latency_by_key(rows: &[Row], requests: u64) -> Frame {
    let mut frame = Frame::new(BY_KEY_HEADER);
    for (keys, row) in by_keys(rows, |row| row.verified, requests) {
        let [least, mean, most] = latency_fields(row.and_then(|row| row.latency));
        frame.rows.push(vec![keys.to_string(), least, mean, most]);
    }
    frame
}

/// Returns the second in which each thousand of keys began to be written. Each entry holds the number of keys at the
/// end of that thousand, and `None` if the load wrote fewer keys.
pub(super) fn by_keys<T>(
    seconds: &[T],
    done: impl Fn(&T) -> u64,
    requests: u64,
) -> Vec<(u64, Option<&T>)> {
    let mut ends = Vec::new();
    let mut seconds = seconds.iter();
    let (mut sum, mut now) = (0u64, None);
    let mut end = 0;
    while end < requests {
        let begins = end;
        end = (end + KEYS_UNIT).min(requests);
        while sum <= begins {
            now = seconds.next();
            let Some(second) = now else { break };
            sum = sum.saturating_add(done(second));
        }
        ends.push((end, now));
    }
    ends
}

/// Counts successes by latency, in steps of ten milliseconds.
fn distribution(whole: &Measurement) -> Frame {
    let total = whole.total();
    let responses = total.responses();
    let mut steps = std::collections::BTreeMap::<u64, u64>::new();
    for (latency, count) in responses.successes().recorded() {
        let step = latency.as_millis() as u64 / STEP_MS * STEP_MS;
        *steps.entry(step).or_default() += count;
    }
    let mut frame = Frame::new(["LATENCY-MS", "COUNT"]);
    let ends = steps.keys().next().copied().zip(steps.keys().next_back().copied());
    let Some((first, last)) = ends else { return frame };
    for step in (first..=last).step_by(STEP_MS as usize) {
        let count = steps.get(&step).copied().unwrap_or(0);
        frame.rows.push(vec![step.to_string(), count.to_string()]);
    }
    frame
}

fn percentiles(whole: &Measurement) -> Frame {
    let total = whole.total();
    let responses = total.responses();
    let mut frame = Frame::new(["LATENCY-PERCENTILE", "LATENCY-MS"]);
    for (label, quantile) in PERCENTILES {
        let latency = responses.percentile(quantile).latency();
        let text = latency.map(|latency| format!("{:.6}", latency.as_secs_f64() * 1000.0));
        frame.rows.push(vec![label.to_owned(), text.unwrap_or_default()]);
    }
    frame
}

/// Writes the figures of the whole load and its failures, one per line.
fn summary(whole: &Measurement) -> String {
    let total = whole.total();
    let responses = total.responses();
    let successes = responses.successes();
    let milliseconds = |time: Option<std::time::Duration>| {
        time.map(|time| format!("{:.4}", time.as_secs_f64() * 1000.0)).unwrap_or_default()
    };
    let spread = successes.mean().map(|mean| {
        let mean = mean.as_secs_f64() * 1000.0;
        let square = |(value, count): (std::time::Duration, u64)| {
            (value.as_secs_f64() * 1000.0 - mean).powi(2) * count as f64
        };
        let sum: f64 = successes.recorded().map(square).sum();
        format!("{:.4}", (sum / successes.count().max(1) as f64).sqrt())
    });
    let throughput = whole.throughput().map(|rate| format!("{rate:.4}")).unwrap_or_default();
    let mut lines = vec![
        ["TOTAL-SECONDS".to_owned(), format!("{:.4}", whole.window.as_secs_f64())],
        ["REQUESTS-PER-SECOND".to_owned(), throughput],
        ["SLOWEST-LATENCY-MS".to_owned(), milliseconds(successes.max())],
        ["FASTEST-LATENCY-MS".to_owned(), milliseconds(successes.min())],
        ["AVERAGE-LATENCY-MS".to_owned(), milliseconds(successes.mean())],
        ["STDDEV-LATENCY-MS".to_owned(), spread.unwrap_or_default()],
    ];
    let failures = total.errors.iter().filter(|(_, errors)| errors.count > 0);
    let failures = failures
        .map(|(kind, errors)| [format!("ERROR: \"{}\"", kind.name()), errors.count.to_string()]);
    let known = lines.len();
    lines.extend(failures);
    if lines.len() == known {
        lines.push(["ERROR".to_owned(), "0".to_owned()]);
    }
    let lines: Vec<Vec<String>> = lines.into_iter().map(Vec::from).collect();
    frame::csv(&lines)
}

fn disk(measured: &DatabaseTrial<'_>) -> Frame {
    let mut frame = Frame::new(DISK_HEADER);
    let usage = measured.record.usage.iter().filter(|usage| usage.name != GENERATOR);
    for (index, usage) in usage.enumerate() {
        let endpoint = measured.endpoints.get(index).cloned().unwrap_or_else(|| usage.name.clone());
        let bytes = usage.data_bytes;
        let text = bytes.map(|bytes| number::bytes(bytes as f64)).unwrap_or_default();
        let bytes = bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        frame.rows.push(vec![index.to_string(), endpoint, text, bytes]);
    }
    frame
}
