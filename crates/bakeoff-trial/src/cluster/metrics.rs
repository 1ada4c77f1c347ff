//! Samples CPU and memory of a running system's nodes from metrics in Prometheus' text format.
//!
//! Each URL is read once a second on its own thread, never on one that drives a load. Metrics of a process count for
//! that process. A node exporter, which also reports its own process, counts for the whole machine.
//!
//! Not here: the text format (`bakeoff_wire::prometheus`), nodes that bakeoff starts (`bakeoff_host::observe`).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bakeoff_clock as clock;
use bakeoff_core::study::{self, MetricsUrl};
use bakeoff_core::trial_samples::{Column, MeteredSeries, MetricsSubject, Series};
use bakeoff_core::units;
use bakeoff_engine::blocking_http::{BlockingConnection, HttpReply};
use bakeoff_engine::tls;
use bakeoff_engine::transport::Target;
use bakeoff_systems::System;
use bakeoff_wire::ProtocolError;
use bakeoff_wire::http1::Request;
use bakeoff_wire::prometheus;
use rustls::ClientConfig;

use super::endpoints::{resolve, trust};
use super::error::ResolveError;
use bakeoff_fleet::error::FleetError;

/// Minimum interval between samples.
const EVERY: Duration = Duration::from_secs(1);
/// Timeout of a sample, including its connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum bytes of an answer.
const BODY_MAX: usize = 4 << 20;
/// Maximum plausible figure: 100 TB, or three million years of CPU time.
const FIGURE_MAX: f64 = 1e14;

/// URL of a node's metrics.
pub(crate) struct MetricsSource {
    pub(crate) name: String,
    pub(crate) url: MetricsUrl,
    /// Client configuration of TLS for `https://`.
    pub(crate) config: Option<Arc<ClientConfig>>,
}

/// Returns the metrics of an already running system's nodes, except those in `without`. They have the nodes' names if
/// there are as many URLs as endpoints.
pub(crate) fn sources(
    system: &dyn System,
    asked: &study::System,
    without: &[String],
) -> Result<Vec<MetricsSource>, FleetError> {
    let config = match asked.metrics.iter().any(|url| url.endpoint.tls) {
        true => Some(tls::client_config(asked.tls.as_ref(), trust(system), &[b"http/1.1"])?),
        false => None,
    };
    let endpoints = asked.endpoints();
    let one_each = endpoints.len() == asked.metrics.len();
    let is_alone = |url: &MetricsUrl| {
        let there = asked.metrics.iter().filter(|other| other.endpoint == url.endpoint);
        there.count() == 1
    };
    let source = |(place, url): (usize, &MetricsUrl)| {
        let node = endpoints.get(place).filter(|_| one_each);
        let name = match node {
            Some(node) => node.authority(),
            None if is_alone(url) => url.endpoint.authority(),
            None => url.text(),
        };
        let config = config.clone().filter(|_| url.endpoint.tls);
        MetricsSource { name, url: url.clone(), config }
    };
    let sources = asked.metrics.iter().enumerate().map(source);
    Ok(sources.filter(|source| !without.contains(&source.name)).collect())
}

/// Error of reading metrics.
#[derive(Debug, thiserror::Error)]
enum MetricsError {
    #[error(transparent)]
    Resolve(ResolveError),
    #[error(transparent)]
    Unreachable(io::Error),
    #[error("answered {0}")]
    Status(u16),
    #[error(transparent)]
    Form(ProtocolError),
    #[error(
        "it has neither `{PROCESS_CPU}` and `{PROCESS_MEMORY}` nor the metrics of a node exporter"
    )]
    Lacking,
    #[error("`{0}` is {1}")]
    NoFigure(&'static str, f64),
}

/// Samples the nodes of a system until it is stopped.
pub(crate) struct MetricsSampler {
    /// Dropped to stop the threads.
    stop: Vec<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<NodeMetrics>>,
}

/// Samples of a node's metrics in a trial, and the first failure.
pub(crate) struct NodeMetrics {
    pub(crate) name: String,
    /// `None` if no sample succeeded.
    pub(crate) samples: Option<MeteredSeries>,
    /// Reason of the first failed sample.
    pub(crate) failure: Option<String>,
}

impl MetricsSampler {
    /// Samples each source now and then every `interval`, which is at least a second. `began` is the start of the
    /// trial. Returns after the first sample of each source.
    pub(crate) fn start(sources: Vec<MetricsSource>, interval: Duration, began: Instant) -> Self {
        let interval = interval.max(EVERY);
        let (asked, first) = mpsc::channel();
        let (mut stop, mut threads) = (Vec::new(), Vec::new());
        for source in sources {
            let (sender, stopped) = mpsc::channel();
            let asked = asked.clone();
            let work = move || Node::new(source, began).sample_until(&stopped, interval, asked);
            let thread = std::thread::Builder::new().name("metrics".into()).spawn(work);
            threads.push(thread.expect("a thread can be started"));
            stop.push(sender);
        }
        drop(asked);
        while first.recv().is_ok() {}
        Self { stop, threads }
    }

    /// Samples each node once more, and returns all samples.
    pub(crate) fn stop(self) -> Vec<NodeMetrics> {
        drop(self.stop);
        let joined = self.threads.into_iter().map(JoinHandle::join);
        joined.map(|node| node.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }
}

struct Node {
    source: MetricsSource,
    began: Instant,
    connection: Option<BlockingConnection>,
    samples: Option<MeteredSeries>,
    /// CPU time of earlier processes: the counter starts at zero when a process restarts.
    cpu_before: f64,
    failure: Option<String>,
    failed_last: bool,
}

impl Node {
    fn new(source: MetricsSource, began: Instant) -> Self {
        Self {
            source,
            began,
            connection: None,
            samples: None,
            cpu_before: 0.0,
            failure: None,
            failed_last: false,
        }
    }

    /// Samples every `interval` until the other end of `stopped` is dropped, and then once more. Drops `asked` after
    /// the first sample.
    fn sample_until(
        mut self,
        stopped: &mpsc::Receiver<()>,
        interval: Duration,
        asked: mpsc::Sender<()>,
    ) -> NodeMetrics {
        let mut due = clock::now();
        self.sample();
        drop(asked);
        loop {
            let behind = clock::now().saturating_duration_since(due).as_nanos();
            due += interval * (behind / interval.as_nanos() + 1) as u32;
            match stopped.recv_timeout(due.saturating_duration_since(clock::now())) {
                Err(mpsc::RecvTimeoutError::Timeout) => self.sample(),
                _ => break,
            }
        }
        // A node that did not answer would only cost another timeout.
        if !self.failed_last {
            self.sample();
        }
        NodeMetrics { name: self.source.name, samples: self.samples, failure: self.failure }
    }

    /// Takes a sample, and keeps it or its failure.
    fn sample(&mut self) {
        let sent = clock::now();
        let seen = self.ask();
        let middle = sent + sent.elapsed() / 2;
        let at = middle.saturating_duration_since(self.began).as_secs_f64();
        self.failed_last = seen.is_err();
        match seen {
            Ok(seen) => self.keep((at * 1e4).floor() / 1e4, seen),
            Err(why) => {
                self.failure.get_or_insert_with(|| units::server_text(&why.to_string()));
            }
        }
    }

    fn keep(&mut self, at: f64, seen: UsageReading) {
        let name = &self.source.name;
        let samples = self.samples.get_or_insert_with(|| MeteredSeries {
            of: seen.of,
            series: Series { name: name.clone(), ..Series::default() },
        });
        // A series has figures of a process or of a machine, not both.
        if samples.of != seen.of || samples.series.at.last().is_some_and(|&last| last >= at) {
            return;
        }
        let columns = &mut samples.series.columns;
        let cpu = columns.entry(Column::Cpu).or_default();
        let last = cpu.last().copied().unwrap_or(0.0);
        if self.cpu_before + seen.cpu < last {
            self.cpu_before = last;
        }
        cpu.push(self.cpu_before + seen.cpu);
        columns.entry(Column::Resident).or_default().push(seen.memory);
        samples.series.at.push(at);
    }

    fn ask(&mut self) -> Result<UsageReading, MetricsError> {
        let deadline = clock::now() + PATIENCE;
        let kept = self.connection.take().filter(BlockingConnection::is_usable);
        let answer = match kept.map(|kept| self.ask_on(kept, deadline)) {
            Some(Ok(answer)) => answer,
            // Servers close idle connections; that is not a failure.
            Some(Err(_)) | None => {
                let target = self.target().map_err(MetricsError::Resolve)?;
                let connection = BlockingConnection::connect(&target, PATIENCE)
                    .map_err(MetricsError::Unreachable)?
                    .with_body_max(BODY_MAX);
                self.ask_on(connection, deadline).map_err(MetricsError::Unreachable)?
            }
        };
        match answer.status {
            200 => read(&answer.body),
            status => Err(MetricsError::Status(status)),
        }
    }

    fn ask_on(
        &mut self,
        mut connection: BlockingConnection,
        deadline: Instant,
    ) -> io::Result<HttpReply> {
        let authority = self.source.url.endpoint.authority();
        let request = Request {
            method: "GET",
            target: &self.source.url.path,
            headers: &[("host", &authority), ("accept", prometheus::MEDIA_TYPE)],
            ..Request::default()
        };
        let answer = connection.ask(&request, &|| match clock::now() < deadline {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        })?;
        self.connection = Some(connection);
        Ok(answer)
    }

    fn target(&self) -> Result<Target, ResolveError> {
        resolve(&self.source.url.endpoint, self.source.config.as_ref())
    }
}

/// CPU and memory from metrics.
#[derive(Debug, PartialEq)]
struct UsageReading {
    of: MetricsSubject,
    /// Seconds since the process or the machine started.
    cpu: f64,
    /// Bytes.
    memory: f64,
}

const PROCESS_CPU: &str = "process_cpu_seconds_total";
const PROCESS_MEMORY: &str = "process_resident_memory_bytes";
const MACHINE_CPU: &str = "node_cpu_seconds_total";
const MACHINE_TOTAL: &str = "node_memory_MemTotal_bytes";
const MACHINE_AVAILABLE: &str = "node_memory_MemAvailable_bytes";

/// Parses CPU and memory from metrics. A machine's CPU time is that of all CPUs without idle and I/O wait.
fn read(text: &[u8]) -> Result<UsageReading, MetricsError> {
    let mut found: BTreeMap<&'static str, f64> = BTreeMap::new();
    for sample in prometheus::samples(text) {
        let sample = sample.map_err(MetricsError::Form)?;
        let all = [PROCESS_CPU, PROCESS_MEMORY, MACHINE_CPU, MACHINE_TOTAL, MACHINE_AVAILABLE];
        let Some(name) = all.into_iter().find(|name| *name == sample.name) else { continue };
        let idle = || matches!(sample.label("mode"), Some("idle" | "iowait"));
        let value = if name == MACHINE_CPU && idle() { 0.0 } else { sample.value };
        if !(0.0..=FIGURE_MAX).contains(&value) {
            return Err(MetricsError::NoFigure(name, value));
        }
        *found.entry(name).or_default() += value;
    }
    let figure = |name: &'static str| match found.get(name) {
        Some(&value) if value <= FIGURE_MAX => Ok(value),
        Some(&value) => Err(MetricsError::NoFigure(name, value)),
        None => Err(MetricsError::Lacking),
    };
    if found.contains_key(MACHINE_CPU) && found.contains_key(MACHINE_TOTAL) {
        let memory = (figure(MACHINE_TOTAL)? - figure(MACHINE_AVAILABLE)?).max(0.0);
        return Ok(UsageReading { of: MetricsSubject::Machine, cpu: figure(MACHINE_CPU)?, memory });
    }
    Ok(UsageReading {
        of: MetricsSubject::Process,
        cpu: figure(PROCESS_CPU)?,
        memory: figure(PROCESS_MEMORY)?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Mutex;

    use bakeoff_core::study::Endpoint;
    use bakeoff_systems::{by_kind, kinds};

    use super::*;

    const OF_A_PROCESS: &str = "# TYPE process_cpu_seconds_total counter\n\
        process_cpu_seconds_total 1.25\nprocess_resident_memory_bytes 2.5e+07\nup 1\n";
    const OF_A_MACHINE: &str = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 1000\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"iowait\"} 100\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 10\n\
        node_cpu_seconds_total{cpu=\"1\",mode=\"system\"} 2\n\
        node_memory_MemTotal_bytes 8e9\nnode_memory_MemAvailable_bytes 6e9\n\
        process_cpu_seconds_total 1.25\nprocess_resident_memory_bytes 2.5e+07\n";

    #[test]
    fn nodes_take_endpoint_names_if_there_are_as_many() {
        let names = |endpoints: &str, metrics: &str, without: &[String]| {
            let text = format!(
                "title: t\nsystems: {{w: {{kind: http, endpoints: [{endpoints}], metrics: [{metrics}]}}}}\n\
                 workloads: {{w: {{mix: {{request: 1}}, request: {{path: /}}}}}}\n\
                 loads: {{l: {{clients: 1, stop: {{operations: 1}}}}}}\n"
            );
            let study = study::parse("t", "t.yaml", &text, &kinds()).unwrap();
            let system = by_kind("http").unwrap();
            let sources = sources(system, &study.systems[0], without).unwrap();
            sources.into_iter().map(|source| source.name).collect::<Vec<_>>()
        };
        assert_eq!(names("a:1, b:1", "c:2, d:2", &[]), ["a:1", "b:1"]);
        assert_eq!(names("a:1, b:1", "c:2, d:2", &["a:1".to_owned()]), ["b:1"]);
        assert_eq!(names("a:1", "c:2, d:2", &[]), ["c:2", "d:2"]);
        assert_eq!(names("a:1", "c:2/x, c:2/y", &[]), ["http://c:2/x", "http://c:2/y"]);
    }

    #[test]
    fn distinguishes_process_and_machine_metrics() {
        let process = UsageReading { of: MetricsSubject::Process, cpu: 1.25, memory: 2.5e7 };
        assert_eq!(read(OF_A_PROCESS.as_bytes()).unwrap(), process);
        let machine = UsageReading { of: MetricsSubject::Machine, cpu: 12.0, memory: 2e9 };
        assert_eq!(read(OF_A_MACHINE.as_bytes()).unwrap(), machine);
    }

    #[test]
    fn rejects_metrics_without_figures() {
        let check = |text: &str, expected: &str| {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("up 1\n", "neither `process_cpu_seconds_total` and");
        check("process_cpu_seconds_total 1\n", "neither");
        check(&OF_A_PROCESS.replace("1.25", "NaN"), "`process_cpu_seconds_total` is NaN");
        check(&OF_A_PROCESS.replace("1.25", "-1"), "`process_cpu_seconds_total` is -1");
        check(&OF_A_PROCESS.replace("2.5e+07", "1e300"), "`process_resident_memory_bytes` is 1");
        let twice = "process_resident_memory_bytes{a=\"1\"} 1e14\n".repeat(2);
        check(
            &format!("process_cpu_seconds_total 1\n{twice}"),
            "`process_resident_memory_bytes` is 2",
        );
        check("<html>", "line 1 is not a sample of a metric: `<html>`");
        check(&OF_A_MACHINE.replace("MemAvailable", "MemFree"), "neither");
    }

    #[test]
    fn parser_survives_arbitrary_metrics() {
        let corpus = [OF_A_PROCESS.as_bytes(), OF_A_MACHINE.as_bytes()];
        let pieces =
            ["\n", "{", "\"", "\\\"", "mode=\"idle\"", "NaN", "+Inf", "1e308", " # {", ","];
        bakeoff_fuzz::run("metrics", &corpus, &pieces, |input| {
            if let Ok(seen) = read(input) {
                assert!((0.0..=FIGURE_MAX).contains(&seen.cpu), "{seen:?}");
                assert!((0.0..=FIGURE_MAX).contains(&seen.memory), "{seen:?}");
            }
        });
    }

    /// Starts a server that answers one request per connection with the next body, and repeats the last.
    fn server(bodies: Vec<String>) -> MetricsSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Mutex::new(bodies.into_iter().peekable());
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let _ = socket.read(&mut [0; 4096]);
                let mut left = left.lock().unwrap();
                let body = left.next().unwrap_or_default();
                if left.peek().is_none() {
                    *left = vec![body.clone()].into_iter().peekable();
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close",
                    body.len()
                );
                let _ = socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
        });
        let endpoint = Endpoint { tls: false, host: "127.0.0.1".to_owned(), port };
        let url = MetricsUrl { endpoint, path: "/metrics".to_owned() };
        MetricsSource { name: "n".to_owned(), url, config: None }
    }

    fn sampled(source: MetricsSource, times: u32) -> NodeMetrics {
        let mut node = Node::new(source, clock::now());
        for _ in 0..times {
            std::thread::sleep(Duration::from_millis(2));
            node.sample();
        }
        NodeMetrics { name: node.source.name, samples: node.samples, failure: node.failure }
    }

    fn with_cpu(seconds: &str) -> String {
        OF_A_PROCESS.replace("1.25", seconds)
    }

    #[test]
    fn cpu_time_continues_after_a_restart() {
        let bodies = ["10", "12", "1", "3"].map(with_cpu).to_vec();
        let series = sampled(server(bodies), 4).samples.unwrap().series;
        assert_eq!(series.columns[&Column::Cpu], [10.0, 12.0, 13.0, 15.0]);
        assert_eq!(series.columns[&Column::Resident], [2.5e7; 4]);
        assert!(series.at.is_sorted_by(|a, b| a < b), "{:?}", series.at);
    }

    #[test]
    fn failed_sample_is_skipped_and_reported() {
        let bodies = vec![with_cpu("1"), "<html>".to_owned(), with_cpu("3")];
        let node = sampled(server(bodies), 3);
        assert_eq!(node.samples.unwrap().series.columns[&Column::Cpu], [1.0, 3.0]);
        assert_eq!(node.failure.unwrap(), "line 1 is not a sample of a metric: `<html>`");
    }

    #[test]
    fn reports_oversized_metrics_and_unreachable_servers() {
        let long = format!("{OF_A_PROCESS}{}", "# comment\n".repeat(BODY_MAX / 10));
        let node = sampled(server(vec![long]), 1);
        assert!(node.samples.is_none() && node.failure.is_some_and(|why| why.contains("body")));
        let mut source = server(Vec::new());
        source.url.endpoint.port =
            TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let node = sampled(source, 1);
        assert!(node.failure.is_some_and(|why| why.contains("refused")));
    }

    #[test]
    fn sampler_reads_at_start_and_end() {
        let source = server(vec![with_cpu("1"), with_cpu("2")]);
        let sampler = MetricsSampler::start(vec![source], EVERY, clock::now());
        let [node] = &sampler.stop()[..] else { panic!("one node") };
        let samples = node.samples.as_ref().unwrap();
        assert_eq!(samples.series.columns[&Column::Cpu], [1.0, 2.0]);
        assert_eq!(node.failure, None);
    }
}
