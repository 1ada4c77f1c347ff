//! Tests runs from other users: records and folders made to harm their reader.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bakeoff_core::digest;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Bench, CommandOutput, array, bakeoff, text};

const STUDY: &str = "\
title: One short trial after the other
systems:
  one: {kind: canary, options: {sync: none}}
workloads:
  work: {mix: {put: 1}, keys: {count: 100}}
loads:
  load: {clients: 1, warmup: 0s, stop: {operations: 50}}
trials: 2
";

/// Returns a run that stopped before its second trial, in its own folder.
fn run() -> (tempfile::TempDir, PathBuf) {
    static RECORD: OnceLock<String> = OnceLock::new();
    let record = RECORD.get_or_init(|| {
        let bench = Bench::new(STUDY);
        CommandOutput::run(&mut bench.command()).ends_with(0);
        let text = fs::read_to_string(bench.runs()[0].join("record.jsonl")).unwrap();
        text.lines().take(2).map(|line| format!("{line}\n")).collect()
    });
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("record.jsonl"), record).unwrap();
    (dir, run)
}

/// Changes a line of a run's record.
fn alter(run: &Path, line: usize, change: impl FnOnce(&mut Value)) {
    let file = run.join("record.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(&mut lines[line]);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(file, text).unwrap();
}

/// Puts another study into a run's record, as its text and as what follows from that.
fn plant_study(run: &Path, text: &str) {
    let kinds = bakeoff_systems::kinds();
    alter(run, 0, |header| {
        let name = header["source"]["name"].as_str().unwrap().to_owned();
        if let Ok(study) = bakeoff_core::study::parse(&name, &name, text, &kinds) {
            header["study"] = json!(study);
        }
        header["source"]["text"] = json!(text);
        header["source"]["sha256"] = json!(digest::sha256(text.as_bytes()));
    });
}

fn report(run: &Path) -> CommandOutput {
    CommandOutput::run(bakeoff().arg("report").arg(run))
}

fn resume(run: &Path) -> CommandOutput {
    CommandOutput::run(bakeoff().args(["run", "--resume"]).arg(run))
}

/// Resumes a run as its user's own.
fn resume_trusted(run: &Path) -> CommandOutput {
    CommandOutput::run(bakeoff().args(["run", "--trust", "--resume"]).arg(run))
}

#[test]
fn report_does_not_write_through_a_link() {
    let (dir, run) = run();
    let dear = dir.path().join("dear");
    fs::write(&dear, "keep me").unwrap();
    symlink(&dear, run.join("report.html")).unwrap();
    report(&run).ends_with(0);
    assert_eq!(fs::read_to_string(&dear).unwrap(), "keep me");
    let page = run.join("report.html");
    assert!(!page.is_symlink());
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn run_folder_with_links_is_not_resumed() {
    let (dir, run) = run();
    let outside = dir.path().join("outside");
    fs::create_dir_all(outside.join("02-one-work-load")).unwrap();
    symlink(&outside, run.join("trials")).unwrap();
    resume(&run).ends_with(2).complains(&["trials` is a symbolic link, which no run has"]);
    assert!(outside.join("02-one-work-load").exists());
    fs::remove_file(run.join("trials")).unwrap();
    let record = run.join("record.jsonl");
    fs::rename(&record, dir.path().join("record")).unwrap();
    symlink(dir.path().join("record"), &record).unwrap();
    resume(&run).ends_with(2).complains(&["cannot open", "record.jsonl"]);
    report(&run).ends_with(0);
}

#[test]
fn run_folder_belongs_to_its_owner() {
    let bench = Bench::new(STUDY);
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let run = &bench.runs()[0];
    let mut folders = vec![run.clone()];
    while let Some(folder) = folders.pop() {
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => assert_eq!(mode(&path), 0o600, "{}", path.display()),
            }
        }
    }
}

#[test]
fn rejects_a_histogram_that_demands_memory() {
    let (_dir, run) = run();
    // A V2 encoding without counts whose header announces 4 GiB of them.
    let hdr = "HISTFAAAACB4nJNpmSz8HwgYIIAZSjMCmW4GOxYw2H+ACAAA168IRw==";
    alter(&run, 1, |trial| {
        trial["stages"][0]["measurement"]["schedule_lag"] = json!({ "hdr": hdr });
    });
    let ran = CommandOutput::run(
        std::process::Command::new("sh")
            .args(["-c", "ulimit -v 2000000 && exec \"$0\" report \"$1\""])
            .arg(env!("CARGO_BIN_EXE_bakeoff"))
            .arg(&run),
    );
    ran.ends_with(0).complains(&["line 2: not a line of a record: not a histogram of latencies"]);
}

/// Runs a command on a run. Returns its exit code and the most memory that it had, in MiB.
fn memory_of(command: &[&str], run: &Path) -> (Option<i32>, u64) {
    let null = std::process::Stdio::null;
    let mut bakeoff = bakeoff();
    let mut child = bakeoff.args(command).arg(run).stdout(null()).stderr(null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let ended = child.try_wait().unwrap();
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(kib.unwrap_or(0));
        if let Some(ended) = ended {
            return (ended.code(), most >> 10);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn no_record_needs_much_more_memory_than_its_size() {
    let many = |value: &Value, count: usize| json!(vec![value; count]);
    let bare = |trial: &Value| {
        let mut stage = trial["stages"][0].clone();
        let measured = stage["measurement"].as_object_mut().unwrap();
        measured["operations"] = json!({});
        measured["seconds"] = json!([]);
        stage
    };
    type Alteration<'a> = &'a dyn Fn(&mut Value);
    let cases: [(&str, Alteration<'_>); 6] = [
        ("stages", &|trial| trial["stages"] = many(&bare(trial), 20_000)),
        ("operations", &|trial| {
            let mut stage = trial["stages"][0].take();
            stage["measurement"]["seconds"] = json!([]);
            trial["stages"] = many(&stage, 8000);
        }),
        ("seconds", &|trial| {
            let seconds = &mut trial["stages"][0]["measurement"]["seconds"];
            *seconds = many(&seconds[0], 100_000);
        }),
        ("checks", &|trial| trial["checks"] = many(&trial["checks"][0], 100_000)),
        ("audits", &|trial| trial["audits"] = many(&trial["audits"][0], 100_000)),
        ("numbers", &|trial| {
            let node = &mut trial["observed"]["nodes"][0];
            node["at"] = many(&json!(0), 250_000);
            for column in node["columns"].as_object_mut().unwrap().values_mut() {
                *column = many(&json!(0), 250_000);
            }
        }),
    ];
    for (name, change) in cases {
        let (_dir, run) = run();
        alter(&run, 1, change);
        let size = fs::metadata(run.join("record.jsonl")).unwrap().len() >> 20;
        for command in [&["verify"][..], &["report", "--format", "html"]] {
            let (code, mebibytes) = memory_of(command, &run);
            assert!(code.is_some_and(|code| code <= 6), "{name}: {code:?}");
            assert!(mebibytes <= 512 + 2 * size, "{name}: {mebibytes} MiB of {size} MiB");
        }
    }
}

#[test]
fn ordinary_trials_need_little_memory() {
    let (_dir, run) = run();
    let file = run.join("record.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let trial = text.lines().nth(1).unwrap();
    let more = (1..300).map(|number| {
        let mut trial: Value = serde_json::from_str(trial).unwrap();
        trial["trial"]["number"] = json!(number);
        format!("{trial}\n")
    });
    fs::write(&file, more.fold(text.clone(), |all, line| all + &line)).unwrap();
    let (code, mebibytes) = memory_of(&["report"], &run);
    assert_eq!(code, Some(0));
    // Each trial has eight histograms, of 280 KB each once they are decoded.
    assert!((10..400).contains(&mebibytes), "{mebibytes} MiB");
}

#[test]
fn rejects_impossible_numbers() {
    for (field, number) in [
        ("window", json!(1e12)),
        ("warmup_operations", json!(u64::MAX)),
        ("generator_threads", json!(u32::MAX)),
        ("disconnected", json!(-1)),
    ] {
        let (_dir, run) = run();
        alter(&run, 1, |trial| trial["stages"][0]["measurement"][field] = number);
        report(&run).ends_with(0).complains(&["line 2: not a line of a record: "]);
    }
    let (_dir, run) = run();
    alter(&run, 0, |header| {
        let system = header["study"]["systems"][0].clone();
        header["study"]["systems"] = json!(vec![system; 5000]);
    });
    let why = "the study has 5000 systems, and at most 64 are possible";
    report(&run).ends_with(2).complains(&[why]);
    let (_dir, run) = self::run();
    alter(&run, 0, |header| header["study"]["trials"] = json!(100_001));
    let why = "the study has 100001 planned trials, and at most 100000 are possible";
    report(&run).ends_with(2).complains(&[why]);
    let (_dir, run) = self::run();
    alter(&run, 0, |header| header["study"]["trials"] = json!(u32::MAX));
    report(&run).ends_with(2).complains(&["`trials` is 4294967295, and at most 100000000"]);
}

#[test]
fn altered_study_or_order_is_not_resumed() {
    let (dir, run) = run();
    let dear = dir.path().join("dear");
    fs::create_dir(&dear).unwrap();
    alter(&run, 0, |header| {
        header["study"]["systems"][0]["name"] = json!("x/../../../dear");
        header["order"][1]["system"] = json!("x/../../../dear");
    });
    resume_trusted(&run).ends_with(2).complains(&["does not follow from its text"]);
    plant_study(&run, &STUDY.replace("one:", "x/../../../dear:"));
    resume_trusted(&run).ends_with(2).complains(&["x/../../../dear"]);
    assert!(dear.exists());

    let (_dir, run) = self::run();
    alter(&run, 0, |header| header["order"][1]["system"] = json!("two"));
    resume_trusted(&run).ends_with(2).complains(&["does not follow from its study and seed"]);

    let (_dir, run) = self::run();
    plant_study(&run, &STUDY.replace("clients: 1", "clients: 2000000"));
    resume_trusted(&run).ends_with(2).complains(&["2000000", "clients"]);
}

#[test]
fn recorded_program_is_verified_before_execution() {
    let (dir, run) = run();
    let (program, mark) = (dir.path().join("etcd"), dir.path().join("executed"));
    let script = format!("#!/bin/sh\ntouch {}\necho 'etcd Version: 3.5.0'\n", mark.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let system = format!("kind: etcd, program: {}", program.display());
    plant_study(&run, &STUDY.replace("kind: canary, options: {sync: none}", &system));
    alter(&run, 0, |header| header["systems"][0]["sha256"] = json!("0".repeat(64)));
    resume_trusted(&run).ends_with(2).complains(&["SHA-256", "it was not executed"]);
    assert!(!mark.exists());
}

#[test]
fn writable_run_is_resumed_only_with_trust() {
    let (_dir, run) = run();
    let record = run.join("record.jsonl");
    fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
    resume(&run).ends_with(2).complains(&["can be written by other users", "--trust"]);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&record, Some(65534), Some(65534)).unwrap();
        resume(&run).ends_with(2).complains(&["belongs to the user with ID 65534", "--trust"]);
    }
    CommandOutput::run(bakeoff().args(["run", "--trust", "--resume"]).arg(&run)).ends_with(0);
}

/// Turns the system into a shell command that leaves a mark. Returns the mark's path.
fn plant(dir: &Path, run: &Path) -> PathBuf {
    let mark = dir.join("executed");
    let shell = sha256(Path::new("/bin/sh"));
    let command = format!("[/bin/sh, -c, touch {}, \"{{port}}\"]", mark.display());
    let system = format!("kind: process, process: {{command: {command}}}");
    let study = STUDY
        .replace("kind: canary, options: {sync: none}", &system)
        .replace("mix: {put: 1}, keys: {count: 100}", "mix: {request: 1}, request: {path: /}");
    plant_study(run, &study);
    alter(run, 0, |header| {
        header["systems"][0]["kind"] = json!("process");
        header["systems"][0]["sha256"] = json!(shell);
    });
    mark
}

fn sha256(file: &Path) -> String {
    digest::sha256(&fs::read(file).unwrap())
}

#[test]
fn record_of_others_executes_nothing_without_trust() {
    // The user downloaded it, so owner and mode are the user's.
    let (dir, run) = run();
    let mark = plant(dir.path(), &run);
    let out = dir.path().join("out");
    let reproduce = |options: &[&str]| {
        let mut command = bakeoff();
        command.arg("reproduce").arg(run.join("record.jsonl")).arg("--out").arg(&out).args(options);
        CommandOutput::run(&mut command)
    };
    let listed = format!("one: /bin/sh -c 'touch {}' {{port}}", mark.display());
    for ran in [reproduce(&[]), resume(&run)] {
        let ran = ran.ends_with(2);
        ran.complains(&[
            "did not write",
            "or it was changed",
            "nothing was executed",
            &listed,
            "--trust",
        ]);
    }
    assert!(!mark.exists() && !out.exists());
    // Its programs must have the recorded hash even then.
    alter(&run, 0, |header| header["systems"][0]["sha256"] = json!("0".repeat(64)));
    let ran = reproduce(&["--trust"]).ends_with(2);
    ran.complains(&["it is trusted", &listed, "SHA-256", "it was not executed"]);
    assert!(!mark.exists() && !out.exists());
    alter(&run, 0, |header| header["systems"][0]["sha256"] = json!(sha256(Path::new("/bin/sh"))));
    reproduce(&["--trust"]);
    assert!(mark.exists(), "as the user asked");
}

#[test]
fn own_record_is_resumed_from_anywhere_but_not_if_changed() {
    let (dir, run) = run();
    let away = dir.path().join("away");
    fs::create_dir(&away).unwrap();
    fs::copy(run.join("record.jsonl"), away.join("record.jsonl")).unwrap();
    fs::set_permissions(&away, fs::Permissions::from_mode(0o700)).unwrap();
    let record = fs::read_to_string(away.join("record.jsonl")).unwrap();
    fs::write(away.join("record.jsonl"), record.replacen("\"title\":\"One", "\"title\":\"Two", 1))
        .unwrap();
    resume(&away).ends_with(2).complains(&["did not write", "one: canary, part of bakeoff"]);
    fs::write(away.join("record.jsonl"), record).unwrap();
    // Another user has another key.
    let state = dir.path().join("state");
    let mut other = bakeoff();
    other.env("XDG_STATE_HOME", &state).args(["run", "--resume"]).arg(&away);
    CommandOutput::run(&mut other).ends_with(2).complains(&["did not write"]);
    resume(&away).ends_with(0);
    resume(&run).ends_with(0);
}

/// Replaces a file of a run's folder by something that is no file.
fn special(run: &Path, name: &str, kind: &str) {
    let path = run.join(name);
    fs::remove_file(&path).unwrap();
    match kind {
        "pipe" => {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        }
        device => symlink(device, &path).unwrap(),
    }
}

#[test]
fn nothing_but_files_of_a_run_is_read() {
    for kind in ["pipe", "/dev/zero"] {
        let (_bench, run) = whole_run();
        for name in ["report.html", "report.csv", "report.md", "report.json", "report.png"] {
            special(&run, name, kind);
        }
        let (found, code, _) = verified(&run, &[]);
        assert_eq!(code, Some(0), "{kind}: {found:?}");
        let unknown = found.iter().filter(|(_, outcome)| *outcome == "cannot tell");
        assert_eq!(unknown.count(), 5, "{kind}: {found:?}");
        let runs = run.parent().unwrap();
        let listed =
            CommandOutput::run(bakeoff().args(["history", "--out"]).arg(runs)).ends_with(0);
        assert!(listed.stdout.contains("2 trials, complete"), "{}", listed.stdout);
        special(&run, "record.jsonl", kind);
        let run_text = run.to_str().unwrap();
        let elsewhere = run.with_file_name("site");
        for words in [
            &["report", run_text][..],
            &["verify", run_text],
            &["compare", run_text, run_text],
            &["reproduce", run_text],
            &["reproduce", run_text, "--with", run_text],
            &["run", "--resume", run_text],
            &["gate", "--resume", run_text],
            &["site", run_text, "--out", elsewhere.to_str().unwrap()],
            &["run", &format!("{run_text}/record.jsonl")],
            &["doctor", "--on", &format!("{run_text}/record.jsonl")],
            &["load", "--targets", &format!("{run_text}/record.jsonl")],
            &["wrk", "-s", &format!("{run_text}/record.jsonl"), "http://127.0.0.1:1/"],
            &["hey", "-D", &format!("{run_text}/record.jsonl"), "http://127.0.0.1:1/"],
            &["vault-benchmark", "run", &format!("-config={run_text}/record.jsonl")],
            &["dbtester", "analyze", "--config", &format!("{run_text}/record.jsonl")],
        ] {
            let ran = CommandOutput::run(bakeoff().args(words));
            assert_ne!(ran.code, Some(0), "{kind} {words:?}: {}", ran.stdout);
            let said = ["not a regular file", "no run in", "symbolic links"];
            let is_said = said.iter().any(|said| ran.stderr.contains(said));
            assert!(is_said, "{kind} {words:?}: {}", ran.stderr);
        }
        let listed =
            CommandOutput::run(bakeoff().args(["history", "--out"]).arg(runs)).ends_with(0);
        assert!(listed.stdout.contains("no runs"), "{}", listed.stdout);
    }
}

#[test]
fn commands_that_only_read_end_with_a_signal() {
    use std::os::unix::process::ExitStatusExt as _;
    // A pipe that the user named keeps the command reading until its writer ends.
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        for words in [&["verify"][..], &["report"], &["compare", "/dev/stdin"]] {
            let mut command = bakeoff();
            command.args(words).arg("/dev/stdin").stdin(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            // It has begun once it takes more than the pipe holds.
            std::io::Write::write_all(&mut stdin, &vec![b' '; 1 << 20]).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            let ended = child.wait().unwrap();
            assert_eq!(ended.signal(), Some(signal.as_raw()), "{words:?}");
        }
    }
}

#[test]
fn record_texts_are_escaped_in_every_format() {
    let (dir, run) = run();
    let evil = "=cmd()\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}@everyone https://evil.example";
    alter(&run, 0, |header| {
        header["study"]["title"] = json!(evil);
        header["study"]["name"] = json!(evil);
        header["started"] = json!(evil);
        header["environment"]["cpu_model"] = json!(evil);
        header["systems"][0]["version"] = json!(evil);
    });
    alter(&run, 1, |trial| trial["outcome"] = json!({"ended": "failed", "why": evil}));
    let harmful = |text: &str| {
        let found = text.replace("\r\n", "\n");
        found.contains(|c: char| c != '\n' && c != '\t' && bakeoff_core::units::is_harmful(c))
    };
    for form in ["terminal", "markdown", "csv", "json", "html"] {
        let ran = CommandOutput::run(bakeoff().arg("report").arg(&run).args(["--format", form]))
            .ends_with(0);
        assert!(ran.stdout.len() > 100, "{form}");
        assert!(!harmful(&ran.stdout), "{form}: {:?}", ran.stdout);
        assert!(!harmful(&ran.stderr), "{form}: {:?}", ran.stderr);
        match form {
            "markdown" => {
                assert!(!ran.stdout.contains("@everyone") && !ran.stdout.contains("https://evil"));
            }
            "csv" => {
                let cells = ran.stdout.split([',', '\n']).map(|cell| cell.trim_start_matches('"'));
                assert_eq!(cells.filter(|cell| cell.starts_with(['=', '@', '+'])).count(), 0);
            }
            _ => {}
        }
    }
    let history =
        CommandOutput::run(bakeoff().args(["history", "--out"]).arg(dir.path())).ends_with(0);
    assert!(!harmful(&history.stdout) && !harmful(&history.stderr), "{}", history.stdout);
}

#[test]
fn study_texts_reach_no_terminal_raw() {
    let title = "One short trial \\e[31mred\\e[2J\\e]0;owned\\a";
    let bench = Bench::new(
        &STUDY.replace("title: One short trial after the other", &format!("title: \"{title}\"")),
    );
    let run = CommandOutput::run(&mut bench.command()).ends_with(0);
    let study = bench.path().join("study.yaml");
    let history =
        CommandOutput::run(bakeoff().args(["history", "--out"]).arg(bench.out())).ends_with(0);
    let doctor = CommandOutput::run(bakeoff().arg("doctor").arg(&study));
    let folder = bench.runs()[0].clone();
    let gate = CommandOutput::run(bakeoff().arg("compare").arg(&folder).arg(&folder)).ends_with(0);
    for ran in [run, history, doctor, gate] {
        for text in [&ran.stdout, &ran.stderr] {
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }
}

#[test]
fn files_of_commands_that_every_user_can_write_are_reported() {
    let bench = Bench::new(STUDY);
    let study = bench.path().join("study.yaml");
    let warned = "can be written by every user, and bakeoff executes the commands in it";
    let doctor = || CommandOutput::run(bakeoff().arg("doctor").arg(&study));
    assert!(!doctor().stderr.contains(warned));
    fs::set_permissions(&study, fs::Permissions::from_mode(0o666)).unwrap();
    doctor().complains(&[warned]);
    let places = bench.path().join("places.yaml");
    let text = "machines: {h: {ssh: h, address: 198.18.0.9, servers: true, generator: true}}\n\
                ssh: [\"-oProxyCommand=false; true\"]\n";
    fs::write(&places, text).unwrap();
    fs::set_permissions(&places, fs::Permissions::from_mode(0o666)).unwrap();
    let ran = CommandOutput::run(bakeoff().arg("doctor").arg(&study).arg("--on").arg(&places));
    ran.complains(&[
        warned,
        "adds options to `ssh`, which may execute commands: -oProxyCommand=false; true",
    ]);
}

/// Returns a complete run with its reports, in its own folder.
fn whole_run() -> (Bench, PathBuf) {
    let bench = Bench::new(STUDY);
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let run = bench.runs()[0].clone();
    (bench, run)
}

/// Returns the findings of `bakeoff verify`, by name, with its exit code and the record's head.
fn verified(run: &Path, arguments: &[&str]) -> (BTreeMap<String, String>, Option<i32>, String) {
    let ran = CommandOutput::run(bakeoff().arg("verify").arg(run).arg("--json").args(arguments));
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let each = array(&found["verified"]).iter();
    let each = each.map(|one| (text(&one["what"]).to_owned(), text(&one["outcome"]).to_owned()));
    (each.collect(), ran.code, text(&found["head"]).to_owned())
}

#[test]
fn altered_record_does_not_verify() {
    let (_bench, run) = whole_run();
    let (found, code, head) = verified(&run, &[]);
    assert!(found.values().all(|outcome| outcome == "holds"), "{found:?}");
    assert_eq!((found.len(), code), (9, Some(0)));
    assert_eq!(verified(&run, &["--head", &head]).1, Some(0));
    let file = run.join("record.jsonl");
    let record = fs::read_to_string(&file).unwrap();
    let fails = |changed: &str, expected: &[&str]| {
        fs::write(&file, changed).unwrap();
        let (found, code, _) = verified(&run, &["--head", &head]);
        let failing: Vec<&str> =
            found.iter().filter(|(_, one)| *one == "fails").map(|(what, _)| &**what).collect();
        for what in expected {
            assert!(failing.contains(what), "{what} is not in {failing:?}");
        }
        assert_eq!(code, Some(6));
    };
    assert!(record.contains("\"verified\":50,"));
    fails(
        &record.replacen("\"verified\":50,", "\"verified\":55,", 1),
        &["lines", "counts", "report.html"],
    );
    // Other commands warn.
    let run_text = run.to_str().unwrap();
    for words in [
        &["report", run_text, "--format", "json"][..],
        &["compare", run_text, run_text],
        &["reproduce", run_text, "--with", run_text],
    ] {
        let ran = CommandOutput::run(bakeoff().args(words));
        assert!(ran.stderr.contains("is inconsistent"), "{words:?}: {}", ran.stderr);
    }
    let runs = run.parent().unwrap().to_str().unwrap();
    let folder = CommandOutput::run(bakeoff().args(["report", runs])).ends_with(2);
    folder.complains(&["is a folder of runs", "is the newest"]);
    let listed = || CommandOutput::run(bakeoff().args(["history", "--out", runs])).stdout;
    assert!(listed().contains("changed after it was written"), "{}", listed());
    let lines: Vec<&str> = record.lines().collect();
    let without = |place: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != place);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    fails(&without(1), &["lines", "report.md"]);
    // Only `--head` notices a missing last line.
    fails(&without(lines.len() - 1), &["head"]);
    let passed = "\"name\":\"errors\",\"verdict\":{\"verdict\":\"passed\"";
    assert!(record.contains(passed));
    let failed = passed.replace("passed\"", "failed\",\"why\":\"x\"");
    fails(&record.replacen(passed, &failed, 1), &["lines", "checks"]);
    let seed = "\"seed\":7,";
    assert!(record.contains(seed));
    fails(&record.replacen(seed, "\"seed\":8,", 1), &["lines", "trials"]);
    fs::write(&file, &record).unwrap();
    assert!(!listed().contains("altered"), "{}", listed());
    assert_eq!(verified(&run, &[]).1, Some(0));
    fs::write(run.join("report.md"), "# A better report\n").unwrap();
    let (found, code, _) = verified(&run, &[]);
    assert_eq!((found["report.md"].as_str(), found["report.html"].as_str()), ("fails", "holds"));
    assert_eq!(code, Some(6));
}

#[test]
fn resumed_run_verifies() {
    let (_dir, run) = run();
    resume(&run).ends_with(0);
    let (found, code, _) = verified(&run, &[]);
    assert_eq!((found["lines"].as_str(), code), ("holds", Some(0)), "{found:?}");
}

#[test]
fn compressed_record_is_read_but_not_continued() {
    let (_dir, run) = run();
    let plain = run.join("record.jsonl");
    let shown = report(&run).ends_with(0).stdout;
    let compressed = run.join("record.jsonl.gz");
    let mut packer = GzEncoder::new(fs::File::create(&compressed).unwrap(), Compression::best());
    std::io::copy(&mut fs::File::open(&plain).unwrap(), &mut packer).unwrap();
    packer.finish().unwrap();
    fs::remove_file(&plain).unwrap();

    assert_eq!(report(&run).ends_with(0).stdout, shown);
    assert_eq!(report(&compressed).ends_with(0).stdout, shown);
    let runs = run.parent().unwrap();
    let listed = CommandOutput::run(bakeoff().arg("history").arg("--out").arg(runs)).ends_with(0);
    assert!(listed.stdout.contains("1 of 2 trials"), "{}", listed.stdout);
    let site = runs.join("site");
    CommandOutput::run(bakeoff().arg("site").arg(runs).arg("--out").arg(&site)).ends_with(0);
    assert!(site.join("runs/run/record.jsonl").is_file());

    let refused = resume_trusted(&run).ends_with(2);
    assert!(
        refused.stderr.contains("is compressed, so nothing can be added"),
        "{}",
        refused.stderr
    );
    // What counts is the content, not the name.
    let mut bytes = fs::read(&compressed).unwrap();
    fs::write(&plain, &bytes).unwrap();
    let refused = resume_trusted(&plain).ends_with(2);
    assert!(
        refused.stderr.contains("is compressed, so nothing can be added"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(&plain).unwrap(), bytes, "it is unchanged");
    fs::remove_file(&plain).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&compressed, bytes).unwrap();
    let refused = report(&run).ends_with(2);
    assert!(
        refused.stderr.contains("cannot read") && refused.stderr.contains("record.jsonl.gz"),
        "{}",
        refused.stderr
    );
}
