//! Tests faults of a node's disk: they are proven, writes feel them, and nothing is left behind.
//!
//! Not here: the disk (`bakeoff-host`, `bakeoff-disk`), real systems (`servers`).

use std::process::Stdio;
use std::time::Duration;

use bakeoff_core::outage::outage;
use bakeoff_core::record::Injection;
use serde_json::Value;

use crate::support::schema;
use crate::support::{
    Bench, CommandOutput, MOUNTS, array, can_refuse_namespaces, nothing_runs_in, processes_of,
    skipped, text, wait_for, without_namespaces,
};

const SLOW: &str = "slow: {disk: leader, sync-delay: 200ms, at: 500ms, for: 1s}";
const STALLED: &str = "stalled: {disk: node-1, stall: true, at: 500ms, for: 1s}";
const FULL: &str = "full: {disk: each, full: true, at: 500ms, for: 1s}";

/// Returns a bench with a canary that syncs each write.
fn bench(faults: &str) -> Bench {
    Bench::new(&format!(
        "title: t\nsystems:\n  canary: {{kind: canary, options: {{sync: each}}}}\n\
         workloads: {{work: {{mix: {{put: 1}}, keys: {{count: 200}}}}}}\n\
         loads: {{steady: {{rate: 100/s, clients: 4, warmup: 200ms, timeout: 3s, stop: {{after: 4s}}}}}}\n\
         faults: {{{faults}}}\ntrials: 1\n"
    ))
}

/// Returns true if this machine cannot break disks, and says so.
fn is_refused(ran: &CommandOutput) -> bool {
    let refused = ran.code == Some(2) && ran.stderr.contains("cannot break the disks");
    if refused {
        skipped(&ran.stderr);
    }
    refused
}

fn injections(bench: &Bench) -> Vec<Value> {
    let record = bench.record();
    record.iter().for_each(|line| schema::allow("record", line));
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    array(&trial["injections"]).to_vec()
}

fn checked(bench: &Bench, args: &[&str]) -> Option<Vec<Value>> {
    let ran = CommandOutput::run(bench.command().args(args));
    if is_refused(&ran) {
        return None;
    }
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    nothing_runs_in(bench.path());
    let injections = injections(bench);
    for injection in &injections {
        assert_eq!(injection["unproven"], Value::Null, "{injection:#}");
        assert_eq!(injection["audit"]["verdict"]["verdict"], "passed", "{injection:#}");
    }
    Some(injections)
}

fn proof<'a>(injections: &'a [Value], fault: &str) -> Vec<&'a str> {
    let one = injections.iter().find(|one| one["fault"] == fault).expect("an injection");
    array(&one["hits"][0]["proof"]).iter().map(text).collect()
}

#[test]
fn disk_faults_are_proven_and_felt() {
    let bench = bench(&format!("{SLOW}, {STALLED}, {FULL}"));
    let Some(injections) = checked(&bench, &[]) else { return };
    assert_eq!(injections.len(), 3);
    let slow = proof(&injections, "slow");
    assert!(slow[0].starts_with("`canary-1`: a sync took 2"), "{slow:?}");
    assert!(slow[1].starts_with("`canary-1`: a sync took "), "{slow:?}");
    let stalled = proof(&injections, "stalled");
    assert_eq!(stalled[0], "`canary-1`: a sync did not return within 300 ms");
    assert!(stalled[1].starts_with("`canary-1`: the held sync returned, and "), "{stalled:?}");
    let full = proof(&injections, "full");
    assert_eq!(full[0], "`canary-1`: a new file found no space left on the disk");
    let outage = |fault: &str| {
        let one = injections.iter().find(|one| one["fault"] == fault).expect("an injection");
        let one: Injection = serde_json::from_value(one.clone()).expect("an injection");
        outage(&one).and_then(|outage| outage.seconds).unwrap_or(0.0)
    };
    assert!(outage("stalled") > 0.9, "{}", outage("stalled"));
    assert!(outage("full") > 0.9, "{}", outage("full"));
    assert!((0.15..0.9).contains(&outage("slow")), "{}", outage("slow"));
    let mut report = crate::support::bakeoff();
    let shown = CommandOutput::run(report.args(["report", "--json"]).arg(&bench.runs()[0])).stdout;
    let report: Value = serde_json::from_str(&shown).expect("JSON");
    let row = array(&report["fairness"]["rows"]);
    let row = row.iter().find(|row| row["what"] == "disk of the nodes").expect("a row");
    assert!(row.to_string().contains("in memory"), "{row}");
}

#[test]
fn disk_faults_reach_servers_of_another_machine() {
    let bench = bench(SLOW);
    let places = bench.path().join("places.yaml");
    std::fs::write(&places, "machines: {me: {here: true, servers: true, generator: true}}\n")
        .unwrap();
    let Some(injections) = checked(&bench, &["--on", places.to_str().unwrap()]) else { return };
    let slow = proof(&injections, "slow");
    assert!(slow[0].starts_with("`canary-1`: a sync took 2"), "{slow:?}");
}

#[test]
fn kill_9_while_a_disk_stands_still_leaves_nothing() {
    let bench = bench(&STALLED.replace("for: 1s", "for: 3s"));
    let mut child = bench.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut ended = false;
    wait_for("a held sync", Duration::from_secs(60), || {
        ended = child.try_wait().unwrap().is_some();
        let all = processes_of(bench.path());
        ended || all.iter().any(|process| process.contains(" __probe "))
    });
    if ended {
        return skipped("this machine cannot break disks, as the tests above say");
    }
    std::thread::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_runs_in(bench.path());
}

#[test]
fn disk_faults_are_refused_before_a_run_that_can_mount_nothing() {
    if let Err(why) = can_refuse_namespaces(MOUNTS) {
        return skipped(&why);
    }
    let bench = bench(FULL);
    let ran = CommandOutput::run(&mut without_namespaces(MOUNTS, &bench.command()));
    ran.ends_with(2).complains(&["cannot break the disks of system `canary`", "`/dev/fuse`"]);
    assert!(bench.runs().is_empty(), "{:?}", bench.runs());
}
