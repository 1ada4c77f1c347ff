//! Tests exports of a run against a real Prometheus and a real OpenTelemetry collector, and compares what arrives with
//! the record.
//!
//! The servers are built from Go modules, listen on loopback and end with their test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bakeoff_core::record::{self, Record, TrialRecord};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::go_tool::{GoMain, GoTool};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{Bench, CommandOutput, array, close_for_all, listener_apart, text, wait_for};

const PROMETHEUS: GoTool = GoTool {
    name: "prometheus",
    requires: &["github.com/prometheus/prometheus/cmd/prometheus@v0.316.0"],
    main: GoMain::Package("github.com/prometheus/prometheus/cmd/prometheus"),
    // Its service discovery would bring the clients of a dozen clouds.
    tags: "remove_all_sd",
};

const COLLECTOR: GoTool = GoTool {
    name: "collector",
    requires: &[
        "go.opentelemetry.io/collector/otelcol@v0.165.0",
        "go.opentelemetry.io/collector/receiver/otlpreceiver@v0.165.0",
        "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter@v0.165.1",
    ],
    main: GoMain::Text(include_str!("exports/collector.go")),
    tags: "",
};

/// Two systems. The second fails some operations.
const STUDY: &str = "\
title: Two canaries
systems:
  quick: {kind: canary, options: {sync: none}}
  failing: {kind: canary, options: {sync: none, error: 2%}}
workloads:
  write: {mix: {put: 1}, keys: {count: 200, order: uniform}, values: {size: 64}}
loads:
  steady: {clients: 2, warmup: 200ms, stop: {after: 3s}}
trials: 1
";

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking("prometheus_scrapes_the_figures_of_the_record", prometheus),
        skipped.unless_lacking("collector_receives_each_second_of_the_record", collector),
    ]
}

/// A server of a test, killed when dropped.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().expect("it was built for this machine"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Returns an address where nothing else listens.
fn free_address() -> SocketAddr {
    let listener = listener_apart();
    let address = listener.local_addr().unwrap();
    close_for_all(listener);
    address
}

/// Returns the result of a query.
fn query(server: SocketAddr, query: &str) -> Option<Vec<Value>> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut socket = TcpStream::connect(server).ok()?;
    let head = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: {server}\r\n\r\n");
    socket.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
    Some(array(&answer["data"]["result"]).to_vec())
}

fn read_record(bench: &Bench) -> Record {
    let text = std::fs::read_to_string(bench.runs()[0].join("record.jsonl")).unwrap();
    record::read(&text).unwrap().0
}

/// Returns the verified and the failed operations of each second of a trial's load.
fn seconds(of: &TrialRecord) -> Vec<(u64, u64)> {
    let seconds = of.stages.iter().flat_map(|stage| &stage.measurement.seconds);
    let errors = |one: &bakeoff_core::measurement::Second| {
        one.operations.values().map(|figures| figures.errors).sum()
    };
    seconds.map(|one| (one.verified(), errors(one))).collect()
}

fn prometheus() -> Result<(), SkipReason> {
    let program = PROMETHEUS.program()?;
    let bench = Bench::new(STUDY);
    let mut command = bench.command();
    command.args(["--trials", "1", "--export", "prometheus"]);
    let mut bakeoff = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(bakeoff.stderr.take().unwrap()).lines();
    let target = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("Metrics: http://")?.strip_suffix("/metrics")?.to_owned())
    });
    std::thread::spawn(move || lines.for_each(drop)); // a full pipe would stop it
    let target = target.expect("it prints where the metrics are");
    let config = bench.path().join("prometheus.yml");
    let scrapes = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
         scrape_configs: [{{job_name: bakeoff, static_configs: [{{targets: ['{target}']}}]}}]\n"
    );
    std::fs::write(&config, scrapes).unwrap();
    let address = free_address();
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", bench.path().join("tsdb").display()));
    command.arg(format!("--web.listen-address={address}")).current_dir(bench.path());
    let _server = Server::start(&mut command, &bench.path().join("prometheus.log"));
    wait_for("a scrape", Duration::from_secs(60), || {
        query(address, "bakeoff_operations_total").is_some_and(|found| !found.is_empty())
    });
    assert!(bakeoff.wait().is_ok());
    let record = read_record(&bench);
    // The series end with the run.
    let operations = query(address, "max_over_time(bakeoff_operations_total[1h])").unwrap();
    let scraped = |trial: &TrialRecord, outcome: &str| {
        let number = (trial.trial.number + 1).to_string();
        let is_it = |one: &&Value| {
            let of = &one["metric"];
            (text(&of["trial"]), text(&of["outcome"])) == (&*number, outcome)
                && text(&of["system"]) == trial.trial.system
                && text(&of["study"]) == "study"
                && (text(&of["workload"]), text(&of["load"])) == ("write", "steady")
        };
        let found = operations.iter().find(is_it).unwrap_or_else(|| panic!("{operations:?}"));
        text(&found["value"][1]).parse::<f64>().unwrap() as u64
    };
    let (last, before) = record.trials.split_last().unwrap();
    for trial in before {
        let (verified, failed) = seconds(trial)
            .into_iter()
            .fold((0, 0), |sum, second| (sum.0 + second.0, sum.1 + second.1));
        let sums = (scraped(trial, "verified"), scraped(trial, "failed"));
        assert_eq!(sums, (verified, failed), "trial {}", trial.trial.number + 1);
    }
    // A run may end before its last second is scraped.
    let most: u64 = seconds(last).iter().map(|(verified, _)| verified).sum();
    assert!((1..=most).contains(&scraped(last, "verified")));
    for (metric, label, value) in [
        ("bakeoff_response_time_seconds", "quantile", "0.5"),
        ("bakeoff_node_cpu_seconds_total", "node", "generator"),
        // Prometheus may start too late for the nodes of the first trial.
        ("bakeoff_node_cpu_seconds_total", "node", "(quick|failing)-1"),
        ("bakeoff_node_memory_bytes", "node", "(quick|failing)-1"),
    ] {
        let sum = format!("sum(max_over_time({metric}{{{label}=~\"{value}\"}}[1h]))");
        let found = query(address, &sum).unwrap();
        let found = found.first().unwrap_or_else(|| panic!("no {metric} with {label} {value}"));
        assert!(text(&found["value"][1]).parse::<f64>().unwrap() > 0.0, "{metric}");
    }
    Ok(())
}

/// Returns the points of a metric in an export.
fn points<'a>(export: &'a Value, name: &str) -> Vec<&'a Value> {
    let scopes =
        array(&export["resourceMetrics"]).iter().flat_map(|one| array(&one["scopeMetrics"]));
    let metrics = scopes.flat_map(|scope| array(&scope["metrics"]));
    let of = metrics.filter(|metric| metric["name"] == name);
    of.flat_map(|one| {
        array(&one["sum"]["dataPoints"]).iter().chain(array(&one["gauge"]["dataPoints"]))
    })
    .collect()
}

fn attribute<'a>(point: &'a Value, key: &str) -> &'a str {
    let found = array(&point["attributes"]).iter().find(|one| one["key"] == key);
    found.map_or("", |one| text(&one["value"]["stringValue"]))
}

fn collector() -> Result<(), SkipReason> {
    let program = COLLECTOR.program()?;
    let bench = Bench::new(STUDY);
    let (address, received) = (free_address(), bench.path().join("received.jsonl"));
    let config = bench.path().join("collector.yaml");
    let text_of_config = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{address}'}}}}}}}}\n\
         exporters: {{file: {{path: '{}'}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n\
         \x20 pipelines: {{metrics: {{receivers: [otlp], exporters: [file]}}}}\n",
        received.display()
    );
    std::fs::write(&config, text_of_config).unwrap();
    let mut command = Command::new(program);
    command.arg(format!("--config=file:{}", config.display())).current_dir(bench.path());
    let mut server = Server::start(&mut command, &bench.path().join("collector.log"));
    wait_for("the collector", Duration::from_secs(60), || TcpStream::connect(address).is_ok());
    let endpoint = format!("otlp=http://{address}");
    let ran = CommandOutput::run(bench.command().args(["--trials", "1", "--export", &endpoint]));
    assert!(!ran.stderr.contains("export"), "{}", ran.stderr);
    // It writes what it holds when it ends.
    kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
    server.0.wait().unwrap();
    let exports = std::fs::read_to_string(&received).unwrap();
    let exports: Vec<Value> =
        exports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let record = read_record(&bench);
    for trial in &record.trials {
        let number = (trial.trial.number + 1).to_string();
        let sums = |outcome: &str| -> Vec<u64> {
            let point = |export: &Value| {
                let of = |point: &&&Value| {
                    (attribute(point, "trial"), attribute(point, "outcome")) == (&*number, outcome)
                };
                let points = points(export, "bakeoff.operations");
                points.iter().find(of).map(|point| point["asDouble"].as_f64().unwrap() as u64)
            };
            let all: Vec<u64> = exports.iter().filter_map(point).collect();
            // The sums stay when a trial has ended.
            let grown = all.windows(2).map(|pair| pair[1] - pair[0]);
            all.first().copied().into_iter().chain(grown).collect()
        };
        let (verified, failed) = (sums("verified"), sums("failed"));
        for (place, exported) in verified.iter().zip(&failed).enumerate() {
            // Nothing is added in a trial after it.
            let expected = seconds(trial).get(place).copied().unwrap_or_default();
            assert_eq!((*exported.0, *exported.1), expected, "second {place} of trial {number}");
        }
        // Operations that end after the window add nothing to a sum.
        let rest = seconds(trial).into_iter().skip(verified.len());
        assert!(rest.into_iter().all(|second| second == (0, 0)), "trial {number}: {verified:?}");
    }
    let quantiles = exports.iter().flat_map(|export| points(export, "bakeoff.response_time"));
    assert!(quantiles.filter(|point| attribute(point, "quantile") == "0.5").count() >= 4);
    for metric in ["bakeoff.node_cpu", "bakeoff.node_memory"] {
        let of = exports.iter().flat_map(|export| points(export, metric));
        let nodes: Vec<&str> = of.map(|point| attribute(point, "node")).collect();
        for node in ["quick-1", "failing-1", "generator"] {
            assert!(nodes.contains(&node), "{metric}: {nodes:?}");
        }
    }
    Ok(())
}
