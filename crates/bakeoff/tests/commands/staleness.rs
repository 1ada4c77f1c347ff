//! Tests staleness of reads, the read/write split, and connections without keep-alive, against canaries with a known
//! lag and request counters.
//!
//! The tests read the record. Bounds allow for a busy machine: a lag of 300 ms far exceeds the latency between canary
//! and generator.
//!
//! Not here: computing staleness from times (`bakeoff_core::staleness`), real systems (`bakeoff_systems`).

use serde_json::Value;

use crate::support::canary::Canary;
use crate::support::{Bench, CommandOutput, array, decode, text};

const LAG_MS: f64 = 300.0;

/// Returns the only trial of a study of one canary system.
fn trial(system: &str, workload: &str, load: &str) -> Value {
    let bench = Bench::new(&format!(
        "title: A canary\nsystems: {{canary: {{kind: canary, {system}}}}}\n\
         workloads: {{work: {workload}}}\nloads: {{load: {load}}}\ntrials: 1\n"
    ));
    let ran = CommandOutput::run(bench.command().args(["--threads", "2"]));
    // 1 means not valid; the tests check the relevant parts.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    bench.record()[1].clone()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn measured(trial: &Value) -> &Value {
    &trial["stages"][0]["measurement"]
}

/// Returns a quantile of a record's histogram, in milliseconds.
fn ms(histogram: &Value, quantile: f64) -> f64 {
    decode(histogram).value_at_quantile(quantile) as f64 / 1e6
}

const SPLIT: &str = "targets: {writes: leader, reads: followers}";
const LAGGING: &str = "nodes: 3, options: {old: 300ms, sync: none}";

#[test]
fn constantly_written_key_is_as_stale_as_its_node() {
    // One client writes one key every 20 ms: 15 versions within the lag.
    let workload = "{mix: {put: 50, get: 50}, keys: {count: 1}, reads: stale}";
    let load = format!("{{clients: 2, rate: 100/s, stop: {{after: 4s}}, warmup: 500ms, {SPLIT}}}");
    let trial = trial(LAGGING, workload, &load);
    let staleness = array(&measured(&trial)["staleness"]);
    let of = &staleness[0];
    assert_eq!(of["node"], "canary-2");
    assert_eq!(count(&staleness[1]["reads"]), 0, "one client reads, at one node");
    let (reads, stale) = (count(&of["reads"]), count(&of["stale"]));
    assert!(reads >= 150, "{reads} reads");
    assert!(stale as f64 >= 0.98 * reads as f64, "{stale} of {reads} are stale");
    assert_eq!(decode(&of["exact"]).len(), stale);
    assert!(of.get("at_least").is_none(), "nothing is forgotten");
    // The first write within the lag began less than one interval after its start, and was acknowledged a bit later.
    let (p50, p99, worst) = (ms(&of["exact"], 0.5), ms(&of["exact"], 0.99), ms(&of["exact"], 1.0));
    assert!((LAG_MS - 50.0..=LAG_MS + 10.0).contains(&p50), "p50 {p50} ms");
    assert!(worst >= p99 && p99 <= LAG_MS + 60.0, "p99 {p99} ms, worst {worst} ms");
    let behind = count(&of["behind"]) as f64 / stale as f64;
    assert!((11.0..=17.0).contains(&behind), "{behind} versions behind on average");
    let get = &measured(&trial)["operations"]["get"];
    assert_eq!(count(&get["stale_reads"]), stale);
    assert!(get["errors"].as_object().unwrap().is_empty(), "they may be old: {get}");
}

#[test]
fn rarely_written_keys_are_stale_as_predicted() {
    // A Poisson process writes each of 100 keys every 2 s. The probability of a write within the lag L is 1 - exp(-L/2
    // s), and the staleness of the first such write is then almost uniform in 0..L.
    let workload = "{mix: {put: 50, get: 200}, keys: {count: 100}, reads: stale}";
    let load = format!(
        "{{clients: 20, rate: 250/s, arrivals: poisson, stop: {{after: 8s}}, warmup: 1s, {SPLIT}}}"
    );
    let trial = trial(LAGGING, workload, &load);
    let staleness = array(&measured(&trial)["staleness"]);
    let nodes: Vec<&str> = staleness.iter().map(|of| text(&of["node"])).collect();
    assert_eq!(nodes, ["canary-2", "canary-3"]);
    let expected = 1.0 - (-LAG_MS / 2000.0).exp();
    for of in staleness {
        let (reads, stale) = (count(&of["reads"]), count(&of["stale"]));
        assert!(reads > 600, "{reads} reads");
        let share = stale as f64 / reads as f64;
        assert!((share - expected).abs() < 0.05, "{share} stale, expected {expected}");
        let (p50, worst) = (ms(&of["exact"], 0.5), ms(&of["exact"], 1.0));
        assert!((0.35 * LAG_MS..=0.7 * LAG_MS).contains(&p50), "p50 {p50} ms");
        assert!((0.8 * LAG_MS..=LAG_MS + 60.0).contains(&worst), "worst {worst} ms");
    }
}

#[test]
fn node_without_lag_is_never_stale() {
    let workload = "{mix: {put: 50, get: 50}, keys: {count: 5}, reads: stale}";
    let load = format!("{{clients: 8, warmup: 0s, stop: {{after: 2s}}, {SPLIT}}}");
    let trial = trial("nodes: 3, options: {sync: none}", workload, &load);
    for of in array(&measured(&trial)["staleness"]) {
        assert!(count(&of["reads"]) > 50, "{of}");
        assert_eq!(count(&of["stale"]), 0, "{of}");
    }
}

#[test]
fn stale_read_is_an_error_if_fresh_reads_are_guaranteed() {
    let workload = "{mix: {put: 50, get: 50}, keys: {count: 1}}";
    let load = format!("{{clients: 2, rate: 100/s, warmup: 0s, stop: {{after: 2s}}, {SPLIT}}}");
    let trial = trial(LAGGING, workload, &load);
    assert!(measured(&trial).get("staleness").is_none());
    let errors = &measured(&trial)["operations"]["get"]["errors"];
    assert!(count(&errors["stale-value"]["count"]) > 50, "{errors}");
}

#[test]
fn split_sends_writes_to_the_leader_and_reads_to_followers() {
    let workload = "{mix: {put: 20, get: 70, list: 10}, keys: {count: 500, per-directory: 50}}";
    let load = format!("{{clients: 10, rate: 500/s, stop: {{operations: 1001}}, {SPLIT}}}");
    let trial = trial("nodes: 3, options: {sync: none}", workload, &load);
    assert_eq!(trial["targets"], serde_json::json!(["canary-1", "canary-2", "canary-3"]));
    let measured = measured(&trial);
    let verified = |name: &str| count(&measured["operations"][name]["verified"]);
    assert_eq!(verified("put"), 200);
    assert_eq!(verified("get") + verified("list"), 801);
    let nodes = array(&measured["targets"]);
    let by_node: Vec<u64> = nodes.iter().map(|of| count(&of["verified"])).collect();
    assert_eq!(by_node.len(), 3);
    assert_eq!(by_node[0], 200, "{by_node:?}");
    assert_eq!(by_node[1] + by_node[2], 801, "{by_node:?}");
    assert!(by_node[1].abs_diff(by_node[2]) < 200, "in turn: {by_node:?}");
    // 1,001 at 500/s, both halves from the same start.
    let window = measured["window"].as_f64().unwrap();
    assert!((1.9..2.6).contains(&window), "{window} s");
    let first = &measured["seconds"][0]["operations"];
    assert!(first.get("put").is_some() && first.get("get").is_some(), "{first}");
    assert_eq!(count(&measured["generator_threads"]), 2);
    for audit in array(&trial["audits"]) {
        assert_eq!(audit["verdict"]["verdict"], "passed", "{audit}");
    }
}

#[test]
fn split_halves_use_each_unique_key_at_most_once() {
    let workload = "{mix: {put: 50, get: 50}, keys: {count: 400, order: unique}}";
    let load = format!("{{clients: 4, rate: 400/s, stop: {{operations: 400}}, {SPLIT}}}");
    let trial = trial("nodes: 2, options: {sync: none}", workload, &load);
    let measured = measured(&trial);
    assert_eq!(measured["keys_exhausted"], false);
    for name in ["put", "get"] {
        let of = &measured["operations"][name];
        assert_eq!(count(&of["verified"]), 200, "{of}");
    }
}

#[test]
fn keep_alive_off_opens_a_connection_per_operation() {
    for (keep_alive, least, most) in [("on", 3, 60), ("off", 600, 660)] {
        let canary = Canary::start("");
        let before = canary.stat("connections");
        let system = format!("endpoints: [\"http://{}\"]", canary.address);
        let load = format!("{{clients: 3, stop: {{operations: 600}}, keep-alive: {keep_alive}}}");
        let workload = "{mix: {put: 50, get: 50}, keys: {count: 20}, fill: false}";
        let trial = trial(&system, workload, &load);
        let operations = measured(&trial)["operations"].as_object().unwrap();
        let verified: u64 = operations.values().map(|of| count(&of["verified"])).sum();
        assert_eq!(verified, 600, "{operations:?}");
        assert_eq!(count(&measured(&trial)["connection_errors"]["count"]), 0);
        let connections = canary.stat("connections") - before;
        // Readiness probes, audits and this query open some too.
        assert!((least..=most).contains(&connections), "{connections} with {keep_alive}");
        assert_eq!(canary.stat("closing_requests") >= 600, keep_alive == "off");
    }
}
