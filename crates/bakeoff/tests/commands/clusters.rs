//! Tests of the servers that a trial begins on: its own, or those that were kept.

use std::path::Path;

use serde_json::Value;

use crate::support::{Bench, array, folders};

/// Writes 400 keys into one directory; then lists directories of ten of which one has that name.
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

/// Returns how many logs of servers are below a folder of trials or kept clusters.
fn logs(dir: &Path) -> usize {
    let logs = |dir: &Path| std::fs::read_dir(dir.join("logs")).map_or(0, Iterator::count);
    folders(dir).iter().map(|one| logs(one)).sum()
}

#[test]
fn a_kept_cluster_serves_all_trials_and_is_cleared_between_them() {
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
fn a_fresh_cluster_serves_one_trial() {
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
