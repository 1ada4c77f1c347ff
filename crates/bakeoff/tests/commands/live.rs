//! Tests the live page's events against the record, and that no browser holds up a run.
//!
//! Not here: the page in a browser (`report_html`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bakeoff_core::measurement::Second;
use bakeoff_core::ranked_latencies::{Percentile, RankedLatencies};
use bakeoff_core::record::{self, Record, TrialRecord};
use bakeoff_core::trial_samples::{Column, TrialSamples};
use serde_json::Value;

use crate::support::{Bench, CommandOutput, bakeoff, listener_apart, text};

/// Two systems under a load with two stages. The second fails some operations.
const STUDY: &str = "\
title: Which of <two> is it?
systems:
  quick: {kind: canary, options: {sync: none}}
  failing: {kind: canary, options: {sync: none, error: 2%}}
workloads:
  both: {mix: {put: 3, delete: 1}, keys: {count: 200, order: uniform}, values: {size: 64}, fill: false}
loads:
  steady: {clients: [2, 4], warmup: 200ms, stop: {after: 2500ms}}
trials: 1
";

/// A run with a live page.
struct LiveRun {
    bakeoff: Child,
    bench: Bench,
    address: SocketAddr,
}

impl LiveRun {
    fn start(study: &str) -> Self {
        let bench = Bench::new(study);
        let mut command = bench.command();
        command.args(["--trials", "1", "--live"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut bakeoff = command.spawn().unwrap();
        let mut lines = BufReader::new(bakeoff.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("Live: http://")?.strip_suffix('/')?.parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop)); // a full pipe would stop it
        Self { bakeoff, bench, address: address.expect("it prints where the page is") }
    }

    /// Sends a request and returns the connection.
    fn ask(&self, path: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        socket.write_all(request.as_bytes()).unwrap();
        socket
    }

    /// Reads all events to the end of the run.
    fn events(&self) -> Vec<(String, Value)> {
        let mut answer = String::new();
        self.ask("/events").read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"), "{head}");
        let event = |message: &str| {
            let (event, data) = message.strip_prefix("event: ")?.split_once("\ndata: ")?;
            Some((event.to_owned(), serde_json::from_str(data).unwrap()))
        };
        body.split("\n\n").filter_map(event).collect()
    }

    fn record(&self) -> Record {
        let text = std::fs::read_to_string(self.bench.runs()[0].join("record.jsonl")).unwrap();
        record::read(&text).unwrap().0
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        self.bakeoff.kill().ok();
        self.bakeoff.wait().ok();
    }
}

/// Returns the seconds that the record has of each stage: verified operations, errors, p50 and p99.
fn recorded(
    trial: &TrialRecord,
    second: &Value,
    stage: usize,
) -> (u64, u64, Percentile, Percentile) {
    let number = second["second"].as_u64().unwrap() as u32;
    let seconds = &trial.stages[stage].measurement.seconds;
    let Some(second) = seconds.iter().find(|one| one.second == number) else {
        return (0, 0, Percentile::Nothing, Percentile::Nothing);
    };
    let responses: RankedLatencies<'_> = second.responses().unwrap();
    let errors = second.operations.values().map(|figures| figures.errors).sum();
    (second.verified(), errors, responses.percentile(0.5), responses.percentile(0.99))
}

/// Checks a node's sample against the record. Returns false if a sample of the start or the end of a phase took its
/// place there.
fn is_sample(observed: &TrialSamples, node: &Value) -> bool {
    let name = text(&node["name"]);
    let series = observed.nodes.iter().find(|series| series.name == name).unwrap();
    let at = node["at"].as_f64().unwrap();
    let Some(place) = series.at.iter().position(|&time| time == at) else {
        let later = series.next_look(at).unwrap();
        assert!(later - at < observed.interval.as_secs_f64() / 2.0, "{name} at {at}");
        return false;
    };
    let value = |column| series.columns[&column][place];
    let cpu = value(Column::CpuUser) + value(Column::CpuSystem);
    // A sum of two counters that were read from text can differ in its last bit.
    let shown = node["cpu_seconds"].as_f64().unwrap();
    assert!((shown - cpu).abs() < 1e-9, "{name} at {at}: {shown} and {cpu}");
    let memory = observed.memory.iter().find(|series| series.name == name);
    let memory = match memory {
        Some(memory) => memory.columns[&Column::Proportional].clone(),
        None => vec![value(Column::Resident)],
    };
    assert!(memory.iter().any(|&bytes| node["memory"] == bytes), "{name} at {at}: {memory:?}");
    true
}

#[test]
fn live_figures_equal_those_of_the_record() {
    let mut shown = LiveRun::start(STUDY);
    let events = shown.events();
    assert!(shown.bakeoff.wait().is_ok());
    let record = shown.record();
    let of = |name: &str| events.iter().filter(|(event, _)| event == name).count();
    // A busy machine adds rounds.
    let trials = record.trials.len();
    let stages = record.trials.iter().map(|trial| trial.stages.len()).sum();
    assert_eq!((of("trial"), of("stage"), of("done"), of("end")), (trials, stages, trials, 1));
    assert!(trials >= 2 && stages >= 4, "{trials} trials with {stages} stages");
    let (mut trial, mut stage, mut seconds) = (None, 0, Vec::new());
    let (mut samples, mut errors) = (0, 0);
    for (event, data) in &events {
        match event.as_str() {
            "trial" => {
                let number = data["number"].as_u64().unwrap() - 1;
                trial = record.trials.iter().find(|one| u64::from(one.trial.number) == number);
                assert_eq!(text(&data["system"]), trial.unwrap().trial.system);
                stage = 0;
            }
            "stage" => stage += 1,
            "second" => {
                let trial = trial.expect("a trial has begun");
                let (verified, failed, p50, p99) = recorded(trial, data, stage - 1);
                let place = format!("{} {stage} {data}", trial.trial.system);
                assert_eq!(
                    (&data["verified"], &data["errors"]),
                    (&verified.into(), &failed.into())
                );
                for (shown, recorded) in [("p50", p50), ("p99", p99)] {
                    let ns = recorded.latency().map(|latency| latency.as_nanos() as u64);
                    assert_eq!(data[shown]["text"], recorded.text(), "{shown} {place}");
                    assert_eq!(data[shown]["ns"].as_u64(), ns, "{shown} {place}");
                }
                let nodes = data["nodes"].as_array().unwrap();
                assert_eq!(nodes.len(), 2, "the node and the generator");
                let observed = trial.observed.as_ref().unwrap();
                samples += nodes.iter().filter(|node| is_sample(observed, node)).count();
                errors += failed;
                seconds.push((trial.trial.number, stage, data["second"].clone()));
            }
            _ => {}
        }
    }
    // Each second of the record was shown, once. Operations may end after the window, in no second of the load.
    let all = record.trials.iter().flat_map(|trial| {
        (1..).zip(&trial.stages).flat_map(move |(stage, of)| {
            let counts =
                |one: &&Second| one.operations.values().any(|of| of.verified + of.errors > 0);
            let seconds = of.measurement.seconds.iter().filter(counts);
            seconds.map(move |one| (trial.trial.number, stage, one.second.into()))
        })
    });
    all.for_each(|second| {
        assert_eq!(seconds.iter().filter(|one| **one == second).count(), 1, "{second:?}");
    });
    assert!(errors > 0, "the failing system fails");
    assert!(samples >= 8, "{samples} samples are in the record");
    // The verdict is the report's, and the last event is the report itself.
    let (_, verdict) = events.iter().rev().find(|(event, _)| event == "verdict").unwrap();
    let answer = bakeoff_report::Report::new(&record).answer();
    assert_eq!(verdict["provisional"], false);
    assert_eq!(verdict["sentences"], serde_json::json!(answer));
    let (event, report) = events.last().unwrap();
    assert_eq!(event, "report");
    let page = std::fs::read_to_string(shown.bench.runs()[0].join("report.html")).unwrap();
    assert_eq!(text(report), page);
}

#[test]
fn run_ends_although_browsers_are_open() {
    let study = STUDY.replace("[2, 4]", "2").replace("2500ms", "600ms");
    let mut shown = LiveRun::start(&study);
    // One reads nothing, one never asks, and more come than there is room for.
    let mut open = vec![shown.ask("/events"), TcpStream::connect(shown.address).unwrap()];
    open.extend((0..20).map(|_| shown.ask("/events")));
    let end = shown.bench.has_trials(2).join("report.html");
    let began = Instant::now();
    while shown.bakeoff.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "the run waits for a browser");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(end.is_file());
    let mut last = String::new();
    open.last_mut().unwrap().read_to_string(&mut last).ok();
    assert!(last.starts_with("HTTP/1.1 503 "), "{last}");
}

#[test]
fn page_is_served_to_this_machine_alone() {
    let shown = LiveRun::start(STUDY);
    let answer = |request: &str| {
        let mut socket = TcpStream::connect(shown.address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    let page = answer("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"), "{page}");
    assert!(page.contains("connect-src 'self'; base-uri 'none'"), "its policy allows its events");
    for (request, status) in [
        ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /../record.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("\u{1}\r\n\r\n", "400"),
    ] {
        let answer = answer(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    assert!(shown.address.ip().is_loopback());
}

#[test]
fn port_in_use_is_refused_before_anything_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(bench.command().arg(format!("--live={port}"))).ends_with(5);
    ran.complains(&[
        &format!("cannot listen on 127.0.0.1:{port} for `--live={port}`"),
        "hint: use",
    ]);
    assert!(bench.runs().is_empty());
}

#[test]
fn load_of_a_url_has_a_live_page_too() {
    let canary = crate::support::canary::Canary::with_value("");
    let mut command = bakeoff();
    command.args(["load", &canary.url("/kv/key"), "--live", "-c", "2", "--for", "2s", "--out"]);
    command.arg(canary.dir.path().join("runs")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let bakeoff = command.spawn().unwrap();
    let mut shown = LiveRun { bakeoff, bench: Bench::new(""), address: canary.address };
    let mut lines = BufReader::new(shown.bakeoff.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    shown.address =
        line.strip_prefix("Live: http://").unwrap().trim_end_matches('/').parse().unwrap();
    let events = shown.events();
    lines.for_each(drop);
    let names: Vec<&str> = events.iter().map(|(event, _)| event.as_str()).collect();
    assert!(names.iter().filter(|name| **name == "second").count() >= 2, "{names:?}");
    assert_eq!(names.last(), Some(&"report"), "{names:?}");
}

#[test]
fn unreachable_collector_is_a_warning_and_the_run_goes_on() {
    let address = listener_apart().local_addr().unwrap(); // closed at once: nothing listens there
    let bench = Bench::new(&STUDY.replace("[2, 4]", "2"));
    let endpoint = format!("otlp=http://{address}");
    let ran = CommandOutput::run(
        bench.command().args(["--trials", "1", "--json", "--export", &endpoint]),
    );
    let stderr = &ran.stderr;
    let first =
        format!("warning: an export to http://{address}/v1/metrics failed; the run goes on: ");
    assert_eq!(stderr.matches(&first).count(), 1, "{stderr}");
    let last = stderr.lines().last().unwrap();
    let of = format!(" exports to http://{address}/v1/metrics failed; the first: ");
    assert!(last.starts_with("warning: ") && last.contains(&of), "{last}");
    let shown: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a report");
    assert_eq!(shown["complete"], true);
}
