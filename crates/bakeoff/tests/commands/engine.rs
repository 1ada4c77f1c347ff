//! Tests that the engine's measurements add up: counts to the last operation, histograms to the last value.
//!
//! The tests read the record of runs against the canary, and do not depend on the speed of the machine.

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::support::{Bench, array, decode};

/// Returns the stages of a canary's only trial.
fn stages(options: &str, workload: &str, load: &str, threads: u32) -> Vec<Value> {
    let bench = Bench::new(&format!(
        "title: A canary\n\
         systems: {{canary: {{kind: canary, options: {{{options}}}}}}}\n\
         workloads: {{work: {workload}}}\n\
         loads: {{load: {load}}}\n\
         trials: 1\n"
    ));
    let mut command = bench.command();
    crate::support::CommandOutput::run(command.args(["--threads", &threads.to_string()]))
        .ends_with(0);
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
fn counted_load_runs_exactly_its_operations_on_any_threads() {
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
fn sweep_splits_all_operations_among_its_stages() {
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
fn histograms_per_second_add_up_to_the_total() {
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
fn due_sent_and_done_times_are_in_order() {
    let load = "{clients: 4, rate: 400/s, warmup: 0s, stop: {after: 2s}}";
    let stages = stages("delay: 10ms", "{mix: {get: 1}, keys: {count: 50}}", load, 2);
    let measured = &stages[0]["measurement"];
    let get = &measured["operations"]["get"];
    let (response, service) = (decode(&get["response"]), decode(&get["service"]));
    // Four clients at 10 ms cannot exceed 400/s. Unsent operations count as unanswered, with the time they waited.
    let dropped = get["errors"]["dropped"]["count"].as_u64().unwrap_or(0);
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
fn response_equals_service_time_in_a_closed_load() {
    let load = "{clients: 4, stop: {operations: 400}}";
    let stages = stages("delay: 10ms", "{mix: {get: 1}, keys: {count: 50}}", load, 1);
    let measured = &stages[0]["measurement"];
    let get = &measured["operations"]["get"];
    let (response, service) = (decode(&get["response"]), decode(&get["service"]));
    // The difference is the generator's own time, far below the 10 ms of an answer.
    let between = response.value_at_quantile(0.5) as f64 / service.value_at_quantile(0.5) as f64;
    assert!((0.99..1.5).contains(&between), "{between}");
    assert_eq!(decode(&measured["schedule_lag"]).len(), 0, "a closed load is never late");
    // A client's operations do not overlap, so their times add up.
    let waited = service.mean() * service.len() as f64 / 1e9;
    let (window, clients) = (seconds(&measured["window"]), 4.0);
    assert!(waited <= window * clients * 1.01, "{waited} s waited in {window} s by {clients}");
}
