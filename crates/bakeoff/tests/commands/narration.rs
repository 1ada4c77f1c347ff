//! Tests progress output: plain lines without a terminal, changing lines on a terminal.
//!
//! Figures differ between runs and are masked.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::support::excuse::excuse_run;
use crate::support::{Bench, CommandOutput, bakeoff};

const STUDY: &str = "\
title: Two of one kind
systems:
  first: {kind: canary, options: {sync: none}}
  second: {kind: canary, options: {sync: none}}
workloads:
  write: {mix: {put: 1}, keys: {count: 50, size: 64, order: uniform}, values: {size: 64}, fill: true}
loads:
  brief: {clients: 2, warmup: 100ms, stop: {after: 400ms}}
  twice: {clients: [1, 2], stop: {operations: 200}}
trials: 2
";

/// Masks what differs between runs: numbers, units of times, folders.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for word in text.split_inclusive([' ', '\n']) {
        let (body, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
        let digits = body.contains(|character: char| character.is_ascii_digit());
        match body {
            body if body.starts_with('/') => masked.push_str("PATH"),
            "s" | "ms" | "µs" | "ns" => masked.push_str("UNIT"),
            "s," | "ms," | "µs," | "ns," => masked.push_str("UNIT,"),
            body if digits && !body.starts_with(['[', 'p']) => {
                let end = body.len() - body.trim_end_matches([',', ')']).len();
                let stem =
                    if body.trim_end_matches([',', ')']).ends_with("/s") { "N/s" } else { "N" };
                let open = if body.starts_with('(') { "(" } else { "" };
                masked.push_str(&format!("{open}{stem}{}", &body[body.len() - end..]));
            }
            body => masked.push_str(body),
        }
        masked.push_str(end);
    }
    masked
}

const OPENING: &str = "\
measuring the machine baseline: disk and loopback of this machine
Two of one kind: N trials, seed N, in PATH
load twice: about N operations per trial, so p90 replaces p99, which needs N
";

/// Checks plain lines of trials in their order. Before the second round they show the findings of the first.
#[track_caller]
fn holds_plain_lines(bench: &Bench, stderr: &str) {
    let text = masked(stderr);
    assert!(text.starts_with(OPENING), "{text}");
    let lines: Vec<&str> = text.lines().skip(3).collect();
    let begins = |line: &&&str| line.starts_with('[');
    assert_eq!(lines.iter().filter(begins).count(), 8, "{text}");
    assert!(
        lines[0].starts_with("[1/8] ") && lines[0].ends_with(" · write · brief")
            || lines[0].ends_with(" · write · twice"),
        "{text}"
    );
    let is_end = |line: &&&str| line.starts_with("      ") && !line.contains(" so far: ");
    let ended: Vec<&&str> = lines.iter().filter(is_end).collect();
    assert_eq!(ended.len(), 8, "{text}");
    for line in &ended {
        // A busy machine may leave too few operations for p99, or an invalid trial.
        let figures = line.starts_with("      N/s, p99 ") && line.contains(", no errors");
        assert!(figures || line.starts_with("      not valid: "), "{text}");
    }
    assert!(ended[..7].iter().all(|line| line.contains(" (about N ")), "{text}");
    assert!(!ended[7].contains("(about"), "{text}");
    // Between two rounds, before the second one's first trial.
    let found = lines.iter().position(|line| line.contains(" so far: "));
    if found.is_none() && text.contains("not valid: ") {
        // Without a valid trial there is no finding.
        return excuse_run(&bench.runs()[0]).expect(&text);
    }
    let found = found.expect(&text);
    assert!(lines[found].starts_with("      write/"), "{text}");
    assert!(lines[found].contains("N/s (N trial)"), "{text}");
    assert!(lines[found + 1].starts_with("[5/8] "), "{text}");
    assert_eq!(lines.len(), 17, "{text}");
}

#[test]
fn run_without_a_terminal_prints_plain_lines() {
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(&mut bench.command());
    holds_plain_lines(&bench, &ran.stderr);
    assert!(ran.stdout.contains("\nReport: ") && ran.stdout.contains("\nRun: "), "{}", ran.stdout);
    // A complete run is reported as such, and rendered again.
    let again = CommandOutput::run(bakeoff().args(["run", "--resume"]).arg(&bench.runs()[0]));
    assert_eq!(masked(&again.stderr), "no trials are missing in PATH\n");
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn json_run_prints_the_same_lines() {
    let bench = Bench::new(STUDY);
    let ran = CommandOutput::run(bench.command().arg("--json"));
    holds_plain_lines(&bench, &ran.stderr);
    serde_json::from_str::<Value>(&ran.stdout).expect("standard output is one document");
}

#[test]
fn run_on_a_terminal_shows_lines_that_change() {
    let bench = Bench::new(STUDY);
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a pseudo-terminal");
    grantpt(&main).and_then(|()| unlockpt(&main)).expect("a pseudo-terminal");
    let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&main, size).expect("a terminal has a size");
    let name = ptsname(&main, Vec::new()).expect("a pseudo-terminal has a name");
    let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = bench.command();
    command.env("TERM", "xterm-256color").stdout(Stdio::null()).stderr(side);
    let mut process = command.spawn().unwrap();
    drop(command); // closes our copy of the terminal's side, so that reading ends with the process
    let mut shown = Vec::new();
    // Reading from a closed terminal returns an error.
    File::from(main).read_to_end(&mut shown).ok();
    process.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown);
    let mut rest = &*shown;
    for part in [
        "measuring the machine baseline",
        "Two of one kind: 8 trials, seed 7, in ",
        "[1/8] ",
        "about ",
        " left · nothing found yet",
        "[2/8] ",
        "[5/8] ",
        " so far: first ",
        "[8/8] ",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("`{part}` is not next in:\n{rest:?}"));
        rest = &rest[at + part.len()..];
    }
    for part in
        ["· brief: starting", ": filling", ": 2 clients", ": reading back", ", no errors\r\n"]
    {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown:?}");
    }
    assert!(!shown.contains("      write/"), "the last line shows it:\n{shown:?}");
    // Each system has a row below the trial's line.
    for row in ["> first ", "  second ", "> second ", "  first ", "  0 of 4", "  3 of 4"] {
        assert!(shown.contains(row), "`{row}` is not in:\n{shown:?}");
    }
    let bars = |text: &str| text.contains("  █") || text.contains("  #");
    let loaded = shown.split("> ").skip(1).filter(|row| bars(row) && row.contains("/s, p"));
    assert!(loaded.count() > 0, "no row shows the seconds of a load:\n{shown:?}");
}
