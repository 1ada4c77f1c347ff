//! Tests valid studies and their parsed form. The modules test invalid ones.

mod credentials;
mod faults;
mod fields;
mod hostile;
mod loads;
mod metrics;
mod parts;
mod published;
mod question;
mod quick;
mod request_words;
mod services;
mod systems;
mod text;
mod workloads;

use std::time::Duration;

use super::parse;
use crate::study::shipped::shipped;
use crate::study::testing::kinds;
use crate::study::{
    Arrivals, Clusters, KeyOrder, Metric, Operation, ReadConsistency, Routing, SecretSource, Stop,
    Study, Targets,
};
use crate::units::ByteCount;

fn read(text: &str) -> Study {
    parse("my", "my.yaml", text, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Valid study, for [`check`] to break.
pub(crate) const BASE: &str = "\
title: t
systems:
  one: {kind: canary}
  three: {kind: etcd, nodes: 3}
workloads:
  write:
    mix: {put: 1}
    keys: {count: 100}
loads:
  steady:
    clients: 2
    stop: {after: 1s}
";

/// Replaces the first text of each change by the second in [`BASE`], and expects this error, without its first and
/// last line break.
#[track_caller]
fn check(changes: &[(&str, &str)], expected: &str) {
    let mut text = BASE.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "`{from}` is not in the study");
        text = text.replacen(from, to, 1);
    }
    let diagnostics = parse("my", "my.yaml", &text, &kinds()).expect_err("the study is wrong");
    assert_eq!(format!("\n{diagnostics}\n"), expected);
}

pub(crate) fn read_shipped(name: &str) -> Study {
    let (_, text) =
        shipped().iter().find(|(shipped, _)| *shipped == name).expect("a shipped study");
    parse(name, name, text, &kinds()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Shortest valid study.
const SHORT: &str = "\
title: t
systems: {one: {kind: canary}}
workloads: {write: {mix: {put: 1}, keys: {count: 10}}}
loads: {steady: {clients: 1, stop: {after: 1s}}}
";

#[test]
fn servers_of_a_system_stay_a_list_of_endpoints_in_records() {
    let system = |more: &str| -> crate::study::System {
        let text = format!("{{\"name\":\"a\",\"kind\":\"etcd\",\"nodes\":1{more}}}");
        let system = serde_json::from_str(&text).expect("a record's system");
        assert_eq!(serde_json::to_string(&system).expect("it can be written"), text);
        system
    };
    assert!(system("").is_started());
    let running = system(",\"endpoints\":[{\"tls\":true,\"host\":\"kv\",\"port\":2379}]");
    assert!(!running.is_started());
    assert_eq!(running.endpoints()[0].host, "kv");
}

#[test]
fn base_study_is_valid() {
    read(BASE);
}

#[test]
fn every_shipped_study_is_valid() {
    for (name, _) in shipped() {
        let study = read_shipped(name);
        assert_eq!(study.name, *name);
        assert!(study.description.is_some());
    }
}

#[test]
fn omitted_fields_have_the_documented_defaults() {
    let spelled_out = "\
title: t
systems: {one: {kind: canary, nodes: 1}}
workloads:
  write:
    mix: {put: 1}
    keys: {count: 10, size: 64, order: uniform, per-directory: 0}
    values: {size: 256}
    reads: linearizable
    fill: false
    loads: [steady]
loads:
  steady:
    {clients: [1], in-flight: 1, stop: {after: 1s}, warmup: 1s, timeout: 10s, targets: all, keep-alive: on}
trials: 7
audit-keys: 10000
sample-every: 1s
clusters: fresh
";
    assert_eq!(read(SHORT), read(spelled_out));
}

#[test]
fn study_survives_its_record() {
    let shipped = shipped().iter().map(|(name, _)| read_shipped(name));
    for study in shipped.chain([read(BASE), read(EVERY_FIELD)]) {
        let json = serde_json::to_string(&study).expect("a study is JSON");
        let study = Study { quick: None, ..study };
        assert_eq!(serde_json::from_str::<Study>(&json).expect("and back"), study);
    }
}

#[test]
fn more_trials_only_add_to_the_order() {
    let few = read_shipped("kv-stores");
    let more = Study { trials: few.trials + 5, ..few.clone() };
    let planned = crate::plan::plan(&few, 42);
    assert_eq!(crate::plan::plan(&more, 42)[..planned.len()], planned[..]);
}

#[test]
fn kv_stores_is_as_dbtester_published_it() {
    let study = read_shipped("kv-stores");
    assert_eq!(study.trials, 1);
    let names: Vec<_> = study.systems.iter().map(|system| system.name.as_str()).collect();
    assert_eq!(names, ["etcd", "zookeeper", "consul"]);
    assert!(study.systems.iter().all(|system| system.nodes == 3));
    assert_eq!(study.systems[2].version.as_deref(), Some("1.20.1"));
    assert_eq!(study.loads[0].clients, [1, 10, 50, 100, 300, 500, 700, 1000]);
    let best: Vec<_> = names.iter().map(|name| study.loads[1].clients_on(name)).collect();
    assert_eq!(best, [[1000], [500], [500]]);
    assert_eq!(study.workloads[0].keys.order, KeyOrder::Unique);
    assert_eq!(study.workloads[2].reads, ReadConsistency::Stale);
    assert!(study.workloads[2].fill && !study.workloads[0].fill);
    assert_eq!(study.published.len(), 3 * 12 + 3 * 5);
    let slowest = study.published.iter().find(|figure| {
        figure.system == "consul" && figure.load == "best" && figure.metric == Metric::LatencyP999Ms
    });
    assert_eq!(slowest.map(|figure| figure.value), Some(11587.7));
}

#[test]
fn published_tables_of_secret_stores_are_complete() {
    let backends = read_shipped("vault-backends");
    let nodes: Vec<_> =
        backends.systems.iter().map(|system| (system.nodes, system.nodes_in_all())).collect();
    assert_eq!(nodes, [(3, 6), (3, 4), (3, 4), (3, 5), (3, 4), (3, 3)]);
    assert_eq!(backends.published.len(), 3 * 2 * 4);
    let scaling = read_shipped("openbao-read-scaling");
    let of_operations = scaling.published.iter().filter(|figure| figure.operation.is_some());
    assert_eq!((of_operations.count(), scaling.published.len()), (4 * 4, 4 * 4 + 2 + 2 * 6));
}

#[test]
fn every_field_is_parsed() {
    let study = read(EVERY_FIELD);
    let [one, safe, near, far, _, kept, web, gated] = study.systems.as_slice() else {
        panic!("eight systems")
    };
    assert_eq!((one.version.as_deref(), one.program.as_deref()), (Some("3.10"), Some("/opt/etcd")));
    assert_eq!(one.options["snapshot-count"], "10000");
    let limits = one.limits.as_ref().expect("limits");
    assert_eq!((limits.cpu, limits.memory), (Some(0.5), Some(ByteCount(1 << 30))));
    assert_eq!(limits.cpus, [0, 2]);
    assert!(web.process.is_some() && gated.parts["backend"].process.is_some());
    let parts: Vec<_> = safe.parts.iter().map(|(role, part)| (role.as_str(), part)).collect();
    let [("balancer", balancer), ("storage", storage)] = parts.as_slice() else { panic!("parts") };
    assert_eq!((balancer.name.as_str(), balancer.nodes), ("safe-balancer", 1));
    assert_eq!((storage.name.as_str(), storage.nodes), ("safe-storage", 3));
    assert_eq!(storage.program.as_deref(), Some("/opt/consul"));
    assert_eq!(safe.nodes_in_all(), 7);
    let hosts: Vec<_> = far.endpoints().iter().map(|e| (e.tls, e.host.as_str(), e.port)).collect();
    assert_eq!(hosts, [(true, "10.0.0.5", 2379), (true, "::1", 2379), (false, "etcd-3", 2379)]);
    assert_eq!(far.nodes, 3);
    let tls = far.tls.as_ref().expect("tls");
    assert_eq!(tls.cert.as_deref(), Some("client.pem"));
    assert!(near.tls.as_ref().is_some_and(|tls| tls.insecure));
    let password = far.credentials.as_ref().and_then(|one| one.password.clone());
    assert_eq!(password, Some(SecretSource::Variable("ETCD_PASSWORD".to_owned())));
    let token = kept.credentials.as_ref().and_then(|one| one.token.clone());
    assert_eq!(token, Some(SecretSource::File("/run/token".to_owned())));
    let [mixed, listed, watched, pages, hot, late] = study.workloads.as_slice() else {
        panic!("six workloads")
    };
    let watchers = watched.watchers.as_deref().expect("watchers");
    assert_eq!((watchers.count, watchers.connections, watchers.previous), (90, 9, true));
    assert_eq!(watchers.progress, Duration::from_secs(2));
    assert_eq!(watchers.churn, Duration::from_millis(500));
    assert_eq!(watchers.slow.map(|slow| slow.pause), Some(Duration::from_secs(1)));
    assert_eq!(hot.keys.order, KeyOrder::Hotspot { keys: 0.1, operations: 0.9 });
    assert_eq!(late.keys.order, KeyOrder::Latest { exponent: 1.5 });
    assert_eq!(hot.value_sizes(), Some(&crate::study::ValueSizes::Range { from: 100, to: 1024 }));
    assert_eq!(
        (pages.request().unwrap().statuses.single(), pages.systems.as_slice()),
        (Some(201), &["web", "gated"].map(String::from)[..])
    );
    let weights: Vec<_> = mixed.mix.iter().map(|(op, weight)| (*op, *weight)).collect();
    assert_eq!(weights, [(Operation::Put, 10), (Operation::Get, 90)]);
    assert_eq!(mixed.keys.order, KeyOrder::Zipfian { exponent: 1.2 });
    assert_eq!((mixed.value_size().unwrap(), mixed.reads), (1024, ReadConsistency::Stale));
    assert_eq!(mixed.with["kv"], "v1");
    assert_eq!(mixed.loads, ["sweep"]);
    assert!(!mixed.fill && listed.fill);
    assert_eq!(listed.keys.per_directory, 100);
    assert_eq!(listed.loads, ["sweep", "open"]);
    let [sweep, open, found] = study.loads.as_slice() else { panic!("three loads") };
    assert_eq!((found.errors_max, open.errors_max), (0.6, crate::study::ERRORS_MAX));
    assert_eq!(found.warmup, Duration::from_secs(1), "a fifth of a try, at most a second");
    assert!(found.find.is_some() && !found.tls_resumption && open.tls_resumption);
    assert_eq!(sweep.clients_on("one"), [2, 20]);
    assert_eq!(sweep.clients_on("far"), [1, 10]);
    assert_eq!((sweep.arrivals, sweep.in_flight), (Arrivals::Closed, 2));
    assert_eq!(sweep.stop, Stop::Operations(1000));
    assert_eq!(open.arrivals, Arrivals::Poisson { rate: 1000.0 });
    assert_eq!(open.stop, Stop::After(Duration::from_secs(30)));
    let apart = Routing::Split { writes: Targets::Leader, reads: Targets::Followers };
    assert_eq!((sweep.targets, open.targets), (Routing::Same(Targets::All), apart));
    assert_eq!((sweep.keep_alive, open.keep_alive), (true, false));
    assert_eq!((open.warmup, open.timeout), (Duration::from_secs(5), Duration::from_secs(1)));
    assert_eq!(study.deciding_place(), ("listed", "open"));
    let quick = study.quick.as_ref().expect("a quick form");
    assert_eq!(
        (&quick.workloads[..], &quick.systems[..]),
        (&["listed".to_owned()][..], &["one".to_owned(), "far".to_owned()][..])
    );
    assert_eq!(
        (quick.loads.len(), quick.loads[0].warmup, quick.trials),
        (1, Duration::from_secs(1), 4)
    );
    assert_eq!(quick.loads[0].stop, Stop::After(Duration::from_secs(5)));
    assert_eq!((study.trials, study.audit_keys), (5, 500));
    assert_eq!(study.kill, Some(crate::study::Kill::AtRest));
    assert_eq!(study.sample_every, Duration::from_millis(250));
    assert_eq!(study.clusters, Clusters::Kept);
    let figures: Vec<_> = study.published.iter().map(|f| (f.load.as_str(), f.value)).collect();
    assert_eq!(figures, [("sweep", 2921.0), ("open", 10.2), ("open", 0.0)]);
}

/// Study with every field of a fault and of an audit.
pub(crate) const EVERY_FAULT: &str = r#"
title: t
systems:
  one: {kind: etcd, nodes: 3}
  two: {kind: vault, parts: {storage: {kind: consul, nodes: 3}}}
workloads: {w: {mix: {put: 1}, keys: {count: 9}, systems: [two]}, seen: {mix: {put: 1}, keys: {count: 9}, watchers: {count: 9}, systems: [one]}}
loads: {open: {rate: 1000/s, clients: 4, stop: {after: 60s}}}
faults:
  paused: {pause: leader, at: 20s, for: 1500ms}
  killed: {kill: {part: storage, node: follower-1}, at: 0s, restart-after: 1s, systems: [two]}
  stopped: {stop: follower-2, at: 1s, restart-after: 1s, systems: [one]}
  rolling: {restart: each, at: 10s, every: 2s}
  upgrade: {restart: each, at: 10s, every: 2s, to: 3.10, systems: [one]}
  deaf: {isolate: {part: storage}, at: 1s, for: 1s, direction: in, systems: [two]}
  half-open: {isolate: leader, at: 1s, for: 1s, existing: only}
  split: {partition: [[leader, follower-1], [follower-2]], at: 1s, for: 1s, systems: [one]}
  late: {delay: leader, by: 50ms, jitter: 5ms, loss: 1%, at: 1s, for: 1s}
  kept: {run: defragment, node: each, at: 5s, systems: [one]}
  stored: {run: snapshot, node: {part: storage}, at: 5s, every: 1s, times: 10, systems: [two]}
  staircase: {sequence: [paused, again], at: 10s, rest: 5s}
  again: {stop: leader, at: 0s, restart-after: 1s, alone: false}
  slow: {disk: leader, sync-delay: 100ms, at: 1s, for: 1s}
  stalled: {disk: each, stall: true, at: 1s, for: 1s, systems: [one]}
  full: {disk: {part: storage}, full: true, at: 1s, for: 1s, systems: [two]}
  compacted: {run: compact, keep: 9, at: 5s, systems: [one]}
  dropped: {drop: watchers, share: 30%, at: 5s, systems: [one]}
  silent: {silence: watchers, at: 5s, for: 1s, systems: [one]}
repeat: 9
audit: {kill: under-load, linearizability: true, history: true, power-cut: one, cuts: 2, bit-flip: one}
published: [{system: one, workload: seen, fault: paused, metric: outage-max-s, value: 40}]
"#;

/// Study with every field of every other table.
pub(crate) const EVERY_FIELD: &str = r#"
title: every field
description: in one study
systems:
  one:
    kind: etcd
    version: 3.10
    program: /opt/etcd
    nodes: 3
    options: {snapshot-count: 10000}
    limits: {cpu: 0.5, memory: 1GiB, cpus: [2, 0]}
  safe:
    kind: vault
    nodes: 3
    parts:
      storage:
        {kind: consul, version: 1.20, program: /opt/consul, nodes: 3, options: {raft-multiplier: 1}, limits: {cpu: 1}}
      balancer: {kind: haproxy, options: {to: leader}}
  near: {kind: etcd, endpoints: ["https://a:1", "https://b:1"], tls: {insecure: true},
         credentials: {user: me, password-file: kv.password}}
  far:
    kind: etcd
    endpoints: ["https://10.0.0.5:2379/", "https://[::1]:2379", etcd-3:2379]
    metrics: ["https://10.0.0.5:2379/metrics", "http://[::1]:9100"]
    tls: {ca: ca.pem, cert: client.pem, key: client.key}
    credentials: {user: root, password: $ETCD_PASSWORD}
  held: {kind: vault, endpoints: [vault-1:8200, vault-2:8200], credentials: {token: $OTHER_TOKEN}}
  kept: {kind: vault, endpoints: [vault-3:8200, vault-4:8200], credentials: {token-file: /run/token}}
  web:
    kind: process
    process: {command: [./web], environment: {LOG: warn}, files: {a.conf: b}, ready: /health}
  gated:
    kind: gate
    parts: {backend: {kind: process, process: {command: [./web]}}}
workloads:
  mixed:
    mix: {get: 90, put: 10, delete: 0}
    keys: {count: 1000, size: 128, order: {zipfian: 1.2}, per-directory: 0}
    values: {size: 1KiB}
    with: {kv: v1}
    reads: stale
    fill: false
    loads: [sweep]
    systems: [one, safe, near, far]
  listed: {mix: {list: 1}, keys: {count: 1000}, systems: [one, safe, near, far, held, kept], loads: [sweep, open]}
  watched:
    mix: {put: 1}
    keys: {count: 9}
    watchers: {count: 90, of: prefix, from: now, connections: 9, previous: true, progress: 2s, churn: 500ms, slow: {connections: 1, every: 2s, for: 1s}}
    systems: [one]
    loads: [open]
  pages:
    mix: {request: 90%, denied: 10%}
    request:
      method: POST
      path: /
      headers: {accept: text/html}
      body: b
      rows: {file: users.csv, sha256: ab}
      http2: true
      expect: {status: 201, headers: {a: b}, body-size: 43, contains: c}
    systems: [web, gated]
    loads: [found]
  hot:
    mix: {get: 1}
    keys: {count: 1000, order: {hotspot: {keys: 10%, operations: 90%}}}
    values: {size: {from: 100, to: 1KiB}}
    systems: [one]
    loads: [sweep]
  late:
    mix: {get: 1, put: 1}
    keys: {count: 1000, order: {latest: 1.5}}
    values: {size: {file: sizes.txt}}
    systems: [one]
    loads: [sweep]
loads:
  sweep:
    clients: [1, 10]
    clients-for: {one: [2, 20]}
    in-flight: 2
    stop: {operations: 1000}
  open:
    clients: 100
    rate: 1000/s
    arrivals: poisson
    stop: {after: 30s}
    warmup: 5s
    timeout: 1s
    targets: {writes: leader, reads: followers}
    keep-alive: off
  found:
    clients: 100
    rate: 1000/s
    stop: {after: 30s}
    tls-resumption: off
    errors-max: 60%
    find: {objective: [p99 < 50ms]}
question: listed/open
quick:
  workloads: [listed]
  systems: [one, far]
  loads: {open: {warmup: 1s, stop: {after: 5s}}}
  trials: 4
trials: 5
audit-keys: 500
audit: {kill: at-rest}
sample-every: 250ms
clusters: kept
publication: {title: p, hardware: h, versions: v}
published:
  - {system: one, workload: mixed, operation: get, metric: throughput-mean, value: 2921, note: n}
  - system: far
    workload: listed
    load: open
    figures: {latency-p50-ms: 10.20, errors: 0}
"#;

#[test]
fn aliases_repeat_what_they_name() {
    let study = read(
        "title: t
systems: {a: &three {kind: canary, options: {sync: each}}, b: *three}
workloads: {write: {mix: {put: 1}, keys: {count: 10}}}
loads: {steady: {clients: 1, stop: {after: 1s}}}
",
    );
    assert_eq!(study.systems[0].options, study.systems[1].options);
}
