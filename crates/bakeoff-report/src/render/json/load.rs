//! Describes what `bakeoff load --json` prints.
//!
//! Not here: filling it (the binary), the measurement (`model::measurement`).

use std::collections::BTreeMap;

use bakeoff_core::ranked_latencies::Percentile;
use bakeoff_core::study::Rows;
use serde::Serialize;
use serde_json::Value;

use super::written;
use crate::model::measurement::{MeasurementSummary, micros, reasons};

/// Holds what `bakeoff load --json` prints. Fields may be added within a `format`.
/// Latencies are in microseconds. A figure that does not exist is null. Percentiles rank failures above all successes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it is written at once")]
pub enum LoadOutput {
    /// Result of a load.
    Load(LoadJson),
    /// Result of a search for a rate.
    Search(SearchJson),
}

impl LoadOutput {
    /// Returns the output as JSON.
    pub fn json(&self) -> Value {
        written(self)
    }
}

/// Holds the fields that every result begins with.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OutputHeader {
    /// Version of this form.
    pub format: u32,
    /// Version of the program.
    pub bakeoff: String,
    /// URL, if there is one request.
    pub url: Option<String>,
    /// Settings, with all defaults.
    pub settings: SettingsJson,
}

/// Holds the result of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadJson {
    /// Settings.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<OutputHeader>"))]
    pub header: OutputHeader,
    /// All steps together.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<StepJson>"))]
    pub whole: StepJson,
    /// Peak memory of the load generator; `None` if other machines generated the load.
    pub peak_rss_bytes: Option<u64>,
    /// Conditions of `--fail-if`.
    pub gates: Vec<GateJson>,
    /// Result at each rate of `--steps`.
    pub steps: Vec<StepJson>,
}

/// Holds the result of a search for a rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SearchJson {
    /// Settings.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<OutputHeader>"))]
    pub header: OutputHeader,
    /// Conditions that a rate must keep.
    pub objective: Vec<String>,
    /// Answer.
    pub found: FoundJson,
    /// Knee of the latency's curve.
    pub knee: Knee,
    /// True if the answer may be used.
    pub valid: bool,
    /// Failed checks of the whole search.
    pub reasons: Vec<String>,
    /// Tried rates, in order.
    pub tries: Vec<TryJson>,
}

/// Holds the answer of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FoundJson {
    /// Kind of answer.
    pub kind: FoundKind,
    /// Rate in requests per second.
    pub rate: Option<f64>,
    /// The answer in words.
    pub sentences: Vec<String>,
}

/// Names the kind of a search's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FoundKind {
    /// Highest rate that kept the objective twice.
    Rate,
    /// Rate that kept it; the next try was not valid.
    AtLeast,
    /// Every tried rate kept it.
    NoLimit,
    /// No tried rate kept it.
    Nothing,
    /// No rate kept it twice.
    Unsteady,
    /// No rate was confirmed in time.
    OutOfTime,
    /// The user interrupted the search.
    Interrupted,
}

/// Describes the rate at which a latency begins to rise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Knee {
    /// Latency of the curve, such as `p99`.
    pub of: String,
    /// Rate in requests per second; `None` if there is no knee.
    pub rate: Option<f64>,
    /// Method that found it.
    pub method: &'static str,
}

/// Holds the result of a tried rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TryJson {
    /// Result of the load.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<StepJson>"))]
    pub step: StepJson,
    /// True for the longer second try of the best rate.
    pub confirming: bool,
    /// True if it kept the objective.
    pub kept: bool,
    /// Reasons why it did not.
    pub broken_by: Vec<String>,
}

/// Holds the result of a load at one rate, or of several steps together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepJson {
    /// Requested rate; `None` for a closed load, and for several steps together.
    pub rate: Option<f64>,
    /// Measurement.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "bakeoff_core::schema::Flat<MeasurementSummary>"))]
    pub measurement: MeasurementSummary,
    /// Share of an open load's requests that waited for a free client or a connection; `None` for a closed load.
    pub waited_for_client_share: Option<f64>,
    /// Each second, also without a success.
    pub seconds: Vec<SecondJson>,
    /// Generators of the load, with `--on`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generators: Option<GeneratorsJson>,
    /// True if the result is valid.
    pub valid: bool,
    /// Reasons why it is not valid.
    pub reasons: Vec<String>,
}

/// Holds the figures of one second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SecondJson {
    /// Whole seconds since measuring began.
    pub second: u32,
    /// Verified successes.
    pub verified: u64,
    /// Failures.
    pub errors: u64,
    /// Median response time, with failures ranked last.
    pub p50_us: Option<f64>,
    /// 99th percentile, with failures ranked last.
    pub p99_us: Option<f64>,
    /// Maximum; `None` if a request failed.
    pub max_us: Option<f64>,
    /// Reason for each missing figure, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub none_because: BTreeMap<String, String>,
}

/// Describes the generators of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GeneratorsJson {
    /// Time within which all began, in microseconds, with the errors of their clocks.
    pub began_within_us: f64,
    /// Share of each.
    pub each: Vec<GeneratorJson>,
}

/// Describes one generator's share of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GeneratorJson {
    /// Name in the places file.
    pub machine: String,
    /// Its clients.
    pub clients: u32,
    /// Verified successes.
    pub verified: u64,
    /// Failures.
    pub errors: u64,
    /// Delay of its start after the agreed time, in microseconds, by its own clock.
    pub late_us: f64,
    /// Possible error of its clock in microseconds: half of the shortest round trip.
    pub clock_error_us: f64,
    /// CPU time of its process during the window.
    pub cpu_seconds: f64,
    /// CPU share of its busiest thread, 0 to 1.
    pub cpu_share: f64,
}

/// Describes a condition of `--fail-if` and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GateJson {
    /// Condition.
    pub fail_if: String,
    /// True if it holds, or cannot be judged.
    pub failed: bool,
    /// Figure in words, or why it is unknown.
    pub seen: String,
}

/// Holds the settings of a load, with all defaults.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingsJson {
    /// Requests.
    pub requests: Vec<RequestJson>,
    /// File of `--rows`.
    pub rows: Option<Rows>,
    /// Arrivals: `closed`, `constant` or `poisson`.
    pub load: &'static str,
    /// Requests per second of an open load at one rate.
    pub rate: Option<f64>,
    /// Rates of `--steps`.
    pub steps: Vec<f64>,
    /// First and last rate of `--ramp`.
    pub ramp: Option<[f64; 2]>,
    /// Number of clients.
    pub clients: u32,
    /// Number of generator threads.
    pub threads: u32,
    /// Maximum requests in flight per client.
    pub in_flight: u32,
    /// Path of the Unix domain socket for all connections.
    pub unix_socket: Option<String>,
    /// True if any certificate is accepted.
    pub insecure: bool,
    /// Version of HTTP: 1 or 2.
    pub http: u8,
    /// True if clients keep their connections.
    pub keep_alive: bool,
    /// Length of the load in seconds; `None` for a load by count.
    pub for_seconds: Option<f64>,
    /// Number of requests; `None` for a load by time.
    pub for_requests: Option<u64>,
    /// Warm-up before measuring.
    pub warmup_seconds: f64,
    /// Time after which an unanswered request has failed.
    pub timeout_seconds: f64,
    /// Time before a due request in which a thread waits without sleeping.
    pub precision_us: u64,
    /// Seed of words and arrivals.
    pub seed: u64,
}

/// Describes a request, without secrets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestJson {
    /// Name in tables and `operations`.
    pub name: String,
    /// Method.
    pub method: String,
    /// URL with its secrets masked.
    pub url: String,
    /// Names of its headers.
    pub headers: Vec<String>,
    /// Bytes of its body before words are filled in.
    pub body_bytes: usize,
    /// Weight among the requests.
    pub weight: u32,
}

impl SecondJson {
    /// Describes a second by its counts and response times.
    pub fn new(second: u32, verified: u64, errors: u64, responses: [Percentile; 3]) -> Self {
        let [p50, p99, max] = responses;
        let latency = |place: Percentile| micros(place.latency());
        Self {
            second,
            verified,
            errors,
            p50_us: latency(p50),
            p99_us: latency(p99),
            max_us: latency(max),
            none_because: reasons([("p50_us", p50), ("p99_us", p99), ("max_us", max)]),
        }
    }
}
