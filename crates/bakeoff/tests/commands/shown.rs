//! Tests a run's findings: two modes, failures that waited, log findings, handshakes, the generator's CPU affinity,
//! throttling.

use crate::support::canary::alone;
use crate::support::certificates::Certificates;
use crate::support::{Bench, Run, array, skipped, text};
use serde_json::Value;

/// Runs one trial of a canary with these fields, with reads and writes.
fn canary(fields: &str, load: &str) -> Run {
    let run = Bench::new(&format!(
        "title: A canary that leads somewhere\n\
         systems: {{gate: {{kind: canary{fields}}}}}\n\
         workloads: {{both: {{mix: {{get: 1, put: 1}}, keys: {{count: 50}}, fill: false}}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ))
    .run();
    crate::support::nothing_runs_in(run.bench.path());
    run
}

fn findings(run: &Run) -> Vec<&str> {
    array(&run.report["findings"]).iter().map(text).collect()
}

#[track_caller]
fn finds(run: &Run, parts: &[&str]) {
    let found = findings(run);
    let is_it = |finding: &&&str| parts.iter().all(|part| finding.contains(part));
    assert!(found.iter().any(|finding| is_it(&finding)), "{parts:?} is not in {found:#?}");
}

/// Returns the trial's line of the record.
fn trial(run: &Run) -> Value {
    run.record().into_iter().find(|line| line["line"] == "trial").expect("there was a trial")
}

fn verdict(run: &Run, name: &str) -> Value {
    let trial = trial(run);
    let check = array(&trial["checks"]).iter().find(|check| check["name"] == name).cloned();
    check.map_or(Value::Null, |check| check["verdict"].clone())
}

#[test]
fn gate_with_timeouts_shows_their_cause() {
    // On a busy machine even the fastest failure may exceed the timeout.
    let _alone = alone();
    let fields = ", options: {error: 45%, error-after: 300ms, complain: 100%}";
    let run = canary(fields, "{clients: 16, warmup: 0s, stop: {after: 4s}}");
    finds(&run, &["bimodal", " of the slow ones failed", "took 300 ms to "]);
    let failed = run.figure("errors_status");
    assert!(failed > 100.0, "{}", run.trial());
    let output = format!("{failed} failures lasted 300 ms to ");
    let timeout = "which suggests a timeout of 300ms behind the server";
    finds(&run, &[&output, timeout, &format!("they were {failed} × `status`: 500")]);
    finds(&run, &["gate's servers logged ", "× on gate-1: request N for \"…\" failed"]);

    let trial = trial(&run);
    let [log] = array(&trial["log_findings"]) else { panic!("{}", trial["log_findings"]) };
    let [kind] = array(&log["kinds"]) else { panic!("{log}") };
    assert_eq!((text(&log["node"]), text(&kind["level"])), ("gate-1", "error"));
    let (lines, count) = (log["lines"].as_f64().unwrap(), kind["count"].as_f64().unwrap());
    assert_eq!(lines, count);
    assert_eq!(count, failed, "it complains of each failure, and of those of the audits too");
    assert!(text(&kind["example"]).contains("[error] request "), "{kind}");
}

#[test]
fn honest_server_has_one_mode_and_no_findings() {
    let run = canary("", "{clients: 8, warmup: 0s, stop: {after: 2s}}");
    let found = findings(&run);
    assert!(
        !found.iter().any(|one| one.contains("bimodal") || one.contains("lasted")),
        "{found:?}"
    );
    assert_eq!(trial(&run)["log_findings"], Value::Null);
    assert_eq!(verdict(&run, "generator apart"), Value::Null);
}

#[test]
fn log_findings_outside_of_the_load_do_not_count() {
    // Filling fails, so there is no load.
    let run = Bench::new(
        "title: A canary\n\
         systems: {gate: {kind: canary, options: {error: 45%, complain: 1}}}\n\
         workloads: {read: {mix: {get: 1}, keys: {count: 50}}}\n\
         loads: {load: {clients: 2, stop: {operations: 10}}}\n\
         trials: 1\n",
    )
    .run();
    let trial = trial(&run);
    assert!(text(&trial["outcome"]["why"]).contains("could be written"), "{}", trial["outcome"]);
    assert_eq!(trial["log_findings"], Value::Null);
}

#[test]
fn generator_leaves_cpus_to_pinned_nodes() {
    let cpus: usize = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = "{clients: 2, stop: {operations: 200}}";
    if cpus < 2 {
        skipped("one CPU leaves none");
    } else {
        let run = canary(", limits: {cpus: [0]}", load);
        let own = array(&trial(&run)["generator_cpus"]).to_vec();
        assert!(!own.is_empty() && !own.contains(&Value::from(0)), "{own:?}");
        assert_eq!(text(&verdict(&run, "generator apart")["verdict"]), "passed");
        let rows = array(&run.report["fairness"]["rows"]);
        let row = rows.iter().find(|row| row["what"] == "load generator").expect("a row");
        assert!(text(&row["cells"][0]).ends_with(" of its own"), "{row}");
    }
    let all: Vec<String> = (0..cpus).map(|cpu| cpu.to_string()).collect();
    let run = canary(&format!(", limits: {{cpus: [{}]}}", all.join(", ")), load);
    let verdict = verdict(&run, "generator apart");
    assert_eq!(text(&verdict["verdict"]), "not-checked", "{verdict}");
    assert!(text(&verdict["why"]).contains("pinned to all CPUs"), "{verdict}");
}

/// Other work on the machine may give a server less than its limit, which proves nothing about the limit.
const ATTEMPTS: usize = 3;

#[test]
fn throttled_server_is_reported_as_bound_by_its_limit() {
    let misses: Vec<String> = (0..ATTEMPTS).map_while(|_| throttled().err()).collect();
    assert!(misses.len() < ATTEMPTS, "in none of {ATTEMPTS} attempts: {misses:#?}");
}

/// Loads a server with a limit of 0.05 CPU. The error holds the findings if it got clearly less.
fn throttled() -> Result<(), String> {
    let run = canary(", limits: {cpu: 0.05}", "{clients: 16, warmup: 0s, stop: {after: 3s}}");
    let limits = verdict(&run, "limits");
    if text(&limits["verdict"]) == "not-checked" {
        // The sheet then says why the figures mean little.
        finds(&run, &["requested limits were not applied to gate", "say little about"]);
        skipped(&limits.to_string());
        return Ok(());
    }
    if run.excused(run.trial())? {
        // Without figures there is no finding about its limit.
        finds(&run, &["gate has no valid trial under both/load"]);
        skipped("a throttled server has no figures: other work spoilt its trial");
        return Ok(());
    }
    let throttled = |finding: &&str| finding.starts_with("gate-1 of gate was throttled in ");
    let found = findings(&run);
    let Some(finding) = found.iter().find(|one| throttled(one)) else {
        return Err(format!("no finding of its limit: {found:#?}"));
    };
    let used = run.report["comparisons"][0]["systems"][0]["trials"][0]["nodes"][0].clone();
    let throttled = used["throttled_share"].as_f64() > Some(0.5);
    let cpu = used["cpu_mean_percent"].as_f64().unwrap();
    // The kernel hands out slices of 5 ms, so a period may exceed its 5 ms limit by one slice.
    assert!(cpu < 7.5, "{used}");
    // If the machine gave the server no CPU for a while, that limited it more than its limit.
    let bound = finding.contains("its limit of 0.05 CPU, not the program, set the pace");
    if bound && throttled && cpu > 2.0 { Ok(()) } else { Err(format!("{finding}; {used}")) }
}

/// Returns the full and resumed handshakes of 40 requests by four clients.
fn handshakes(load: &str) -> (Run, u64, u64) {
    let certificates = Certificates::new();
    let address = certificates.server();
    let run = Bench::new(&format!(
        "title: Handshakes\n\
         systems: {{web: {{kind: http, endpoints: [\"https://{address}\"], tls: {{ca: \"{}\"}}}}}}\n\
         workloads: {{pages: {{mix: {{request: 1}}, request: {{path: /}}}}}}\n\
         loads: {{load: {{clients: 4, stop: {{operations: 40}}{load}}}}}\n\
         trials: 1\n",
        certificates.path("ca.pem").display()
    ))
    .run()
    .ended_well();
    let seen = trial(&run)["stages"][0]["measurement"]["handshakes"].clone();
    let number = |name: &str| seen[name].as_u64().unwrap_or_else(|| panic!("{seen}"));
    let (full, resumed) = (number("full"), number("resumed"));
    assert_eq!(run.figure("tls_handshakes_full"), full as f64);
    (run, full, resumed)
}

#[test]
fn handshakes_are_counted_full_and_resumed() {
    let (_, full, resumed) = handshakes("");
    assert_eq!((full + resumed, full > 0), (4, true), "one for each client; the first is anew");
    let (run, full, resumed) = handshakes(", keep-alive: off");
    assert_eq!(full + resumed, 40, "one for each request");
    assert!((1..=8).contains(&full) && resumed >= 32, "{full} full, {resumed} resumed");
    let rows = array(&run.report["fairness"]["rows"]);
    let row = rows.iter().find(|row| row["what"] == "TLS handshakes").expect("a row");
    assert!(text(&row["cells"][0]).contains("resumed for "), "{row}");
    assert_eq!(verdict(&run, "handshakes"), Value::Null);
}

#[test]
fn every_handshake_is_full_without_tls_resumption() {
    let (run, full, resumed) = handshakes(", keep-alive: off, tls-resumption: off");
    assert_eq!((full, resumed), (40, 0));
    assert_eq!(text(&verdict(&run, "handshakes")["verdict"]), "passed");
}

#[test]
fn reads_of_unwritten_keys_are_reported_as_misses() {
    let run = |fill: bool| {
        Bench::new(&format!(
            "title: Reads\nsystems: {{gate: {{kind: canary}}}}\nworkloads:\n  reads: {{mix: {{get: 3, put: 1}}, \
             keys: {{count: 20000}}, values: {{size: 100}}, fill: {fill}}}\n\
             loads: {{load: {{clients: 2, warmup: 0s, stop: {{operations: 400}}}}}}\ntrials: 1\n"
        ))
        .run()
    };
    let (empty, filled) = (run(false), run(true));
    let misses = " of the reads of gate under reads/load found no value";
    let reports = |run: &Run| findings(run).iter().any(|finding| finding.contains(misses));
    assert!(reports(&empty) && !reports(&filled), "{:?}", findings(&empty));
    assert_eq!(filled.figure("read_misses"), 0.0);
    let reads = |run: &Run| run.figure("read_hits") + run.figure("read_misses");
    assert!(empty.figure("read_misses") > 0.9 * reads(&empty), "{}", empty.trial());
    assert!((200.0..400.0).contains(&reads(&filled)), "{}", filled.trial());
}
