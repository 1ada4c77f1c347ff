//! Tests `bakeoff start`, which starts one system of a study for other tools.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Bench, CommandOutput, array, bakeoff, text};

const STUDY: &str = "title: t
systems:
  plain: {kind: canary, options: {sync: none}}
  gated:
    kind: process
    process:
      command: [bakeoff, __delay, \"127.0.0.1:{port}\", \"{backend}\", 2ms]
      environment: {A_SECRET: $A_SECRET}
    parts:
      backend:
        kind: process
        process:
          command: [bakeoff, __canary, --listen, \"127.0.0.1:{port}\", --data, \"{dir}/data\"]
          ready: /health
  mortal: {kind: canary, options: {die-after: 700ms}}
  far: {kind: http, endpoints: [\"http://127.0.0.1:9\"]}
workloads:
  reads: {mix: {get: 1}, keys: {count: 10}, values: {size: 100}, systems: [plain, mortal]}
  pages: {mix: {request: 1}, request: {path: /}, systems: [gated, far]}
loads:
  few: {clients: 1, stop: {operations: 10}}
";

fn start(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bakeoff();
    let ours = Path::new(env!("CARGO_BIN_EXE_bakeoff")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = [ours].into_iter().chain(std::env::split_paths(&others));
    command.env("PATH", std::env::join_paths(path).unwrap()).env("TMPDIR", bench.path());
    command.env("A_SECRET", "xyzzy-plugh");
    command.arg("start").arg(bench.study()).args(arguments);
    command
}

/// A started system and its JSON line.
struct StartedCluster {
    process: Child,
    json: Value,
}

impl StartedCluster {
    fn new(bench: &Bench, arguments: &[&str]) -> Self {
        let mut command = start(bench, arguments);
        let mut process = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { process, json: serde_json::from_str(&line).expect(&line) }
    }

    fn ends_by(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for StartedCluster {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn system_runs_with_its_parts_until_a_signal() {
    let bench = Bench::new(STUDY);
    for signal in [Signal::INT, Signal::TERM] {
        let started = StartedCluster::new(&bench, &["gated"]);
        let json = &started.json;
        let client = &json["clients"][0];
        assert_eq!((text(&client["node"]), &client["tls"]), ("gated-1", &Value::Bool(false)));
        assert!(get(text(&client["address"]), "/health").starts_with("HTTP/1.1 200"));
        let nodes: Vec<&str> = array(&json["nodes"]).iter().map(|one| text(&one["node"])).collect();
        assert_eq!(nodes, ["gated-backend-1", "gated-1"]);
        assert!(!json.to_string().contains("xyzzy"), "{json}");
        assert_eq!(json["ca_file"], Value::Null);
        assert_eq!(json["token_file"], Value::Null);
        // Other tools load the same service as studies.
        let url = format!("{}/health", text(&client["url"]));
        let ran =
            CommandOutput::run(bakeoff().args(["load", &url, "-n", "50", "-c", "2", "--json"]));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["statuses"]["200"], 50, "{}", ran.stderr);
        let p50 = result["response"]["p50_us"].as_f64().unwrap();
        assert!(p50 > 2000.0, "{p50} µs through a gateway of 2 ms");
        let folder = text(&json["folder"]).to_owned();
        assert!(Path::new(&folder).is_dir());
        assert_eq!(started.ends_by(signal), Some(0));
        crate::support::nothing_runs_in(bench.path());
        assert!(!Path::new(&folder).exists());
    }
}

#[test]
fn stops_after_its_time() {
    let bench = Bench::new(STUDY);
    let began = Instant::now();
    let ran = CommandOutput::run(&mut start(&bench, &["plain", "--for", "1s"])).ends_with(0);
    assert!(began.elapsed() >= Duration::from_secs(1) && began.elapsed() < Duration::from_secs(20));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("plain is ready after "), "{lines:?}");
    assert!(
        lines[2].starts_with("  http://127.0.0.1:") && lines[2].ends_with("(plain-1)"),
        "{lines:?}"
    );
    assert_eq!(lines.last(), Some(&"it stops after 1s, or by Ctrl-C, and deletes its data"));
    crate::support::nothing_runs_in(bench.path());
}

/// Reads lines until one contains this text.
fn read_until(lines: &mut impl Iterator<Item = std::io::Result<String>>, expected: &str) -> String {
    let mut seen = Vec::new();
    for line in lines {
        let line = line.unwrap();
        if line.contains(expected) {
            return line;
        }
        seen.push(line);
    }
    panic!("no `{expected}` in {seen:?}")
}

#[test]
fn killed_server_is_reported_and_restarted_on_request() {
    let bench = Bench::new(STUDY);
    let mut command = start(&bench, &["gated", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut json = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut json).unwrap();
    let json: Value = serde_json::from_str(&json).expect(&json);
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut requests = process.stdin.take().unwrap();
    let mut pid = json["nodes"][0]["pid"].as_i64().unwrap() as i32;
    // Twice: an empty line restarts all, a name that server.
    for request in ["\n", "gated-backend-1\n"] {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        let line = read_until(&mut lines, "`gated-backend-1` was killed by SIGKILL");
        assert!(line.ends_with("the other servers run on; press Enter to restart it"), "{line}");
        requests.write_all(request.as_bytes()).unwrap();
        let line = read_until(&mut lines, "`gated-backend-1` was restarted, pid ");
        pid = line.rsplit(' ').next().unwrap().parse().unwrap();
        read_until(&mut lines, "all servers serve again");
        let client = text(&json["clients"][0]["address"]);
        assert!(get(client, "/health").starts_with("HTTP/1.1 200"));
    }
    let started = StartedCluster { process, json };
    assert_eq!(started.ends_by(Signal::TERM), Some(0));
    crate::support::nothing_runs_in(bench.path());
}

#[test]
fn last_server_that_ends_stops_everything() {
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(&mut start(&bench, &["mortal"])).ends_with(4);
    ran.complains(&["`mortal-1` ended with exit code", "bakeoff stopped everything else"]);
    crate::support::nothing_runs_in(bench.path());
}

#[test]
fn refuses_systems_that_cannot_be_started() {
    let bench = Bench::new(STUDY);
    let refused = |arguments: &[&str], output: &[&str]| {
        CommandOutput::run(&mut start(&bench, arguments)).ends_with(2).complains(output);
    };
    refused(&["plan"], &["has no system `plan`", "did you mean `plain`?"]);
    refused(&[], &["has several systems", "plain, gated, mortal, far"]);
    refused(&["far"], &["system `far` already runs at 127.0.0.1:9"]);
    refused(&["plain", "--for", "soon"], &["`soon`"]);
}
