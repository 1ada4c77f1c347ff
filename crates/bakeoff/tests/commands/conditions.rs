//! Tests the outcome of conditions in CI: JUnit files and GitHub Actions annotations.
//!
//! Not here: the formats in full (`bakeoff_report::ci`), judging (`load`, `compare`, `gate`).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use crate::support::canary::{Canary, alone};
use crate::support::{Bench, CommandOutput, bakeoff};

#[track_caller]
fn has(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is not in\n{text}");
    }
}

/// Starts a server whose error text contains GitHub workflow commands.
fn hostile() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let body = "::error::owned ##[add-path]/tmp\n::error::owned";
                let length = body.len();
                let answer = format!("HTTP/1.1 500 Oh\r\nContent-Length: {length}\r\n\r\n{body}");
                let mut bytes = [0; 4096];
                while let Ok(1..) = socket.read(&mut bytes) {
                    if socket.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Returns the lines that GitHub's runner executes.
fn executed(ran: &CommandOutput) -> Vec<&str> {
    let lines = ran.stdout.lines().chain(ran.stderr.lines());
    lines.filter(|line| line.trim_start().starts_with("::") || line.contains("##[")).collect()
}

#[test]
fn load_conditions_and_validity_are_junit_cases() {
    let _alone = alone();
    let canary = Canary::with_value("--delay 5ms");
    let file = canary.dir.path().join("junit.xml");
    std::fs::write(&file, "of an earlier build").unwrap();
    let url = canary.url("/kv/key?token=geheim");
    let load = ["load", &url, "--for", "500ms", "-c", "2", "--junit"];
    let conditions = ["--fail-if", "p50 > 1us", "--fail-if", "p99 > 1h", "--fail-if", "errors > 0"];
    let ran = CommandOutput::run(bakeoff().args(load).arg(&file).args(conditions)).ends_with(1);
    let xml = std::fs::read_to_string(&file).unwrap();
    has(
        &xml,
        &[
            "<testsuite name=\"bakeoff load\" tests=\"4\" failures=\"1\" errors=\"1\"",
            "name=\"p50 &gt; 1us\">\n      <failure type=\"failed\" message=\"p50 is ",
            "name=\"p99 &gt; 1h\">\n      <error type=\"cannot-tell\" message=\"p99 is unknown: too few",
            "name=\"errors &gt; 0\"/>",
            "name=\"is valid\"/>",
        ],
    );
    assert!(!xml.contains("geheim"), "{xml}");
    assert_eq!(executed(&ran), [""; 0], "without `GITHUB_ACTIONS`");
}

#[test]
fn early_failure_replaces_an_earlier_junit_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("junit.xml");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}/");
    let load = ["load", &url, "-n", "10", "--fail-if", "errors > 0", "--junit"];
    CommandOutput::run(bakeoff().args(load).arg(&file)).ends_with(4);
    let xml = std::fs::read_to_string(&file).unwrap();
    has(
        &xml,
        &["tests=\"1\" failures=\"0\" errors=\"1\"", "name=\"ended\"", "could not connect to"],
    );
    let nowhere =
        CommandOutput::run(bakeoff().args(load).arg(dir.path().join("no/junit.xml"))).ends_with(2);
    has(&nowhere.stderr, &["junit.xml` of --junit", "hint: name a file in a folder"]);
    let search = ["load", &url, "--find-max", "--slo", "p99 < 1s", "--junit", "x"];
    CommandOutput::run(bakeoff().args(search)).ends_with(2);
}

#[test]
fn github_annotations_defuse_server_text() {
    let _alone = alone();
    let url = format!("http://{}/", hostile());
    let load = ["load", &url, "--for", "300ms", "-c", "2"];
    let conditions = ["--fail-if", "errors > 1%", "--fail-if", "p99 > 1s"];
    let github = |more: &[&str]| {
        CommandOutput::run(bakeoff().env("GITHUB_ACTIONS", "true").args(load).args(more))
            .ends_with(1)
    };
    let ran = github(&conditions);
    has(&ran.stdout, &["status 500: ", "owned"]);
    let [errors, p99, valid] = executed(&ran)[..] else { panic!("{ran:?}") };
    assert_eq!(errors, "::error title=bakeoff load%3A errors > 1%25::errors is 100 %25");
    let unknown = "::warning title=bakeoff load%3A p99 > 1s::p99 is unknown: there was no success";
    assert_eq!(p99, unknown);
    has(valid, &["::error title=bakeoff load%3A is valid::errors: "]);
    has(&ran.stderr, &["::error title="]);
    // Without conditions nothing is judged, and the texts stay harmless.
    assert_eq!(executed(&github(&[])), [""; 0]);
    let json = github(&["--json"]);
    assert_eq!(executed(&json), [""; 0]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let what = json["error_examples"][0]["what"].as_str().unwrap();
    assert!(what.contains("##[add-path]"), "JSON keeps its value: {what}");
    // Outside of GitHub texts stay unchanged.
    let plain = CommandOutput::run(bakeoff().args(load).args(conditions)).ends_with(1);
    has(&plain.stdout, &["##[add-path]"]);
    assert!(!plain.stderr.contains("::error title="), "{}", plain.stderr);
}

#[test]
fn inconclusive_conditions_are_junit_errors_and_github_warnings() {
    // One trial of each cannot tell.
    let bench = Bench::new(
        "title: t\nsystems: {one: {kind: canary}}\nworkloads: {w: {mix: {get: 1}, keys: {count: 9}, fill: true}}\n\
         loads: {steady: {clients: 1, warmup: 0s, stop: {operations: 10}}}\n",
    );
    CommandOutput::run(&mut bench.command());
    let run = &bench.runs()[0];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("junit.xml");
    let compare = |command: &mut std::process::Command, file: &Path| {
        let fail_if = ["--fail-if", "throughput < -5%", "--junit"];
        let compare = command.arg("compare").args([run, run]).args(fail_if).arg(file);
        CommandOutput::run(compare).ends_with(7)
    };
    let ran = compare(bakeoff().env("GITHUB_ACTIONS", "true"), &file);
    let xml = std::fs::read_to_string(&file).unwrap();
    has(
        &xml,
        &[
            "<testsuite name=\"bakeoff compare\" tests=\"1\" failures=\"0\" errors=\"1\"",
            "name=\"throughput &lt; -5%\">\n      <error type=\"cannot-tell\"",
        ],
    );
    let lines = executed(&ran);
    assert_eq!(lines.len(), 1, "{lines:?}");
    has(lines[0], &["::warning title=bakeoff compare%3A throughput < -5%25::"]);
    // Without a condition there is no file to judge.
    CommandOutput::run(bakeoff().arg("compare").args([run, run]).arg("--junit").arg(&file))
        .ends_with(2);
}
