//! Tests `bakeoff gate` as CI uses it: output and exit code for two builds of one system.
//!
//! The builds are bakeoff's own server with options, scripts that execute it, and etcd if available.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use granit_parser::{Event, Parser};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::schema;
use crate::support::{Bench, CommandOutput, array, bakeoff, has, nothing_runs_in, record, text};

const LOADS: &str = "\
loads:
  load: {clients: 4, warmup: 100ms, stop: {after: 400ms}}
trials: 50
";

/// Two canaries; a gate uses only one.
fn canaries() -> Bench {
    Bench::new(&format!(
        "title: A short one\n\
         systems:\n  canary: {{kind: canary, options: {{sync: none, delay: 5ms}}}}\n\
         \x20 other: {{kind: canary}}\n\
         workloads:\n  work: {{mix: {{put: 1}}, keys: {{count: 20}}}}\n{LOADS}"
    ))
}

fn gate(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bakeoff();
    command.arg("gate").arg(bench.study()).arg("--out").arg(bench.out()).args(["--seed", "7"]);
    command.args(arguments).current_dir(bench.path());
    command
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is not in\n{text}");
    }
}

/// Writes an executable script into the bench.
fn script(bench: &Bench, path: &str, body: &str) -> PathBuf {
    let path = bench.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn slower_build_fails_the_gate_and_leaves_an_ordinary_run() {
    let bench = canaries();
    let slower = ["--system", "canary", "--new-option", "delay=50ms", "--trials", "6"];
    let ran = CommandOutput::run(&mut gate(&bench, &slower));
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    says(
        &ran.stdout,
        &[
            "stop: proven for the new build of canary: work/load: throughput",
            "settings",
            "99.9 % interval",
            "Report: ",
        ],
    );
    // The duration is announced before anything starts.
    says(
        ran.stderr.split("[1/12]").next().unwrap(),
        &["6 trials of base and of new in turn, 12 in all, take about "],
    );
    let run = bench.runs().pop().expect("it left a run");
    let lines = record(&run);
    lines.iter().for_each(|line| schema::allow("record", line));
    let header = &lines[0];
    let names: Vec<&str> =
        array(&header["study"]["systems"]).iter().map(|one| text(&one["name"])).collect();
    assert_eq!(names, ["base", "new"]);
    assert_eq!(header["gate"]["system"], "canary");
    // Other commands read it like any run, and `--resume` judges it again from the record.
    let report = CommandOutput::run(bakeoff().arg("report").arg(&run).arg("--json")).ends_with(0);
    says(&report.stdout, &["base sustained"]);
    let history =
        CommandOutput::run(bakeoff().arg("history").arg("--out").arg(bench.out())).ends_with(0);
    says(&history.stdout, &["study-gate", "12 trials, complete"]);
    let again = ["gate", "--json", "--resume"];
    let again = CommandOutput::run(bakeoff().args(again).arg(&run));
    assert_eq!(again.code, Some(6), "{}{}", again.stdout, again.stderr);
    let json: Value = serde_json::from_str(&again.stdout).expect("JSON and nothing else");
    schema::allow("compare", &json);
    assert_eq!(json["fail_if"][0]["outcome"], "proven");
    assert_eq!(json["gate"]["system"], "canary");
    assert!(text(&json["gate"]["verdict"]).starts_with("stop: "));
    let junit = bench.path().join("junit.xml");
    let mut again = bakeoff();
    again.arg("gate").arg("--junit").arg(&junit).arg("--resume").arg(&run);
    let annotated = CommandOutput::run(again.env("GITHUB_ACTIONS", "true")).ends_with(6);
    says(&annotated.stderr, &["::error title=bakeoff gate%3A work/load%3A throughput"]);
    let xml = std::fs::read_to_string(&junit).unwrap();
    says(
        &xml,
        &[
            "<testsuite name=\"bakeoff gate\" tests=\"3\" failures=\"1\" errors=\"0\"",
            "<failure type=\"failed\" message=\"work/load canary: -",
            "name=\"is valid\"/>",
        ],
    );
    let markdown = ["gate", "--format", "markdown", "--resume"];
    let markdown = CommandOutput::run(bakeoff().args(markdown).arg(&run));
    says(&markdown.stdout, &["# Two builds of canary\n", "**stop: "]);
    // In the other direction nothing is lost.
    let faster = ["--system", "canary", "--base-option", "delay=50ms", "--trials", "6"];
    let ran = CommandOutput::run(&mut gate(&bench, &faster));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["pass: no condition is proven"]);
}

#[test]
fn resumed_gate_is_judged_as_a_whole() {
    let bench = canaries();
    let slower = ["--system", "canary", "--new-option", "delay=50ms", "--trials", "6"];
    let mut begun = gate(&bench, &slower);
    let begun = begun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = bench.has_trials(1);
    kill_process(Pid::from_child(&begun), Signal::INT).unwrap();
    let ran = CommandOutput::from_output(begun.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["the run is incomplete", "cannot tell"]);
    says(&ran.stderr, &["`bakeoff gate --resume "]);
    let whole = CommandOutput::run(bakeoff().args(["gate", "--resume"]).arg(&run));
    assert_eq!(whole.code, Some(6), "{}{}", whole.stdout, whole.stderr);
    says(&whole.stdout, &["stop: proven for the new build of canary: work/load: throughput"]);
    let trials = bench.record().iter().filter(|line| line["line"] == "trial").count();
    assert!((12..=13).contains(&trials), "the one that was broken off may be there: {trials}");
}

/// Two services whose delay is 2 or 4 ms, by the number of earlier starts.
fn scattering() -> (Bench, [&'static str; 4]) {
    let bench = Bench::new(&format!(
        "title: A service\n\
         systems:\n  web: {{kind: process, process: {{command: [./no-such-server, \"127.0.0.1:{{port}}\", \
         \"{{dir}}/data\"]}}}}\n\
         workloads:\n  pages: {{mix: {{request: 1}}, request: {{path: /}}}}\n{LOADS}"
    ));
    let started = bench.path().join("started");
    for build in ["old", "new"] {
        let body = format!(
            "# {build}\necho x >> {0}\ncase $(($(wc -l < {0}) % 5)) in 0|1|3) delay=2ms;; *) delay=4ms;; esac\n\
             exec {1} __canary --listen \"$1\" --data \"$2\" --answer 32 --delay $delay",
            started.display(),
            env!("CARGO_BIN_EXE_bakeoff")
        );
        script(&bench, &format!("{build}/server"), &body);
    }
    (bench, ["--base", "./old/server", "--new", "./new/server"])
}

#[test]
fn scattered_figures_get_more_trials() {
    let (bench, builds) = scattering();
    let ran = CommandOutput::run(&mut gate(&bench, &[&builds[..], &["--detect", "75%"]].concat()));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    says(
        &ran.stderr,
        &[
            "4 trials of base",
            "up to 400 of each build",
            "figures scatter by ",
            "of each build instead of 4",
        ],
    );
    let lines = record(&bench.runs().pop().unwrap());
    let extended: Vec<&Value> = lines.iter().filter(|line| line["line"] == "extended").collect();
    assert_eq!(extended[0]["before"], 4);
    let trials = extended.last().unwrap()["trials"].as_u64().unwrap();
    assert_eq!(lines.iter().filter(|line| line["line"] == "trial").count() as u64, 2 * trials);
    let run = bench.runs().pop().unwrap();
    let report = CommandOutput::run(bakeoff().arg("report").arg(&run).arg("--json")).ends_with(0);
    let json: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(json["trials_planned"], 2 * trials);
    // A second judgement adds no trials.
    assert_eq!(CommandOutput::run(bakeoff().args(["gate", "--resume"]).arg(&run)).code, Some(0));
}

#[test]
fn gate_adds_no_useless_trials() {
    let (bench, builds) = scattering();
    let few = ["--detect", "20%", "--max-trials", "8"];
    let ran = CommandOutput::run(&mut gate(&bench, &[&builds[..], &few].concat()));
    assert_eq!(ran.code, Some(7), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stderr, &["up to 8 of each build", "[12/12]"]);
    says(&ran.stdout, &["inconclusive: no condition is proven"]);
}

#[test]
fn gate_replaces_the_command_of_a_process() {
    let bench = Bench::new(&format!(
        "title: A service\n\
         systems:\n  web: {{kind: process, process: {{command: [./no-such-server, \"127.0.0.1:{{port}}\", \
         \"{{dir}}/data\"]}}}}\n\
         workloads:\n  pages: {{mix: {{request: 1}}, request: {{path: /}}}}\n{LOADS}"
    ));
    let server = |delay: &str| {
        format!(
            "exec {} __canary --listen \"$1\" --data \"$2\" --answer 32 --delay {delay}",
            env!("CARGO_BIN_EXE_bakeoff")
        )
    };
    script(&bench, "old/server", &server("2ms"));
    script(&bench, "new/server", &server("25ms"));
    script(&bench, "copy/server", &server("2ms"));
    // `--system` is optional for a single system.
    let builds = |new: &'static str| ["--base", "./old/server", "--new", new, "--trials", "6"];
    let ran = CommandOutput::run(&mut gate(&bench, &builds("./new/server")));
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["old/server", "new/server", "stop: proven for the new build of web"]);
    let asked = [&builds("./new/server")[..], &["--fail-if", "throughput > +50%"]].concat();
    assert_eq!(CommandOutput::run(&mut gate(&bench, &asked)).code, Some(0));
    let runs = bench.runs().len();
    for (new, expected) in [
        ("old/../old/server", "are the same file"),
        ("./copy/server", "hold the same bytes (SHA-256 "),
    ] {
        let ran = CommandOutput::run(&mut gate(&bench, &builds(new))).ends_with(2);
        says(&ran.stderr, &[expected, "hint: was the new one built? nothing was started"]);
    }
    let ran = CommandOutput::run(&mut gate(&bench, &["--new", "3.6"])).ends_with(2);
    says(&ran.stderr, &["`web` is a command, and `3.6` would not choose one"]);
    assert_eq!(bench.runs().len(), runs, "nothing was begun");
    nothing_runs_in(bench.path());
}

#[test]
fn rejects_bad_gates_before_starting_anything() {
    let bench = canaries();
    let check = |arguments: &[&str], expected: &[&str]| {
        let ran = CommandOutput::run(&mut gate(&bench, arguments));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        says(&ran.stderr, expected);
        assert_eq!(ran.stdout, "");
    };
    check(&[], &["has 2 systems", "`--system`", "canary, other"]);
    let canary = |more: &[&'static str]| [&["--system", "canary"], more].concat();
    check(
        &canary(&[]),
        &["base and new are the same program with the same options", "`--new-option`"],
    );
    check(&canary(&["--new", "./x"]), &["kind `canary` is part of bakeoff", "NAME=VALUE"]);
    check(
        &canary(&["--new-option", "delayy=1ms"]),
        &["no option `delayy`", "did you mean `delay`?"],
    );
    check(&canary(&["--new-option", "delay=soon"]), &["`soon`"]);
    check(&canary(&["--new-option", "delay"]), &["write NAME=VALUE, such as `delay=2ms`"]);
    check(&["--system", "canry"], &["has no system `canry`", "did you mean `canary`?"]);
    let option = |more: &[&'static str]| canary(&[&["--new-option", "delay=1ms"], more].concat());
    check(
        &option(&["--fail-if", "work/none p99 > 5%"]),
        &["--fail-if: `work/none` is not in this gate; known: `work/load`", "^^^^^^^^^"],
    );
    check(&option(&["--fail-if", "throughput < 5"]), &["`5` is not a change"]);
    check(&option(&["--detect", "0%"]), &["it must be from 0.1% to 90%"]);
    check(&option(&["--trials", "2"]), &["2 is not in 3..=1000"]);
    assert!(bench.runs().is_empty());
    let etcd = Bench::new(&format!(
        "title: etcd\nsystems:\n  kv: {{kind: etcd}}\n  there: {{kind: etcd, endpoints: [\"http://127.0.0.1:1\"]}}\n\
         workloads:\n  work: {{mix: {{put: 1}}, keys: {{count: 100}}}}\n{LOADS}"
    ));
    let check = |arguments: &[&str], expected: &[&str]| {
        let ran = CommandOutput::run(&mut gate(&etcd, arguments));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        says(&ran.stderr, expected);
    };
    check(
        &["--system", "kv", "--base", "3.5", "--new", "newest"],
        &["--new `newest` is neither a program nor a version", "`./newest`"],
    );
    check(&["--system", "kv", "--new", "./etcd"], &["--new: program `./etcd` not found"]);
    check(&["--system", "kv", "--new", "consul@1.20"], &["a version of `consul`"]);
    check(&["--system", "kv", "--base", "3.5", "--new", "v3.5"], &["the same program"]);
    check(&["--system", "there", "--new", "3.5"], &["`there` runs already"]);
    let run = CommandOutput::run(bakeoff().args(["gate", "--resume", "/nowhere"])).ends_with(2);
    says(&run.stderr, &["cannot read `/nowhere`"]);
}

/// Returns the code blocks of this language in a document.
fn blocks(document: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    let parts = document.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Checks that the YAML files in the documents are valid and call bakeoff with existing options.
#[test]
fn documented_ci_files_are_valid_yaml() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ci.md");
    let document = std::fs::read_to_string(document).unwrap();
    // Blocks of `yaml` hold only studies, which other tests read.
    let studies = blocks(&document, "yaml");
    let files = [studies.as_slice(), &blocks(&document, "yml")].concat();
    assert_eq!((studies.len(), files.len()), (1, 3), "a study, GitHub's and GitLab's");
    let help = CommandOutput::run(bakeoff().args(["gate", "--help"])).ends_with(0).stdout;
    let mut calls = 0;
    for file in &files {
        let mut scalars = Vec::new();
        for event in Parser::new_from_str(file) {
            let (event, _) = event.unwrap_or_else(|error| panic!("{error}\n{file}"));
            if let Event::Scalar(value, ..) = event {
                scalars.push(value.into_owned());
            }
        }
        assert!(!scalars.is_empty());
        for call in scalars.iter().filter(|one| one.contains("bakeoff gate")) {
            calls += 1;
            for flag in call.split_whitespace().filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "`{flag}` is no flag of gate");
            }
        }
    }
    assert_eq!(calls, 1, "GitLab's");
    // GitHub's uses the action, whose script another test runs.
    let action = include_str!("../../../../action.yml");
    for input in ["study", "base", "new", "comment"] {
        assert!(files[1].contains(&format!("\n          {input}: ")), "{input}");
        assert!(action.contains(&format!("\n  {input}:\n")), "{input}");
    }
    // The study parses as it is.
    let bench = Bench::new(&files[0]);
    let ran =
        CommandOutput::run(&mut gate(&bench, &["--base", "./old", "--new", "./new"])).ends_with(2);
    says(&ran.stderr, &["--base: program `./old` not found"]);
    assert!(has("sh"));
}

#[test]
fn doubled_memory_fails_the_gate() {
    let bench = canaries();
    // Memory is read during the load, in windows far below the one-second samples.
    let builds = ["--base-option", "hold=64MiB", "--new-option", "hold=128MiB"];
    let asked = ["--system", "canary", "--trials", "6", "--fail-if", "memory > 50%"];
    let ran = CommandOutput::run(&mut gate(&bench, &[&builds[..], &asked].concat()));
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    says(&ran.stdout, &["stop: proven for the new build of canary: memory > 50%"]);
}
