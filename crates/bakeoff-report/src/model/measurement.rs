//! Summarizes a measurement for JSON: of a load that `bakeoff load` ran, or of a trial.
//!
//! Not here: figures by name over several trials (`figures`), the rest of a load's result (`render::json::load`).

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bakeoff_core::histogram::Latencies;
use bakeoff_core::measurement::{self, ErrorKind, GeneratorStall, OperationFigures, Silence};
use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies};
use bakeoff_core::units::harmless;
use serde::Serialize;

pub(crate) use watch::WatchSummary;

/// Maximum number of examples for each kind of error.
const EXAMPLES_GIVEN: usize = 3;

/// Describes a measurement. Requests are operations that were due after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasurementSummary {
    /// Requests that ended, successes and failures.
    pub requests: u64,
    /// Verified successes among them.
    pub verified: u64,
    /// Verified successes that ended in the window, also of operations that were due before it.
    pub verified_in_window: u64,
    /// Operations due in the warm-up that succeeded within the window.
    pub carried_over: u64,
    /// `verified_in_window` divided by the length of the window; `None` for an empty window.
    pub requests_per_second: Option<f64>,
    /// Length of the measured window.
    pub window_seconds: f64,
    /// True if the user interrupted it.
    pub interrupted: bool,
    /// True if the workload's unique keys ran out before the end.
    pub keys_exhausted: bool,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// First errors of each kind, at most three.
    pub error_examples: Vec<ErrorExample>,
    /// Fingerprints of error texts, the most frequent of each kind first.
    pub error_texts: Vec<ErrorTextCount>,
    /// Clients that got their first connection after the load had begun.
    pub late_clients: u64,
    /// Clients that never got a connection.
    pub unconnected_clients: u64,
    /// Requests sent again because the server had not processed them.
    pub reissued: u64,
    /// Kept connections that the server closed while idle.
    pub closed_idle: u64,
    /// Tolerated deviations from HTTP.
    pub oddities: BTreeSet<String>,
    /// Addresses that clients connected to, in the order of first use.
    pub addresses: Vec<AddressJson>,
    /// Share of answers that waited for a delayed acknowledgement, 0 to 1; `None` below the threshold.
    pub delayed_ack_share: Option<f64>,
    /// Connections that were lost or could not be reopened.
    pub connection_errors: u64,
    /// Times without success although a request was due: half a second or more, or a stall of the server.
    pub silences: Vec<Silence>,
    /// Share of the window in which the server stood still, 0 to 1; 0 below 1 %.
    pub stalled_share: f64,
    /// Responses over HTTP by status, successes and failures.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of whole responses over HTTP.
    pub bytes_received: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Time from due to done.
    pub response: LatencyFigures,
    /// Time from sent to done.
    pub service: LatencyFigures,
    /// Time from due to sent that the generator caused.
    pub schedule_lag: LatencyFigures,
    /// Lateness of timer wake-ups.
    pub timer_lag: LatencyFigures,
    /// Time that ready answers waited behind others.
    pub receive_lag: LatencyFigures,
    /// Response times of successes without the generator's own delays.
    pub undelayed: LatencyFigures,
    /// Cost of the load generator.
    pub generator: GeneratorCost,
    /// Figures of each operation or named request.
    pub operations: BTreeMap<String, OperationSummary>,
    /// Describes what watchers observed; absent without watchers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<Box<WatchSummary>>,
}

/// Describes an observed error.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorExample {
    /// Kind of error; `None` for a lost connection.
    pub kind: Option<ErrorKind>,
    /// Time in seconds since measuring began.
    pub at_seconds: f64,
    /// Address of the node.
    pub node: String,
    /// Text of the error.
    pub what: String,
}

/// Counts errors with the same text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorTextCount {
    /// Kind of error.
    pub kind: ErrorKind,
    /// Text without the parts that vary.
    pub text: String,
    /// Number of errors.
    pub count: u64,
}

/// Describes an address that clients connected to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AddressJson {
    /// Address: `10.0.0.7:80`, or `unix:/run/app.sock`.
    pub address: String,
    /// Name that resolved to it.
    pub name: Option<String>,
    /// Time at which it replaced an address that the name had lost, in seconds since measuring began.
    pub since_seconds: Option<f64>,
}

/// Describes the cost of the load generator.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GeneratorCost {
    /// CPU share of the busiest thread, 0 to 1.
    pub cpu_share: f64,
    /// CPU time of the whole process for each request, in microseconds, warm-up included.
    pub cpu_us_per_request: Option<f64>,
    /// Number of threads.
    pub threads: u32,
    /// Times in which a thread stood still for 100 ms or more.
    pub stalls: Vec<GeneratorStall>,
}

/// Holds the figures of one operation or named request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OperationSummary {
    /// Requests that ended, successes and failures.
    pub requests: u64,
    /// Verified successes among them.
    pub verified: u64,
    /// Verified successes in the window, per second.
    pub requests_per_second: Option<f64>,
    /// Verified reads that were allowed to be stale, and were.
    pub stale_reads: u64,
    /// Verified reads of a key that found a value.
    pub hits: u64,
    /// Verified reads of a key that correctly found none.
    pub misses: u64,
    /// Failures by kind.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Time from due to done.
    pub response: LatencyFigures,
    /// Time from sent to done.
    pub service: LatencyFigures,
}

/// Holds latencies in microseconds, with failures ranked last. A percentile that failures reach is null, and so is one
/// of too few requests: *p* needs 10/(1 − *p*), 1,000 for p99.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyFigures {
    /// Percentiles of all requests.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// Maximum; `None` if a request failed.
    pub max_us: Option<f64>,
    /// Mean; `None` if a request failed.
    pub mean_us: Option<f64>,
    /// Reason for each missing figure, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub none_because: BTreeMap<String, String>,
    /// Number of requests.
    pub operations: u64,
    /// Share of failures, 0 to 1.
    pub failed_share: f64,
    /// Median wait of the failures.
    pub failed_after_us: Option<f64>,
    /// Number of successes.
    pub count: u64,
    /// Number of successes beyond an hour.
    pub saturated: u64,
    /// Percentiles of successes alone.
    pub of_successes: Percentiles,
    /// Histogram of successes as in records; absent in reports, whose record has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdr: Option<String>,
}

/// Holds percentiles in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Median.
    pub p50_us: Option<f64>,
    /// 75th percentile.
    pub p75_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9_us")]
    pub p999_us: Option<f64>,
}

/// Names of the percentiles, with their quantiles.
const QUANTILES: [(&str, f64); 6] = [
    ("p50_us", 0.5),
    ("p75_us", 0.75),
    ("p90_us", 0.9),
    ("p95_us", 0.95),
    ("p99_us", 0.99),
    ("p99.9_us", 0.999),
];

impl MeasurementSummary {
    /// Describes a measurement without its histograms.
    pub fn new(of: &measurement::Measurement) -> Self {
        Self::describe(of, |_| None)
    }

    /// Describes a measurement with its histograms.
    pub fn with_histograms(of: &measurement::Measurement) -> Self {
        Self::describe(of, |latencies| Some(latencies.encode()))
    }

    fn describe(of: &measurement::Measurement, hdr: fn(&Latencies) -> Option<String>) -> Self {
        let total = of.total();
        let ranked = |ranked: &RankedLatencies<'_>| LatencyFigures::new(ranked, hdr);
        let values = |values| ranked(&RankedLatencies::of_values(values));
        let requests = of.verified() + of.error_count();
        let all = requests + of.warmup_operations;
        let seconds = of.window.as_secs_f64();
        let operation = |(name, figures): (&String, &OperationFigures)| {
            let one = OperationSummary {
                requests: figures.verified + figures.error_count(),
                verified: figures.verified,
                requests_per_second: (seconds > 0.0)
                    .then(|| figures.verified_in_window as f64 / seconds),
                stale_reads: figures.stale_reads,
                hits: figures.hits,
                misses: figures.misses,
                errors: counts(&figures.errors),
                response: ranked(&figures.responses()),
                service: ranked(&figures.services()),
            };
            (name.clone(), one)
        };
        let text = |(&kind, errors): (&ErrorKind, &measurement::Errors)| {
            let one = |one: &measurement::ErrorText| ErrorTextCount {
                kind,
                text: one.text.clone(),
                count: one.count,
            };
            errors.texts.iter().map(one).collect::<Vec<_>>()
        };
        Self {
            requests,
            verified: of.verified(),
            verified_in_window: of.verified_in_window(),
            carried_over: of.carried_over,
            requests_per_second: of.throughput(),
            window_seconds: seconds,
            interrupted: of.interrupted,
            keys_exhausted: of.keys_exhausted,
            errors: counts(&total.errors),
            error_examples: examples(of),
            error_texts: total.errors.iter().flat_map(text).collect(),
            late_clients: of.late_clients,
            unconnected_clients: of.unconnected_clients,
            reissued: of.reissued,
            closed_idle: of.closed_idle,
            oddities: of.oddities.clone(),
            addresses: of.addresses.iter().map(AddressJson::new).collect(),
            delayed_ack_share: of.delayed_acks().map(|found| found.share),
            connection_errors: of.connection_errors.count,
            silences: of.silences.clone(),
            stalled_share: of.stood_still().unwrap_or(0.0),
            statuses: of.answers.statuses.clone(),
            bytes_received: of.answers.bytes,
            body_bytes: of.answers.body_bytes,
            response: ranked(&total.responses()),
            service: ranked(&total.services()),
            schedule_lag: values(&of.schedule_lag),
            timer_lag: values(&of.timer_lag),
            receive_lag: values(&of.receive_lag),
            undelayed: values(&of.undelayed),
            generator: GeneratorCost {
                cpu_share: of.generator_busiest,
                cpu_us_per_request: (all > 0)
                    .then(|| of.generator_cpu.as_secs_f64() * 1e6 / all as f64),
                threads: of.generator_threads,
                stalls: of.stalls.clone(),
            },
            operations: of.operations.iter().map(operation).collect(),
            watch: of.watch.as_deref().map(|of| Box::new(WatchSummary::describe(of, hdr))),
        }
    }
}

fn counts(errors: &BTreeMap<ErrorKind, measurement::Errors>) -> BTreeMap<ErrorKind, u64> {
    errors.iter().map(|(&kind, errors)| (kind, errors.count)).collect()
}

/// Returns the earliest errors of each kind, and the first lost connection.
fn examples(of: &measurement::Measurement) -> Vec<ErrorExample> {
    let example = |kind, one: &measurement::Example| ErrorExample {
        kind,
        at_seconds: one.at_seconds,
        node: one.node.clone(),
        what: harmless(&one.what),
    };
    let mut given = Vec::new();
    for kind in ErrorKind::ALL {
        let mut of_kind: Vec<&measurement::Example> =
            of.error_examples().filter(|(one, _)| *one == kind).map(|(_, one)| one).collect();
        of_kind.sort_by(|a, b| a.at_seconds.total_cmp(&b.at_seconds));
        given.extend(of_kind.into_iter().take(EXAMPLES_GIVEN).map(|one| example(Some(kind), one)));
    }
    given.extend(of.connection_errors.examples.first().map(|one| example(None, one)));
    given
}

impl AddressJson {
    fn new(of: &measurement::UsedAddress) -> Self {
        Self { address: harmless(&of.address), name: of.name.clone(), since_seconds: of.since }
    }
}

impl LatencyFigures {
    fn new(of: &RankedLatencies<'_>, hdr: fn(&Latencies) -> Option<String>) -> Self {
        let successes = of.successes();
        let places = QUANTILES.map(|(name, quantile)| (name, of.percentile(quantile)));
        let ends = [("max_us", of.max()), ("mean_us", of.mean())];
        Self {
            percentiles: Percentiles::new(of),
            max_us: micros(of.max().latency()),
            mean_us: micros(of.mean().latency()),
            none_because: reasons(places.into_iter().chain(ends)),
            operations: of.count(),
            failed_share: of.failed_share(),
            failed_after_us: micros(of.failed_after()),
            count: successes.count(),
            saturated: successes.saturated(),
            of_successes: Percentiles::new(&RankedLatencies::of_values(successes)),
            hdr: hdr(successes),
        }
    }
}

impl Percentiles {
    fn new(of: &RankedLatencies<'_>) -> Self {
        let places = QUANTILES.map(|(_, quantile)| micros(of.percentile(quantile).latency()));
        let [p50_us, p75_us, p90_us, p95_us, p99_us, p999_us] = places;
        Self { p50_us, p75_us, p90_us, p95_us, p99_us, p999_us }
    }
}

/// Returns the reasons for missing latencies, by their names.
pub(crate) fn reasons<'a>(
    places: impl IntoIterator<Item = (&'a str, Percentile)>,
) -> BTreeMap<String, String> {
    let reason = |(name, place): (&str, Percentile)| Some((name.to_owned(), place.why_not()?));
    places.into_iter().filter_map(reason).collect()
}

/// Returns a latency in microseconds.
pub(crate) fn micros(latency: Option<Duration>) -> Option<f64> {
    latency.map(|latency| latency.as_nanos() as f64 / 1e3)
}
