//! Tests fresh and kept clusters.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::canary::Canary;
use crate::support::{Bench, CommandOutput, array, folders, wait_for};

/// Writes 400 keys into one directory, then lists directories of ten keys. One of them has the same name.
const STUDY: &str = "\
title: One after the other
systems:
  canary: {kind: canary, options: {sync: none}}
workloads:
  many: {mix: {put: 1}, keys: {count: 400, order: unique, per-directory: 400}}
  few: {mix: {list: 1}, keys: {count: 50, per-directory: 10}, fill: true}
loads:
  load: {clients: 2, stop: {operations: 400}}
clusters: kept
trials: 2
";

fn trials(record: &[Value]) -> Vec<&Value> {
    record.iter().filter(|line| line["line"] == "trial").collect()
}

/// Returns the number of server logs below a folder of trials or kept clusters.
fn logs(dir: &Path) -> usize {
    let logs = |dir: &Path| std::fs::read_dir(dir.join("logs")).map_or(0, Iterator::count);
    folders(dir).iter().map(|one| logs(one)).sum()
}

#[test]
fn kept_cluster_is_cleared_between_trials() {
    let run = Bench::new(STUDY).run().ended_well();
    let record = run.record();
    assert_eq!(trials(&record).len(), 4);
    let errors: Vec<f64> = array(&run.report["comparisons"][1]["systems"][0]["trials"])
        .iter()
        .map(|trial| trial["figures"]["errors"].as_f64().unwrap())
        .collect();
    assert_eq!(errors, [0.0, 0.0], "what `many` wrote would be listed too");
    let dir = run.bench.runs().remove(0);
    assert_eq!((logs(&dir.join("kept")), logs(&dir.join("trials"))), (1, 0));
    assert!(!dir.join("kept/canary/nodes").exists(), "its data is thrown away");
}

#[test]
fn fresh_cluster_serves_one_trial() {
    let run = Bench::new(&STUDY.replace("clusters: kept\n", "")).run().ended_well();
    let dir = run.bench.runs().remove(0);
    assert_eq!((logs(&dir.join("kept")), logs(&dir.join("trials"))), (0, 4));
}

#[test]
fn unusable_kept_cluster_leaves_no_data() {
    let broken = STUDY.replace("sync: none", "sync: none, error: 100%");
    let run = Bench::new(&broken).run();
    assert_eq!(run.ran.code, Some(1), "{}", run.ran.stderr);
    assert!(run.ran.stderr.contains("keys could be written before the load"), "{}", run.ran.stderr);
    let dir = run.bench.runs().remove(0);
    assert!(dir.join("kept/canary/logs").exists());
    assert!(!dir.join("kept/canary/nodes").exists(), "its data is thrown away");
}

/// Returns a study of running canaries at these endpoints.
fn of_own(endpoints: &[String], seconds: u32) -> Bench {
    let endpoints: Vec<String> = endpoints.iter().map(|one| format!("\"http://{one}\"")).collect();
    Bench::new(&format!(
        "title: Mine\nsystems: {{mine: {{kind: canary, endpoints: [{}]}}}}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 50}}}}}}\n\
         loads: {{load: {{clients: 2, warmup: 0s, stop: {{after: {seconds}s}}}}}}\ntrials: 1\n",
        endpoints.join(", ")
    ))
}

#[test]
fn missing_minority_of_a_running_cluster_is_a_warning() {
    let canary = Canary::start("");
    let port = canary.address.port();
    // Both names belong to one server, so both have the same keys.
    let (one, two) = (canary.address.to_string(), format!("localhost:{port}"));
    let (dead, deader) = ("127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned());
    let bench = of_own(&[one.clone(), dead.clone(), two.clone()], 1);
    let ran = CommandOutput::run(&mut bench.command()).ends_with(0);
    let warning = "mine runs without 127.0.0.1:1, which accepts no connection";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert!(ran.stdout.contains("mine ran without 127.0.0.1:1 in 1 trial"), "{}", ran.stdout);
    assert_eq!(trials(&bench.record())[0]["missing"], serde_json::json!(["127.0.0.1:1"]));

    let ran = CommandOutput::run(&mut of_own(&[one, dead, deader], 1).command());
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("did not answer as a cluster with a leader"), "{}", ran.stderr);
}

#[test]
fn reports_keys_left_on_a_cluster_that_died() {
    let canary = Canary::start("");
    let bench = of_own(&[canary.address.to_string()], 3);
    let mut command = bench.command();
    let begun = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the load", Duration::from_secs(60), || canary.stat("puts") > 100);
    drop(canary);
    let ran = CommandOutput::from_output(begun.wait_with_output().unwrap());
    let left = "bakeoff may have left up to 50 keys on the cluster: no node removed them";
    assert!(ran.stderr.contains(left), "{}", ran.stderr);
    assert!(!ran.stdout.contains("failed the audit"), "{}", ran.stdout);
    let record = bench.record();
    let audit = trials(&record)[0]["audits"][0].to_string();
    assert!(
        audit.contains("not-checked") && audit.contains("whether they are lost is unknown"),
        "{audit}"
    );
}
