//! Tests small versions of each shipped kind of study on three hosts: they run, and every trial is complete.
//!
//! Not here: their speed, because hosts on one machine share its CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use bakeoff_host::volatile_disk_support;
use libtest_mimic::Trial;

use super::{left_on, run, run_folder, text, trials};
use crate::support::hosts::Hosts;
use crate::support::skip::{SkipReason, SkippedTests};
use crate::support::{FAULTY_ETCD, proven_faults};

pub(super) fn tests(skipped: &SkippedTests) -> Vec<Trial> {
    vec![
        skipped.unless_lacking("machines::small_ingress_holds_on_three_hosts", ingress),
        skipped.unless_lacking("machines::small_access_gateway_holds_on_three_hosts", gateway),
        skipped.unless_lacking("machines::small_vault_on_postgresql_holds_on_three_hosts", vault),
        skipped.unless_lacking("machines::demo_holds_on_three_hosts", demo),
        skipped.unless_lacking("machines::faults_are_proven_on_three_hosts", faults),
        skipped.unless_lacking("machines::kept_clusters_go_on_and_logs_come_of_any_end", kept),
        skipped.unless_lacking("machines::generators_keep_off_pinned_servers", pinned),
        skipped.unless_lacking("machines::a_server_whose_port_is_taken_starts_anew", port_taken),
    ]
}

const INGRESS: &str = "\
title: Ingress
systems:
  consul-equal:
    kind: ingress-gateway
    limits: {cpu: 2, memory: 1GiB}
    parts:
      application: {kind: application}
      control-plane: {kind: consul, version: 1.20.1, options: {raft-multiplier: 1}}
      sidecar: {kind: envoy, limits: {cpu: 2, memory: 1GiB}}
  istio:
    kind: ingress-gateway
    parts:
      application: {kind: application}
      control-plane: {kind: istio, version: 1.26.0}
      sidecar: {kind: envoy}
workloads:
  requests:
    mix: {request: 1}
    request: {path: /, expect: {status: 200, body-size: 255}}
loads:
  as-published: {clients: 20, stop: {operations: 3000}}
trials: 1
";

const GATEWAY: &str = "\
title: Access
systems:
  pooled:
    kind: access-gateway
    parts: {rights: {kind: tarantool}, protected: {kind: nginx}}
  unchecked:
    kind: access-gateway
    options: {connector: none}
    parts: {protected: {kind: nginx}}
workloads:
  granted:
    mix: {request: 1}
    keys: {count: 1000}
    request: {path: \"/pixel.gif\", expect: {status: 200, body-size: 43}}
    systems: [pooled, unchecked]
    loads: [load]
loads:
  load: {clients: 8, warmup: 500ms, stop: {after: 2s}}
trials: 1
";

/// The coordinator, which has none of the hosts' addresses, asks PostgreSQL whether it is ready.
const VAULT: &str = "\
title: Storage
systems:
  on-postgresql: {kind: vault, nodes: 3, parts: {storage: {kind: postgresql}}}
workloads:
  write: {mix: {put: 1}, keys: {count: 100}, values: {size: 64}, with: {kv: v1}, reads: default}
loads:
  steady: {clients: 2, stop: {operations: 200}}
trials: 1
";

/// The demo with an additional delay, so that a busy machine cannot change the order.
const DEMO: &str = "\
title: Syncing
systems:
  synced: {kind: canary, options: {sync: each, delay: 20ms}}
  unsynced: {kind: canary, options: {sync: none}}
workloads:
  write: {mix: {put: 1}, keys: {count: 100000, size: 64, order: uniform}, values: {size: 256}}
loads:
  steady: {clients: 16, stop: {after: 2s}}
trials: 1
";

const KEPT: &str = "\
title: Kept
systems:
  first: {kind: canary}
  second: {kind: canary}
workloads:
  write: {mix: {put: 1}, keys: {count: 100, size: 64, order: uniform}, values: {size: 64}}
loads:
  steady: {clients: 2, stop: {operations: 400}}
trials: 2
clusters: kept
";

const DYING: &str = "\
title: Dying
systems:
  dying: {kind: canary, options: {die-after: 1s}}
workloads:
  write: {mix: {put: 1}, keys: {count: 100, size: 64, order: uniform}, values: {size: 64}}
loads:
  steady: {clients: 2, stop: {after: 3s}}
trials: 1
";

fn kept() -> Result<(), SkipReason> {
    let hosts = Hosts::new(2)?;
    let places = hosts.places(&[1], &[2]);
    let ended = run(&hosts, KEPT, &places, &[]);
    let output = text(&ended);
    let trials = trials(&hosts);
    assert_eq!(trials.len(), 4, "{output}");
    for trial in &trials {
        assert_eq!(trial["outcome"]["ended"], "completed", "{output}");
        assert_eq!(trial["kept"] == true, trial["trial"]["round"] == 1, "{trial:#}");
        // Its data survives a kill and a restart, also in the second trial.
        let verdicts =
            trial["audits"].as_array().unwrap().iter().map(|one| &one["verdict"]["verdict"]);
        assert_eq!(verdicts.collect::<Vec<_>>(), ["passed", "passed"], "{output}");
    }
    for system in ["first", "second"] {
        let log = run_folder(&hosts).join("kept").join(system).join("logs");
        assert!(fs::read_dir(&log).is_ok_and(|mut logs| logs.next().is_some()), "{log:?}");
    }
    fs::remove_dir_all(hosts.dir().join("runs")).unwrap();
    let ended = run(&hosts, DYING, &places, &[]);
    let log = run_folder(&hosts).join("trials/01-dying-write-steady/logs/dying-1.log");
    assert!(log.is_file(), "{}", text(&ended));
    assert_eq!(left_on(&hosts, &[1, 2]), Vec::<String>::new());
    Ok(())
}

const PINNED: &str = "\
title: Pinned
systems:
  first: {kind: canary, limits: {cpus: [0]}}
  second: {kind: canary, limits: {cpus: [1]}}
workloads:
  write: {mix: {put: 1}, keys: {count: 100, size: 64, order: uniform}, values: {size: 64}}
loads:
  steady: {clients: 2, stop: {operations: 400}}
trials: 1
clusters: kept
";

fn pinned() -> Result<(), SkipReason> {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        return Err(SkipReason::Machine("a server and a generator need a CPU each".to_owned()));
    }
    let hosts = Hosts::new(2)?;
    // The server is on the first host, and both hosts generate load.
    let places = hosts.places(&[1], &[1, 2]);
    let ended = run(&hosts, PINNED, &places, &[]);
    let output = text(&ended);
    let trials = trials(&hosts);
    assert_eq!(trials.len(), 2, "{output}");
    for trial in &trials {
        let part = |machine: usize| &trial["machines"][machine]["generated"][0];
        // The other system's server is kept and idle.
        let own = usize::from(trial["trial"]["system"] == "second");
        let rest: Vec<usize> = (0..cpus).filter(|cpu| *cpu != own).collect();
        assert_eq!(part(0)["cpus"], serde_json::json!(rest), "{output}");
        assert_eq!(part(1)["cpus"], serde_json::Value::Null, "nothing is pinned there: {output}");
        let checks = trial["checks"].as_array().unwrap();
        let apart = checks.iter().find(|check| check["name"] == "generator apart");
        assert_eq!(apart.unwrap()["verdict"]["verdict"], "passed", "{checks:#?}");
    }
    Ok(())
}

/// A server that reports its port as taken once, after writing data, and refuses to start on that data.
fn port_taken() -> Result<(), SkipReason> {
    let hosts = Hosts::new(2)?;
    let tried = hosts.dir().join("tried");
    let script = format!(
        "if [ ! -e {tried} ]; then touch {tried} {{dir}}/left; echo listen: address already in use >&2; exit 1; fi; \
         if [ -e {{dir}}/left ]; then echo not my data >&2; exit 3; fi; \
         exec {bakeoff} __canary --listen {{address}}:{{port}} --data {{dir}}/data",
        tried = tried.display(),
        bakeoff = env!("CARGO_BIN_EXE_bakeoff"),
    );
    let study = format!(
        "title: A port that is taken once\nsystems:\n  web: {{kind: process, process: {{command: [sh, -c, \"{script}\"]}}}}\n\
         workloads:\n  asking: {{mix: {{request: 1}}, request: {{path: /health, expect: {{status: 200}}}}}}\n\
         loads:\n  steady: {{clients: 2, stop: {{operations: 400}}}}\ntrials: 1\n"
    );
    let ended = run(&hosts, &study, &hosts.places(&[1], &[2]), &[]);
    let output = text(&ended);
    assert!(
        output.contains("another process took a port; starting again on other ports"),
        "{output}"
    );
    assert_eq!(trials(&hosts)[0]["outcome"]["ended"], "completed", "{output}");
    Ok(())
}

/// Runs a study, and returns verified operations by system.
fn verified(study: &str) -> Result<BTreeMap<String, u64>, SkipReason> {
    let hosts = Hosts::new(4)?;
    let places = hosts.places(&[1, 2, 3], &[4]);
    let ended = run(&hosts, study, &places, &[]);
    let output = text(&ended);
    // On a shared machine a figure may be invalid; the trials are complete anyway.
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{output}");
    let mut verified = BTreeMap::new();
    for trial in trials(&hosts) {
        assert_eq!(trial["outcome"]["ended"], "completed", "{output}");
        for audit in trial["audits"].as_array().unwrap() {
            assert_ne!(audit["verdict"]["verdict"], "failed", "{audit}\n{output}");
        }
        let operations = &trial["stages"][0]["measurement"]["operations"];
        let figures = operations.as_object().unwrap().values();
        let count = figures.map(|of| of["verified"].as_u64().unwrap()).sum();
        assert!(count > 0, "{output}");
        let system = trial["trial"]["system"].as_str().or(trial["system"].as_str());
        verified.insert(system.unwrap().to_owned(), count);
    }
    assert_eq!(left_on(&hosts, &[1, 2, 3, 4]), Vec::<String>::new());
    Ok(verified)
}

/// Breaks nodes and their disks over SSH. A network that is not bakeoff's is not cut.
fn faults() -> Result<(), SkipReason> {
    volatile_disk_support().map_err(SkipReason::Machine)?;
    let hosts = Hosts::new(4)?;
    let places = hosts.places(&[1, 2, 3], &[4]);
    let study =
        format!("{FAULTY_ETCD}  slow: {{disk: leader, sync-delay: 50ms, at: 1s, for: 3s}}\n");
    let output = text(&run(&hosts, &study, &places, &[]));
    let trials = trials(&hosts);
    let proven = proven_faults(&trials[0]);
    assert_eq!(proven, BTreeSet::from(["killed", "paused", "rolling", "slow"]), "{output}");
    assert_eq!(left_on(&hosts, &[1, 2, 3, 4]), Vec::<String>::new());
    let study = format!("{FAULTY_ETCD}  cut: {{isolate: leader, at: 1s, for: 3s}}\n");
    let refused = run(&hosts, &study, &places, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("bakeoff cuts networks that it made"), "{}", text(&refused));
    Ok(())
}

fn demo() -> Result<(), SkipReason> {
    let verified = verified(DEMO)?;
    assert!(verified["unsynced"] > verified["synced"], "{verified:?}");
    Ok(())
}

fn ingress() -> Result<(), SkipReason> {
    let verified = verified(INGRESS)?;
    assert_eq!(verified.values().collect::<Vec<_>>(), [&3000, &3000], "{verified:?}");
    Ok(())
}

fn gateway() -> Result<(), SkipReason> {
    assert_eq!(verified(GATEWAY)?.len(), 2);
    Ok(())
}

fn vault() -> Result<(), SkipReason> {
    assert_eq!(verified(VAULT)?["on-postgresql"], 200);
    Ok(())
}
