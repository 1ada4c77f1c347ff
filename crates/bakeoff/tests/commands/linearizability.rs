//! Tests the linearizability check against canaries that violate it in each known way, and against honest ones.
//!
//! One run has all violators next to honest canaries, so the check must name the right ones.
//!
//! Not here: judging a history (`bakeoff_core::linearizability`), porcupine's verdicts (`tests/servers/porcupine`).

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::schema;
use crate::support::{
    Bench, CommandOutput, NETWORKS, array, bakeoff, can_refuse_namespaces, record, skipped, text,
    without_namespaces,
};

/// Few keys, so that operations on one overlap. Without a fill, which any failure would end.
const WORK: &str = "{mix: {put: 50, get: 50}, keys: {count: 5}, values: {size: 64}, fill: false}";
const LOAD: &str = "{clients: 6, warmup: 200ms, stop: {after: 1s}, errors-max: 100%}";

/// A run of several canaries under one load, with the check.
struct CheckedRun {
    bench: Bench,
    trials: Vec<Value>,
}

impl CheckedRun {
    /// Runs systems, each with its name and settings. `audit`: further settings of the audit.
    fn run(systems: &[(&str, &str)], workload: &str, load: &str, audit: &str) -> Self {
        let systems = systems.iter().map(|(name, settings)| {
            let comma = if settings.is_empty() { "" } else { ", " };
            format!("  {name}: {{kind: canary{comma}{settings}}}\n")
        });
        let bench = Bench::new(&format!(
            "title: Canaries\nsystems:\n{}workloads: {{work: {workload}}}\nloads: {{load: {load}}}\n\
             audit: {{kill: at-rest, linearizability: true{audit}}}\ntrials: 1\n",
            systems.collect::<String>(),
        ));
        let ran = CommandOutput::run(bench.command().args(["--threads", "2"]));
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        let lines = bench.record();
        lines.iter().for_each(|line| schema::allow("record", line));
        let trials = lines.into_iter().filter(|line| line["line"] == "trial").collect();
        Self { bench, trials }
    }

    fn trial(&self, system: &str) -> &Value {
        let of = |trial: &&Value| trial["trial"]["system"] == system;
        self.trials.iter().find(of).unwrap_or_else(|| panic!("no trial of {system}"))
    }

    fn judged(&self, system: &str) -> &Value {
        &self.trial(system)["linearizability"]
    }

    fn folder(&self) -> std::path::PathBuf {
        self.bench.runs()[0].clone()
    }

    /// Returns the verdict of the check `linearizability`, and its reason.
    fn check(&self, system: &str) -> (&str, &str) {
        let checks = array(&self.trial(system)["checks"]);
        let check = checks.iter().find(|check| check["name"] == "linearizability");
        let verdict = &check.expect("it was checked")["verdict"];
        (text(&verdict["verdict"]), text(&verdict["why"]))
    }

    /// Asserts that a system is accused of this kind of violation, and returns the actions that show it.
    #[track_caller]
    fn violates(&self, system: &str, kind: &str) -> Vec<String> {
        let judged = self.judged(system);
        assert_eq!(judged["found"], "violated", "{system}: {judged}");
        let shown = &judged["violation"];
        assert_eq!(shown["kind"], kind, "{system}: {shown}");
        let (verdict, why) = self.check(system);
        assert_eq!(verdict, "failed");
        assert!(why.contains("no order that explains every answer; key `bakeoff/"), "{why}");
        let operations = array(&shown["operations"]);
        assert!((1..=6).contains(&operations.len()), "{system}: {shown}");
        let legal = |name: &str| shown["legal"][name].as_u64().unwrap();
        assert!(legal("operations") < legal("of"), "{shown}");
        is_kept(&self.folder(), judged);
        operations.iter().map(|one| text(&one["action"]).to_owned()).collect()
    }

    #[track_caller]
    fn is_linearizable(&self, system: &str) -> &Value {
        let judged = self.judged(system);
        assert_eq!(judged["found"], "linearizable", "{system}: {judged}");
        assert_eq!(self.check(system), ("passed", ""));
        judged
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{path:?}: {why}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_violation_is_caught_next_to_honest_canaries() {
    let run = CheckedRun::run(
        &[
            ("stale-read", "options: {sync: none, stale: 2%}"),
            ("honest", "options: {sync: none}"),
            ("lost-update", "options: {sync: none, lose: 2%}"),
            ("dirty-read", "options: {sync: none, dirty: 2%}"),
            ("denying", "options: {sync: none, deny: 10%}"),
            ("reordering", "options: {sync: none, reorder: 2%}"),
            ("split-brain", "nodes: 3, options: {sync: none, split-after: 1ms}"),
            ("three-nodes", "nodes: 3, options: {sync: none}"),
        ],
        WORK,
        LOAD,
        "",
    );
    for system in ["stale-read", "lost-update", "reordering", "split-brain"] {
        let actions = run.violates(system, "disordered");
        assert!(actions.iter().any(|one| one == "read"), "{system}: {actions:?}");
        assert!(actions.iter().any(|one| one == "write"), "{system}: {actions:?}");
    }
    let actions = run.violates("dirty-read", "dirty-read");
    assert_eq!(actions, ["write", "read"]);
    let shown = &run.judged("dirty-read")["violation"]["operations"];
    assert_eq!(shown[0]["outcome"], "refused");
    assert_eq!(shown[0]["value"], shown[1]["value"]);
    for system in ["honest", "three-nodes"] {
        let judged = run.is_linearizable(system);
        assert!(judged["operations"].as_u64().unwrap() > 500, "{judged}");
        assert_eq!(judged["keys"], 5);
        assert!(judged.get("file").is_none(), "{judged}");
    }
    assert!(run.is_linearizable("denying")["refused"].as_u64().unwrap() > 10);
    reports_show(&run);
}

#[test]
fn transactions_of_groups_are_judged_like_keys() {
    let run = CheckedRun::run(
        &[
            ("aborted-read", "options: {sync: none, dirty-transaction: 2%}"),
            ("honest", "options: {sync: none}"),
        ],
        "{mix: {move: 1, look: 2}, keys: {count: 5}}",
        LOAD,
        "",
    );
    let actions = run.violates("aborted-read", "dirty-read");
    assert_eq!(actions, ["compare-and-set", "read"]);
    let judged = run.is_linearizable("honest");
    assert_eq!(judged["keys"], 5, "a group is judged as a key");
}

/// Asserts that each form of the report has the verdicts and the operations that show a violation.
fn reports_show(run: &CheckedRun) {
    let report =
        |form: &[&str]| CommandOutput::run(bakeoff().arg("report").args(form).arg(run.folder()));
    let terminal = report(&["--all"]).stdout;
    for part in [
        "honest: linearizable: some order explains every answer of ",
        "stale-read: NOT LINEARIZABLE (trial ",
        "which began after it had ended; linearizable up to ",
        "a read returned a write that the system had refused",
        "operations that show it: stale-read, trial ",
        " at stale-read-1 ",
        "├",
        "linearizability: violated in 5 trials",
    ] {
        assert!(terminal.contains(part), "`{part}` is not in:\n{terminal}");
    }
    let folder = run.folder();
    let json = std::fs::read_to_string(folder.join("report.json")).unwrap();
    schema::allow("run", &serde_json::from_str(&json).unwrap());
    let html = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(html.contains("operations that show it: stale-read, trial "));
}

#[test]
fn honest_canary_in_trouble_is_never_accused() {
    let troubled = "options: {sync: none, error: 5%, refuse: 3%, deny: 3%, garbage: 1%, truncate: 1%, \
                    delay: 60ms, delay-share: 3%}";
    let load = "{clients: 8, warmup: 200ms, stop: {after: 2s}, timeout: 30ms, errors-max: 100%}";
    let once = load.replace("timeout", "keep-alive: off, timeout");
    for load in [load, &once] {
        let systems = [("one", troubled), ("three", &*format!("nodes: 3, {troubled}"))];
        let run = CheckedRun::run(&systems, WORK, load, "");
        for system in ["one", "three"] {
            let judged = run.is_linearizable(system);
            assert!(judged["unknown"].as_u64().unwrap() > 10, "{judged}");
            assert!(judged["refused"].as_u64().unwrap() > 3, "{judged}");
        }
    }
}

#[test]
fn deleted_value_that_is_read_again_is_caught() {
    let workload = WORK.replace("put: 50, get: 50", "put: 40, get: 40, delete: 20");
    let systems = [
        ("stale-read", "options: {sync: none, stale: 2%}"),
        ("lost-update", "options: {sync: none, lose: 2%}"),
        ("split-brain", "nodes: 3, options: {sync: none, split-after: 1ms}"),
        ("honest", "options: {sync: none}"),
        ("three-nodes", "nodes: 3, options: {sync: none, deny: 5%}"),
    ];
    let run = CheckedRun::run(&systems, &workload, LOAD, ", history: true");
    for system in ["stale-read", "lost-update", "split-brain"] {
        run.violates(system, "disordered");
    }
    for system in ["honest", "three-nodes"] {
        assert_eq!(run.is_linearizable(system)["keys"], 5);
    }
    // Deletes of unknown outcome may explain a missing key, so such keys are not judged.
    let troubled =
        "options: {sync: none, error: 5%, refuse: 3%, deny: 3%, delay: 60ms, delay-share: 3%}";
    let load = LOAD.replace("warmup", "timeout: 30ms, warmup");
    let run = CheckedRun::run(&[("one", troubled)], &workload.replace("5}", "100}"), &load, "");
    let judged = run.is_linearizable("one");
    assert!(judged["keys"].as_u64() > Some(10), "{judged}");
}

#[test]
fn stale_reads_are_reported_as_information_if_nothing_guarantees_fresh_ones() {
    let workload = WORK.replace("fill: false", "reads: stale, fill: true");
    let load = "{clients: 6, rate: 300/s, warmup: 0s, stop: {after: 2s}}";
    let lagging = "nodes: 3, options: {sync: none, old: 100ms}";
    let run = CheckedRun::run(&[("lagging", lagging)], &workload, load, "");
    let judged = run.judged("lagging");
    assert_eq!((&judged["found"], &judged["unguaranteed"]), (&"violated".into(), &true.into()));
    let (verdict, why) = run.check("lagging");
    assert_eq!(verdict, "not-checked");
    assert!(why.contains("breaks no guarantee"), "{why}");
    let operations = array(&judged["violation"]["operations"]);
    let filled = |one: &Value| one["start_ms"].as_f64().unwrap() < 0.0;
    assert!(operations.iter().all(|one| one["end_ms"].as_f64() < Some(60_000.0)), "{judged}");
    assert!(!operations.iter().all(filled), "the load shows it: {judged}");
}

#[test]
fn history_is_kept_on_request_with_the_witnesses_of_deletes() {
    let workload = "{mix: {put: 50, get: 40, list: 5, delete: 5}, keys: {count: 3, per-directory: 3}, \
                    values: {size: 64}}";
    let load = "{clients: 2, stop: {operations: 600}}";
    let run =
        CheckedRun::run(&[("honest", "options: {sync: none}")], workload, load, ", history: true");
    let judged = run.judged("honest");
    assert_eq!(run.is_linearizable("honest")["keys"], 3, "{judged}");
    let lines = lines(&run.folder().join(text(&judged["file"])));
    let of = |action: &str| lines.iter().filter(|line| line["action"] == action).count();
    assert_eq!(lines.len() as u64, judged["operations"].as_u64().unwrap());
    let measured = &run.trial("honest")["stages"][0]["measurement"];
    let lists = measured["operations"]["list"]["verified"].as_u64().unwrap() as usize;
    let warmup = measured["warmup_operations"].as_u64().unwrap() as usize;
    assert!(lists > 0 && of("delete") > 0, "{judged}");
    let has_witness = |line: &&Value| line["witness"].as_u64() > Some(1);
    let missing = |line: &&Value| line["action"] == "read" && line["value"].is_null();
    assert_eq!(
        lines.iter().filter(has_witness).count(),
        of("delete") + lines.iter().filter(missing).count()
    );
    // Three keys were filled; lists are in no history, whether they were measured or not.
    assert!(lines.len() <= 3 + 600 + warmup - lists, "{} lines", lines.len());
    let first = lines.iter().find(|line| line["action"] == "write" && line["value"] == 1);
    assert!(first.is_some_and(|line| line["end_ns"].as_u64() > line["start_ns"].as_u64()));
}

/// Asserts that a trial's whole history is in its file, with the recorded size and hash. Returns the file.
#[track_caller]
fn is_kept(run: &Path, judged: &Value) -> PathBuf {
    let file = run.join(text(&judged["file"]));
    assert_eq!(lines(&file).len() as u64, judged["operations"].as_u64().unwrap(), "{file:?}");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(judged["file_bytes"], bytes.len() as u64);
    assert_eq!(text(&judged["file_sha256"]), bakeoff_core::digest::sha256(&bytes));
    file
}

/// Runs a canary with these options, on the machines of `places` if it is not empty. Returns the bench and the trial.
fn checked_on(places: &str, options: &str, more: &str) -> (Bench, Value) {
    checked_by(&|command| command, places, options, more)
}

/// Runs a canary by a changed command.
fn checked_by(
    by: &dyn Fn(Command) -> Command,
    places: &str,
    options: &str,
    more: &str,
) -> (Bench, Value) {
    // A closed load sends nothing while its clients wait, so faults need an open one.
    let open = LOAD.replace("1s}", "2s}, rate: 500/s");
    let load = if more.is_empty() { LOAD } else { &open };
    let bench = Bench::new(&format!(
        "title: A canary\nsystems: {{canary: {{kind: canary, nodes: 3, options: {{sync: none{options}}}}}}}\n\
         workloads: {{work: {WORK}}}\nloads: {{load: {load}}}\n{more}\
         audit: {{kill: at-rest, linearizability: true}}\ntrials: 1\n"
    ));
    let mut command = bench.command();
    if !places.is_empty() {
        let file = bench.path().join("places.yaml");
        std::fs::write(&file, places).unwrap();
        command.arg("--on").arg(file);
    }
    let ran = CommandOutput::run(&mut by(command));
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    let trial = record(&bench.runs()[0])[1].clone();
    (bench, trial)
}

#[test]
fn history_is_kept_wherever_its_operations_were_sent_from() {
    let here = "machines: {me: {here: true, servers: true, generator: true}}\n";
    let cut = "faults: {cut: {isolate: node-3, at: 1s, for: 300ms}}\n";
    let lose = ", lose: 5%";
    // In this process, by an agent, and by an agent in a network of its own.
    for (places, more) in [("", ""), (here, ""), ("", cut)] {
        let (_, trial) = checked_on(places, "", more);
        let judged = &trial["linearizability"];
        assert_eq!((&judged["found"], &judged["keys"]), (&"linearizable".into(), &5.into()));
        assert!(judged.get("file").is_none(), "{judged}");
        let (bench, trial) = checked_on(places, lose, more);
        let judged = &trial["linearizability"];
        assert_eq!((&judged["found"], &judged["keys"]), (&"violated".into(), &5.into()));
        let file = is_kept(&bench.runs()[0], judged);
        let again =
            CommandOutput::run(bakeoff().args(["judge", "--json"]).arg(file)).ends_with(6).stdout;
        let again: Value = serde_json::from_str(&again).unwrap();
        for name in ["found", "operations", "keys", "keys_violated"] {
            assert_eq!(again[name], judged[name], "{name}");
        }
    }
    match can_refuse_namespaces(NETWORKS) {
        Ok(()) => {
            let by = |command: Command| without_namespaces(NETWORKS, &command);
            let (bench, trial) = checked_by(&by, "", lose, cut);
            is_kept(&bench.runs()[0], &trial["linearizability"]);
        }
        Err(why) => skipped(&why),
    }
}

#[test]
fn verify_notices_a_history_that_was_altered_or_is_missing() {
    let (bench, trial) = checked_on("", ", lose: 5%", "");
    let run = &bench.runs()[0];
    let file = is_kept(run, &trial["linearizability"]);
    let whole = std::fs::read_to_string(&file).unwrap();
    let verify = |code: i32, seen: &str| {
        let ran = CommandOutput::run(bakeoff().arg("verify").arg(run)).ends_with(code);
        let line = ran.stdout.lines().find(|line| line.contains("  histories "));
        assert!(line.is_some_and(|line| line.contains(seen)), "`{seen}`: {}", ran.stdout);
    };
    verify(0, "1 history with the recorded hash and verdict");
    let fewer: Vec<&str> = whole.lines().skip(3).collect();
    std::fs::write(&file, fewer.join("\n")).unwrap();
    verify(6, " bytes instead of ");
    let altered = whole.replacen("\"outcome\":\"done\"", "\"outcome\":\"gone\"", 1);
    std::fs::write(&file, altered).unwrap();
    verify(6, "was altered");
    std::fs::remove_file(&file).unwrap();
    verify(6, "is missing");
    let made = Command::new("mkfifo").arg(&file).status();
    assert!(made.is_ok_and(|status| status.success()));
    verify(6, "not a regular file");
}

#[test]
fn judge_draws_the_violation_and_names_invalid_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    let judge = |text: &str, code: i32| {
        std::fs::write(&file, text).unwrap();
        CommandOutput::run(bakeoff().arg("judge").arg(&file)).ends_with(code)
    };
    let event = |process: u32, event: &str| format!("INFO  jepsen.util - {process} :{event}\n");
    let write = |value: u32| {
        event(0, &format!("invoke :write {value}")) + &event(0, &format!("ok :write {value}"))
    };
    let read = |value: u32| event(1, "invoke :read nil") + &event(1, &format!("ok :read {value}"));
    judge(&(write(1) + &write(2) + &read(2)), 0);
    let stale = judge(&(write(1) + &write(2) + &read(1)), 6).stdout;
    for part in ["not linearizable", "write 1 was read after write 2", "client 1   read 1  ·", "├"]
    {
        assert!(stale.contains(part), "`{part}` is not in:\n{stale}");
    }
    let wrong = judge(&(write(1) + &event(1, "ok :read 1")), 2).stderr;
    assert!(wrong.contains("line 3: process 1 ends an operation"), "{wrong}");
    let long = judge(&"x".repeat(1 << 20), 2).stderr;
    assert!(long.contains("line 1 is longer than 64 KiB"), "{long}");
    let folder = CommandOutput::run(bakeoff().arg("judge").arg(folder.path())).ends_with(2).stderr;
    assert!(folder.contains("is a directory"), "{folder}");
}
