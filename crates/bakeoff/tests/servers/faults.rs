//! Tests faults on real clusters: a leader that stands still or dies is replaced, and nothing is lost.
//!
//! Not here: proofs and records of injections (`commands::faults`).

use std::process::Command;

use bakeoff_core::measurement::LoadPart;
use bakeoff_core::outage::{outage, part_outages};
use bakeoff_core::record::Injection;
use bakeoff_host::network;
use libtest_mimic::Trial;
use serde_json::Value;

use crate::support::case::{Case, Part, case, part, with};
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{
    Bench, NETWORKS, Run, array, can_refuse_namespaces, nothing_runs_in, proven_faults, text,
    without_namespaces,
};

const ETCD: Case = Case { needs: &["go"], ..case("etcd", "", 3) };

pub(crate) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    let mut tests = vec![
        with("etcd_survives_faults_of_its_leader", ETCD, skipped, leader_fails),
        with("etcd_survives_cuts_of_its_network", ETCD, skipped, network_fails),
        with("zookeeper_survives_cuts_by_relays", ZOOKEEPER, skipped, relays_cut),
        with("etcd_survives_faults_of_its_leaders_disk", ETCD, skipped, disk_fails),
        with("nats_is_started_again_after_a_full_disk", FULL, skipped, filled),
        with("nats_is_upgraded_node_by_node", NATS, skipped, upgraded),
    ];
    tests.extend(MAINTAINED.map(|(case, runs)| {
        with("serves_while_it_is_maintained", case, skipped, move |of| maintained(of, runs))
    }));
    tests
}

const ZOOKEEPER: Case = case("zookeeper", "3.9", 3);
const FULL: Case = case("nats", "2.12.4", 3);
const NATS: Case = Case { needs: &["apt-get", "dpkg-deb"], ..case("nats", "2.9", 3) };

/// A maintenance operation: its name, the fields that select its nodes, and the node and text of each proof.
type Task = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const POSTGRESQL: Part = Part { needs: &["apt-get", "dpkg-deb"], ..part("storage", "postgresql") };
const BAO: Case = case("openbao", "2.7", 1);
const DONE: &str = "returned without an error";

const MAINTAINED: [(Case, &[Task]); 5] = [
    (
        ETCD,
        &[
            ("compact", "", &[("", "removed the history up to revision ")]),
            (
                "defragment",
                ", node: each",
                &[("-1", " after"), ("-2", "the database had "), ("-3", " before and ")],
            ),
            ("snapshot", ", node: node-3", &[("-3", "the snapshot has ")]),
        ],
    ),
    (
        Case {
            needs: &["go"],
            more: "options: {raft-multiplier: 1}",
            ..case("consul", "1.20.1", 3)
        },
        &[("snapshot", "", &[("", "the snapshot has ")])],
    ),
    (
        BAO,
        &[
            ("rotate", "", &[("-1", "key 1 was followed by key 2")]),
            ("snapshot", "", &[("-1", "the snapshot has ")]),
        ],
    ),
    (
        Case { parts: &[POSTGRESQL], what: "on PostgreSQL", ..BAO },
        &[
            ("checkpoint", ", node: {part: storage}", &[("storage-1", DONE)]),
            ("vacuum", ", node: {part: storage}", &[("storage-1", DONE)]),
        ],
    ),
    (
        Case {
            needs: &["apt-get", "dpkg-deb"],
            more: "options: {appendfsync: always}",
            ..case("redis", "", 1)
        },
        &[
            ("snapshot", "", &[("-1", "the child ended with success")]),
            ("rewrite-log", "", &[("-1", "the child ended with success")]),
        ],
    ),
];

/// Fields of a workload whose reads are those of the system's own clients.
const DEFAULT_READS: &str = ", reads: default";

/// Returns a study of one trial that loads a system for some seconds. `work` adds fields to the workload.
fn study(of: &Case, work: &str, seconds: u32, faults: &str) -> String {
    format!(
        "title: t\nsystems:\n  {}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 500}}{work}}}}}\n\
         loads: {{steady: {{rate: 200/s, clients: 12, warmup: 500ms, timeout: 2s, stop: {{after: {seconds}s}}}}}}\n\
         faults: {{{faults}}}\ntrials: 1\n",
        of.in_study(),
    )
}

/// Runs a study with one trial. Returns the run and its trial, which has proven all injections and lost no write.
fn injected(study: &str) -> (Run, Value) {
    injected_by(study, |bench| bench.command())
}

/// Does the same, with bakeoff started by this command.
fn injected_by(study: &str, command: impl FnOnce(&Bench) -> Command) -> (Run, Value) {
    let bench = Bench::new(study);
    let command = command(&bench);
    let run = bench.run_by(command);
    nothing_runs_in(run.bench.path());
    let trial = run.record().into_iter().find(|line| line["line"] == "trial").expect("a trial");
    proven_faults(&trial);
    (run, trial)
}

/// Upgrades a cluster after another fault. Later starts, such as that after the kill, have the new version, too.
fn upgraded(of: &Case) {
    let faults = "upgrade: {restart: each, at: 1s, every: 3s, to: 2.12}, \
                  killed: {kill: leader, at: 1s, restart-after: 2s}";
    let study = study(of, DEFAULT_READS, 12, faults) + "repeat: 2\naudit: {kill: at-rest}\n";
    let (run, trial) = injected(&study);
    let injections = array(&trial["injections"]);
    let faults: Vec<&str> = injections.iter().map(|one| text(&one["fault"])).collect();
    assert_eq!(faults, ["killed", "killed", "upgrade"], "an upgrade comes last and once");
    let hits = array(&injections[2]["hits"]);
    assert_eq!(hits.len(), 3, "{hits:#?}");
    for hit in hits {
        assert!(text(&hit["proof"][1]).starts_with("started 1 process again with version 2.12."));
    }
    let header = &run.record()[0];
    let version = text(&header["systems"][0]["upgrade"]["version"]);
    assert!(
        text(&header["systems"][0]["version"]).starts_with("2.9.") && version.starts_with("2.12.")
    );
    let reported = format!("the system reports version {version}");
    assert_eq!(text(&hits[2]["proof"][2]), reported);
    let audits = array(&trial["audits"]);
    assert!(audits.iter().all(|audit| audit["verdict"]["verdict"] == "passed"), "{audits:#?}");
}

/// Runs maintenance under a load, and expects its proofs.
fn maintained(of: &Case, runs: &[Task]) {
    let faults = runs.iter().map(|(run, node, _)| format!("{run}: {{run: {run}{node}, at: 1s}}"));
    let work = match of.kind {
        "openbao" => ", with: {kv: v1}, reads: default",
        _ => ", reads: freshest",
    };
    let study = study(of, work, 6, &faults.collect::<Vec<_>>().join(", "));
    let (_, trial) = injected(&study);
    for (name, _, proofs) in runs {
        let mut injections = array(&trial["injections"]).iter();
        let injection = injections.find(|one| one["fault"] == *name).expect("an injection");
        let hits = array(&injection["hits"]);
        assert_eq!(hits.len(), proofs.len(), "{name}: {hits:#?}");
        for (hit, (node, proof)) in hits.iter().zip(*proofs) {
            assert!(text(&hit["nodes"][0]).ends_with(node), "{hit}");
            let proven = text(&hit["proof"][0]);
            // A Redis that never forked reports the success of a child, too.
            assert!(proven.contains(proof) && !proven.contains(" 0 µs"), "{hit}");
        }
    }
}

/// Cuts the network of a cluster of three.
fn network_fails(of: &Case) -> Result<(), SkipReason> {
    network::support(false).map_err(SkipReason::Machine)?;
    survives_cuts(of, |bench| bench.command());
    Ok(())
}

/// Cuts the network of a cluster of three by relays.
fn relays_cut(of: &Case) -> Result<(), SkipReason> {
    can_refuse_namespaces(NETWORKS).map_err(SkipReason::Machine)?;
    survives_cuts(of, |bench| without_namespaces(NETWORKS, &bench.command()));
    Ok(())
}

/// Cuts the network in three ways. The history shows whether a leader that is cut off still answers.
fn survives_cuts(of: &Case, command: impl FnOnce(&Bench) -> Command) {
    let faults = "isolated: {isolate: leader, at: 1s, for: 5s}, \
                  minority: {partition: [[leader], [follower-1, follower-2]], at: 1s, for: 5s}, \
                  majority: {partition: [[leader, follower-1], [follower-2]], at: 1s, for: 5s}";
    let study = study(of, "", 12, faults) + "audit: {linearizability: true}\n";
    let (_, trial) = injected_by(&study, command);
    for injection in array(&trial["injections"]) {
        let fault = text(&injection["fault"]);
        // The others elect a leader, and a leader that keeps its majority goes on.
        let injection: Injection = serde_json::from_value(injection.clone()).expect("an injection");
        let outage = outage(&injection).expect("the fault happened");
        assert!(!outage.lasted, "{fault}: {outage:?}");
    }
    let checks = array(&trial["checks"]);
    let judged = checks.iter().find(|check| check["name"] == "linearizability").expect("the check");
    assert_eq!(judged["verdict"]["verdict"], "passed", "{judged:#}");
}

/// Pauses, kills and restarts nodes of a cluster of three.
fn leader_fails(of: &Case) {
    let faults = "paused: {pause: leader, at: 1s, for: 5s}, \
                  killed: {kill: leader, at: 1s, restart-after: 5s}, \
                  rolling: {restart: each, at: 1s, every: 3s}";
    survives(of, faults);
}

/// Slows, stalls and fills the disk of the leader of a cluster of three.
fn disk_fails(of: &Case) {
    let faults = "slow: {disk: leader, sync-delay: 100ms, at: 1s, for: 5s}, \
                  stalled: {disk: leader, stall: true, at: 1s, for: 5s}, \
                  full: {disk: leader, full: true, at: 1s, for: 5s}";
    survives(of, faults);
}

/// Fills the disk of a leader that then gives up its storage for good.
fn filled(of: &Case) {
    let fault = "full: {disk: leader, full: true, at: 1s, for: 5s}";
    let (_, trial) = injected(&study(of, DEFAULT_READS, 12, fault));
    let proof = array(&trial["injections"][0]["hits"][0]["proof"]);
    let again = "did not serve within 20 s after the load, and the node was started again";
    assert!(proof.iter().any(|line| text(line).contains(again)), "{proof:#?}");
}

/// Runs three faults, and expects proof, no lost write, and service before the load ends.
fn survives(of: &Case, faults: &str) {
    let (run, trial) = injected(&study(of, "", 14, faults));
    let injections = array(&trial["injections"]).iter();
    let injections: Vec<Injection> =
        injections.map(|one| serde_json::from_value(one.clone()).expect("an injection")).collect();
    assert_eq!(injections.len(), 3, "{}", run.ran.stderr);
    for injection in &injections {
        let (fault, hits) = (&injection.fault, &injection.hits);
        assert_eq!(hits.len(), if fault == "rolling" { 3 } else { 1 }, "{fault}: {hits:#?}");
        // The cluster serves again before the load ends, also without the node.
        let outage = outage(injection).expect("the fault happened");
        assert!(!outage.lasted, "{fault}: {outage:?}");
    }
    // Clients of a node that is down wait for it, and others do not.
    let down = injections.iter().find(|one| ["killed", "stalled"].contains(&&*one.fault));
    let names: Vec<String> =
        (1..=of.nodes).map(|number| format!("{}-{number}", of.called())).collect();
    let parts = part_outages(down.expect("a node is down"), &names);
    let length = |broken: bool| {
        let nodes = parts.iter().filter(|one| matches!(one.part, LoadPart::Node(_)));
        let nodes = nodes.filter(|one| one.broken == broken);
        nodes.filter_map(|one| one.seconds).fold(0.0, f64::max)
    };
    assert!(length(true) > 4.5 && length(false) < 4.0, "{parts:#?}");
    let operations = parts.iter().filter(|one| matches!(one.part, LoadPart::Operation(_)));
    assert_eq!(operations.count(), 2, "{parts:#?}");
}
