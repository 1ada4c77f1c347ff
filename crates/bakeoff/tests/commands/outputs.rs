//! Compares output and requests with the files in `outputs/`. Scripts parse the output, and servers distinguish clients
//! by the requests.
//!
//! Differences between runs are masked: numbers become `#`, the server's address `ADDRESS`. `BLESS=1` writes the files
//! anew.
//!
//! Not here: figures (`load`, `hey`, `wrk`), the same layouts with fixed figures (unit tests of each).

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::canary::Canary;
use crate::support::{Bench, CommandOutput, bakeoff};

/// Compares a text with a file.
#[track_caller]
fn check(name: &str, seen: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/commands/outputs").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, seen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, expected, "{}", path.display());
}

/// Masks what differs between runs: numbers with their units, column widths, and the address.
fn masked(text: &str, address: SocketAddr) -> String {
    let text = text.replace(&address.to_string(), "ADDRESS");
    let mut masked = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        let line = format!("{}{}", " ".repeat(indent.min(4)), words.join(" "));
        masked.push_str(line.trim_end());
        masked.push('\n');
    }
    // Units depend on the speed of the machine.
    for unit in ["secs", "µs", "ms", "s"] {
        masked = masked.replace(&format!("# {unit}"), "#");
    }
    masked
}

/// Replaces the number in a word by `#`.
fn word(word: &str) -> String {
    let is_figure =
        word.trim_start_matches(['(', '[', '+']).starts_with(|c: char| c.is_ascii_digit());
    if !is_figure || word.starts_with("0x") {
        return word.to_owned();
    }
    let (mut masked, mut in_number) = (String::new(), false);
    for c in word.chars() {
        let digit = c.is_ascii_digit() || in_number && matches!(c, '.' | ',');
        if digit && !in_number {
            masked.push('#');
        }
        in_number = digit;
        if !digit {
            masked.push(c);
        }
    }
    for unit in ["us", "ms", "s", "KB", "MB", "B", "k"] {
        masked =
            masked.strip_suffix(&format!("#{unit}")).map_or(masked.clone(), |_| "#".to_owned());
    }
    masked
}

/// Replaces figures and histograms in JSON by their types.
fn shape(value: &Value) -> Value {
    match value {
        Value::Number(_) => "a number".into(),
        Value::Array(all) => all.first().map(shape).into_iter().collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| match name.as_str() {
                "hdr" => (name.clone(), "a histogram".into()),
                // The number in time depends on how busy the machine is.
                "schedule_lag" | "timer_lag" | "receive_lag" | "undelayed" => {
                    let names = value.as_object().into_iter().flat_map(|fields| fields.keys());
                    (name.clone(), names.cloned().collect::<Vec<String>>().into())
                }
                _ => (name.clone(), shape(value)),
            };
            fields.iter().map(field).collect()
        }
        other => other.clone(),
    }
}

#[track_caller]
fn output(arguments: &[&str]) -> String {
    let ran = CommandOutput::run(bakeoff().args(arguments));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    ran.stdout
}

/// Slow enough that all latencies have one magnitude, and no machine is late.
const SLOW: &str = "--delay 20ms";

#[test]
fn terminal_output_of_load_keeps_its_layout() {
    let canary = Canary::with_value(SLOW);
    let (key, none) = (canary.url("/kv/key"), canary.url("/kv/none"));
    let load = |name: &str, arguments: &[&str]| {
        let shown = output(&[&["load"], arguments].concat());
        // Other tests check whether the machine was late.
        let lines = shown
            .lines()
            .filter(|line| !["valid", "not valid"].iter().any(|it| line.starts_with(it)));
        let shown: String = lines.map(|line| format!("{line}\n")).collect();
        check(name, &masked(&shown, canary.address));
    };
    load("load-closed.txt", &[&key, "-n", "50", "-c", "2"]);
    load("load-two-urls.txt", &[&key, &none, "-n", "50", "-c", "2", "--fail-if", "p50 > 1h"]);
}

#[test]
fn server_stall_shows_in_the_rows_of_a_load() {
    for (locale, tallest) in [("C.UTF-8", '█'), ("C", '#')] {
        let canary = Canary::start("--delay 5ms --stall 2300ms --stall-after 1s");
        let load = ["load", &canary.url("/health"), "--rate", "200", "--for", "4s"];
        let ran = CommandOutput::run(bakeoff().env("LC_ALL", locale).args(load));
        let block =
            ran.stdout.split("\n\n").find(|block| block.starts_with("Second by second, 4 s"));
        let block = block.unwrap_or_else(|| panic!("{ran:?}"));
        let row = |name: &str| {
            let row = block.lines().find_map(|line| line.strip_prefix(&format!("  {name:<11}  ")));
            row.unwrap_or_else(|| panic!("no row `{name}` in\n{block}")).chars().collect::<Vec<_>>()
        };
        let (rate, marks) = (row("verified /s"), row("no success"));
        assert!(rate[..4].contains(&tallest), "{block}");
        assert!(marks[..4].contains(&'x'), "{block}");
        for second in 0..4 {
            assert_eq!(rate[second] == ' ', marks[second] == 'x', "{block}");
        }
    }
    let canary = Canary::start("");
    let short = output(&["load", &canary.url("/health"), "--rate", "100", "--for", "2s"]);
    assert!(!short.contains("bars begin"), "{short}");
}

#[test]
fn json_output_of_load_keeps_its_fields() {
    let canary = Canary::with_value(SLOW);
    let url = canary.url("/kv/key");
    let shown = output(&["load", &url, "--json", "--seed", "7", "-n", "50", "-c", "2"]);
    let mut result: Value = serde_json::from_str(&shown).unwrap();
    let parts = |result: &mut Value, change: &dyn Fn(&mut Value)| {
        change(result);
        result["steps"].as_array_mut().into_iter().flatten().for_each(change);
    };
    parts(&mut result, &|part| {
        // These depend on how busy the machine is.
        part["generator"]["stalls"] = Value::Null;
        part["valid"] = Value::Null;
        part["reasons"] = Value::Null;
    });
    let shape = format!("{:#}\n", shape(&result)).replace(&canary.address.to_string(), "ADDRESS");
    check("load-closed.json", &shape);
}

#[test]
fn output_of_hey_and_wrk_keeps_its_layout() {
    let canary = Canary::with_value(SLOW);
    let url = canary.url("/kv/key");
    // The rows of a histogram depend on the figures.
    let text = output(&["hey", "-n", "40", "-c", "2", &url]);
    let lines = text.lines().filter(|line| !line.contains("]\t"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    check("hey-summary.txt", &masked(&text, canary.address));
    let csv = output(&["hey", "-n", "4", "-c", "2", "-o", "csv", &url]);
    let csv: Vec<String> =
        csv.lines().map(|line| line.split(',').map(word).collect::<Vec<_>>().join(",")).collect();
    check("hey.csv", &format!("{}\n", csv.join("\n")));
    let text = output(&["wrk", "-t1", "-c2", "-d1s", "--latency", &url]);
    check("wrk-latency.txt", &masked(&text, canary.address));
}

/// A server that answers every request with `hello` and stores the requests.
pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<BTreeSet<String>>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = heads.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || record(socket, &seen));
            }
        });
        Self { address, heads }
    }

    /// Returns the distinct messages since the last call.
    pub(crate) fn messages(&self) -> String {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        let text = heads.into_iter().collect::<Vec<_>>().join("----\n");
        let agent = format!("bakeoff/{}", env!("CARGO_PKG_VERSION"));
        text.replace(&self.address.to_string(), "ADDRESS").replace(&agent, "bakeoff/VERSION")
    }
}

fn record(mut socket: TcpStream, seen: &Mutex<BTreeSet<String>>) {
    let mut input = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        input.extend_from_slice(&bytes[..count]);
        let Some(head) = input.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&input[..head + 4]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        if input.len() < head + 4 + length {
            continue;
        }
        let message = String::from_utf8_lossy(&input[..head + 4 + length]).into_owned();
        input.drain(..head + 4 + length);
        seen.lock().unwrap().insert(message.replace('\r', "\\r") + "\n");
        let body = if text.starts_with("HEAD ") { "" } else { "hello" };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}");
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn requests_keep_their_bytes() {
    let recorder = Recorder::start();
    let url = format!("http://{}/a/b?c=d", recorder.address);
    let sent = |name: &str, arguments: &[&str]| {
        output(arguments);
        check(&format!("sent-{name}.txt"), &recorder.messages());
    };
    sent("load", &["load", &url, "-n", "4", "-c", "1", "-H", "X-One: 1"]);
    let put = ["--method", "PUT", "--body", "text", "--no-keepalive"];
    sent("load-put", &[&["load", &url, "-n", "4", "-c", "1"], &put[..]].concat());
    sent("load-head", &["load", &url, "-n", "4", "-c", "1", "--method", "HEAD"]);
    sent("hey", &["hey", "-n", "4", "-c", "1", "-m", "POST", "-d", "text", &url]);
    sent("wrk", &["wrk", "-t1", "-c1", "-d1s", &url]);
}

#[test]
fn requests_of_a_study_keep_their_bytes() {
    let recorder = Recorder::start();
    for (name, load) in [("study", ""), ("study-new-connections", "keep-alive: off, ")] {
        let study = format!(
            "title: t\nsystems:\n  web: {{kind: http, endpoints: [\"http://{}\"]}}\nworkloads:\n  \
             pages: {{mix: {{request: 1}}, keys: {{count: 3, order: sequential}}, request: {{method: POST, \
             path: \"/a/{{key}}?b={{key}}\", headers: {{x-one: one}}, body: text, expect: \
             {{status: 200, body-size: 5}}}}}}\n  plain: {{mix: {{request: 1}}, request: {{path: /}}}}\nloads:\n  few: \
             {{clients: 2, {load}stop: {{operations: 20}}}}\ntrials: 1\n",
            recorder.address
        );
        let bench = Bench::new(&study);
        CommandOutput::run(&mut bench.command()).ends_with(0);
        check(&format!("sent-{name}.txt"), &recorder.messages());
    }
}
