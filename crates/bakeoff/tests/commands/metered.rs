//! Tests services that already run and expose CPU and memory as metrics: figures, findings and unknowns.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, Run, array, figure, text};

/// Starts a service that answers every path, with its own metrics at `/metrics` and its machine's at `/node`.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(&socket, began));
        }
    });
    address
}

fn serve(mut socket: &TcpStream, began: Instant) {
    let mut lines = BufReader::new(socket).lines();
    let mut path = String::new();
    while let Some(Ok(line)) = lines.next() {
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        }
        if !line.is_empty() {
            continue;
        }
        // Half a core for the process, two for the machine.
        let seconds = began.elapsed().as_secs_f64();
        let process = format!(
            "process_cpu_seconds_total {}\nprocess_resident_memory_bytes 6.4e+07\n",
            seconds * 0.5
        );
        let (status, body) = match path.as_str() {
            "/metrics" => ("200 OK", process),
            "/node" => {
                let machine = format!(
                    "node_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {}\n\
                     node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {seconds}\n\
                     node_memory_MemTotal_bytes 8e9\nnode_memory_MemAvailable_bytes 5e9\n",
                    seconds * 2.0
                );
                ("200 OK", format!("{process}{machine}"))
            }
            "/gone" => ("404 Not Found", String::new()),
            "/hangs" => {
                thread::sleep(Duration::from_secs(30));
                return;
            }
            _ => {
                // Long, so that a busy machine adds little to it.
                thread::sleep(Duration::from_millis(10));
                ("200 OK", "hello".to_owned())
            }
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Runs a study of one such service with these metrics URLs.
fn run(metrics: &[&str]) -> Run {
    let address = service();
    let urls: Vec<String> =
        metrics.iter().map(|path| format!("\"http://{address}{path}\"")).collect();
    let study = format!(
        "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"http://{address}\"], metrics: [{}]}}\n\
         workloads:\n  pages: {{mix: {{request: 1}}, request: {{path: /}}}}\n\
         loads:\n  few: {{rate: 50/s, clients: 2, warmup: 0s, stop: {{after: 2500ms}}}}\ntrials: 1\n",
        urls.join(", ")
    );
    Bench::new(&study).run().ended_well()
}

const CPU: &str = "server_cpu_mean_sum_of_nodes_percent";
const MEMORY: &str = "server_memory_max_sum_of_nodes_bytes";

fn verdict(run: &Run) -> Value {
    let record = run.record();
    let checks = array(&record[1]["checks"]).to_vec();
    checks.into_iter().find(|one| one["name"] == "metrics").expect("a check")["verdict"].clone()
}

fn findings(run: &Run) -> String {
    array(&run.report["comparisons"][0]["findings"]).iter().map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn process_metrics_are_the_nodes_figures() {
    let run = run(&["/metrics"]);
    let cpu = run.figure(CPU);
    assert!((40.0..60.0).contains(&cpu), "half a core: {cpu}");
    assert_eq!(run.figure(MEMORY), 6.4e7);
    assert_eq!(run.trial()["figures"]["server_written_sum_of_nodes_bytes"], Value::Null);
    assert_eq!(verdict(&run)["verdict"], "passed");
    let observed = &run.record()[1]["observed"];
    let [series] = array(&observed["metrics"]) else { panic!("{observed}") };
    assert_eq!(series["of"], "process");
    assert!(array(&series["at"]).len() >= 3, "{series}");
    let usage = &run.record()[1]["usage"][1];
    assert_eq!((&usage["metrics_of"], &usage["name"]), (&Value::from("process"), &series["name"]));
    assert!(!findings(&run).contains("machine"), "{}", findings(&run));
}

#[test]
fn machine_metrics_are_labelled() {
    let run = run(&["/node"]);
    let cpu = run.figure(CPU);
    assert!((160.0..240.0).contains(&cpu), "two cores: {cpu}");
    assert_eq!(run.figure(MEMORY), 3e9);
    let found = findings(&run);
    assert!(
        found.contains("CPU and memory of web under pages/few are for the whole machine"),
        "{found}"
    );
    assert_eq!(run.record()[1]["observed"]["metrics"][0]["of"], "machine");
}

#[test]
fn unreadable_metrics_leave_figures_unknown_and_the_trial_valid() {
    let began = Instant::now();
    let run = run(&["/metrics", "/gone", "/hangs", "/"]);
    assert!(began.elapsed() < Duration::from_secs(20), "no timeout is waited for");
    assert!(!run.invalid_because().contains("metrics"), "{}", run.invalid_because());
    for quantity in [CPU, MEMORY] {
        assert_eq!(run.trial()["figures"][quantity], Value::Null, "of one node alone");
    }
    let verdict = verdict(&run);
    assert_eq!(verdict["verdict"], "not-checked");
    let why = text(&verdict["why"]);
    let parts = [
        "could not be read: answered 404",
        "no answer in time",
        "is not a sample of a metric: `hello`",
    ];
    for part in parts {
        assert!(why.contains(part), "{part} in: {why}");
        assert!(findings(&run).contains(part), "{}", findings(&run));
    }
    assert!(figure(run.trial(), "requests_verified") > 100.0, "the load went on");
}
