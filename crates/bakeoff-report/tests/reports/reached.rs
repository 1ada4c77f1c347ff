//! Tests percentiles that are not compared: failures reach them, or they depend on how long the load ran.

use std::time::Duration;

use bakeoff_core::measurement::{ErrorKind, Measurement};
use bakeoff_core::record::Record;
use bakeoff_core::study::{Arrivals, Operation, Stop};
use bakeoff_report::{self as report, Report};
use serde_json::Value;

use super::building::{Trials as _, closed, measured, record, study, workload};
use super::{PLAIN, full, millis, put};

fn judgements(record: &Record, quantity: &str) -> Vec<Value> {
    let json = report::json(&Report::new(record));
    let all = json["comparisons"][0]["judgements"].as_array().expect("judgements").clone();
    all.into_iter().filter(|one| one["quantity"] == quantity).collect()
}

/// Returns a record in which one system answers everything in 100 ms. Of the other, half of the requests fail after
/// half a second, and the rest take 12 ms.
fn gate() -> Record {
    let load = closed("users", &[64], Stop::After(Duration::from_secs(4)));
    let create = workload("create", &[(Operation::Put, 1)], "users");
    let mut record = record(study(&["steady", "failing"], create, load, 5));
    for round in 0..5 {
        record.run("steady", vec![(64, put(600 + round, 4, millis(100)))]);
        let mut failing = put(600 + round, 4, millis(12));
        let figures = failing.operations.get_mut("put").unwrap();
        figures.failed.record_many(millis(503), figures.verified * 49 / 51);
        figures.errors.entry(ErrorKind::Status).or_default().count = figures.failed.count();
        record.run("failing", vec![(64, failing)]);
    }
    record
}

#[test]
fn percentile_that_failures_reach_is_not_compared() {
    let record = gate();
    let [p99] = judgements(&record, "response_p99_ms").try_into().unwrap();
    assert_eq!(p99["verdict"], "not-judged", "{p99}");
    let words = p99["words"].as_str().unwrap();
    let why = "not judged: failing had failures, which reach it (49.0 % failed)";
    assert!(words.ends_with(why), "{words}");
    // The median of all operations is among its slowest successes, so the other system is faster.
    assert_eq!(judgements(&record, "response_p50_ms")[0]["verdict"], "lower");
    let text = full(&Report::new(&record), &PLAIN);
    let row = text.lines().find(|line| line.contains("response time p99 ")).unwrap();
    assert!(row.contains("none: 49.0 % failed; those after 503 ms"), "{row}");
    let alone = text.lines().find(|line| line.contains("p99 of successes")).unwrap();
    assert!(alone.contains(" ms") && !alone.contains("none"), "{alone}");
    let json = report::json(&Report::new(&record));
    let figure = &json["comparisons"][0]["systems"][1]["figures"]["response_p99_ms"];
    assert_eq!(figure["median"], Value::Null);
    assert_eq!(figure["none_because"], "49.0 % failed; those after 503 ms");
    assert!(report::csv(&Report::new(&record)).contains("response_p99_ms: 49.0 % failed"));
}

/// Returns a record of an open load. The second system answers the share `in_time` of it.
fn overloaded(in_time: f64) -> Record {
    let load = bakeoff_core::study::Load {
        arrivals: Arrivals::Constant { rate: 600.0 },
        ..closed("offered", &[64], Stop::After(Duration::from_secs(4)))
    };
    let create = workload("create", &[(Operation::Put, 1)], "offered");
    let mut record = record(study(&["quick", "slow"], create, load, 5));
    let offered = |round: u64, times: u64, in_time: f64| -> Measurement {
        let mut of = measured("put", 600, Duration::from_secs(4), millis(2));
        let figures = of.operations.get_mut("put").unwrap();
        figures.response.clear();
        for n in 0..figures.verified {
            figures
                .response
                .record(Duration::from_micros((2000 + n * times) * (100 + round) / 100));
        }
        figures.verified_in_window = (figures.verified as f64 * in_time) as u64;
        of
    };
    for round in 0..5 {
        record.run("quick", vec![(64, offered(round, 1, 1.0))]);
        record.run("slow", vec![(64, offered(round, 400, in_time))]);
    }
    record
}

#[test]
fn response_times_of_a_system_that_fell_behind_are_not_compared() {
    let record = overloaded(0.7);
    for quantity in ["response_p50_ms", "response_p99_ms"] {
        let [one] = judgements(&record, quantity).try_into().unwrap();
        assert_eq!(one["verdict"], "not-judged", "{one}");
        let words = one["words"].as_str().unwrap();
        assert!(words.contains("slow fell behind the offered rate"), "{words}");
    }
    let report = Report::new(&record);
    let wording = "slow fell behind the offered rate under create/offered";
    assert!(
        report.findings().iter().any(|one| one.starts_with(wording)),
        "{:?}",
        report.findings()
    );
    let kept_up = overloaded(1.0);
    assert_eq!(judgements(&kept_up, "response_p99_ms")[0]["verdict"], "lower");
    assert!(Report::new(&kept_up).findings().iter().all(|one| !one.contains("fell behind")));
}

/// Returns a record of a sweep with equal response times at each number of clients; one system does more with few.
fn sweep() -> Record {
    let load = closed("sweep", &[1, 16], Stop::After(Duration::from_secs(8)));
    let create = workload("create", &[(Operation::Put, 1)], "sweep");
    let mut record = record(study(&["even", "uneven"], create, load, 5));
    for round in 0..5u64 {
        let wait = |ms: u64, by: u64| Duration::from_micros(ms * 1000 + 10 * ((round + by) % 3));
        let stages = |few, by| vec![(1, put(few, 4, wait(2, by))), (16, put(600, 4, wait(9, by)))];
        record.run("even", stages(300, 0));
        record.run("uneven", stages(1200 + round, 1));
    }
    record
}

#[test]
fn sweep_is_judged_by_stage() {
    let record = sweep();
    for quantity in ["response_p50_ms", "response_p99_ms"] {
        let stages = judgements(&record, quantity);
        let verdicts: Vec<(&Value, &Value)> =
            stages.iter().map(|one| (&one["stage"]["clients"], &one["verdict"])).collect();
        let none = Value::from("none-shown");
        assert_eq!(verdicts, [(&1.into(), &none), (&16.into(), &none)], "{quantity}");
    }
    // Percentiles of all stages together depend on the number of operations in each.
    let json = report::json(&Report::new(&record));
    let mixed = |system: usize| {
        let figures = &json["comparisons"][0]["systems"][system]["figures"];
        figures["response_p50_ms"]["median"].as_f64().unwrap()
    };
    assert!(mixed(0) > 2.0 * mixed(1), "{} and {}", mixed(0), mixed(1));
    // The throughput of the whole sweep leads; those of its stages are in the same family.
    let rates = judgements(&record, "throughput_mean_per_second");
    let verdicts: Vec<(bool, &Value, &Value)> = rates
        .iter()
        .map(|one| (one["leading"] == true, &one["stage"]["clients"], &one["verdict"]))
        .collect();
    let (lower, none) = (Value::from("lower"), Value::from("none-shown"));
    let expected = [
        (true, &Value::Null, &lower),
        (false, &Value::from(1), &lower),
        (false, &Value::from(16), &none),
    ];
    assert_eq!(verdicts, expected);
    assert_eq!(rates[0]["corrected_for"], 9, "three rates, four percentiles, CPU and memory");
    let text = full(&Report::new(&record), &PLAIN);
    assert!(text.contains("\n response time p99, 16 clients "), "{text}");
}

#[test]
fn stages_with_other_clients_are_not_compared() {
    let mut record = sweep();
    record.header.study.loads[0].clients_for = [("uneven".to_owned(), vec![1, 8])].into();
    let stages = judgements(&record, "response_p99_ms");
    assert_eq!(stages[0]["verdict"], "none-shown");
    assert_eq!(stages[1]["verdict"], "not-judged");
    assert!(stages[1]["words"].as_str().unwrap().ends_with("uneven had 8 clients there"));
}
