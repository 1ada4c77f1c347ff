//! Tests messages for mistakes in studies, targets, options and files: each has its position and a hint.
//!
//! `outputs/diagnostics.txt` holds each message and its exit code. Read it after changing a message. `BLESS=1` writes
//! it anew.
//!
//! Not here: positions of all mistakes in studies (`bakeoff_core::study::parse`).

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{CommandOutput, bakeoff};

/// A valid study, into which each case puts one mistake.
const STUDY: &str = "\
title: Which is faster?
systems:
  one: {kind: canary}
  three: {kind: etcd, nodes: 3}
workloads:
  write:
    mix: {put: 1}
    keys: {count: 1000}
loads:
  steady:
    clients: 2
    stop: {after: 1s}
";

/// Mistakes in the study: name, original text and replacement.
const IN_STUDIES: &[(&str, &str, &str)] = &[
    ("a tab for indentation", "    keys:", "\tkeys:"),
    ("a bracket that nothing closes", "{put: 1}", "{put: 1"),
    ("a field twice", "    clients: 2", "    clients: 2\n    clients: 4"),
    ("no title", "title: Which is faster?\n", ""),
    ("a section that is called otherwise", "workloads:", "workload:"),
    ("a kind that is spelled wrong", "kind: etcd", "kind: etdc"),
    ("no nodes", "nodes: 3", "nodes: 0"),
    ("a number in words", "nodes: 3", "nodes: three"),
    ("a version in words", "nodes: 3}", "nodes: 3, version: newest}"),
    ("an option of another kind", "nodes: 3}", "nodes: 3, options: {heap: 1GiB}}"),
    ("an option without its unit", "nodes: 3}", "nodes: 3, options: {election-timeout: 500}}"),
    ("a limit of memory without its unit", "nodes: 3}", "nodes: 3, limits: {memory: 512}}"),
    ("a limit of no CPU", "nodes: 3}", "nodes: 3, limits: {cpu: 0}}"),
    (
        "an endpoint without its port",
        "kind: etcd, nodes: 3",
        "kind: etcd, endpoints: [\"http://10.0.0.5\"]",
    ),
    ("endpoints and nodes", "nodes: 3}", "nodes: 3, endpoints: [\"10.0.0.5:2379\"]}"),
    (
        "a certificate that is not there",
        "nodes: 3}",
        "endpoints: [\"https://10.0.0.5:2379\"], tls: {ca: no-such.pem}}",
    ),
    (
        "a password in the study",
        "nodes: 3}",
        "endpoints: [\"10.0.0.5:2379\"], credentials: {user: root, password: hunter2}}",
    ),
    (
        "a variable that is not set",
        "nodes: 3}",
        "endpoints: [\"10.0.0.5:2379\"], credentials: {user: root, password: $BAKEOFF_NO_SUCH}}",
    ),
    ("a part of another kind", "nodes: 3}", "nodes: 3, parts: {storage: {kind: consul}}}"),
    ("an operation that is spelled wrong", "{put: 1}", "{puts: 1}"),
    ("an operation that a system lacks", "{put: 1}", "{put: 1, scan: 1}"),
    ("a mix of nothing", "{put: 1}", "{}"),
    ("no keys", "    keys: {count: 1000}\n", ""),
    ("a count with a unit", "{count: 1000}", "{count: 10k keys}"),
    ("an order that is spelled wrong", "{count: 1000}", "{count: 1000, order: zipf}"),
    ("keys too short for their count", "{count: 1000}", "{count: 1000, size: 1}"),
    ("values too large", "{count: 1000}", "{count: 1000}\n    values: {size: 2MiB}"),
    ("a size that means two things", "{count: 1000}", "{count: 1000}\n    values: {size: 1m}"),
    ("reads of an unknown consistency", "{put: 1}", "{get: 1}\n    reads: strong"),
    ("reads of keys that were never written", "{put: 1}", "{get: 1}\n    fill: false"),
    (
        "more operations than unique keys",
        "{count: 1000}",
        "{count: 10, order: unique}\n    loads: [steady]\n  more:\n    mix: {put: 1}\n    keys: {count: 10, order: unique}\n    loads: [counted]",
    ),
    ("no clients", "clients: 2", "clients: 0"),
    ("a rate in words", "clients: 2", "clients: 2\n    rate: fast"),
    ("a load without an end", "    stop: {after: 1s}\n", ""),
    ("a load with two ends", "{after: 1s}", "{after: 1s, operations: 10}"),
    ("a time without its unit", "{after: 1s}", "{after: 30}"),
    ("more clients than operations", "{after: 1s}", "{operations: 1}"),
    ("followers of one node", "clients: 2", "clients: 2\n    targets: followers"),
    (
        "an objective without a limit",
        "clients: 2",
        "clients: 2\n    rate: 100/s\n    find: {objective: [p99]}",
    ),
    (
        "an objective that so few cannot tell",
        "clients: 2",
        "clients: 2\n    rate: 100/s\n    find: {objective: [p99.9 < 50ms]}",
    ),
    ("a load that is not there", "{count: 1000}", "{count: 1000}\n    loads: [steadily]"),
    ("no trials", "title: Which is faster?", "title: Which is faster?\ntrials: 0"),
    ("samples too often", "title: Which is faster?", "title: Which is faster?\nsample-every: 1ms"),
    (
        "a question about what is not there",
        "title: Which is faster?",
        "title: Which is faster?\nquestion: write/busy",
    ),
    (
        "a quick form of one trial",
        "title: Which is faster?",
        "title: Which is faster?\nquick: {trials: 1}",
    ),
    (
        "a quick form with fewer operations than clients",
        "title: Which is faster?",
        "title: Which is faster?\nquick: {loads: {steady: {stop: {operations: 1}}}}",
    ),
];

/// Mistakes in requests: fields of a workload of a `process`.
const IN_REQUESTS: &[(&str, &str)] = &[
    ("a word that stands for nothing", "mix: {request: 1}, request: {path: \"/{kye}\"}"),
    ("a word without keys", "mix: {request: 1}, request: {path: \"/{key}\"}"),
    ("no request", "mix: {request: 1}"),
    ("a path without its slash", "mix: {request: 1}, request: {path: items}"),
    ("a method in small letters", "mix: {request: 1}, request: {path: /, method: get}"),
    ("a header of bakeoff's own", "mix: {request: 1}, request: {path: /, headers: {Host: a}}"),
    ("an invalid status", "mix: {request: 1}, request: {path: /, expect: {status: 2000}}"),
    ("a table that is not there", "mix: {request: 1}, request: {path: /, rows: {file: users.csv}}"),
    (
        "a secret in the study",
        "mix: {request: 1}, request: {path: /, headers: {authorization: Bearer abc}}",
    ),
];

/// Mistakes on the command line. Nothing listens at `URL`.
const IN_COMMANDS: &[(&str, &[&str])] = &[
    ("a command that is spelled wrong", &["rnu", "quickstart"]),
    ("a study that is not there", &["run", "mine.yaml"]),
    ("a shipped study that is spelled wrong", &["run", "quickstrat"]),
    ("a quick form that the study lacks", &["run", "demo", "--quick"]),
    ("a scale of nothing", &["run", "demo", "--scale", "0"]),
    ("an invalid port", &["run", "demo", "--base-port", "70000"]),
    ("a live page at no port", &["run", "demo", "--live=70000"]),
    ("a live page at a port in words", &["load", "URL", "--live=abc"]),
    ("an unknown export", &["run", "demo", "--export", "foo"]),
    ("an export at no port", &["run", "demo", "--export", "prometheus=xx"]),
    ("an export to no collector", &["gate", "demo", "--export", "otlp"]),
    ("an export over FTP", &["load", "URL", "--export", "otlp=ftp://x"]),
    ("an export with a password", &["run", "demo", "--export", "otlp=http://a:b@127.0.0.1:1"]),
    ("no URL", &["load"]),
    ("a scheme that is not spoken", &["load", "ftp://127.0.0.1/"]),
    ("a port that no machine has", &["load", "http://127.0.0.1:99999/"]),
    ("a server that does not run", &["load", "URL", "-n", "1"]),
    ("no clients of a load", &["load", "URL", "-c", "0"]),
    ("more clients than requests", &["load", "URL", "-c", "10", "-n", "5"]),
    ("a time without its unit", &["load", "URL", "--for", "10"]),
    ("a rate of nothing", &["load", "URL", "--rate", "0"]),
    ("a condition without its comparison", &["load", "URL", "--fail-if", "p99 20ms"]),
    ("a condition without its unit", &["load", "URL", "--fail-if", "p99 > 20"]),
    ("a header without its colon", &["load", "URL", "-H", "authorization secret"]),
    ("an invalid status", &["load", "URL", "--expect-status", "ok"]),
    ("targets that are not there", &["load", "--targets", "targets.txt"]),
    ("a target without its method", &["load", "--targets", "spoilt.txt"]),
    ("a search without an objective", &["load", "URL", "--find-max"]),
    ("a key without its certificate", &["load", "https://127.0.0.1:1/", "--key", "client.key"]),
    ("weights of fewer URLs", &["load", "URL", "--weights", "1,2"]),
    ("a run that is not there", &["report", "no-such-run"]),
    ("a file that is no record", &["report", "spoilt.txt"]),
    ("a format that there is not", &["report", "latest", "--format", "pdf"]),
    ("runs of a folder that is not there", &["history", "--out", "no-such-folder"]),
    ("a trend of a study without runs", &["history", "--trend", "quickstart"]),
    ("a form of no trend", &["history", "--format", "html"]),
    ("one run to compare", &["compare", "latest"]),
    ("a system that there is not", &["install", "etdc"]),
    ("an unknown version", &["install", "consul@0.1"]),
    ("a duration of another tool", &["wrk", "-d", "500ms", "URL"]),
    ("fewer requests than workers", &["hey", "-n", "5", "-c", "10", "URL"]),
    ("a gate of a study with two systems", &["gate", "quickstart", "--new", "./new"]),
];

/// Runs a command in a folder, and appends its output.
fn append_output(said: &mut String, what: &str, folder: &Path, arguments: &[&str]) {
    let ran = CommandOutput::run(
        bakeoff().current_dir(folder).env_remove("BAKEOFF_NO_SUCH").args(arguments),
    );
    assert!(ran.code.is_some_and(|code| code != 0), "{what}: nothing is wrong with it: {ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    let stderr = ran.stderr.replace(&folder.display().to_string(), "FOLDER");
    let command = arguments.join(" ");
    writeln!(
        said,
        "== {what}\n$ bakeoff {command}\n{}\n[exit code {}]\n",
        stderr.trim_end(),
        ran.code.unwrap_or(0)
    )
    .unwrap();
}

#[test]
fn diagnostics_have_a_position_and_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let study = |text: &str| std::fs::write(dir.path().join("my.yaml"), text).unwrap();
    let mut said = String::new();
    for (what, from, to) in IN_STUDIES {
        assert!(STUDY.contains(from), "{what}: `{from}` is not in the study");
        let mut text = STUDY.replacen(from, to, 1);
        if to.contains("[counted]") {
            text.push_str("  counted: {clients: 2, stop: {operations: 50}}\n");
        }
        study(&text);
        append_output(&mut said, what, dir.path(), &["run", "my.yaml"]);
    }
    for (what, workload) in IN_REQUESTS {
        study(&format!(
            "title: Which is faster?\nsystems:\n  web: {{kind: process, process: {{command: [sleep, \"{{port}}\"]}}}}\n\
             workloads:\n  pages: {{{workload}}}\nloads:\n  steady: {{clients: 1, stop: {{after: 1s}}}}\n"
        ));
        append_output(&mut said, what, dir.path(), &["run", "my.yaml"]);
    }
    std::fs::write(dir.path().join("spoilt.txt"), "http://127.0.0.1:1/\nx-token hunter2\n")
        .unwrap();
    for (what, arguments) in IN_COMMANDS {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "URL" { "http://127.0.0.1:1/" } else { word })
            .collect();
        append_output(&mut said, what, dir.path(), &arguments);
    }
    assert!(!said.contains("hunter2"), "a secret is shown");
    let count = said.matches("\n[exit code ").count();
    assert!(count >= 50, "{count} diagnostics");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/outputs/diagnostics.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &said).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(said, expected, "{}", path.display());
}
