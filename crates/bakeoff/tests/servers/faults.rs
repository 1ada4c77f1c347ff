//! Tests faults on real clusters: a leader that stands still or dies is replaced, and nothing is lost.
//!
//! Not here: proofs and records of injections (`commands::faults`).

use bakeoff_core::outage::outage;
use bakeoff_core::record::Injection;
use bakeoff_host::network;
use libtest_mimic::Trial;

use crate::support::case::{Case, case, with};
use crate::support::skip::{Lacking, Skipped};
use crate::support::{Bench, array, nothing_runs_in, text};

const ETCD: Case = Case { needs: &["go"], ..case("etcd", "", 3) };

pub(crate) fn tests(skipped: &Skipped) -> Vec<Trial> {
    vec![
        with("etcd_survives_faults_of_its_leader", ETCD, skipped, leader_fails),
        with("etcd_survives_cuts_of_its_network", ETCD, skipped, network_fails),
    ]
}

/// Cuts the network of a cluster of three. The history shows whether a leader that is cut off still answers.
fn network_fails(of: &Case) -> Result<(), Lacking> {
    network::support().map_err(Lacking::Machine)?;
    let study = format!(
        "title: t\nsystems:\n  kv: {{kind: {}, nodes: {}}}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 500}}}}}}\n\
         loads: {{steady: {{rate: 200/s, clients: 12, warmup: 500ms, timeout: 2s, stop: {{after: 12s}}}}}}\n\
         faults:\n  isolated: {{isolate: leader, at: 1s, for: 5s}}\n  \
         minority: {{partition: [[leader], [follower-1, follower-2]], at: 1s, for: 5s}}\n  \
         majority: {{partition: [[leader, follower-1], [follower-2]], at: 1s, for: 5s}}\n\
         audit: {{linearizability: true}}\ntrials: 1\n",
        of.kind, of.nodes
    );
    let run = Bench::new(&study).run();
    nothing_runs_in(run.bench.path());
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    for injection in array(&trial["injections"]) {
        let fault = text(&injection["fault"]);
        assert!(injection["unproven"].is_null(), "{fault}: {}", injection["unproven"]);
        assert_eq!(injection["audit"]["verdict"]["verdict"], "passed", "{fault}: {injection}");
        // The others elect a leader, and a leader that keeps its majority goes on.
        let injection: Injection = serde_json::from_value(injection.clone()).expect("an injection");
        let outage = outage(&injection).expect("the fault happened");
        assert!(!outage.lasted, "{fault}: {outage:?}");
    }
    let checks = array(&trial["checks"]);
    let judged = checks.iter().find(|check| check["name"] == "linearizability").expect("the check");
    assert_eq!(judged["verdict"]["verdict"], "passed", "{judged:#}");
    Ok(())
}

/// Pauses, kills and restarts nodes of a cluster of three.
fn leader_fails(of: &Case) {
    let study = format!(
        "title: t\nsystems:\n  kv: {{kind: {}, nodes: {}}}\n\
         workloads: {{work: {{mix: {{put: 1, get: 1}}, keys: {{count: 500}}}}}}\n\
         loads: {{steady: {{rate: 200/s, clients: 12, warmup: 500ms, timeout: 2s, stop: {{after: 14s}}}}}}\n\
         faults:\n  paused: {{pause: leader, at: 1s, for: 5s}}\n  \
         killed: {{kill: leader, at: 1s, restart-after: 5s}}\n  \
         rolling: {{restart: each, at: 1s, every: 3s}}\ntrials: 1\n",
        of.kind, of.nodes
    );
    let run = Bench::new(&study).run();
    nothing_runs_in(run.bench.path());
    let record = run.record();
    let trial = record.iter().find(|line| line["line"] == "trial").expect("a trial");
    let injections = array(&trial["injections"]);
    assert_eq!(injections.len(), 3, "{}", run.ran.stderr);
    for injection in injections {
        let fault = text(&injection["fault"]);
        assert!(injection["unproven"].is_null(), "{fault}: {}", injection["unproven"]);
        assert_eq!(injection["audit"]["verdict"]["verdict"], "passed", "{fault}: {injection}");
        let hits = array(&injection["hits"]);
        assert_eq!(hits.len(), if fault == "rolling" { 3 } else { 1 }, "{fault}: {hits:#?}");
    }
    // The cluster serves again before the load ends, also without the node.
    for fault in array(&run.report["comparisons"][0]["faults"]) {
        let injection = &fault["systems"][0]["injections"][0];
        assert_eq!(injection["outage"]["lasted"], false, "{injection:#}");
    }
}
