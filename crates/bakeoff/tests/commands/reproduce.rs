//! Tests `bakeoff reproduce`: claims that are replicated, contradicted or left open.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Bench, CommandOutput, array, bakeoff, text};

fn study(one: &str, other: &str) -> String {
    format!(
        "title: Two servers\n\
         systems:\n  one: {{kind: canary, options: {{{one}}}}}\n  other: {{kind: canary, options: {{{other}}}}}\n\
         workloads:\n  work: {{mix: {{put: 1}}, keys: {{count: 500, order: unique}}}}\n\
         loads:\n  load: {{clients: 2, warmup: 0s, stop: {{operations: 300}}}}\n\
         trials: 5\n"
    )
}

const SLOW: &str = "sync: none, delay: 3ms";
const FAST: &str = "sync: none";

/// Runs a study; its trials may fail.
fn run(study: &str) -> (Bench, PathBuf) {
    let bench = Bench::new(study);
    CommandOutput::run(&mut bench.command());
    let run = bench.runs()[0].clone();
    (bench, run)
}

/// Returns a run in which `other` is much faster.
fn claiming() -> &'static Path {
    static RUN: OnceLock<(Bench, PathBuf)> = OnceLock::new();
    &RUN.get_or_init(|| run(&study(SLOW, FAST))).1
}

/// Returns the outcomes of claims about throughput and about audits, and the exit code.
fn asked(with: &Path) -> (Vec<String>, Vec<String>, Option<i32>) {
    let ran = CommandOutput::run(
        bakeoff().arg("reproduce").arg(claiming()).arg("--with").arg(with).arg("--json"),
    );
    let found: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
    let outcomes = |words: &str| {
        let of = array(&found["claims"]).iter().filter(|one| text(&one["claim"]).contains(words));
        of.map(|one| text(&one["outcome"]).to_owned()).collect()
    };
    (outcomes("'s throughput was"), outcomes("audits passed"), ran.code)
}

#[test]
fn opposite_finding_contradicts_a_claim() {
    let (_bench, turned) = run(&study(FAST, SLOW));
    let (throughput, audits, code) = asked(&turned);
    assert_eq!(throughput, ["contradicted"]);
    assert_eq!(audits, ["replicated", "replicated"]);
    assert_eq!(code, Some(6));
}

#[test]
fn missing_difference_and_lost_writes_contradict_claims() {
    let (_bench, alike) = run(&study(FAST, "sync: none, lose: 3%"));
    let (throughput, audits, code) = asked(&alike);
    // Trials with failed audits are invalid, so nothing is compared.
    assert_eq!(throughput, ["cannot tell"]);
    assert_eq!(audits, ["replicated", "contradicted"]);
    assert_eq!(code, Some(6));
    // Equal servers differ by chance in 1 of 20 runs, and in half of those as claimed.
    let contradicted = || {
        let (_bench, alike) = run(&study(FAST, FAST));
        let (throughput, audits, code) = asked(&alike);
        assert_eq!(audits, ["replicated", "replicated"]);
        throughput == ["contradicted"] && code == Some(6)
    };
    assert!((0..3).any(|_| contradicted()), "in none of three runs");
}

#[test]
fn recorded_study_is_repeated_with_its_seed() {
    let there = tempfile::tempdir().unwrap();
    let file = there.path().join("theirs.jsonl");
    fs::copy(claiming().join("record.jsonl"), &file).unwrap();
    let reproduce = || {
        let mut command = bakeoff();
        command.arg("reproduce").arg(&file).arg("--out").arg(there.path().join("runs"));
        command
    };
    // Another user could have written it.
    fs::set_permissions(there.path(), fs::Permissions::from_mode(0o777)).unwrap();
    CommandOutput::run(&mut reproduce())
        .ends_with(2)
        .complains(&["can be written by other users", "--trust"]);
    assert!(!there.path().join("runs").exists());
    let ran = CommandOutput::run(reproduce().arg("--trust"));
    assert!(matches!(ran.code, Some(0 | 7)), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("replicated"), "{}", ran.stdout);
    let runs: Vec<_> = fs::read_dir(there.path().join("runs")).unwrap().flatten().collect();
    let here = runs[0].path();
    let header = |record: &Path| -> Value {
        let record = fs::read_to_string(record).unwrap();
        serde_json::from_str(record.lines().next().unwrap()).unwrap()
    };
    let (theirs, ours) = (header(&file), header(&here.join("record.jsonl")));
    for field in ["seed", "order", "study"] {
        assert_eq!(theirs[field], ours[field], "{field}");
    }
    let answer = fs::read_to_string(here.join("reproduction.json")).unwrap();
    assert!(answer.contains("\"claims\""), "{answer}");
}

#[test]
fn rejects_a_run_of_another_study() {
    let other = study(FAST, FAST).replace("Two servers", "Two other servers");
    let (_bench, other) = run(&other.replace("trials: 5", "trials: 1"));
    fs::rename(other.join("record.jsonl"), other.join("record")).unwrap();
    let record = fs::read_to_string(other.join("record")).unwrap();
    let renamed = record.replacen("\"name\":\"study\"", "\"name\":\"another\"", 1);
    assert_ne!(record, renamed);
    fs::write(other.join("record.jsonl"), renamed).unwrap();
    let ran =
        CommandOutput::run(bakeoff().arg("reproduce").arg(claiming()).arg("--with").arg(&other));
    ran.ends_with(2).complains(&["ran different studies", "bakeoff compare"]);
}

/// A study whose quick form is cheap, and whose other parts would take hours.
const LONG: &str = "\
title: Two servers
systems:
  one: {kind: canary, options: {sync: none}}
  other: {kind: canary, options: {sync: none}}
  third: {kind: canary, options: {sync: none}}
workloads:
  side: {mix: {put: 1}, keys: {count: 500}, loads: [long]}
  work: {mix: {put: 1}, keys: {count: 500}, systems: [one, other], loads: [load]}
loads:
  long: {clients: 2, stop: {after: 10h}}
  load: {clients: 2, stop: {after: 10h}}
question: work/load
quick: {loads: {load: {warmup: 0s, stop: {operations: 300}}}}
trials: 7
";

#[test]
fn quick_form_is_marked_recorded_and_repeated() {
    let run = Bench::new(LONG).run_with(&["--quick", "--trials", "1"]);
    assert!(run.ran.stderr.contains("Two servers (quick form): 2 trials"), "{}", run.ran.stderr);
    assert_eq!((&run.report["quick"], &run.report["trials_run"]), (&true.into(), &2.into()));
    assert_eq!(run.report["title"], "Two servers (quick form)");
    let header = |record: &Path| -> Value {
        let record = fs::read_to_string(record.join("record.jsonl")).unwrap();
        serde_json::from_str(record.lines().next().unwrap()).unwrap()
    };
    let there = run.bench.runs()[0].clone();
    let theirs = header(&there);
    let study = &theirs["study"];
    assert_eq!((&study["is_quick"], &study["trials"]), (&true.into(), &1.into()));
    assert_eq!(study["quick"], Value::Null);
    let names = |part: &str| -> Vec<String> {
        array(&study[part]).iter().map(|one| text(&one["name"]).to_owned()).collect()
    };
    assert_eq!(names("systems"), ["one", "other"]);
    assert_eq!((names("workloads"), names("loads")), (vec!["work".into()], vec!["load".into()]));
    let history =
        CommandOutput::run(bakeoff().args(["history", "--out"]).arg(run.bench.out())).ends_with(0);
    assert!(history.stdout.contains("study (quick form)"), "{}", history.stdout);

    let out = run.bench.path().join("again");
    let again = CommandOutput::run(bakeoff().arg("reproduce").arg(&there).arg("--out").arg(&out));
    assert!(matches!(again.code, Some(0 | 7)), "{}\n{}", again.stdout, again.stderr);
    let here = fs::read_dir(&out).unwrap().flatten().next().expect("a run").path();
    assert_eq!(header(&here)["study"], *study);
}
