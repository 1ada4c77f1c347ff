//! Tests that the engine's measurements add up: counts to the last operation, histograms to the last value.
//!
//! Nothing here depends on how quick the machine is. Seen from outside, through the record, against
//! the canary.

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::support::{Bench, array, decode};

/// The stages of the one trial of a canary.
fn stages(options: &str, workload: &str, load: &str, threads: u32) -> Vec<Value> {
    let bench = Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary, options: {{{options}}}}}}}\n\
         workloads: {{work: {workload}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ));
    let mut command = bench.command();
    crate::support::Ran::run(command.args(["--threads", &threads.to_string()])).ends_with(0);
    let stages = bench.record()[1]["stages"].clone();
    array(&stages).to_vec()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

const MIXED: &str = "{mix: {put: 50, get: 45, list: 5}, keys: {count: 100, per-directory: 20}}";

#[test]
fn counted_load_does_exactly_its_operations_on_any_threads() {
    for (clients, threads, load) in [(1, 1, ""), (7, 2, ""), (5, 4, ""), (7, 3, ", rate: 2000/s")] {
        let load = format!("{{clients: {clients}{load}, stop: {{operations: 997}}}}");
        let stages = stages("", MIXED, &load, threads);
        let measured = &stages[0]["measurement"];
        let operations = measured["operations"].as_object().unwrap();
        let verified: u64 = operations.values().map(|of| count(&of["verified"])).sum();
        assert_eq!(verified, 997, "{clients} clients, {threads} threads");
        assert_eq!(count(&measured["generator_threads"]), u64::from(threads.min(clients)));
    }
}

#[test]
fn a_sweep_shares_its_operations_among_its_stages_to_the_last() {
    let stages = stages("", MIXED, "{clients: [1, 2, 5], stop: {operations: 1000}}", 2);
    let clients: Vec<u64> = stages.iter().map(|stage| count(&stage["clients"])).collect();
    assert_eq!(clients, [1, 2, 5]);
    let of = |stage: &Value| -> u64 {
        let operations = stage["measurement"]["operations"].as_object().unwrap();
        operations.values().map(|of| count(&of["verified"])).sum()
    };
    assert_eq!(stages.iter().map(of).sum::<u64>(), 1000);
    assert!(stages.iter().all(|stage| (333..=334).contains(&of(stage))));
}

#[test]
fn seconds_add_up_to_the_whole_histogram_by_histogram() {
    for load in
        ["clients: 3", "clients: 6, rate: 300/s", "clients: 4, rate: 300/s, arrivals: poisson"]
    {
        let load = format!("{{{load}, stop: {{after: 2500ms}}, warmup: 300ms}}");
        let stages = stages("delay: 4ms", MIXED, &load, 2);
        let measured = &stages[0]["measurement"];
        assert_eq!(seconds(&measured["window"]), 2.5, "as long as was asked for, by definition");
        assert!(count(&measured["warmup_operations"]) > 0, "{load}");
        for (name, whole) in measured["operations"].as_object().unwrap() {
            for kind in ["response", "service"] {
                let mut sum = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
                let mut verified = 0;
                for second in array(&measured["seconds"]) {
                    let Some(of) = second["operations"].get(name) else { continue };
                    sum.add(decode(&of[kind])).unwrap();
                    verified += count(&of["verified"]);
                }
                assert_eq!(verified, count(&whole["verified_in_window"]), "{name}");
                assert_eq!(sum, decode(&whole[kind]), "{name} {kind} under {load}");
            }
            let successes = decode(&whole["service"]).len();
            assert_eq!(successes, count(&whole["verified"]), "one value for each success");
        }
    }
}

#[test]
fn no_operation_is_done_before_it_was_sent_nor_sent_before_it_was_due() {
    let load = "{clients: 4, rate: 400/s, warmup: 0s, stop: {after: 2s}}";
    let stages = stages("delay: 10ms", "{mix: {get: 1}, keys: {count: 50}}", load, 2);
    let measured = &stages[0]["measurement"];
    let get = &measured["operations"]["get"];
    let (response, service) = (decode(&get["response"]), decode(&get["service"]));
    // 4 clients that wait 10 ms each cannot have 400 a second: those that were never sent are among
    // what never got an answer, with the time that they had waited.
    let dropped = get["errors"]["unsent"]["count"].as_u64().unwrap_or(0);
    assert_eq!(response.len(), service.len());
    assert_eq!(decode(&get["unanswered"]).len(), dropped);
    assert_eq!(response.len() + dropped, 800, "400 a second for 2 s");
    assert!(service.min() >= 9_900_000, "{} ns", service.min());
    for quantile in [0.01, 0.1, 0.5, 0.9, 0.99, 1.0] {
        let (response, service) =
            (response.value_at_quantile(quantile), service.value_at_quantile(quantile));
        assert!(
            response >= service,
            "p{quantile}: {response} ns of response, {service} of service"
        );
    }
}

#[test]
fn a_closed_load_waits_for_each_answer_so_response_and_service_are_one() {
    let load = "{clients: 4, stop: {operations: 400}}";
    let stages = stages("delay: 10ms", "{mix: {get: 1}, keys: {count: 50}}", load, 1);
    let measured = &stages[0]["measurement"];
    let get = &measured["operations"]["get"];
    let (response, service) = (decode(&get["response"]), decode(&get["service"]));
    // Only what the generator itself needs lies between: far less than the answer's 10 ms.
    let between = response.value_at_quantile(0.5) as f64 / service.value_at_quantile(0.5) as f64;
    assert!((0.99..1.5).contains(&between), "{between}");
    assert_eq!(decode(&measured["slip"]).len(), 0, "a closed load is never late");
    // A client's operations follow each other: all their times lie one after another.
    let waited = service.mean() * service.len() as f64 / 1e9;
    let (window, clients) = (seconds(&measured["window"]), 4.0);
    assert!(waited <= window * clients * 1.01, "{waited} s waited in {window} s by {clients}");
}
