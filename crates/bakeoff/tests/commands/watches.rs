//! Tests that watchers of an honest canary accuse nobody, whatever happens to it, and that delays show.
//!
//! Not here: faults that the check must catch (`tests/faults`), the watchers' thread (`bakeoff_engine::watch`), the
//! canary's protocol (`canary`).

use serde_json::Value;

use crate::support::{Bench, array, decode, text};

const MIX: &str = "mix: {put: 80, delete: 20}, keys: {count: 4}, values: {size: 64}, fill: false";
const LOAD: &str = "{clients: 6, rate: 300/s, warmup: 200ms, timeout: 1s, stop: {after: 3s}}";

/// Returns the trials of a study, in the record's form.
fn trials(systems: &[(&str, &str)], watchers: &str, more: &str) -> Vec<Value> {
    let systems = systems.iter().map(|(name, settings)| {
        let comma = if settings.is_empty() { "" } else { ", " };
        format!("  {name}: {{kind: canary{comma}{settings}}}\n")
    });
    let run = Bench::new(&format!(
        "title: Watched canaries\nsystems:\n{}workloads: {{work: {{{MIX}, watchers: {{{watchers}}}}}}}\n\
         loads: {{load: {LOAD}}}\n{more}trials: 1\n",
        systems.collect::<String>(),
    ))
    .run();
    run.record().into_iter().filter(|line| line["line"] == "trial").collect()
}

#[track_caller]
fn trial<'a>(trials: &'a [Value], system: &str) -> &'a Value {
    let of = |trial: &&Value| trial["trial"]["system"] == system;
    trials.iter().find(of).unwrap_or_else(|| panic!("no trial of {system}"))
}

/// Asserts that a trial accuses no watch.
#[track_caller]
fn accuses_nobody(trial: &Value) {
    let checks = array(&trial["checks"]);
    let check = checks.iter().find(|check| check["name"] == "watches").expect("it was checked");
    let system = &trial["trial"]["system"];
    assert_eq!(text(&check["verdict"]["verdict"]), "passed", "{system}: {check}");
}

/// Asserts that a stage's watchers received every event, or a report of the lost history. Returns their figures.
#[track_caller]
fn is_complete(stage: &Value) -> &Value {
    let watch = &stage["measurement"]["watch"];
    let counts = &watch["counts"];
    for outcome in array(&watch["guarantees"]) {
        let state = text(&outcome["state"]);
        assert!(["kept", "not-reached"].contains(&state), "{outcome}: {counts}");
    }
    let count = |name: &str| counts[name].as_u64().unwrap_or(0);
    assert!(count("expected") > 1000, "{counts}");
    assert_eq!(count("delivered") + count("gone"), count("expected"), "{counts}");
    watch
}

fn count(watch: &Value, name: &str) -> u64 {
    watch["counts"][name].as_u64().unwrap_or(0)
}

#[test]
fn honest_canary_in_trouble_keeps_every_guarantee() {
    let systems = [
        ("plain", "options: {sync: none}"),
        ("three", "nodes: 3, options: {sync: none}"),
        ("dropping", "nodes: 3, options: {sync: none, drop-watchers: 300ms}"),
        ("forgetful", "options: {sync: none, drop-watchers: 300ms, history: 1KiB}"),
        ("failing", "options: {sync: none, deny: 5%, error: 2%, refuse: 1%, truncate: 1%}"),
        ("late", "options: {sync: none, late-event: 150ms}"),
    ];
    let watchers = "count: 12, of: prefix, connections: 4, progress: 50ms, \
                    slow: {connections: 2, every: 700ms, for: 300ms}";
    let trials = trials(&systems, watchers, "");
    for (system, _) in systems {
        let trial = trial(&trials, system);
        accuses_nobody(trial);
        let watch = is_complete(&trial["stages"][0]);
        assert!(count(watch, "bookmarks") > 0, "{system}");
        assert!(watch["server_memory"]["before_bytes"].as_u64() > Some(1 << 20), "{system}");
        let is_dropped = ["dropping", "forgetful"].contains(&system);
        assert_eq!(count(watch, "resumes") > 0, is_dropped, "{system}: {watch}");
        assert_eq!(count(watch, "histories_gone") > 0, system == "forgetful", "{system}");
        let first = decode(&watch["first"]);
        match system {
            "late" => assert!(first.min() >= 149_000_000, "{}", first.min()),
            "forgetful" => {}
            _ => assert!(first.len() > 100, "{system}"),
        }
    }
}

#[test]
fn old_events_are_judged_like_those_of_the_load() {
    let systems = [
        ("plain", "options: {sync: none}"),
        ("dropping", "nodes: 3, options: {sync: none, drop-watchers: 300ms}"),
        ("forgetful", "options: {sync: none, history: 1KiB}"),
        ("losing", "options: {sync: none, lose-event: 2%}"),
    ];
    let watchers = "count: 12, of: prefix, connections: 4, from: oldest";
    let trials = trials(&systems, watchers, "");
    for (system, _) in systems {
        let trial = trial(&trials, system);
        let watch = &trial["stages"][0]["measurement"]["watch"];
        let catch_up = &watch["catch_up"];
        assert_eq!(catch_up["watchers"], 12, "{system}: {catch_up}");
        let events = catch_up["events"].as_u64();
        assert!(events > Some(if system == "forgetful" { 12 } else { 5000 }), "{catch_up}");
        if system == "losing" {
            let why = trial["checks"].to_string();
            assert!(why.contains("not reliable ("), "{why}");
            continue;
        }
        accuses_nobody(trial);
        is_complete(&trial["stages"][0]);
        // A watcher cannot reach the newest version of a key whose events are gone.
        if system != "forgetful" {
            assert_eq!(decode(&catch_up["took"]).len(), 12, "{system}: {catch_up}");
        }
        assert_eq!(count(watch, "histories_gone") > 0, system == "forgetful", "{system}");
        // The load has some 800 successful writes after its warm-up, and the control stage had as many.
        let known = decode(&watch["known"]).len();
        assert!((8000..12_000).contains(&known), "{system}: {known} of the load alone");
    }
}

#[test]
fn watchers_of_keys_survive_faults_of_their_nodes() {
    let faults = "faults: {paused: {pause: leader, at: 1s, for: 700ms}, \
                  killed: {kill: leader, at: 1s, restart-after: 500ms}, \
                  rolling: {restart: each, at: 500ms, every: 500ms}}\n";
    let systems = [("one", "options: {sync: each}"), ("three", "nodes: 3, options: {sync: each}")];
    let trials = trials(&systems, "count: 12, connections: 6, progress: 100ms", faults);
    for (system, _) in systems {
        let trial = trial(&trials, system);
        accuses_nobody(trial);
        let injections = array(&trial["injections"]);
        assert_eq!(injections.len(), 3, "{system}");
        for injection in injections {
            let watch = is_complete(&injection["stage"]);
            let is_cut = injection["fault"] != "paused";
            assert_eq!(count(watch, "resumes") > 0, is_cut, "{system}, {}", injection["fault"]);
            assert_eq!(!array(&watch["interruptions"]).is_empty(), is_cut);
        }
    }
}
