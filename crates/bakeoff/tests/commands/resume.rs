//! Tests interrupted and resumed runs, and the list of stored runs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Bench, CommandOutput, array, bakeoff, record, skipped, text};

/// Two systems and two rounds of a second each.
const STUDY: &str = "\
title: Four trials
systems:
  one: {kind: canary, options: {sync: none, delay: 5ms}}
  two: {kind: canary, options: {sync: none, delay: 5ms}}
workloads:
  work: {mix: {put: 1}, keys: {count: 100}}
loads:
  load: {clients: 2, warmup: 0s, stop: {after: 900ms}}
trials: 2
";

/// Starts a run and stops it by a signal once it has a trial.
fn stopped_by(bench: &Bench, signal: Signal) -> (PathBuf, CommandOutput) {
    let child = begun(bench);
    let run = bench.has_trials(1);
    kill_process(Pid::from_child(&child), signal).unwrap();
    (run, CommandOutput::from_output(child.wait_with_output().unwrap()))
}

fn begun(bench: &Bench) -> Child {
    bench.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn resume(run: &Path) -> CommandOutput {
    CommandOutput::run(bakeoff().args(["run", "--json", "--resume"]).arg(run))
}

/// Resumes a run whose record this test has changed.
fn resume_changed(run: &Path) -> CommandOutput {
    CommandOutput::run(bakeoff().args(["run", "--json", "--trust", "--resume"]).arg(run))
}

/// Returns the trial numbers of a report, and whether it is complete.
fn trials(ran: &CommandOutput) -> (Vec<u64>, bool) {
    let report: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    let of = |system: &Value| -> Vec<u64> {
        array(&system["trials"]).iter().map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    let mut numbers: Vec<u64> =
        array(&report["comparisons"][0]["systems"]).iter().flat_map(of).collect();
    numbers.sort_unstable();
    (numbers, report["complete"] == true)
}

#[test]
fn interrupted_run_resumes_with_missing_trials() {
    let bench = Bench::new(STUDY);
    let (run, ran) = stopped_by(&bench, Signal::INT);
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    ran.complains(&["`bakeoff run --resume ", "runs the missing trials", " left)"]);
    let before = record(&run);
    let done = before.iter().filter(|line| line["outcome"]["ended"] == "completed").count();

    let ran = resume(&run).ends_with(0);
    assert_eq!(trials(&ran), (vec![1, 2, 3, 4], true));
    let resuming = format!("resuming with {} of 4 trials left", 4 - done);
    let ran = ran.complains(&[&resuming]);
    let ran = match ran.stderr.contains("not valid: ") {
        true => ran, // other work spoilt a trial, and without a valid one there is no finding
        false => ran.complains(&["work/load so far: "]),
    };
    let after = record(&run);
    assert_eq!(after[..before.len()], before, "earlier lines stay unchanged");
    assert_eq!(text(&after[before.len()]["line"]), "resumed");
    assert_eq!(after.len(), before.len() + 1 + (4 - done) + 1, "{}", ran.stderr);

    let again = resume(&run).ends_with(0);
    assert_eq!(record(&run), after, "nothing was missing");
    again.complains(&["no trials are missing in "]);
}

#[test]
fn killed_run_resumes_after_its_incomplete_line() {
    let bench = Bench::new(STUDY);
    let (run, _) = stopped_by(&bench, Signal::KILL);
    let file = run.join("record.jsonl");
    let mut torn = std::fs::read_to_string(&file).unwrap();
    torn.push_str("{\"line\":\"trial\",\"trial\":{\"num");
    std::fs::write(&file, torn).unwrap();
    let ran = resume(&run).ends_with(0);
    assert_eq!(trials(&ran), (vec![1, 2, 3, 4], true));
    ran.complains(&["record.jsonl` ended in an incomplete line, now removed"]);
}

#[test]
fn running_run_is_not_resumed() {
    let bench = Bench::new(STUDY);
    let mut child = begun(&bench);
    let run = bench.has_trials(1);
    resume(&run).ends_with(2).complains(&["is still running"]);
    assert!(history(&bench).contains(", in progress"), "{}", history(&bench));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
}

#[test]
fn trials_of_another_machine_are_not_added() {
    let bench = Bench::new(STUDY);
    let (run, _) = stopped_by(&bench, Signal::INT);
    let file = run.join("record.jsonl");
    let original = std::fs::read_to_string(&file).unwrap();
    let model = text(&record(&run)[0]["environment"]["cpu_model"]).to_owned();
    let version = original.replace("\"version\":\"", "\"version\":\"9.");
    std::fs::write(&file, version).unwrap();
    resume_changed(&run).ends_with(2).complains(&["one's version was 9."]);
    // The meaning of memory figures changed with the format.
    let format = original.replace("\"format\":1", "\"format\":0");
    std::fs::write(&file, format).unwrap();
    resume_changed(&run).ends_with(2).complains(&["the record's format was 0 and is 1"]);
    // Machines may change with `--trust`, and the report begins with that.
    std::fs::write(&file, original.replace(&model, "Another Processor")).unwrap();
    let ran = resume_changed(&run);
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let mixed = "this run mixes machines: the processor was Another Processor and is ";
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(text(&report["findings"][0]).starts_with(mixed), "{report}");
    ran.complains(&["this run mixes machines, as `--trust` allows"]);
}

#[test]
fn run_that_was_moved_to_another_disk_is_resumed_only_with_trust() {
    let bench = Bench::new(STUDY);
    let (run, _) = stopped_by(&bench, Signal::INT);
    let memory = tempfile::Builder::new().prefix("bakeoff-").tempdir_in("/dev/shm").unwrap();
    let moved = memory.path().join("run");
    let copied = Command::new("cp").arg("-a").arg(&run).arg(&moved).status().unwrap();
    assert!(copied.success());
    if text(&record(&run)[0]["environment"]["file_system"]) == "tmpfs" {
        skipped("the folder for temporary files is in memory already");
        return;
    }
    let why = ["the file system was ", " and is tmpfs", "`--trust` mixes machines"];
    resume(&moved).ends_with(2).complains(&why);
    let ran =
        CommandOutput::run(bakeoff().args(["run", "--trust", "--json", "--resume"]).arg(&moved));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(text(&report["findings"][0]).starts_with("this run mixes machines: "), "{report}");
    let verified = CommandOutput::run(bakeoff().arg("verify").arg(&moved)).ends_with(6);
    assert!(verified.stdout.starts_with("fails"), "{}", verified.stdout);
}

#[test]
fn unreadable_record_is_not_resumed() {
    let bench = Bench::new(STUDY);
    let (run, _) = stopped_by(&bench, Signal::INT);
    let file = run.join("record.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let spoilt = text.replacen("{\"line\":\"trial\"", "{\"line\":\"trail\"", 1);
    std::fs::write(&file, &spoilt).unwrap();
    resume(&run).ends_with(2).complains(&["record.jsonl`: line 2: not a line of a record"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), spoilt);
    resume(Path::new("/nowhere")).ends_with(2).complains(&["/nowhere"]);
    let both =
        CommandOutput::run(bakeoff().args(["run", "demo", "--resume"]).arg(&run)).ends_with(2);
    both.complains(&["cannot be used with"]);
}

fn history(bench: &Bench) -> String {
    CommandOutput::run(bakeoff().arg("history").arg("--out").arg(bench.out())).ends_with(0).stdout
}

#[test]
fn history_lists_runs_with_their_findings() {
    let bench = Bench::new(STUDY);
    let mut missing = bakeoff();
    let missing =
        CommandOutput::run(missing.arg("history").arg("--out").arg(bench.out())).ends_with(2);
    missing.complains(&["of --out is not a folder"]);
    std::fs::create_dir(bench.out()).unwrap();
    assert!(history(&bench).starts_with("no runs in "));
    let (run, _) = stopped_by(&bench, Signal::KILL);
    let listed = history(&bench);
    for part in ["study  1 of 4 trials, killed", "--resume ", "runs the missing trials"] {
        assert!(listed.contains(part), "{listed}");
    }
    resume(&run).ends_with(0);
    std::fs::create_dir_all(bench.out().join("spoilt")).unwrap();
    std::fs::write(bench.out().join("spoilt/record.jsonl"), "{}").unwrap();
    let ran =
        CommandOutput::run(bakeoff().arg("history").arg("--json").arg("--out").arg(bench.out()));
    let ran = ran.ends_with(0).complains(&["spoilt`: not a record of a run"]);
    let runs: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(array(&runs).len(), 1);
    assert_eq!((text(&runs[0]["state"]), &runs[0]["trials_run"]), ("complete", &4.into()));
    let report = std::fs::read_to_string(run.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(runs[0]["sentence"], report["verdict"]);
    assert!(text(&report["verdict"]).ends_with('.'), "{report}");
}

#[test]
fn history_prunes_logs_first_and_records_last() {
    let bench = Bench::new(STUDY);
    CommandOutput::run(bench.command().arg("--json")).ends_with(0);
    let run = bench.runs().remove(0);
    let prune = |arguments: &[&str]| {
        let mut command = bakeoff();
        command.arg("history").arg("--out").arg(bench.out()).args(arguments);
        CommandOutput::run(&mut command).ends_with(0).stdout
    };
    let dear = bench.path().join("dear");
    std::fs::create_dir(&dear).unwrap();
    std::fs::write(dear.join("file"), "dear").unwrap();
    std::os::unix::fs::symlink(&dear, run.join("trials/link")).unwrap();
    let listed = history(&bench);
    assert!(listed.contains("complete, ") && listed.contains(" KiB\n"), "{listed}");
    assert!(prune(&["--prune", "logs", "--older-than", "1h"]).contains("in 0 runs"));
    assert!(run.join("trials").exists());
    assert!(prune(&["--prune", "logs"]).ends_with(" in 1 run\n"));
    assert!(!run.join("trials").exists() && run.join("report.html").exists());
    assert!(history(&bench).contains("4 trials, complete"));
    std::os::unix::fs::symlink(&dear, run.join("kept")).unwrap();
    prune(&["--prune", "all"]);
    assert!(!run.exists());
    assert!(dear.join("file").exists(), "deletes a link, not its target");
}

#[test]
fn prune_deletes_neither_linked_runs_nor_files_of_others() {
    let bench = Bench::new(STUDY);
    CommandOutput::run(bench.command().arg("--json")).ends_with(0);
    let run = bench.runs().remove(0);
    let elsewhere = bench.path().join("elsewhere");
    std::fs::rename(&run, &elsewhere).unwrap();
    std::fs::write(elsewhere.join("thesis.tex"), "dear").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &run).unwrap();
    let prune = |what: &str| {
        let mut command = bakeoff();
        CommandOutput::run(command.args(["history", "--prune", what, "--out"]).arg(bench.out()))
            .ends_with(0)
    };
    for what in ["logs", "all"] {
        let ran = prune(what);
        assert!(ran.stdout.contains("in 0 runs"), "{}", ran.stdout);
        ran.complains(&["is a symbolic link; it stays"]);
    }
    let held = ["record.jsonl", "report.html", "trials", "thesis.tex"];
    assert!(held.iter().all(|name| elsewhere.join(name).exists()));
    std::fs::remove_file(&run).unwrap();
    std::fs::rename(&elsewhere, &run).unwrap();
    std::fs::write(run.join(".report.html.1-0.tmp"), "left by a kill").unwrap();
    prune("all").complains(&["stays: it holds `thesis.tex`"]);
    let left: Vec<_> =
        std::fs::read_dir(&run).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.tex"]);
}

#[test]
fn running_run_is_not_pruned() {
    let bench = Bench::new(STUDY);
    let mut child = begun(&bench);
    let run = bench.has_trials(1);
    let mut command = bakeoff();
    command.args(["history", "--prune", "all", "--out"]).arg(bench.out());
    assert!(CommandOutput::run(&mut command).ends_with(0).stdout.contains("in 0 runs"));
    assert!(run.join("record.jsonl").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
}

/// Returns a finished run whose record has a failed check in its first trial.
fn spoilt(bench: &Bench, check: &str) -> PathBuf {
    CommandOutput::run(&mut bench.command()).ends_with(0);
    let run = bench.runs().pop().expect("it left a run");
    let mut lines = record(&run);
    let checks = lines[1]["checks"].as_array_mut().unwrap();
    let found = checks.iter_mut().find(|one| one["name"] == check).expect("it is checked");
    found["verdict"] = serde_json::json!({"verdict": "failed", "why": "so"});
    let text: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(run.join("record.jsonl"), text.concat()).unwrap();
    run
}

#[test]
fn disturbed_round_is_repeated_on_resume() {
    let bench = Bench::new(STUDY);
    let run = spoilt(&bench, "neighbours");
    let ran = resume_changed(&run).ends_with(0);
    assert_eq!(trials(&ran), (vec![1, 2, 3, 4, 5, 6], true));
    let ran = ran.complains(&["1 extra round under work/load: neighbours disturbed round 1"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(report.to_string().contains("neighbours disturbed round 1"), "{report}");
    let lines = record(&run);
    let extended: Vec<&Value> = lines.iter().filter(|one| one["line"] == "extended").collect();
    let [extended] = &extended[..] else { panic!("{extended:?}") };
    let repeated = serde_json::json!(
        [{"workload": "work", "load": "load", "round": 0, "check": "neighbours"}]
    );
    assert_eq!(extended["repeats"], repeated);
    assert_eq!((&extended["trials"], &extended["before"]), (&2.into(), &2.into()));
    let order = array(&extended["order"]);
    let systems: Vec<&str> = order.iter().map(|trial| text(&trial["system"])).collect();
    assert!(systems.contains(&"one") && systems.contains(&"two") && order.len() == 2, "{order:?}");
    assert!(order.iter().all(|trial| trial["round"] == 2), "{order:?}");
    assert!(order[0]["seed"] != lines[1]["trial"]["seed"], "{order:?}");

    let again = resume_changed(&run).ends_with(0);
    assert_eq!(record(&run), lines, "the round was repeated already");
    again.complains(&["no trials are missing in "]);
    let verified = CommandOutput::run(bakeoff().arg("verify").arg(&run));
    assert!(verified.stdout.contains("6 of 6 trials"), "{verified:?}");
}

#[test]
fn round_with_a_failed_measurement_check_is_not_repeated() {
    let bench = Bench::new(STUDY);
    let run = spoilt(&bench, "timers");
    let before = record(&run);
    resume_changed(&run).ends_with(1).complains(&["no trials are missing in "]);
    assert_eq!(record(&run), before);
}

/// The study of a clear difference, in up to five rounds.
fn clear() -> String {
    STUDY
        .replace("none, delay: 5ms}}\nworkloads", "none, delay: 20ms}}\nworkloads")
        .replace("trials: 2", "trials: 5")
}

#[test]
fn run_stops_once_its_question_is_answered() {
    let bench = Bench::new(&clear());
    let ran = CommandOutput::run(bench.command().args(["--json", "--shared-machine"]));
    let report: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    let rounds = report["rounds"]["answered_after"].as_u64();
    let (numbers, complete) = trials(&ran);
    assert!(complete, "{}", ran.stderr);
    let Some(rounds) = rounds else {
        // A busy machine left too few valid trials.
        assert!(ran.code == Some(1) || numbers.len() > 10, "{}", ran.stderr);
        return;
    };
    assert!((3..5).contains(&rounds), "{rounds}");
    assert_eq!(numbers, Vec::from_iter(1..=2 * rounds), "two systems a round");
    let ran = ran.complains(&[&format!("stopping after {rounds} of up to 5 rounds")]);
    let run = bench.has_trials(6);
    CommandOutput::run(bakeoff().arg("verify").arg(&run)).ends_with(0);
    let before = record(&run);
    resume(&run).ends_with(ran.code.unwrap_or_default()).complains(&["no trials are missing in "]);
    assert_eq!(record(&run), before);
}

#[test]
fn number_of_trials_that_is_given_is_run() {
    let bench = Bench::new(&clear());
    let ran =
        CommandOutput::run(bench.command().args(["--json", "--shared-machine", "--trials", "4"]));
    let report: Value = serde_json::from_str(&ran.stdout).expect("one JSON document");
    assert_eq!(report["rounds"]["count"], "fixed");
    assert_eq!(trials(&ran).0.len(), 8, "{}", ran.stderr);
}
