//! Tests the effect of a canary's faults on figures, to the last operation where they can be counted.
//!
//! Each test injects one fault, runs a study as a user would, and looks for the fault's name in the results. Bounds are
//! wide, so that tests pass on a slow and noisy machine but fail if a check does not work.
//!
//! Not here: which check reports a fault, and its message (`tests/faults`).

use crate::support::canary::alone;
use crate::support::{AUDITS, Bench, Run, array, text};

/// Runs one trial of a canary with these options.
fn canary(options: &str, workload: &str, load: &str) -> Run {
    let run = Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary, options: {{{options}}}}}}}\n\
         workloads: {{work: {workload}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ))
    .run();
    crate::support::nothing_runs_in(run.bench.path());
    run
}

/// Each key once, so that no later write hides a lost one.
const ONCE: &str = "{mix: {put: 1}, keys: {count: 2000, order: unique}}";
/// Each key about twenty times, so that all are there and some are old.
const UPDATES_ONLY: &str = "{mix: {put: 1}, keys: {count: 50}}";
const GETS: &str = "{mix: {get: 1}, keys: {count: 100}}";
/// Without a fill, which any failure would end.
const UNFILLED: &str = "{mix: {put: 50, get: 50}, keys: {count: 100}, fill: false}";
const UPDATES: &str = "{mix: {put: 50, get: 50}, keys: {count: 50}}";
const SHORT: &str = "{clients: 4, stop: {operations: 1000}}";

/// Asserts that the trial is not valid for these reasons.
#[track_caller]
fn is_invalid(run: &Run, reasons: &[&str]) {
    assert_eq!(run.ran.code, Some(1), "{}", run.ran.stderr);
    assert_eq!(run.trial()["valid"], false);
    let because = run.invalid_because();
    for reason in reasons {
        assert!(because.contains(reason), "`{reason}` is not in:\n{because}");
    }
}

/// Returns the keys that an audit of the only trial found `lost` or `wrong`.
#[track_caller]
fn found(run: &Run, when: &str, what: &str) -> u64 {
    let audits = array(&run.trial()["audits"]);
    let audit = audits.iter().find(|audit| audit["when"] == when).expect("there was an audit");
    audit[what].as_u64().expect("it counts")
}

#[test]
fn one_lost_write_fails_the_trial() {
    let load = "{clients: 4, stop: {operations: 2000}}";
    let run = canary("lose: 0.1%", ONCE, load);
    is_invalid(&run, &["after the load: ", " are lost and "]);
    assert!((1..20).contains(&found(&run, AUDITS[0], "lost")));
}

#[test]
fn lost_update_fails_the_trial() {
    let run = canary("lose: 20%", UPDATES_ONLY, SHORT);
    is_invalid(&run, &["after the load: ", "0 are lost and "]);
    assert!(found(&run, AUDITS[0], "wrong") > 0);
}

#[test]
fn write_lost_on_restart_fails_the_trial() {
    let run = canary("lose-on-restart: 5%", ONCE, SHORT);
    is_invalid(&run, &["after kill -9 and restart of all nodes: ", " are lost and "]);
    assert_eq!(run.audit(AUDITS[0]), "passed", "until the restart nothing is wrong");
    assert_eq!(run.audit(AUDITS[1]), "failed");
    assert!(found(&run, AUDITS[1], "lost") > 0);
}

/// Runs a study of a canary whose nodes are all killed during writes.
fn killed_under_load(options: &str) -> Run {
    let run = Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary, options: {{{options}}}}}}}\n\
         workloads: {{work: {ONCE}}}\n\
         loads: {{load: {SHORT}}}\n\
         audit: {{kill: under-load}}\n\
         trials: 1\n"
    ))
    .run();
    crate::support::nothing_runs_in(run.bench.path());
    run
}

#[test]
fn early_acknowledgement_fails_the_trial_when_killed_under_load() {
    let run = killed_under_load("sync: none, write-every: 300ms");
    assert_eq!(run.audit(AUDITS[0]), "passed", "until the kill nothing is wrong");
    assert_eq!(run.audit(AUDITS[1]), "failed");
    is_invalid(
        &run,
        &["after kill -9 and restart of all nodes: ", "the system claims to acknowledge a write"],
    );
    assert!(found(&run, AUDITS[1], "lost") + found(&run, AUDITS[1], "wrong") > 0);
}

#[test]
fn honest_canary_passes_a_reported_kill_under_load() {
    let run = killed_under_load("sync: none");
    assert_eq!(run.audit(AUDITS[1]), "passed", "{}", run.invalid_because());
    let audits = array(&run.trial()["audits"]);
    let killed = &audits.iter().find(|audit| audit["when"] == AUDITS[1]).unwrap()["under_load"];
    assert_eq!(killed["clients"], 4);
    assert!(killed["acknowledged"].as_u64().is_some_and(|count| count > 0), "{killed}");
    assert!(killed["after_ms"].as_u64().is_some_and(|after| after >= 1000), "{killed}");
    let shown = crate::support::CommandOutput::run(
        crate::support::bakeoff().args(["report", "--all"]).arg(&run.bench.runs()[0]),
    )
    .stdout;
    assert!(shown.contains("killed while 4 clients wrote ("), "{shown}");
}

#[test]
fn corrupted_value_fails_the_trial_and_counts_as_wrong() {
    let run = canary("corrupt: 5%", GETS, SHORT);
    is_invalid(&run, &["answers: ", " wrong answers; key `bakeoff/"]);
    assert_eq!(run.figure("requests_verified") + run.figure("errors_wrong_value"), 1000.0);
    assert!(run.figure("errors_wrong_value") > 5.0);
}

#[test]
fn stale_read_fails_the_trial_and_counts_as_stale() {
    let run = canary("stale: 20%", UPDATES, "{clients: 4, stop: {operations: 2000}}");
    is_invalid(&run, &["answers: ", "stale answers; key `bakeoff/"]);
    assert!(run.figure("errors_stale_value") > 5.0);
    assert_eq!(run.figure("errors_wrong_value"), 0.0, "stale is a kind of its own");
}

#[test]
fn truncated_body_is_not_a_success() {
    let run = canary("truncate: 5%", GETS, SHORT);
    let errors = run.figure("errors");
    assert!(errors > 5.0, "{}", run.trial());
    assert_eq!(run.figure("requests_verified") + errors, 1000.0);
    assert_eq!(run.figure("errors_reset"), errors, "the connection ended with it");
    assert!(run.figure("connections_lost") >= errors);
}

#[test]
fn end_of_connection_with_the_last_bytes_is_seen_at_once() {
    // One timeout each would take minutes.
    let run = canary("truncate: 5%", GETS, SHORT);
    assert_eq!(run.figure("errors_timeout"), 0.0, "{}", run.trial());
    assert!(run.figure("response_max_ms") < 9000.0, "{}", run.trial());
}

#[test]
fn closed_connections_fail_puts_and_repeat_gets() {
    let run = canary("refuse: 5%", UNFILLED, SHORT);
    assert!(run.figure("errors_closed") > 5.0, "{}", run.trial());
    assert!(run.figure("requests_reissued") > 5.0, "{}", run.trial());
    // The first request of a connection is not repeated.
    let failed = run.figure("errors_closed") + run.figure("errors_reset");
    assert_eq!(run.figure("requests_verified") + failed, 1000.0);
    assert!(run.figure("connections_lost") >= failed);
}

#[test]
fn garbage_counts_as_protocol_errors() {
    let run = canary("garbage: 5%", UNFILLED, SHORT);
    assert!(run.figure("errors_protocol") > 5.0, "{}", run.trial());
    assert_eq!(run.figure("requests_verified") + run.figure("errors_protocol"), 1000.0);
}

#[test]
fn quick_errors_do_not_count_as_throughput() {
    let run = canary("error: 60%", UNFILLED, "{clients: 4, stop: {operations: 2000}}");
    let (verified, errors) = (run.figure("requests_verified"), run.figure("errors_status"));
    assert_eq!(verified + errors, 2000.0);
    assert!((1000.0..1400.0).contains(&errors), "{errors}");
    let claimed = run.figure("throughput_mean_per_second") * run.figure("seconds");
    assert!((claimed - verified).abs() < 1.0, "throughput counts {claimed} of {verified} verified");
    let example = &array(&run.trial()["measurement"]["error_examples"])[0];
    assert_eq!(text(&example["kind"]), "status");
    assert!(text(&example["what"]).contains("500"), "{example}");
}

#[test]
fn stall_shows_in_response_times_of_all_requests_due_during_it() {
    let _alone = alone();
    let stall = "stall: 1s, stall-after: 2s";
    let run = canary(stall, GETS, "{clients: 8, rate: 300/s, warmup: 0s, stop: {after: 4s}}");
    assert_eq!(run.figure("errors"), 0.0, "{}", run.trial());
    // 1,200 operations; about 300 were due during the stall, and half of those waited more than half of it.
    let delayed = slower_than(&run, 100.0);
    assert!(delayed >= 200.0, "only {delayed} operations show the stall");
    assert!(run.figure("response_max_ms") >= 800.0, "{}", run.trial());
    // Only one request per client was in flight, so service time alone would hide the stall.
    assert!(run.figure("service_p95_ms") < 500.0, "{}", run.trial());
    assert!(run.figure("response_p90_ms") > 100.0, "{}", run.trial());
}

/// Returns the operations of the only trial that took longer, from its histograms.
fn slower_than(run: &Run, milliseconds: f64) -> f64 {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    let record = run.record();
    let figures = &record[1]["stages"][0]["measurement"]["operations"]["get"];
    let hdr = text(&figures["response"]["hdr"]);
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, hdr).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
    let nanoseconds = (milliseconds * 1e6) as u64;
    histogram.count_between(nanoseconds, u64::MAX) as f64
}

#[test]
fn delay_shows_in_latency() {
    let delay = canary("delay: 50ms", GETS, "{clients: 8, stop: {operations: 200}}");
    assert_eq!(delay.figure("errors"), 0.0);
    assert!(delay.figure("response_min_ms") >= 45.0, "{}", delay.trial());
    assert!(delay.figure("service_p50_ms") >= 45.0);
    // Closed load: eight clients at 50 ms cannot exceed 160/s.
    assert!(delay.figure("throughput_mean_per_second") <= 170.0);
}

#[test]
fn delay_of_a_tenth_shows_only_in_the_tail() {
    let options = "delay: 300ms, delay-share: 5%";
    let run = canary(options, GETS, "{clients: 16, stop: {operations: 1200}}");
    assert!(run.figure("response_p99_ms") >= 280.0, "{}", run.trial());
    assert!(run.figure("response_p50_ms") < 250.0, "{}", run.trial());
}

#[test]
fn server_death_shows_as_errors_and_outage() {
    let load = "{clients: 4, warmup: 0s, stop: {after: 4s}, timeout: 500ms}";
    // With a delay, each client is almost always waiting for an answer, also when the server dies.
    let run = canary("die-after: 2s, delay: 5ms", GETS, load);
    assert!(run.figure("requests_verified") > 0.0, "{}", run.trial());
    // Requests in flight at its death are repeated, and find no server.
    assert!(run.figure("errors_refused") >= 4.0, "{}", run.trial());
    assert!(run.figure("connections_lost") > 4.0, "{}", run.trial());
    // Four clients for about two seconds each.
    let disconnected = run.figure("disconnected_seconds");
    assert!((2.0..17.0).contains(&disconnected), "{disconnected}");
    // The outage stays visible: the slowest response is a full timeout.
    let slowest = run.trial()["figures"]["at_least"]["response_max_ms"].as_f64();
    assert!(slowest.is_some_and(|slowest| slowest >= 490.0), "{}", run.trial());
    let events = array(&run.trial()["events"]);
    let ended = events.iter().find(|event| event["what"] == "canary-1 had ended by itself");
    let at = ended.and_then(|event| event["at_seconds"].as_f64());
    // Sampled once a second.
    assert!(at.is_some_and(|at| (2.0..4.5).contains(&at)), "{events:#?}");
}

#[test]
fn server_death_while_filling_ends_the_trial() {
    let filled = "{mix: {get: 1}, keys: {count: 100000}}";
    let began = std::time::Instant::now();
    let run =
        canary("delay: 10ms, die-after: 700ms", filled, "{clients: 1, stop: {operations: 1}}");
    let why = run.invalid_because();
    assert!(why.contains("`canary-1` ended with exit code "), "{why}");
    assert!(why.contains(" of 100,000 keys had been written before the load"), "{why}");
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn dropped_operations_of_a_lost_server_are_counted() {
    let _alone = alone();
    let load = "{clients: 4, rate: 100/s, warmup: 0s, stop: {after: 4s}, timeout: 500ms}";
    let run = canary("die-after: 2s", GETS, load);
    let all = run.figure("requests_verified") + run.figure("errors");
    assert!((390.0..=401.0).contains(&all), "{all} of 400 are accounted for: {}", run.trial());
    // Operations that waited for a connection for their timeout have failed. Those due in the last half second were
    // still waiting at the end.
    assert!(run.figure("errors_refused") > 50.0, "{}", run.trial());
    let dropped = run.figure("errors_dropped");
    assert!((10.0..100.0).contains(&dropped), "{dropped} dropped: {}", run.trial());
}

#[test]
fn late_answer_is_a_timeout() {
    let options = "delay: 3s, delay-share: 10%";
    let run = canary(options, GETS, "{clients: 4, stop: {operations: 60}, timeout: 300ms}");
    assert!(run.figure("errors_timeout") >= 1.0, "{}", run.trial());
    assert_eq!(run.figure("requests_verified") + run.figure("errors_timeout"), 60.0);
    let slowest = run.trial()["figures"]["at_least"]["response_max_ms"].as_f64();
    let waited = slowest.is_some_and(|slowest| slowest >= 300.0);
    assert!(waited, "a timeout is as slow as it had waited: {}", run.trial());
}

#[test]
fn key_whose_read_fails_is_read_again() {
    // A twentieth of the answers are errors, also those of an audit.
    let run = canary("error: 5%, sync: none", ONCE, "{clients: 4, stop: {operations: 2000}}");
    let why = run.invalid_because();
    assert!(!why.contains("read back") && !why.contains("servers"), "{why}");
    assert_eq!(found(&run, AUDITS[0], "unreadable"), 0);
    assert!((20..300).contains(&found(&run, AUDITS[0], "repeated")));
    assert_eq!(run.audit(AUDITS[0]), "passed");
}

#[test]
fn short_window_after_a_short_warm_up_is_not_steady() {
    // Answers take thirty times as long at first, and less and less for two seconds.
    let load = "{clients: 4, warmup: 500ms, stop: {after: 2500ms}}";
    let run = canary("delay: 2ms, warm-up: 2s, sync: none", UPDATES_ONLY, load);
    is_invalid(&run, &["stationary: throughput was 0.", "the warm-up of 500ms was too short"]);
    assert!(run.ran.stdout.contains("the first 3s after a start"), "{}", run.ran.stdout);
    assert!(run.ran.stderr.contains("what helps: raise `warmup`"), "{}", run.ran.stderr);
}
