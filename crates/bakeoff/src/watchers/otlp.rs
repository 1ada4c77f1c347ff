//! Exports each second of a run to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! A thread of its own sends one request a second, so that a slow collector never holds up the run. A failed export is
//! counted and not repeated: the counters in the next one include it.
//!
//! Not here: the metrics (`metrics`).

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bakeoff_clock as clock;
use bakeoff_clock::wall;
use bakeoff_core::units::{count_text, server_text};
use bakeoff_engine::address::look_up;
use bakeoff_engine::blocking_http::BlockingConnection;
use bakeoff_engine::tls;
use bakeoff_engine::transport::{Target, TlsTarget};
use bakeoff_engine::works::http::Url;
use bakeoff_wire::http1::Request;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric as Exported, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::metrics::{Metric, MetricKind, MetricUnit, Point};
use crate::failure::Failure;

/// Name of the thread.
const THREAD: &str = "otlp";
/// Maximum exports that wait for the collector; further ones are not sent.
const WAITING_MAX: usize = 64;
/// Timeout of an export, and of all that wait when the run ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;

/// An exporter at work.
pub(super) struct OtlpExporter {
    /// URL without secrets.
    endpoint: String,
    seconds: SyncSender<SecondOfRun>,
    shared: Arc<Progress>,
    thread: JoinHandle<()>,
}

/// The metrics of one second.
struct SecondOfRun {
    metrics: Vec<Metric>,
    /// Nanoseconds since 1970.
    at: u64,
}

/// State that the exporter and its thread share.
#[derive(Default)]
struct Progress {
    stop: AtomicBool,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    exports: u64,
    failed: u64,
    /// First failure.
    why: Option<String>,
    /// True once the user knows of it.
    reported: bool,
}

impl Progress {
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: String) {
        let mut outcome = self.outcome();
        outcome.failed += 1;
        outcome.why.get_or_insert(why);
    }
}

impl OtlpExporter {
    /// Starts an exporter to this URL of a collector.
    ///
    /// # Errors
    /// Fails if this machine trusts no certificate, for `https`.
    pub(super) fn start(url: Url) -> Result<Self, Failure> {
        let endpoint = url.shown();
        let config = match url.tls {
            true => Some(tls::client_config(None, tls::Trust::Machine, &[b"http/1.1"])?),
            false => None,
        };
        let (seconds, received) = sync_channel(WAITING_MAX);
        let shared = Arc::<Progress>::default();
        let mut sender = Sender { url, config, connection: None, started: now() };
        let progress = Arc::clone(&shared);
        let thread = thread::Builder::new().name(THREAD.to_owned());
        let thread = thread
            .spawn(move || sender.send_all(&received, &progress))
            .map_err(|error| Failure::machine(format!("cannot export to {endpoint}: {error}")))?;
        Ok(Self { endpoint, seconds, shared, thread })
    }

    /// Exports a second of the run, unless too many wait for the collector.
    pub(super) fn export(&self, metrics: Vec<Metric>) {
        self.shared.outcome().exports += 1;
        let second = SecondOfRun { metrics, at: now() };
        if let Err(TrySendError::Full(_)) = self.seconds.try_send(second) {
            self.shared.fail("it answers slower than one export a second".to_owned());
        }
    }

    /// Returns a warning about the first failed export, once.
    pub(super) fn warning(&self) -> Option<String> {
        let mut outcome = self.shared.outcome();
        let why = outcome.why.clone().filter(|_| !outcome.reported)?;
        outcome.reported = true;
        Some(format!("an export to {} failed; the run goes on: {why}", self.endpoint))
    }

    /// Waits a moment for the last exports. Returns a warning if some failed.
    pub(super) fn close(self) -> Option<String> {
        let Self { endpoint, seconds, shared, thread } = self;
        drop(seconds);
        let until = clock::now() + PATIENCE;
        while !thread.is_finished() && clock::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        shared.stop.store(true, Ordering::Release);
        let outcome = shared.outcome();
        let why = outcome.why.as_ref()?;
        let (failed, exports) = (count_text(outcome.failed), count_text(outcome.exports));
        Some(format!("{failed} of {exports} exports to {endpoint} failed; the first: {why}"))
    }
}

fn now() -> u64 {
    (wall::seconds() * 1e9) as u64
}

/// Sends exports over one connection.
struct Sender {
    url: Url,
    /// Client configuration of TLS, for `https`.
    config: Option<Arc<rustls::ClientConfig>>,
    connection: Option<BlockingConnection>,
    /// Start of all counters, in nanoseconds since 1970.
    started: u64,
}

impl Sender {
    fn send_all(&mut self, seconds: &Receiver<SecondOfRun>, progress: &Progress) {
        for SecondOfRun { metrics, at } in seconds {
            if progress.stop.load(Ordering::Acquire) {
                return;
            }
            let body = request(metrics, self.started, at).encode_to_vec();
            if let Err(error) = self.send(&body, &progress.stop) {
                self.connection = None;
                progress.fail(server_text(&error.to_string()));
            }
        }
    }

    fn send(&mut self, body: &[u8], stop: &AtomicBool) -> io::Result<()> {
        let mut connection = match self.connection.take().filter(BlockingConnection::is_usable) {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let request = Request {
            method: "POST",
            target: &self.url.target,
            headers: &[("host", &self.url.authority), ("content-type", "application/x-protobuf")],
            body,
            ..Request::default()
        };
        let until = clock::now() + PATIENCE;
        let answer = connection.ask(&request, &|| match clock::now() < until
            && !stop.load(Ordering::Acquire)
        {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        })?;
        if !(200..300).contains(&answer.status) {
            return Err(io::Error::other(format!("it answered {}", answer.status)));
        }
        self.connection = Some(connection);
        let response = ExportMetricsServiceResponse::decode(&*answer.body).unwrap_or_default();
        match response.partial_success.filter(|partial| partial.rejected_data_points > 0) {
            Some(partial) => {
                Err(io::Error::other(format!("it rejected: {}", partial.error_message)))
            }
            None => Ok(()),
        }
    }

    fn connect(&self) -> io::Result<BlockingConnection> {
        let Url { host, port, .. } = &self.url;
        let addresses: Vec<SocketAddr> = look_up(host, *port)?;
        let address =
            *addresses.first().ok_or_else(|| io::Error::other("its name has no address"))?;
        let name = || host.clone().try_into().map_err(io::Error::other);
        let tls =
            self.config.as_ref().map(|config| Ok(TlsTarget::new(name()?, Arc::clone(config))));
        let target = Target { address, tls: tls.transpose().map_err(|error: io::Error| error)? };
        Ok(BlockingConnection::connect(&target, PATIENCE)?.with_body_max(ANSWER_MAX))
    }
}

/// Returns the metrics as OTLP's request. `started` and `at` are in nanoseconds since 1970.
fn request(metrics: Vec<Metric>, started: u64, at: u64) -> ExportMetricsServiceRequest {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let scope = InstrumentationScope { name: "bakeoff".to_owned(), version, ..Default::default() };
    let attributes = vec![
        attribute("service.name", "bakeoff".to_owned()),
        attribute("service.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let metrics = metrics.into_iter().map(|metric| exported(metric, started, at)).collect();
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes, ..Default::default() }),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, ..Default::default() }],
            ..Default::default()
        }],
    }
}

fn exported(of: Metric, started: u64, at: u64) -> Exported {
    let Metric { name, help, unit, kind, points } = of;
    let start = if kind == MetricKind::Counter { started } else { 0 };
    let point = |Point { labels, value }: Point| NumberDataPoint {
        attributes: labels.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        start_time_unix_nano: start,
        time_unix_nano: at,
        value: Some(Number::AsDouble(value)),
        ..Default::default()
    };
    let data_points = points.into_iter().map(point).collect();
    let data = match kind {
        MetricKind::Counter => Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        MetricKind::Gauge => Data::Gauge(Gauge { data_points }),
    };
    let unit = match unit {
        MetricUnit::Operations => "{operation}",
        MetricUnit::Seconds => "s",
        MetricUnit::Bytes => "By",
    };
    Exported {
        name: format!("bakeoff.{name}"),
        description: help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Default::default()
    }
}

fn attribute(name: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value)) });
    KeyValue { key: name.to_owned(), value, ..Default::default() }
}
