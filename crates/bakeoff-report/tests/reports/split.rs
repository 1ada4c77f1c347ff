//! Tests loads whose writes and reads go to separate nodes: each half is judged, and their sum is not.

use std::time::Duration;

use bakeoff_core::measurement::Measurement;
use bakeoff_core::record::{Gate, Record};
use bakeoff_core::study::{Arrivals, Operation, Routing, Stop, Targets};
use bakeoff_report::compare::{GateOutcome, RunComparison};
use bakeoff_report::comparison;
use bakeoff_report::{Report, json};
use serde_json::Value;

use crate::building::{Trials as _, closed, measured, record, study, workload};

/// Returns a measurement of concurrent writes and reads at these rates for four seconds.
fn halves(writes: u64, reads: u64) -> Measurement {
    let half = |operation, rate| {
        measured(operation, rate, Duration::from_secs(4), Duration::from_millis(2))
    };
    let mut whole = half("put", writes);
    whole.add_next_to(&half("get", reads));
    whole
}

/// Returns a record of seven rounds with these writes and reads per second.
fn run(systems: [(&str, u64, u64); 2], split: bool, arrivals: Arrivals) -> Record {
    let mut load = closed("busy", &[8], Stop::After(Duration::from_secs(4)));
    load.arrivals = arrivals;
    if split {
        load.targets = Routing::Split { writes: Targets::Leader, reads: Targets::Followers };
    }
    let mixed = workload("mixed", &[(Operation::Put, 1), (Operation::Get, 9)], "busy");
    let mut record = record(study(&systems.map(|(name, ..)| name), mixed, load, 7));
    for round in 0..7 {
        for (place, (name, writes, reads)) in (0..).zip(systems) {
            let luck = (round * 3 + place) % 4;
            record.run(name, vec![(8, halves(writes + luck, reads + 5 * luck))]);
        }
    }
    record
}

/// Returns a record in which `etcd` writes half as much as `zookeeper`, but its sum with reads is higher.
fn unequal(split: bool) -> Record {
    run([("etcd", 300, 3600), ("zookeeper", 600, 3000)], split, Arrivals::Closed)
}

fn judgements(record: &Record) -> Vec<Value> {
    let json = json(&Report::new(record));
    let all = json["comparisons"][0]["judgements"].as_array().unwrap();
    all.clone()
}

#[test]
fn slow_writes_are_not_hidden_by_the_sum() {
    let whole = Report::new(&unequal(false)).sentence().to_owned();
    assert!(whole.contains("etcd sustained 1.085 times zookeeper's operations"), "{whole}");
    let split = Report::new(&unequal(true)).sentence().to_owned();
    assert!(split.contains("zookeeper sustained 1.99 times etcd's writes per second"), "{split}");
    assert!(split.contains("etcd sustained 1.20 times zookeeper's reads per second"), "{split}");
    assert!(!split.contains("operations per second"), "{split}");
}

#[test]
fn halves_are_judged_and_the_sum_is_not() {
    let quantity = |one: &Value| one["quantity"].as_str().unwrap().to_owned();
    let asked: Vec<String> = judgements(&unequal(true)).iter().map(quantity).collect();
    for expected in [
        "writes_throughput_mean_per_second",
        "reads_throughput_mean_per_second",
        "writes_response_p99_ms",
        "reads_response_p99_ms",
    ] {
        assert!(asked.iter().any(|one| one == expected), "{expected}: {asked:?}");
    }
    for mixed in ["throughput_mean_per_second", "response_p99_ms", "server_cpu_per_operation_ms"] {
        assert!(!asked.iter().any(|one| one == mixed), "{mixed}: {asked:?}");
    }
    let asked: Vec<String> = judgements(&unequal(false)).iter().map(quantity).collect();
    assert!(asked.iter().all(|one| !one.starts_with("writes") && !one.starts_with("reads")));
}

/// Returns the record of a gate; `base` and `new` are writes and reads per second.
fn gate(base: (u64, u64), new: (u64, u64), fail_if: &[&str]) -> Record {
    let systems = [("base", base.0, base.1), ("new", new.0, new.1)];
    let mut record = run(systems, true, Arrivals::Closed);
    record.header.gate = Some(Gate {
        system: "etcd".to_owned(),
        fail_if: fail_if.iter().map(|one| (*one).to_owned()).collect(),
        detect: 0.05,
        trials_max: None,
    });
    record
}

#[test]
fn gate_stops_a_build_with_slower_writes_and_an_equal_sum() {
    let gated = |record: &Record| {
        let compared = RunComparison::gate(record).unwrap();
        (compared.passed().unwrap(), comparison::markdown(&compared))
    };
    let (passed, text) = gated(&gate((600, 3000), (500, 3100), &[]));
    assert_eq!(passed, GateOutcome::No, "{text}");
    assert!(
        text.contains("writes: throughput mean /s is lower by more than 1.00 %: proven"),
        "{text}"
    );
    let (passed, text) = gated(&gate((600, 3000), (600, 3000), &[]));
    assert_eq!(passed, GateOutcome::Yes, "{text}");
    let (passed, text) = gated(&gate((600, 3000), (500, 3100), &["writes throughput < -5%"]));
    assert_eq!(passed, GateOutcome::No, "{text}");
    let (passed, text) = gated(&gate((600, 3000), (500, 3100), &["throughput < -5%"]));
    assert_eq!(passed, GateOutcome::CannotTell, "{text}");
    assert!(text.contains("it mixes writes and reads, which ran at different speeds"), "{text}");
}

#[test]
fn two_runs_are_compared_by_half() {
    let (base, new) = (unequal(true), unequal(true));
    let conditions: Vec<bakeoff_report::compare::FailIf> =
        ["writes throughput < -5%", "throughput < -5%"]
            .iter()
            .map(|one| one.parse().unwrap())
            .collect();
    let json = comparison::json(&RunComparison::new(&base, &new, &[], &conditions));
    let changes = json["comparisons"][0]["changes"].as_array().unwrap();
    let of = |quantity: &str| changes.iter().find(|one| one["quantity"] == quantity).unwrap();
    assert!(of("writes_throughput_mean_per_second")["change"].is_number());
    assert!(of("throughput_mean_per_second")["change"].is_null());
    let json = comparison::json(&RunComparison::new(&base, &new, &[], &[]));
    let changes = json["comparisons"][0]["changes"].as_array().unwrap();
    assert!(changes.iter().all(|one| one["quantity"] != "throughput_mean_per_second"));
}

#[test]
fn falling_behind_in_one_half_is_not_hidden_by_the_other() {
    let arrivals = Arrivals::Constant { rate: 3300.0 };
    let kept_up = run([("etcd", 300, 3000), ("zookeeper", 300, 3000)], true, arrivals);
    let sentence = Report::new(&kept_up).sentence().to_owned();
    assert!(sentence.contains("kept up with what was offered"), "{sentence}");
    assert!(
        sentence.contains("writes per second") && sentence.contains("reads per second"),
        "{sentence}"
    );
    let mut behind = kept_up;
    // 5 % of the writes are 0.5 % of all operations.
    for trial in behind.trials.iter_mut().filter(|trial| trial.trial.system == "etcd") {
        let put = trial.stages[0].measurement.operations.get_mut("put").unwrap();
        put.verified_in_window -= put.verified_in_window / 20;
    }
    let sentence = Report::new(&behind).sentence().to_owned();
    assert!(sentence.contains("zookeeper sustained 1.048 times etcd's writes"), "{sentence}");
}
